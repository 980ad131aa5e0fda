"""Arrays in a file, with their description: one ``NAME.safetensors``. Layer 0.

    arrays.write(path, "weights", {"stem/bias": bias}, {"blocks": 2})
    found, about = arrays.read(path, "weights")

The header's metadata has one key, ``gozero``: JSON of the format (``gozero-weights-1``), of a
digest of the arrays, and of what `write` was told. No pickles.

Earlier versions wrote a ``NAME.npz``, and the JSON in a ``NAME.json`` beside it (strengths: in an
array ``about`` of the .npz). These are read too, and a name that ends in .npz still asks for them;
to `read`, if there is no such file any more, for the NAME.safetensors that it was converted to.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import pathlib
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from gozero.runs.files import write_whole

SUFFIXES = (".safetensors", ".npz")
Arrays = dict[str, np.ndarray]

_UNREADABLE = (OSError, ValueError, KeyError, EOFError, TypeError, AttributeError, RecursionError)
_UNREADABLE += (zipfile.BadZipFile, zlib.error, safetensors.SafetensorError)


def check_name(path: pathlib.Path | str, flag: str = "") -> pathlib.Path:
    """The path, if it is the name of such a file.

    Raises:
      ValueError: another suffix.
    """
    path = pathlib.Path(path)
    if path.suffix not in SUFFIXES:
        raise ValueError(
            f"{flag or 'file'} {path}: not a .safetensors file (nor a .npz file with its .json "
            "beside it, of earlier versions)"
        )
    return path


def check_new(path: pathlib.Path, flag: str) -> None:
    """Refuse a path where no such file can be made.

    Raises:
      ValueError: another suffix; a file that is there; no folder, or none that can be written to.
    """
    check_name(path, flag)
    if path.exists():
        raise ValueError(f"{flag} {path}: is there already; name a new file")
    if not path.parent.is_dir():
        raise ValueError(f"{flag} {path}: there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise ValueError(f"{flag} {path}: nothing can be written to {path.parent}")


def write(
    path: pathlib.Path, kind: str, arrays: Mapping[str, Any], about: Mapping[str, Any]
) -> None:
    """Write arrays whole or not at all (of a .npz and its .json, each).

    Args:
      path: ``NAME.safetensors``; a name that ends in .npz gets a .json beside it.
      kind: what they are: "weights", "strengths", "local-shapes", ...
      arrays: by name; no objects, no strings.
      about: plain data that JSON can hold.

    Raises:
      OSError: it cannot be written.
    """
    held = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    said = {**about, "format": f"gozero-{kind}-1", "digest": digest(held)}
    if path.suffix != ".npz":
        return write_whole(path, safetensors.numpy.save(held, {"gozero": json.dumps(said)}))
    buffer = io.BytesIO()
    np.savez(buffer, **held)  # pyright: ignore[reportArgumentType]
    said["sha256"] = hashlib.sha256(buffer.getvalue()).hexdigest()
    write_whole(path, buffer.getvalue())
    write_whole(path.with_suffix(".json"), (json.dumps(said, indent=2) + "\n").encode())


def read(path: pathlib.Path, kind: str) -> tuple[Arrays, dict]:
    """(the arrays, what is said about them) of a file that `write` wrote, or an earlier version.

    ``about["sha256"]`` is the file's SHA-256, by which the records of runs name it; of a file that
    was converted from an .npz, the SHA-256 of that one, which is in the header: "npz_sha256".

    Raises:
      ValueError: a file that is missing, damaged, or of another kind.
    """
    what, converted = kind.replace("-", " "), path.with_suffix(".safetensors")
    if path.suffix == ".npz" and converted.exists() and not path.exists():
        path = converted
    try:
        data = path.read_bytes()
        reader = _read_npz if data[:2] == b"PK" else _read_safetensors
        arrays, about = reader(path, data)
        if about.get("format") != f"gozero-{kind}-1":
            raise ValueError(f"it says format {about.get('format')!r}, not 'gozero-{kind}-1'")
    except FileNotFoundError as error:
        raise ValueError(f"{what} {path}: there is no file {error.filename}") from error
    except _UNREADABLE as error:
        raise ValueError(f"{what} {path}: damaged or not {what} ({error})") from error
    return arrays, about | {"sha256": about.get("npz_sha256") or hashlib.sha256(data).hexdigest()}


def _read_safetensors(path: pathlib.Path, data: bytes) -> tuple[Arrays, dict]:
    arrays = safetensors.numpy.load(data)  # which checks the header's length and all it says
    length = int.from_bytes(data[:8], "little")
    about = json.loads(json.loads(data[8 : 8 + length])["__metadata__"]["gozero"])
    if about["digest"] != digest(arrays):
        raise ValueError("the arrays are not those that its header describes")
    return arrays, about


def _read_npz(path: pathlib.Path, data: bytes) -> tuple[Arrays, dict]:
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    if "about" in arrays:  # as strengths were
        number, about = int(arrays.pop("format")), json.loads(arrays.pop("about").tobytes())
        return arrays, {**about, "format": f"gozero-strengths-{number}"}
    if path.suffix == ".checkpoint":  # as those of train.classical.td were
        return arrays, {"format": "gozero-checkpoint-1", "flags": str(arrays.pop("flags"))}
    about = json.loads(path.with_suffix(".json").read_text())
    if about["sha256"] != hashlib.sha256(data).hexdigest():
        raise ValueError("its contents are not those that its .json describes")
    return arrays, about


def digest(arrays: Arrays) -> str:
    """SHA-256 of the names, types, shapes and bytes, whatever the order."""
    found = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        found.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        found.update(array.tobytes())
    return found.hexdigest()


def check(arrays: Arrays, expected: Mapping[str, Any], what: str) -> None:
    """Refuse arrays of other names, shapes or types than expected, or not finite.

    Args:
      arrays: as they were read.
      expected: by name, things with a shape and a dtype.
      what: begins the message.

    Raises:
      ValueError: says which, what it is and what it should be.
    """
    found = {name: (array.shape, np.dtype(array.dtype)) for name, array in arrays.items()}
    right = {name: (array.shape, np.dtype(array.dtype)) for name, array in expected.items()}
    odd = sorted(name for name in {*found, *right} if found.get(name) != right.get(name))
    if odd:
        is_, needed = (_text(table.get(odd[0])) for table in (found, right))
        raise ValueError(f"{what}: array {odd[0]!r} is {is_}, expected {needed}")
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise ValueError(f"{what}: array {name!r} has numbers that are not finite")


def _text(entry: tuple[tuple[int, ...], np.dtype] | None) -> str:
    return "missing" if entry is None else f"{entry[1].name}{list(entry[0])}"
