"""A sweep on disk: its settings, the pieces that were played, and resuming after a kill.

A piece is a line of ``pieces.jsonl``, which is on disk before the next piece starts, so a kill at
any moment loses only the piece in play. A torn last line is removed. The file is locked while the
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
      ValueError: if the folder contains something else, cannot be read or written, is in use by
        another process, or was begun with other terms or with other points of the same names.
    """

    def __init__(self, sweep: Sweep, config: SweepConfig):
        settings = {
            "experiment": sweep.name,
            "terms": config.terms,
            "points": {point.name: point.record(Rules(config.size)) for point in sweep.points},
        }
        check = lambda before: _check_same_games(config.out, before, settings)
        super().__init__(config.out, "sweep", check, PIECES, "is being played by another process")
        self._pieces = self.path / PIECES
        with self.opening():
            cut_torn_line(self._pieces)
            pieces = read_lines(self._pieces, lambda fields: Piece(**fields))
            self.pieces = {(piece.point, piece.piece): piece for piece in pieces}
            settings["points"] = (self.before or settings)["points"] | settings["points"]
            given = {"player": config.player.given, "opponent": config.opponent.given}
            self.write_config(settings | {"flags": vars(config) | given})

    def add(self, piece: Piece) -> None:
        """Adds a piece; it is on disk on return."""
        with self.writing():
            add_line(self._pieces, piece._asdict())
        self.pieces[piece.point, piece.piece] = piece

    def write_manifest(self, facts: dict) -> None:
        """Writes the facts of this session and of earlier ones."""
        super().write_manifest(folders.with_sessions(facts, self.manifest, len(self.pieces)))

    def of(self, point: str) -> list[Piece]:
        """A point's pieces, in order."""
        return [self.pieces[key] for key in sorted(self.pieces) if key[0] == point]


def _check_same_games(path, before: dict, now: dict) -> None:
    if not {"experiment", "terms", "points"} <= before.keys():
        raise ValueError(folders.not_of(path / folders.CONFIG, "sweep"))
    differences = []
    if before["experiment"] != now["experiment"]:
        differences.append(f"the experiment was {before['experiment']} and is {now['experiment']}")
    differences += folders.differences(before["terms"], now["terms"])
    for name in before["points"].keys() & now["points"].keys():
        old, new = (_numbers(one["points"][name]) for one in (before, now))
        label = lambda key, name=name: f"of {name!r} {key}"
        differences += folders.differences(old, new, called=label)
    if differences:
        piece = before["terms"].get("parallel")
        same = "the same flags" if piece == now["terms"]["parallel"] else f"--parallel {piece}"
        raise ValueError(
            f"--out {path}: its games were played with other settings: "
            f"{'; '.join(sorted(differences)[:4])}; give {same} to resume, or name a new folder"
        )


def _numbers(about: dict) -> dict:
    """Makes 10 (a default) and 10.0 (from the command line) equal if they are stored as text."""
    text = lambda value: value.removesuffix(".0") if isinstance(value, str) else value
    return {name: text(value) for name, value in about.items()}
