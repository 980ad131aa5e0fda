"""Settings of the experiment on searches for a network. Imports no JAX."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import ClassVar

from experiments.sweeps.config import SWEEP_FOLDER, SweepConfig
from experiments.zero_strength.config import FIRST_9X9, RESULTS
from gozero.play.players import NETWORKS
from gozero.runs.settings import setting


@dataclasses.dataclass(frozen=True)
class NetworkSearchConfig(SweepConfig):
    """How a network that `python -m train` trained with a Gumbel root plays best at equal
    simulations: other searches, and random symmetries, against that Gumbel root."""

    QUICK: ClassVar = {**SweepConfig.QUICK, "simulations": 16, "only": ("katago",)}

    simulations: int = setting(200)
    """Simulations of every move, on both sides."""

    weights: pathlib.Path | None = setting(None, unset="those of experiments/zero_strength")
    """The network, of both sides."""

    only: tuple[str, ...] | None = setting(None, unset="all")
    """Which searches to play, by their names in the table."""

    out: pathlib.Path = setting(pathlib.Path("runs/network_search"), SWEEP_FOLDER)

    EXAMPLES = (
        "python -m experiments.network_search.run --resign -0.95",
        "python -m experiments.network_search.run --only katago --weights NET.safetensors",
    )

    def __post_init__(self):
        super().__post_init__()
        if self.weights is None and self.size not in NETWORKS:
            known = ", ".join(f"{n}x{n}" for n in NETWORKS)
            raise ValueError(
                f"--size {self.size}: there are networks of {known}; for others give --weights"
            )

    @property
    def network(self) -> pathlib.Path:
        """The weights of both sides."""
        own = FIRST_9X9 if self.size == 9 else RESULTS / f"{self.size}x{self.size}.safetensors"
        return own if self.weights is None else self.weights
