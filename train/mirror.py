"""A run in a bucket: it works in a local folder, and resumes from a copy in the bucket.

    checkpoints/000040/ID/...        a checkpoint of `train.checkpoint`; one of the newest
    checkpoints/000040/whole         that ID, which is drawn at each start
    config.json, metrics.jsonl ...   the other files of `train.folder`, as of the newest checkpoint

`whole` is written last, and only if it does not exist. If two processes train one run, the second
to reach a checkpoint stops. Before a process writes other files it looks for checkpoints of others,
so one that began before another's newest checkpoint overwrites nothing; one that begins between two
checkpoints brings the records back to the last one until the first process writes them again.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import secrets
import shutil
import sys
from collections.abc import Iterable

from gozero.runs.folder import lock_file
from gozero.runs.store import Bucket, Store
from train import checkpoint, exchange
from train.config import TrainConfig
from train.folder import LOCK

CHECKPOINTS = "checkpoints"
ID_FILE = "whole"
MOST_BYTES = 2**36
"""The largest size of a file."""


class Mirror:
    """A context manager, from a run's start to its end. For a run in a folder it does nothing.

    On entry it deletes the local folders that killed processes of the run have left. On exit it
    deletes its own, unless an error ends the run before a checkpoint there is in the bucket.

    Raises:
      OSError: on entry, the bucket cannot be read.
    """

    def __init__(self, config: TrainConfig):
        self.shared: Store = config.shared
        self.folder = config.folder
        self.needed = isinstance(self.shared, Bucket)
        self._id = secrets.token_hex(4)
        self._known_checkpoints: set[int] = set()
        self._pushed: dict[pathlib.Path, tuple[int, int]] = {}

    def __enter__(self) -> Mirror:
        if self.needed:
            self._sweep()
            shutil.rmtree(self.folder, ignore_errors=True)
            self._pull()
        return self

    def _sweep(self) -> None:
        """Delete the local folders of processes that no longer run."""
        lead = self.folder.name.removesuffix(str(os.getpid()))
        for path in self.folder.parent.glob(f"{lead}*"):
            number = path.name.removeprefix(lead)  # or more, if it was kept on purpose
            with contextlib.suppress(OSError, ValueError, OverflowError):
                if number.isdecimal() and _is_left_over(path, int(number)):
                    shutil.rmtree(path, ignore_errors=True)

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if not self.needed:
            return
        if error is None or not self._local_checkpoints() - self._known_checkpoints:
            shutil.rmtree(self.folder, ignore_errors=True)
            return
        kept = self.folder.with_name(f"{self.folder.name}-{self._id}")  # no later run deletes it
        self.folder.rename(kept)
        print(
            f"--out {self.shared.name}: the newest checkpoint is not in the bucket, so the run's "
            f"local folder is kept: {kept}",
            file=sys.stderr,
        )

    def _pull(self) -> None:
        self._known_checkpoints = self._committed()
        for iteration in self._known_checkpoints:
            with contextlib.suppress(FileNotFoundError):  # another process may drop an old one
                prefix = f"{CHECKPOINTS}/{iteration:06d}"
                source = f"{prefix}/{self.shared.get(f'{prefix}/{ID_FILE}', 64).decode()}"
                for key, _ in self.shared.list(source):
                    self._fetch(key, prefix + key.removeprefix(source))
        entries = self.shared.list("", before="shards/") + self.shared.list("", after="shards0")
        for key, _ in entries:  # there may be millions of shards
            if key.split("/")[0] not in (CHECKPOINTS, "newest", exchange.NEWEST):
                self._fetch(key, key)
        self._pushed = {path: _stamp(path) for path in self._files()}

    def _fetch(self, key: str, name: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.shared.get(key, MOST_BYTES))

    def _committed(self) -> set[int]:
        """The iterations of the complete checkpoints in the bucket."""
        keys = [key.split("/") for key, _ in self.shared.list(CHECKPOINTS)]
        return {int(key[1]) for key in keys if key[2:] == [ID_FILE] and key[1].isdigit()}

    def drop_after(self, iteration: int) -> None:
        """Delete the copies of checkpoints after the iteration that the run resumes from: those are
        damaged."""
        for later in sorted(self._known_checkpoints) if self.needed else ():
            if later > iteration:
                self._drop(later)

    def forget(self, paths: Iterable[pathlib.Path]) -> None:
        """Delete the copies of files that have been renamed.

        Raises:
          ValueError: another process has continued the run.
        """
        if not self.needed:
            return
        self._check_owned()
        for path in paths:
            self.shared.delete(self._key(path))
            self._pushed.pop(path, None)

    def commit(self, iteration: int) -> None:
        """Copy a checkpoint and the other files of the run, and delete the copies of checkpoints
        that are no longer in the local folder.

        Raises:
          ValueError: another process has continued the run.
          OSError: it cannot be written.
        """
        if not self.needed:
            return
        prefix = f"{CHECKPOINTS}/{iteration:06d}"
        self._check_owned()
        for path in sorted((self.folder / prefix).rglob("*")):
            if path.is_file():
                name = path.relative_to(self.folder / prefix).as_posix()
                self.shared.put(f"{prefix}/{self._id}/{name}", path.read_bytes())
        self.push()  # before the checkpoint counts, or a kill would lose metrics
        if not self.shared.create(f"{prefix}/{ID_FILE}", self._id.encode()):
            raise self._not_owned(iteration)
        self._known_checkpoints.add(iteration)
        for old in self._known_checkpoints - self._local_checkpoints():
            self._drop(old)

    def _local_checkpoints(self) -> set[int]:
        """The iterations of the complete checkpoints in the local folder."""
        return {one.iteration for one in checkpoint.saved_in(self.folder / CHECKPOINTS)}

    def _check_owned(self) -> None:
        """Refuse to write if another process has written checkpoints since this one started."""
        others = self._committed() - self._known_checkpoints
        if others:
            raise self._not_owned(max(others))

    def _not_owned(self, iteration: int) -> ValueError:
        return ValueError(
            f"--out {self.shared.name}: another process is training this run, and has written the "
            f"checkpoint of iteration {iteration}"
        )

    def push(self) -> None:
        """Copy the files outside checkpoints/ that have changed.

        Raises:
          ValueError: another process has continued the run.
          OSError: they cannot be written.
        """
        if not self.needed:
            return
        self._check_owned()
        for path in self._files():
            if self._pushed.get(path) != (stamp := _stamp(path)):
                self.shared.put(self._key(path), path.read_bytes())
                self._pushed[path] = stamp

    def _files(self) -> list[pathlib.Path]:
        paths = [path for path in self.folder.rglob("*") if path.is_file() and path.name != LOCK]
        return sorted(path for path in paths if not self._key(path).startswith(CHECKPOINTS))

    def _drop(self, iteration: int) -> None:
        prefix = f"{CHECKPOINTS}/{iteration:06d}"
        self.shared.delete(f"{prefix}/{ID_FILE}")
        for key, _ in self.shared.list(prefix):
            self.shared.delete(key)
        self._known_checkpoints.discard(iteration)

    def _key(self, path: pathlib.Path) -> str:
        return path.relative_to(self.folder).as_posix()


def _is_left_over(folder: pathlib.Path, process: int) -> bool:
    """Whether the process of a local folder has ended, and none, in another container, holds it.

    Raises:
      OSError, ValueError, OverflowError: another process holds it, or it is no such folder.
    """
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, 0)
        return False
    lock_file(folder / LOCK, "", "").close()
    return True


def _stamp(path: pathlib.Path) -> tuple[int, int]:
    stat: os.stat_result = path.stat()
    return stat.st_mtime_ns, stat.st_size
