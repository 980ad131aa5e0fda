"""Playouts guided by territory statistics, after Bouzy's Indigo.

In "History and territory heuristics for Monte-Carlo Go" (2006) Bouzy biases the moves of later
playouts by each point's owner at the end of earlier ones. The published weights were not available;
those here are ours. A point's weight is 1 - m^2, where m in [-1, 1] is its mean owner, and at least
1/20: contested points are played first, and points that one player owns anyway are filled last. In
each playout a player has a list of all points, drawn without replacement in proportion to the
weights, and plays the first one that may be played.

The move is the best by all-moves-as-first, as in Bouzy & Helmstetter (2003). There is no tree.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from experiments.sweeps.points import Change, Contestant
from gozero.go import rules as go
from gozero.play import annealing
from gozero.play.annealing import Annealing, Values
from gozero.play.player import Player
from gozero.play.player_config import PlayerConfig
from gozero.playouts import engine
from gozero.playouts.policies import ordered

LEAST = 0.05
"""The weight of a point that one player owned in every playout."""

_CHANGE = Change("territory statistics in place of the values", lambda rules, setup: setup)


class Statistics(NamedTuple):
    """Statistics of the playouts so far from the positions of B games."""

    values: Values
    owners: jax.Array  # i32[B, P]: the sum of each point's owners, 1 Black, -1 White, 0 neither


def weights(owners: jax.Array, count: jax.Array) -> jax.Array:
    """f32[...] in [`LEAST`, 1]: weights of points, from owner sums i32[...] of i32[] playouts."""
    mean = owners / jnp.maximum(count, 1)
    return jnp.maximum(1 - mean**2, LEAST)


def learn(config: Annealing, key: jax.Array, states: go.GameState) -> Statistics:
    """The statistics of all rounds of playouts. Trip bound: `config.rounds`."""
    rules, lanes, num_games = config.rules, config.lanes, states.komi.shape[0]
    positions = jax.tree.map(lambda x: jnp.repeat(x, lanes, axis=0), states.position)

    def one_round(i, statistics):
        # Sorting by exponential variates of mean 1 / weight gives such a list.
        mean = jnp.repeat(1 / weights(statistics.owners, i * lanes), lanes, axis=0).T
        both = jnp.broadcast_to(mean, (2, *mean.shape))
        policy = ordered.policy(ordered.Order(jnp.zeros_like(both), both))
        own_key = jax.random.fold_in(key, i)
        played = engine.play_out(policy, rules, positions, own_key, ends=True, first_plays=True)
        values = annealing.with_playouts(rules, played, states.komi, statistics.values)
        owners = engine.ownership(rules, played).reshape(num_games, lanes, -1)
        return Statistics(values, statistics.owners + jnp.sum(owners, axis=1, dtype=jnp.int32))

    zeros = jnp.zeros((num_games, rules.num_points), jnp.int32)
    start = Statistics(annealing.nothing(config, num_games), zeros)
    return lax.fori_loop(0, config.rounds, one_round, start)


def player(config: Annealing, resign: float | None = None) -> Player:
    """`annealing.player` with these playouts; the temperature is not used."""
    return annealing.player(config, resign, lambda *args: learn(*args).values)


@dataclasses.dataclass(frozen=True)
class TerritoryContestant(Contestant):
    """This player in a sweep: has annealing's flags, of which only simulations and resign count."""

    change: Change | None = _CHANGE

    def player(self, rules: go.Rules) -> Player:
        return player(Annealing(rules, self.flags.simulations), self.flags.resign)


def contestant(simulations: int) -> TerritoryContestant:
    """The contestant with `simulations` playouts per move."""
    return TerritoryContestant(PlayerConfig(search="annealing", simulations=simulations))
