"""MoGo's playouts: random games in which each move answers the last one.

Gelly, Wang, Munos & Teytaud (2006), INRIA report 6062, section 3.2; as in Gelly & Silver
(2011), section 3.3. The player to move takes the first of these rules that has a move, and of
its moves one at random:

    save      if the last move put own chains in atari: a play at the liberty of one, if the
              chain has two liberties or more after it; or the capture of a chain beside one
    pattern   a play on one of the eight points around the last move where a pattern stands
              (`patterns`)
    capture   a play that captures, anywhere
    any       a play, anywhere

No own eye is filled, unless to save a chain that surrounds it, and a player passes only if no
rule has a move. Simple ko, no suicide. `MogoConfig` adds rules. How the lanes do it: `replies`.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from gozero.go import rules as go
from gozero.playouts import playout
from gozero.playouts.first_plays import Wanted
from gozero.playouts.mogo import replies
from gozero.playouts.mogo.answers import PLAIN, MogoConfig

__all__ = ["PLAIN", "MogoConfig", "mogo_playouts"]


def mogo_playouts(
    rules: go.Rules,
    positions: go.Position,
    last: jax.Array,
    key: jax.Array,
    *,
    config: MogoConfig = PLAIN,
    lanes: int | None = None,
    max_moves: int | None = None,
    ends: bool = False,
    first_plays: Wanted = False,
    ids: jax.Array | None = None,
) -> playout.Playouts:
    """Plays each position to the end by MoGo's rules.

    Args:
      rules: the rules; their size is what counts here.
      positions: [B]; legal positions, whose `atari` is exact (as that of all positions that the
        rules have made).
      last: i32[B]; the opponent's last move in each, a point, which the first move of the
        playout answers. What holds no stone of the opponent, such as `bb.NO_POINT` or a pass,
        is no move to answer; see `gozero.go.branch.last_move`.
      config: what is added to the four rules.
      key, lanes, max_moves, ends, first_plays, ids: as of `playout.uniform_playouts`. Playout i
        depends on its position, last[i], ids[i] and the key.

    Returns:
      Playouts [B].

    Raises:
      ValueError: as `uniform_playouts`; or last moves that are not a batch like the positions.
    """
    if jnp.shape(last) != jnp.shape(positions.to_play):
        expected = f"a last move for each position, shape {jnp.shape(positions.to_play)}"
        raise ValueError(f"last: shape {jnp.shape(last)}; expected {expected}")
    return playout.run(
        replies.form(rules.layout, config),
        rules,
        positions,
        key,
        jnp.asarray(last, jnp.int32),
        lanes=lanes,
        max_moves=max_moves,
        options=playout.Options(ends, first_plays),
        ids=ids,
    )
