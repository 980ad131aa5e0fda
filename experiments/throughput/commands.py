"""The commands as users start them: the time to the first answer, and many queries at once."""

from __future__ import annotations

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence

import numpy as np

from experiments.throughput import games
from experiments.throughput.config import ThroughputConfig
from experiments.throughput.measure import Report, Result, against, in_turn
from experiments.throughput.selfplay import bare_network
from experiments.throughput.worker import ROOT, num_cores
from gozero.apps import sgf
from gozero.go import coords
from gozero.go import rules as go
from gozero.nets import weights
from gozero.play.networks import network_evaluator
from gozero.play.players import NETWORKS

_COLD, _WARM = 20.0, 3.0
_JOY = 120.0
_QUERIES, _VISITS = 64, 200
_MOVES = 47
"""The length of the game that is reviewed."""


def measure(config: ThroughputConfig, report: Report) -> None:
    """Adds rows on the commands; each runs in a process of its own, with its own cache."""
    for size in (9,) if config.quick else (9, 13, 19):
        _first_move(size, config, report)
    _entrances(config, report)
    _review(config, report)
    _queries(config, report)


def _environment(cache: str) -> dict[str, str]:
    return {**os.environ, "GOZERO_COMPILE_CACHE": cache, "JAX_COMPILATION_CACHE_DIR": cache}


def _command(*words: str) -> list[str]:
    return [sys.executable, "-m", "gozero.apps.cli", *words]


def _child(cache: str, *words: str) -> subprocess.Popen[str]:
    """Starts a command that reads and writes lines."""
    return subprocess.Popen(
        _command(*words),
        cwd=ROOT,
        env=_environment(cache),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def _first_move(size: int, config: ThroughputConfig, report: Report) -> None:
    """Time of `gozero gtp` from process start to its first move: cold, and then warm."""
    report.say(f"the first move of {size}x{size}")
    with tempfile.TemporaryDirectory() as cache:
        cold = _seconds_to_a_move(size, cache)
        warm = statistics.median(_seconds_to_a_move(size, cache) for _ in range(config.repeats))
    for name, ours, must in (("nothing is compiled", cold, _COLD), ("after others", warm, _WARM)):
        report.add(_bound(f"gozero gtp {size}x{size}, start to first move, {name}", ours, must))


def _bound(row: str, ours: float, must: float) -> Result:
    note = f"{num_cores()} cores"
    return Result(row, ours, "s", must=must, bounds="ours", better="less", note=note)


def _seconds_to_a_move(size: int, cache: str) -> float:
    started = time.perf_counter()
    with _child(cache, "gtp", "--size", str(size)) as engine:
        assert engine.stdin is not None
        assert engine.stdout is not None
        engine.stdin.write("genmove b\n")
        engine.stdin.flush()
        answer, seconds = engine.stdout.readline(), time.perf_counter() - started
        engine.communicate("quit\n")
    coords.from_gtp(size, answer.removeprefix("=").strip())
    return seconds


def _entrances(config: ThroughputConfig, report: Report) -> None:
    """The first examples of README.md besides the engine: its search, and an experiment."""
    report.say("README's entrances")
    code = (ROOT / "README.md").read_text().split("```python\n")[1].split("```")[0]
    with tempfile.TemporaryDirectory() as folder:
        experiment = ["-m", "experiments.schedules.run", "--quick", "--out", f"{folder}/out"]
        words = {"its search": ["-c", code], "experiments.schedules --quick": experiment}
        for name, arguments in list(words.items())[: 1 if config.quick else 2]:
            environment, null = _environment(f"{folder}/cache"), subprocess.DEVNULL
            command, started = [sys.executable, *arguments], time.perf_counter()
            subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=null, stderr=null)
            seconds = time.perf_counter() - started
            report.add(_bound(f"README, {name}, nothing is compiled", seconds, _JOY))


