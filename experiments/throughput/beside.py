"""Compares this checkout with another, program by program, timed in turn.

    git worktree add ../before COMMIT
    python -m experiments.throughput.beside ../before [--programs answer puct] [--out FILE]

Two runs of the table, one after the other, cannot show a regression of a few percent: a shared
machine's speed drifts by more within minutes. Here a child process of each checkout keeps its
program compiled, and they run in turn. A program's place in memory still makes a difference of a
few percent, so measure an apparent regression again. The other checkout must have the functions
and settings of `experiments.throughput` that `PROGRAMS` uses.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

Run = Callable[[], Any]


def answer(leaves: int, size: int = 9, **flags: Any) -> Run:
    """3,000 simulations of MC-RAVE with MoGo playouts, as in `gozero gtp`."""
    from gozero.apps.gtp.config import GtpConfig
    from gozero.apps.gtp.search import TreeSearcher
    from gozero.go import rules as go

    rules = go.Rules(size=size, ko="positional")
    config = GtpConfig(search="rave", simulations=3000, leaves=leaves, reuse=False, **flags)
    searcher, state = TreeSearcher(rules, config), go.init(rules, 7.0)
    return functools.partial(searcher.search, state, 0, 1)


def puct(size: int, batch: int, simulations: int) -> Run:
    """The search of the table's first rows."""
    import jax

    from experiments.throughput import games
    from experiments.throughput import search as rows
    from gozero.go import rules as go
    from gozero.search.config import SearchConfig

    rules, key = go.Rules(size=size), jax.random.key(0)
    opening = games.record_games(rules, batch, 0)[:2]
    states, _ = games.replay(rules)(games.start(rules, batch), opening)
    settings = SearchConfig(num_simulations=simulations, max_depth=rows.MAX_DEPTH)
    run = jax.jit(functools.partial(rows._search_stub, rules, rows.NETWORK_SPREAD, settings))
    return lambda: run(states, key)


def tree(num_actions: int, batch: int, simulations: int, rave: bool = False) -> Run:
    """Trees of the hash game."""
    import jax

    from experiments.throughput import hash_game, trees
    from gozero.search.config import Amaf, SearchConfig
    from gozero.search.rules.rave import MinimumMse, Rave

    options = {"select": Rave(MinimumMse(0.1)), "amaf": Amaf()} if rave else {}
    settings = SearchConfig(simulations, max_depth=64, **options)
    evaluate = hash_game.evaluator(num_actions, 8.0 if batch > 1 else 2.0, 1.0, playouts=rave)
    run = trees._runner(num_actions, settings, evaluate)
    return lambda: run(hash_game.roots(batch, 0), jax.random.key(0))


def playouts(size: int, policy: str, refills: int) -> Run:
    from experiments.throughput import playouts as rows

    rows.SECONDS = 1e-4  # less than a call takes
    lanes = rows.MOGO_LANES if policy == "mogo" else rows.LANES
    options = {"policy": policy, "refills": refills, "first_plays": policy == "mogo"}
    return rows.make_rate(size, 0, lanes=lanes[size], **options)


def moves(size: int, batch: int) -> Run:
    """Legal games, ply by ply, with exact superko."""
    from experiments.throughput import games
    from gozero.go import rules as go

    rules = go.Rules(size=size)
    actions, replay = games.record_games(rules, batch, 0), games.replay(rules)
    return lambda: replay(games.start(rules, batch), actions)


def planes(size: int, batch: int, name: str) -> Run:
    """Feature planes of middle-game positions, ten times; or their ladders, once."""
    import jax

    from experiments.throughput import features
    from gozero.compile import stages
    from gozero.go import rules as go
    from gozero.go.ladders import ladders
    from gozero.nets.features import FEATURES

    rules = go.Rules(size=size)
    states = features.middle_games(rules, batch, 0)
    if name == "ladders":
        read = jax.jit(jax.vmap(lambda state: ladders(rules, state.position)))
        return lambda: read(states)
    observe = jax.vmap(lambda state: FEATURES[name].observe(rules, state, state.position))
    run = jax.jit(observe, compiler_options=stages.cpu_compiler_options())
    return lambda: [run(states) for _ in range(10)]


def selfplay(blocks: int, channels: int, batch: int, count: int) -> Run:
    """Moves of self-play as in training."""
    from experiments.throughput import selfplay as rows
    from experiments.throughput.config import ThroughputConfig

    evaluator = rows._evaluator(blocks, channels)
    return rows._training_play(ThroughputConfig("selfplay"), evaluator, batch, count)


