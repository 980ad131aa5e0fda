"""The value of positions and moves by local shapes, linear in their weights (RLGO).

V(s) = logistic(sum of the weights of the active features), Black's probability of winning after
a move; it does not ask whose turn it is (Silver, Sutton & Müller 2012, section 4). The
argument of the logistic function is called a logit here. `shapes` says what the features are, and
what the table is: f32[E], the worth of each window, made of the weights by `table`.

All moves of a position are valued at once: a move that takes no stones changes the digit of one
point, and so the at most 14 windows that hold it. The few that do are played out.
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
    """f32[E]: what each window is worth, of weights f32[K + 1]. Once for many positions."""
    return jnp.asarray(local.expand(local.sharing(shapes).weight, weights))


def entries(shapes: Shapes, black: bb.Board, white: bb.Board) -> jax.Array:
    """i32[P]: the active feature of each window, as an entry of the table. For one game."""
    places = local.windows(shapes)
    lay = bb.layout(shapes.size)
    # Products and sums of whole numbers below 3^9: exact in f32, if nothing rounds the factors.
    held = BLACK * bb.unpack(lay, black).astype(jnp.float32)
    held += WHITE * bb.unpack(lay, white).astype(jnp.float32)
    codes = jnp.dot(held, _digit_powers(shapes), precision=lax.Precision.HIGHEST)
    return codes.astype(jnp.int32) + places.base


@functools.cache
def _digit_powers(shapes: Shapes) -> np.ndarray:
    """f32[n * n, P]: what a point's digit counts for in each window's code."""
    places = local.windows(shapes)
    powers = np.zeros((shapes.size**2, shapes.num_windows), np.float32)
    for w in range(shapes.num_windows):
        np.add.at(powers[:, w], places.points[w], places.powers[w])
    return powers


def logit(table: jax.Array, active: jax.Array) -> jax.Array:
    """f32[]: of a position with the active entries i32[P]; > 0 is good for Black."""
    return jnp.sum(table.at[active].get(mode="promise_in_bounds"))


def value(shapes: Shapes, table: jax.Array, position: go.Position) -> jax.Array:
    """f32[] in (0, 1): V(s), Black's probability of winning."""
    return jax.nn.sigmoid(logit(table, entries(shapes, position.black, position.white)))


# --- moves ----------------------------------------------------------------------------


def action_logits(
    rules: go.Rules, shapes: Shapes, table: jax.Array, positions: go.Position
) -> jax.Array:
    """f32[B, A]: the logits of the positions after each action.

    What is not legal has a number that means nothing; a pass leaves the board as it is.

    Args:
      rules: the rules.
      shapes: of the rules' size.
      table: f32[E].
      positions: [B].
    """
    lay = rules.layout
    active = jax.vmap(functools.partial(entries, shapes))(positions.black, positions.white)
    values = table.at[active].get(mode="promise_in_bounds")
    now = jnp.sum(values, axis=1)
    vacant = bb.complement(lay, bb.union(positions.black, positions.white))
    is_vacant = jax.vmap(functools.partial(bb.unpack, lay))(vacant)
    digit = jnp.where(positions.to_play == go.WHITE, WHITE, BLACK).astype(jnp.int32)
    step = jnp.where(is_vacant, digit[:, None], 0)

    change = jnp.zeros(step.shape)
    column = lambda x, windows: x.at[:, windows].get(mode="promise_in_bounds")
    for windows, powers in zip(*local.slots(shapes), strict=True):  # each a fused pass
        after = column(active, windows) + step * powers[None]
        change += table.at[after].get(mode="promise_in_bounds") - column(values, windows)
    logits = jnp.concatenate([now[:, None] + change, now[:, None]], axis=1)
    return _with_captures(rules, shapes, table, positions, vacant, logits)


