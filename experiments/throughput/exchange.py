"""Learning with workers: the cost of the exchange for one, and the speed of a run with two."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax

from experiments.throughput.config import ThroughputConfig
from experiments.throughput.measure import Report, Result, against, in_turn
from gozero.nets import network
from gozero.play import shards
from gozero.play.devices import mesh_of
from train import exchange, folder, worker
from train.config import TrainConfig
from train.folder import TrainFolder
from train.plan import make_plan
from train.presets import PRESETS

ROOT = pathlib.Path(__file__).parents[2]
_FLAGS = (
    "--preset",
    "5x5",
    "--first-simulations",
    "32",
    "--iterations",
    "100000",
    "--checkpoint-every",
    "4",
)
_PATIENCE_S = 600


def measure(config: ThroughputConfig, report: Report) -> None:
    _share(report, seconds=5 if config.quick else 75)
    if not config.quick:
        _together(config, report, seconds=60)
        _come_back(report)


def _share(report: Report, seconds: float) -> None:
    """The exchange's share of a worker's time, with new weights as often as they can come."""
    with tempfile.TemporaryDirectory() as out:
        config = dataclasses.replace(
            PRESETS["9x9-cpu"], out=pathlib.Path(out) / "run", workers=True, devices=1
        )
        with TrainFolder(config):
            pass
        publish = _publisher(config)
        publish()
        plan = worker.plan_of(config)
        source, writer = worker.Source(plan, config.shared), worker.Writer(plan, config.shared)
        player = worker.SelfPlay(plan, *writer.seeds, mesh_of(1))
        source.refresh()
        player.play(source.params, 0)
        times, started = _MethodTimes(), time.perf_counter()
        times.of(source, "refresh", publish)
        times.of(writer, "write")
        times.of(player, "collect", lambda: jax.block_until_ready(player.playing))
        deadline = _Deadline(time.monotonic() + seconds)
        worker._play_on(player, source, writer, deadline)  # pyright: ignore[reportArgumentType]
        total = time.perf_counter() - started - times.before
    report.add(
        Result(
            row="a worker of 9x9-cpu, its exchange with a run",
            ours=100 * times.seconds / total,
            unit="% of its time",
            must=1.0,
            bounds="ours",
            better="less",
            note=f"{writer.number} shards of {writer.rows:,} rows, {source.newest.version - 1} "
            f"newer weights in {total:.0f} s",
        )
    )


def _publisher(config: TrainConfig) -> Callable[[], None]:
    """A function that publishes new weights, if they are due."""
    plan, last = make_plan(config), [-exchange.EVERY_S, 0.0]

    def publish() -> None:
        if time.monotonic() - last[0] < exchange.EVERY_S:
            return
        last[0], last[1] = time.monotonic(), last[1] + 1
        params = network.init(plan.learner.network, jax.random.key(int(last[1])))
        folder.write_weights(plan, jax.device_get(params), int(last[1]), [])
        exchange.publish(config.shared, config.folder / folder.NEWEST, int(last[1]))

    return publish


class _Deadline:
    """A stop request that comes at a given time."""

    def __init__(self, end: float):
        self.end = end

    @property
    def requested(self) -> bool:
        return time.monotonic() >= self.end


class _MethodTimes:
    """Seconds in wrapped methods (`seconds`), and before each `refresh` in `first` (`before`)."""

    def __init__(self):
        self.seconds = self.before = 0.0

    def of(self, owner: Any, name: str, first: Callable[[], Any] | None = None) -> None:
        method = getattr(owner, name)

        def timed(*args: Any) -> Any:
            began = time.perf_counter()
            if first is not None:
                first()
            ready = time.perf_counter()
            try:
                return method(*args)
            finally:
                self.seconds += time.perf_counter() - ready
                self.before += (ready - began) * (name == "refresh")

        setattr(owner, name, timed)


def _together(config: ThroughputConfig, report: Report, seconds: float) -> None:
    """A run with two workers against one alone, as real programs on the same cores, in games/s.

    Each has one device. (Alone, and without --devices, a run divides its games among the cores.)
    """
    delays = _Delays([], [])
    rates = lambda workers: lambda: _games_per_s(workers, seconds, delays)
    ours, peer = in_turn([rates(2), rates(0)], min(config.repeats, 2))
    report.add(
        Result(
            row="a run of 5x5 with two workers on its own cores",
            unit="games/s",
            must=0.95,
            note=f"{seconds:.0f} s of each, {len(ours)} times; shares of it: "
            + ", ".join(f"{a / b:.2f}" for a, b in zip(ours, peer, strict=True)),
            **against(ours, peer, "one program, one device"),
        )
    )
    for row, samples, must in (
        ("a worker's first shard after its start, the run starting too", delays.first_shards, 90.0),
        ("weights at a worker after they are published, 95% of them", delays.lags, 15.0),
    ):
        ours = sorted(samples)[math.ceil(0.95 * len(samples)) - 1]
        note = f"of {len(samples)}; least {min(samples):.1f}, most {max(samples):.1f}"
        report.add(
            Result(row=row, ours=ours, unit="s", must=must, bounds="ours", better="less", note=note)
        )


class _Delays(NamedTuple):
    """Delays of workers, in seconds."""

    first_shards: list[float]  # from the start of the worker
    lags: list[float]  # from publication of weights to the first rows played with them


def _games_per_s(workers: int, seconds: float, delays: _Delays) -> float:
    """Games/s of a new run with `workers` workers, once all of them play."""
    started = time.time()
    with tempfile.TemporaryDirectory() as parent:
        out = pathlib.Path(parent) / "run"
        flags = [*_FLAGS, "--devices", "1", *(["--workers"] if workers else [])]
        commands = [flags, *[["worker"]] * workers]
        with contextlib.ExitStack() as programs:
            for command in commands:
                programs.enter_context(_program([*command, "--out", str(out)]))
            _wait_for(lambda: _games(out) > 0 and len(_by_worker(out)) == workers)
            began, first = time.time(), _games(out)
            time.sleep(seconds)
            own = (_games(out) - first) / (time.time() - began)
            ended = time.time()
            _wait_for(lambda: all(written[-1][0] > ended for written in _by_worker(out).values()))
        for written in _by_worker(out).values():
            delays.first_shards.append(written[0][0] - started)
            delays.lags.extend(_lags(out, written))
        return own + sum(_rate(written, began) for written in _by_worker(out).values())


def _come_back(report: Report) -> None:
    """Recovery: one process of a gang is killed, the other is terminated, as launchers do, and both
    are restarted by the same commands."""
    with tempfile.TemporaryDirectory() as parent:
        out = pathlib.Path(parent) / "run"
        with _gang(out) as programs:
            _wait_for(lambda: _iterations(out) >= 8)
            began = time.time()
            programs[1].kill()
        ended, before = time.time() - began, _iterations(out)
        with _gang(out):
            _wait_for(lambda: _iterations(out) > before + 1)
            recovered = time.time() - began
    note = f"the other one ended after {ended:.0f} s; two processes of 5x5 on one machine"
    row = "a gang, from the kill of a process to its second iteration after"
    bound: dict[str, Any] = {"must": 180.0, "bounds": "ours", "better": "less", "note": note}
    report.add(Result(row=row, ours=recovered, unit="s", **bound))


@contextlib.contextmanager
def _gang(out: pathlib.Path) -> Iterator[list[subprocess.Popen]]:
    """Starts two processes that train together."""
    with socket.socket() as port_socket:
        port_socket.bind(("127.0.0.1", 0))
        coordinator = f"127.0.0.1:{port_socket.getsockname()[1]}"
    flags = [*_FLAGS, "--out", str(out), "--coordinator", coordinator, "--processes", "2"]
    with contextlib.ExitStack() as programs:
        yield [
            programs.enter_context(_program([*flags, "--process", str(process)]))
            for process in range(2)
        ]


@contextlib.contextmanager
def _program(arguments: list[str]) -> Iterator[subprocess.Popen]:
    command = [sys.executable, "-m", "train", *arguments]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as program:
        try:
            yield program
        finally:
            program.send_signal(signal.SIGTERM)


def _wait_for(ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not ready():
        if time.monotonic() > deadline:
            raise RuntimeError(f"the programs did not start to play within {_PATIENCE_S} s")
        time.sleep(1)


def _games(out: pathlib.Path) -> int:
    """The number of finished games of a run."""
    return _last_line(out)["games"]


def _iterations(out: pathlib.Path) -> int:
    return _last_line(out)["iteration"]


def _last_line(out: pathlib.Path) -> dict[str, Any]:
    """The last line of a run's metrics; zeros if there is none yet."""
    path = out / folder.METRICS
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    return json.loads(lines[-1]) if lines else {"games": 0, "iteration": 0}


