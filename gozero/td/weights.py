"""Weights of local shapes in a file: f16, with a description of the shapes.

The weights that come with the package are in ``data/``; ``data/README.md`` says how they were made.
"""

from __future__ import annotations

import pathlib
from typing import Any, NamedTuple

import numpy as np

from gozero.go.coords import MAX_SIZE, MIN_SIZE
from gozero.runs import arrays
from gozero.td.shapes import Shapes, sharing

_DATA = pathlib.Path(__file__).resolve().parent / "data"  # its files may be links


class Learnt(NamedTuple):
    """Weights and the shapes that they belong to."""

    shapes: Shapes
    weights: np.ndarray  # f32[K + 1], the first 0
    about: dict  # how they were made, as recorded in the file


def shipped() -> dict[int, pathlib.Path]:
    """The files that come with the package, by board size."""
    return {int(path.stem.rpartition("_")[2]): path for path in _DATA.glob("*.safetensors")}


def load(size: int = 9) -> Learnt:
    """The weights that come with the package.

    Raises:
      ValueError: there are none for this size.
    """
    if size not in shipped():
        raise ValueError(
            f"size: no weights for {size}x{size} come with the package, only for sizes "
            f"{sorted(shipped())}; make them with python -m train.classical.td, and read() them"
        )
    return read(shipped()[size])


def for_board(size: int, path: pathlib.Path | None) -> tuple[Learnt, dict]:
    """(the weights from a file, or the package's if `path` is None; what a run records of them).

    Raises:
      ValueError: as `read` and `load`; weights of another size.
    """
    learnt = load(size) if path is None else read(path)
    size_of_weights = learnt.shapes.size
    if size_of_weights != size:
        raise ValueError(
            f"shapes: {path} is for {size_of_weights}x{size_of_weights}, but the "
            f"board is {size}x{size}"
        )
    name = f"local_shape_{size}" if path is None else str(path)
    return learnt, {"shapes": name, "shapes_sha256": learnt.about["sha256"]}


def save(path: pathlib.Path, shapes: Shapes, weights: np.ndarray, **about: Any) -> None:
    """Write weights f32[K + 1] as f16, with their description, to `path` (.safetensors).

    Raises:
      ValueError: too many or too few weights, or ones out of the range of f16.
    """
    half = np.asarray(weights).astype(np.float16)
    count = sharing(shapes).num_weights
    if half.shape != (count + 1,) or not np.isfinite(half).all():
        raise ValueError(
            f"weights: shape {half.shape}, or not finite as f16; expected {count + 1} numbers"
        )
    num_nonzero = int(np.count_nonzero(half))
    description = {**vars(shapes), "num_weights": count, "moved": num_nonzero, **about}
    arrays.write(path, "local-shapes", {"weights": half}, description)


def read(path: pathlib.Path) -> Learnt:
    """Read what `save` wrote.

    Raises:
      ValueError: the file is missing, damaged or of another format.
    """
    stored, about = arrays.read(path, "local-shapes", _expected)
    return Learnt(_shapes(about), stored["weights"].astype(np.float32), about)


def _expected(about: dict, names: frozenset[str]) -> dict[str, np.ndarray]:
    count = sharing(_shapes(about)).num_weights + 1
    return {"weights": np.empty(count, np.float16)}


def _shapes(about: dict) -> Shapes:
    values: Any = [about.get(name) for name in ("size", "largest", "anywhere")]
    size, largest, anywhere = values
    has_sizes = type(size) is int and MIN_SIZE <= size <= MAX_SIZE and type(largest) is int
    if not has_sizes or type(anywhere) is not bool:
        text = f"{size!r}, {largest!r}, {anywhere!r}"
        raise arrays.ContentError(f"its description gives no valid shapes ({text})")
    try:
        return Shapes(size, largest, anywhere)
    except ValueError as error:
        raise arrays.ContentError(f"its description gives no valid shapes ({error})") from error
