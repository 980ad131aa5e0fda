"""The past of positions that branch off from a game, such as those of a search tree."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from gozero.compile import stages
from gozero.go import bitboard as bb
from gozero.go import superko
from gozero.go.rules import GameState, Position, Rules, num_past, own_and_opponent, suicide_points


def superko_points(
    rules: Rules,
    state: GameState,
    position: Position,
    ancestors: Position | None = None,
    depth: jax.Array | None = None,
) -> bb.Board:
    """The points that superko bans, besides the ko point; empty under simple ko.

    The latest boards, which need not be checked (`rules.num_past`), are left out of both the game
    and the branch.

    Args:
      rules: the rules.
      state: the game up to where the branch begins.
      position: ``state.position`` or a descendant of it.
      ancestors: the positions [D] from ``state.position`` to the parent of `position`; None if
        there are none.
      depth: i32[]; how many of the D there are.
    """
    if state.past is None or not rules.has_superko:
        return bb.empty(rules.layout)
    lay, ply = rules.layout, position.ply.astype(jnp.int32)
    suicides = suicide_points(rules, position)
    stones = position.black, position.white
    now = superko.present_board(*stones, position.to_play, position.atari, suicides)
    up_to_branch = state.position.ply.astype(jnp.int32) + 1
    length = jnp.minimum(up_to_branch, num_past(rules, ply))
    branch = None
    if ancestors is not None and depth is not None:
        to_play = ancestors.to_play if state.past.situational else None
        branch = superko.Branch(ancestors.black, ancestors.white, to_play, num_past(rules, depth))
    return superko.banned(lay, state.past, length, now, branch)


def last_move(
    rules: Rules,
    state: GameState,
    position: Position,
    ancestors: Position | None = None,
    depth: jax.Array | None = None,
) -> jax.Array:
    """The point that the opponent has just played, or `bb.NO_POINT`.

    It is the point that holds a stone of the opponent now and held none one ply earlier, so there
    is none after a pass or a change of turn. Before the branch it is read from the boards kept for
    superko; under simple ko, which keeps none, the move that led to ``state`` is unknown.

    Args:
      rules, state, position, ancestors, depth: as for `superko_points`.

    Returns:
      i32[].
    """
    now = own_and_opponent(position)[1]
    point = bb.point_of(rules.layout, bb.difference(now, _stones_before(state, position)))
    ply = state.position.ply
    # With the constant False, XLA (jaxlib 0.10.1) aborts as it emits a search's step as one kernel.
    never = stages.not_constant(jnp.bool_(False), ply)
    is_known = ply > 0 if state.past is not None else never
    if ancestors is None or depth is None:
        return jnp.where(is_known, point, bb.NO_POINT)
    boards = ancestors.white, ancestors.black
    white, black = jax.tree.map(lambda x: x[jnp.maximum(depth - 1, 0)], boards)
    before = bb.where(position.to_play == 0, white, black)
    in_branch = bb.point_of(rules.layout, bb.difference(now, before))
    return jnp.where(depth > 0, in_branch, jnp.where(is_known, point, bb.NO_POINT))


def _stones_before(state: GameState, position: Position) -> bb.Board:
    """The opponent's stones one ply before ``state``, from the boards kept for superko."""
    if state.past is None:
        return own_and_opponent(position)[1]
    ply = jnp.maximum(state.position.ply.astype(jnp.int32) - 1, 0)
    board = superko.board_at(state.past, ply)
    words = jnp.where(position.to_play == 0, board[1], board[0])
    return tuple(words[w] for w in range(words.shape[0]))
