"""The value of positions and moves by local shapes, linear in their weights (RLGO).

V(s) = logistic(sum of the weights of the active features) is Black's probability of winning after a
move, regardless of whose turn it is (Silver, Sutton & Müller 2012, section 4). The argument of the
logistic function is called a logit here. `shapes` defines the features and the table: f32[E], the
value of each entry (a window's contents), which `table` computes from the weights.

All moves of a position are evaluated at once: a move that captures nothing changes the digit of one
point, and so only the at most 14 windows that contain it. The few moves that capture are played.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gozero.go import bitboard as bb
from gozero.go import rules as go
from gozero.go.placement import place
from gozero.playouts import playable
from gozero.td import shapes as local
from gozero.td.shapes import BLACK, WHITE, Shapes


def table(shapes: Shapes, weights: Any) -> jax.Array:
    """f32[E]: the value of each entry, from weights f32[K + 1]. Reuse it for many positions."""
    return jnp.asarray(local.expand(local.sharing(shapes).weight_index, weights))


def entries(shapes: Shapes, black: bb.Board, white: bb.Board) -> jax.Array:
    """i32[P]: the active feature of each window, as an index into the table. For one game."""
    places = local.windows(shapes)
    lay = bb.layout(shapes.size)
    # Products and sums of integers below 3^9 are exact in f32, if the factors are not rounded.
    digits = BLACK * bb.unpack(lay, black).astype(jnp.float32)
    digits += WHITE * bb.unpack(lay, white).astype(jnp.float32)
    codes = jnp.dot(digits, _digit_powers(shapes), precision=lax.Precision.HIGHEST)
    return codes.astype(jnp.int32) + places.base


@functools.cache
def _digit_powers(shapes: Shapes) -> np.ndarray:
    """f32[n * n, P]: the place value of each point's digit in each window's code."""
    places = local.windows(shapes)
    powers = np.zeros((shapes.size**2, shapes.num_windows), np.float32)
    for w in range(shapes.num_windows):
        np.add.at(powers[:, w], places.points[w], places.powers[w])
    return powers


def logit(table: jax.Array, active: jax.Array) -> jax.Array:
    """f32[]: the logit of a position with active entries i32[P]; > 0 is good for Black."""
    return jnp.sum(table.at[active].get(mode="promise_in_bounds"))


def value(shapes: Shapes, table: jax.Array, position: go.Position) -> jax.Array:
    """f32[] in (0, 1): V(s), Black's probability of winning."""
    return jax.nn.sigmoid(logit(table, entries(shapes, position.black, position.white)))


# --- moves ----------------------------------------------------------------------------


def action_logits(
    rules: go.Rules, shapes: Shapes, table: jax.Array, positions: go.Position
) -> jax.Array:
    """f32[B, A]: the logits of the positions after each action.

    Entries of illegal actions are meaningless; a pass leaves the board unchanged.

    Args:
      rules: the rules.
      shapes: the features, for the rules' board size.
      table: f32[E].
      positions: [B].
    """
    logits = placement_logits(rules, shapes, table, positions)
    return _with_captures(rules, shapes, table, positions, logits)


def placement_logits(
    rules: go.Rules, shapes: Shapes, table: jax.Array, positions: go.Position
) -> jax.Array:
    """f32[B, A]: as `action_logits`, as if moves removed no stones.

    Differentiable with respect to the table.
    """
    lay = rules.layout
    active = jax.vmap(functools.partial(entries, shapes))(positions.black, positions.white)
    values = table.at[active].get(mode="promise_in_bounds")
    current = jnp.sum(values, axis=1)
    vacant = bb.complement(lay, bb.union(positions.black, positions.white))
    is_vacant = jax.vmap(functools.partial(bb.unpack, lay))(vacant)
    digit = jnp.where(positions.to_play == go.WHITE, WHITE, BLACK).astype(jnp.int32)
    step = jnp.where(is_vacant, digit[:, None], 0)

    change = jnp.zeros(step.shape)
    column = lambda x, windows: x.at[:, windows].get(mode="promise_in_bounds")
    for windows, powers in zip(*local.slots(shapes), strict=True):  # each iteration is a fused pass
        after = column(active, windows) + step * powers[None]
        change += table.at[after].get(mode="promise_in_bounds") - column(values, windows)
    return jnp.concatenate([current[:, None] + change, current[:, None]], axis=1)


