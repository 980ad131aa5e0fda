"""Faults of a disk: `faults.c` preloaded into a process, and what a power cut would leave of it."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import pathlib
import resource
import stat
import subprocess
import threading
from collections.abc import Callable

SOURCE = pathlib.Path(__file__).with_name("faults.c")
NEVER = 2**62


def build(folder: pathlib.Path) -> pathlib.Path:
    """The library to preload, compiled into a folder."""
    library = folder / "faults.so"
    command = ["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl"]
    subprocess.run(command, check=True, capture_output=True)
    return library


class Faults:
    """Of this process, into which the library was preloaded, below $FAULTS_FOLDER."""

    def __init__(self):
        self._library = ctypes.CDLL(os.environ["LD_PRELOAD"])
        self._library.faults_arm.argtypes = [ctypes.c_long, ctypes.c_long]
        self._library.faults_count.restype = ctypes.c_long
        self._kind = ctypes.CFUNCTYPE(None, ctypes.c_int)
        self._hears: list = []

    def arm(self, first: int, last: int = NEVER) -> None:
        """Have the writes from one number to another, from now on, find the disk full."""
        self._library.faults_arm(first, last)

    @property
    def count(self) -> int:
        """Writes since `arm`."""
        return self._library.faults_count()

    def on_sync(self, hear: Callable[[int], None] | None) -> None:
        """Call this before each fsync, with its file descriptor."""
        self._hears.append(self._kind(0 if hear is None else hear))
        self._library.faults_on_sync(self._hears[-1])


class Disk:
    """What of a folder is on the disk: the contents and the names that an fsync has put there.

    Attributes:
      images: {digest: (image, what was promised then)}; an image is {path: contents, None of a
        folder}, of a power cut at some fsync.
      count: fsyncs seen.
    """

    def __init__(self, root: pathlib.Path, promised: Callable[[], int]):
        self.root, self._promised = root, promised
        self.images: dict[str, tuple[dict, int]] = {}
        self.count = 0
        self._contents: dict[int, bytes] = {}
        self._names: dict[int, dict[str, int]] = {}
        self._held: dict[int, int] = {}  # inodes by a descriptor, so that no number is used twice
        self._lock = threading.Lock()
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
        self._sync(root)

    def sync(self, descriptor: int) -> None:
        """Called before an fsync: the power may go now, or what is synced is on the disk."""
        with self._lock:
            self.count += 1
            self.cut()
            with contextlib.suppress(FileNotFoundError):
                self._sync(pathlib.Path(os.readlink(f"/proc/self/fd/{descriptor}")))

    def cut(self) -> tuple[dict, dict]:
        """Keep what a power cut now would leave: nothing that was not synced; or all names and,
        as file systems do that write them first, nothing of the contents that were not."""
        images = self._synced_only(), self._all_names()
        for image in images:
            text = repr(sorted(image.items()))
            self.images[hashlib.sha256(text.encode()).hexdigest()] = image, self._promised()
        return images

    def _sync(self, path: pathlib.Path) -> None:
        number = self._hold(path)
        if path.is_dir():
            self._names[number] = {}
            for one in path.iterdir():
                with contextlib.suppress(FileNotFoundError):
                    self._names[number][one.name] = self._hold(one)
        else:
            self._contents[number] = path.read_bytes()

    def _hold(self, path: pathlib.Path) -> int:
        descriptor = os.open(path, os.O_RDONLY)
        number = os.fstat(descriptor).st_ino
        if number in self._held:
            os.close(descriptor)
        else:
            self._held[number] = descriptor
        return number

    def _synced_only(self) -> dict[str, bytes | None]:
        image: dict[str, bytes | None] = {}

        def walk(number: int, place: str) -> None:
            for name, inner in self._names.get(number, {}).items():
                if stat.S_ISDIR(os.fstat(self._held[inner]).st_mode):
                    image[place + name] = None
                    walk(inner, f"{place}{name}/")
                else:
                    image[place + name] = self._contents.get(inner, b"")

        walk(self.root.stat().st_ino, "")
        return image

    def _all_names(self) -> dict[str, bytes | None]:
        image: dict[str, bytes | None] = {}
        for path in self.root.rglob("*"):
            with contextlib.suppress(FileNotFoundError):
                number = self._hold(path)
                contents = None if path.is_dir() else self._contents.get(number, b"")
                image[str(path.relative_to(self.root))] = contents
        return image


def lay_out(image: dict[str, bytes | None], root: pathlib.Path) -> None:
    """Make the files and folders of an image."""
    root.mkdir()
    for name, contents in sorted(image.items()):
        if contents is None:
            (root / name).mkdir()
        else:
            (root / name).write_bytes(contents)
