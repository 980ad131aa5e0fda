"""Reads the shards of workers into the replay ring.

Before each iteration it looks for shards that were not read yet, of the newest few versions of the
weights. Their rows go to the devices in turn, in chunks of one size. The shards read are recorded
in the checkpoint that holds their rows, so a resumed run loses none and reads none twice. A damaged
shard is reported once and skipped, and one that comes too late is counted; one that cannot be read
because of the disk or the network is tried again.

Of many processes the first looks for shards, and assigns to each process about as many bytes. Each
reads its own shards, for its own devices; then all are told what was read.
"""

from __future__ import annotations

import collections
import math
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding

from gozero.play import shards
from gozero.play.rows import FREQUENCY_UNIT, PolicyDtype, Rows, row_shapes
from gozero.play.shards import Place, Shard
from gozero.runs.store import Entry
from train import exchange, hosts, steps
from train.buffer import Buffer
from train.plan import Plan

CHUNK = 1024
"""Rows that go to a device at a time."""
SWEEP_S = 60.0
"""Seconds within which every version that is still read is looked at, in turn; the newest ones are
looked at each time. So a look takes as long after a month as on the first day."""
SKIPPED, LATER = -1, -2
"""In place of the number of rows of a shard: it cannot be read at all, or not now."""


class Piece(NamedTuple):
    """Rows on their way to the devices, [D, n] each, on the host."""

    rows: Rows
    frequency: np.ndarray  # f32
    keep: np.ndarray  # bool: which rows exist


class Handed(NamedTuple):
    """A shard assigned to a process."""

    host: int
    place: Place
    key: str
    size: int  # bytes


class ReadResult(NamedTuple):
    """The result of reading an assigned shard."""

    turn: int  # of the shard, in the order of all that were assigned
    rows: int  # their number; or SKIPPED, or LATER
    shard: Shard | None


class Ledger:
    """The shards that are done with, by their names without a suffix."""

    def __init__(self, plain: dict[str, list[list[int]]] | None = None):
        self._done = {
            f"{holder}-{number:06d}"
            for holder, spans in (plain or {}).items()
            for first, last in spans
            for number in range(first, last + 1)
        }

    def __contains__(self, name: str) -> bool:
        return name in self._done

    def add(self, place: Place) -> None:
        self._done.add(shards.key_of(place, "").removeprefix(f"{shards.FOLDER}/"))

    def forget(self, version: int) -> None:
        """Forget the shards of versions before this one, which are no longer listed."""
        first = f"{version:08d}"
        self._done = {name for name in self._done if name >= first or "/" not in name}

    @property
    def plain(self) -> dict[str, list[list[int]]]:
        """{version/worker: [[first, last], ...]}, for JSON; without a version if there is none."""
        numbers = collections.defaultdict(list)
        for name in self._done:
            holder, _, number = name.rpartition("-")
            numbers[holder].append(int(number))
        return {holder: _spans(found) for holder, found in sorted(numbers.items())}


def _names(place: Place) -> list[str]:
    """The keys that a shard may have. One with other leading zeros or folders is not accepted, so
    that no shard is read twice."""
    return [shards.key_of(place, suffix) for suffix in shards.SUFFIXES]


