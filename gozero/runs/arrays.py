"""Arrays in a file with their description: a single ``NAME.safetensors``. Layer 0.

    arrays.write(path, "weights", {"stem/bias": bias}, {"blocks": 2})
    weights, about = arrays.read(path, "weights", lambda about, names: {"stem/bias": bias})

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

from gozero.runs.files import check_writable, open_regular, write_whole

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


class ContentError(ValueError):
    """A file is intact, but its contents are not the expected ones."""


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
            f"{flag or 'file'} {path}: not a .safetensors file (or, of an earlier version, a .npz "
            "file with its .json beside it)"
        )
    return path


def check_new(path: pathlib.Path, *, with_folder: bool = False) -> None:
    """Check that such a file can be created at a path, that of the flag --out.

    Args:
      path: the file.
      with_folder: whether its folder will be created, too, if there is none.

    Raises:
      ValueError: another suffix; the file exists; its folder is missing or cannot be written to.
    """
    check_name(path, "--out")
    if path.exists():
        raise ValueError(f"--out {path}: already exists; name a new file")
    check_writable(path, "--out", with_folder=with_folder)


def write(
    path: pathlib.Path,
    kind: str,
    arrays: Mapping[str, Any],
    about: Mapping[str, Any],
    *,
    durable: bool = False,
) -> None:
    """Write arrays atomically (a .npz and its .json separately).

    Args:
      path: ``NAME.safetensors``; a name that ends in .npz gets a .json beside it.
      kind: the kind of arrays: "weights", "strengths", "local-shapes", ...
      arrays: the arrays by name; no objects, no strings.
      about: the description: plain data that JSON can hold.
      durable: see `write_whole`.

    Raises:
      OSError: it cannot be written.
    """
    contiguous = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    description = {**about, "format": f"gozero-{kind}-1", "digest": digest(contiguous)}
    if path.suffix != ".npz":
        data = safetensors.numpy.save(contiguous, {"gozero": json.dumps(description)})
        return write_whole(path, data, durable=durable)
    buffer = io.BytesIO()
    np.savez(buffer, **contiguous)  # pyright: ignore[reportArgumentType]
    description["sha256"] = hashlib.sha256(buffer.getvalue()).hexdigest()
    write_whole(path, buffer.getvalue(), durable=durable)
    json_file = (json.dumps(description, indent=2) + "\n").encode()
    write_whole(path.with_suffix(".json"), json_file, durable=durable)


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
    file converted from an .npz it is the SHA-256 of that one, kept in the header as "npz_sha256"
    and believed, as records of before the conversion name it.

    Args:
      path: the file, not a link.
      kind: the kind, as given to `write`.
      expected: the arrays there should be; if it raises, the file is refused. None accepts any.
      finite: whether to refuse nan and infinity (only if `expected` is given).
      data: the contents of the file, if it is not to be read from the disk.

    Raises:
      ValueError: the file is missing, damaged, of another kind, or has other arrays.
    """
    path, what = pathlib.Path(path), kind.replace("-", " ")
    path = _resolve_converted(path) if data is None else path
    with as_value_error(f"{what} {path}", what), ArrayFile(path, data=data) as file:
        about = _read_description(file, kind)
        names = frozenset(file.entries)
        arrays = file.unpack(file.entries if expected is None else expected(about, names))
        if file.archive is None and about["digest"] != digest(arrays):
            raise ValueError("its arrays do not match the digest in its header")
        if expected is not None and finite:
            check_finite(arrays)
        sha256 = file.sha256() if file.archive is not None else _identity(file, about)
    return arrays, about | {"sha256": sha256}


def _identity(file: ArrayFile, about: Mapping[str, Any]) -> str:
    """The SHA-256 of a safetensors file, or of the .npz from which it was converted."""
    converted = about.get("npz_sha256")
    if converted is None:
        return file.sha256()
    if not (isinstance(converted, str) and re.fullmatch("[0-9a-f]{64}", converted)):
        raise ContentError(
            f"its npz_sha256 is {str(converted)[:80]!r}; expected the 64 hexadecimal digits of a "
            "SHA-256"
        )
    return converted


def describe(path: pathlib.Path, kind: str) -> dict[str, Any]:
    """The description of the arrays of a file, without reading them.

    Raises:
      ValueError: as `read`, as far as the header shows it.
    """
    path, what = _resolve_converted(pathlib.Path(path)), kind.replace("-", " ")
    with as_value_error(f"{what} {path}", what), ArrayFile(path) as file:
        return _read_description(file, kind)


