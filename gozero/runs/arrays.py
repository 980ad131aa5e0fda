"""Arrays in a file with their description: a single ``NAME.safetensors``. Layer 0.

    arrays.write(path, "weights", {"stem/bias": bias}, {"blocks": 2})
    found, about = arrays.read(path, "weights", lambda about, names: {"stem/bias": bias})

The header's metadata has one key, ``gozero``: JSON with the format (``gozero-weights-1``), a digest
of the arrays, and the description given to `write`. No pickles.

Earlier versions wrote a ``NAME.npz``, with the JSON in a ``NAME.json`` beside it (for strengths: in
an array ``about`` of the .npz). These can still be read, by names that end in .npz. If such a file
no longer exists, `read` uses the NAME.safetensors that it was converted to.

Files may be untrusted. The header is checked against what is expected before any array is read, and
any fault is a ValueError that names the file. `ArrayFile` reads both formats.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import math
import os
import pathlib
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import safetensors.numpy

from gozero.runs.files import open_regular, write_whole

SUFFIXES = (".safetensors", ".npz")
MOST_BYTES = 4 * 2**30
"""The most bytes of a file, and of its unpacked arrays."""
MOST_ARRAYS = 2**14
MOST_HEADER = 4 * 2**20
"""The most bytes of a safetensors header, of the directory of an .npz, or of a description."""
MOST_RATIO = 200
"""The most unpacked bytes per byte of file, beyond SMALL."""
SMALL = 2**20

Arrays = dict[str, np.ndarray]
Expected = Callable[[dict, frozenset[str]], Mapping[str, Any]]
"""(the description, the arrays' names) -> things with a shape and a dtype, by name."""


class NotExpected(ValueError):
    """A file is intact, but its contents are not what was asked for."""


_DTYPES = {"BOOL": "?", "U8": "u1", "I8": "i1", "U16": "u2", "I16": "i2", "F16": "f2"}
_DTYPES |= {"U32": "u4", "I32": "i4", "F32": "f4", "U64": "u8", "I64": "i8", "F64": "f8"}
_NPY = re.compile(
    rb"\x93NUMPY\x01\x00(..)\{'descr': '([<|](?:b1|[iu][1248]|f[248]|U[0-9]{1,5}))', "
    rb"'fortran_order': (False|True), 'shape': "
    rb"\(((?:[0-9]{1,12}(?:, [0-9]{1,12})*,?)?)\), \} *\n",
    re.DOTALL,
)
_END = b"PK\x05\x06"  # of an .npz: its last 22 bytes
_END_64 = b"PK\x06\x07"


def check_name(path: pathlib.Path | str, flag: str = "") -> pathlib.Path:
    """Check that a path has the suffix of such a file, and return it.

    Raises:
      ValueError: it has another suffix.
    """
    path = pathlib.Path(path)
    if path.suffix not in SUFFIXES:
        raise ValueError(
            f"{flag or 'file'} {path}: not a .safetensors file (nor a .npz file with its .json "
            "beside it, of earlier versions)"
        )
    return path


def check_new(path: pathlib.Path, flag: str) -> None:
    """Check that such a file can be created at a path.

    Raises:
      ValueError: another suffix; the file exists; its folder is missing or cannot be written to.
    """
    check_name(path, flag)
    if path.exists():
        raise ValueError(f"{flag} {path}: is there already; name a new file")
    if not path.parent.is_dir():
        raise ValueError(f"{flag} {path}: there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise ValueError(f"{flag} {path}: nothing can be written to {path.parent}")


def write(
    path: pathlib.Path,
    kind: str,
    arrays: Mapping[str, Any],
    about: Mapping[str, Any],
    *,
    durable: bool = False,
) -> None:
    """Write arrays atomically (a .npz and its .json each on their own).

    Args:
      path: ``NAME.safetensors``; a name that ends in .npz gets a .json beside it.
      kind: the kind of arrays: "weights", "strengths", "local-shapes", ...
      arrays: the arrays by name; no objects, no strings.
      about: the description: plain data that JSON can hold.
      durable: see `write_whole`.

    Raises:
      OSError: it cannot be written.
    """
    held = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    said = {**about, "format": f"gozero-{kind}-1", "digest": digest(held)}
    if path.suffix != ".npz":
        data = safetensors.numpy.save(held, {"gozero": json.dumps(said)})
        return write_whole(path, data, durable=durable)
    buffer = io.BytesIO()
    np.savez(buffer, **held)  # pyright: ignore[reportArgumentType]
    said["sha256"] = hashlib.sha256(buffer.getvalue()).hexdigest()
    write_whole(path, buffer.getvalue(), durable=durable)
    description = (json.dumps(said, indent=2) + "\n").encode()
    write_whole(path.with_suffix(".json"), description, durable=durable)


def read(
    path: pathlib.Path,
    kind: str,
    expected: Expected | None = None,
    *,
    finite: bool = True,
    data: bytes | None = None,
) -> tuple[Arrays, dict[str, Any]]:
    """(the arrays, their description) from a file that `write`, or an earlier version, wrote.

    ``about["sha256"]`` is the file's SHA-256, which identifies it in the records of runs. For a
    file converted from an .npz it is the SHA-256 of that one, kept in the header as "npz_sha256".

    Args:
      path: the file, not a link.
      kind: the kind, as given to `write`.
      expected: the arrays there should be; if it raises, the file is refused. None accepts any.
      finite: whether to refuse nan and infinity (only if `expected` is given).
      data: the contents of the file, if it is not to be read from the disk.

    Raises:
      ValueError: the file is missing, damaged, of another kind, or has other arrays.
    """
    path, what = _converted(path) if data is None else path, kind.replace("-", " ")
    with refusing(f"{what} {path}", what), ArrayFile(path, data=data) as file:
        about = _described(file, kind)
        names = frozenset(file.entries)
        arrays = file.unpack(file.entries if expected is None else expected(about, names))
        if file.archive is None and about["digest"] != digest(arrays):
            raise ValueError("the arrays are not those that its header describes")
        if expected is not None and finite:
            check_finite(arrays)
        sha256 = about.get("npz_sha256") or file.sha256()
    return arrays, about | {"sha256": sha256}


def describe(path: pathlib.Path, kind: str) -> dict[str, Any]:
    """The description of the arrays of a file, without reading them.

    Raises:
      ValueError: as `read`, as far as the header shows it.
    """
    path, what = _converted(path), kind.replace("-", " ")
    with refusing(f"{what} {path}", what), ArrayFile(path) as file:
        return _described(file, kind)


def _converted(path: pathlib.Path) -> pathlib.Path:
    now = path.with_suffix(".safetensors")
    return now if path.suffix == ".npz" and now.exists() and not path.exists() else path


def _described(file: ArrayFile, kind: str) -> dict[str, Any]:
    """The description of the arrays, wherever the file's version stores it. If that is in arrays,
    these are removed from the entries."""
    if file.archive is None:
        about = json.loads(file.metadata["gozero"])
    elif "about" in file.entries:  # as in old files of strengths
        about = json.loads(file.take("about").tobytes())
        about["format"] = f"gozero-strengths-{int(file.take('format'))}"
    elif file.path.suffix == ".checkpoint":  # as in old ones of train.classical.td
        about = {"format": "gozero-checkpoint-1", "flags": str(file.take("flags"))}
    else:
        with open_regular(file.path.with_suffix(".json"), MOST_HEADER) as beside:
            about = json.loads(beside.read())
        if about["sha256"] != file.sha256():
            raise ValueError("its contents are not those that its .json describes")
    if about.get("format") != f"gozero-{kind}-1":
        raise ValueError(f"it says format {about.get('format')!r}, not 'gozero-{kind}-1'")
    return about


@contextlib.contextmanager
def refusing(which: str, what: str, *but: type[Exception]) -> Iterator[None]:
    """Turns any error about an untrusted file into a ValueError that names it.

    Args:
      which: the file, in words; begins the message.
      what: what the file should be.
      but: errors that are not the file's fault, raised unchanged; unless errno is EINVAL or None.
    """
    try:
        yield
    except Exception as error:  # damaged archives and descriptions can raise anything
        if isinstance(error, but) and getattr(error, "errno", 0) not in (errno.EINVAL, None):
            raise
        if isinstance(error, NotExpected):
            raise ValueError(f"{which}: {error}") from error
        if isinstance(error, FileNotFoundError):
            raise ValueError(f"{which}: there is no file {error.filename}") from error
        said = " ".join((str(error) or repr(error)).split())
        said = said if len(said) <= 300 else f"{said[:300]} ..."
        raise ValueError(f"{which}: damaged or not {what} ({said})") from error


def by_columns(arrays: Mapping[str, np.ndarray]) -> bytes:
    """The contents of a safetensors file whose arrays [n, ...] store the first byte of all n rows,
    then the second of all, and so on: arrays of many rows compress better so. `ArrayFile` reads it.
    """

    def one(array: np.ndarray) -> np.ndarray:
        if not array.size:
            return array
        rows = np.frombuffer(array.tobytes(), np.uint8).reshape(len(array), -1)
        return np.frombuffer(rows.T.tobytes(), array.dtype).reshape(array.shape)

    held = {name: one(array) for name, array in arrays.items()}
    return safetensors.numpy.save(held, {"order": "columns"})


class ArrayEntry(NamedTuple):
    """An array as the header describes it."""

    dtype: np.dtype
    shape: tuple[int, ...]
    place: Any  # the offset of its bytes; in an .npz its member
    fortran: bool = False

    @property
    def num_bytes(self) -> int:
        return self.dtype.itemsize * math.prod(self.shape)


class ArrayFile:
    """An open .safetensors or .npz file whose header has been read; a context manager.

    Args:
      path: the file.
      most: the most bytes that it may have.
      data: its contents, if it is not to be read from the disk.

    Attributes:
      path: the file.
      entries: {name: the array as the header describes it}.
      metadata: {name: text}, from the header of safetensors.
      archive: the archive of an .npz; None for safetensors.
      taken: see `take`.

    Raises:
      Exception: any, if the file is invalid: use it under `refusing`.
    """

    def __init__(self, path: pathlib.Path, most: int = MOST_BYTES, data: bytes | None = None):
        self.path, self.metadata = path, {}
        self.taken: Arrays = {}
        self.archive: zipfile.ZipFile | None = None
        self._file: Any = open_regular(path, most) if data is None else io.BytesIO(data)
        try:
            self.size = self._file.seek(0, os.SEEK_END)
            self._file.seek(0)
            if self._file.read(4) == b"PK\x03\x04":  # too large for the length of a header
                self.archive = self._opened_archive()
                self.entries = self._of_archive(self.archive)
            else:
                self.entries = self._of_safetensors()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> ArrayFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def take(self, name: str) -> np.ndarray:
        """Read a small array, such as a description, and move it from `entries` to `taken`.

        Raises:
          ValueError: it is not small.
        """
        entry = self.entries.pop(name)
        if entry.num_bytes > MOST_HEADER:
            raise ValueError(f"array {name!r} has {entry.num_bytes} bytes")
        self.taken[name] = self._read(name, entry)
        return self.taken[name]

    def unpack(self, expected: Mapping[str, Any]) -> Arrays:
        """Read the arrays, which must have the expected names, shapes and types.

        Raises:
          ValueError: they do not; the message says which, what it is and what it should be.
        """
        check_shapes(self.entries, expected)
        total = sum(entry.num_bytes for entry in self.entries.values())
        if total > min(MOST_BYTES, SMALL + MOST_RATIO * self.size):
            raise ValueError(f"its {self.size} bytes would unpack to {total}")
        return {name: self._read(name, entry) for name, entry in self.entries.items()}

    def sha256(self) -> str:
        """The SHA-256 of the whole file."""
        self._file.seek(0)
        return hashlib.file_digest(self._file, "sha256").hexdigest()

    def _read(self, name: str, entry: ArrayEntry) -> np.ndarray:
        if self.archive is None:
            self._file.seek(entry.place)
            data = self._file.read(entry.num_bytes)
        else:
            with self.archive.open(entry.place) as member:
                data = member.read(entry.place.file_size + 1)  # to its end, where the CRC is
                data = data[len(data) - entry.num_bytes :] if entry.num_bytes else b""
        if len(data) != entry.num_bytes:
            raise ValueError(f"array {name!r} is cut off")
        if self.metadata.get("order") == "columns" and data:
            data = np.frombuffer(data, np.uint8).reshape(-1, entry.shape[0]).T.tobytes()
        if entry.dtype == bool and max(data, default=0) > 1:
            raise ValueError(f"array {name!r} has what is neither true nor false")
        array = np.frombuffer(bytearray(data), entry.dtype)
        return array.reshape(entry.shape, order="F" if entry.fortran else "C")

    def _of_safetensors(self) -> dict[str, ArrayEntry]:
        self._file.seek(0)
        length = int.from_bytes(self._file.read(8), "little")
        if length > min(MOST_HEADER, self.size - 8):
            raise ValueError(f"a header of {length} bytes")
        header = json.loads(self._file.read(length))
        self.metadata = header.pop("__metadata__", {})
        _check_number(len(header))
        begin, entries = 8 + length, {}
        for name, said in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
            entry = ArrayEntry(np.dtype(_DTYPES[said["dtype"]]), _shape(said["shape"]), begin)
            if said["data_offsets"] != [begin - 8 - length, begin - 8 - length + entry.num_bytes]:
                raise ValueError(f"array {name!r} is not where it should be")
            entries[name] = entry
            begin += entry.num_bytes
        if begin != self.size:
            raise ValueError(f"{self.size} bytes, where its header has {begin}")
        return entries

    def _opened_archive(self) -> zipfile.ZipFile:
        """The .npz, if its directory of members is small and located where NumPy writes it."""
        self._file.seek(max(0, self.size - 42))
        tail = self._file.read()
        end = tail[-22:]
        number, length = int.from_bytes(end[10:12], "little"), int.from_bytes(end[12:16], "little")
        if not end.startswith(_END) or tail.startswith(_END_64) or any(end[20:]):
            raise ValueError("no .npz")
        _check_number(number)
        if length > MOST_HEADER:
            raise ValueError(f"a folder of {length} bytes")
        return zipfile.ZipFile(self._file)

    def _of_archive(self, archive: zipfile.ZipFile) -> dict[str, ArrayEntry]:
        entries: dict[str, ArrayEntry] = {}
        _check_number(len(archive.infolist()))
        for member in archive.infolist():
            name = member.filename.removesuffix(".npy")
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError(f"array {name!r} is packed by method {member.compress_type}")
            if member.flag_bits & 0x2061 or name in entries:
                raise ValueError(f"array {name!r} is encrypted, patched, or there twice")
            with archive.open(member) as opened:
                entries[name] = _of_npy(name, member, opened.read(2**12))
        return entries


def _of_npy(name: str, member: zipfile.ZipInfo, data: bytes) -> ArrayEntry:
    found = _NPY.match(data)
    if found is None:
        raise ValueError(f"array {name!r} has no header of plain numbers (objects are not read)")
    length, descr, fortran, shape = found.groups()
    shape = _shape([int(part) for part in shape.decode().replace(",", " ").split()])
    entry = ArrayEntry(np.dtype(descr.decode()), shape, member, fortran == b"True")
    header = 10 + int.from_bytes(length, "little")
    if found.end() != header or header + entry.num_bytes != member.file_size:
        raise ValueError(f"array {name!r} has {member.file_size} bytes, not those of its header")
    return entry


def _shape(said: Any) -> tuple[int, ...]:
    if type(said) is not list or len(said) > 16 or any(type(n) is not int or n < 0 for n in said):
        raise ValueError(f"a shape of {str(said)[:80]}")
    return tuple(said)


def _check_number(number: int) -> None:
    if number > MOST_ARRAYS:
        raise ValueError(f"{number} arrays; expected at most {MOST_ARRAYS}")


def digest(arrays: Arrays) -> str:
    """SHA-256 of the names, types, shapes and bytes, independent of the arrays' order."""
    found = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        found.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        found.update(array.tobytes())
    return found.hexdigest()


def check(arrays: Arrays, expected: Mapping[str, Any], what: str) -> None:
    """Check that arrays have the expected names, shapes and types, and are finite.

    Args:
      arrays: the arrays as they were read.
      expected: things with a shape and a dtype, by name.
      what: the start of the message.

    Raises:
      ValueError: they do not; the message says which, what it is and what it should be.
    """
    try:
        check_shapes(arrays, expected)
        check_finite(arrays)
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from error


def check_shapes(found: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Check names, shapes and types; both arguments hold things with a shape and a dtype.

    Raises:
      NotExpected: they differ; the message says which, what it is and what it should be.
    """
    is_, right = (
        {name: (tuple(array.shape), np.dtype(array.dtype)) for name, array in table.items()}
        for table in (found, expected)
    )
    odd = sorted(name for name in {*is_, *right} if is_.get(name) != right.get(name))
    if odd:
        have, needed = (_text(table.get(odd[0])) for table in (is_, right))
        raise NotExpected(f"array {odd[0]!r} is {have}, expected {needed}")


def check_finite(arrays: Arrays) -> None:
    """Check that arrays hold no nan or infinity.

    Raises:
      NotExpected: one does; the message names it.
    """
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise NotExpected(f"array {name!r} has numbers that are not finite")


def _text(entry: tuple[tuple[int, ...], np.dtype] | None) -> str:
    return "missing" if entry is None else f"{entry[1].name}{list(entry[0])}"
