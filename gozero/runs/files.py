"""Files that stay intact if the process is killed at any moment: bytes, JSON, and JSON lines."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import math
import os
import pathlib
import secrets
import stat
from collections.abc import Callable, Iterable
from typing import Any, BinaryIO, NamedTuple


def write_whole(
    path: pathlib.Path, data: bytes, *, durable: bool = False, shared: bool = False
) -> None:
    """Write a file atomically: a reader sees the old file or the new one, even after a kill.

    With `durable` the file is on the disk when this returns, and the same holds after a power cut.
    If the path is a link, the file that it leads to is replaced. The data go to a temporary file
    beside the old one. A file or link that already has that name, left by a kill for example, is
    removed first and never written to. With `shared` other processes may write the same file at the
    same time: the temporary file has a name of its own, and the last process wins.

    Raises:
      OSError: it cannot be written (a full disk, for example), or the old file is a device, a pipe,
        a folder or our standard output; the error names a file, and the partial file is removed.
    """
    given, path = path, _target(path)
    partial = part_of(path.with_name(f"{path.name}.{secrets.token_hex(8)}") if shared else path)
    try:
        if not _is_replaceable(given):
            raise OSError(errno.EINVAL, "Not a file to replace", str(given))
        with contextlib.suppress(FileNotFoundError):
            partial.unlink()
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
        try:
            _write_all(descriptor, data)
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(partial, path)
        if durable:
            sync(path.parent)
    except BaseException as error:
        with contextlib.suppress(OSError):
            partial.unlink()
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(path)  # os.write does not set it
        raise


def check_writable(path: pathlib.Path, flag: str, *, with_folder: bool = False) -> None:
    """Check, before long work, that `write_whole` can write a file.

    Args:
      path: the file.
      flag: the flag that names it.
      with_folder: whether its folder will be created, too, if there is none.

    Raises:
      ValueError: its folder is missing or cannot be written to, or it is a device, a pipe, a folder
        or our standard output.
    """
    target = _target(path)
    folder = target.parent
    if with_folder:
        folder = next(parent for parent in target.parents if parent.exists())
    if not _is_replaceable(path):
        raise ValueError(f"{flag} {path}: is not a file to replace")
    if not folder.is_dir():
        raise ValueError(f"{flag} {path}: the folder {folder} does not exist")
    if not os.access(folder, os.W_OK):
        raise ValueError(f"{flag} {path}: the folder {folder} is not writable")


def _target(path: pathlib.Path) -> pathlib.Path:
    """The path, or if it is a link, where it leads."""
    return pathlib.Path(os.path.realpath(path)) if path.is_symlink() else path


def _is_replaceable(path: pathlib.Path) -> bool:
    """Whether there is nothing yet, or a regular file to which we are not printing just now."""
    if not path.exists():
        return True
    is_file, is_ours = path.is_file(), False
    for descriptor in (1, 2):  # where /dev/stdout and /dev/stderr lead
        with contextlib.suppress(OSError):  # it is closed
            is_ours |= os.path.samestat(path.stat(), os.fstat(descriptor))
    return is_file and not is_ours


def _write_all(descriptor: int, data: bytes) -> None:
    remaining = memoryview(data)
    while remaining:  # a disk that fills up accepts only a part
        remaining = remaining[os.write(descriptor, remaining) :]


def open_regular(path: pathlib.Path, most: float = math.inf) -> BinaryIO:
    """Open an untrusted file for reading.

    Raises:
      ValueError: a link, FIFO, device or folder, or a file of more than `most` bytes; nothing was
        read.
      OSError: it cannot be opened.
    """
    _check_regular(path, os.lstat(path), most)  # before opening, which a FIFO's writer would notice
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    file = os.fdopen(descriptor, "rb")
    try:
        _check_regular(path, os.fstat(descriptor), most)
    except ValueError:
        file.close()
        raise
    return file


def _check_regular(path: pathlib.Path, status: os.stat_result, most: float) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise ValueError(f"{path} is a link, which is not followed; name the file it points to")
    if not stat.S_ISREG(status.st_mode):
        raise ValueError(f"{path} is not a regular file")
    if status.st_size > most:
        raise ValueError(f"{path} has {status.st_size:,} bytes; expected at most {most:,}")


def tail(path: pathlib.Path, most: int) -> bytes:
    """The last bytes of a file: all of it if it has no more than `most`.

    Raises:
      ValueError, OSError: as `open_regular`.
    """
    with open_regular(path) as file:
        file.seek(-min(most, os.fstat(file.fileno()).st_size), os.SEEK_END)
        return file.read(most)


def part_of(path: pathlib.Path) -> pathlib.Path:
    """The temporary file that `write_whole` writes before it replaces the old one."""
    return path.with_name(path.name + ".part")


def sync(path: pathlib.Path) -> None:
    """Flush a file, or the entries of a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(folder: pathlib.Path) -> None:
    """Flush a folder and everything in it to the disk."""
    for path in (*folder.rglob("*"), folder):
        sync(path)


