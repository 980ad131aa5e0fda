"""Settings of the experiment on heuristic priors. Imports no JAX."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import ClassVar

from experiments.sweeps.config import SWEEP_FOLDER, SweepConfig
from gozero.play.player_config import HeuristicName
from gozero.runs.settings import setting


@dataclasses.dataclass(frozen=True)
class HeuristicPriorConfig(SweepConfig):
    """MC-RAVE whose new nodes start from a heuristic's move values, at several confidences, each
    against MC-RAVE without a heuristic."""

    QUICK: ClassVar = {
        **SweepConfig.QUICK,
        "simulations": 64,
        "heuristics": ("mogo",),
        "confidences": (0, 50),
    }

    simulations: int = setting(1000)
    """Simulations of every move, on both sides."""

    heuristics: tuple[HeuristicName, ...] = setting(("even", "grandfather", "mogo", "shape"))
    """Every move even; the move's statistics two plies before; MoGo's rules; local shapes, learnt
    for 7x7 and 9x9."""

    confidences: tuple[int, ...] = setting((0, 10, 25, 50, 100, 200))
    """M: the number of all-moves-as-first simulations that a heuristic counts for. 0: no
    heuristic, a single match of the player against itself."""

    visits: int = setting(0)
    """C: the number of simulations through a move that it counts for in addition."""

    anchor_confidence: tuple[int, ...] = setting((0, 50))
    """Which of --confidences also play against --anchor-command, with each heuristic; 0: the player
    without a heuristic."""

    bias: float = setting(0.01)
    """The bias of the minimum-MSE schedule, on both sides."""

    out: pathlib.Path = setting(pathlib.Path("runs/heuristic_prior"), SWEEP_FOLDER)

    EXAMPLES = (
        "python -m experiments.heuristic_prior.run",
        "python -m experiments.heuristic_prior.run --heuristics mogo --confidences 0 50",
        "python -m experiments.heuristic_prior.run --anchor-confidence 0 10 25 50 100 200 "
        '--anchor-games 400 --anchor-command "gnugo --mode gtp"',
    )
