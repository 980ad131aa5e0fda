"""Go as a `Game` of the search.

A state is a `GameState`. In a search it is the context: its past is what superko bans, its komi
and the rules' move limit decide results. A node keeps a `Position`, some tens of bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from gozero.go import bitboard as bb
from gozero.go import rules as go
from gozero.go import scoring
from gozero.go.branch import superko_points
from gozero.go.rules import GameState, Position, Rules, action_mask, legal_points, play_position
from gozero.search.game import Game, History, Trail


def go_game(
    rules: Rules,
    observe: Callable[[GameState, Position, Trail], Any] | None = None,
    reward: Callable[[jax.Array], jax.Array] = jnp.sign,
) -> Game:
    """Go under `rules`, with 7 points of komi in a new game.

        evaluator = gozero.playout_evaluator(rules)
        result = gozero.search(gozero.go_game(rules), evaluator, key, states, config)

    Args:
      rules: the rules.
      observe: what an evaluator sees of a position that has no `observe` of its own; None: the
        position and the komi.
      reward: what a finished game's score is worth: won, lost or drawn; or its margin, see
        `scoring.by_margin`, and then the evaluator's values should be of that kind too.
    """
    observe = observe or _observe

    def legal(state: GameState, position: Position, trail: Trail) -> jax.Array:
        return _legal(rules, state, position, trail)

    def outcome(state: GameState, position: Position) -> tuple[jax.Array, jax.Array]:
        return _outcome(rules, state, position, reward)

    def observe_state(state: GameState) -> Any:
        no_one = Trail(jax.tree.map(lambda x: x[None], state.position), jnp.int32(0))
        return observe(state, state.position, no_one)

    return Game(
        num_actions=rules.num_actions,
        init=lambda key: go.init(rules),
        play=lambda state, action: go.play(rules, state, action),
        legal=lambda state: go.legal_actions(rules, state),
        outcome=lambda state: outcome(state, state.position),
        observe=observe_state,
        max_moves=rules.move_limit,
        history=History(
            root=lambda state: (state, state.position),
            play=lambda position, action: play_position(rules, position, action),
            legal=legal,
            outcome=outcome,
            observe=observe,
        ),
    )


def _observe(state: GameState, position: Position, trail: Trail) -> tuple[Position, jax.Array]:
    del trail
    return position, state.komi


def is_over(rules: Rules, position: Position) -> jax.Array:
    """bool[]: two passes, or the move limit."""
    return (position.passes >= 2) | (position.ply >= rules.move_limit)


def _legal(rules: Rules, state: GameState, position: Position, trail: Trail) -> jax.Array:
    """bool[A]: legal under the ko rule, over the game up to the root and the trail after it."""
    go.check_state(rules, state)
    points = legal_points(rules, position)
    if state.past is not None:
        banned = superko_points(rules, state, position, trail.positions, trail.length)
        points = bb.difference(points, banned)
    return action_mask(rules, bb.keep(~is_over(rules, position), points))


def _outcome(
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