def is_empty(path: pathlib.Path) -> bool:
    """Whether the file exists and is empty."""
    return path.exists() and path.stat().st_size == 0


def write_json(path: pathlib.Path, value: Any, *, durable: bool = False) -> None:
    """Write JSON atomically; dataclasses become objects, other types text."""
    data = (json.dumps(value, indent=2, default=_plain) + "\n").encode()
    write_whole(path, data, durable=durable)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return str(value)


_MAX_DEPTH = 100


def parse_json(data: bytes | str) -> Any:
    """The value of a JSON text.

    Raises:
      ValueError: it is not JSON, or is nested more than 100 deep.
    """
    try:
        value = json.loads(data)
    except RecursionError as error:
        raise ValueError(f"nested more than {_MAX_DEPTH} deep") from error
    level = [value]
    for _ in range(_MAX_DEPTH):
        level = [child for parent in level for child in _children(parent)]
        if not level:
            return value
    raise ValueError(f"nested more than {_MAX_DEPTH} deep")


def _children(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


class Damaged(NamedTuple):
    """A line of a file of records that is not a valid record."""

    message: str
    line: bytes


def read_lines(
    path: pathlib.Path,
    make: Callable[[Any], Any] = lambda value: value,
    damaged: list[Damaged] | None = None,
) -> list[Any]:
    """The records of a file, one JSON value per line; an empty list if there is no file.

    Anything after the last newline is ignored: a kill cut it off, or it is still being written.

    Args:
      path: the file.
      make: makes a record of each value; if it raises, the line is damaged.
      damaged: a list to collect damaged lines, which are then skipped; None raises.

    Raises:
      ValueError: a line that is not JSON, or from which no record can be made.
    """
    records = []
    lines = _complete_lines(path.read_bytes()).split(b"\n")[:-1] if path.exists() else []
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
    """Cut off anything after the last newline of a file, if the file exists."""
    if not path.exists():
        return
    data = path.read_bytes()
    complete = _complete_lines(data)
    if complete != data:
        os.truncate(path, len(complete))


def _complete_lines(data: bytes) -> bytes:
    return data[: data.rfind(b"\n") + 1]


def add_line(path: pathlib.Path, record: Any, *, durable: bool = True) -> None:
    """Append a record to a file, creating it if needed; with `durable` it is then on the disk.

    Nothing else may write to the file meanwhile.

    Raises:
      OSError: it could not be written (a full disk, for example); the error names the file, from
        which the part that was written is removed. (After a kill `cut_torn_line` removes it.)
    """
    _append(path, _line(record), durable)


def extend_last_line(path: pathlib.Path, values: dict) -> None:
    """Add values to the last record of a file, an object that is not empty and has none of their
    keys, without reading or writing the others; it is on the disk when this returns.

    After a kill at any moment the record is the old one, perhaps with a damaged line after it, or
    the new one.

    Raises:
      ValueError: the file does not end with an object.
      OSError: as `add_line`.
    """
    size = path.stat().st_size
    if tail(path, 2) != b"}\n":
        raise ValueError(f"{path}: the last line is not a JSON object")
    _append(path, _line(values).removeprefix(b"{"), durable=True)
    with path.open("r+b", buffering=0) as file:  # join the two lines
        os.pwrite(file.fileno(), b", ", size - 2)
        os.fsync(file.fileno())


def _append(path: pathlib.Path, data: bytes, durable: bool) -> None:
    """Append data to a file; an error removes the part that was written, and names the file."""
    try:
        is_new = not path.exists()
        with path.open("ab", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            try:
                _write_all(file.fileno(), data)
                if durable:
                    os.fsync(file.fileno())
            except OSError:
                with contextlib.suppress(OSError):
                    file.truncate(size)
                raise
        if is_new and durable:
            sync(path.parent)
    except OSError as error:
        error.filename = str(path)  # os.write does not set it
        raise


def write_lines(path: pathlib.Path, records: Iterable[Any]) -> None:
    """Replace a file of records atomically; it is on the disk when this returns."""
    write_whole(path, b"".join(map(_line, records)), durable=True)


def _line(record: Any) -> bytes:
    return (json.dumps(record) + "\n").encode()
