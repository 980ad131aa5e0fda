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
    """MC-RAVE whose new nodes begin with a heuristic's values of their moves, by its confidence,
    each against one player: MC-RAVE without a heuristic."""

    QUICK: ClassVar = SweepConfig.QUICK | {
        "simulations": 64,
        "heuristics": ("mogo",),
        "confidences": (0, 50),
    }

    simulations: int = setting(1000)
    """Simulations of every move, of either side."""

    heuristics: tuple[HeuristicName, ...] = setting(("even", "grandfather", "mogo", "shape"))
    """Every move even; what its player knew of it two plies before; MoGo's rules; local shapes,
    which are learnt for 7x7 and 9x9."""

    confidences: tuple[int, ...] = setting((0, 10, 25, 50, 100, 200))
    """M: all-moves-as-first simulations that a heuristic counts for. 0: there is none, whichever it
    is; one match, the player's against itself."""

    visits: int = setting(0)
    """C: simulations through a move that it counts for besides."""

    anchor_confidence: int = setting(50)
    """The one of --confidences with which the heuristics also play against --anchor-command."""

    bias: float = setting(0.01)
    """The bias of the schedule of least mean squared error, on either side."""

    out: pathlib.Path = setting(pathlib.Path("runs/heuristic_prior"), SWEEP_FOLDER)

    EXAMPLES = (
        "python -m experiments.heuristic_prior.run",
        "python -m experiments.heuristic_prior.run --heuristics mogo --confidences 0 50",
    )