def _spans(numbers: Iterable[int]) -> list[list[int]]:
    """Runs of consecutive numbers: [first, last] of each."""
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
      read: the number of shards whose rows were taken, over all sessions.
      skipped: the number of shards that could not be read.
      late: the number of shards not taken because they came too many versions late.
      version: of the weights, at the last look.
      rows: the number of rows taken.
      sources: the newest shards read, as many as the rings hold: [n for the n-th that was read, its
        name, its rows]. In the ring, the `game` of each of its rows is -n.
      dealt: with many processes, the bytes and the rows of the shards that each has read.
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
        self.dealt: list[list[int]] = progress.get("dealt", [])
        self.devices = len(mesh.local_devices)
        self.chunk = min(CHUNK, plan.buffer.capacity)
        self._mesh, self._add = mesh, steps.make_add(plan, mesh)
        self._compiled: Any = None
        self._awaited: set[str] = set()  # what could not be read at some time
        self._looked = -math.inf  # the time of the last look
        self._older = 0  # of the versions before the newest two, the one looked at last

    @property
    def progress(self) -> dict:
        """What to store in a checkpoint that holds the rows."""
        names = ("late", "version", "sources", "dealt")
        return {
            "done": self.ledger.plain,
            "strange": sorted(self.strange),
            "read": self.read,
            "skipped": self.skipped,
            "rows": self.rows,
            **{name: value for name in names if (value := getattr(self, name))},  # if there is any
        }

    def name_of(self, source: int) -> str:
        """The source of the rows with this `game` in the ring, in words."""
        names = {-number: name for number, name, _ in self.sources}
        if source >= 0:
            return f"game {source} of this run's own"
        if source not in names:
            return f"shard {-source} of those read"
        return f"shard {self.shared.name}/{shards.FOLDER}/{names[source]}"

    def take(self, buffer: Buffer) -> Buffer:
        """Add the rows of all new shards to the rings, which are donated. Every process calls
        this."""
        for piece in self._pieces():
            rows = self._on_devices(piece)
            if self._compiled is None:
                self._compiled = self._add.lower(buffer, *rows).compile()
            buffer = self._compiled(buffer, *rows)
        return buffer

    def _on_devices(self, piece: Piece) -> Piece:
        """The piece as arrays of all devices; each of many processes has those of its own."""
        if jax.process_count() == 1:
            return piece
        where = NamedSharding(self._mesh, steps.DIVIDED)
        whole = lambda x: (self.plan.num_devices, *x.shape[1:])
        own = lambda x: jax.make_array_from_process_local_data(where, x, whole(x))
        return jax.tree.map(own, piece)

    def _pieces(self) -> Iterator[Piece]:
        """The rows of the shards that are there now, a chunk for each device at a time. Every
        process yields the same number of pieces."""
        handed = self._handed_out()
        own = iter([i for i, one in enumerate(handed) if one.host == jax.process_index()])
        while handed:
            found = self._read_some(handed, own)
            turn, total = self._turn, sum(max(0, one.rows) for one in found)
            chunks = -(-(turn + total) // (self.devices * self.chunk)) if total else 0
            told = hosts.said_by_each([chunks, [[one.turn, one.rows] for one in found]])
            if not any(each for _, each in told):
                return
            numbers = self._count(handed, [each for _, each in told])
            read = [_numbered(one.shard, numbers[one.turn]) for one in found if one.shard]
            yield from self._divided(read, turn, max(most for most, _ in told))

    def _handed_out(self) -> list[Handed]:
        """The shards to read, in order, each assigned to the process that has read the least so
        far."""
        if jax.process_count() == 1:
            return [Handed(0, *one) for one in self._unread()]
        if len(self.dealt) != jax.process_count():
            self.dealt = [[0, 0] for _ in range(jax.process_count())]
        loads, handed = [size for size, _ in self.dealt], []
        for place, key, size in self._unread() if hosts.is_first() else ():
            host = loads.index(min(loads))
            loads[host] += size
            handed.append(Handed(host, place, key, size))
        said = hosts.said_by_first(handed)
        return [Handed(host, Place(*place), key, size) for host, place, key, size in said]

    def _read_some(self, handed: list[Handed], own: Iterator[int]) -> list[ReadResult]:
        """Read this process's next shards, until there are rows for a chunk on each device."""
        found, room = [], self.chunk * self.devices
        for turn in own:
            found.append(self._read(turn, handed[turn].key))
            room -= max(0, found[-1].rows)
            if room <= 0:
                break
        return found

    def _read(self, turn: int, key: str) -> ReadResult:
        name = f"{self.shared.name}/{key}"
        try:
            data = self.shared.get(key, shards.MOST_BYTES)
            shard = shards.read(name, self.plan.said, *self._kept, data)
        except OSError as error:  # a shared disk was away for a moment, say: not the shard's fault
            self._later(key, f"shard {error}")
            return ReadResult(turn, LATER, None)
        except ValueError as error:
            _tell_skipped(error)
            return ReadResult(turn, SKIPPED, None)
        return ReadResult(turn, shard.about.rows, shard)

    def _count(self, handed: list[Handed], told: list[list[list[int]]]) -> dict[int, int]:
        """Record what each process has read, [turn, rows] each; returns the numbers given to the
        shards, by their turns."""
        numbers = {}
        for turn, rows in sorted(one for each in told for one in each):
            host, place, key, size = handed[turn]
            if rows == LATER:
                continue
            if hosts.is_first():  # only the first looks for shards
                self.ledger.add(place)
            if rows == SKIPPED:
                self.skipped += 1
                continue
            self.read += 1
            self.rows += rows
            numbers[turn] = self.read
            self.sources.append([self.read, key.removeprefix(f"{shards.FOLDER}/"), rows])
            if len(told) > 1:
                before = self.dealt[host]
                self.dealt[host] = [before[0] + size, before[1] + rows]
        most = self.plan.buffer.capacity * self.plan.num_devices
        while sum(rows for _, _, rows in self.sources[1:]) >= most:
            del self.sources[0]
        return numbers

    @property
    def _turn(self) -> int:
        """The index of the device, among this process's, that the next row is for."""
        several = jax.process_count() > 1
        return (self.dealt[jax.process_index()][1] if several else self.rows) % self.devices

    @property
    def _kept(self) -> tuple[PolicyDtype, int]:
        """The type of policy targets in the ring, and the number of boards before each row."""
        return self.plan.buffer.policy_dtype, self.plan.buffer.history

    def _unread(self) -> list[tuple[Place, str, int]]:
        """The shards to read, by version and then in turn, with their keys and bytes."""
        since, unread = self.version - exchange.KEPT, []
        try:
            version = max(self.version, exchange.newest(self.shared).version)
            entries = self._listed(version, time.monotonic())
        except (OSError, ValueError) as error:
            self._later(shards.FOLDER, f"shards {self.shared.name}/{shards.FOLDER}: {error}")
            return []
        lead = len(shards.FOLDER) + 1
        for key, size in entries:
            name, suffix = key[lead:-4], key[-4:]
            if (name in self.ledger and suffix in shards.SUFFIXES) or key.endswith(".part"):
                continue
            place = shards.place_of(key)
            if place is None or key not in _names(place):
                self._strange(key)
            elif 0 < place.version < since:
                self.ledger.add(place)
                self.late += 1
            else:
                unread.append((place, key, size))
        if version > self.version:
            self.ledger.forget(version - 2 * exchange.KEPT)
        self.version = version
        return sorted(unread, key=lambda one: (one[0].version, *one[0]))

    def _listed(self, version: int, now: float) -> list[Entry]:
        """The entries of the newest versions, and of some older ones in turn: as many as it takes
        to look at each within SWEEP_S, or at every second look. The first look takes half of those
        that are not too late yet: the oldest, which will be too late soonest."""
        first, passed = max(0, self.version - 2 * exchange.KEPT), now - self._looked
        newest = range(max(first, self.version - 1), version + 1)
        older = range(first, newest.start)
        turn = sorted(older, key=lambda version: (version <= self._older, version))
        due = len(older) * passed / SWEEP_S if passed < SWEEP_S else exchange.KEPT
        many = min(math.ceil(due), exchange.KEPT)
        turn = turn[-exchange.KEPT :][: many // 2] if passed == math.inf else turn[:many]
        entries = []
        for one in (*turn, *newest):
            entries += self.shared.list(f"{shards.FOLDER}/{one:08d}")
        if not self.version:
            entries += self._listed_beyond(version)
        self._looked, self._older = now, turn[-1] if turn else self._older
        return entries

    def _listed_beyond(self, version: int) -> list[Entry]:
        """Shards that are in no version up to this one: those of a run begun by an earlier version
        of the program. They need a list of all keys after it, for which some stores go through all
        their keys, so this is done only until the run has seen a version. A key that no store
        allows makes only this list fail."""
        try:
            return self.shared.list(shards.FOLDER, f"{shards.FOLDER}/{version + 1:08d}")
        except (OSError, ValueError) as error:
            self._later(shards.FOLDER, f"shards {self.shared.name}/{shards.FOLDER}: {error}")
            return []

    def _strange(self, key: str) -> None:
        name = key.removeprefix(f"{shards.FOLDER}/")
        if name not in self.strange:
            self.strange.add(name)
            self.skipped += 1
            _tell_skipped(
                f"shard {self.shared.name}/{key}: its name is not of the kind NAME-000000.npz"
            )

    def _later(self, what: str, message: str) -> None:
        if what not in self._awaited:
            self._awaited.add(what)
            print(f"tried again later: {message}", file=sys.stderr, flush=True)

    def _blank(self, num_chunks: int) -> Piece:
        lead = (self.devices, num_chunks * self.chunk)
        shapes = row_shapes(self.plan.play.game, *self._kept)
        rows = jax.tree.map(lambda x: np.zeros((*lead, *x.shape), x.dtype), shapes)
        return Piece(rows, np.zeros(lead, np.float32), np.zeros(lead, bool))

    def _divided(self, found: list[Shard], turn: int, num_chunks: int) -> Iterator[Piece]:
        """The rows of shards in `num_chunks` chunks: each row goes to the next device in turn."""
        total = sum(shard.about.rows for shard in found)
        place, device = np.divmod(turn + np.arange(total), self.devices)
        whole = self._blank(num_chunks)

        def fill(all_, *parts):
            all_[device, place] = np.concatenate(parts)

        if total:
            jax.tree.map(fill, whole.rows, *(shard.rows for shard in found))
            unit = np.float32(FREQUENCY_UNIT)
            fill(whole.frequency, *(shard.frequency / unit for shard in found))
            whole.keep[device, place] = True
        for i in range(num_chunks):
            part = slice(i * self.chunk, (i + 1) * self.chunk)
            yield jax.tree.map(lambda x, part=part: x[:, part], whole)


def _numbered(shard: Shard, number: int) -> Shard:
    """The n-th shard read, with -n as the `game` of its rows."""
    game = np.full_like(shard.rows.game, -number)
    return shard._replace(rows=shard.rows.replace(game=game))


def _tell_skipped(error: object) -> None:
    print(f"passed over: {error}", file=sys.stderr, flush=True)
