"""Strengths of the features of moves, as they are learnt and as they are stored in files.

A strength is Coulom's gamma (2007): each move is chosen in proportion to the product of the
strengths of its features; a strength of 1 is neutral.
"""

from __future__ import annotations

import pathlib
from typing import Any, NamedTuple

import jax
import numpy as np

from gozero.playouts.policies.softmax import neighbourhoods
from gozero.runs import arrays

SHIPPED = ("mm_9", "balanced_9", "mm_atari_9", "balanced_atari_9", "katago_13")
"""Names of the files in `data/` beside this file; see its README.md."""

CONTIGUITIES = ("beside", "diagonal")
"""How a point next to the last move is related to it."""


CAPTURES = ("when chains are endangered", "otherwise")
"""When a move captures: whether the last move put chains of the player in atari, or not."""

EXTENSIONS = ("of an endangered chain", "of another")
"""What a move at the last liberty of an own chain extends: one that the last move put in atari?"""

LINES = (1, 2, 3, 4, 5)
"""Distances of a point from the edge, 1 on the edge; the last is that and all further ones."""

DISTANCES = tuple(range(4, 18))
"""Distances |dx| + |dy| + max(|dx|, |dy|) from the last move; the last is that and all further
ones. 2 and 3 are CONTIGUITIES."""


class Strengths(NamedTuple):
    """A strength above 0 for each feature.

    A move has one shape, and at most one feature of each other field. Coulom (2007) lists the same
    kinds for playouts: "capture", "extension", "self-atari" and "contiguity to the previous move";
    and for the tree also "border distance" and "distance to previous move".
    """

    shape: jax.Array | np.ndarray  # f32[1107]: of each class of `neighbourhoods`
    contiguity: jax.Array | np.ndarray  # f32[2]: of each of CONTIGUITIES
    capture: jax.Array | np.ndarray = np.ones(len(CAPTURES), np.float32)  # of each of CAPTURES
    extension: jax.Array | np.ndarray = np.ones(
        len(EXTENSIONS), np.float32
    )  # of each of EXTENSIONS
    self_atari: jax.Array | np.ndarray = np.ones(1, np.float32)  # the stone's chain is in atari
    line: jax.Array | np.ndarray = np.ones(len(LINES), np.float32)  # of each of LINES
    distance: jax.Array | np.ndarray = np.ones(len(DISTANCES), np.float32)  # of each of DISTANCES


OF_PLAYOUTS = Strengths._fields[:5]
"""The kinds of features that playouts learn; the others are for priors, and cost playouts time."""

_LATER = Strengths._fields[2:5], Strengths._fields[5:]
"""Fields that files of earlier versions lack: there, these features make no difference."""


def uniform() -> Strengths:
    """Strengths that are all 1."""
    count = len(neighbourhoods.class_codes())
    return Strengths(np.ones(count, np.float32), np.ones(len(CONTIGUITIES), np.float32))


def not_of_playouts() -> dict[str, np.ndarray]:
    """Strengths that are all 1 of the features that are not OF_PLAYOUTS."""
    ones = uniform()._asdict()
    return {name: array for name, array in ones.items() if name not in OF_PLAYOUTS}


def save(path: pathlib.Path, strengths: Strengths, **about: Any) -> None:
    """Write the strengths and their description to a .safetensors file.

    Raises:
      ValueError: strengths that have wrong shapes, or are not finite and above 0.
    """
    by_name = {name: np.asarray(array, np.float32) for name, array in strengths._asdict().items()}
    _check(by_name, f"strengths for {path}")
    arrays.write(path, "strengths", by_name, about)


def load(path: pathlib.Path | str) -> tuple[Strengths, dict]:
    """(strengths, their description) from a file, or from one of the SHIPPED by its name.

    The description includes ``sha256``, see `arrays.read`.

    Raises:
      ValueError: the file is missing, damaged, or does not contain strengths.
    """
    if str(path) in SHIPPED:
        path = pathlib.Path(__file__).resolve().parent / "data" / f"{path}.safetensors"
    try:
        by_name, about = arrays.read(
            pathlib.Path(path), "strengths", lambda about, names: _expected(names)
        )
    except ValueError as error:
        raise ValueError(
            f"{error}; give a file of train.classical.mm or .balancing, or one of "
            f"{', '.join(SHIPPED)}"
        ) from error
    by_name = uniform()._asdict() | by_name
    _check(by_name, f"strengths {path}")
    return Strengths(**by_name), about


def _expected(names: frozenset[str]) -> arrays.Arrays:
    """The arrays of a file with these names."""
    missing = [fields for fields in _LATER if not names.intersection(fields)]
    expected = uniform()._asdict()
    return {name: x for name, x in expected.items() if not any(name in y for y in missing)}


def _check(by_name: arrays.Arrays, what: str) -> None:
    arrays.check(by_name, uniform()._asdict(), what)
    for name, array in by_name.items():
        if not (array > 0).all():
            raise ValueError(f"{what}: every strength must be above 0; {name} has one that is not")