def _with_captures(rules, shapes, table, positions, vacant, logits) -> jax.Array:
    """f32[B, A]: the logits, those of moves that take stones off made right.

    They are played out, some at a time, whatever game they are of; of good players a quarter of
    the games has one. Trip bound: 4 n^2.
    """
    lay, num_games = rules.layout, logits.shape[0]
    points = _taking(rules, positions, vacant)
    number = bb.count(points)
    up_to = jnp.cumsum(number)
    before, total = up_to - number, up_to[-1]  # of such moves in the games before; in all
    lanes = jnp.arange(-(-num_games // 4), dtype=jnp.int32)

    def value_of(position, point):
        own, opponent = go.own_and_opponent(position)
        placed = place(lay, point, own, opponent, position.atari, suicide=rules.suicide)
        white_moves = position.to_play == go.WHITE
        black = bb.where(white_moves, placed.opponent, placed.own)
        white = bb.where(white_moves, placed.own, placed.opponent)
        return logit(table, entries(shapes, black, white))

    def some(carry):
        done, logits = carry
        index = done + lanes
        game = jnp.searchsorted(before, index, side="right").astype(jnp.int32) - 1
        pick = lambda x: x.at[game].get(mode="promise_in_bounds")
        its_points, its_before = jax.tree.map(pick, (points, before))
        move = playable.nth(lay, its_points, (index - its_before).astype(jnp.uint32))
        point = playable.action_of(lay, move)
        found = jax.vmap(value_of)(jax.tree.map(pick, positions), point)
        row = jnp.where(index < total, game, num_games)  # the others are dropped
        logits = logits.at[row, point].set(found, mode="drop", unique_indices=True)
        return done + lanes.size, logits

    return lax.while_loop(lambda carry: carry[0] < total, some, (jnp.int32(0), logits))[1]


def _taking(rules: go.Rules, positions: go.Position, vacant: bb.Board) -> bb.Board:
    """The points [B] where a move takes stones off, be they its own."""
    lay = rules.layout
    _, opponent = go.own_and_opponent(positions)
    captured = bb.intersection(opponent, positions.atari)
    points = bb.intersection(vacant, bb.neighbours(lay, captured))
    if not rules.suicide:
        return points

    def suicides(position):
        found = go.suicide_points(rules, position)
        assert found is not None
        return found

    return bb.union(points, jax.vmap(suicides)(positions))


def heuristic(
    rules: go.Rules,
    shapes: Shapes,
    table_of: Callable[[Any], jax.Array] = lambda params: params,
    positions_of: Callable[[Any], go.Position] = lambda observations: observations[0],
) -> Callable[[Any, jax.Array, Any], jax.Array]:
    """The local shape heuristic of Gelly & Silver (2011), section 5.1, for `with_heuristic`.

    Beside playouts, with the paper's confidence; the params of the search are the table:

        learnt = shape_weights.load(9)
        table = local_shape.table(learnt.shapes, learnt.weights)
        value = local_shape.heuristic(rules, learnt.shapes)
        evaluate = with_heuristic(evaluator.evaluate, value, amaf_visits=50)
        gozero.search(game, gozero.Evaluator(evaluate, table), key, states, config)

    Args:
      rules: the rules.
      shapes: of the rules' size.
      table_of: what of the evaluator's params is the table f32[E]; as it stands, all of them.
      positions_of: what of its observations are positions [M]; as it stands, their first part,
        as `playout_evaluator` observes.

    Returns:
      ``(params, key, observations[M]) -> f32[M, A]`` in [-1, 1]: 2 Q - 1 for the player to move,
      Q their probability of winning after each action.
    """

    def value_of_actions(params: Any, key: jax.Array, observations: Any) -> jax.Array:
        del key
        positions = positions_of(observations)
        logits = action_logits(rules, shapes, table_of(params), positions)
        sign = jnp.where(positions.to_play == go.WHITE, -0.5, 0.5)[:, None]
        return jnp.tanh(sign * logits)  # 2 logistic(x) - 1 = tanh(x / 2)

    return value_of_actions
