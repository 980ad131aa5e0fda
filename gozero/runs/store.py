"""Shared storage for the parts of a run: a folder or a bucket behind one small interface. Layer 0.

    shared = store.at("s3://bucket/run")      # or gs://, az://, file:///, memory:///, or a folder
    shared.create("shards/00000003/9f2c-000000.zst", data)
    shared.list("shards", after="shards/00000001")

An object is either complete or absent. `create` never overwrites, so no locks are needed: of many
processes that create the same key, one succeeds. `put` overwrites, for objects that only one
process writes.

Buckets use obstore (``pip install 'gozero[cloud]'``), which takes credentials and endpoints from
the environment, like the providers' own tools, and retries transient failures.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import functools
import os
import pathlib
import re
import secrets
import time
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

from gozero.runs import files

_URL = re.compile(r"([a-zA-Z][a-zA-Z0-9]*):/{1,3}(.*)")
SCHEMES = ("file", "gs", "s3", "az", "memory")
_PARTIAL = re.compile(r"\.[0-9a-f]{16}\.part(\.part)?")  # see `Folder._partial`
_LONGEST_WRITE_S = 3600
PATIENCE_S = 180
"""How long failed requests to a bucket are retried before they raise."""


class Entry(NamedTuple):
    """An object in a listing."""

    key: str
    size: int  # bytes


class Store(Protocol):
    """A folder or a bucket; keys are paths relative to it, with slashes.

    Every method raises an OSError that names the object if the disk or the network fails, and a
    FileNotFoundError if there is no such object.
    """

    name: str
    """The folder or the URL, for messages."""

    def create(self, key: str, data: bytes) -> bool:
        """Write an object that does not exist yet; it is durable when this returns.

        Returns:
          Whether the object now holds these bytes; False if it exists with others. So a retry
          returns True if an earlier attempt succeeded but its reply was lost.
        """
        ...

    def put(self, key: str, data: bytes) -> None:
        """Write an object atomically, replacing it if it exists."""
        ...

    def get(self, key: str, most: int) -> bytes:
        """Read an object.

        Raises:
          ValueError: it has more than `most` bytes, or is not a regular file; nothing was read.
        """
        ...

    def tail(self, key: str, most: int) -> bytes:
        """The last bytes of an object: all of it if it has no more than `most`.

        Raises:
          ValueError: it is not a regular file.
        """
        ...

    def list(self, prefix: str, after: str = "", before: str = "") -> list[Entry]:
        """The objects in ``prefix/`` ("" for all), sorted by key; if given, only those with keys
        after `after` and before `before`."""
        ...

    def delete(self, key: str) -> None:
        """Remove an object, if it exists."""
        ...

    def sweep(self) -> None:
        """Remove what processes that were killed, an hour ago or more, have left of objects."""
        ...


def is_url(place: str | os.PathLike) -> bool:
    """Whether `place` is the URL of a store that is not a folder of this machine."""
    scheme = _scheme(place)
    return scheme is not None and scheme != "file"


def _scheme(place: str | os.PathLike) -> str | None:
    match = _URL.fullmatch(os.fspath(place))
    return match[1].lower() if match else None


def at(place: str | os.PathLike) -> Store:
    """The store at a folder or URL. Nothing is read or written yet.

    Raises:
      ValueError: the URL has another scheme or is invalid, or obstore is missing.
    """
    scheme, text = _scheme(place), os.fspath(place)
    if scheme is None:
        return Folder(pathlib.Path(text))
    if scheme not in SCHEMES:
        schemes = ", ".join(f"{name}://" for name in SCHEMES[:-1])
        raise ValueError(f"{text}: expected a folder, or a URL that begins with {schemes}")
    path = _URL.fullmatch(text)[2]  # pyright: ignore[reportOptionalSubscript]
    if scheme == "file":
        return Folder(pathlib.Path("/", path))
    if scheme == "memory":
        return _memory(f"memory:///{path.lstrip('/')}")
    return Bucket(f"{scheme}://{path}")


@functools.cache
def _memory(url: str) -> Bucket:
    """A store in memory, shared by the whole process."""
    return Bucket(url)


class Folder:
    """A store in a folder that all processes of a run can see: a disk, NFS. See `Store`."""

    def __init__(self, path: pathlib.Path):
        self.path, self.name = path, str(path)

    def create(self, key: str, data: bytes) -> bool:
        path = self.path / key
        with self._partial(path, data) as partial:
            try:
                os.link(partial, path)
            except FileExistsError:
                files.sync(path.parent)  # an attempt may have been cut off before
                return _has_contents(path, data)
            except OSError as error:
                if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS):
                    raise
                if path.exists():  # without hard links, concurrent creates may both succeed
                    return _has_contents(path, data)
                os.replace(partial, path)
            files.sync(path.parent)
        return True

    def put(self, key: str, data: bytes) -> None:
        with self._partial(self.path / key, data) as partial:
            os.replace(partial, self.path / key)
            files.sync((self.path / key).parent)

    @contextlib.contextmanager
    def _partial(self, path: pathlib.Path, data: bytes) -> Iterator[pathlib.Path]:
        """A temporary file beside `path` with its future contents; removed at the end."""
        new = [one for one in (path.parent, *path.parent.parents) if not one.exists()]
        path.parent.mkdir(parents=True, exist_ok=True)
        for folder in new:
            files.sync(folder.parent)
        partial = path.with_name(f".{secrets.token_hex(8)}.part")
        try:
            files.write_whole(partial, data, durable=True)
            yield partial
        finally:
            partial.unlink(missing_ok=True)

    def get(self, key: str, most: int) -> bytes:
        with files.open_regular(self.path / key, most) as file:
            return file.read()

    def tail(self, key: str, most: int) -> bytes:
        return files.tail(self.path / key, most)

    def list(self, prefix: str, after: str = "", before: str = "") -> list[Entry]:
        entries = []
        for folder, subfolders, names in os.walk(self.path / prefix, onerror=_raise_unless_missing):
            relative = pathlib.Path(folder).relative_to(self.path).as_posix() + "/"
            relative = relative.removeprefix("./")
            subfolders[:] = [
                name for name in subfolders if f"{relative}{name}" >= after[: len(relative + name)]
            ]
            keys = (f"{relative}{name}" for name in names if not name.startswith("."))
            for key in (key for key in keys if after < key and (not before or key < before)):
                with contextlib.suppress(FileNotFoundError):  # removed meanwhile
                    entries.append(Entry(key, os.lstat(self.path / key).st_size))
        return sorted(entries)

    def delete(self, key: str) -> None:
        (self.path / key).unlink(missing_ok=True)

    def sweep(self) -> None:
        for folder, _, names in os.walk(self.path):
            for path in (pathlib.Path(folder, name) for name in names if _PARTIAL.fullmatch(name)):
                with contextlib.suppress(OSError):  # removed meanwhile, or not ours to remove
                    if time.time() - os.lstat(path).st_mtime > _LONGEST_WRITE_S:
                        path.unlink()


def _has_contents(path: pathlib.Path, data: bytes) -> bool:
    with contextlib.suppress(ValueError), files.open_regular(path, len(data)) as file:
        return file.read() == data
    return False


def _raise_unless_missing(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


class Bucket:
    """A store in a bucket, through obstore. See `Store`.

    Raises:
      ValueError: the URL is invalid, or obstore is missing.
    """

    def __init__(self, url: str):
        try:
            import obstore
        except ImportError as error:
            raise ValueError(
                f"{url}: needs the package obstore: pip install 'gozero[cloud]'"
            ) from error
        self.name, self._obstore = url, obstore
        options: dict[str, Any] = {}
        if not url.startswith("memory:"):
            patience = datetime.timedelta(seconds=PATIENCE_S)
            options["retry_config"] = {"max_retries": 12, "retry_timeout": patience}
            options["client_options"] = {"timeout": "600s", "allow_http": True}
        try:
            self._store = obstore.store.from_url(url, **options)
        except (obstore.exceptions.BaseError, ValueError) as error:
            raise ValueError(f"{url}: {_first_line(error)}") from error

    def create(self, key: str, data: bytes) -> bool:
        exists = self._obstore.exceptions.AlreadyExistsError
        with self._naming_errors(key):
            try:
                self._obstore.put(self._store, key, data, mode="create", use_multipart=False)
            except exists:
                size = self._obstore.head(self._store, key)["size"]
                return size == len(data) and self.get(key, size) == data
        return True

    def put(self, key: str, data: bytes) -> None:
        with self._naming_errors(key):
            self._obstore.put(self._store, key, data)

    def get(self, key: str, most: int) -> bytes:
        with self._naming_errors(key):
            response = self._obstore.get(self._store, key)
            size = response.meta["size"]
            if size <= most:
                return bytes(response.bytes())
        raise ValueError(f"{self.name}/{key} has {size:,} bytes; expected at most {most:,}")

    def tail(self, key: str, most: int) -> bytes:
        with self._naming_errors(key):
            size = self._obstore.head(self._store, key)["size"]
            if not min(most, size):
                return b""
            start = size - min(most, size)
            return bytes(self._obstore.get_range(self._store, key, start=start, end=size))

    def list(self, prefix: str, after: str = "", before: str = "") -> list[Entry]:
        with self._naming_errors(prefix):
            entries: list[Entry] = []
            filters = {"prefix": prefix or None, "offset": after or None}
            for page in self._obstore.list(self._store, **filters, chunk_size=1000):
                entries += (Entry(item["path"], item["size"]) for item in page)
                if before and entries and entries[-1].key >= before:
                    break
        return sorted(entry for entry in entries if not before or entry.key < before)

    def delete(self, key: str) -> None:
        with self._naming_errors(key), contextlib.suppress(FileNotFoundError):
            self._obstore.delete(self._store, key)

    def sweep(self) -> None:
        """Nothing: an upload that is cut off leaves no object."""

    @contextlib.contextmanager
    def _naming_errors(self, key: str) -> Iterator[None]:
        """Turns errors of obstore into OSErrors that name the object."""
        where = f"{self.name}/{key}"
        try:
            yield
        except FileNotFoundError as error:
            raise FileNotFoundError(errno.ENOENT, "no such object", where) from error
        except self._obstore.exceptions.BaseError as error:
            raise OSError(errno.EIO, _first_line(error), where) from error


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0][:300]
