"""The time of kernels on a TPU, which compiled texts lack: playouts, and a search's kernels.

    python -m experiments.accelerators.bundles --target v5e     # needs libtpu: extra tpu-ahead
    python -m experiments.accelerators.bundles --program puct-9x9 --out bundles.jsonl

The compiler dumps the instructions of a kernel in bundles of one cycle each. The inner loops of
playouts have known trip counts; the trip count of the outer loop is measured here, by playing the
same playouts on the CPU, and so is the depth of paths. Memory stalls are not counted: playouts have
hardly any, and the memory traffic of a search's kernels is in the estimates from compiled texts.
Flood fills of moves and areas run as many sweeps as in random games.
"""

from __future__ import annotations

import argparse
import collections
import functools
import json
import math
import os
import pathlib
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from experiments.accelerators.programs import LANES, PROGRAMS, SIMULATIONS
from experiments.throughput import games, stub_evaluator
from gozero.compile import ahead, estimate
from gozero.compile.kernels import lane_loop, lane_trees
from gozero.compile.kernels.lane_trees import Numbers
from gozero.games.go import go_game
from gozero.go import bitboard as bb
from gozero.go import floods, scoring, superko
from gozero.go import rules as go
from gozero.nets import features
from gozero.playouts import engine
from gozero.playouts.policies import uniform
from gozero.playouts.policies.mogo import playouts as mogo
from gozero.runs import files
from gozero.runs import folder as folders
from gozero.search import lanes
from gozero.search.config import SearchConfig
from gozero.search.game import Evaluator
from gozero.search.rows import num_words
from gozero.search.rules.puct import Puct
from gozero.search.search import search

KERNELS = {
    "playouts-9x9": (9, "uniform", (8,)),
    "playouts-19x19": (19, "uniform", (10, 4)),  # tries in a window, sweeps of a flood
    "mogo-playouts-9x9": (9, "mogo", (8,)),
}
"""{program with a kernel: (size, policy, trip counts of the inner loops of an `advance`)}."""

_BUNDLE = re.compile(r"\s*0x[0-9a-f]+\s+(?P<label>\w\w)?\s*: (?P<loops>[> ]*)\{", re.MULTILINE)


def loops(text: str) -> list[tuple[int, int]]:
    """(depth, number of bundles) of each stretch of a kernel within one loop, in order."""
    stretches: list[tuple[int, int]] = []
    for line in _BUNDLE.finditer(text):
        depth = line["loops"].count(">")
        if not stretches or stretches[-1][0] != depth or line["label"] == "LB":
            stretches.append((depth, 0))
        stretches[-1] = (depth, stretches[-1][1] + 1)
    return stretches


def cycles_of_an_advance(text: str, lengths: Sequence[float], outer_depth: int = 1) -> float:
    """Cycles of one trip of the outer loop, given the trip counts of its inner loops.

    Args:
      text: the bundles.
      lengths: trip counts of the inner loops, in order.
      outer_depth: the depth of the outer loop; 0: the kernel itself.

    Raises:
      ValueError: if the number of inner loops differs, or they contain loops.
    """
    stretches = [each for each in loops(text) if each[0] >= outer_depth]
    inner = [count for depth, count in stretches if depth == outer_depth + 1]
    if len(inner) != len(lengths) or max(depth for depth, _ in stretches) > outer_depth + 1:
        raise ValueError(
            f"loops {stretches}: expected {len(lengths)} inner loops in one outer loop"
        )
    own = sum(count for depth, count in stretches if depth == outer_depth)
    return own + sum(count * length for count, length in zip(inner, lengths, strict=True))


