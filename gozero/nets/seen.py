"""What a feature set may look at: a position, and as much of its past as the set asks for.

`look` takes it from a game and the trail of a search; a self-play row stores it; planes are
made of it alone. So the planes that self-play saw can be made again from its rows.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from gozero.go import bitboard as bb
from gozero.go.branch import superko_points
from gozero.go.rules import GameState, Position, Rules
from gozero.search.game import Trail


class Seen(NamedTuple):
    """One position as a feature set sees it."""

    position: Position
    komi: jax.Array  # f32[]: points for White
    banned: bb.Board  # W x u32[]: points that ko or superko bans
    past: jax.Array  # u32[H, 2, W]: black and white words 1, 2, ... H plies ago
    known: jax.Array  # i32[]: how many of those boards there are; the others are empty


def look(
    rules: Rules,
    state: GameState,
    position: Position,
    trail: Trail | None = None,
    *,
    history: int,
    bans: bool,
) -> Seen:
    """A position of a game, or of a search tree above that game, with its past.

    The boards before the root of a search are those of ``state.past``. Simple ko keeps none:
    there only the boards of the trail are known, and at the root none is.

    Args:
      rules: the rules.
      state: the game up to the root of the search.
      position: the position itself: ``state.position`` or one below it.
      trail: its ancestors in the tree; None for the root.
      history: H, how many past boards to bring.
      bans: find the points that superko bans; else `banned` has the ko point alone.
    """
    banned = bb.at(rules.layout, position.ko)
    if bans and state.past is not None:
        ancestors, depth = (None, None) if trail is None else trail
        banned = bb.union(banned, superko_points(rules, state, position, ancestors, depth))
    past, known = _past_boards(rules, state, trail, history)
    return Seen(position, state.komi, banned, past, known)


def _past_boards(
    rules: Rules, state: GameState, trail: Trail | None, history: int
) -> tuple[jax.Array, jax.Array]:
    """(u32[H, 2, W], i32[]): the last boards, latest first, and how many are known."""
    ago = jnp.arange(1, history + 1)
    past = jnp.zeros((history, 2, rules.layout.num_words), jnp.uint32)
    known = jnp.int32(0)
    if not history:
        return past, known
    depth = jnp.int32(0) if trail is None else trail.length
    if state.past is not None:
        ply = state.position.ply.astype(jnp.int32)
        past = state.past.boards[jnp.maximum(ply + depth - ago, 0)]
        known = ply
    if trail is not None:
        index = jnp.maximum(depth - ago, 0)
        colours = trail.positions.black, trail.positions.white
        words = [jnp.stack([word[index] for word in colour], axis=-1) for colour in colours]
        in_tree = (ago <= depth)[:, None, None]
        past = jnp.where(in_tree, jnp.stack(words, axis=1), past)
    known = jnp.minimum(known + depth, history)
    return jnp.where((ago <= known)[:, None, None], past, jnp.uint32(0)), known
