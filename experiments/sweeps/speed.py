"""How fast a contestant searches, and what his trees take."""

from __future__ import annotations

import dataclasses
import statistics
import time

import jax
import jax.numpy as jnp

from experiments.sweeps.points import Contestant
from gozero.go.rules import Rules, init
from gozero.players.go_game import go_game
from gozero.search import footprint
from gozero.search.search import search


@dataclasses.dataclass(frozen=True)
class Speed:
    """Searches of the empty board, in lockstep."""

    simulations_per_s: float
    """Of all trees together; the median."""
    judged: float
    """Leaves that the evaluator was asked for, by simulations."""
    bytes_a_node: float
    """Of the trees, the position included."""
    mb: float
    """Of the trees in all, 10^6 bytes, with the copies that reuse wants."""


def measure(
    rules: Rules, contestant: Contestant, num_trees: int, komi: float, seed: int, repeats: int = 3
) -> Speed:
    """Time searches, compiling apart.

    Args:
      rules: the rules.
      contestant: who searches.
      num_trees: boards searched at once.
      komi: points for White.
      seed: of the searches.
      repeats: searches that are timed.

    Raises:
      ValueError: a contestant that cannot be.
    """
    evaluator, config, guesses, _ = contestant.setup(rules)
    game = go_game(rules, evaluator.observe)

    @jax.jit
    def run(params, states, key):
        found = search(game, evaluator.evaluate, params, key, states, states.position, config)
        asked = states.komi.shape[0] * config.num_simulations
        shared = found.evaluations
        return found.action, asked if shared is None else jnp.sum(shared)

    new_games = jax.jit(jax.vmap(lambda komi: init(rules, komi)))
    states = new_games(jnp.full(num_trees, komi, jnp.float32))
    keys = jax.random.split(jax.random.key(seed), repeats + 1)
    jax.block_until_ready(run(evaluator.params, states, keys[0]))
    seconds, judged = [], 0.0
    for key in keys[1:]:
        started = time.perf_counter()
        _, evaluations = jax.block_until_ready(run(evaluator.params, states, key))
        seconds.append(time.perf_counter() - started)
        judged += float(evaluations) / repeats
    simulations = num_trees * config.num_simulations
    kept = config.roomy if contestant.reuse else config
    reuse = contestant.reuse
    memory = footprint.memory(states.position, rules.num_actions, kept, reuse, guesses)
    return Speed(
        simulations_per_s=simulations / statistics.median(seconds),
        judged=judged / simulations,
        bytes_a_node=memory.tree / num_trees / kept.num_nodes,
        mb=memory.total / 1e6,
    )
