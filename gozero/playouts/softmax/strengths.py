"""Strengths of the features of a move, as they are learnt and as they lie in files.

A strength is Coulom's gamma (2007): in a choice among moves each is played in proportion to the
product of the strengths of its features; 1 is that of a feature that says nothing.
"""

from __future__ import annotations

import hashlib
import io
import json
import pathlib
import zipfile
import zlib
from typing import Any, NamedTuple

import jax
import numpy as np

from gozero.playouts.softmax import surroundings
from gozero.runs.files import write_whole

FORMAT = 1
SHIPPED = ("mm_9", "balanced_9")
"""Names of what lies in `data/` beside this file; see its README.md."""

CONTIGUITIES = ("beside", "diagonal")
"""Where a point is from the move before, if it is next to it."""


class Strengths(NamedTuple):
    """A strength, above 0, for each feature. A move has one shape and at most one contiguity."""

    shape: jax.Array | np.ndarray  # f32[1107]: of each class of `surroundings`
    contiguity: jax.Array | np.ndarray  # f32[2]: of each of CONTIGUITIES


def uniform() -> Strengths:
    """All 1."""
    count = len(surroundings.class_codes())
    return Strengths(np.ones(count, np.float32), np.ones(len(CONTIGUITIES), np.float32))


def save(path: pathlib.Path, strengths: Strengths, **about: Any) -> None:
    """Write a .npz: the strengths, and what is said about them as JSON.

    Raises:
      ValueError: strengths of wrong shapes, or that are not finite and above 0.
    """
    arrays: dict[str, Any] = {k: np.asarray(v, np.float32) for k, v in strengths._asdict().items()}
    _check(arrays, f"strengths for {path}")
    buffer = io.BytesIO()
    text = np.frombuffer(json.dumps(about).encode(), np.uint8)
    np.savez_compressed(buffer, format=np.int32(FORMAT), about=text, **arrays)
    write_whole(path, buffer.getvalue())


def load(path: pathlib.Path | str) -> tuple[Strengths, dict]:
    """(strengths, what is said about them) of a file, or of one of the SHIPPED by its name.

    `about` gains ``sha256``, of the file.

    Raises:
      ValueError: no such file, one that holds no strengths, or is damaged.
    """
    if str(path) in SHIPPED:
        path = pathlib.Path(__file__).parent / "data" / f"{path}.npz"
    path = pathlib.Path(path)
    try:
        data = path.read_bytes()
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        version = int(arrays.pop("format"))
        about = json.loads(arrays.pop("about").tobytes())
    except (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(
            f"strengths {path}: damaged or not strengths ({error}); give a file of "
            f"train.classical.mm or .balancing, or one of {', '.join(SHIPPED)}"
        ) from error
    if version != FORMAT:
        raise ValueError(f"strengths {path}: format {version}, this version reads {FORMAT}")
    _check(arrays, f"strengths {path}")
    return Strengths(**arrays), {**about, "sha256": hashlib.sha256(data).hexdigest()}


def _check(arrays: dict[str, np.ndarray], where: str) -> None:
    expected = {name: array.shape for name, array in uniform()._asdict().items()}
    found = {name: array.shape for name, array in arrays.items()}
    if found != expected:
        raise ValueError(f"{where}: arrays {found}, expected {expected}")
    for name, array in arrays.items():
        if not (np.isfinite(array).all() and (array > 0).all()):
            raise ValueError(f"{where}: {name} has one that is not a finite number above 0")
