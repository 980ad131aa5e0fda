"""``gozero match``: many games at once between two players, programs or our own; their score."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import sys
from collections.abc import Callable

from gozero.apps import flags, runtime
from gozero.apps.match import score as match_score
from gozero.apps.match.config import SIDES, MatchConfig, Side
from gozero.apps.match.folder import SUMMARY, MatchFolder
from gozero.apps.match.gtp_opponent import allow_open_files, player_names
from gozero.games import registry
from gozero.runs import files
from gozero.runs import folder as folders
from gozero.runs.memory import DoesNotFit
from gozero.runs.progress import Progress

PROG = "gozero match"
__all__ = ["MatchConfig", "run"]


def run(config: MatchConfig) -> int:
    """Play the remaining games; the exit status is 0, or 130 if stopped before the last one.

    Raises:
      SystemExit: one line and status 2 for a bad request: no side given, flags that do not go
        together, a folder of another match, a program that is missing or refuses the game, more
        games at once than the limit of open files or the memory allows, bad openings or weights.
        One line and status 1 if the device is out of memory, the folder cannot be written, or a
        program cannot be started any more.
    """
    if config.player == config.opponent == Side() and not (config.out / "config.json").exists():
        flags.fail(
            PROG,
            "define the two sides by --player.FLAG and --opponent.FLAG: --player.simulations "
            '800 --opponent.command "gnugo --mode gtp"',
        )
    with folders.removed_if_empty(config.out):
        with flags.exit_on_error(PROG):
            names = player_names(config)
            allow_open_files(config)
            _announce(config)
            match = _Match(config, names)
        with match.folder:
            try:
                return match.play()
            except DoesNotFit as error:  # what was free is taken now
                flags.fail(PROG, error)
            except OSError as error:
                flags.fail(PROG, error, status=1)
            except RuntimeError as error:  # JAX's errors are among these
                if not runtime.is_out_of_memory(error):
                    raise
                flags.fail(PROG, "out of memory; lower --parallel or our side's --simulations", 1)


def _announce(config: MatchConfig) -> None:
    """Print notices before JAX is imported, which takes seconds.

    Raises:
      ValueError: there is no such game.
    """
    if config.game != "go":
        registry.check(config.game, config.size)
    if _is_complete(config):
        return
    for name, side in zip(SIDES, config.sides, strict=True):
        if side.is_random:
            message = runtime.random_network_message(f"--{name}.weights", config.game)
            print(f"{name}: {message}", file=sys.stderr)
    if any(side.command is None for side in config.sides):
        katago = any(side.uses_katago_network for side in config.sides)
        message = runtime.compiling_message(config.size, config.game, katago)
        print(message, file=sys.stderr, flush=True)


def _is_complete(config: MatchConfig) -> bool:
    """Whether the folder records this match as complete, with as many games and retries."""
    try:
        state, before = (
            files.parse_json((config.out / name).read_bytes())
            for name in ("manifest.json", "config.json")
        )
        is_same = (before["games"], before["retries"]) == (config.games, config.retries)
        return state["state"] == "complete" and is_same
    except (OSError, ValueError, KeyError, TypeError):
        return False


class _Match:
    """A match and its folder."""

    def __init__(self, config: MatchConfig, names: tuple[str, str]):
        runtime.cores_as_devices()
        from gozero.apps.host_game import ample_move_limit
        from gozero.apps.match import (
            openings as match_openings,  # imports JAX: not before the programs are known to play
        )
        from gozero.apps.match.ours import evaluators, make_sides
        from gozero.go.rules import Rules

        self.config, self.names = config, names
        if config.game == "go":
            assert config.size is not None  # set when it was made
            limit = ample_move_limit(config.size) if config.max_moves is None else config.max_moves
            remember = any(side.needs_past_boards for side in config.sides)
            self.rules = game = Rules(config.size, config.ko, max_moves=limit, remember=remember)
        else:
            self.rules = registry.named_game(config.game, config.size)
            game = self.rules.game
        self.openings = match_openings.make_openings(config, game)
        self.sides = make_sides(config, game)
        if not _is_complete(config):
            self._check_memory()  # before the folder is made
        self.evaluators = evaluators(self.sides)
        self.folder = MatchFolder(config, self.evaluators, self.openings.sha256, names)

    def _check_memory(self) -> None:
        """Raises DoesNotFit if the trees of a side take more memory than there is."""
        config = self.config
        lanes = -(-min(config.parallel, config.games) // 2)
        for side, player in zip(config.sides, self.sides, strict=True):
            if player is not None:
                # Reused trees of both batches are kept, and those of one are copied: three times
                # a batch's, where `describe_memory` expects two.
                player.describe_memory(lanes + lanes // 2 if side.reuse else lanes)

    def play(self) -> int:
        config, folder = self.config, self.folder
        todo = [number for number in range(config.games) if self._is_open(number)]
        facts = {
            **folders.manifest(config.seed),
            **dict(zip(SIDES, self.names, strict=True)),
            "evaluators": self.evaluators,
            "openings_sha256": self.openings.sha256,
        }
        if todo:
            (config.out / SUMMARY).unlink(missing_ok=True)  # of fewer games
            facts = folders.with_sessions(facts, folder.manifest, len(folder.games))
            folder.write_manifest({**facts, "state": "running"})
            status = self._play(todo)
        else:
            status = 0
            facts |= folder.manifest
        summary = match_score.summarise(folder.games.values(), self.config.paired)
        num_left = sum(self._is_open(number) for number in range(config.games))
        state = "stopped" if num_left else "complete"
        folder.write_manifest({**facts, "state": state})
        names = dict(zip(SIDES, self.names, strict=True))
        files.write_json(config.out / SUMMARY, {"state": state, **names, **summary})
        colours = ("Black", "White") if config.game == "go" else ("first", "second")
        lines = [match_score.table(summary, self.names, colours)]
        if num_left:
            lines.append(f"stopped with {num_left} games left; the same command plays them")
            if summary["games"]:
                lines.append("short games end first, so this score and its interval are biased")
        runtime.print_result("\n".join([*lines, f"games in {config.out / 'games'}"]))
        return status if num_left else 0

    def _is_open(self, number: int) -> bool:
        """Whether a game is still to be played, or was void when --retries was lower."""
        game = self.folder.games.get(number)
        if game is None:
            return True
        return game.points is None and 1 + len(game.failures) <= self.config.retries

    def _play(self, todo: list[int]) -> int:
        """Play these games; returns the exit status if a signal has stopped them."""
        config, folder, total = self.config, self.folder, self.config.games
        before = total - len(todo)
        if config.player == config.opponent:
            print("the two sides are identical: expect a score of about one half", file=sys.stderr)
        if before:
            print(f"resuming after {before} games", file=sys.stderr)
        config = dataclasses.replace(config, parallel=min(config.parallel, len(todo)))
        play = self._player(config, todo)
        with (
            runtime.StopRequest() as stop,
            Progress("match", total, done=before) as progress,
        ):

            def finished(game, record) -> None:
                folder.add(game, record)
                done.append(game.game)
                numbers["score"] = score.text(folder.games.values(), len(done) == len(todo))
                progress.show(before + len(done), numbers, begun=config.parallel)

            def playing(games: int, ply: int) -> None:
                if len(done) < len(todo):
                    in_play = {"in play": f"{games}, ply {ply:,}"}
                    progress.show(before + len(done), {**numbers, **in_play}, begun=games)

            done: list[int] = []
            numbers: dict[str, str] = {}
            score = match_score.LiveScore(self.config.paired)
            with contextlib.suppress(KeyboardInterrupt):
                play(finished=finished, playing=playing, stop=stop)
        return stop.status

    def _player(self, config: MatchConfig, todo: list[int]) -> Callable[..., None]:
        """The compiled function that plays the games: on the device, or with programs."""
        from gozero.apps.match.ours import BatchedSide, play_on_device
        from gozero.apps.match.scheduler import play_games
        from gozero.go.rules import Rules

        match = config, self.rules, self.names, self.openings
        our_sides = [(i, player) for i, player in enumerate(self.sides) if player is not None]
        session = self.folder.session
        if len(our_sides) == 2:
            return functools.partial(play_on_device, *match, self.sides, todo, session=session)
        assert isinstance(self.rules, Rules)  # programs play Go
        side = BatchedSide(config, self.rules, *our_sides[0], session) if our_sides else None
        failed, failures = self.folder.add_failures, self.folder.failures
        return functools.partial(play_games, *match, side, todo, failed=failed, failures=failures)
