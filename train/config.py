"""The flags of ``python -m train --preset NAME``, as one frozen dataclass. Imports no JAX."""

from __future__ import annotations

import dataclasses
import pathlib
import re
from typing import Any, Literal

from gozero.apps.flags import check_seed

Root = Literal["gumbel", "puct"]


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """Learn Go from self-play: play, learn from what was played, and again.

    A preset has a value for every flag, and any flag overrides it. The same command goes on with a
    run that was stopped, bit for bit.
    """

    preset: str = ""
    """Where the other flags come from: 3x3, 5x5, 7x7, 9x9-cpu, 9x9-gpu or 19x19-slice."""

    out: pathlib.Path | None = None
    """The run's folder; runs/zero-PRESET without it."""

    iterations: int = 100
    """Rounds of self-play and learning, in all. A run that is done goes on with more of them; its
    learning rate and --first-simulations then go by the new number, and so back to where a longer
    run would be."""

    minutes: float | None = None
    """Stop after so long, this time; the same command goes on, with an evaluation first if the last
    iteration was due for one."""

    seed: int = 0
    """Of all chance."""

    # --- the game
    size: int = 9
    """Lines of the board."""

    komi: tuple[float, ...] = (7.0,)
    """Points for White; of several each game draws one."""

    ko: Literal["simple", "positional", "situational"] = "positional"
    """What may not be repeated."""

    # --- the network
    blocks: int = 6
    """Residual blocks."""

    channels: int = 64
    """Channels of the trunk."""

    features: Literal["compact"] = "compact"
    """The planes that it sees; all others look at boards before, which the replay lacks."""

    pool_every: int = 2
    """Every so many-th block pools the whole board; 0: none does."""

    auxiliary: bool = True
    """Whether it also learns whose each point will be, and the score."""

    dtype: Literal["float32", "bfloat16"] = "float32"
    """What the trunk computes in; parameters and sums are float32."""

    weights: pathlib.Path | None = None
    """Weights (.npz) of such a network to begin from, made for any board size; random ones
    without it."""

    # --- self-play
    batch: int = 256
    """Games at once, on each device."""

    moves: int = 16
    """Moves of each game in an iteration."""

    root: Root = "gumbel"
    """How the root is searched: gumbel, or puct with Dirichlet noise."""

    simulations: int = 32
    """Simulations of a full search."""

    first_simulations: int | None = None
    """Simulations at first: they double until they are all, each for an equal part of the
    iterations. Without it, all from the beginning."""

    max_considered: int = 16
    """Of gumbel: the moves that a root considers."""

    cheap_simulations: int = 0
    """Simulations of searches that are not learnt from and only get a game to its end; 0: every
    search is full."""

    full_share: float = 0.25
    """Of searches that are full, where there are cheap ones."""

    temperature_moves: int | None = None
    """Moves of a game that are drawn by visits. Without it none for gumbel, whose root draws what
    it plays; for puct 30 on 19x19, fewer on smaller boards."""

    opening_plies: int = 0
    """A game begins with 0 to so many random moves."""

    resign: bool = False
    """Whether games are resigned, at a threshold by which fewer than 5% of those resigned would
    have been won; a tenth is always played to the end, to know."""

    # --- targets and replay
    outcome_share: float = 1.0
    """Of the game's outcome in the value target; the rest is the value that the search found."""

    capacity: int = 100_000
    """Positions that the replay holds, on each device."""

    window: int = 20_000
    """Of them the newest so many are learnt from at first; the window grows with what is played."""

    window_exponent: float = 0.75
    """How the window grows: as this power of the positions played."""

    window_scale: float = 0.4
    """How fast: positions of the window for each one played, as it begins to grow."""

    reuse: float = 4.0
    """How often a position is learnt from, on average at most."""

    min_rows: int = 2_000
    """Positions before the first is learnt from."""

    surprise: float = 0.0
    """The share of a position's frequency that goes by how much its search has surprised."""

    # --- the learner
    batch_size: int = 256
    """Positions a step, of all devices together."""

    learning_rate: float = 2e-3
    """AdamW's greatest step size."""

    final_fraction: float = 0.05
    """Of it what is left at the end, along a half cosine."""

    warmup_steps: int = 100
    """Steps in which it grows from nothing."""

    weight_decay: float = 1e-4
    """AdamW's, of kernels."""

    ema_decay: float = 0.995
    """Of the average of the parameters, which plays."""

    value_weight: float = 1.0
    """What the value's loss counts for, beside the policy's."""

    ownership_weight: float = 1.5
    """... of whose points are."""

    score_weight: float = 0.0015
    """... of the score."""

    # --- the run
    devices: int | None = None
    """Devices to divide the work among; all that there are without it."""

    workers: bool = False
    """Also learn from what `python -m train worker` plays for this run's folder: what is learnt
    then depends on when it comes. The learning rate falls by the run's own positions."""

    coordinator: str | None = None
    """Of a run on several hosts, with the same command on each: HOST:PORT of the first, with
    --processes and --process; auto where they find each other by themselves (TPU slices, Slurm)."""

    processes: int | None = None
    """How many hosts, or processes, there are."""

    process: int | None = None
    """Which of them this is, from 0; the first writes what is written."""

    checkpoint_every: int = 10
    """Iterations from one checkpoint to the next; each evaluation has one before it as well."""

    evaluate_every: int = 0
    """Iterations from one evaluation to the next; 0: none."""

    evaluate_games: int = 64
    """Games of an evaluation against each opponent."""

    evaluate_simulations: int = 32
    """Simulations of each move in evaluations."""

    def __post_init__(self):
        check_seed(self.seed)
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is not None and not value >= least:
                raise ValueError(f"--{_flag(name)} {value}: expected at least {least}")
        if not self.komi:
            raise ValueError("--komi: expected one number or more")
        if self.first_simulations is not None and self.first_simulations > self.simulations:
            raise ValueError(
                f"--first-simulations {self.first_simulations}: expected at most the "
                f"{self.simulations} of --simulations"
            )
        fewest = self.first_simulations or self.simulations
        if not self.cheap_simulations < fewest:
            raise ValueError(
                f"--cheap-simulations {self.cheap_simulations}: expected less than a full search "
                f"has, {fewest}"
            )
        if not 0 < self.full_share <= 1:
            raise ValueError(f"--full-share {self.full_share}: expected above 0, up to 1")
        if not 0 <= self.outcome_share <= 1:
            raise ValueError(f"--outcome-share {self.outcome_share}: expected from 0 to 1")
        if not 0 < self.window_exponent <= 1:
            raise ValueError(
                f"--window-exponent {self.window_exponent}: expected above 0 and at most 1"
            )
        if not 0 <= self.window_scale <= 1:
            raise ValueError(f"--window-scale {self.window_scale}: expected from 0 to 1")
        if self.evaluate_games % 2:
            raise ValueError(f"--evaluate-games {self.evaluate_games}: expected an even number")
        self._check_hosts()

    def _check_hosts(self) -> None:
        numbers = (self.processes, self.process)
        if self.coordinator in (None, "auto"):
            if numbers != (None, None):
                raise ValueError("--processes and --process go with --coordinator HOST:PORT")
            return
        if not re.fullmatch(r".+:\d+", self.coordinator):
            raise ValueError(f"--coordinator {self.coordinator}: expected HOST:PORT or auto")
        if self.processes is None or self.process is None:
            raise ValueError(f"--coordinator {self.coordinator}: needs --processes and --process")
        if not self.process < self.processes:
            raise ValueError(
                f"--process {self.process}: expected from 0 to {self.processes - 1}, of the "
                f"{self.processes} of --processes"
            )

    @property
    def folder(self) -> pathlib.Path:
        """Of the run."""
        return self.out or pathlib.Path("runs") / f"zero-{self.preset}"

    @property
    def plain(self) -> dict[str, Any]:
        """All flags, as config.json has them."""
        plain = dataclasses.asdict(self) | {"out": str(self.folder), "komi": list(self.komi)}
        return plain | {"weights": self.weights and str(self.weights)}


_LEAST = {
    "iterations": 1,
    "minutes": 0,
    "moves": 1,
    "simulations": 1,
    "first_simulations": 1,
    "cheap_simulations": 0,
    "temperature_moves": 0,
    "window": 1,
    "value_weight": 0,
    "ownership_weight": 0,
    "score_weight": 0,
    "opening_plies": 0,
    "batch_size": 1,
    "devices": 1,
    "processes": 1,
    "process": 0,
    "checkpoint_every": 1,
    "evaluate_every": 0,
    "evaluate_games": 2,
    "evaluate_simulations": 1,
}

MAY_CHANGE = frozenset(
    {
        "out",
        "iterations",
        "minutes",
        "learning_rate",
        "workers",
        "coordinator",
        "processes",
        "process",
        "checkpoint_every",
        "evaluate_every",
        "evaluate_games",
        "evaluate_simulations",
    }
)
"""Flags that may differ when a run goes on."""


def _flag(name: str) -> str:
    return name.replace("_", "-")
