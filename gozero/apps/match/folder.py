"""A match on disk: its settings, every game that was played, and resuming after a kill.

A game's SGF is on disk before its line in ``results.jsonl``, and that line before the next game
begins: a kill or a power cut at any moment costs only the games in play. A torn last line is cut
off. ``failures.jsonl`` gets a line before each new attempt at a game whose program died, so that
earlier deaths still count after a stop. ``results.jsonl`` is locked while the match is played;
``config.json`` is read and written under that lock, so that a command that is refused leaves it
unchanged.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import pathlib
from collections.abc import Mapping, Sequence

from gozero.apps import sgf
from gozero.apps.match.config import SIDES, MatchConfig
from gozero.apps.match.score import GameLine
from gozero.play.player_config import FILES
from gozero.runs import folder as folders
from gozero.runs.files import add_line, cut_torn_line, read_lines, sync, write_whole
from gozero.runs.folder import RunFolder

RESULTS = "results.jsonl"
SUMMARY = "summary.json"
FAILURES = "failures.jsonl"
"""The file with the reasons why each attempt so far was void, for games to be replayed."""

_NAMES = {f"{side}.player" for side in SIDES}
"""The names of players; the settings that they stand for are compared."""

_MAY_DIFFER = {"parallel", "retries", "crash", "timeout", "out"} | _NAMES


class MatchFolder(RunFolder):
    """The folder of a match, new or to be resumed.

    Attributes:
      games: number -> game, for the games that have been played.
      failures: number -> why each attempt so far was void, for games with such attempts.
      session: the number of earlier starts of the match.

    Args:
      config: the match.
      evaluators: descriptions of the evaluators of our sides, by side name; their files are
        compared by SHA-256.
      openings_sha256: the digest of the openings, if they come from files.
      names: the names of the sides, as the programs report them.

    Raises:
      ValueError: as for `RunFolder`, or the folder's match has other openings, or was played by
        other programs or with other FILES.
    """

    def __init__(
        self,
        config: MatchConfig,
        evaluators: dict[str, dict] | None = None,
        openings_sha256: str | None = None,
        names: tuple[str, str] | None = None,
    ):
        settings = _as_json(config)
        check_settings = lambda before: _must_agree(config.out, before, settings)
        super().__init__(
            config.out, "match", check_settings, RESULTS, "is being played by another process"
        )
        self._results = self.path / RESULTS
        with self.opening():
            self.session = 0 if self.before is None else 1 + int(self.manifest.get("session", 0))
            self.games = _read_results(self._results, config.games)
            self.failures = _read_failures(self.path / FAILURES, config.games, self.games)
            if self.games:
                _check_programs(self.path, config, self.manifest, names)
                _check_files(self.path, self.manifest.get("evaluators", {}), evaluators or {})
                _check_openings(self.path, self.manifest, openings_sha256)
            self.write_config(settings)
            (self.path / "games").mkdir(exist_ok=True)
            sync(self.path)

    def write_manifest(self, facts: dict) -> None:
        """Write the manifest, with the session added.

        Raises:
          OSError: as `add`.
        """
        super().write_manifest({"session": self.session, **facts})

    def add(self, game: GameLine, record: sgf.GameRecord | str) -> None:
        """Write a game durably to disk; of a void one, the moves so far.

        Raises:
          OSError: the folder cannot be written (a full disk, say); the message names it.
        """
        with self.writing():
            path = self.path / "games" / f"{game.game:04d}.sgf"
            if isinstance(record, str):
                write_whole(path.with_suffix(".txt"), record.encode(), durable=True)
            else:
                sgf.write(path, record, durable=True)
            add_line(self._results, game._asdict())
        self.games[game.game] = game

    def add_failures(self, number: int, failures: Sequence[str]) -> None:
        """Record why all attempts at a game so far were void, before the next one.

        Raises:
          OSError: as `add`.
        """
        with self.writing():
            add_line(self.path / FAILURES, {"game": number, "failures": failures})
        self.failures[number] = tuple(failures)


def _as_json(config: MatchConfig) -> dict:
    """The flags as JSON data."""
    return json.loads(json.dumps(dataclasses.asdict(config), default=str))


def _must_agree(path: pathlib.Path, before: dict, requested: dict) -> None:
    if not isinstance(before.get("games"), int) or not set(SIDES) <= before.keys():
        raise ValueError(folders.not_of(path, "match"))
    # Flags that are missing in older folders had their defaults.
    before = {"game": "go"} | before
    unset = _as_json(MatchConfig())
    before |= {side: unset[side] | before[side] for side in SIDES}
    old, new = folders.flat(before), folders.flat(requested)
    has_more_games = new["games"] >= old["games"]
    may_differ = _MAY_DIFFER | ({"games"} if has_more_games else set())
    # Files are compared by their contents, see `_check_files`, not by their paths.
    names = {f"{side}.{name}" for side in SIDES for name in FILES}
    may_differ |= {x for x in names if old.get(x) is not None and new.get(x) is not None}
    folders.must_agree(path, "match", before, requested, may_differ)


def _check_files(path: pathlib.Path, before: dict, current: dict) -> None:
    """Refuse files whose contents have changed, including those that come with the package."""
    for side, name in itertools.product(current, (*FILES, "priors")):
        about, field = current[side], f"{name}_sha256"
        digest = about.get(field)
        recorded = before.get(side, {}).get(field, digest)  # old manifests may lack it
        if digest != recorded:
            flag = f"--{side}.{name.replace('_', '-')}"
            raise ValueError(
                f"out: {path} contains games with other {name}: {flag} {about[name]} had "
                f"SHA-256 {recorded[:12]} and now has {digest[:12]}; name a new folder"
            )


def _check_programs(
    path: pathlib.Path, config: MatchConfig, before: dict, names: tuple[str, str] | None
) -> None:
    """Refuse a command that now starts another program or version."""
    for side, flags, name in zip(SIDES, config.sides, names or (), strict=False):
        recorded = before.get(side, name)
        if flags.command is not None and name != recorded:
            raise ValueError(
                f"out: {path} contains games of {recorded}, but --{side}.command now starts "
                f"{name}; name a new folder"
            )


def _check_openings(path: pathlib.Path, before: dict, digest: str | None) -> None:
    """Refuse other openings: both games of a pair must share theirs."""
    recorded = before.get("openings_sha256", digest)  # old manifests lack it
    if digest != recorded:
        raise ValueError(
            f"out: {path} contains games with other openings than --openings-from has now; "
            "restore those openings, or name a new folder"
        )


def _read_results(path: pathlib.Path, num_games: int) -> dict[int, GameLine]:
    """The games of a file, from which a torn last line is cut off. A void game may have been
    replayed since.

    Raises:
      ValueError: a line is not a game of this match, or a game appears twice.
    """
    games: dict[int, GameLine] = {}

    def add(fields: dict) -> None:
        game = GameLine(**fields)
        _check_line(game, num_games)
        if game.game in games and games[game.game].points is not None:
            raise ValueError(f"game {game.game} appears twice")
        games[game.game] = game

    cut_torn_line(path)
    read_lines(path, add)
    return games


def _read_failures(
    path: pathlib.Path, num_games: int, games: Mapping[int, GameLine]
) -> dict[int, tuple[str, ...]]:
    """The failed attempts at each game, from the file or from the void games of the results,
    whichever lists more; a torn last line is cut off the file.

    Raises:
      ValueError: a line is invalid, or its game is not in this match.
    """
    void_games = [game for game in games.values() if game.points is None]
    failures_of: dict[int, tuple[str, ...]] = {
        game.game: (*game.failures, game.why) for game in void_games
    }

    def add(fields: dict) -> None:
        number, failures = fields["game"], tuple(fields["failures"])
        if not isinstance(number, int) or not 0 <= number < num_games:
            raise ValueError(f"game {number!r} of {num_games}")
        if not all(isinstance(reason, str) for reason in failures):
            raise ValueError(f"failures {failures!r}")
        failures_of[number] = max(failures, failures_of.get(number, ()), key=len)

    cut_torn_line(path)
    read_lines(path, add)
    return failures_of


def _check_line(game: GameLine, num_games: int) -> None:
    """Check the fields that the statistics use.

    Raises:
      ValueError: one of them is invalid.
    """
    if not isinstance(game.game, int) or not 0 <= game.game < num_games:
        raise ValueError(f"game {game.game!r} of {num_games}")
    if game.points not in (None, 0.0, 0.5, 1.0) or (game.points is None) != (game.end == "void"):
        raise ValueError(f"{game.points!r} points, but ended by {game.end!r}")
    for numbers in ([game.moves, game.attempts], game.seconds, game.turns):
        if len(numbers) != 2 or not all(isinstance(x, int | float) and x >= 0 for x in numbers):
            raise ValueError(f"{numbers!r}; expected two numbers of at least 0")
