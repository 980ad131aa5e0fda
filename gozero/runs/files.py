"""Writing a file whole or not at all. Floor 0."""

from __future__ import annotations

import contextlib
import os
import pathlib


def write_whole(path: pathlib.Path, data: bytes, *, durable: bool = False) -> None:
    """Write a file so that a reader, or a kill at any moment, finds the old one or the new one.

    With `durable` it is on the disk when this returns, and a power cut leaves the same.

    Raises:
      OSError: it cannot be written, a full disk say; names a file, and nothing is left of what was.
    """
    partial = path.with_name(path.name + ".part")
    try:
        with partial.open("wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        partial.replace(path)
        if durable:
            sync_folder(path.parent)
    except BaseException as error:
        with contextlib.suppress(OSError):
            partial.unlink()
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(path)  # a write does not know it
        raise


def sync_folder(folder: pathlib.Path) -> None:
    """Have the names in a folder on the disk, after a file in it was renamed."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def is_empty(path: pathlib.Path) -> bool:
    """Whether there is a file, and nothing in it."""
    return path.exists() and path.stat().st_size == 0