PROGRAMS: dict[str, tuple[Callable[..., Run], dict[str, Any]]] = {
    "rules 9x9, B=1024": (moves, {"size": 9, "batch": 1024}),
    "rules 19x19, B=256": (moves, {"size": 19, "batch": 256}),
    "uniform playouts 9x9": (playouts, {"size": 9, "policy": "uniform", "refills": 16}),
    "uniform playouts 19x19": (playouts, {"size": 19, "policy": "uniform", "refills": 16}),
    "MoGo playouts 9x9": (playouts, {"size": 9, "policy": "mogo", "refills": 4}),
    "MoGo playouts 9x9, one a lane": (playouts, {"size": 9, "policy": "mogo", "refills": 1}),
    "MoGo playouts 13x13": (playouts, {"size": 13, "policy": "mogo", "refills": 4}),
    "MoGo playouts 19x19": (playouts, {"size": 19, "policy": "mogo", "refills": 4}),
    "planes 9x9, compact": (planes, {"size": 9, "batch": 256, "name": "compact"}),
    "planes 9x9, full-no-ladders": (planes, {"size": 9, "batch": 256, "name": "full-no-ladders"}),
    "planes 19x19, full-no-ladders": (
        planes,
        {"size": 19, "batch": 256, "name": "full-no-ladders"},
    ),
    "ladders 9x9": (planes, {"size": 9, "batch": 256, "name": "ladders"}),
    "ladders 19x19": (planes, {"size": 19, "batch": 64, "name": "ladders"}),
    "puct 9x9 B=64, 32 sims": (puct, {"size": 9, "batch": 64, "simulations": 32}),
    "puct 9x9 B=64, 400 sims": (puct, {"size": 9, "batch": 64, "simulations": 400}),
    "puct 9x9 B=256, 100 sims": (puct, {"size": 9, "batch": 256, "simulations": 100}),
    "tree of 82 actions B=64, 400 sims": (
        tree,
        {"num_actions": 82, "batch": 64, "simulations": 400},
    ),
    "tree of 82 actions B=64, 400 sims, MC-RAVE": (
        tree,
        {"num_actions": 82, "batch": 64, "simulations": 400, "rave": True},
    ),
    "tree of 362 actions, 10,000 sims": (
        tree,
        {"num_actions": 362, "batch": 1, "simulations": 10_000},
    ),
    "answer 9x9, 1 leaf": (answer, {"leaves": 1}),
    "answer 9x9, 64 leaves": (answer, {"leaves": 64}),
    "self-play 9x9 B=64, 2x32": (
        selfplay,
        {"blocks": 2, "channels": 32, "batch": 64, "count": 8},
    ),
    "self-play 9x9 B=256, 6x64": (
        selfplay,
        {"blocks": 6, "channels": 64, "batch": 256, "count": 1},
    ),
}

RUNS = 3
"""Runs of a program per round, of which the median is taken."""


@dataclasses.dataclass(frozen=True)
class Row:
    """Median milliseconds per run; `ratio` is the median over rounds of other / this."""

    program: str
    this_ms: float
    other_ms: float
    ratio: float
    rounds: int
    this: str = ""
    other: str = ""


class _Side:
    """A child process of a checkout, with a compiled program."""

    def __init__(self, checkout: pathlib.Path, program: str):
        variables = {"PYTHONPATH": str(checkout), "PYTHONSAFEPATH": "1", "JAX_PLATFORMS": "cpu"}
        self._child = subprocess.Popen(
            [sys.executable, __file__, "--side", program],
            cwd=checkout,
            env=os.environ | variables | {"GOZERO_COMPILE_CACHE": "off"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def seconds(self) -> float:
        """Seconds of a run, the median of `RUNS`; the first call waits for compilation."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # the child has ended, and will not answer
            self._child.stdin.write("\n")
            self._child.stdin.flush()
        if not (line := self._child.stdout.readline()):
            raise RuntimeError(f"the process of a program ended with status {self._child.wait()}")
        return statistics.median(json.loads(line))

    def close(self) -> None:
        """Closes the child's input, which ends it."""
        with contextlib.suppress(BrokenPipeError):
            self._child.communicate()


def _serve(program: str) -> None:
    """Runs in the child: prints the seconds of `RUNS` runs for each line of input."""
    import jax

    import gozero

    if pathlib.Path(gozero.__file__).parents[1] != pathlib.Path.cwd():
        sys.exit(f"{pathlib.Path.cwd()} has no gozero/, so {gozero.__file__} would be timed")
    make, arguments = PROGRAMS[program]
    run = make(**arguments)
    jax.block_until_ready(run())
    for _ in sys.stdin:
        seconds = []
        for _ in range(RUNS):
            started = time.perf_counter()
            jax.block_until_ready(run())
            seconds.append(time.perf_counter() - started)
        print(json.dumps(seconds), flush=True)


def measure(program: str, other: pathlib.Path, rounds: int) -> Row:
    """Compares a program of this checkout with the other's."""
    checkouts = pathlib.Path(__file__).parents[2], other.resolve()
    sides = [_Side(checkout, program) for checkout in checkouts]
    try:
        for side in sides:
            side.seconds()
        ours, theirs = [], []
        for number in range(rounds):
            for i in (0, 1) if number % 2 else (1, 0):
                (ours, theirs)[i].append(1e3 * sides[i].seconds())
    finally:
        for side in sides:
            side.close()
    ratio = statistics.median(b / a for a, b in zip(ours, theirs, strict=True))
    return Row(
        program=program,
        this_ms=round(statistics.median(ours), 3),
        other_ms=round(statistics.median(theirs), 3),
        ratio=round(ratio, 3),
        rounds=rounds,
        this=_commit(checkouts[0]),
        other=_commit(checkouts[1]),
    )


def _commit(checkout: pathlib.Path) -> str:
    command = ["git", "-C", str(checkout), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def main() -> int:
    if sys.argv[1:2] == ["--side"]:
        _serve(sys.argv[2])
        return 0

    from experiments import command
    from experiments.output import write_csv
    from experiments.throughput.config import BesideConfig
    from gozero.apps import flags

    prog = "python -m experiments.throughput.beside"
    config = command.parse(BesideConfig, prog=prog)
    parts = config.programs
    programs = [x for x in PROGRAMS if not parts or any(part in x for part in parts)]
    if not programs:
        flags.fail(prog, f"--programs {' '.join(parts)}: expected parts of {', '.join(PROGRAMS)}")
    if not (config.other / "gozero").is_dir():
        flags.fail(prog, f"{config.other}: expected the folder of another checkout")
    rows = []
    for program in programs:
        rows.append(row := measure(program, config.other, config.rounds))
        print(f"{program}: {row.this_ms} ms, other {row.other_ms} ms, {row.ratio}", flush=True)
        if config.out is not None:
            write_csv(Row, rows, config.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
