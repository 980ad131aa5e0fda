"""Weights of local shapes on disk: one ``NAME.npz`` of f16, and ``NAME.json`` that says what it is.

Those that come with the package are in ``data/``; ``data/README.md`` says how they were made.
"""

from __future__ import annotations

import hashlib
import io
import json
import pathlib
import zipfile
from typing import Any, NamedTuple

import numpy as np

from gozero.runs.files import write_whole
from gozero.td.shapes import Shapes, sharing

FORMAT = "gozero-local-shapes-1"
_DATA = pathlib.Path(__file__).parent / "data"


class Learnt(NamedTuple):
    """Weights and what they are of."""

    shapes: Shapes
    weights: np.ndarray  # f32[K + 1], the first 0
    about: dict  # how they were made


def load(size: int = 9) -> Learnt:
    """The weights that come with the package.

    Raises:
      ValueError: there are none for that size.
    """
    path = _DATA / f"local_shape_{size}.npz"
    if not path.is_file():
        there = sorted(int(p.stem.rpartition("_")[2]) for p in _DATA.glob("local_shape_*.npz"))
        raise ValueError(
            f"size: no weights for {size}x{size} come with the package, but for {there}; "
            "make them with python -m train.classical.td, and read() them"
        )
    return read(path)


def given(size: int, path: pathlib.Path | None) -> tuple[Learnt, dict]:
    """The weights of a file, or without one those that come with the package; and what the records
    of a run say of them.

    Raises:
      ValueError: as `read` and `load`; weights of another size.
    """
    learnt = load(size) if path is None else read(path)
    found = learnt.shapes.size
    if found != size:
        raise ValueError(f"shapes: {path} is of {found}x{found}, the board {size}x{size}")
    name = f"local_shape_{size}" if path is None else str(path)
    return learnt, {"shapes": name, "shapes_sha256": learnt.about["sha256"]}


def save(path: pathlib.Path, shapes: Shapes, weights: np.ndarray, **about: Any) -> None:
    """Write weights f32[K + 1] to `path` (.npz), as f16, and their description beside it.

    Raises:
      ValueError: weights that are too many, too few, or beyond f16.
    """
    half = np.asarray(weights).astype(np.float16)
    count = sharing(shapes).num_weights
    if half.shape != (count + 1,) or not np.isfinite(half).all():
        raise ValueError(f"weights: {half.shape}, or not finite; expected {count + 1} numbers")
    buffer = io.BytesIO()
    np.savez_compressed(buffer, weights=half)
    about = {
        "format": FORMAT,
        "size": shapes.size,
        "largest": shapes.largest,
        "anywhere": shapes.anywhere,
        "num_weights": count,
        "moved": int(np.count_nonzero(half)),
        "sha256": hashlib.sha256(buffer.getvalue()).hexdigest(),
        **about,
    }
    write_whole(path, buffer.getvalue())
    write_whole(path.with_suffix(".json"), (json.dumps(about, indent=2) + "\n").encode())


def read(path: pathlib.Path) -> Learnt:
    """Read what `save` wrote.

    Raises:
      ValueError: a file that is missing, damaged or of another format.
    """
    try:
        about = json.loads(path.with_suffix(".json").read_text())
        if about.get("format") != FORMAT:
            raise ValueError(f"its .json does not say format {FORMAT!r}")
        data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != about["sha256"]:
            raise ValueError("its contents are not those that its .json describes")
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            weights = arrays["weights"].astype(np.float32)
        shapes = Shapes(about["size"], about["largest"], about["anywhere"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        raise ValueError(f"local shapes {path}: missing or damaged ({error})") from error
    if weights.shape != (sharing(shapes).num_weights + 1,):
        raise ValueError(f"local shapes {path}: {weights.shape[0]} numbers, not those of {shapes}")
    return Learnt(shapes, weights, about)