def _resolve_converted(path: pathlib.Path) -> pathlib.Path:
    converted = path.with_suffix(".safetensors")
    return converted if path.suffix == ".npz" and converted.exists() and not path.exists() else path


def _read_description(file: ArrayFile, kind: str) -> dict[str, Any]:
    """The description of the arrays, wherever the file's version stores it. Arrays that store it
    are removed from the entries."""
    if file.archive is None:
        about = json.loads(file.metadata["gozero"])
    elif "about" in file.entries:  # as in old files of strengths
        about = json.loads(file.take("about").tobytes())
        about["format"] = f"gozero-strengths-{int(file.take('format'))}"
    elif file.path.suffix == ".checkpoint":  # as in old ones of train.classical.td
        about = {"format": "gozero-checkpoint-1", "flags": str(file.take("flags"))}
    else:
        with open_regular(file.path.with_suffix(".json"), MOST_HEADER) as json_file:
            about = json.loads(json_file.read())
        if about["sha256"] != file.sha256():
            raise ValueError("its contents do not match the SHA-256 in its .json")
    if about.get("format") != f"gozero-{kind}-1":
        raise ValueError(f"its format is {about.get('format')!r}; expected 'gozero-{kind}-1'")
    return about


@contextlib.contextmanager
def as_value_error(which: str, what: str, *unchanged: type[Exception]) -> Iterator[None]:
    """Turns any error about an untrusted file into a ValueError that names it.

    Args:
      which: what the file is called in the message, which begins with it.
      what: what the file should be.
      unchanged: errors that are not the file's fault, raised as they are unless errno is EINVAL
        or None.
    """
    try:
        yield
    except Exception as error:  # damaged archives and descriptions can raise anything
        if isinstance(error, unchanged) and getattr(error, "errno", 0) not in (errno.EINVAL, None):
            raise
        if isinstance(error, ContentError):
            raise ValueError(f"{which}: {error}") from error
        if isinstance(error, FileNotFoundError):
            raise ValueError(f"{which}: there is no file {error.filename}") from error
        reason = " ".join((str(error) or repr(error)).split())
        reason = reason if len(reason) <= 300 else f"{reason[:300]} ..."
        raise ValueError(f"{which}: damaged or not {what} ({reason})") from error


