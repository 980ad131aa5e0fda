"""What ``python -m train.classical.mm`` does: read games, fit, measure on games held out, write."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import sys
from collections.abc import Sequence

import numpy as np

from gozero.apps import flags
from gozero.apps.flags import check_seed
from gozero.go.rules import Rules
from gozero.playouts.softmax import strengths
from gozero.playouts.softmax.strengths import Strengths
from gozero.runs import arrays
from train.classical import choices as choice
from train.classical import records
from train.classical.choices import Choices
from train.classical.mm import fit as mm

PROG = "python -m train.classical.mm"


@dataclasses.dataclass(frozen=True)
class MmConfig:
    """Fit the strengths of 3x3 shapes and contiguity to the games of a folder."""

    sgf: pathlib.Path
    """A folder with *.sgf in it or below it, or one such file."""

    out: pathlib.Path
    """Where the strengths go, a .safetensors file that is not there yet."""

    size: int = 9
    """Points on a side; games of other sizes are left out."""

    first_move: int = 1
    """The first move of each game to learn from; self-play draws its opening moves at random."""

    iterations: int = 20
    """Rounds of updates."""

    holdout_fraction: float = 0.1
    """Share of the games that is never learnt from, only measured."""

    seed: int = 0
    """Of the choice of games held out."""

    def __post_init__(self):
        check_seed(self.seed)
        for name in ("iterations", "first_move"):
            if getattr(self, name) < 1:
                flag = name.replace("_", "-")
                raise ValueError(f"--{flag} {getattr(self, name)}: expected at least 1")
        if not 0 <= self.holdout_fraction < 1:
            raise ValueError(
                f"--holdout-fraction {self.holdout_fraction}: expected from 0 to below 1"
            )
        check_new(self.out)


def check_new(out: pathlib.Path) -> None:
    """Refuse to write what is no such file, or over what is there."""
    arrays.check_name(out, "--out")
    if out.exists():
        raise ValueError(f"--out {out}: is there already; name a new file")
    if not out.parent.is_dir():
        raise ValueError(f"--out {out}: there is no folder {out.parent}")
    if not os.access(out.parent, os.W_OK):
        raise ValueError(f"--out {out}: nothing can be written to {out.parent}")


def write(prog: str, out: pathlib.Path, found: Strengths, about: dict) -> None:
    """The file of a fit; where it cannot be written, a line that says so, and the end."""
    try:
        strengths.save(out, found, **about)
    except OSError as error:
        flags.fail(prog, f"--out {out}: cannot be written ({error})", status=1)


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status: 0, 1 for strengths that cannot be written, or 2 for bad input."""
    config = flags.parse(MmConfig, argv, prog=PROG)
    try:
        learn, held, num_games = _prepare(config)
    except ValueError as error:
        flags.fail(PROG, error)
    lay = Rules(config.size).layout
    _say(f"{num_games} games, {len(learn.played)} choices to learn from")
    for step, (found, quality) in enumerate(mm.fit(lay, learn, config.iterations)):
        line = f"update {step}: objective {quality.objective:.1f}, {_text(quality)}"
        if held is not None and step % len(mm.GROUPS) == 0:
            line += f"; held out: {_text(mm.measure(lay, held, found))}"
        _say(line)
    about = {"command": [PROG, *sys.argv[1:]], "games": num_games, "choices": len(learn.played)}
    about |= {"size": config.size, "quality": quality._asdict()}
    if held is not None:
        about["held_out"] = mm.measure(lay, held, found)._asdict()
    write(PROG, config.out, found, about)
    print(f"{line}; strengths in {config.out}")
    return 0


def _prepare(config: MmConfig) -> tuple[Choices, Choices | None, int]:
    """(choices to learn from, choices held out, games).

    Raises:
      ValueError: says what was wrong, and what would be right.
    """
    names, games = records.read(config.sgf, config.size)
    found = choice.of_games(Rules(config.size, ko="simple"), games)
    for game, move in found.illegal.items():
        _say(f"left out: {names[game]}: move {move} is illegal")
    is_counted = found.number >= config.first_move
    played = np.unique(found.game[is_counted])
    if not len(played):
        raise ValueError(f"--sgf {config.sgf}: no move in its games is a choice to learn from")
    order = np.random.default_rng(config.seed).permutation(played)
    away = order[: int(config.holdout_fraction * len(played))]
    is_held = np.isin(found.game, away)
    held = choice.take(found.choices, is_counted & is_held) if len(away) else None
    return choice.take(found.choices, is_counted & ~is_held), held, len(played)


def _text(quality: mm.Quality) -> str:
    return f"log-likelihood {quality.log_likelihood:.4f}, top-1 {100 * quality.top_1:.1f}%"


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
