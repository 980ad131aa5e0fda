"""The loop of the commands of `train.classical` that learn weights in steps and resume."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol, TypeVar

import jax

from gozero.apps import runtime
from gozero.runs.progress import Progress
from train.classical import checkpoints
from train.classical.output import ResumableFlags

CHECKPOINT_S = 60.0


class Resumable(Protocol):
    """A state of learning: a pytree."""

    @property
    def taken(self) -> jax.Array:
        """i32[]: steps taken."""
        ...


State = TypeVar("State", bound=Resumable)


def learn(
    name: str,
    options: ResumableFlags,
    made_with: str,
    state: State,
    advance: Callable[[State], tuple[State, dict[str, str]]],
    stop: runtime.StopRequest,
) -> State:
    """Take the steps that are left, or those until a stop; every minute, write a checkpoint.

    Args:
      name: of the progress.
      options: the flags.
      made_with: the text of the checkpoint's flags.
      state: to start from.
      advance: takes some steps; returns the state, and numbers to display.
      stop: whether to stop.
    """
    started = saved = time.perf_counter()
    before = int(state.taken)
    with Progress(name, options.steps, "steps", before) as progress:
        progress.phase("compiling")
        while int(state.taken) < options.steps and not stop.requested:
            state, numbers = advance(state)
            now, taken = time.perf_counter(), int(state.taken)
            rate = (taken - before) * options.games / (now - started)
            progress.phase("learning")
            progress.show(taken, {"positions/s": f"{rate:,.0f}"} | numbers)
            if now - saved >= CHECKPOINT_S:
                checkpoints.save(options.checkpoint, made_with, state)
                saved = now
    return state
