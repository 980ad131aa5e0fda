"""A sweep on disk: what was asked, the pieces that are played, and going on after a kill.

A piece is a line of ``pieces.jsonl``, which is on the disk before the next is begun: a kill at any
moment costs the piece in play, and no other. A line that a kill has torn is cut off. The file is
locked while the sweep is played; ``config.json`` is read and written under that lock, so that a
command that is refused leaves it as it was.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from typing import NamedTuple

from experiments.sweeps.config import SweepConfig
from experiments.sweeps.points import Sweep
from gozero.apps import runtime
from gozero.go.rules import Rules
from gozero.runs.files import is_empty


class Piece(NamedTuple):
    """A line of ``pieces.jsonl``: some games of a point, 2 i and 2 i + 1 a pair."""

    point: str  # its name
    piece: int  # from 0
    points: tuple[float, ...]  # of each game: 1, 0.5 or 0, the point's player's
    plies: int  # of all games together
    truncated: int  # games that the move limit ended
    seconds: float  # it took, compiling included


class SweepFolder:
    """The folder of a sweep, new or to go on with. A context manager.

    Attributes:
      pieces: {(point, piece): Piece} of those that are played.

    Raises:
      ValueError: a folder that holds something else, that cannot be read or written, that another
        process plays in, or that was begun with other terms or other points of the same names.
    """

    def __init__(self, sweep: Sweep, config: SweepConfig):
        self.path = config.out
        self._path = self.path / "pieces.jsonl"
        asked = {
            "experiment": sweep.name,
            "terms": config.terms,
            "points": {point.name: point.record(Rules(config.size)) for point in sweep.points},
        }
        is_new = self._points_before(asked) is None
        if is_new and not is_empty(self._path):  # which a kill may leave alone
            runtime.claim_folder(self.path)
        try:
            self._file = self._path.open("a", encoding="utf-8")
            with contextlib.ExitStack() as undo:
                undo.callback(self._file.close)
                self._lock()
                before = self._points_before(asked) or {}  # also what was written before the lock
                self.pieces = self._read()
                asked["points"] = before | asked["points"]
                runtime.write_json(self.path / "config.json", asked | {"flags": vars(config)})
                undo.pop_all()
        except OSError as error:
            raise ValueError(f"out: {self.path} cannot be written ({error.strerror})") from error

    def _points_before(self, asked: dict) -> dict | None:
        """The points of the sweep that was begun here; None if none was.

        Raises:
          ValueError: it is not the one that is asked for.
        """
        before = self._before()
        if before is None:
            return None
        _must_agree(self.path, before, asked)
        return before["points"]

    def _before(self) -> dict | None:
        path = self.path / "config.json"
        if not path.exists():
            return None
        try:
            config = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ValueError(f"out: {path} cannot be read: {error}") from error
        if not isinstance(config, dict) or not {"experiment", "terms", "points"} <= config.keys():
            raise ValueError(f"out: {path} is not of a sweep; give a new folder")
        return config

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ValueError(f"out: {self.path} is being played by another process") from error

    def _read(self) -> dict[tuple[str, int], Piece]:
        """The pieces of the file; a last line that is torn is cut off it."""
        data = self._path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        if whole != data:
            os.truncate(self._path, len(whole))
        pieces = {}
        for number, line in enumerate(whole.decode("utf-8", "replace").splitlines(), start=1):
            try:
                piece = Piece(**json.loads(line))
            except (TypeError, ValueError) as error:
                raise ValueError(f"out: {self._path}, line {number} is damaged: {error}") from error
            pieces[piece.point, piece.piece] = piece
        return pieces

    def add(self, piece: Piece) -> None:
        """Keep a piece."""
        self._file.write(json.dumps(piece._asdict()) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self.pieces[piece.point, piece.piece] = piece

    def write_manifest(self, facts: dict) -> None:
        """What ran, in this session and in those before."""
        path = self.path / "manifest.json"
        before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        runtime.write_json(path, runtime.with_sessions(facts, before, len(self.pieces)))

    def of(self, point: str) -> list[Piece]:
        """A point's pieces, in order."""
        return [self.pieces[key] for key in sorted(self.pieces) if key[0] == point]

    def __enter__(self) -> SweepFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _must_agree(path, before: dict, asked: dict) -> None:
    differ = []
    if before["experiment"] != asked["experiment"]:
        differ.append(f"the experiment was {before['experiment']} and is {asked['experiment']}")
    differ += _differences(before["terms"], asked["terms"], "--{}")
    for name in before["points"].keys() & asked["points"].keys():
        about = f"of {name!r} {{}}"
        differ += _differences(before["points"][name], asked["points"][name], about)
    if differ:
        piece = before["terms"].get("parallel")
        same = "the same flags" if piece == asked["terms"]["parallel"] else f"--parallel {piece}"
        raise ValueError(
            f"out: {path} holds other games: {'; '.join(sorted(differ)[:4])}; give {same} "
            "to go on with it, or a new folder"
        )


def _differences(old: dict, new: dict, about: str) -> list[str]:
    return [
        f"{about.format(name)} was {old.get(name)} and is {new.get(name)}"
        for name in old.keys() | new.keys()
        if _number(old.get(name)) != _number(new.get(name))
    ]


def _number(value: object) -> object:
    """10 of the defaults and 10.0 of the command line are one k, be they kept as text or not."""
    return value.removesuffix(".0") if isinstance(value, str) else value
