"""Strengths of the features of a move, as they are learnt and as they are stored in files.

A strength is Coulom's gamma (2007): in a choice among moves each is played in proportion to the
product of the strengths of its features; 1 is that of a feature that says nothing.
"""

from __future__ import annotations

import pathlib
from typing import Any, NamedTuple

import jax
import numpy as np

from gozero.playouts.policies.softmax import neighbourhoods
from gozero.runs import arrays

SHIPPED = ("mm_9", "balanced_9")
"""Names of what lies in `data/` beside this file; see its README.md."""

CONTIGUITIES = ("beside", "diagonal")
"""Where a point is from the move before, if it is next to it."""


class Strengths(NamedTuple):
    """A strength, above 0, for each feature. A move has one shape and at most one contiguity."""

    shape: jax.Array | np.ndarray  # f32[1107]: of each class of `neighbourhoods`
    contiguity: jax.Array | np.ndarray  # f32[2]: of each of CONTIGUITIES


def uniform() -> Strengths:
    """All 1."""
    count = len(neighbourhoods.class_codes())
    return Strengths(np.ones(count, np.float32), np.ones(len(CONTIGUITIES), np.float32))


def save(path: pathlib.Path, strengths: Strengths, **about: Any) -> None:
    """Write the strengths, and what is said about them, to a .safetensors file.

    Raises:
      ValueError: strengths of wrong shapes, or that are not finite and above 0.
    """
    held = {name: np.asarray(array, np.float32) for name, array in strengths._asdict().items()}
    _check(held, f"strengths for {path}")
    arrays.write(path, "strengths", held, about)


def load(path: pathlib.Path | str) -> tuple[Strengths, dict]:
    """(strengths, what is said about them) of a file, or of one of the SHIPPED by its name.

    `about` gains ``sha256``, see `arrays.read`.

    Raises:
      ValueError: no such file, one that holds no strengths, or is damaged.
    """
    if str(path) in SHIPPED:
        path = pathlib.Path(__file__).resolve().parent / "data" / f"{path}.safetensors"
    try:
        found, about = arrays.read(
            pathlib.Path(path), "strengths", lambda about, names: uniform()._asdict()
        )
    except ValueError as error:
        raise ValueError(
            f"{error}; give a file of train.classical.mm or .balancing, or one of "
            f"{', '.join(SHIPPED)}"
        ) from error
    _check(found, f"strengths {path}")
    return Strengths(**found), about


def _check(held: arrays.Arrays, what: str) -> None:
    arrays.check(held, uniform()._asdict(), what)
    for name, array in held.items():
        if not (array > 0).all():
            raise ValueError(f"{what}: {name} has one that is not above 0")
