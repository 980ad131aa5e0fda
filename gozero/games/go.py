"""Go as a `Game` of the search.

The context is the `GameState` at the root: its past is what superko bans, its komi and the
rules' move limit decide results. A position of the tree is a `Position`, some tens of bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gozero.go import bitboard as bb
from gozero.go import checks, scoring
from gozero.go.branch import superko_points
from gozero.go.rules import GameState, Position, Rules, action_mask, legal_points, play_position
from gozero.hashing import mix
from gozero.search.game import Game, Trail


def go_game(
    rules: Rules,
    observe: Callable[[GameState, Position, Trail], Any],
    reward: Callable[[jax.Array], jax.Array] = jnp.sign,
) -> Game:
    """Go under `rules`; `observe` is what the evaluator wants to see of a position.

    A finished game is worth `reward` of its score: won, lost or drawn; or by its margin, see
    `scoring.by_margin`, and then the evaluator's values should be of that kind too.

    Roots are ``state.position`` and contexts are the states themselves:

        evaluator = gozero.playout_evaluator(rules)
        game = gozero.go_game(rules, evaluator.observe)
        result = gozero.search(
            game, evaluator.evaluate, evaluator.params, key, states, states.position, config)
    """

    def play(position: Position, action: jax.Array) -> Position:
        return play_position(rules, position, action)

    def legal(state: GameState, position: Position, trail: Trail) -> jax.Array:
        return _legal(rules, state, position, trail)

    def result(state: GameState, position: Position) -> tuple[jax.Array, jax.Array]:
        return _result(rules, state, position, reward)

    return Game(rules.num_actions, play, _key, legal, result, observe)


def is_over(rules: Rules, position: Position) -> jax.Array:
    """bool[]: two passes, or the move limit."""
    return (position.passes >= 2) | (position.ply >= rules.move_limit)


def _legal(rules: Rules, state: GameState, position: Position, trail: Trail) -> jax.Array:
    """bool[A]: legal under the ko rule, over the game up to the root and the trail after it."""
    checks.check_state(rules, state)
    points = legal_points(rules, position)
    if state.past is not None:
        banned = superko_points(rules, state, position, trail.positions, trail.length)
        points = bb.difference(points, banned)
    return action_mask(rules, bb.keep(~is_over(rules, position), points))


def _result(
    rules: Rules, state: GameState, position: Position, reward: Callable
) -> tuple[jax.Array, jax.Array]:
    """(over bool[], value f32[]), for the player to move.

    Only boards of finished games are scored; the others flood nothing.
    """
    over = is_over(rules, position)
    counted = position.replace(
        black=bb.keep(over, position.black), white=bb.keep(over, position.white)
    )
    score = scoring.area_difference(rules, counted).astype(jnp.float32) - state.komi
    for_black = reward(score)
    return over, jnp.where(position.to_play == 0, for_black, -for_black)


def _key(position: Position) -> jax.Array:
    """u32[2]: two hashes of all that a move depends on; the ply is left out."""
    small = (position.ko, position.passes, position.to_play)
    words = [*position.black, *position.white, *(x.astype(jnp.uint32) for x in small)]
    keys = []
    for seed in (0x9E3779B9, 0x7F4A7C15):
        key = jnp.uint32(seed)
        for word in words:
            key = mix(key * np.uint32(31) ^ word)
        keys.append(key)
    return jnp.stack(keys)
