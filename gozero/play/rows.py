"""Training rows: a searched position of a finished game, with the game's result.

The weights of a row's targets:

                         policy   outcome   score   ownership
    game played out         1        1        1         1
    resigned game           1        1        0         0      not played out
    truncated game          1        0        0         0      scored as it stood

Score and ownership exist only in games decided by points.
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
"""Sampling frequencies are stored as integers in units of 1/64, because integer sums are exact."""
MAX_FREQUENCY = 64
"""The largest sampling frequency of a row, where 1 is the ordinary one."""

PolicyDtype = Literal["uint8", "float16", "float32"]
"""The dtype of policy targets in rows; u8 are 255ths of the largest share, see `stored_policy`."""


class Rows(struct.PyTreeNode):
    """Searched positions of finished games; n rows have a leading axis [n]."""

    position: Any  # as the search keeps it: Go's `Position`, another game's state
    legal: jax.Array  # u8[ceil(A / 8)], packed
    policy_target: jax.Array  # u8[A] or float[A]: shares of the root's visits, `stored_policy`
    outcome: jax.Array  # f32: +1 won, -1 lost, 0 drawn, for the mover
    game: jax.Array  # i32: the game's number; in the trainer's replay -n for rows of the n-th shard
    # of a worker, and `train.replay.GONE` for rows that were taken out
    root_value: jax.Array  # f32: the search's value for the mover
    policy_weight: jax.Array  # float; 0: do not learn the policy target; the other weights likewise
    value_weight: jax.Array  # float: weight of the outcome
    # In a game decided by points (`search.game.Points`); else None:
    komi: jax.Array | None = None  # f32
    past: jax.Array | None = None  # u32[H, 2, W]: the boards 1, ... H plies before, packed
    known: jax.Array | None = None  # i32: how many of these boards exist; the others are empty
    score: jax.Array | None = None  # f32: the final area score for the mover, komi included
    area: jax.Array | None = None  # u32[2, W]: Black's and White's final area; empty if unknown
    score_weight: jax.Array | None = None  # float
    ownership_weight: jax.Array | None = None  # float: weight of the area

    @property
    def num_rows(self) -> int:
        """n."""
        return self.outcome.shape[0]

    def take(self, indices: Any) -> Rows:
        """The rows at the indices."""
        return jax.tree.map(lambda x: x[indices], self)


def stored_policy(xp: Any, policy: Any, dtype: Any) -> Any:
    """Policy shares float[..., A], which sum to 1, as rows store them: floats or u8.

    In u8 the largest share is 255, whatever the number of actions, and the others are rounded in
    proportion; shares below 1/510 of the largest become 0.

    Args:
      xp: `numpy` or `jax.numpy`, whichever the arrays belong to.
      policy: the shares.
      dtype: one of `PolicyDtype`.
    """
    if xp.dtype(dtype) != xp.uint8:
        return policy.astype(dtype)
    policy = policy.astype(xp.float32)
    largest = xp.maximum(policy.max(axis=-1, keepdims=True), xp.float32(1e-6))
    return xp.round(policy * (255 / largest)).astype(xp.uint8)


def policy_shares(xp: Any, stored: Any) -> Any:
    """f32[..., A]: the shares of a stored policy; they sum to 1 (floats: up to their rounding)."""
    shares = stored.astype(xp.float32)
    if stored.dtype != xp.uint8:
        return shares
    return shares / xp.maximum(shares.sum(axis=-1, keepdims=True), xp.float32(1))


def with_policies(holder: Any, dtype: Any) -> Any:
    """The rows, or another holder of a NumPy `policy_target`, with that target in the dtype."""
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
      xp: `numpy` or `jax.numpy`, whichever the arrays belong to.
      position, ply, legal, policy_target, root_value: [T], one per move; `legal` packed and
        `policy_target` as stored.
      last: the game's last move, which has its result and, if points decide, its score and area.
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
def row_shapes(game: Game, policy_dtype: PolicyDtype = "uint8", past_boards: int = 0) -> Rows:
    """Shapes and dtypes of one row in the replay buffer and in shards: `jax.ShapeDtypeStruct`s.

    In a game decided by points a row has `past_boards` (H) past boards.
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
        of_points["past"] = one(area.dtype, past_boards, *area.shape[1:])
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
