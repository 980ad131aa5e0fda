"""Simulated annealing of two lists of moves, without a tree: Gobble, Bruegmann (1993).

The value of a move is the mean result of the playouts in which its player was the first of the two
to play there: all moves as first. Playouts are played by the values (`policies.ordered`), at a
temperature that falls linearly to 0; then the move with the best value is played.

Gobble updates its values after each playout; here playouts run in lockstep, and values change when
all of them have ended. The games of a batch are searched one after the other.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from gozero.go import bitboard as bb
from gozero.go import rules as go
from gozero.play.player import Choice, Player, Turn, check_resign
from gozero.playouts import engine
from gozero.playouts.policies import ordered
from gozero.runs.settings import COUNT, Range, check_ranges
from gozero.td.td import no_own_eyes

_TIES = 1e-6
"""Below the difference of values that are not equal, of up to a thousand playouts."""


class Values(NamedTuple):
    """Of the points, for Black, and for White."""

    visits: jax.Array  # i32[2, P]
    sums: jax.Array  # i32[2, P]: of results 1, 0 and -1 for that player

    @property
    def q(self) -> jax.Array:
        """f32[2, P] in [-1, 1]; 0 without visits."""
        return self.sums / jnp.maximum(self.visits, 1)


@dataclasses.dataclass(frozen=True)
class Annealing:
    """A player's search (static).

    Attributes:
      rules: of the game.
      simulations: playouts before each move, rounded up to whole rounds.
      lanes: of these in lockstep, a round.
      temperature: at the first round, in places of the lists.

    Raises:
      ValueError: naming the field, what it was and what is allowed.
    """

    rules: go.Rules
    simulations: int = 1000
    lanes: int = 32
    temperature: float = 5.0

    def __post_init__(self):
        check_ranges(self, simulations=COUNT, lanes=COUNT, temperature=Range(0))

    @property
    def rounds(self) -> int:
        return -(-self.simulations // self.lanes)


def nothing(config: Annealing) -> Values:
    """Before the first round."""
    none = jnp.zeros((2, config.rules.num_points), jnp.int32)
    return Values(none, none)


def one_round(
    config: Annealing,
    key: jax.Array,
    state: go.GameState,
    number: jax.Array,
    left: jax.Array,
    values: Values,
) -> Values:
    """The values of the points in one game, after a round more.

    Args:
      config, key, state: of the whole search.
      number: i32[], of the round.
      left: f32[]: the share of the search that is left, and of the temperature.
      values: so far.
    """
    rules = config.rules
    positions = jax.tree.map(
        lambda x: jnp.broadcast_to(x[None], (config.lanes, *x.shape)), state.position
    )
    order_key, play_key = jax.random.split(jax.random.fold_in(key, number))
    order = ordered.Order(_ranks(order_key, values.q), config.temperature * left)
    policy = ordered.policy(order)
    played = engine.play_out(policy, rules, positions, play_key, first_plays=True)
    assert played.first_plays is not None
    unpack = jax.vmap(functools.partial(bb.unpack, rules.layout))
    black, white = map(unpack, played.first_plays)
    first = jnp.stack([black, white]).astype(jnp.int32)  # [2, lanes, P]
    won = engine.outcomes(played, state.komi).astype(jnp.int32)
    gained = jnp.sum(first * jnp.stack([won, -won])[..., None], axis=1)
    return Values(values.visits + jnp.sum(first, axis=1), values.sums + gained)


def learn(config: Annealing, key: jax.Array, state: go.GameState) -> Values:
    """The values of the points in one game, after all rounds."""

    def one(i, values):
        return one_round(config, key, state, i, 1.0 - i / config.rounds, values)

    return lax.fori_loop(0, config.rounds, one, nothing(config))


def best(
    config: Annealing, key: jax.Array, state: go.GameState, legal: jax.Array, values: Values
) -> tuple[jax.Array, jax.Array]:
    """(the legal move with the best value that fills no own eye, or a pass i32[]; its value f32[]).

    Legal actions are bool[A]. A pass is worth 0.
    """
    mover = (state.position.to_play == go.WHITE).astype(jnp.int32)
    q = jnp.pad(values.q[mover], (0, 1))
    position = jax.tree.map(lambda x: x[None], state.position)
    allowed = no_own_eyes(config.rules, position, legal[None, :-1])[0]
    noisy = q + _TIES * jax.random.uniform(jax.random.fold_in(key, config.rounds), q.shape)
    action = jnp.argmax(jnp.where(allowed, noisy, -jnp.inf)).astype(jnp.int32)
    return action, q[action]


def _ranks(key: jax.Array, q: jax.Array) -> jax.Array:
    """f32[2, P]: the best 0, at random among equals."""
    order = jnp.argsort(-q + _TIES * jax.random.uniform(key, q.shape), axis=1)
    return jnp.argsort(order, axis=1).astype(jnp.float32)


def player(config: Annealing, resign: float | None = None) -> Player:
    """The player, which fills no own eye and passes only where there is no other move.

    It resigns when its best move is worth less than `resign`, from -1 to 0; None: never.
    """
    check_resign(resign)

    def one(args):
        key, state, legal = args
        return best(config, key, state, legal, learn(config, key, state))

    def choose(params, key: jax.Array, turn: Turn, memory) -> Choice:
        del params
        keys = jax.random.split(key, turn.legal.shape[0])
        action, value = lax.map(one, (keys, turn.states, turn.legal))
        resigns = None if resign is None else value < resign
        return Choice(action, jnp.ones(action.shape, bool), memory, resigns)

    return Player(choose)
