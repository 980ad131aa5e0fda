"""Playouts that statistics of territory guide, after Bouzy's Indigo.

In "History and territory heuristics for Monte-Carlo Go" (2006) Bouzy has whose area each point was
at the end of the playouts so far bias the moves of those to come. What is published of the weights
was not at hand; those here are ours. A point weighs 1 - m^2, if m in [-1, 1] is its mean owner, and
a twentieth at least: what both players get is played first, what one of them has anyway is
filled last. In each playout a player has all points in a list, drawn without replacement in
proportion to the weights, and plays the first that may be played.

The move is the best by all moves as first, as in Bouzy & Helmstetter (2003). There is no tree.
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
"""The weight of a point that one player has had in every playout."""

_CHANGE = Change("territory statistics in place of the values", lambda rules, setup: setup)


class Known(NamedTuple):
    """What the playouts from the positions of B games have shown so far."""

    values: Values
    owners: jax.Array  # i32[B, P]: of each point its owners' sum, 1 Black, -1 White, 0 neither


def weights(owners: jax.Array, count: jax.Array) -> jax.Array:
    """f32[...], from `LEAST` to 1: of points with sums of owners i32[...] after i32[] playouts."""
    mean = owners / jnp.maximum(count, 1)
    return jnp.maximum(1 - mean**2, LEAST)


def learn(config: Annealing, key: jax.Array, states: go.GameState) -> Known:
    """What all rounds of playouts show. Trip bound: `config.rounds`."""
    rules, lanes, num_games = config.rules, config.lanes, states.komi.shape[0]
    positions = jax.tree.map(lambda x: jnp.repeat(x, lanes, axis=0), states.position)

    def one_round(i, known):
        # Places drawn from exponential distributions of means 1 / weight are such a list.
        mean = jnp.repeat(1 / weights(known.owners, i * lanes), lanes, axis=0).T
        both = jnp.broadcast_to(mean, (2, *mean.shape))
        policy = ordered.policy(ordered.Order(jnp.zeros_like(both), both))
        own_key = jax.random.fold_in(key, i)
        played = engine.play_out(policy, rules, positions, own_key, ends=True, first_plays=True)
        values = annealing.with_playouts(rules, played, states.komi, known.values)
        owners = engine.ownership(rules, played).reshape(num_games, lanes, -1)
        return Known(values, known.owners + jnp.sum(owners, axis=1, dtype=jnp.int32))

    none = jnp.zeros((num_games, rules.num_points), jnp.int32)
    start = Known(annealing.nothing(config, num_games), none)
    return lax.fori_loop(0, config.rounds, one_round, start)


def player(config: Annealing, resign: float | None = None) -> Player:
    """`annealing.player` by these playouts; the temperature is not used."""
    return annealing.player(config, resign, lambda *args: learn(*args).values)


@dataclasses.dataclass(frozen=True)
class TerritoryContestant(Contestant):
    """It in a sweep: flags of annealing, whose simulations and resignation count."""

    change: Change | None = _CHANGE

    def player(self, rules: go.Rules) -> Player:
        return player(Annealing(rules, self.flags.simulations), self.flags.resign)


def contestant(simulations: int) -> TerritoryContestant:
    """With so many playouts a move."""
    return TerritoryContestant(PlayerConfig(search="annealing", simulations=simulations))
