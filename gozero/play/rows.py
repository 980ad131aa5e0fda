"""Rows to learn from: a searched position of a finished game, with how the game ended.

The weights of a row's parts:

                          policy   outcome   score   ownership
    of a game played out     1        1        1         1
    of a resigned game       1        1        0         0      no one played it out
    of a truncated game      1        0        0         0      scored as it stood

Score and ownership are of games that points decide.
"""

from __future__ import annotations

import functools
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from gozero import struct
from gozero.play.selfplay import Move
from gozero.search.game import Game, positions_of

FREQUENCY_UNIT = 64
"""How often a row is drawn is kept as so many parts of 1: sums of integers are exact."""
MAX_FREQUENCY = 64
"""The most often that a row is drawn, for once that another row is."""

PolicyDtype = Literal["uint8", "float16", "float32"]
"""Of policy targets in rows; integers are 255ths of the largest share, see `stored_policy`."""


class Rows(struct.PyTreeNode):
    """Searched positions of finished games; a leading axis [n] for n of them."""

    position: Any  # what the search keeps of it: Go's `Position`, another game's state
    legal: jax.Array  # u8[ceil(A / 8)], packed
    policy_target: jax.Array  # u8[A] or float[A]: shares of the root's visits, `stored_policy`
    outcome: jax.Array  # f32: +1 won, -1 lost, 0 drawn, for the mover
    game: jax.Array  # i32: the game's number
    root_value: jax.Array  # f32: the search's value for the mover
    policy_weight: jax.Array  # float, 0: the policy target is not to be learnt; so the others
    value_weight: jax.Array  # float: of the outcome
    # Of a game that points decide (`search.game.Points`); else None:
    komi: jax.Array | None = None  # f32
    past: jax.Array | None = None  # u32[H, 2, W]: the boards 1, ... H plies before, packed
    known: jax.Array | None = None  # i32: how many of them there are; the others are empty
    score: jax.Array | None = None  # f32: the final area score for the mover, komi counted
    area: jax.Array | None = None  # u32[2, W]: Black's area at the end, and White's; empty where
    # not known
    score_weight: jax.Array | None = None  # float
    ownership_weight: jax.Array | None = None  # float: of the area

    @property
    def num_rows(self) -> int:
        """n."""
        return self.outcome.shape[0]

    def take(self, indices: Any) -> Rows:
        """Some of the rows."""
        return jax.tree.map(lambda x: x[indices], self)


def stored_policy(xp: Any, policy: Any, dtype: Any) -> Any:
    """Shares float[..., A], which sum to 1, as rows hold them: floats, or u8.

    Of those the largest share is 255, whatever the number of actions, and each of the others is
    nearest to its part of that; what is below 1/510 of the largest is 0.

    Args:
      xp: `numpy` or `jax.numpy`: what the arrays are of.
      policy: the shares.
      dtype: one of `PolicyDtype`.
    """
    if xp.dtype(dtype) != xp.uint8:
        return policy.astype(dtype)
    policy = policy.astype(xp.float32)
    most = xp.maximum(policy.max(axis=-1, keepdims=True), xp.float32(1e-6))
    return xp.round(policy * (255 / most)).astype(xp.uint8)


def policy_shares(xp: Any, stored: Any) -> Any:
    """f32[..., A] of what rows hold: shares, which sum to 1 (of floats, as they were rounded)."""
    shares = stored.astype(xp.float32)
    if stored.dtype != xp.uint8:
        return shares
    return shares / xp.maximum(shares.sum(axis=-1, keepdims=True), xp.float32(1))


def with_policies(holder: Any, dtype: Any) -> Any:
    """Rows, or what else has a `policy_target` of NumPy's, with that in another dtype."""
    stored = holder.policy_target
    if stored.dtype == dtype:
        return holder
    return holder.replace(policy_target=stored_policy(np, policy_shares(np, stored), dtype))


def of_game(
    xp: Any,
    position: Any,
    ply: Any,
    legal: Any,
    policy_target: Any,
    root_value: Any,
    last: Move,
    past: Any = None,
) -> Rows:
    """The rows [T] of a finished game.

    Args:
      xp: `numpy` or `jax.numpy`: what the arrays are of.
      position, ply, legal, policy_target, root_value: [T] of the moves, `legal` packed and
        `policy_target` as it is stored.
      last: the game's last move: who won, and in a game that points decide how.
      past: u32[T, H, 2, W], the boards before each move, see `search.game.Points.earlier`; None:
        rows keep none, H = 0.
    """
    count = ply.shape[0]
    sign = xp.where(ply % 2 == 0, xp.float32(1), xp.float32(-1))
    everywhere = lambda x: xp.broadcast_to(x, (count, *xp.shape(x)))
    trusted, of_points = xp.float32(1), {}
    if last.area is not None:
        trusted = xp.where(last.truncated, xp.float32(0), xp.float32(1))
        played_out = everywhere(xp.where(last.resigned, xp.float32(0), trusted))
        if past is None:
            past = xp.zeros((count, 0, *last.area.shape), xp.uint32)
        of_points = {
            "komi": everywhere(last.komi),
            "past": past,
            "known": xp.minimum(xp.asarray(ply, xp.int32), past.shape[1]),
            "score": sign * last.score,
            "area": everywhere(last.area),
            "score_weight": played_out,
            "ownership_weight": played_out,
        }
    return Rows(
        position=position,
        legal=legal,
        policy_target=policy_target,
        outcome=sign * last.outcome,
        game=everywhere(last.game),
        root_value=root_value,
        policy_weight=xp.ones(count),
        value_weight=everywhere(trusted),
        **of_points,
    )


@functools.cache
def row_shapes(game: Game, policy_dtype: PolicyDtype = "uint8", history: int = 0) -> Rows:
    """One row of a game as the replay ring and shards hold it: `jax.ShapeDtypeStruct`s.

    Of a game that points decide it has H = `history` boards before its own.
    """
    keys = jax.random.split(jax.random.key(0), 1)
    states = jax.eval_shape(jax.vmap(game.init), keys)
    position = jax.eval_shape(functools.partial(positions_of, game), states)
    one: Any = lambda dtype, *shape: jax.ShapeDtypeStruct(shape, jnp.dtype(dtype))
    numbers, weights = ["outcome", "root_value"], ["policy_weight", "value_weight"]
    of_points = {}
    if game.points is not None:
        numbers += ["komi", "score"]
        weights += ["score_weight", "ownership_weight"]
        _, area = jax.eval_shape(jax.vmap(game.points.score), states, jnp.zeros(1, bool))
        of_points["area"] = one(area.dtype, *area.shape[1:])
        of_points["past"] = one(area.dtype, history, *area.shape[1:])
        of_points["known"] = one(jnp.int32)
    return Rows(
        position=jax.tree.map(lambda x: one(x.dtype, *x.shape[1:]), position),
        legal=one(jnp.uint8, -(-game.num_actions // 8)),
        policy_target=one(policy_dtype, game.num_actions),
        game=one(jnp.int32),
        **{name: one(jnp.float32) for name in numbers},
        **{name: one(jnp.float16) for name in weights},
        **of_points,
    )
