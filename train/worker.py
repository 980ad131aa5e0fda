"""``python -m train worker``: self-play for a run that learns elsewhere.

It plays with the settings of the run at --out and the newest weights there, and writes the rows of
finished games there as shards, which the run reads if it was started with --workers; see
`train.exchange`. It stores no state: its name is drawn at random at each start, and a kill at any
moment loses the games in play and the rows of the last half minute. A launcher may start any number
of workers.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import pathlib
import platform
import re
import secrets
import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh

from gozero.apps import flags, runtime
from gozero.compile import collectives, mode
from gozero.nets import weights
from gozero.play import shards
from gozero.play.devices import (
    AXIS,
    DIVIDED,
    EVERYWHERE,
    local_mesh,
    make_mesh,
    on_each,
    stack,
    unstack,
)
from gozero.play.player import as_game
from gozero.play.rows import FREQUENCY_UNIT, Rows
from gozero.play.shards import About, Place
from gozero.runs import arrays, settings, store
from gozero.runs.folder import CONFIG
from gozero.runs.settings import setting
from gozero.runs.store import Store
from train import exchange, folder, games, memory
from train.buffer import Buffer
from train.config import TrainConfig
from train.games import Playing
from train.plan import Plan, in_parts, make_plan, rules_of

PROG = "python -m train worker"
POLL_S = 2.0
LINE_S = 10.0
REFRESH_S = 5.0
"""Seconds between checks for newer weights."""
HOLD_S = 30.0
"""Seconds between shards, if there are rows."""
MOST_PENDING = 2**28
"""Bytes of rows after which a shard is written at once: its reader takes no more than four times
as many (`shards.MOST_BYTES`)."""
VALUE_PARTS = 512
"""Shards store root values as multiples of 1 / VALUE_PARTS: anything finer is noise, and takes a
byte more for each row."""
MOST_RETRY_S = 64.0
"""The most seconds between attempts to write a shard; from POLL_S on each pause is twice the one
before."""
PAUSE_S = 1800.0
"""A worker pauses after this many seconds without newer weights, or an iteration of the run that it
records: the run seems to have stopped."""


@dataclasses.dataclass(frozen=True)
class WorkerFlags:
    """Play for a run of `python -m train --preset NAME --workers`, until told to stop."""

    out: pathlib.Path = setting()
    """The run's folder, or the URL of its bucket: s3://, gs://, az://."""

    devices: int | None = setting(None, least=1)
    """The number of this machine's devices that play, each --batch games of its own. (default:
    all; the cores of a CPU share the games of one)"""

    EXAMPLES = (
        "python -m train worker --out runs/zero-9x9-gpu",
        "python -m train worker --out s3://bucket/zero-9x9-gpu",
    )

    def __post_init__(self):
        settings.check(self)


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit status: 0 after SIGTERM, 130 after Ctrl-C, 1 if its last rows cannot be
    written, 2 for bad input. After a signal the call in progress ends first, and its rows are
    written."""
    options = flags.parse(WorkerFlags, argv, prog=PROG)
    on_cores = runtime.cores_as_devices() and mode.backend() == "cpu"
    with runtime.StopRequest() as stop, flags.exit_on_error(PROG):
        work(options, stop, on_cores)
    return runtime.STOPPED if stop.number == signal.SIGINT else 0


def work(options: WorkerFlags, stop: runtime.StopRequest, on_cores: bool = False) -> None:
    """Wait for a run, and play for it until told to stop.

    Args:
      options: the flags.
      stop: the request to stop.
      on_cores: whether JAX's devices are the cores of this machine; see `divided`.

    Raises:
      ValueError: the run reads no shards, or there is too little memory.
      OSError: the last rows cannot be written, or another worker has already written them.
    """
    shared = store.at(options.out)
    if not _wait_for_run(shared, stop):
        return
    config = folder.read_config(options.out)
    if not config.workers:
        raise ValueError(f"--out {shared.name}: this run reads no shards; start it with --workers")
    mesh, config = divided(config, options.devices, on_cores)
    plan = dataclasses.replace(plan_of(config), num_devices=mesh.size)
    print(f"memory: {memory.check(plan, only_plays=True)}", file=sys.stderr)
    source, writer = Source(plan, shared), Writer(plan, shared, lambda: stop.requested)
    while not source.refresh() and not stop.requested:
        time.sleep(POLL_S)
    if not stop.requested:
        _play_on(SelfPlay(plan, *writer.seeds, mesh), source, writer, stop)


def divided(
    config: TrainConfig, num_devices: int | None, on_cores: bool
) -> tuple[Mesh, TrainConfig]:
    """The devices that play, and the config for each; cores share the --batch games of one device.

    Args:
      config: the run's.
      num_devices: the number of devices to use; None: all.
      on_cores: whether JAX's devices are CPU cores.
    """
    if num_devices is not None or not on_cores:
        return local_mesh(num_devices), config
    mesh = make_mesh(config.batch)
    return mesh, in_parts(config, 1, mesh.size)


def _wait_for_run(shared: Store, stop: runtime.StopRequest) -> bool:
    """Wait until there is a run; returns False if a stop was requested first."""
    reported = False
    while not stop.requested:
        with contextlib.suppress(FileNotFoundError):
            return bool(shared.get(CONFIG, 2**20))
        if not reported:
            print(f"waiting for a run: there is no {CONFIG} in {shared.name}", file=sys.stderr)
        reported = True
        time.sleep(POLL_S)
    return False


def _play_on(player: SelfPlay, source: Source, writer: Writer, stop: runtime.StopRequest) -> None:
    refreshed = reported = time.monotonic()
    while not stop.requested:
        if time.monotonic() - refreshed >= REFRESH_S:
            refreshed = time.monotonic()
            source.refresh()
        if source.is_old:
            writer.write()
            time.sleep(POLL_S)
            continue
        rows, frequency = player.play(source.params, source.newest.iteration)
        writer.add(source.newest, rows, frequency)
        if time.monotonic() - reported >= LINE_S or stop.requested:
            reported = time.monotonic()
            print(f"{writer.summary}; {source.description}", file=sys.stderr, flush=True)
    writer.write()


def plan_of(config: TrainConfig) -> Plan:
    """The plan of self-play alone; its ring can hold the rows of any one call."""
    capacity = config.batch * (as_game(rules_of(config)).max_moves + config.moves)
    unused = {"min_rows": 1, "reuse": 16.0, "batch_size": 1, "rows_per_device": 1}  # to learn
    return make_plan(dataclasses.replace(config, capacity=capacity, **unused))


class Source:
    """The newest weights of a run.

    Attributes:
      params: of the network.
      newest: the version, iteration and hash of these weights.
    """

    def __init__(self, plan: Plan, shared: Store):
        self.plan, self.shared = plan, shared
        self.params: Any = None
        self.newest = exchange.Newest(0, -1, "")
        self._last_message = ""
        self._changed = 0.0  # when the newest weights or the run's iterations last changed

    @property
    def is_old(self) -> bool:
        """Whether the run has neither published weights nor recorded an iteration for PAUSE_S, so
        that it is time to pause; the first time, prints a message."""
        old = time.monotonic() - self._changed >= PAUSE_S
        if old and not self._last_message:
            minutes = f"{PAUSE_S / 60:.0f} minutes"
            self._report(
                f"pausing: the run at {self.shared.name} has recorded no iteration for {minutes}"
            )
        return old

    def refresh(self) -> bool:
        """Read the newest weights if they have changed; returns whether there are any.

        Weights that cannot be read are reported, and tried again next time; until then the previous
        ones are used.
        """
        try:
            newest = exchange.newest(self.shared)
            if not newest.version:
                self._report(f"waiting for the run's first weights at {self.shared.name}")
            elif newest[:3] != self.newest[:3]:
                self._load(newest)
                self._last_message = ""
            elif newest != self.newest:
                self.newest, self._changed, self._last_message = newest, time.monotonic(), ""
        except (OSError, ValueError) as error:
            self._report(f"waiting for readable weights: {error}")
        return self.params is not None

    def _load(self, newest: exchange.Newest) -> None:
        name = f"{self.shared.name}/{newest.key}"
        data = self.shared.get(newest.key, arrays.MOST_BYTES)
        if hashlib.sha256(data).hexdigest() != newest.sha256:
            raise ValueError(
                f"weights {name} are damaged: their SHA-256 is not that in {exchange.NEWEST}"
            )
        network, params, _ = weights.load(name, self.plan.config.size, data)
        if network != self.plan.learner.network:
            raise ValueError(f"weights {name} are not of this run's network")
        self.params, self.newest, self._changed = params, newest, time.monotonic()

    def _report(self, message: str) -> None:
        if message != self._last_message:
            print(message, file=sys.stderr, flush=True)
        self._last_message = message

    @property
    def description(self) -> str:
        return f"weights of iteration {self.newest.iteration}"


class SelfPlay:
    """Self-play on the devices of a mesh, each with games of its own."""

    def __init__(self, plan: Plan, seed: int, shard: int, mesh: Mesh):
        self.plan, self.mesh = plan, mesh

        def start() -> Playing:
            own = (shard + lax.axis_index(AXIS).astype(jnp.uint32)) & 0x7FFFFFFF
            return stack(games.start(plan.play, plan.buffer, seed, own.astype(jnp.int32)))

        self.playing = on_each(mesh, start, (), DIVIDED)()
        self._compiled: dict[int, Callable[..., Playing]] = {}

    def play(self, params: Any, iteration: int) -> tuple[Rows, np.ndarray]:
        """Play some moves of every game, with the weights of an iteration.

        Returns:
          (rows [n] of the games that ended, their frequencies [n] in `buffer.FREQUENCY_UNIT`s).
        """
        self.playing = self._play(self.plan.simulations(iteration), params)
        return self.collect()

    def _play(self, simulations: int, params: Any) -> Playing:
        if simulations not in self._compiled:
            play = _play_on_each(self.plan, simulations, self.mesh)
            lowered = play.lower(params, self.playing)
            self._compiled[simulations] = collectives.compiled(lowered, self.mesh)
        return self._compiled[simulations](params, self.playing)

    def collect(self) -> tuple[Rows, np.ndarray]:
        """The result of `play`, copied from the devices."""
        buffer = self.playing.buffer
        size = jax.device_get(buffer.size)
        # A power of two, so that only a few lengths are compiled.
        copied = min(1 << int(size.max()).bit_length(), self.plan.buffer.capacity)
        ring = jax.device_get(_first_rows(buffer, copied))
        filled = np.arange(copied) < size[:, None]
        own = lambda x: x[filled]  # a copy: the ring itself is donated to the next call
        number = np.arange(len(filled), dtype=np.int32)[:, None]  # each device counts from 0
        game = ring.rows.game.astype(np.int64) * len(filled) + number
        game = (game % 2**31).astype(np.int32)  # as shards store it
        rows = jax.tree.map(own, ring.rows.replace(game=game))
        if ring.frequency is None:
            return rows, np.full(filled.sum(), FREQUENCY_UNIT)
        return rows, own(ring.frequency)


@functools.partial(jax.jit, static_argnames="count")
def _first_rows(buffer: Buffer, count: int) -> Buffer:
    first = lambda x: x[:, :count]
    frequency = None if buffer.frequency is None else first(buffer.frequency)
    return buffer.replace(rows=jax.tree.map(first, buffer.rows), frequency=frequency)


@functools.lru_cache(maxsize=8)
def _play_on_each(plan: Plan, num_simulations: int, mesh: Mesh) -> Callable[..., Playing]:
    def play(params: Any, playing: Playing) -> Playing:
        return stack(_play_moves(plan, num_simulations, params, unstack(playing), AXIS))

    return on_each(mesh, play, (EVERYWHERE, DIVIDED), DIVIDED, donated=1)


def _play_moves(
    plan: Plan, num_simulations: int, params: Any, playing: Playing, axis: str | None = None
) -> Playing:
    """Play an iteration's moves; the ring then holds only the rows of the games that ended. With an
    axis, resignation is calibrated on the games of all devices along it."""
    zero = jnp.int32(0)
    emptied = playing.buffer.replace(cursor=zero, size=zero, added=zero, owed=zero)
    playing, _ = games.play_moves(
        plan.play,
        plan.buffer,
        plan.evaluator,
        plan.config.moves,
        params,
        playing.replace(buffer=emptied),
        num_simulations,
    )
    return games.recalibrated(playing, axis)


def rounded(rows: Rows) -> Rows:
    """Rows with root values rounded to multiples of 1 / VALUE_PARTS, as in shards."""
    return rows.replace(root_value=np.round(rows.root_value * VALUE_PARTS) / VALUE_PARTS)


class Writer:
    """Writes the rows that a worker has played, a shard every `HOLD_S` seconds.

    Args:
      plan, shared: of the run.
      should_stop: whether to give up writing a shard after an error; otherwise it tries again.

    Attributes:
      name: the machine's name and a random suffix, unique to this worker.
      number: the number of the next shard.
      rows, games: the numbers of rows and games written.
    """

    def __init__(self, plan: Plan, shared: Store, should_stop: Callable[[], bool] = lambda: True):
        host = re.sub(r"[^A-Za-z0-9_.-]", "-", platform.node()).lstrip("_.-")[:40]
        self.plan, self.shared, self._should_stop = plan, shared, should_stop
        self.name = f"{host or 'worker'}-{secrets.token_hex(8)}"
        self.number = self.rows = self.games = 0
        self.suffix = ".zst" if isinstance(shared, store.Bucket) else ".npz"
        self._pending: list[tuple[Rows, np.ndarray]] = []
        self._newest = exchange.Newest(0, -1, "")
        self._last_write = -HOLD_S

    @property
    def seeds(self) -> tuple[int, int]:
        """(u32, i31): the seed and the shard of all random draws; see `games.start`."""
        drawn = hashlib.sha256(self.name.encode()).digest()
        low, high = (int.from_bytes(drawn[i : i + 4], "big") for i in (0, 4))
        return low, high >> 1

    def add(self, newest: exchange.Newest, rows: Rows, frequency: np.ndarray) -> None:
        """Add rows [n] that were played with some weights, and write a shard if it is time.

        Rows of versions that the run no longer reads (the machine was suspended, say) are written
        under a later version, where the run finds them and counts them as too late.

        Raises:
          OSError: it cannot be written.
        """
        if newest.version != self._newest.version:
            self._newest = self._newest._replace(
                version=max(self._newest.version, newest.version - exchange.KEPT - 1)
            )
            self.write()
        self._newest = newest
        if len(frequency):
            self._pending.append((rounded(rows), frequency))
        is_large = self._pending_bytes >= MOST_PENDING
        if is_large or time.monotonic() - self._last_write >= HOLD_S:
            self.write()

    @property
    def _pending_bytes(self) -> int:
        return sum(x.nbytes for rows, _ in self._pending for x in jax.tree.leaves(rows))

    def write(self) -> None:
        """Write all pending rows as the next shard."""
        if not self._pending:
            return
        rows, frequency = jax.tree.map(lambda *parts: np.concatenate(parts), *self._pending)
        games, count, version = len(np.unique(rows.game)), len(frequency), self._newest.version
        about = About(self.name, self.number, 1, self._newest.iteration, games, count)
        data = shards.pack(self.plan.rules_record, about, rows, frequency, self.suffix)
        key = shards.key_of(Place(self.number, self.name, version), self.suffix)
        if not self._create(key, data):
            raise OSError(f"{self.shared.name}/{key} already exists, written by another worker")
        self.number += 1
        self.rows += count
        self.games += games
        self._pending, self._last_write = [], time.monotonic()

    def _create(self, key: str, data: bytes) -> bool:
        """`Store.create`, which is tried again after errors: until a disk has room, say."""
        pause = POLL_S
        while True:
            try:
                return self.shared.create(key, data)
            except OSError as error:
                if self._should_stop():
                    raise
                message = f"will try again in {pause:.0f} s: shard {error}"
                print(message, file=sys.stderr, flush=True)
            until = time.monotonic() + pause
            while time.monotonic() < until and not self._should_stop():
                time.sleep(POLL_S)
            pause = min(2 * pause, MOST_RETRY_S)

    @property
    def summary(self) -> str:
        return f"{self.name}: {self.games:,} games, {self.rows:,} rows; next shard {self.number}"
