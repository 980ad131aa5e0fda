"""Disk faults: `faults.c` preloaded into a process, and what a power cut would leave on disk."""

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
    """Compile the library to preload into a folder; returns its path."""
    library = folder / "faults.so"
    command = ["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl"]
    subprocess.run(command, check=True, capture_output=True)
    return library


class Faults:
    """The disk faults of this process, which has preloaded the library, below $FAULTS_FOLDER."""

    def __init__(self):
        self._library = ctypes.CDLL(os.environ["LD_PRELOAD"])
        self._library.faults_arm.argtypes = [ctypes.c_long, ctypes.c_long]
        self._library.faults_count.restype = ctypes.c_long
        self._kind = ctypes.CFUNCTYPE(None, ctypes.c_int)
        self._hears: list = []

    def arm(self, first: int, last: int = NEVER) -> None:
        """Let the `first` to `last` write from now on find the disk full."""
        self._library.faults_arm(first, last)

    @property
    def count(self) -> int:
        """The number of writes since `arm`."""
        return self._library.faults_count()

    def on_sync(self, callback: Callable[[int], None] | None) -> None:
        """Call `callback` before each fsync, with its file descriptor."""
        self._hears.append(self._kind(0 if callback is None else callback))
        self._library.faults_on_sync(self._hears[-1])


class Disk:
    """What of a folder is on the disk for certain: the contents and names that were fsynced.

    Attributes:
      images: {digest: (image, what had been promised)}; an image is {path: contents, or None for
        a folder}, as left by a power cut at some fsync.
      count: the number of fsyncs.
    """

    def __init__(self, root: pathlib.Path, promised: Callable[[], int]):
        self.root, self._promised = root, promised
        self.images: dict[str, tuple[dict, int]] = {}
        self.count = 0
        self._contents: dict[int, bytes] = {}
        self._names: dict[int, dict[str, int]] = {}
        self._held: dict[int, int] = {}  # inode -> a descriptor, so that no inode is reused
        self._lock = threading.Lock()
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
        self._sync(root)

    def sync(self, descriptor: int) -> None:
        """Called before an fsync: the power may fail now, or else what it syncs is on the disk."""
        with self._lock:
            self.count += 1
            self.cut()
            with contextlib.suppress(FileNotFoundError):
                self._sync(pathlib.Path(os.readlink(f"/proc/self/fd/{descriptor}")))

    def cut(self) -> tuple[dict, dict]:
        """Keep what a power cut now could leave: only what was synced; or, as on file systems that
        write names first, all names, but only the contents that were synced."""
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
