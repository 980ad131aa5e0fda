"""Files that a kill at any moment leaves whole: bytes, JSON, and records, a JSON object a line."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import stat
from collections.abc import Callable, Iterable
from typing import Any, BinaryIO, NamedTuple


def write_whole(path: pathlib.Path, data: bytes, *, durable: bool = False) -> None:
    """Write a file so that a reader, or a kill at any moment, finds the old one or the new one.

    With `durable` it is on the disk when this returns, and a power cut leaves the same. It is
    written beside the old one, to a file that is new: what a kill left there, or a link that
    someone put there, is removed first and never written to.

    Raises:
      OSError: it cannot be written, a full disk say; names a file, and nothing is left of what was.
    """
    partial = part_of(path)
    try:
        with contextlib.suppress(FileNotFoundError):
            partial.unlink()
        handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
        try:
            _write_all(handle, data)
            if durable:
                os.fsync(handle)
        finally:
            os.close(handle)
        os.replace(partial, path)
        if durable:
            sync(path.parent)
    except BaseException as error:
        with contextlib.suppress(OSError):
            partial.unlink()
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(path)  # a write does not know it
        raise


def _write_all(handle: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:  # a disk that fills up takes a part of it first
        rest = rest[os.write(handle, rest) :]


def open_regular(path: pathlib.Path, most: int) -> BinaryIO:
    """Open a file that strangers may have put there, to read.

    Raises:
      ValueError: a link, FIFO, device or folder, or more than `most` bytes; nothing was read.
      OSError: it cannot be opened.
    """
    _check_regular(path, os.lstat(path), most)  # before it is opened: of a FIFO that takes a writer
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    file = os.fdopen(handle, "rb")
    try:
        _check_regular(path, os.fstat(handle), most)
    except ValueError:
        file.close()
        raise
    return file


def _check_regular(path: pathlib.Path, found: os.stat_result, most: int) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise ValueError(f"{path} is a link, which is not followed; give the file it leads to")
    if not stat.S_ISREG(found.st_mode):
        raise ValueError(f"{path} is no regular file")
    if found.st_size > most:
        raise ValueError(f"{path} has {found.st_size:,} bytes; expected at most {most:,}")


def part_of(path: pathlib.Path) -> pathlib.Path:
    """The file that `write_whole` writes before it takes the place of the old one."""
    return path.with_name(path.name + ".part")


def sync(path: pathlib.Path) -> None:
    """Have a file, or the names in a folder, on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_tree(folder: pathlib.Path) -> None:
    """Have a folder and all that is in it on the disk."""
    for path in (*folder.rglob("*"), folder):
        sync(path)


def is_empty(path: pathlib.Path) -> bool:
    """Whether there is a file, and nothing in it."""
    return path.exists() and path.stat().st_size == 0


def write_json(path: pathlib.Path, value: Any, *, durable: bool = False) -> None:
    """Write JSON whole or not at all, dataclasses as objects, other types as text."""
    data = (json.dumps(value, indent=2, default=_plain) + "\n").encode()
    write_whole(path, data, durable=durable)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return str(value)


_MOST_DEEP = 100


def parse_json(data: bytes | str) -> Any:
    """What JSON says.

    Raises:
      ValueError: it is none, or is nested more than 100 deep.
    """
    try:
        value = json.loads(data)
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    level = [value]
    for _ in range(_MOST_DEEP):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return value
    raise ValueError("nested too deep")


def _inside(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


class Damaged(NamedTuple):
    """A line of a file of records that is none."""

    message: str
    line: bytes


def read_lines(
    path: pathlib.Path,
    make: Callable[[Any], Any] = lambda value: value,
    damaged: list[Damaged] | None = None,
) -> list[Any]:
    """The records of a file, one JSON value a line; none if there is no file.

    What follows the last newline is left out: a kill has torn it, or it is being written.

    Args:
      path: of the file.
      make: what is made of each value; an error of it is one of the line.
      damaged: takes the lines that are, which are then left out.

    Raises:
      ValueError: a line that is no JSON, or of which no record can be made.
    """
    records = []
    lines = _whole_lines(path.read_bytes()).split(b"\n")[:-1] if path.exists() else []
    for number, line in enumerate(lines, start=1):
        try:
            records.append(make(parse_json(line)))
        except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
            message = f"out: {path}, line {number} is damaged: {error}"
            if damaged is None:
                raise ValueError(message) from error
            damaged.append(Damaged(message, line))
    return records


def cut_torn_line(path: pathlib.Path) -> None:
    """Cut off what follows the last newline of a file, if it is there."""
    if not path.exists():
        return
    data = path.read_bytes()
    whole = _whole_lines(data)
    if whole != data:
        os.truncate(path, len(whole))


def _whole_lines(data: bytes) -> bytes:
    return data[: data.rfind(b"\n") + 1]


def add_line(path: pathlib.Path, record: Any, *, durable: bool = True) -> None:
    """Add a record to a file, made if need be; if `durable` it is on the disk when this returns.

    Raises:
      OSError: it is not, a full disk say; names the file. A part of it may be on the disk, which
        `cut_torn_line` cuts off.
    """
    try:
        fresh = not path.exists()
        with path.open("ab", buffering=0) as file:
            _write_all(file.fileno(), _line(record))
            if durable:
                os.fsync(file.fileno())
        if fresh and durable:
            sync(path.parent)
    except OSError as error:
        error.filename = str(path)  # a write does not know it
        raise


def write_lines(path: pathlib.Path, records: Iterable[Any]) -> None:
    """Write a file of records anew, whole; it is on the disk when this returns."""
    write_whole(path, b"".join(map(_line, records)), durable=True)


def _line(record: Any) -> bytes:
    return (json.dumps(record) + "\n").encode()
