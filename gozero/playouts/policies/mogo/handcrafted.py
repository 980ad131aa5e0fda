"""MoGo's handcrafted heuristic: moves of its playout rules are good, those it never plays bad.

Gelly & Silver (2011), section 5.1: "good" moves have value 1, "bad" ones 0 and all others 1/2, so
that choosing greedily, uniformly among the best, is MoGo's playout policy (`playouts`).
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
from gozero.playouts.policies import atari_lanes
from gozero.playouts.policies.atari_lanes import Situation
from gozero.playouts.policies.mogo import move_rules
from gozero.playouts.policies.mogo.move_rules import PLAIN, MogoConfig

_FEW_WORDS = stacked.FEW_WORDS
"""For boards of at most this many words the heuristic is compiled as a whole, else in stages. In
stages it compiles in 11 s of CPU time instead of 45 on 19x19 and in 6 s instead of 9 on 13x13; on
9x9, 256 positions would take three times as long (jaxlib 0.10.1, on a busy machine). For few games,
whose boards then are arrays (`stacked.words_or_array`), it compiles in 4.5 s on 19x19 and runs as
fast."""


def heuristic(
    rules: go.Rules,
    config: MogoConfig = PLAIN,
    of: Callable[[Any], tuple[go.Position, jax.Array]] = lambda observations: observations,
) -> Callable[[Any, jax.Array, Any], jax.Array]:
    """Q_mogo for `gozero.search.prior_counts.with_heuristic`.

    Args:
      rules: the rules.
      config: the playout policy's rules; the random plays of diversity are ignored.
      of: maps observations to positions [M] and last moves i32[M], as `mogo_playouts` takes them.

    Returns:
      ``(params, key, observations[M]) -> f32[M, A]``: 1 for the moves of the first rule that has
      any, unless that is the rule "any"; -1 for other moves that fill an own eye and for a pass
      (which the policy plays only if nothing else is left); 0 for the rest.
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
    """(good, bad): the moves of MoGo's rules, none if the rule is "any"; and the other own eyes.

    Args:
      rules: the rules.
      positions: [B], whose `atari` is exact.
      last: i32[B]; the opponent's last move in each, or anything that is not a point.
      config: the rules of the playouts.
    """
    lay = rules.layout
    now = atari_lanes.situation(rules, positions, last)
    now = now._replace(rejected=_save_nothing(lay, now))
    config = MogoConfig(nakade=config.nakade)
    stage = stages.once if lay.num_words > _FEW_WORDS else lambda function, *args: function(*args)
    near = stage(functools.partial(_near, lay), now)
    # Every word of the moves depends on the rule, so it is computed once.
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
    """u32[W, B]: the moves of a rule; empty for "any"."""
    nothing = jnp.zeros_like(now.last)
    _, by_rule = move_rules.candidates(lay, config, stacked.words_or_array(lay, now), near, nothing)
    return stacked.stack(bb.union_all([bb.keep(rule == n, board) for n, board in by_rule]))


def _eyes(lay: bb.Layout, now: Situation) -> jax.Array:
    """u32[W, B]: the own eyes."""
    now = stacked.words_or_array(lay, now)
    return stacked.stack(playable.eyes(lay, now.own, now.opponent))


def never_played(rules: go.Rules, positions: go.Position) -> jax.Array:
    """bool[B, A]: actions that no playout plays if it has another: own eyes, and the pass.

    All-moves-as-first statistics never include them, so their heuristic values would never change.
    """
    own, opponent = go.own_and_opponent(positions)
    eyes = _points(rules, playable.eyes(rules.layout, own, opponent))
    return jnp.pad(eyes, ((0, 0), (0, 1)), constant_values=True)


def _points(rules: go.Rules, boards: bb.Board) -> jax.Array:
    """bool[B, A - 1]: boards as masks over points."""
    return jax.vmap(lambda board: bb.unpack(rules.layout, board))(boards)


def _save_nothing(lay: bb.Layout, now: Situation) -> jax.Array:
    """u32[W, B]: the moves that the rule "save" would try but that save no endangered chain.

    Capturing a chain beside an endangered one saves it. An extension is played out: it saves if its
    chain is then not in atari. Trip bound: 4, as one move puts at most four chains in
    atari, each with one liberty.
    """
    own, opponent, atari = map(stacked.unstack, (now.own, now.opponent, now.atari))
    legal = stacked.stack(atari_lanes.legal_points(lay, stacked.words_or_array(lay, now)))
    capturable = now.opponent & now.atari
    captors = atari_lanes.chains_beside(lay, now.endangered, capturable)
    captures = stacked.neighbours(lay, captors) & legal
    extensions = stacked.neighbours(lay, now.endangered) & legal & ~captures

    def try_one(carry):
        untried, failed = carry
        point = stacked.lowest_point(untried)
        first = jnp.zeros(untried.shape[1], jnp.uint32)
        action = playable.action_of(lay, playable.nth(lay, stacked.unstack(untried), first))
        action = jnp.where(stacked.any_of(point), action, bb.NO_POINT)
        after = jax.vmap(lambda *args: place(lay, *args))(action, own, opponent, atari)
        return untried & ~point, failed | (point & stacked.stack(after.atari))

    start = (extensions, jnp.zeros_like(extensions))
    failed = lax.while_loop(lambda carry: stacked.any_at_all(carry[0]), try_one, start)[1]
    return failed | (stacked.neighbours(lay, capturable) & ~captures & ~extensions)
