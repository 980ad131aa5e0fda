"""A run so small that it takes seconds: everything is on, and nothing is learnt."""

from __future__ import annotations

import pathlib
from typing import Any

from train.zero.config import ZeroConfig


def config(out: pathlib.Path | None = None, **changes: Any) -> ZeroConfig:
    """The config of it, in a folder."""
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
    return ZeroConfig(out=out, **(settings | changes))
