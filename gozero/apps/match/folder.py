"""A match on disk: what was asked, every game that was played, and going on after a kill.

A game's SGF is on the disk before its line in ``results.jsonl``, and that one before the next game
is begun: a kill or a power cut at any moment costs the games in play, and no other. A line that it
has torn is cut off. ``results.jsonl`` is locked while the match is played; ``config.json`` is read
and written under that lock, so that a command that is refused leaves it as it was.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import itertools
import json
import os
import pathlib
from collections.abc import Iterator

from gozero.apps import runtime, sgf
from gozero.apps.match.config import SIDES, MatchConfig
from gozero.apps.match.score import Game
from gozero.play.player_config import FILES
from gozero.runs.files import is_empty, sync_folder

_MAY_DIFFER = {"parallel", "retries", "timeout", "out"}


class MatchFolder:
    """The folder of a match, new or to go on with.

    Attributes:
      games: number -> game, of those that are played.
      before: the manifest that was there, {} in a new folder.
      session: how often the match was begun before.

    Args:
      config: the match.
      evaluators: what our sides are judged by, by their names; of what was learnt its SHA-256
        counts.
      openings_sha256: of the openings, if they come from files.
      names: of the sides, as programs say who they are.

    Raises:
      ValueError: a folder that holds something else, that cannot be read or written, or a match
        with other flags, of other openings, or that other programs or others of the FILES have
        played.
    """

    def __init__(
        self,
        config: MatchConfig,
        evaluators: dict[str, dict] | None = None,
        openings_sha256: str | None = None,
        names: tuple[str, str] | None = None,
    ):
        self.path, self.before, self.session = config.out, {}, 0
        asked, results = _plain(config), self.path / "results.jsonl"
        if not self._agrees(asked) and not is_empty(results):  # which a kill may leave alone
            runtime.claim_folder(self.path)
        try:
            self._results = results.open("ab", buffering=0)
            with contextlib.ExitStack() as undo:
                undo.callback(self._results.close)
                self._lock()
                if self._agrees(asked):  # also with what was written just before the lock
                    self.before = self._manifest()
                    self.session = 1 + int(self.before.get("session", 0))
                self.games = _read_results(results, config.games)
                if self.games:
                    _same_programs(self.path, config, self.before, names)
                    _same_files(self.path, self.before.get("evaluators", {}), evaluators or {})
                    _same_openings(self.path, self.before, openings_sha256)
                runtime.write_json(self.path / "config.json", asked, durable=True)
                (self.path / "games").mkdir(exist_ok=True)
                sync_folder(self.path)
                undo.pop_all()
        except OSError as error:
            raise ValueError(f"out: {self.path} cannot be written ({error.strerror})") from error

    def _agrees(self, asked: dict) -> bool:
        """Whether a match was begun here, which is then the one that is asked for.

        Raises:
          ValueError: it is another.
        """
        path = self.path / "config.json"
        try:
            if not path.exists():
                return False
        except OSError as error:  # Python has it that a name too long may be there
            raise ValueError(f"out: {self.path} cannot be read ({error.strerror})") from error
        _must_agree(self.path, _read_json(path), asked)
        return True

    def _lock(self) -> None:
        try:
            fcntl.flock(self._results, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ValueError(f"out: {self.path} is being played by another process") from error

    def __enter__(self) -> MatchFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self._results.close()

    def write_manifest(self, facts: dict) -> None:
        """What ran; its session is added.

        Raises:
          OSError: as `add`.
        """
        with self._writing():
            facts = {"session": self.session, **facts}
            runtime.write_json(self.path / "manifest.json", facts, durable=True)

    def add(self, game: Game, record: sgf.GameRecord) -> None:
        """Keep a game, which is then on the disk; of a void one the moves so far.

        Raises:
          OSError: naming the folder; it cannot be written, a full disk say.
        """
        line = (json.dumps(game._asdict()) + "\n").encode()
        with self._writing():
            sgf.write(self.path / "games" / f"{game.game:04d}.sgf", record, durable=True)
            while line:  # a disk that fills up takes a part of it first
                line = line[self._results.write(line) :]
            os.fsync(self._results.fileno())
        self.games[game.game] = game

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OSError(f"out: {self.path} cannot be written ({error.strerror})") from error

    def _manifest(self) -> dict:
        path = self.path / "manifest.json"
        return _read_json(path) if path.exists() else {}


def _plain(config: MatchConfig) -> dict:
    """The flags as JSON has them."""
    return json.loads(json.dumps(dataclasses.asdict(config), default=str))


def _read_json(path: pathlib.Path) -> dict:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"out: {path} cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f"out: {path} is not of a match; name a new folder")
    return value


def _must_agree(path: pathlib.Path, before: dict, asked: dict) -> None:
    if not isinstance(before.get("games"), int) or not set(SIDES) <= before.keys():
        raise ValueError(f"out: {path} is not of a match; name a new folder")
    old, new = _flat(before), _flat(asked)
    more = new["games"] >= old["games"]
    may_differ = _MAY_DIFFER | ({"games"} if more else set())
    # Of a file it counts what is in it, see `_same_files`, and not where it lies.
    files = {f"{side}.{name}" for side in SIDES for name in FILES}
    may_differ |= {x for x in files if old.get(x) is not None and new.get(x) is not None}
    differ = [
        f"--{name.replace('_', '-')} was {old.get(name)} and is {new.get(name)}"
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name) and name not in may_differ
    ]
    if differ:
        raise ValueError(
            f"out: {path} holds a match with other flags: {'; '.join(differ)}; give the same "
            "flags to go on with it, or a new folder"
        )


def _same_files(path: pathlib.Path, before: dict, now: dict) -> None:
    """A file may have changed under its name, and what comes with the package too."""
    for side, name in itertools.product(now, FILES):
        about, field = now[side], f"{name}_sha256"
        digest = about.get(field)
        played = before.get(side, {}).get(field, digest)  # an old manifest may not say
        if digest != played:
            raise ValueError(
                f"out: {path} holds games of other {name}: --{side}.{name} {about[name]} "
                f"had SHA-256 {played[:12]} and has {digest[:12]}; name a new folder"
            )


def _same_programs(
    path: pathlib.Path, config: MatchConfig, before: dict, names: tuple[str, str] | None
) -> None:
    """A program may be another version under its command."""
    for side, spec, name in zip(SIDES, config.sides, names or (), strict=False):
        played = before.get(side, name)
        if spec.command is not None and name != played:
            raise ValueError(
                f"out: {path} holds games of {played}, which --{side}.command no longer starts, "
                f"but {name}; name a new folder"
            )


def _same_openings(path: pathlib.Path, before: dict, digest: str | None) -> None:
    """Both games of a pair begin alike."""
    played = before.get("openings_sha256", digest)  # an old manifest does not say
    if digest != played:
        raise ValueError(
            f"out: {path} holds games of other openings than --openings-from has now; give those "
            "back, or name a new folder"
        )


def _flat(config: dict, prefix: str = "") -> dict:
    """{"player.search": ...}"""
    flat = {}
    for name, value in config.items():
        nested = isinstance(value, dict)
        flat |= _flat(value, f"{prefix}{name}.") if nested else {prefix + name: value}
    return flat


def _read_results(path: pathlib.Path, num_games: int) -> dict[int, Game]:
    """The games of a file; a last line that is torn is cut off it. A game that was void may have
    been played since.

    Raises:
      ValueError: a line that is no game of so many, or a game twice.
    """
    data = path.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    if whole != data:
        with path.open("r+b") as file:
            file.truncate(len(whole))
    games: dict[int, Game] = {}
    for number, line in enumerate(whole.decode("utf-8", "replace").splitlines(), start=1):
        try:
            game = Game(**json.loads(line))
            _check(game, num_games)
        except (TypeError, ValueError) as error:
            raise ValueError(f"out: {path}, line {number} is damaged: {error}") from error
        if game.game in games and games[game.game].points is not None:
            raise ValueError(f"out: {path}, line {number}: game {game.game} again")
        games[game.game] = game
    return games


def _check(game: Game, num_games: int) -> None:
    """Whether what is counted with can be.

    Raises:
      ValueError: it cannot.
    """
    if not isinstance(game.game, int) or not 0 <= game.game < num_games:
        raise ValueError(f"game {game.game!r} of {num_games}")
    if game.points not in (None, 0.0, 0.5, 1.0) or (game.points is None) != (game.end == "void"):
        raise ValueError(f"{game.points!r} points, ended by {game.end!r}")
    for numbers in ([game.moves, game.attempts], game.seconds, game.turns):
        if len(numbers) != 2 or not all(isinstance(x, int | float) and x >= 0 for x in numbers):
            raise ValueError(f"{numbers!r} is not two numbers, 0 or more")