def advances(size: int, policy_name: str) -> tuple[np.ndarray, int]:
    """(i32[LANES] advances of each playout, the number of words of state per lane)."""
    rules = go.Rules(size, ko="simple")
    policy = (
        uniform.policy(rules.layout)
        if policy_name == "uniform"
        else mogo.policy(rules.layout, mogo.PLAIN)
    )
    cap = engine.move_cap(rules)
    is_playing = lambda state: engine.playing(state.clock, cap)
    positions = jax.vmap(lambda _: go.empty_position(rules))(jnp.arange(LANES))
    last_moves = (jnp.full(LANES, bb.NO_POINT),) if policy.takes_last else ()

    def init(positions, *last_moves):
        clock = engine.init_clock(positions, jax.random.key(0), engine.lane_ids(LANES))
        return policy.init(rules, positions, clock, False, *last_moves)

    @jax.jit
    def count(state):
        def advance(carry):
            state, counts = carry
            return policy.advance(rules, cap, (), state)[0], counts + is_playing(state)

        start = (state, jnp.zeros(LANES, jnp.int32))
        return lax.while_loop(lambda carry: jnp.any(is_playing(carry[0])), advance, start)[1]

    state = init(positions, *last_moves)
    words = sum(x.size // LANES for x in jax.tree.leaves(state))
    return np.asarray(count(state)), words


def kernel_text(folder: pathlib.Path) -> str:
    """The bundles of the largest compiled kernel, which is ours: XLA's own are small."""
    texts = folder.glob("*-final_bundles.txt")
    sizes = {path: path.stat().st_size for path in texts if "schedule" not in path.name}
    return max(sizes, key=lambda path: sizes[path]).read_text()


def seconds(name: str, target: ahead.Target, folder: pathlib.Path) -> dict[str, Any]:
    """Estimated times of a program's playouts, in its kernel and outside it."""
    size, policy, lengths = KERNELS[name]
    program = PROGRAMS[name](target)
    compiled = ahead.compile(target, program.function, *jax.eval_shape(program.make))
    cycles = cycles_of_an_advance(kernel_text(folder), lengths)
    counts, words = advances(size, policy)
    plan = lane_loop.plan("tpu", LANES, words)
    rounds = int(counts.reshape(plan.games, -1).sum(axis=0).max())  # one block
    kernel_s = rounds * cycles / estimate.SPEEDS[target.chip].clock_hz
    outside_s = estimate.read(compiled.text, target.chip).seconds
    area_s = _area_seconds(size, target, folder)
    return {
        "cycles": cycles,
        "advances": rounds,
        "kernel_us": 1e6 * kernel_s,
        "area_us": 1e6 * area_s,
        "around_us": 1e6 * outside_s,
        "playouts_per_s": LANES / (kernel_s + area_s + outside_s),
    }


def _area_seconds(size: int, target: ahead.Target, folder: pathlib.Path) -> float:
    """Seconds of the kernel that scores all lanes, in blocks of 1,024."""
    function, args, planes = _stages(size, 1024)["area"]
    rounds = flood_rounds(size, 1024)
    _empty(folder)
    ahead.compile(target, jax.vmap(function), *args)
    count = cycles_of_an_advance(
        kernel_text(folder), [rounds[each] for each in planes], outer_depth=0
    )
    return LANES / 1024 * count / estimate.SPEEDS[target.chip].clock_hz


def _empty(folder: pathlib.Path) -> None:
    for old in folder.iterdir():
        old.unlink()


SEARCHES = {"search-9x9": (9, 1024), "puct-9x9": (9, 1024), "puct-19x19": (19, 256)}
"""{program with trees in lanes: (size, batch)}; all select by PUCT."""


def cycles(text: str, trips: tuple[float, ...]) -> float:
    """Cycles of a kernel, given the trip count of its loops at each depth."""
    return sum(count * math.prod(trips[:depth]) for depth, count in loops(text))


def longest_path(size: int, batch: int) -> float:
    """The length in edges of the longest path to a new node among the trees, averaged over
    simulations, with priors as uneven as a network's."""
    rules = go.Rules(size)
    spread = stub_evaluator.NETWORK_SPREAD
    evaluate = functools.partial(stub_evaluator.evaluate, rules.num_actions, spread)
    evaluator = Evaluator(evaluate, None, stub_evaluator.observe)
    game = go_game(rules, evaluator.observe)
    run = jax.jit(functools.partial(search, game, evaluator, config=SearchConfig(SIMULATIONS)))
    tree = run(jax.random.key(0), games.start(rules, batch)).tree
    parent = np.asarray(tree.parent).reshape(batch, -1)
    depth = np.zeros_like(parent)
    for node in range(1, parent.shape[1]):
        above = np.maximum(parent[:, node], 0)
        depth[:, node] = depth[np.arange(batch), above] + 1
    return float(depth[:, 1:].max(axis=0).mean())


def flood_rounds(size: int, batch: int) -> dict[int, float]:
    """{planes: flood-fill sweeps until the last game of a batch has settled}.

    Averages over the moves of random games, until the first game ends. The floods have 1 plane for
    a move's captures, 4 for the chains that it touches, and 2 for an area.
    """
    rules, rounds_by_planes = go.Rules(size, ko="simple"), collections.defaultdict(list)
    actions = games.record_games(rules, batch, seed=0)
    actions = actions[: games.lengths(rules, actions).min()]

    def counted(lay, seeds, east, south):
        goes_on = lambda carry: jnp.any(floods._is_growing(lay, carry[0], east, south))
        sweep = lambda carry: (floods._sweep_stacked(lay, carry[0], east, south), carry[1] + 1)
        grown, rounds = lax.while_loop(goes_on, sweep, (seeds, jnp.int32(0)))
        jax.debug.callback(lambda rounds: rounds_by_planes[len(seeds)].append(int(rounds)), rounds)
        return grown

    def move(positions, actions):
        positions = jax.vmap(functools.partial(go.play_position, rules))(positions, actions)
        area = jax.vmap(functools.partial(scoring.area_difference, rules))(positions)
        return positions, area

    jax.clear_caches()  # functions traced earlier have floods without the counter
    with mock.patch.object(floods, "grow_stacked", counted):
        jax.block_until_ready(lax.scan(move, games.start(rules, batch).position, actions))
    jax.effects_barrier()
    return {planes: float(np.mean(rounds)) for planes, rounds in rounds_by_planes.items()}


def search_seconds(name: str, target: ahead.Target, folder: pathlib.Path) -> dict[str, Any]:
    """Estimated times of a simulation's kernels: those of the trees, and those of the Go stages."""
    size, batch = SEARCHES[name]
    depth, rounds, kernel_times = longest_path(size, batch), flood_rounds(size, batch), {}

    def add(kernel, function, args, count):
        _empty(folder)
        ahead.compile(target, function, *args)
        seconds = count(kernel_text(folder)) / estimate.SPEEDS[target.chip].clock_hz
        kernel_times[f"{kernel}_us"] = 1e6 * seconds

    for kernel, (function, args, blocks) in _search_kernels(size, batch).items():
        trips = (blocks, depth) if blocks > 1 else (depth,)
        add(kernel, function, args, functools.partial(cycles, trips=trips))
    for kernel, (function, args, planes) in _stages(size, batch).items():
        lengths = [rounds[each] for each in planes]
        count = functools.partial(cycles_of_an_advance, lengths=lengths, outer_depth=0)
        add(kernel, jax.vmap(function), args, count)
    about = {"longest_path": depth, **{f"sweeps_{k}": x for k, x in sorted(rounds.items())}}
    return {**about, **kernel_times, "kernels_us": sum(kernel_times.values())}


def _stages(size: int, batch: int) -> dict[str, tuple[Callable, tuple, tuple[int, ...]]]:
    """{kernel of one game: (function, batched argument shapes, planes of its floods)}."""
    rules = go.Rules(size)
    positions, actions = jax.eval_shape(
        lambda: (games.start(rules, batch).position, jnp.zeros(batch, jnp.int32))
    )

    def sought(position, closely):
        now = superko.present_board(
            position.black, position.white, position.to_play, position.atari
        )
        return superko._query(rules.layout, now, False, closely)

    return {
        "move": (functools.partial(go.play_position, rules), (positions, actions), (1, 4)),
        "legal": (functools.partial(go.legal_points, rules), (positions,), ()),
        "game": (functools.partial(sought, closely=True), (positions,), ()),
        "branch": (functools.partial(sought, closely=False), (positions,), ()),
        "area": (functools.partial(scoring.area_difference, rules), (positions,), (2,)),
        "planes": (features._stacked_compact_boards(rules.layout), (positions,), ()),
    }


def _search_kernels(size: int, batch: int) -> dict[str, tuple[Callable, tuple, int]]:
    """{kernel: (function, its arguments' shapes, its number of blocks of trees)}."""
    trees = lane_trees.shape_of(batch)
    assert trees is not None
    nodes = levels = SIMULATIONS + 1
    shape = jax.ShapeDtypeStruct
    number = lambda name: jnp.float32 if "prior" in name else jnp.int32
    numbers = Numbers._make(shape((nodes, *trees), number(name)) for name in Numbers._fields)
    fields = lane_trees.TreeUpdate._fields
    new = lane_trees.TreeUpdate._make(shape(trees, number(name)) for name in fields)
    of_tree = shape(trees, jnp.int32), shape(trees, jnp.int32), shape(trees, jnp.uint32)
    path = shape((levels, *trees), jnp.int32)
    position = jax.eval_shape(lambda: go.empty_position(go.Rules(size)))
    words = sum(x.size for x in jax.tree.leaves(position))
    flat = lambda *lead: shape((*lead, batch), jnp.int32)

    def descend(numbers):
        return lane_trees.descend(numbers, levels, num_words(size * size + 1))

    def back_up(numbers, new, path, length, value, seeds):
        of_trees = (seeds,)
        choose = lanes.choose_by(Puct())
        return lane_trees.back_up(choose, numbers, new, path, length, value, of_trees, 0)

    blocks = math.ceil(trees[0] / 8)
    return {
        "descend": (descend, (numbers,), blocks),
        "read_along": (lane_trees.read_along, (flat(words, nodes), flat(levels)), batch // 128),
        "back_up": (back_up, (numbers, new, path, *of_tree), blocks),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--target", default="v5e", choices=sorted(estimate.SPEEDS))
    parser.add_argument("--program", default="playouts-9x9", choices=sorted([*KERNELS, *SEARCHES]))
    parser.add_argument("--out", type=pathlib.Path, help="a file to which the row is added")
    args = parser.parse_args()
    jax.config.update("jax_enable_compilation_cache", False)  # a cache hit dumps nothing
    with tempfile.TemporaryDirectory() as folder:
        flags = f"--xla_jf_dump_to={folder} --xla_jf_dump_llo_text=true"
        os.environ["LIBTPU_INIT_ARGS"] = flags  # libtpu reads it only once, when loaded
        measure = seconds if args.program in KERNELS else search_seconds
        figures = measure(args.program, ahead.target(args.target), pathlib.Path(folder))
    row = {"program": args.program, "target": args.target}
    row |= {key: float(f"{x:.4g}") for key, x in figures.items()}
    row |= {"jax": jax.__version__, "commit": folders.commit().get("git_commit")}
    row["date"] = time.strftime("%Y-%m-%d")
    print(json.dumps(row))
    if args.out:
        files.add_line(args.out, row)


if __name__ == "__main__":
    main()
