"""MoGo's playouts: random games in which each move responds to the last one.

Gelly, Wang, Munos & Teytaud (2006), INRIA report 6062, section 3.2; as in Gelly & Silver
(2011), section 3.6. The player to move takes the first of these rules that has a move, and plays
one of that rule's moves at random:

    save      if the last move put own chains in atari: a play at the liberty of one that leaves
              the chain with at least two liberties, or the capture of a chain beside one
    pattern   a play on one of the eight points around the last move where a pattern matches
              (`patterns`)
    capture   a play that captures, anywhere
    any       a play, anywhere

No own eye is filled, except to save a chain that surrounds it, and a player passes only if no rule
has a move. Simple ko, no suicide. `MogoConfig` adds rules.

The lanes are those of `atari_lanes`, whose legal points and captures are exact, so only tries of
the rule "save" can fail: whether a move saves an endangered chain is known only once it is tried.
Around the last move, `patterns` finds where patterns match.
"""

from __future__ import annotations

import functools
from typing import Any

import jax

from gozero.compile import stages
from gozero.go import bitboard as bb
from gozero.go import rules as go
from gozero.go import stacked
from gozero.playouts import engine
from gozero.playouts.engine import PlayoutPolicy, Playouts
from gozero.playouts.policies import atari_lanes
from gozero.playouts.policies.atari_lanes import AtariLanes, PlayedByRule
from gozero.playouts.policies.mogo import move_rules
from gozero.playouts.policies.mogo.move_rules import PLAIN, MogoConfig


def mogo_playouts(
    rules: go.Rules,
    positions: go.Position,
    key: jax.Array,
    config: MogoConfig = PLAIN,
    **options: Any,
) -> Playouts:
    """Play each position to the end by MoGo's rules.

    Args:
      rules, key: as for `uniform_playouts`.
      positions: [B]; legal positions whose `atari` is exact (as in all positions made by `go.rules`
        or `go.setup`).
      config: rules in addition to the four.
      options: those of `engine.play_out`: `last`, the move that a playout's first move responds to,
        `lanes`, `max_moves`, `ends`, `first_plays`, `ids`.

    Raises:
      ValueError: as `engine.play_out`.
    """
    return engine.play_out(policy(rules.layout, config), rules, positions, key, **options)


def policy(lay: bb.Layout, config: MogoConfig = PLAIN) -> PlayoutPolicy:
    """The playout policy of MoGo's rules for this layout."""
    advance = engine.repeated(functools.partial(step, config))
    cpu_lanes = 128 if lay.rows_per_word > 1 else 64
    return PlayoutPolicy(atari_lanes.init, advance, cpu_lanes, takes_last=True, in_kernel=True)


def step(
    config: MogoConfig, rules: go.Rules, cap: int, params: Any, lanes: AtariLanes
) -> tuple[AtariLanes, PlayedByRule]:
    """`atari_lanes.step` with MoGo's rules; the rule of a pass is ANY."""
    choose = functools.partial(_choose, config)
    return atari_lanes.step(choose, None, rules, cap, params, lanes)


def _choose(
    config: MogoConfig, lay: bb.Layout, params: Any, lanes: AtariLanes
) -> tuple[jax.Array, jax.Array]:
    """(moves, rules): one of the moves of the first rule that has any."""
    del params

    def stage(function, *args):
        """Runs a function as a stage, with every board as a tuple of words."""
        return stages.once(lambda *args: function(lay, *stacked.words(args)), *args)

    def choose(lay, *args):
        return move_rules.choose(lay, config, *args)

    now = lanes.now
    near = stage(move_rules.pattern_window, now.own, now.opponent, now.last)
    return move_rules.unpacked(stage(choose, now, near, engine.random_bits(lanes.clock)))
