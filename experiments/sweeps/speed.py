"""The speed of a contestant's search, and the memory of its trees."""

from __future__ import annotations

import dataclasses
import functools
import statistics
from collections.abc import Sequence

import jax
import jax.numpy as jnp

from experiments.sweeps.points import Contestant
from experiments.throughput.measure import in_turn, make_timed
from gozero.games.go import go_game
from gozero.go.rules import GameState, Rules, init, legal_actions
from gozero.play.player import Turn
from gozero.play.setups import tree_memory
from gozero.search.game import NO_ACTION
from gozero.search.search import search


@dataclasses.dataclass(frozen=True)
class Speed:
    """Measurements of searches of the empty board, in lockstep."""

    simulations_per_s: float
    """The median, of all trees together."""
    evaluated: float
    """Leaves that were evaluated, as a fraction of simulations."""
    bytes_a_node: float
    """Bytes of a tree per node, including the position."""
    mb: float
    """Memory of all trees, in 10^6 bytes, including the copies that reuse needs."""


def measure(
    rules: Rules,
    contestants: Sequence[Contestant],
    num_trees: int,
    komi: float,
    seed: int,
    repeats: int = 3,
) -> list[Speed]:
    """Times the contestants' searches in turn, `repeats` times over, without compilation.

    Args:
      rules: the rules.
      contestants: the players whose searches are timed.
      num_trees: boards searched at once.
      komi: points for White.
      seed: the seed of the searches.
      repeats: timed searches of each contestant.

    Raises:
      ValueError: if a contestant's settings are invalid.
    """
    new_games = jax.jit(jax.vmap(lambda komi: init(rules, komi)))
    states = new_games(jnp.full(num_trees, komi, jnp.float32))
    key = jax.random.key(seed)
    runs = [_searcher(rules, one, states, key) for one in contestants]
    seconds = in_turn([make_timed(run, lambda: ()) for run in runs], repeats)
    speeds = []
    for one, run, times in zip(contestants, runs, seconds, strict=True):
        if not one.has_tree:
            simulations = num_trees * one.flags.simulations
            speeds.append(Speed(simulations / statistics.median(times), 1.0, 0.0, 0.0))
            continue
        setup = one.setup(rules)
        nodes = (setup.search.for_reuse if one.reuse else setup.search).num_nodes
        memory = tree_memory(rules, setup, one.reuse, num_trees)
        simulations = num_trees * one.flags.num_simulations
        speeds.append(
            Speed(
                simulations_per_s=simulations / statistics.median(times),
                evaluated=int(run()[1]) / simulations,
                bytes_a_node=memory.tree / num_trees / nodes,
                mb=memory.total / 1e6,
            )
        )
    return speeds


def _searcher(rules: Rules, contestant: Contestant, states: GameState, key: jax.Array):
    """A function without arguments that returns (actions i32[B], evaluated leaves i32[])."""
    if not contestant.has_tree:
        return _treeless(rules, contestant, states, key)
    evaluator, config, *_ = contestant.setup(rules)
    if contestant.reuse:
        config = config.for_reuse
    game = go_game(rules)

    @jax.jit
    def run(params, states, key):
        result = search(game, evaluator._replace(params=params), key, states, config)
        simulations = states.komi.shape[0] * contestant.flags.num_simulations
        shared = result.evaluations
        return result.action, simulations if shared is None else jnp.sum(shared)

    return functools.partial(run, evaluator.params, states, key)


def _treeless(rules: Rules, contestant: Contestant, states: GameState, key: jax.Array):
    """As `_searcher`, for a contestant without a tree."""
    player, count = contestant.player(rules), states.komi.shape[0]
    legal = jax.vmap(functools.partial(legal_actions, rules))
    recent = jnp.full((2, count), NO_ACTION)

    @jax.jit
    def run(params, states, key):
        action = player.choose(params, key, Turn(states, legal(states), recent), None).action
        return action, count * contestant.flags.simulations

    return functools.partial(run, player.params, states, key)