def _with_captures(rules, shapes, table, positions, logits) -> jax.Array:
    """f32[B, A]: the logits, with those of moves that remove stones corrected.

    These moves are played, some at a time, pooled over all games; with good players a quarter of
    the games has one. Trip bound: 4 n^2.
    """
    lay, num_games = rules.layout, logits.shape[0]
    points = removing_points(rules, positions)
    number = bb.count(points)
    up_to = jnp.cumsum(number)
    before, total = up_to - number, up_to[-1]  # the number of these moves in earlier games; in all
    lanes = jnp.arange(-(-num_games // 4), dtype=jnp.int32)

    def value_of(position, point):
        own, opponent = go.own_and_opponent(position)
        placed = place(lay, point, own, opponent, position.atari, suicide=rules.suicide)
        white_moves = position.to_play == go.WHITE
        black = bb.where(white_moves, placed.opponent, placed.own)
        white = bb.where(white_moves, placed.own, placed.opponent)
        return logit(table, entries(shapes, black, white))

    def evaluate_some(carry):
        done, logits = carry
        index = done + lanes
        game = jnp.searchsorted(before, index, side="right").astype(jnp.int32) - 1
        pick = lambda x: x.at[game].get(mode="promise_in_bounds")
        its_points, its_before = jax.tree.map(pick, (points, before))
        move = playable.nth(lay, its_points, (index - its_before).astype(jnp.uint32))
        point = playable.action_of(lay, move)
        values = jax.vmap(value_of)(jax.tree.map(pick, positions), point)
        row = jnp.where(index < total, game, num_games)  # the others are dropped
        logits = logits.at[row, point].set(values, mode="drop", unique_indices=True)
        return done + lanes.size, logits

    return lax.while_loop(lambda carry: carry[0] < total, evaluate_some, (jnp.int32(0), logits))[1]


def removing_points(rules: go.Rules, positions: go.Position) -> bb.Board:
    """The points [B] where a move removes stones, whether captured or its own by suicide."""
    lay = rules.layout
    vacant = bb.complement(lay, bb.union(positions.black, positions.white))
    _, opponent = go.own_and_opponent(positions)
    captured = bb.intersection(opponent, positions.atari)
    points = bb.intersection(vacant, bb.neighbours(lay, captured))
    if not rules.suicide:
        return points

    def suicides(position):
        points = go.suicide_points(rules, position)
        assert points is not None
        return points

    return bb.union(points, jax.vmap(suicides)(positions))


def heuristic(
    rules: go.Rules,
    shapes: Shapes,
    table_of: Callable[[Any], jax.Array] = lambda params: params,
    positions_of: Callable[[Any], go.Position] = lambda observations: observations[0],
) -> Callable[[Any, jax.Array, Any], jax.Array]:
    """The local shape heuristic of Gelly & Silver (2011), section 5.1, for `with_heuristic`.

    To use it with playouts, at the paper's confidence:

        learnt = shape_weights.load(9)
        table = local_shape.table(learnt.shapes, learnt.weights)
        value = local_shape.heuristic(rules, learnt.shapes, table_of=lambda params: table)
        evaluate = with_heuristic(evaluator.evaluate, value, amaf_visits=50)
        config = SearchConfig(select=evaluator.select, amaf=Amaf())
        gozero.search(game, evaluator._replace(evaluate=evaluate), key, states, config)

    Args:
      rules: the rules.
      shapes: the features, for the rules' board size.
      table_of: gets the table f32[E] from the evaluator's params; by default they are the table.
      positions_of: gets positions [M] from its observations; by default their first part, as in
        those of `playout_evaluator`.

    Returns:
      ``(params, key, observations[M]) -> f32[M, A]`` in [-1, 1]: 2 Q - 1 for the player to move,
      where Q is its probability of winning after each action.
    """

    def value_of_actions(params: Any, key: jax.Array, observations: Any) -> jax.Array:
        del key
        positions = positions_of(observations)
        logits = action_logits(rules, shapes, table_of(params), positions)
        sign = jnp.where(positions.to_play == go.WHITE, -0.5, 0.5)[:, None]
        return jnp.tanh(sign * logits)  # 2 logistic(x) - 1 = tanh(x / 2)

    return value_of_actions