def by_columns(arrays: Mapping[str, np.ndarray]) -> bytes:
    """The contents of a safetensors file whose arrays [n, ...] store the first byte of all n rows,
    then the second of all, and so on: arrays of many rows then compress better. `ArrayFile` reads
    it."""

    def in_columns(array: np.ndarray) -> np.ndarray:
        if not array.size:
            return array
        rows = np.frombuffer(array.tobytes(), np.uint8).reshape(len(array), -1)
        return np.frombuffer(rows.T.tobytes(), array.dtype).reshape(array.shape)

    reordered = {name: in_columns(array) for name, array in arrays.items()}
    return safetensors.numpy.save(reordered, {"order": "columns"})


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
      Exception: any, if the file is invalid: use it under `as_value_error`.
    """

    def __init__(self, path: pathlib.Path, most: int = MOST_BYTES, data: bytes | None = None):
        self.path, self.metadata = path, {}
        self.taken: Arrays = {}
        self.archive: zipfile.ZipFile | None = None
        self._file: Any = open_regular(path, most) if data is None else io.BytesIO(data)
        try:
            self.size = self._file.seek(0, os.SEEK_END)
            self._file.seek(0)
            if self._file.read(4) == b"PK\x03\x04":  # too large to be a header length
                self.archive = self._open_archive()
                self.entries = self._archive_entries(self.archive)
            else:
                self.entries = self._safetensors_entries()
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
            raise ValueError(
                f"array {name!r} has {entry.num_bytes} bytes; expected at most {MOST_HEADER}"
            )
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
            raise ValueError(f"its {self.size} bytes would unpack to {total}, which is too many")
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
            raise ValueError(f"array {name!r} is truncated")
        if self.metadata.get("order") == "columns" and data:
            data = np.frombuffer(data, np.uint8).reshape(-1, entry.shape[0]).T.tobytes()
        if entry.dtype == bool and max(data, default=0) > 1:
            raise ValueError(f"array {name!r} has a value that is neither true nor false")
        array = np.frombuffer(bytearray(data), entry.dtype)
        return array.reshape(entry.shape, order="F" if entry.fortran else "C")

    def _safetensors_entries(self) -> dict[str, ArrayEntry]:
        self._file.seek(0)
        length = int.from_bytes(self._file.read(8), "little")
        if length > min(MOST_HEADER, self.size - 8):
            raise ValueError(f"its header has {length} bytes, which is too many")
        header = json.loads(self._file.read(length))
        self.metadata = header.pop("__metadata__", {})
        _check_count(len(header))
        begin, entries = 8 + length, {}
        for name, declared in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
            entry = ArrayEntry(
                np.dtype(_DTYPES[declared["dtype"]]), _parse_shape(declared["shape"]), begin
            )
            if declared["data_offsets"] != [
                begin - 8 - length,
                begin - 8 - length + entry.num_bytes,
            ]:
                raise ValueError(f"array {name!r} has invalid data offsets")
            entries[name] = entry
            begin += entry.num_bytes
        if begin != self.size:
            raise ValueError(f"it has {self.size} bytes; its header describes {begin}")
        return entries

    def _open_archive(self) -> zipfile.ZipFile:
        """The .npz, if its directory of members is small and located where NumPy writes it."""
        self._file.seek(max(0, self.size - 42))
        tail = self._file.read()
        end = tail[-22:]
        number, length = int.from_bytes(end[10:12], "little"), int.from_bytes(end[12:16], "little")
        if not end.startswith(_END) or tail.startswith(_END_64) or any(end[20:]):
            raise ValueError("not an .npz file")
        _check_count(number)
        if length > MOST_HEADER:
            raise ValueError(f"its directory has {length} bytes; expected at most {MOST_HEADER}")
        return zipfile.ZipFile(self._file)

    def _archive_entries(self, archive: zipfile.ZipFile) -> dict[str, ArrayEntry]:
        entries: dict[str, ArrayEntry] = {}
        _check_count(len(archive.infolist()))
        for member in archive.infolist():
            name = member.filename.removesuffix(".npy")
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError(f"array {name!r} has compression method {member.compress_type}")
            if member.flag_bits & 0x2061 or name in entries:
                raise ValueError(f"array {name!r} is encrypted, patched or duplicated")
            with archive.open(member) as file:
                entries[name] = _npy_entry(name, member, file.read(2**12))
        return entries


def _npy_entry(name: str, member: zipfile.ZipInfo, data: bytes) -> ArrayEntry:
    match = _NPY.match(data)
    if match is None:
        raise ValueError(f"array {name!r} is not of plain numbers (objects are not read)")
    length, descr, fortran, shape = match.groups()
    shape = _parse_shape([int(part) for part in shape.decode().replace(",", " ").split()])
    entry = ArrayEntry(np.dtype(descr.decode()), shape, member, fortran == b"True")
    header = 10 + int.from_bytes(length, "little")
    if match.end() != header or header + entry.num_bytes != member.file_size:
        raise ValueError(f"array {name!r} has {member.file_size} bytes, unlike its header")
    return entry


def _parse_shape(value: Any) -> tuple[int, ...]:
    if (
        type(value) is not list
        or len(value) > 16
        or any(type(n) is not int or n < 0 for n in value)
    ):
        raise ValueError(f"invalid shape {str(value)[:80]}")
    return tuple(value)


def _check_count(number: int) -> None:
    if number > MOST_ARRAYS:
        raise ValueError(f"{number} arrays; expected at most {MOST_ARRAYS}")


def digest(arrays: Arrays) -> str:
    """SHA-256 of the names, types, shapes and bytes, independent of the arrays' order."""
    sha256 = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        sha256.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        sha256.update(array.tobytes())
    return sha256.hexdigest()


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
      ContentError: they differ; the message says which, what it is and what it should be.
    """
    actual, required = (
        {name: (tuple(array.shape), np.dtype(array.dtype)) for name, array in table.items()}
        for table in (found, expected)
    )
    differing = sorted(
        name for name in {*actual, *required} if actual.get(name) != required.get(name)
    )
    if differing:
        actual_text, required_text = (
            _entry_text(table.get(differing[0])) for table in (actual, required)
        )
        raise ContentError(f"array {differing[0]!r} is {actual_text}, expected {required_text}")


def check_finite(arrays: Arrays) -> None:
    """Check that arrays hold no nan or infinity.

    Raises:
      ContentError: one does; the message names it.
    """
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise ContentError(f"array {name!r} has numbers that are not finite")


def _entry_text(entry: tuple[tuple[int, ...], np.dtype] | None) -> str:
    return "missing" if entry is None else f"{entry[1].name}{list(entry[0])}"
