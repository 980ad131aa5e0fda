"""What the rules refuse, on the host and with a reason, before anything is compiled.

Only what is known without running is looked at: static rules, shapes and dtypes, and numbers
that are concrete. A compiled program has none of this in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from gozero.go.coords import KO_RULES, KOMI_EXPECTED, MAX_SIZE, MIN_SIZE, is_komi

if TYPE_CHECKING:
    from gozero.go.rules import GameState, Rules

MAX_MOVE_LIMIT = 2**15 - 1
"""Plies are i16."""


def check_rules(rules: Rules) -> None:
    """Raises:
    ValueError: naming the argument, what it was and what is allowed.
    """
    if not _is_whole(rules.size):
        raise ValueError(f"size: {rules.size!r} is not a whole number")
    if not MIN_SIZE <= rules.size <= MAX_SIZE:
        raise ValueError(f"size: {rules.size} is not a board size from {MIN_SIZE} to {MAX_SIZE}")
    if rules.ko not in KO_RULES:
        raise ValueError(f"ko: {rules.ko!r} is not a ko rule; use one of {', '.join(KO_RULES)}")
    if not isinstance(rules.suicide, bool):
        raise ValueError(f"suicide: {rules.suicide!r} is not True or False")
    limit = rules.max_moves
    if limit is not None and not (_is_whole(limit) and 1 <= limit <= MAX_MOVE_LIMIT):
        raise ValueError(f"max_moves: {limit!r} is not a whole number from 1 to {MAX_MOVE_LIMIT}")


def check_komi(komi: Any) -> None:
    """Raises:
    ValueError: a komi that is none; under ``jit`` only its shape and dtype are known.
    """
    shape, dtype = _shape_and_dtype(komi)
    if not (jnp.issubdtype(dtype, jnp.integer) or jnp.issubdtype(dtype, jnp.floating)):
        raise ValueError(f"komi: {komi!r} is not a number; expected {KOMI_EXPECTED}")
    if shape != ():
        raise ValueError(f"komi: shape {shape}; this makes one game, so komi is one number")
    if not isinstance(komi, Tracer) and not is_komi(float(komi)):
        raise ValueError(f"komi: {komi} is not {KOMI_EXPECTED}")


def check_action(action: Any) -> None:
    """Raises:
    ValueError: what is not one whole number; which one is for `legal_actions` to say.
    """
    shape, dtype = _shape_and_dtype(action)
    if not jnp.issubdtype(dtype, jnp.integer):
        raise ValueError(f"action: dtype {dtype} is not an integer type, such as int32")
    if shape != ():
        raise ValueError(f"action: shape {shape} for one game, expected (); {_MAP}")


def check_state(rules: Rules, state: GameState) -> None:
    """Raises:
    ValueError: a batch of games, or a game under other rules.
    """
    if state.size != rules.size:
        made, wanted = f"{state.size}x{state.size}", f"{rules.size}x{rules.size}"
        raise ValueError(f"state: a game on {made}, but the rules are for {wanted}")
    shape = np.shape(state.position.to_play)
    if shape != ():
        raise ValueError(f"state: games of shape {shape}, expected one game; {_MAP}")
    keeps = _kept_past(state)
    if keeps != rules.ko:
        raise ValueError(f"state: a game under {keeps} ko, but the rules have ko={rules.ko!r}")
    if state.past is not None and state.past.boards.shape[0] <= rules.move_limit:
        room = state.past.boards.shape[0] - 1
        raise ValueError(
            f"state: a game with room for {room} moves, but the rules allow {rules.move_limit}"
        )


_MAP = "map over games with jax.vmap"


def _kept_past(state: GameState) -> str:
    """The ko rule that a game keeps its past for."""
    if state.past is None:
        return "simple"
    return "situational" if state.past.situational else "positional"


def _is_whole(x: Any) -> bool:
    return isinstance(x, int | np.integer) and not isinstance(x, bool)


def _shape_and_dtype(x: Any) -> tuple[tuple[int, ...], Any]:
    array = x if hasattr(x, "dtype") else np.asarray(x)
    return array.shape, array.dtype
