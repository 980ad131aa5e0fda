"""Playouts that play each legal move that fills no own eye with equal probability."""

from __future__ import annotations

import jax

from gozero.go import bitboard as bb
from gozero.go import rules as go
from gozero.playouts import engine
from gozero.playouts.engine import PlayoutPolicy, Playouts
from gozero.playouts.first_plays import Wanted
from gozero.playouts.policies import whole_board, window


def uniform_playouts(
    rules: go.Rules,
    positions: go.Position,
    key: jax.Array,
    *,
    lanes: int | None = None,
    max_moves: int | None = None,
    ends: bool = False,
    first_plays: Wanted = False,
    ids: jax.Array | None = None,
) -> Playouts:
    """Plays each position to the end, uniformly among the legal moves that fill no own eye.

    A player passes only if there is no such move; two passes in a row end the playout, and
    so does the cap. Simple ko and no suicide, whatever `rules` says.

    Args:
      rules: the rules; their size is what counts here.
      positions: [B]; legal positions (no chain without liberties), of any mover, ko and
        passes. One that two passes have ended is scored as it stands.
      key: a PRNG key; consumed. Playout i depends on its position, ids[i] and the key.
      lanes: how many playouts play in lockstep at a time, a block; None for what suits the
        backend: on a CPU the size that its first cache holds, elsewhere all of them. Changes
        the speed, not the results.
      max_moves: the cap on the moves of a playout; None for 3 * size^2. A lower one makes
        truncated playouts; `engine.outcomes` values them.
      ends: also return the stones at the end; `engine.ownership` shows whose area each point is.
      first_plays: also return who played where, for all-moves-as-first statistics: True or
        "either", who was the first of both; "same", where each has played at all.
      ids: u32[B], numbers of the random sequences; None for 0 .. B - 1. Devices that share a
        batch of playouts give each its own part of the numbers.

    Returns:
      Playouts [B].

    Raises:
      ValueError: positions without a batch axis, lanes or max_moves below 1, other first_plays.
    """
    return engine.play_out(
        policy(rules.layout),
        rules,
        positions,
        key,
        lanes=lanes,
        max_moves=max_moves,
        ends=ends,
        first_plays=first_plays,
        ids=ids,
    )


def policy(lay: bb.Layout) -> PlayoutPolicy:
    """How uniform lanes play on this layout.

    In a window where a row of the board is a word: on 19x19 that takes 0.92 times as long as on
    the whole board, which plays the same games (both in turn, 2 cores with AVX-512); estimated, 0.9
    times in a kernel of a TPU.
    """
    return window.UNIFORM if window.fits(lay) else whole_board.UNIFORM
