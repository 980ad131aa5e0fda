"""Writing a file whole or not at all. Floor 0."""

from __future__ import annotations

import pathlib


def write_whole(path: pathlib.Path, data: bytes) -> None:
    """Write a file so that a reader, or a kill at any moment, finds the old one or the new one."""
    partial = path.with_name(path.name + ".part")
    partial.write_bytes(data)
    partial.replace(path)
