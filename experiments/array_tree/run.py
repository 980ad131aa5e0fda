"""The article's experiment: one search tree as Python objects, in NumPy arrays, and ours.

    python -m experiments.array_tree.run [--simulations 10000] [--seconds 30] [--out DIR]

Time and memory of a search, and the number of simulations in half a minute, with 1, 8 and 16
leaves per step. Each is measured in a process of its own, one after the other.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import resource
import statistics
import subprocess
import sys
import time

import numpy as np

from experiments import command, output
from experiments.array_tree import plot
from experiments.array_tree.config import KINDS, ArrayTreeConfig, Kind
from experiments.array_tree.numpy_tree import NumpyTree
from experiments.array_tree.object_tree import ObjectTree
from gozero.apps import flags, runtime
from gozero.limits import MAX_VISITS
from gozero.runs import files
from gozero.runs import folder as folders

PROG = "python -m experiments.array_tree.run"
SPREAD = 2.0  # of the logits: with priors this even the tree stays shallow, as in the article


@dataclasses.dataclass(frozen=True)
class Row:
    """One kind of tree with some number of leaves per step."""

    tree: str
    leaves: int
    simulations: int
    seconds: float
    """The median time of a search of `simulations` simulations."""
    mb: float
    """Memory, 10^6 bytes: the growth of the process, or what XLA reports."""
    depth: float
    """The mean number of edges per simulation."""
    long_simulations: int
    """Simulations within the time given, or until the tree was full."""
    long_seconds: float


def main() -> int:
    config = command.parse(ArrayTreeConfig, prog=PROG)
    runtime.prepare()
    if config.only is not None:
        row = measure_ours(config) if config.only == "ours" else measure_peer(config, config.only)
        print(json.dumps(dataclasses.asdict(row)))
        return 0
    output.check_plots()
    with flags.exit_on_error(PROG):
        folders.claim(config.out)
    rows = []
    for kind in KINDS:
        for leaves in config.leaves:
            print(f"{kind}, {leaves} leaves a step ...", file=sys.stderr, flush=True)
            rows.append(_in_child(config, kind, leaves))
    _write(config, rows)
    command.print_results(config.out)
    return 0


def _in_child(config: ArrayTreeConfig, kind: str, leaves: int) -> Row:
    words = [sys.executable, "-m", "experiments.array_tree.run", "--only", kind]
    words += ["--leaves", str(leaves)]
    for name in ("simulations", "actions", "seconds", "repeats", "seed"):
        words += [f"--{name}", str(getattr(config, name))]
    child = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    return Row(**json.loads(child.stdout.splitlines()[-1]))


def measure_peer(config: ArrayTreeConfig, name: Kind) -> Row:
    (leaves,), kind = config.leaves, {"objects": ObjectTree, "numpy": NumpyTree}[name]
    steps = -(-config.simulations // leaves)
    rng = np.random.RandomState(config.seed)
    priors = np.exp(rng.rand(1000, config.actions).astype(np.float32) * SPREAD)
    priors /= priors.sum(axis=1, keepdims=True)
    values = (rng.rand(1000) * 2 - 1).astype(np.float32)

    def search(num_steps, seconds=float("inf")):
        started = time.perf_counter()
        tree = kind(config.actions, num_steps * leaves + 1, priors, values)
        done = 0
        while done < num_steps and time.perf_counter() - started < seconds:
            tree.step(leaves)
            done += 1
        return tree, done * leaves, time.perf_counter() - started

    before = _peak_mb()
    tree, simulations, first = search(steps)
    mb, depth = _peak_mb() - before, tree.edges / simulations
    seconds = [first] + [search(steps)[-1] for _ in range(config.repeats - 1)]
    del tree
    # The long search gets the same capacity as ours.
    _, long_simulations, long_seconds = search(_max_simulations(leaves) // leaves, config.seconds)
    return Row(
        name,
        leaves,
        simulations,
        statistics.median(seconds),
        mb,
        depth,
        long_simulations,
        long_seconds,
    )


def measure_ours(config: ArrayTreeConfig) -> Row:
    import jax

    from experiments.throughput import hash_game, trees
    from gozero.search.config import SearchConfig
    from gozero.search.game import Evaluator
    from gozero.search.runner import Budget, Runner
    from gozero.search.search import search

    (leaves,) = config.leaves
    simulations = -(-config.simulations // leaves) * leaves
    game = hash_game.hash_game(config.actions)
    evaluate = hash_game.evaluator(config.actions, SPREAD, 1.0)
    settings = SearchConfig(simulations, leaves=leaves, max_depth=64)
    roots, key = hash_game.roots(1, config.seed), jax.random.key(config.seed)

    def run(roots, key):
        return search(game, Evaluator(evaluate), key, roots, settings)

    compiled = jax.jit(run).lower(roots, key).compile()
    stats = compiled.memory_analysis()
    assert stats is not None  # XLA reports it on all platforms
    seconds = []
    for _ in range(config.repeats + 1):
        started = time.perf_counter()
        result = jax.block_until_ready(compiled(roots, key))
        seconds.append(time.perf_counter() - started)
    long_settings = dataclasses.replace(settings, num_simulations=_max_simulations(leaves))
    runner = Runner(game, Evaluator(evaluate), long_settings, chunk=1024)
    arguments = (key, roots)
    long = jax.block_until_ready(runner.search(*arguments, Budget(visits=leaves)))
    started = time.perf_counter()
    long = jax.block_until_ready(runner.search(*arguments, Budget(seconds=config.seconds)))
    return Row(
        "ours",
        leaves,
        simulations,
        statistics.median(seconds[1:]),
        (stats.temp_size_in_bytes + stats.output_size_in_bytes) / 1e6,
        trees.depth(result),
        int(long.simulations[0]),
        time.perf_counter() - started,
    )


def _max_simulations(leaves: int) -> int:
    """The most simulations that our tree can hold, in whole steps."""
    return MAX_VISITS // leaves * leaves


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def _write(config: ArrayTreeConfig, rows: list[Row]) -> None:
    output.write_csv(Row, rows, config.out / "results.csv", digits=4)
    files.write_json(config.out / "config.json", dataclasses.asdict(config))
    files.write_json(config.out / "manifest.json", folders.manifest(config.seed))
    plot.draw(config.out / "results.csv", config.out / "results.svg")
    print(pathlib.Path(config.out, "results.csv").read_text())


if __name__ == "__main__":
    sys.exit(main())
