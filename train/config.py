"""The flags of ``python -m train``, as one frozen dataclass."""

from __future__ import annotations

import dataclasses
import math
import pathlib
from typing import Literal

from gozero.apps.flags import check_seed


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """Train the policy and value network on the games of a self-play folder."""

    data: pathlib.Path
    """The folder that self-play wrote, with shards/*.npz in it."""

    steps: int = 1000
    """Optimizer steps."""

    weights: pathlib.Path | None = None
    """Weights to go on from, a .npz with its .json beside it; without them, random ones."""

    out: pathlib.Path | None = None
    """Where the new weights go, a .npz that is not there yet; DIR/weights.npz without it."""

    batch_size: int = 256
    """Rows a step, drawn from all of the data."""

    learning_rate: float = 2e-3
    """AdamW's step size, after a short linear warm-up."""

    weight_decay: float = 1e-4
    """AdamW's decay of all kernels; biases are left alone."""

    blocks: int | None = None
    """Residual blocks of a new network, 2 without it; --weights bring their own."""

    channels: int | None = None
    """Channels of a new network, 32 without it; --weights bring their own."""

    features: Literal["compact", "full", "full-no-ladders", "zero"] | None = None
    """Planes of a new network, compact without it; --weights bring their own."""

    holdout_fraction: float = 0.1
    """Share of the games that is never trained on, only measured."""

    seed: int = 0
    """Of the random weights, the rows drawn and their symmetries."""

    def __post_init__(self):
        check_seed(self.seed)
        for name in ("steps", "batch_size", "blocks", "channels"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"--{name.replace('_', '-')} {value}: expected at least 1")
        if not 0 < self.learning_rate < math.inf:
            raise ValueError(f"--learning-rate {self.learning_rate}: expected a number above 0")
        if not 0 <= self.weight_decay < math.inf:
            raise ValueError(f"--weight-decay {self.weight_decay}: expected 0 or more")
        if not 0 <= self.holdout_fraction < 1:
            raise ValueError(
                f"--holdout-fraction {self.holdout_fraction}: expected from 0 to below 1"
            )

    @property
    def out_file(self) -> pathlib.Path:
        return self.data / "weights.npz" if self.out is None else self.out

    @property
    def metrics_file(self) -> pathlib.Path:
        """One JSON object a line: step, losses, positions/s."""
        return self.out_file.with_suffix(".metrics.jsonl")

    @property
    def warmup_steps(self) -> int:
        return min(100, 1 + self.steps // 10)
