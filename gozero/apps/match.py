"""``gozero match``: many games at once between two players, programs or ours, and their score."""

from __future__ import annotations

import dataclasses
import sys

from gozero.apps import flags, match_score, runtime
from gozero.apps.match_config import SIDES, MatchConfig
from gozero.apps.match_folder import MatchFolder
from gozero.apps.match_programs import player_names
from gozero.apps.progress import Progress

PROG = "gozero match"
__all__ = ["MatchConfig", "run"]


def run(config: MatchConfig) -> int:
    """Play the games that are left; the exit status: 0, or 130 if it was stopped before the last.

    Raises:
      SystemExit: one line and status 2 for what cannot be: flags, a folder of another match, a
        program that is missing or refuses, openings or weights that are bad. One line and status 1
        if the device has not the memory, or the folder cannot be written any more.
    """
    with runtime.gone_if_empty(config.out):
        try:
            names = player_names(config)
            match = _Match(config, names)
        except ValueError as error:
            flags.fail(PROG, error)
        with match.folder:
            try:
                return match.play()
            except OSError as error:
                flags.fail(PROG, error, status=1)
            except RuntimeError as error:  # JAX's is one
                if not runtime.is_out_of_memory(error):
                    raise
                flags.fail(PROG, "out of memory; lower --parallel or --simulations of ours", 1)


class _Match:
    """A match and its folder."""

    def __init__(self, config: MatchConfig, names: tuple[str, str]):
        runtime.cores_as_devices()
        from gozero.apps import match_openings  # JAX, not before the programs are known to play
        from gozero.apps.host_game import roomy_limit
        from gozero.apps.match_ours import Ours
        from gozero.go.rules import Rules

        self.config, self.names = config, names
        limit = roomy_limit(config.size) if config.max_moves is None else config.max_moves
        self.rules = Rules(config.size, config.ko, max_moves=limit)
        self.openings = match_openings.make_openings(config, self.rules)
        self.ours = Ours(config, self.rules)
        self.folder = MatchFolder(config, self.ours.about, self.openings.sha256)

    def play(self) -> int:
        from gozero.apps.match_play import play_games

        config, folder = self.config, self.folder
        todo = [number for number in range(config.games) if number not in folder.games]
        facts = {
            **runtime.manifest(config.seed),
            **dict(zip(SIDES, self.names, strict=True)),
            "evaluators": self.ours.about,
            "openings_sha256": self.openings.sha256,
        }
        if todo:
            facts = runtime.with_sessions(facts, folder.before, len(folder.games))
            folder.write_manifest({**facts, "state": "running"})
            self._play(play_games, todo)
        else:
            facts |= folder.before
        summary = match_score.summarise(folder.games.values(), self.config.paired)
        complete = len(folder.games) == config.games
        state = "complete" if complete else "stopped"
        folder.write_manifest({**facts, "state": state})
        names = dict(zip(SIDES, self.names, strict=True))
        runtime.write_json(config.out / "summary.json", {"state": state, **names, **summary})
        said = [match_score.table(summary, self.names)]
        if not complete:
            left = config.games - len(folder.games)
            said.append(f"stopped; {left} games are left, which the same command plays")
        runtime.tell("\n".join([*said, f"games in {config.out / 'games'}"]))
        return 0 if complete else runtime.STOPPED

    def _play(self, play_games, todo: list[int]) -> None:
        config, folder, total = self.config, self.folder, self.config.games
        if len(todo) < total:
            print(f"{total - len(todo)} games are played; going on", file=sys.stderr)
        config = dataclasses.replace(config, parallel=min(config.parallel, len(todo)))
        self.ours.prepare(config.parallel, folder.session)
        with runtime.StopRequest() as stop, Progress("match", total, total - len(todo)) as progress:

            def finished(game, record) -> None:
                folder.add(game, record)
                summary = match_score.summarise(folder.games.values(), self.config.paired)
                progress.show(len(folder.games), match_score.line(summary))

            try:
                play_games(
                    config, self.rules, self.names, self.openings, self.ours, todo, finished, stop
                )
            except KeyboardInterrupt:
                stop.requested = True
