"""A sweep on disk: its settings, the pieces that were played, and resuming after a kill.

A piece is a line of ``pieces.jsonl``, which is on disk before the next piece starts: a kill at any
moment costs only the piece in play. A torn last line is cut off. The file is locked while the
sweep is played; ``config.json`` is read and written under that lock, so a command that is refused
leaves it unchanged.
"""

from __future__ import annotations

from typing import NamedTuple

from experiments.sweeps.config import SweepConfig
from experiments.sweeps.points import Sweep
from gozero.go.rules import Rules
from gozero.runs import folder as folders
from gozero.runs.files import add_line, cut_torn_line, read_lines
from gozero.runs.folder import RunFolder

PIECES = "pieces.jsonl"


class Piece(NamedTuple):
    """A line of ``pieces.jsonl``: some games of a point; games 2i and 2i + 1 are a pair."""

    point: str  # its name
    piece: int  # from 0
    points: tuple[float, ...]  # 1, 0.5 or 0 of each game, for the point's player
    plies: int  # of all games together
    truncated: int  # games that the move limit ended
    seconds: float  # wall-clock time, compilation included


class SweepFolder(RunFolder):
    """The folder of a sweep, new or to be resumed. A context manager.

    Attributes:
      pieces: {(point, piece): Piece} of the pieces played so far.

    Raises:
      ValueError: if the folder holds something else, cannot be read or written, is in use by
        another process, or was begun with other terms or other points of the same names.
    """

    def __init__(self, sweep: Sweep, config: SweepConfig):
        asked = {
            "experiment": sweep.name,
            "terms": config.terms,
            "points": {point.name: point.record(Rules(config.size)) for point in sweep.points},
        }
        agree = lambda before: _must_agree(config.out, before, asked)
        super().__init__(config.out, "sweep", agree, PIECES, "is being played by another process")
        self._pieces = self.path / PIECES
        with self.opening():
            cut_torn_line(self._pieces)
            pieces = read_lines(self._pieces, lambda fields: Piece(**fields))
            self.pieces = {(piece.point, piece.piece): piece for piece in pieces}
            asked["points"] = (self.before or asked)["points"] | asked["points"]
            self.write_config(asked | {"flags": vars(config)})

    def add(self, piece: Piece) -> None:
        """Adds a piece; it is on disk on return."""
        with self.writing():
            add_line(self._pieces, piece._asdict())
        self.pieces[piece.point, piece.piece] = piece

    def write_manifest(self, facts: dict) -> None:
        """Writes what ran, in this session and in earlier ones."""
        super().write_manifest(folders.with_sessions(facts, self.manifest, len(self.pieces)))

    def of(self, point: str) -> list[Piece]:
        """A point's pieces, in order."""
        return [self.pieces[key] for key in sorted(self.pieces) if key[0] == point]


def _must_agree(path, before: dict, asked: dict) -> None:
    if not {"experiment", "terms", "points"} <= before.keys():
        raise ValueError(folders.not_of(path / folders.CONFIG, "sweep"))
    differ = []
    if before["experiment"] != asked["experiment"]:
        differ.append(f"the experiment was {before['experiment']} and is {asked['experiment']}")
    differ += folders.differences(before["terms"], asked["terms"])
    for name in before["points"].keys() & asked["points"].keys():
        old, new = (_numbers(one["points"][name]) for one in (before, asked))
        called = lambda key, name=name: f"of {name!r} {key}"
        differ += folders.differences(old, new, called=called)
    if differ:
        piece = before["terms"].get("parallel")
        same = "the same flags" if piece == asked["terms"]["parallel"] else f"--parallel {piece}"
        raise ValueError(
            f"out: {path} holds other games: {'; '.join(sorted(differ)[:4])}; give {same} "
            "to go on with it, or a new folder"
        )


def _numbers(about: dict) -> dict:
    """Makes 10 (a default) and 10.0 (from the command line) equal where they are stored as text."""
    text = lambda value: value.removesuffix(".0") if isinstance(value, str) else value
    return {name: text(value) for name, value in about.items()}
