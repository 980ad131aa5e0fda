"""The presets, each a whole config with a name; and which of them a command line names."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from gozero.apps import flags
from train.config import TrainConfig

_COMMON = TrainConfig(
    blocks=4,
    channels=32,
    pool_every=2,
    batch=256,
    moves=16,
    simulations=32,
    first_simulations=16,
    max_considered=16,
    opening_plies=6,
    outcome_share=0.75,
    reuse=2.5,
    batch_size=256,
)

_SMALL = dataclasses.replace(
    _COMMON,
    game="connect4",
    size=None,
    komi=(),
    auxiliary=False,
    outcome_share=0.5,
    capacity=400_000,
    window=40_000,
    evaluate_every=40,
)

_ALL = (
    dataclasses.replace(
        _COMMON,
        preset="3x3",
        size=3,
        komi=(8.5, 9.5),  # Black can just win, and just not
        blocks=2,
        pool_every=0,
        moves=8,
        iterations=40,
        simulations=16,
        first_simulations=None,
        max_considered=10,
        opening_plies=2,
        outcome_share=1.0,
        capacity=60_000,
        window=20_000,
        reuse=8.0,
        learning_rate=3e-3,
    ),
    dataclasses.replace(
        _COMMON,
        preset="5x5",
        size=5,
        komi=(8.5, 16.5, 24.5, 24.5),  # Black owns the board; the easier ones show it how
        moves=12,
        iterations=160,
        first_simulations=8,
        opening_plies=4,
        capacity=400_000,
        window=40_000,
        reuse=4.0,
    ),
    dataclasses.replace(
        _COMMON,
        preset="7x7",
        size=7,
        komi=(7.0, 9.0, 9.0, 11.0),  # Black wins by 9: a draw, if both play well
        iterations=400,
        capacity=600_000,
        window=50_000,
        evaluate_every=50,
    ),
    dataclasses.replace(  # three hours on two cores
        _COMMON,
        preset="9x9-cpu",
        size=9,
        komi=(6.0, 7.0, 7.0, 8.0),
        iterations=2000,
        capacity=1_000_000,
        window=100_000,
        evaluate_every=100,
    ),
    dataclasses.replace(
        _COMMON,
        preset="9x9-gpu",
        size=9,
        policy_dtype="float16",  # bytes take an H100 two more kernels a move
        komi=(6.0, 7.0, 7.0, 8.0),
        blocks=6,
        channels=96,
        dtype="bfloat16",
        batch=4096,
        iterations=1200,
        capacity=4_000_000,
        window=400_000,
        min_rows=50_000,
        reuse=3.0,
        batch_size=4096,
        learning_rate=3e-3,
        warmup_steps=300,
        checkpoint_every=20,
        evaluate_every=50,
        evaluate_games=256,
    ),
    dataclasses.replace(  # for four devices and more
        _COMMON,
        preset="19x19-slice",
        size=19,
        policy_dtype="float16",  # bytes take an H100 two more kernels a move
        komi=(6.5, 7.5, 8.5),
        blocks=10,
        channels=128,
        pool_every=3,
        dtype="bfloat16",
        iterations=4000,
        moves=32,
        first_simulations=None,
        cheap_simulations=8,
        opening_plies=4,
        resign=True,
        capacity=250_000,
        window=50_000,
        min_rows=20_000,
        reuse=4.0,
        surprise=0.5,
        batch_size=2048,
        rows_per_device=128,  # up to 16 devices take 2,048 a step, 64 take 8,192
        warmup_steps=1000,
        ema_decay=0.999,
        # With several hosts a checkpoint, some gigabytes, stops the run. Workers get new weights as
        # often.
        checkpoint_every=100,
        evaluate_every=500,  # on one device, while the others wait: on 19x19 it takes long
    ),
    dataclasses.replace(  # within an hour on two cores
        _SMALL,
        preset="connect4",
        channels=64,
        pool_every=0,
        iterations=250,
        max_considered=7,
        value_scale=0.2,
        opening_plies=8,
        opening_searched=True,
        reuse=3.0,
        evaluate_every=100,
    ),
    dataclasses.replace(_SMALL, preset="hex", game="hex", size=7, iterations=200),
)

PRESETS = {config.preset: config for config in _ALL}


def preset_of(argv: Sequence[str], prog: str) -> TrainConfig:
    """The preset that a command line names; ends the program in one line if there is none. For
    another game than Go it is without what only Go has: komi, and heads for ownership and score."""
    preset_name, game = _last("--preset", argv), _last("--game", argv)
    name = preset_name or game
    if name not in PRESETS and game and not preset_name:
        example = "9x9-cpu" if game == "go" else "connect4"
        flags.fail(prog, f"--game {game}: has no preset; give one too, --preset {example} say")
    if name not in PRESETS:
        flags.fail(prog, f"--preset{name and ' '}{name}: expected one of {', '.join(PRESETS)}")
    preset = PRESETS[name]
    if game in ("", "go", preset.game):
        return preset
    size = preset.size if game == "hex" else None
    return dataclasses.replace(preset, game=game, size=size, komi=(), auxiliary=False)


def _last(flag: str, argv: Sequence[str]) -> str:
    """The last value of a flag; "" if it is not given."""
    value = ""
    for i, argument in enumerate(argv):
        if argument.startswith(f"{flag}="):
            value = argument.partition("=")[2]
        elif argument == flag:
            value = argv[i + 1] if i + 1 < len(argv) else ""
    return value
