"""The loss of accuracy of a network with 8-bit integers in its blocks, against f32, on the CPU.

    python -m experiments.accelerators.int8 --games 400     # some minutes on two cores

Policies and values are compared at positions of games that the network plays against itself by its
policy; then the two play a match. Each has its results file.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import pathlib
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments.accelerators.config import RESULTS
from experiments.output import appended_csv
from gozero.games.go import go_game
from gozero.go import rules as go
from gozero.nets import weights
from gozero.play.arena import play_match
from gozero.play.networks import network_evaluator
from gozero.play.player import search_player
from gozero.play.players import NETWORKS
from gozero.search.config import SearchConfig
from gozero.search.game import Evaluator, History, history_of, no_ancestors
from gozero.search.rules.puct import Puct

_GAMES, _PLIES, _EVERY = 64, 48, 3
"""Games whose positions are compared: their number, their length, and the plies per position."""
_KOMI = {9: 7.0, 7: 9.0}
"""At which both sides have chances; on 7x7 Black wins by 9."""


@functools.cache
def evaluators(size: int) -> dict[str, Evaluator]:
    """{dtype of the trunk: evaluator} of the network of this size that comes with the package."""
    rules = go.Rules(size=size)
    shape, params, _ = weights.load(NETWORKS[size], size)
    sides = {}
    for dtype in ("float32", "bfloat16", "int8"):
        one = network_evaluator(rules, dataclasses.replace(shape, dtype=dtype), params)
        sides[dtype] = one._replace(params=jax.jit(lambda one=one: one.prepared().params)())
    return sides


def compare(size: int, seed: int) -> Iterator[dict[str, Any]]:
    """Compares bf16 and int8 with f32: policies by KL divergence in nats and by the share of equal
    first moves, values by root mean squared error."""
    sides, game = evaluators(size), go_game(go.Rules(size=size))
    evaluate = {dtype: jax.jit(side.evaluate) for dtype, side in sides.items()}
    errors: dict[str, list[tuple[float, ...]]] = {"bfloat16": [], "int8": []}
    for observations, legal in _positions(game, sides["float32"], seed):
        evaluations = {
            dtype: evaluate[dtype](side.params, jax.random.key(0), observations)
            for dtype, side in sides.items()
        }
        logs = {
            dtype: jax.nn.log_softmax(jnp.where(legal, one.prior_logits, -jnp.inf))
            for dtype, one in evaluations.items()
        }
        exact = logs["float32"]
        for dtype, rows in errors.items():
            divergence = jnp.where(legal, jnp.exp(exact) * (exact - logs[dtype]), 0.0).sum(axis=1)
            same_move = jnp.argmax(exact, axis=1) == jnp.argmax(logs[dtype], axis=1)
            error = evaluations[dtype].value - evaluations["float32"].value
            rows.append(
                (float(divergence.mean()), float((error**2).mean()), float(same_move.mean()))
            )
    for dtype, rows in errors.items():
        nats, square, same_move = np.mean(rows, axis=0)
        about = {"size": size, "dtype": dtype, "positions": _GAMES * len(rows), "seed": seed}
        measured = {"policy_nats": nats, "value_rms": square**0.5, "same_first_move": same_move}
        yield about | {name: f"{value:.3g}" for name, value in measured.items()}


def _positions(game: Any, evaluator: Evaluator, seed: int) -> Iterator[tuple[Any, jax.Array]]:
    """Yields (observations, legal bool[B, A]) of games that the network plays by its policy."""
    history = history_of(game, evaluator.observe)
    key = jax.random.key(seed)
    states = jax.vmap(game.init)(jax.random.split(key, _GAMES))
    for ply in range(_PLIES):
        states, observations, legal = _step(history, game, evaluator.evaluate)(
            evaluator.params, jax.random.fold_in(key, ply), states
        )
        if ply % _EVERY == 0:
            yield observations, legal


@functools.cache
def _step(history: History, game: Any, evaluate: Any) -> Any:
    @jax.jit
    def step(params: Any, key: jax.Array, states: Any) -> tuple[Any, Any, jax.Array]:
        contexts, positions = jax.vmap(history.root)(states)
        alone = jax.vmap(no_ancestors)(positions)
        observations = jax.vmap(history.observe)(contexts, positions, alone)
        legal = jax.vmap(game.legal)(states)
        logits = jnp.where(legal, evaluate(params, key, observations).prior_logits, -jnp.inf)
        return jax.vmap(game.play)(states, jax.random.categorical(key, logits)), observations, legal

    return step


def match(size: int, games: int, simulations: int, seed: int) -> dict[str, Any]:
    """A match of 8-bit integers against f32, with equal simulations."""
    rules, sides = go.Rules(size=size), evaluators(size)
    config = SearchConfig(simulations, select=sides["int8"].select or Puct())
    int8, f32 = (search_player(rules, sides[dtype], config) for dtype in ("int8", "float32"))
    key, komi = jax.random.key(seed), _KOMI[size]
    result = play_match(rules, int8, f32, key, games, komi=komi, openings=4)
    summary = result.summary()
    low, high = summary.interval
    about = {"size": size, "dtype": "int8", "simulations": simulations, "seed": seed}
    total = {"games": games, "points": float(result.points.sum()), "score": f"{summary.score:.3f}"}
    return about | total | {"low": f"{low:.3f}", "high": f"{high:.3f}"}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[9, 7], choices=sorted(NETWORKS))
    parser.add_argument("--games", type=int, default=400, help="games in the match on each size")
    parser.add_argument("--simulations", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=pathlib.Path, default=RESULTS)
    args = parser.parse_args()
    rows = [row for size in args.sizes for row in compare(size, args.seed)]
    _write(args.out / "int8.csv", rows)
    settings = args.games, args.simulations, args.seed
    _write(args.out / "int8_matches.csv", [match(size, *settings) for size in args.sizes])


def _write(path: pathlib.Path, rows: list[dict[str, Any]]) -> None:
    with appended_csv(path) as add:
        for row in rows:
            add(row)
    print(path, path.read_text(), sep="\n")


if __name__ == "__main__":
    main()
