"""The presets: each a whole config by name. Imports no JAX."""

from __future__ import annotations

from train.zero.config import ZeroConfig

_SMALL = {
    "blocks": 2,
    "channels": 32,
    "pool_every": 0,
    "batch": 256,
    "window": 20_000,
    "capacity": 60_000,
    "batch_size": 256,
}

PRESETS = {
    config.preset: config
    for config in (
        ZeroConfig(
            preset="3x3",
            size=3,
            komi=(8.5, 9.5),
            **_SMALL,
            iterations=60,
            moves=8,
            simulations=16,
            max_considered=10,
            opening_plies=2,
            temperature_moves=3,
            reuse=2.0,
            outcome_share=1.0,
        ),
    )
}
