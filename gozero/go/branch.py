"""Positions that branch off from a game, as those of a search tree do: what superko bans there."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from gozero.go import bitboard as bb
from gozero.go import superko
from gozero.go.rules import GameState, Position, Rules, num_past, suicide_points


def superko_points(
    rules: Rules,
    state: GameState,
    position: Position,
    ancestors: Position | None = None,
    depth: jax.Array | None = None,
) -> bb.Board:
    """The points that superko bans, beyond the ko point; none under simple ko.

    The latest boards, which superko need not look at, are left out of the game and the branch.

    Args:
      rules: the rules.
      state: the game up to where the branch begins.
      position: ``state.position`` or one below it.
      ancestors: the positions [D] from ``state.position`` on to the one before; None if
        there are none.
      depth: i32[]; how many of them there are.
    """
    if state.past is None:
        return bb.empty(rules.layout)
    lay, ply = rules.layout, position.ply.astype(jnp.int32)
    board = (position.black, position.white, position.to_play, suicide_points(rules, position))
    up_to_branch = state.position.ply.astype(jnp.int32) + 1
    length = jnp.minimum(up_to_branch, num_past(rules, ply))
    in_game = superko.banned_by_past(lay, state.past, length, *board)
    if ancestors is None or depth is None:
        return in_game
    in_branch = superko.banned_by_boards(
        lay,
        ancestors.black,
        ancestors.white,
        ancestors.to_play if state.past.situational else None,
        num_past(rules, depth),
        *board,
    )
    return bb.union(in_game, in_branch)