def _by_worker(out: pathlib.Path) -> dict[str, list[tuple[float, pathlib.Path]]]:
    """{worker: [(time written, path) of its shards, in order]}."""
    written = sorted((path.stat().st_mtime, path) for path in (out / shards.FOLDER).rglob("*.npz"))
    by_worker: dict[str, list[tuple[float, pathlib.Path]]] = {}
    for when, path in written:
        by_worker.setdefault(path.stem.rpartition("-")[0], []).append((when, path))
    return by_worker


def _lags(out: pathlib.Path, written: list[tuple[float, pathlib.Path]]) -> Iterator[float]:
    """Yields, for each version of weights that a worker played with, the seconds from publication
    to its last shard of earlier versions, written when the new version's first rows come."""
    versions = [(when, int(path.parent.name)) for when, path in written]
    for path in sorted((out / "newest").iterdir()):
        before = [when for when, version in versions if version < int(path.stem)]
        if 0 < len(before) < len(versions):
            yield before[-1] - path.stat().st_mtime


def _rate(written: list[tuple[float, pathlib.Path]], began: float) -> float:
    """Games/s of a worker, from its first shard after `began` to its last."""
    rules_record = make_plan(PRESETS["5x5"]).rules_record
    (first, _), *others = [one for one in written if one[0] >= began]
    games = sum(shards.read(path, rules_record).about.games for _, path in others)
    return games / (others[-1][0] - first)
