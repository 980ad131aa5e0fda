"""A run that takes seconds, with all options on; it is too small to learn anything."""

from __future__ import annotations

import pathlib
from typing import Any

import jax
from jax.sharding import AbstractMesh

from train import steps
from train.config import TrainConfig
from train.folder import TrainFolder
from train.plan import Plan


def config(out: pathlib.Path | None = None, **changes: Any) -> TrainConfig:
    """The config of the tiny run, in a folder."""
    settings: dict[str, Any] = {
        "preset": "tiny",
        "iterations": 4,
        "size": 3,
        "komi": (8.5, 9.5),
        "ko": "simple",
        "blocks": 1,
        "channels": 8,
        "pool_every": 1,
        "batch": 8,
        "moves": 6,
        "simulations": 4,
        "max_considered": 4,
        "temperature_moves": 4,
        "opening_plies": 2,
        "resign": True,
        "outcome_share": 0.8,
        "capacity": 500,
        "window": 100,
        "reuse": 1.0,
        "min_rows": 16,
        "surprise": 0.5,
        "batch_size": 16,
        "warmup_steps": 2,
        "devices": 1,
        "checkpoint_every": 2,
    }
    return TrainConfig(out=out, **(settings | changes))


def claim(config: TrainConfig) -> bool:
    """Make a run's folder; returns whether there was a run already."""
    with TrainFolder(config) as folder:
        return folder.before is not None


def host_state(iteration: int) -> dict:
    """What a checkpoint stores beside the state, for a run that has read no workers' shards."""
    workers = {"done": {}, "strange": [], "read": 0, "skipped": 0, "rows": 0}
    return {"iteration": iteration, "games": 0, "steps": 0, "seconds": 0.0, "workers": workers}


def placed(plan: Plan, mesh: AbstractMesh) -> steps.RunState:
    """The shapes and shardings of a run's state."""
    shapes = jax.eval_shape(lambda: steps.begin(plan, mesh))
    return jax.tree.map(
        lambda x, where: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=where),
        shapes,
        steps.shardings(shapes, mesh),
    )


def untimed(numbers: dict) -> dict:
    """A line of metrics.jsonl without what depends on time."""
    clocked = {"seconds", "games_per_s", "simulations_per_s", "positions_per_s"}
    clocked |= {"playing_s", "learning_s", "evaluation_s", "gate_s"}
    return {name: value for name, value in numbers.items() if name not in clocked}
