"""Numbers of the README that are generated from the records; see `experiments.records`."""

from __future__ import annotations

import json
import pathlib


def faster_than_mm(path: pathlib.Path) -> str:
    """Simulations with MoGo's playouts for each with MM's: ``2.3 times``."""
    return f"{_ratio(path, 'MM'):.1f} times"


def faster_than_all(path: pathlib.Path) -> str:
    """The same for all learnt policies."""
    mm, balanced, mm_atari, balanced_atari = (
        f"{_ratio(path, name):.1f}"
        for name in ("MM", "balanced", "MM with atari", "balanced with atari")
    )
    plain = mm if mm == balanced else f"{mm} and {balanced}"
    return (
        f"{plain} times as many as with MM and balancing, {mm_atari} and {balanced_atari} times as "
        "many as with atari"
    )


def nakade_time(path: pathlib.Path) -> str:
    """How much longer a search with nakade takes: ``12%``."""
    return f"{_ratio(path, 'MoGo, nakade') - 1:.0%}"


def _ratio(path: pathlib.Path, name: str) -> float:
    speeds = json.loads(path.read_text())
    return speeds["MoGo"] / speeds[name]
