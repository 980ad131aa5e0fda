"""Reads the shards of workers into the replay ring.

Before each iteration it looks for shards that were not read yet, of the newest few versions of the
weights. Their rows go to the devices in turn, in chunks of one size. Which were read is remembered
with the checkpoint that holds their rows, so a run that goes on loses none and reads none twice. A
shard that is damaged is named once and passed over, one that comes too late is counted; one that
the disk or the network does not give is asked for again. Of many processes the first reads, and
tells the others.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh

from gozero.play import shards
from gozero.play.rows import FREQUENCY_UNIT, Rows, row_shapes
from gozero.play.shards import Place, Shard
from train import exchange, steps
from train.buffer import Buffer
from train.plan import Plan

CHUNK = 1024
"""Rows that go to a device at a time."""
SWEEP_S = 60.0
"""Seconds between looks for shards of all versions that are still read; otherwise it is for those
of the newest two, so that a look takes as long after a month as on the first day."""


class Piece(NamedTuple):
    """Rows on their way to the devices, [D, n] each, on the host."""

    rows: Rows
    frequency: np.ndarray  # f32
    keep: np.ndarray  # bool: which of them there are


class Ledger:
    """Which shards are done with: of each worker and version of the weights, their numbers."""

    def __init__(self, plain: dict[str, list[list[int]]] | None = None):
        self._numbers = {
            worker: {number for first, last in spans for number in range(first, last + 1)}
            for worker, spans in (plain or {}).items()
        }

    def __contains__(self, place: Place) -> bool:
        return place.number in self._numbers.get(_holder(place), ())

    def add(self, place: Place) -> None:
        self._numbers.setdefault(_holder(place), set()).add(place.number)

    def forget(self, version: int) -> None:
        """Those of earlier versions, which are listed no more."""
        first = f"{version:08d}"
        old = [name for name in self._numbers if "/" in name and name < first]
        for name in old:
            del self._numbers[name]

    @property
    def plain(self) -> dict[str, list[list[int]]]:
        """{version/worker: [[first, last], ...]}, as JSON has it."""
        return {worker: _spans(numbers) for worker, numbers in sorted(self._numbers.items())}


def _holder(place: Place) -> str:
    return f"{place.version:08d}/{place.worker}" if place.version else place.worker


def _names(place: Place) -> list[str]:
    """What a shard may be called: leading zeros and folders make no other ones of it."""
    return [shards.key_of(place, suffix) for suffix in shards.SUFFIXES]


def _spans(numbers: Iterable[int]) -> list[list[int]]:
    """Runs of whole numbers: first and last of each."""
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return spans


class ShardReader:
    """The reader of a run's shards.

    Attributes:
      read: shards whose rows were taken, over all sessions.
      skipped: shards that could not be.
      late: shards that were not taken, for they came after too many versions of the weights.
      version: of the weights, when it looked last.
      rows: taken.
      sources: the newest of them, as many as the rings hold: [n for the n-th that was read, its
        name, its rows]. As the number of its game each of its rows has -n in the ring.
    """

    def __init__(self, plan: Plan, mesh: Mesh, progress: dict | None = None):
        self.plan, self.shared = plan, plan.config.shared
        progress = progress or {}
        self.ledger = Ledger(progress.get("done"))
        self.strange = set(progress.get("strange", ()))  # names that no worker gives
        self.read: int = progress.get("read", 0)
        self.skipped: int = progress.get("skipped", 0)
        self.late: int = progress.get("late", 0)
        self.version: int = progress.get("version", 0)
        self.rows: int = progress.get("rows", 0)
        self.sources: list[list] = progress.get("sources", [])
        self.chunk = min(CHUNK, plan.buffer.capacity)
        self._add = steps.make_add(plan, mesh)
        self._compiled: Any = None
        self._awaited: set[str] = set()  # what could not be read at some time
        self._swept = -SWEEP_S

    @property
    def progress(self) -> dict:
        """What is remembered, for a checkpoint that holds the rows."""
        since = {"late": self.late, "version": self.version, "sources": self.sources}
        return {
            "done": self.ledger.plain,
            "strange": sorted(self.strange),
            "read": self.read,
            "skipped": self.skipped,
            "rows": self.rows,
            **{name: value for name, value in since.items() if value},  # earlier ones had none
        }

    def name_of(self, source: int) -> str:
        """Whose rows have this number of a game in the ring, in words."""
        names = {-number: name for number, name, _ in self.sources}
        if source >= 0:
            return f"game {source} of this run's own"
        if source not in names:
            return f"shard {-source} of those read"
        return f"shard {self.shared.name}/{shards.FOLDER}/{names[source]}"

    def take(self, buffer: Buffer) -> Buffer:
        """The rings with the rows of all shards that are new; those that were given are donated."""
        first = jax.process_index() == 0
        pieces = self._pieces() if first else iter(())
        while True:
            piece = next(pieces, None)
            if not _agreed(np.bool_(piece is not None)):
                return buffer
            rows = _agreed(self._blank(1) if piece is None else piece)
            if self._compiled is None:
                self._compiled = self._add.lower(buffer, *rows).compile()
            buffer = self._compiled(buffer, *rows)

    def _pieces(self) -> Iterator[Piece]:
        """What the shards that are there now come to, a chunk for each device at a time."""
        held: list[Shard] = []
        room = self.chunk * self.plan.num_devices
        rules = self.plan.said
        for place, key in self._unread():
            name = f"{self.shared.name}/{key}"
            try:
                data = self.shared.get(key, shards.MOST_BYTES)
                shard = shards.read(name, rules, *self._kept, data)
            except OSError as error:  # of a shared disk for a moment, say: not the shard's fault
                self._later(key, f"shard {error}")
                continue
            except ValueError as error:
                self._skip(error)
            else:
                held.append(self._numbered(shard, key.removeprefix(f"{shards.FOLDER}/")))
            self.ledger.add(place)
            if sum(shard.about.rows for shard in held) >= room:
                yield from self._divided(held)
                held = []
        yield from self._divided(held)

    def _numbered(self, shard: Shard, name: str) -> Shard:
        """The next shard, its rows with its number in place of their games'."""
        self.read += 1
        self.sources.append([self.read, name, shard.about.rows])
        most = self.plan.buffer.capacity * self.plan.num_devices
        while sum(rows for _, _, rows in self.sources[1:]) >= most:
            del self.sources[0]
        game = np.full_like(shard.rows.game, -self.read)
        return shard._replace(rows=shard.rows.replace(game=game))

    @property
    def _kept(self) -> tuple[str, int]:
        """The type of policy targets in the ring, and the boards before each row there."""
        return self.plan.buffer.policy_dtype, self.plan.buffer.history

    def _unread(self) -> list[tuple[Place, str]]:
        """The shards that are to be read, by version and then in turn, with their keys."""
        since, unread, now = self.version - exchange.KEPT, [], time.monotonic()
        sweeps = now - self._swept >= SWEEP_S
        first = since - exchange.KEPT if sweeps else self.version - 1
        try:
            self.version = max(self.version, exchange.newest(self.shared).version)
            entries = self.shared.list(shards.FOLDER, f"{shards.FOLDER}/{max(0, first):08d}")
        except (OSError, ValueError) as error:
            self._later(shards.FOLDER, f"shards {self.shared.name}/{shards.FOLDER}: {error}")
            return []
        for key in (entry.key for entry in entries if not entry.key.endswith(".part")):
            place = shards.place_of(key)
            if place is None or key not in _names(place):
                self._strange(key)
            elif place in self.ledger:
                continue
            elif 0 < place.version < since:
                self.ledger.add(place)
                self.late += 1
            else:
                unread.append((place, key))
        self.ledger.forget(since - exchange.KEPT)
        self._swept = now if sweeps else self._swept
        return sorted(unread, key=lambda one: (one[0].version, *one[0]))

    def _strange(self, key: str) -> None:
        name = key.removeprefix(f"{shards.FOLDER}/")
        if name not in self.strange:
            self.strange.add(name)
            self._skip(
                f"shard {self.shared.name}/{key}: its name is not of the kind NAME-000000.npz"
            )

    def _later(self, what: str, message: str) -> None:
        if what not in self._awaited:
            self._awaited.add(what)
            print(f"tried again later: {message}", file=sys.stderr, flush=True)

    def _skip(self, error: object) -> None:
        self.skipped += 1
        print(f"passed over: {error}", file=sys.stderr, flush=True)

    def _blank(self, num_chunks: int) -> Piece:
        lead = (self.plan.num_devices, num_chunks * self.chunk)
        shapes = row_shapes(self.plan.play.game, *self._kept)
        rows = jax.tree.map(lambda x: np.zeros((*lead, *x.shape), x.dtype), shapes)
        return Piece(rows, np.zeros(lead, np.float32), np.zeros(lead, bool))

    def _divided(self, found: list[Shard]) -> Iterator[Piece]:
        """The rows of shards, each for the device after the last one's."""
        devices, total = self.plan.num_devices, sum(shard.about.rows for shard in found)
        if not total:
            return
        turn = self.rows % devices + np.arange(total)
        device, place = turn % devices, turn // devices
        num_chunks = place[-1] // self.chunk + 1
        whole = self._blank(num_chunks)

        def fill(all_, *parts):
            all_[device, place] = np.concatenate(parts)

        jax.tree.map(fill, whole.rows, *(shard.rows for shard in found))
        unit = np.float32(FREQUENCY_UNIT)
        fill(whole.frequency, *(shard.frequency / unit for shard in found))
        whole.keep[device, place] = True
        self.rows += total
        for i in range(num_chunks):
            part = slice(i * self.chunk, (i + 1) * self.chunk)
            yield jax.tree.map(lambda x, part=part: x[:, part], whole)


def _agreed(tree: Any) -> Any:
    """The first process's, on the host."""
    if jax.process_count() == 1:
        return tree
    return jax.tree.map(np.asarray, multihost_utils.broadcast_one_to_all(tree))
