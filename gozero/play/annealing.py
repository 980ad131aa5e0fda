"""Simulated annealing of each player's ordered list of moves, without a tree: Gobble, Bruegmann
(1993).

The value of a move is the mean result of the playouts in which its player was the first of the two
to play there: all moves as first. Playouts play moves in order of these values
(`policies.ordered`), at a temperature that falls linearly to 0; then the move with the best value
is played.

Gobble updates its values after each playout; here each game runs a round of playouts in lockstep,
and the values are updated when all of them have ended.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from gozero.go import bitboard as bb
from gozero.go import rules as go
from gozero.play.player import Choice, Player, Turn, check_resign
from gozero.playouts import engine, playable
from gozero.playouts.policies import ordered
from gozero.runs.settings import COUNT, Range, check_ranges

LANES = 32
"""The default number of playouts in lockstep for each game."""

_TIES = 1e-6
"""The scale of tie-breaking noise: less than any difference between two unequal values of up to
1,000 playouts, and about the least of those of 1,024."""


class Values(NamedTuple):
    """All-moves-as-first statistics of the points of B games, for Black and for White."""

    visits: jax.Array  # i32[B, 2, P]
    sums: jax.Array  # i32[B, 2, P]: sums of results, 1, 0 or -1 for that player

    @property
    def q(self) -> jax.Array:
        """f32[B, 2, P] in [-1, 1]; 0 without visits."""
        return self.sums / jnp.maximum(self.visits, 1)


@dataclasses.dataclass(frozen=True)
class Annealing:
    """Static settings of the search.

    Attributes:
      rules: the rules of the game.
      simulations: playouts before each move, rounded up to whole rounds.
      lanes: playouts of a round, which run in lockstep, in each game.
      temperature: the temperature of the first round, in ranks of the lists.

    Raises:
      ValueError: naming the field, its value and what is allowed.
    """

    rules: go.Rules
    simulations: int = 1000
    lanes: int = LANES
    temperature: float = 5.0

    def __post_init__(self):
        check_ranges(self, simulations=COUNT, lanes=COUNT, temperature=Range(0))

    @property
    def rounds(self) -> int:
        return -(-self.simulations // self.lanes)


def nothing(config: Annealing, num_games: int) -> Values:
    """The values before the first round: no visits."""
    zeros = jnp.zeros((num_games, 2, config.rules.num_points), jnp.int32)
    return Values(zeros, zeros)


def one_round(
    config: Annealing,
    key: jax.Array,
    states: go.GameState,
    number: jax.Array,
    remaining: jax.Array,
    values: Values,
) -> Values:
    """The values of the points of B games after one more round; those of game b do not depend on
    the other games of the batch.

    Args:
      config, key, states: those of the whole search.
      number: i32[], the round's number.
      remaining: f32[]: the share of the search that remains, by which the temperature is scaled.
      values: the values so far.
    """
    rules = config.rules
    order_key, play_key = jax.random.split(jax.random.fold_in(key, number))
    repeat = lambda x: jnp.repeat(x, config.lanes, axis=0)
    rank = jnp.moveaxis(repeat(_ranks(order_key, values.q)), 0, -1)
    temperature = jnp.full_like(rank, config.temperature * remaining)
    policy = ordered.policy(ordered.Order(rank, temperature))
    positions = jax.tree.map(repeat, states.position)
    playouts = engine.play_out(policy, rules, positions, play_key, first_plays=True)
    return with_playouts(rules, playouts, states.komi, values)


def with_playouts(
    rules: go.Rules, playouts: engine.Playouts, komi: jax.Array, values: Values
) -> Values:
    """The values of B games with the results of playouts [B L] added; a game's L playouts are
    adjacent."""
    assert playouts.first_plays is not None
    num_games = komi.shape[0]
    unpack = jax.vmap(functools.partial(bb.unpack, rules.layout))
    first_plays = jnp.stack([unpack(board) for board in playouts.first_plays], axis=1).astype(
        jnp.int32
    )
    results = engine.outcomes(playouts, jnp.repeat(komi, len(first_plays) // num_games)).astype(
        jnp.int32
    )
    signed = first_plays * jnp.stack([results, -results], axis=1)[..., None]
    sum_by_game = lambda x: jnp.sum(x.reshape(num_games, -1, *x.shape[1:]), axis=1)
    return Values(values.visits + sum_by_game(first_plays), values.sums + sum_by_game(signed))


def learn(config: Annealing, key: jax.Array, states: go.GameState) -> Values:
    """The values of the points of B games, after all rounds."""

    def one(i, values):
        return one_round(config, key, states, i, 1.0 - i / config.rounds, values)

    return lax.fori_loop(0, config.rounds, one, nothing(config, states.komi.shape[0]))


def best(
    config: Annealing, key: jax.Array, states: go.GameState, legal: jax.Array, values: Values
) -> tuple[jax.Array, jax.Array]:
    """(the best legal moves that are no suicide and do not fill an own eye, or passes, i32[B];
    their values f32[B]).

    `legal` is bool[B, A]. The value of a pass is 0. Playouts never play suicide, so it has no
    value.
    """
    rules, points = config.rules, legal[:, :-1]
    suicides = jax.vmap(functools.partial(go.suicide_points, rules))(states.position)
    if suicides is not None:
        points = points & ~jax.vmap(functools.partial(bb.unpack, rules.layout))(suicides)
    mover = (states.position.to_play == go.WHITE).astype(jnp.int32)
    q = jax.vmap(lambda q, mover: q[mover])(values.q, mover)
    q = jnp.pad(q, ((0, 0), (0, 1)))
    allowed = playable.no_own_eyes(rules, states.position, points)
    noisy_q = q + _TIES * _uniform(jax.random.fold_in(key, config.rounds), q)
    action = jnp.argmax(jnp.where(allowed, noisy_q, -jnp.inf), axis=1).astype(jnp.int32)
    return action, jnp.take_along_axis(q, action[:, None], axis=1)[:, 0]


def _ranks(key: jax.Array, q: jax.Array) -> jax.Array:
    """f32[B, 2, P]: each point's rank by value, 0 for the best; ties are broken at random."""
    order = jnp.argsort(-q + _TIES * _uniform(key, q), axis=-1)
    return jnp.argsort(order, axis=-1).astype(jnp.float32)


def _uniform(key: jax.Array, like: jax.Array) -> jax.Array:
    """f32[B, ...]: uniform noise; each game's does not depend on the rest of the batch."""
    draw = lambda game: jax.random.uniform(jax.random.fold_in(key, game), like.shape[1:])
    return jax.vmap(draw)(jnp.arange(like.shape[0]))


Learn = Callable[[Annealing, jax.Array, go.GameState], Values]


def player(config: Annealing, resign: float | None = None, learn: Learn = learn) -> Player:
    """The player, which never fills an own eye, never plays suicide, and passes only if it has no
    other move.

    It resigns when its best move's value is below `resign`, in [-1, 0); None: never. `learn`
    computes the values.
    """
    check_resign(resign)

    def choose(params, key: jax.Array, turn: Turn, memory) -> Choice:
        del params
        values = learn(config, key, turn.states)
        action, value = best(config, key, turn.states, turn.legal, values)
        resigns = None if resign is None else value < resign
        return Choice(action, jnp.ones(action.shape, bool), memory, resigns)

    return Player(choose)
