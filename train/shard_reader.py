"""Reads the shards of workers into the replay ring.

Before each iteration it looks for new shards of the newest few versions of the weights. Their rows
go to the devices in turn, in chunks of one size. The shards read are recorded in the checkpoint
that contains their rows, so a resumed run loses none and reads none twice. A damaged shard is
reported once and skipped; a shard that comes too late is counted; one that cannot be read because
of the disk or the network is tried again.

In a run of several processes the first looks for shards, and assigns about the same number of bytes
to each process. Each reads its own shards, for its own devices; then all learn what was read.
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
"""The number of rows that go to a device at a time."""
SWEEP_S = 60.0
"""Seconds within which every version that is still read is listed once, in turn; the newest ones
are listed each time. So the time of a listing does not grow with the age of the run."""
SKIPPED, LATER = -1, -2
"""Instead of the number of rows of a shard: it cannot be read at all, or cannot be read now."""


class Chunk(NamedTuple):
    """Rows on their way to the devices, [D, n] each, on the host."""

    rows: Rows
    frequency: np.ndarray  # f32
    keep: np.ndarray  # bool: which rows exist


class Assignment(NamedTuple):
    """A shard assigned to a process."""

    host: int
    place: Place
    key: str
    size: int  # bytes


class ReadResult(NamedTuple):
    """The result of reading an assigned shard."""

    turn: int  # the shard's index among all that were assigned
    rows: int  # their number; or SKIPPED or LATER
    shard: Shard | None


class Ledger:
    """The shards that are not to be read again, by their names without a suffix."""

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
        """Remove the shards of versions before this one, which are no longer listed."""
        first = f"{version:08d}"
        self._done = {name for name in self._done if name >= first or "/" not in name}

    @property
    def plain(self) -> dict[str, list[list[int]]]:
        """{version/worker: [[first, last], ...]}, for JSON; only the worker without a version."""
        numbers = collections.defaultdict(list)
        for name in self._done:
            holder, _, number = name.rpartition("-")
            numbers[holder].append(int(number))
        return {holder: _spans(members) for holder, members in sorted(numbers.items())}


def _valid_keys(place: Place) -> list[str]:
    """The keys that a shard may have. Other leading zeros or folders are not accepted, so that no
    shard is read twice."""
    return [shards.key_of(place, suffix) for suffix in shards.SUFFIXES]


def _spans(numbers: Iterable[int]) -> list[list[int]]:
    """The ranges of consecutive numbers, as [first, last]."""
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
      read: the number of shards read, over all sessions.
      skipped: the number of shards that could not be read.
      late: the number of shards not read because they came too many versions late.
      version: the newest version of the weights, when shards were last listed.
      rows: the number of rows read.
      sources: the newest shards read, as many as the rings hold: [n for the n-th shard read, its
        name, its number of rows]. In the ring, the `game` of each of its rows is -n.
      dealt: in a run of several processes, [bytes, rows] of the shards that each has read.
    """

    def __init__(self, plan: Plan, mesh: Mesh, host_state: dict | None = None):
        self.plan, self.shared = plan, plan.config.shared
        host_state = host_state or {}
        self.ledger = Ledger(host_state.get("done"))
        self.strange = set(host_state.get("strange", ()))  # names that no worker would choose
        self.read: int = host_state.get("read", 0)
        self.skipped: int = host_state.get("skipped", 0)
        self.late: int = host_state.get("late", 0)
        self.version: int = host_state.get("version", 0)
        self.rows: int = host_state.get("rows", 0)
        self.sources: list[list] = host_state.get("sources", [])
        self.dealt: list[list[int]] = host_state.get("dealt", [])
        self.devices = len(mesh.local_devices)
        self.chunk = min(CHUNK, plan.buffer.capacity)
        self._mesh, self._add = mesh, steps.make_add(plan, mesh)
        self._compiled: Any = None
        self._reported: set[str] = set()  # keys whose failure to be read was reported
        self._last_look = -math.inf  # when shards were last listed
        self._last_older = 0  # the last version listed of those before the newest two

    @property
    def host_state(self) -> dict:
        """What to store in a checkpoint that holds the rows."""
        names = ("late", "version", "sources", "dealt")
        return {
            "done": self.ledger.plain,
            "strange": sorted(self.strange),
            "read": self.read,
            "skipped": self.skipped,
            "rows": self.rows,
            **{name: value for name in names if (value := getattr(self, name))},  # unless empty
        }

    def name_of(self, source: int) -> str:
        """A description of the source of the rows with this `game` in the ring."""
        names = {-number: name for number, name, _ in self.sources}
        if source >= 0:
            return f"the run's own game {source}"
        if source not in names:
            return f"the shard read as number {-source}"
        return f"shard {self.shared.name}/{shards.FOLDER}/{names[source]}"

    def take(self, buffer: Buffer) -> Buffer:
        """Add the rows of all new shards to the rings, which are donated. Every process calls
        this."""
        for chunk in self._chunks():
            rows = self._on_devices(chunk)
            if self._compiled is None:
                self._compiled = self._add.lower(buffer, *rows).compile()
            buffer = self._compiled(buffer, *rows)
        return buffer

    def _on_devices(self, chunk: Chunk) -> Chunk:
        """The chunk as arrays over all devices; each process provides its own part."""
        if jax.process_count() == 1:
            return chunk
        sharding = NamedSharding(self._mesh, steps.DIVIDED)
        global_shape = lambda x: (self.plan.num_devices, *x.shape[1:])
        to_global = lambda x: jax.make_array_from_process_local_data(sharding, x, global_shape(x))
        return jax.tree.map(to_global, chunk)

    def _chunks(self) -> Iterator[Chunk]:
        """The rows of the shards that exist now, a chunk for each device at a time. Every process
        yields the same number of chunks."""
        assigned = self._assigned()
        own_turns = iter([i for i, one in enumerate(assigned) if one.host == jax.process_index()])
        while assigned:
            results = self._read_some(assigned, own_turns)
            turn, total = self._turn, sum(max(0, result.rows) for result in results)
            chunks = -(-(turn + total) // (self.devices * self.chunk)) if total else 0
            reports = hosts.gather_from_each([chunks, [[one.turn, one.rows] for one in results]])
            if not any(each for _, each in reports):
                return
            numbers = self._count(assigned, [each for _, each in reports])
            read = [_numbered(one.shard, numbers[one.turn]) for one in results if one.shard]
            yield from self._divided(read, turn, max(most for most, _ in reports))

    def _assigned(self) -> list[Assignment]:
        """The shards to read, in order, each assigned to the process that has read the fewest bytes
        so far."""
        if jax.process_count() == 1:
            return [Assignment(0, *one) for one in self._unread()]
        if len(self.dealt) != jax.process_count():
            self.dealt = [[0, 0] for _ in range(jax.process_count())]
        loads, assigned = [size for size, _ in self.dealt], []
        for place, key, size in self._unread() if hosts.is_first() else ():
            host = loads.index(min(loads))
            loads[host] += size
            assigned.append(Assignment(host, place, key, size))
        fields = hosts.broadcast_from_first(assigned)
        return [Assignment(host, Place(*place), key, size) for host, place, key, size in fields]

    def _read_some(self, assigned: list[Assignment], own_turns: Iterator[int]) -> list[ReadResult]:
        """Read this process's next shards, until there are rows for a chunk on each device."""
        results, missing_rows = [], self.chunk * self.devices
        for turn in own_turns:
            results.append(self._read(turn, assigned[turn].key))
            missing_rows -= max(0, results[-1].rows)
            if missing_rows <= 0:
                break
        return results

    def _read(self, turn: int, key: str) -> ReadResult:
        name = f"{self.shared.name}/{key}"
        try:
            data = self.shared.get(key, shards.MOST_BYTES)
            shard = shards.read(name, self.plan.rules_record, *self._row_format, data)
        except OSError as error:  # a shared disk was unavailable, say: the shard may be good
            self._report_later(key, f"shard {error}")
            return ReadResult(turn, LATER, None)
        except ValueError as error:
            _report_skipped(error)
            return ReadResult(turn, SKIPPED, None)
        return ReadResult(turn, shard.about.rows, shard)

    def _count(self, assigned: list[Assignment], reports: list[list[list[int]]]) -> dict[int, int]:
        """Record the shards that each process has read, as [turn, rows]; returns {turn: the number
        of the shard among all that were read}."""
        numbers = {}
        for turn, rows in sorted(one for each in reports for one in each):
            host, place, key, size = assigned[turn]
            if rows == LATER:
                continue
            if hosts.is_first():  # only the first host lists shards
                self.ledger.add(place)
            if rows == SKIPPED:
                self.skipped += 1
                continue
            self.read += 1
            self.rows += rows
            numbers[turn] = self.read
            self.sources.append([self.read, key.removeprefix(f"{shards.FOLDER}/"), rows])
            if len(reports) > 1:
                before = self.dealt[host]
                self.dealt[host] = [before[0] + size, before[1] + rows]
        capacity = self.plan.buffer.capacity * self.plan.num_devices
        while sum(rows for _, _, rows in self.sources[1:]) >= capacity:
            del self.sources[0]
        return numbers

    @property
    def _turn(self) -> int:
        """The index, among this process's devices, of the one that the next row goes to."""
        several = jax.process_count() > 1
        return (self.dealt[jax.process_index()][1] if several else self.rows) % self.devices

    @property
    def _row_format(self) -> tuple[PolicyDtype, int]:
        """(the dtype of policy targets in the ring, the number of earlier boards in each row)."""
        return self.plan.buffer.policy_dtype, self.plan.buffer.past_boards

    def _unread(self) -> list[tuple[Place, str, int]]:
        """(place, key, bytes) of the shards to read, by version and then in order of `Place`."""
        since, unread = self.version - exchange.KEPT, []
        try:
            version = max(self.version, exchange.newest(self.shared).version)
            entries = self._listed(version, time.monotonic())
        except (OSError, ValueError) as error:
            self._report_later(shards.FOLDER, f"shards {self.shared.name}/{shards.FOLDER}: {error}")
            return []
        prefix = len(shards.FOLDER) + 1
        for key, size in entries:
            name, suffix = key[prefix:-4], key[-4:]
            if (name in self.ledger and suffix in shards.SUFFIXES) or key.endswith(".part"):
                continue
            place = shards.place_of(key)
            if place is None or key not in _valid_keys(place):
                self._skip_strange_name(key)
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
        """The entries of the newest versions, and of some older ones in turn: enough to list each
        within SWEEP_S, or at every second call. The first call lists half of those that are not
        too late yet: the oldest, which will be too late soonest."""
        first, elapsed = max(0, self.version - 2 * exchange.KEPT), now - self._last_look
        newest = range(max(first, self.version - 1), version + 1)
        older = range(first, newest.start)
        chosen = sorted(older, key=lambda version: (version <= self._last_older, version))
        due = len(older) * elapsed / SWEEP_S if elapsed < SWEEP_S else exchange.KEPT
        count = min(math.ceil(due), exchange.KEPT)
        chosen = chosen[-exchange.KEPT :][: count // 2] if elapsed == math.inf else chosen[:count]
        entries = []
        for one in (*chosen, *newest):
            entries += self.shared.list(f"{shards.FOLDER}/{one:08d}")
        if not self.version:
            entries += self._listed_beyond(version)
        self._last_look, self._last_older = now, chosen[-1] if chosen else self._last_older
        return entries

    def _listed_beyond(self, version: int) -> list[Entry]:
        """Shards outside the versions up to this one, in a run begun by an earlier version of the
        program. Finding them takes a listing of all later keys, for which some stores go through
        all their keys, so it is done only until the run has a version. A key that the store does
        not allow makes only this listing fail."""
        try:
            return self.shared.list(shards.FOLDER, f"{shards.FOLDER}/{version + 1:08d}")
        except (OSError, ValueError) as error:
            self._report_later(shards.FOLDER, f"shards {self.shared.name}/{shards.FOLDER}: {error}")
            return []

    def _skip_strange_name(self, key: str) -> None:
        name = key.removeprefix(f"{shards.FOLDER}/")
        if name not in self.strange:
            self.strange.add(name)
            self.skipped += 1
            _report_skipped(
                f"shard {self.shared.name}/{key}: expected a name such as NAME-000000.npz"
            )

    def _report_later(self, what: str, message: str) -> None:
        if what not in self._reported:
            self._reported.add(what)
            print(f"will try again later: {message}", file=sys.stderr, flush=True)

    def _empty_chunks(self, num_chunks: int) -> Chunk:
        shape = (self.devices, num_chunks * self.chunk)
        shapes = row_shapes(self.plan.play.game, *self._row_format)
        rows = jax.tree.map(lambda x: np.zeros((*shape, *x.shape), x.dtype), shapes)
        return Chunk(rows, np.zeros(shape, np.float32), np.zeros(shape, bool))

    def _divided(self, read: list[Shard], turn: int, num_chunks: int) -> Iterator[Chunk]:
        """The rows of shards in `num_chunks` chunks; consecutive rows go to consecutive devices."""
        total = sum(shard.about.rows for shard in read)
        position, device = np.divmod(turn + np.arange(total), self.devices)
        rows_of_all = self._empty_chunks(num_chunks)

        def fill(array, *parts):
            array[device, position] = np.concatenate(parts)

        if total:
            jax.tree.map(fill, rows_of_all.rows, *(shard.rows for shard in read))
            unit = np.float32(FREQUENCY_UNIT)
            fill(rows_of_all.frequency, *(shard.frequency / unit for shard in read))
            rows_of_all.keep[device, position] = True
        for i in range(num_chunks):
            part = slice(i * self.chunk, (i + 1) * self.chunk)
            yield jax.tree.map(lambda x, part=part: x[:, part], rows_of_all)


def _numbered(shard: Shard, number: int) -> Shard:
    """The n-th shard that was read, with -n as the `game` of its rows."""
    game = np.full_like(shard.rows.game, -number)
    return shard._replace(rows=shard.rows.replace(game=game))


def _report_skipped(error: object) -> None:
    print(f"skipped: {error}", file=sys.stderr, flush=True)
