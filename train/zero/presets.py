"""The presets: each a whole config by name. Imports no JAX."""

from __future__ import annotations

from train.zero.config import ZeroConfig

PRESETS = {
    config.preset: config
    for config in (
        ZeroConfig(
            preset="3x3",
            size=3,
            komi=(8.5, 9.5),  # Black can just win, and just not
            blocks=2,
            channels=32,
            pool_every=0,
            batch=256,
            moves=8,
            iterations=40,
            simulations=16,
            max_considered=10,
            temperature_moves=0,
            opening_plies=2,
            capacity=60_000,
            window=20_000,
            reuse=8.0,
            batch_size=256,
            learning_rate=3e-3,
        ),
        ZeroConfig(
            preset="5x5",
            size=5,
            komi=(8.5, 16.5, 24.5, 24.5),  # Black owns the board; the easier ones show him how
            blocks=4,
            channels=32,
            pool_every=2,
            batch=256,
            moves=12,
            iterations=160,
            simulations=32,
            first_simulations=8,
            max_considered=16,
            temperature_moves=0,
            opening_plies=4,
            outcome_share=0.75,
            capacity=400_000,
            window=40_000,
            reuse=4.0,
            batch_size=256,
        ),
        ZeroConfig(  # for four devices and more
            preset="19x19-slice",
            size=19,
            komi=(6.5, 7.5, 8.5),
            blocks=10,
            channels=128,
            pool_every=3,
            dtype="bfloat16",
            batch=256,
            iterations=4000,
            moves=32,
            simulations=32,
            max_considered=16,
            cheap_simulations=8,
            temperature_moves=30,
            opening_plies=4,
            resign=True,
            outcome_share=0.75,
            capacity=250_000,
            window=50_000,
            min_rows=20_000,
            surprise=0.5,
            batch_size=2048,
            warmup_steps=1000,
            ema_decay=0.999,
        ),
    )
}
