"""Where a worker writes: its shards, and what makes a start of it unlike any other.

shards/NAME-ID-000000.npz  see `gozero.play.shards`
workers/NAME.json          its id and starts; the number of its next shard; versions, device
workers/NAME.lock          held while it is at work

The id is drawn when the records are made. Where they are removed, the numbers begin again under
another, and neither games nor shards are taken for those before.
"""

from __future__ import annotations

import hashlib
import json
import pathlib
import re
import secrets
from typing import IO, NamedTuple

import numpy as np

from gozero.play import shards
from gozero.play.rows import Rows
from gozero.play.shards import About, Place
from gozero.runs import folder as folders
from gozero.runs.files import write_whole
from gozero.runs.folder import lock_file


class Seeds(NamedTuple):
    """Of all chance in a start; see `selfplay.start`."""

    seed: int  # u32
    shard: int  # i31


class WorkerRecord:
    """A context manager: from a start of a worker to its end.

    Attributes:
      id: of its records.
      start: which of its starts this is, from 1.
      next_shard: its number.
      rows, games: written since the start.

    Raises:
      ValueError: on entry, another worker of that name is at work, or its records are damaged.
    """

    def __init__(self, out: pathlib.Path, name: str, seed: int = 0):
        self.out, self.name, self.seed = out, name, seed
        self.path = out / "workers" / f"{name}.json"
        self.id = ""
        self.start = self.next_shard = self.rows = self.games = 0
        self._lock: IO[bytes] | None = None
        self._records: dict = {}

    def __enter__(self) -> WorkerRecord:
        for path in (self.path.parent, self.out / shards.FOLDER):
            path.mkdir(exist_ok=True)
        self._lock = lock_file(
            self.path.with_suffix(".lock"),
            f"--name {self.name}: a worker of that name is at work in {self.out}; give "
            "another name",
            f"no other worker is called {self.name}",
        )
        try:
            self._begin()
        except ValueError:
            self._lock.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock:
            self._lock.close()

    def _begin(self) -> None:
        starts, next_shard, self.id = _before(self.path)
        self.start, self.next_shard = starts + 1, max(next_shard, self._after_the_last())
        self._records = folders.manifest(self.seed)
        self._write_down()

    @property
    def worker(self) -> str:
        """Who its shards say has written them."""
        return f"{self.name}-{self.id}"

    def _after_the_last(self) -> int:
        places = map(shards.place_of, (self.out / shards.FOLDER).iterdir())
        numbers = [place.number for place in places if place and place.worker == self.worker]
        return max(numbers, default=-1) + 1

    def _write_down(self) -> None:
        own = {"id": self.id, "starts": self.start, "next_shard": self.next_shard}
        records = own | self._records
        write_whole(self.path, (json.dumps(records, indent=2) + "\n").encode(), durable=True)

    @property
    def seeds(self) -> Seeds:
        """By the seed, the name, the id, the start, and what was written before."""
        told = json.dumps([self.seed, self.worker, self.start, self.next_shard])
        digest = hashlib.sha256(told.encode()).digest()
        low, high = (int.from_bytes(digest[i : i + 4], "big") for i in (0, 4))
        return Seeds(low, high >> 1)

    def write(self, rules: dict, iteration: int, rows: Rows, frequency: np.ndarray) -> None:
        """The next shard: rows [n], and their frequencies in `FREQUENCY_UNIT`s.

        Raises:
          OSError: it cannot be written.
        """
        games, count, number = len(np.unique(rows.game)), len(frequency), self.next_shard
        about = About(self.worker, number, self.start, iteration, games, count)
        # First, so that after a kill no other shard has this number, which the run may have read.
        self.next_shard += 1
        self._write_down()
        path = shards.path_of(self.out, Place(number, self.worker))
        shards.write(path, rules, about, rows, frequency)
        self.rows += count
        self.games += games


def _new_id() -> str:
    return secrets.token_hex(4)


def _before(path: pathlib.Path) -> tuple[int, int, str]:
    """(starts of a worker so far, the number of its next shard, the id of its records)."""
    if not path.exists():
        return 0, 0, _new_id()
    try:
        records = json.loads(path.read_text())
        id_ = records.get("id") or _new_id()  # of an earlier version: without
        if not re.fullmatch(r"[0-9a-f]{8}", id_):
            raise ValueError(f"id {id_}")
        return int(records["starts"]), int(records["next_shard"]), id_
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"worker {path}: damaged ({error!r}); give another --name") from error