def _review(config: ThroughputConfig, report: Report) -> None:
    """Time of the whole process of reviewing a 9x9 game at 200 visits per move, page included."""
    report.say("a review")
    rules = go.Rules(size=9)
    moves = np.asarray(games.record_games(rules, 1, config.seed))[:_MOVES, 0]
    record = sgf.GameRecord(9, 7.0, tuple((i % 2, int(action)) for i, action in enumerate(moves)))
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "game.sgf"
        sgf.write(path, record)
        words = ("review", str(path), "--simulations", str(_VISITS), "--out", f"{path}.html")

        def seconds() -> float:
            started = time.perf_counter()
            environment = _environment(f"{folder}/cache")
            command, null = _command(*words), subprocess.DEVNULL
            subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=null)
            return time.perf_counter() - started

        seconds()  # compiles
        ours = statistics.median(seconds() for _ in range(config.repeats))
    row = f"gozero review 9x9, {_MOVES} moves, {_VISITS} visits each, after others"
    report.add(_bound(row, ours, 5.0))


def _queries(config: ThroughputConfig, report: Report) -> None:
    """The gain of queries at once over one by one, against the network's gain by such a batch."""
    report.say("queries")
    rules = go.Rules(size=9)
    lines = _query_lines(rules, config.seed)
    shape, params, _ = weights.load(NETWORKS[9], 9)
    evaluator = network_evaluator(rules, shape, params)
    with tempfile.TemporaryDirectory() as cache, _Analysis(cache) as analysis:
        timers: list[Callable[[], float]] = [
            lambda: analysis.seconds(lines, at_once=True),
            lambda: analysis.seconds(lines, at_once=False),
            bare_network(evaluator, _QUERIES, 8),
            bare_network(evaluator, 1, _QUERIES),
        ]
        for timer in timers[:2]:  # compiles
            timer()
        rounds = list(zip(*in_turn(timers, config.repeats), strict=True))
    gains = [b / a for a, b, _, _ in rounds]
    network = [8 * d / c for _, _, c, d in rounds]
    a, b = (statistics.median(side) for side in list(zip(*rounds, strict=True))[:2])
    report.add(
        Result(
            row=f"gozero analyze 9x9, {_QUERIES} queries at once against one by one",
            unit="x",
            must=0.9,
            note=f"{_VISITS} visits each: {a:.2f} s and {b:.2f} s",
            **against(gains, network, "the network's gain"),
        )
    )


def _query_lines(rules: go.Rules, seed: int) -> list[str]:
    """Queries for the positions of `_QUERIES` games after 1 to 40 moves."""
    moves = np.asarray(games.record_games(rules, _QUERIES, seed))
    name = lambda i, action: ["BW"[i % 2], coords.to_gtp(rules.size, int(action))]
    return [
        json.dumps(
            {
                "id": str(number),
                "moves": [name(i, a) for i, a in enumerate(moves[: 1 + number % 40, number])],
                "rules": "chinese",
                "komi": 7,
                "boardXSize": rules.size,
                "boardYSize": rules.size,
                "maxVisits": _VISITS,
            }
        )
        for number in range(_QUERIES)
    ]


class _Analysis:
    """A client of `gozero analyze --json`."""

    def __init__(self, cache: str):
        self._child = _child(cache, "analyze", "--json")

    def seconds(self, lines: Sequence[str], at_once: bool) -> float:
        """Seconds until all queries are answered."""
        started = time.perf_counter()
        for batch in [lines] if at_once else [[line] for line in lines]:
            self._ask(batch)
        return time.perf_counter() - started

    def _ask(self, lines: Sequence[str]) -> None:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write("\n".join(lines) + "\n")
        self._child.stdin.flush()
        for _ in lines:
            answer = json.loads(self._child.stdout.readline())
            if "rootInfo" not in answer:
                raise RuntimeError(f"gozero analyze: {answer}")

    def __enter__(self) -> _Analysis:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.communicate()
