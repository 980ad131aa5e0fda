"""Go as a `Game` for the search.

A state is a `GameState`. In a search it is the context: superko bans repeats of its past boards,
and its komi and the rules' move limit decide results. A node keeps a `Position`, some tens of
bytes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from gozero.go import bitboard as bb
from gozero.go import rules as go
from gozero.go import scoring, superko, symmetry
from gozero.go.branch import superko_points
from gozero.go.rules import (
    GameState,
    Position,
    Rules,
    action_mask,
    legal_points,
    own_and_opponent,
    play_position,
)
from gozero.playouts import playable
from gozero.search.game import Ancestors, Game, History, Points, Symmetries, no_ancestors


@functools.lru_cache(maxsize=64)
def go_game(
    rules: Rules,
    observe: Callable[[GameState, Position, Ancestors], Any] | None = None,
) -> Game:
    """Go under `rules`; a new game has 7 points of komi. Cached: same arguments, same object.

        evaluator = gozero.playout_evaluator(rules)
        result = gozero.search(gozero.go_game(rules), evaluator, key, states, config)

    Args:
      rules: the rules.
      observe: (state, position, ancestors) -> what an evaluator without its own `observe` sees;
        None: the position and the komi.

    Raises:
      TypeError: anything but `Rules`.
    """
    if not isinstance(rules, Rules):
        raise TypeError(
            f"rules: expected Rules, not {rules!r}; for a board size, pass gozero.Rules(size)"
        )
    observe = observe or _observe

    def legal(state: GameState, position: Position, ancestors: Ancestors) -> jax.Array:
        return _legal(rules, state, position, ancestors)

    def scored(state: GameState, position: Position) -> tuple[jax.Array, jax.Array, jax.Array]:
        return _scored(rules, state, position)

    def outcome(state: GameState, position: Position) -> tuple[jax.Array, jax.Array]:
        return scored(state, position)[:2]

    def observe_state(state: GameState) -> Any:
        return observe(state, state.position, no_ancestors(state.position))

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
            scored=scored,
        ),
        symmetries=Symmetries(
            symmetry.NUM_SYMMETRIES,
            symmetry.map_planes,
            functools.partial(symmetry.map_actions, rules.size),
        ),
        points=_points(rules),
    )


def _points(rules: Rules) -> Points:
    return Points(
        new=functools.partial(go.init, rules),
        komi=lambda state: state.komi,
        ended=lambda state: state.ended,
        truncated=lambda state: state.truncated,
        ply=lambda position: position.ply,
        score=functools.partial(_score, rules),
        eyes=functools.partial(_eyes, rules),
        rewind=_rewind,
        earlier=_earlier,
    )


def _score(rules: Rules, state: GameState, counted: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(f32[]: Black's area - White's - komi, u32[2, W]: Black's area and White's)."""
    stones = [bb.keep(counted, board) for board in (state.position.black, state.position.white)]
    area = scoring.territory(rules, *stones)
    difference = (bb.count(area[0]) - bb.count(area[1])).astype(jnp.float32)
    score = jnp.where(counted, difference - state.komi, 0.0)
    return score, jnp.stack([jnp.stack(board) for board in area])


def _eyes(rules: Rules, state: GameState) -> jax.Array:
    own, opponent = own_and_opponent(state.position)
    return bb.unpack(rules.layout, playable.eyes(rules.layout, own, opponent))


def _rewind(where: jax.Array, earlier: GameState, state: GameState) -> GameState:
    """Past boards are not moved: nothing reads beyond the history's length, which is the ply."""
    position, komi, truncated = jax.tree.map(
        lambda old, new: jnp.where(where, old, new),
        (earlier.position, earlier.komi, earlier.truncated),
        (state.position, state.komi, state.truncated),
    )
    return state.replace(position=position, komi=komi, truncated=truncated)


def _earlier(state: GameState, ply: jax.Array, number: int) -> jax.Array:
    """u32[number, 2, W]. Only under rules by which a game keeps its boards (`Rules.keeps_past`)."""
    assert state.past is not None
    before = ply - jnp.arange(1, number + 1)
    boards = superko.boards_at(state.past, jnp.maximum(before, 0))
    return jnp.where((before >= 0)[:, None, None], boards, jnp.uint32(0))


def _observe(
    state: GameState, position: Position, ancestors: Ancestors
) -> tuple[Position, jax.Array]:
    del ancestors
    return position, state.komi


def is_over(rules: Rules, position: Position) -> jax.Array:
    """bool[]: two passes, or the move limit."""
    return (position.passes >= 2) | (position.ply >= rules.move_limit)


def _legal(rules: Rules, state: GameState, position: Position, ancestors: Ancestors) -> jax.Array:
    """bool[A]: legal under the ko rule, given the game up to the root, and the ancestors."""
    go.check_state(rules, state)
    points = legal_points(rules, position)
    if rules.has_superko:
        banned = superko_points(rules, state, position, ancestors.positions, ancestors.length)
        points = bb.difference(points, banned)
    return action_mask(rules, bb.keep(~is_over(rules, position), points))


def _scored(
    rules: Rules, state: GameState, position: Position
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(over bool[], value f32[], points f32[]) for the player to move; valid where over.

    Only boards of finished games are scored; those of others are emptied, so nothing is flooded.
    """
    over = is_over(rules, position)
    counted = position.replace(
        black=bb.keep(over, position.black), white=bb.keep(over, position.white)
    )
    score = scoring.area_difference(rules, counted).astype(jnp.float32) - state.komi
    for_mover = lambda for_black: jnp.where(position.to_play == 0, for_black, -for_black)
    return over, for_mover(jnp.sign(score)), for_mover(score)
