"""``python -m train worker``: self-play for a run that learns elsewhere.

It plays by the settings of the run in --out with the newest weights there, and writes the rows of
finished games as shards, which the run reads if it was begun with --workers. A kill at any moment
costs the games in play, and leaves a half-written temporary file at worst.

    shards/NAME-ID-000000.npz  see `gozero.play.shards`
    workers/NAME.json          its id and starts; the number of its next shard; versions, device
    workers/NAME.lock          held while it runs

The id is drawn when the records are made. Where they are removed, the numbers begin again under
another, and neither games nor shards are taken for those before.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import pathlib
import platform
import re
import secrets
import signal
import sys
import time
from collections.abc import Sequence
from typing import IO, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gozero.apps import flags, runtime
from gozero.nets import weights
from gozero.play import resignation, shards
from gozero.play.player import as_game
from gozero.play.rows import FREQUENCY_UNIT, Rows
from gozero.play.shards import About, Place
from gozero.runs import folder as folders
from gozero.runs import settings
from gozero.runs.files import parse_json, write_json
from gozero.runs.folder import lock_file
from gozero.runs.settings import setting
from train import folder, games, memory
from train.config import TrainConfig
from train.games import Playing
from train.plan import Plan, make_plan, rules_of

PROG = "python -m train worker"
POLL_S = 0.5
LINE_S = 10.0


@dataclasses.dataclass(frozen=True)
class WorkerFlags:
    """Play for a run of `python -m train --preset NAME --workers`, until told to stop."""

    out: pathlib.Path = setting()
    """The run's folder."""

    name: str | None = setting(None, unset="the machine's name")
    """The name of this worker; each of a run has its own."""

    seed: int = settings.seed_setting()
    """The seed of all chance, together with the name and with what workers/NAME.json in --out says:
    the id that was drawn for it, and how often it was started."""

    EXAMPLES = (
        "python -m train worker --out runs/zero-9x9-gpu",
        "python -m train worker --out runs/zero-9x9-gpu --name A --seed 1",
    )

    def __post_init__(self):
        settings.check(self)
        if self.name is not None:
            shards.check_name(self.name)

    @property
    def called(self) -> str:
        """The name."""
        host = re.sub(r"[^A-Za-z0-9_.-]", "-", platform.node()).lstrip("_.-")
        return self.name or host or "worker"


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status: 0 after SIGTERM, 130 after Ctrl-C, both once the call in flight is done and
    written; 1 if something cannot be written, 2 for bad input."""
    asked = flags.parse(WorkerFlags, argv, prog=PROG)
    with runtime.StopRequest() as stop, flags.failing(PROG):
        work(asked, stop)
    return runtime.STOPPED if stop.number == signal.SIGINT else 0


def work(asked: WorkerFlags, stop: runtime.StopRequest) -> None:
    """Wait for a run, and play for it until told to stop.

    Raises:
      ValueError: a run that reads no shards, a name that is taken, too little memory.
      OSError: something cannot be written.
    """
    if not _wait_for_run(asked.out, stop):
        return
    config = folder.read_config(asked.out)
    if not config.workers:
        raise ValueError(f"--out {asked.out}: its run reads no shards; start it with --workers")
    plan = plan_of(config)
    print(f"memory: {memory.check(plan)}", file=sys.stderr)
    with WorkerRecord(asked.out, asked.called, asked.seed) as record:
        source = Source(plan)
        while not source.refresh() and not stop.requested:
            time.sleep(POLL_S)
        if not stop.requested:
            _play_on(SelfPlay(plan, record.seeds), source, record, stop)


def _wait_for_run(out: pathlib.Path, stop: runtime.StopRequest) -> bool:
    """Whether there is one, now or later; False: told to stop before."""
    path = out / "config.json"
    if not path.exists():
        print(f"waiting for a run in {out}: no {path.name} there", file=sys.stderr, flush=True)
    while not path.exists() and not stop.requested:
        time.sleep(POLL_S)
    return not stop.requested


def _play_on(
    player: SelfPlay, source: Source, record: WorkerRecord, stop: runtime.StopRequest
) -> None:
    told, rules = -LINE_S, player.plan.said
    while not stop.requested:
        source.refresh()
        rows, frequency = player.play(source.params, source.iteration)
        if len(frequency):
            record.write(rules, source.iteration, rows, frequency)
        if time.monotonic() - told >= LINE_S or stop.requested:
            told = time.monotonic()
            print(
                f"{record.name}: {record.games:,} games, {record.rows:,} rows; next shard "
                f"{record.next_shard}; weights of iteration {source.iteration}",
                file=sys.stderr,
                flush=True,
            )


def plan_of(config: TrainConfig) -> Plan:
    """The plan of self-play alone, whose ring holds what one call may hand over."""
    capacity = config.batch * (as_game(rules_of(config)).max_moves + config.moves)
    return make_plan(
        dataclasses.replace(config, capacity=capacity, min_rows=1, batch_size=1, rows_per_device=1)
    )


class Source:
    """The newest weights of a run.

    Attributes:
      params: of the network.
      iteration: after which they were written; -1 before there are any.
    """

    def __init__(self, plan: Plan):
        self.plan = plan
        self.path = plan.config.folder / folder.NEWEST
        self.params: Any = None
        self.iteration = -1
        self._seen: object = None
        self._told = ""

    def refresh(self) -> bool:
        """Read them if they have changed; whether there are any.

        Those that cannot be read are named, and tried again next time; until then the ones before
        go on.
        """
        try:
            stamp = _stamp(self.path)
            if stamp != self._seen:
                self._load()
                self._seen, self._told = stamp, ""
        except FileNotFoundError:
            self._tell(f"waiting for the run's first weights: there is no {self.path} yet")
        except (OSError, ValueError) as error:
            self._tell(f"waiting for weights that can be read: {error}")
        return self.iteration >= 0

    def _load(self) -> None:
        network, params, about = weights.load(self.path, self.plan.config.size)
        if network != self.plan.learner.network:
            raise ValueError(f"weights {self.path}: not of this run's network")
        if type(about.get("iteration")) is not int:
            raise ValueError(f"weights {self.path}: they do not say of which iteration they are")
        self.params, self.iteration = params, about["iteration"]

    def _tell(self, message: str) -> None:
        if message != self._told:
            print(message, file=sys.stderr, flush=True)
        self._told = message


def _stamp(path: pathlib.Path) -> tuple[int, ...]:
    found = path.stat()
    return found.st_mtime_ns, found.st_size, found.st_ino


class SelfPlay:
    """Self-play on this process's device."""

    def __init__(self, plan: Plan, seeds: Seeds):
        self.plan = plan
        self.playing = games.start(plan.play, plan.buffer, seeds.seed, seeds.shard)

    def play(self, params: Any, iteration: int) -> tuple[Rows, np.ndarray]:
        """Some moves of every game, with the weights of an iteration.

        Returns:
          (rows [n] of the games that ended, their frequencies [n] in `buffer.FREQUENCY_UNIT`s).
        """
        simulations = self.plan.simulations(iteration)
        self.playing = _play_moves(self.plan, simulations, params, self.playing)
        ring = jax.device_get(self.playing.buffer)
        count = int(ring.size)
        own = lambda x: np.array(x[:count])  # the ring itself is donated to the next call
        if ring.frequency is None:
            return jax.tree.map(own, ring.rows), np.full(count, FREQUENCY_UNIT)
        return jax.tree.map(own, ring.rows), own(ring.frequency)


@functools.partial(jax.jit, static_argnums=(0, 1), donate_argnums=3)
def _play_moves(plan: Plan, num_simulations: int, params: Any, playing: Playing) -> Playing:
    """An iteration's moves; the ring holds the rows that they gave, and no others."""
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
    watched = playing.lanes.resignation
    if watched is None:
        return playing
    watched = watched.replace(threshold=resignation.calibrate(watched.records))
    return playing.replace(lanes=playing.lanes.replace(resignation=watched))


# --- what a worker writes down --------------------------------------------------------------


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
        write_json(self.path, own | self._records, durable=True)

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
        records = parse_json(path.read_bytes())
        id_ = records.get("id") or _new_id()  # of an earlier version: without
        if not re.fullmatch(r"[0-9a-f]{8}", id_):
            raise ValueError(f"id {id_}")
        return int(records["starts"]), int(records["next_shard"]), id_
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"worker {path}: damaged ({error!r}); give another --name") from error
