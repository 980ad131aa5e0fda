"""MoGo's handcrafted heuristic: what its playouts would do is good, what they never do is bad.

Gelly & Silver (2011), section 5.1: "good" moves are worth 1, "bad" ones 0 and all others 1/2, so
that to choose greedily, all alike among the best, is MoGo's playout policy (`playouts`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from gozero.compile import stages
from gozero.go import bitboard as bb
from gozero.go import rules as go
from gozero.go import stacked
from gozero.go.placement import place
from gozero.playouts import playable
from gozero.playouts.policies.mogo import move_rules, playouts
from gozero.playouts.policies.mogo.move_rules import PLAIN, MogoConfig, Situation

_FEW_WORDS = stacked.FEW_WORDS
"""Of a board, up to which the heuristic is compiled whole. In stages that of 19x19 compiles in 11 s
of a processor's time, and not 45, and that of 13x13 in 6, not 9; on 9x9 256 positions would take
three times as long (jaxlib 0.10.1, on a busy machine). For few games, whose boards are then arrays
(`stacked.words_or_array`), that of 19x19 compiles in 4.5 s, and runs as fast."""


def heuristic(
    rules: go.Rules,
    config: MogoConfig = PLAIN,
    of: Callable[[Any], tuple[go.Position, jax.Array]] = lambda observations: observations,
) -> Callable[[Any, jax.Array, Any], jax.Array]:
    """Q_mogo for `gozero.search.prior_counts.with_heuristic`.

    Args:
      rules: the rules.
      config: the playout policy's rules; of diversity's random plays nothing is known.
      of: what of the observations are positions [M] and last moves i32[M], as `mogo_playouts`
        takes them.

    Returns:
      ``(params, key, observations[M]) -> f32[M, A]``: 1 for the moves of the first rule that has
      any, if it is another rule than "any"; -1 for what fills an own eye and for a pass
      (which the policy plays only if nothing else is left); else 0.
    """

    def value(params: Any, key: jax.Array, observations: Any) -> jax.Array:
        del params, key
        positions, last = of(observations)
        good, bad = (
            _points(rules, board) for board in good_and_bad(rules, positions, last, config)
        )
        q = jnp.where(good, 1.0, jnp.where(bad, -1.0, 0.0))
        return jnp.pad(q, ((0, 0), (0, 1)), constant_values=-1.0)

    return value


def good_and_bad(
    rules: go.Rules, positions: go.Position, last: jax.Array, config: MogoConfig = PLAIN
) -> tuple[bb.Board, bb.Board]:
    """(good, bad): the moves of MoGo's rules, none if any move will do, and the own eyes.

    Args:
      rules: the rules.
      positions: [B], whose `atari` is exact.
      last: i32[B]; the opponent's last move in each, or what is no point.
      config: the rules of the playouts.
    """
    lay = rules.layout
    now = playouts.situation(rules, positions, last)
    now = now._replace(rejected=_save_nothing(lay, now))
    config = MogoConfig(nakade=config.nakade)
    stage = stages.once if lay.num_words > _FEW_WORDS else lambda function, *args: function(*args)
    near = stage(functools.partial(_near, lay), now)
    # Every word of the moves depends on the rule: it is found once.
    rule = stage(functools.partial(_rule, lay, config), now, near)
    good = stage(functools.partial(_moves_of, lay, config), now, near, rule)
    own_eyes = stage(functools.partial(_eyes, lay), now)
    return stacked.unstack(good), stacked.unstack(own_eyes & ~good)


def _near(lay: bb.Layout, now: Situation) -> jax.Array:
    now = stacked.words_or_array(lay, now)
    return move_rules.pattern_window(lay, now.own, now.opponent, now.last)


def _rule(lay: bb.Layout, config: MogoConfig, now: Situation, near: jax.Array) -> jax.Array:
    """u32[B]: the first rule that has a move."""
    nothing = jnp.zeros_like(now.last)
    return move_rules.moves(lay, config, stacked.words_or_array(lay, now), near, nothing)[1]


def _moves_of(
    lay: bb.Layout, config: MogoConfig, now: Situation, near: jax.Array, rule: jax.Array
) -> jax.Array:
    """u32[W, B]: the moves of a rule; none of "any"."""
    nothing = jnp.zeros_like(now.last)
    _, by_rule = move_rules.candidates(lay, config, stacked.words_or_array(lay, now), near, nothing)
    return stacked.stack(bb.union_all([bb.keep(rule == n, board) for n, board in by_rule]))


def _eyes(lay: bb.Layout, now: Situation) -> jax.Array:
    """u32[W, B]: the own eyes."""
    now = stacked.words_or_array(lay, now)
    return stacked.stack(playable.eyes(lay, now.own, now.opponent))


def never_played(rules: go.Rules, positions: go.Position) -> jax.Array:
    """bool[B, A]: what no playout plays while there is another move: own eyes, and the pass.

    All-moves-as-first statistics never have them, so a heuristic's values of them would stay.
    """
    own, opponent = go.own_and_opponent(positions)
    eyes = _points(rules, playable.eyes(rules.layout, own, opponent))
    return jnp.pad(eyes, ((0, 0), (0, 1)), constant_values=True)


def _points(rules: go.Rules, boards: bb.Board) -> jax.Array:
    """bool[B, A - 1]"""
    return jax.vmap(lambda board: bb.unpack(rules.layout, board))(boards)


def _save_nothing(lay: bb.Layout, now: Situation) -> jax.Array:
    """u32[W, B]: the moves that the rule "save" tries, and that save no endangered chain.

    To capture a chain beside one saves it. What extends one is played, and looked at: it saves
    if its chain is not in atari then. Trip bound: 4, for the chains that one move puts in atari
    have a liberty each.
    """
    own, opponent, atari = map(stacked.unstack, (now.own, now.opponent, now.atari))
    legal = stacked.stack(move_rules.legal_points(lay, stacked.words_or_array(lay, now)))
    capturable = now.opponent & now.atari
    captors = playouts.chains_beside(lay, now.endangered, capturable)
    captures = stacked.neighbours(lay, captors) & legal
    extensions = stacked.neighbours(lay, now.endangered) & legal & ~captures

    def try_one(carry):
        left, fail = carry
        point = stacked.lowest_point(left)
        first = jnp.zeros(left.shape[1], jnp.uint32)
        action = playable.action_of(lay, playable.nth(lay, stacked.unstack(left), first))
        action = jnp.where(stacked.any_of(point), action, bb.NO_POINT)
        after = jax.vmap(lambda *args: place(lay, *args))(action, own, opponent, atari)
        return left & ~point, fail | (point & stacked.stack(after.atari))

    start = (extensions, jnp.zeros_like(extensions))
    fail = lax.while_loop(lambda carry: stacked.any_at_all(carry[0]), try_one, start)[1]
    return fail | (stacked.neighbours(lay, capturable) & ~captures & ~extensions)
