"""Which search plays a network of `python -m train` best, at equal simulations.

python -m experiments.network_search.run [--games 200] [--simulations 200] [--out DIR]
"""

from __future__ import annotations

import sys
from typing import Any

from experiments.network_search.config import NetworkSearchConfig
from experiments.sweeps import run
from experiments.sweeps.points import Contestant, Point, Sweep
from gozero.play.player_config import PlayerConfig, RuleName

_KATAGO = {"search": "katago", "symmetries": "random"}

SEARCHES: dict[str, dict[str, Any]] = {
    "gumbel-random": {"search": "gumbel", "symmetries": "random"},
    "gumbel-8": {"search": "gumbel", "considered": 8},
    "puct": {"search": "puct"},
    "katago-one": {"search": "katago"},
    "katago": _KATAGO,
    "katago-reuse": _KATAGO | {"reuse": True},
    "katago-reuse-0.7": _KATAGO | {"reuse": True, "exploration": 0.7},
    "katago-reuse-1.5": _KATAGO | {"reuse": True, "exploration": 1.5},
    "katago-reuse-score": _KATAGO | {"reuse": True, "score_utility": "on"},
}
"""By name: the flags of each search, and whether it starts from the subtree of the last one."""

_ANCHORS = ("gumbel-random", "puct", "katago", "katago-reuse")
"""Those that also play against --anchor-command."""


def sweep(config: NetworkSearchConfig) -> Sweep:
    """Each search against the Gumbel root without noise.

    Raises:
      ValueError: a name in `only` that is no search's.
    """
    names = tuple(SEARCHES) if config.only is None else config.only
    unknown = [name for name in names if name not in SEARCHES]
    if unknown:
        raise ValueError(f"--only {unknown[0]}: expected some of {', '.join(SEARCHES)}")

    def player(search: RuleName, reuse: bool = False, **flags: Any) -> Contestant:
        shared = {"weights": config.network, "simulations": config.simulations}
        return Contestant(
            PlayerConfig(evaluator="network", search=search, **shared, **flags), reuse
        )

    opponent = player("gumbel")
    points = (
        Point("search", float(i), name, player(**SEARCHES[name]), opponent, name in _ANCHORS)
        for i, name in enumerate(names)
    )
    return Sweep(
        "network_search",
        tuple(points),
        title=f"{config.simulations:,} simulations a move against a Gumbel root",
        x_label="",
        x_scale="names",
    )


if __name__ == "__main__":
    sys.exit(run.main(NetworkSearchConfig, sweep, "network_search"))
