"""Named players: their settings for each board size and their scores in recorded matches. No JAX.

The networks in ``data/`` come from ``experiments/zero_strength``; see its README.md.
"""

from __future__ import annotations

import pathlib
from typing import Any, Literal, NamedTuple

PlayerName = Literal["strong", "fast", "rave", "uct", "literal", "literal-uct", "random"]

DEFAULT: PlayerName = "strong"
NETWORKS = {
    size: pathlib.Path(__file__).parent / "data" / f"{size}x{size}.safetensors" for size in (7, 9)
}
"""Networks that come with the package, by board size."""

_NETWORK = {
    "evaluator": "network",
    "search": "katago",
    "symmetries": "random",
    "simulations": 200,
}
"""KataGo's search with reuse and random symmetries scores better than the Gumbel root that a
network is trained with, which has neither (``experiments/network_search``)."""

_RAVE = {"search": "rave", "simulations": 3000, "rave_bias": 0.01, "nakade": True}

_LEAVES = 8
"""Leaves a step of `strong` on boards above 9x9, where playouts are long. Up to 9x9 it has one:
with several, what is next at each node of a path is chosen twice a simulation, before and after
the evaluation, and two take longer than one."""

_EXPERTS = {"priors": "mm", "expert_bonus": 0.1, "expert_visits": 1.0}
"""An expert bias (``experiments/against_gnugo``), which helps on 13x13; `strong` has it from 10x10
to there."""


def _rave_of(size: int) -> dict[str, Any]:
    """`strong` without a network."""
    leaves = 1 if size <= 9 else _LEAVES
    experts = _EXPERTS if 9 < size <= 13 else {}
    return {**_RAVE, "heuristic": "mogo", "leaves": leaves, **experts}


ABOUT: dict[PlayerName, str] = {
    "strong": "the network of the package on 7x7 and 9x9; elsewhere MC-RAVE with MoGo's rules as "
    "heuristic, from 10x10 to 13x13 with an expert bias",
    "fast": "MC-RAVE with a seventh of the simulations of rave",
    "rave": "MC-RAVE, after Gelly & Silver (2011)",
    "uct": "UCT, after Gelly & Silver (2011)",
    "literal": "Algorithm 2 of Gelly & Silver (2011) as printed, but that passes of playouts are "
    "not credited",
    "literal-uct": "Algorithm 1 of Gelly & Silver (2011) as printed, with MoGo's playouts",
    "random": "any move that does not fill an own eye",
}


def settings_of(name: PlayerName, size: int) -> dict[str, Any]:
    """A player's settings for a board size (points on a side): fields of `PlayerConfig`. `ABOUT`
    says what the players are."""
    if name == "strong" and size in NETWORKS:
        return _NETWORK | {"weights": NETWORKS[size]}
    return {
        "strong": _rave_of(size),
        "fast": {"search": "rave", "simulations": 400, "rave_bias": 0.01},
        "rave": _RAVE,
        "uct": {
            "search": "uct",
            "simulations": 3000,
            "playouts": "mogo",
            "nakade": True,
            "exploration": 0.25,
            "first_play": 1.0,
        },
        "literal": {
            "search": "rave",
            "simulations": 3000,
            "rave_bias": 0.01,
            "first_action": True,
            "rave_colours": "same",
            "rave_legal": True,
            "final_move": "eval",
        },
        "literal-uct": {
            "search": "uct",
            "simulations": 3000,
            "playouts": "mogo",
            "exploration": 0.25,
            "first_action": True,
            "final_move": "eval",
        },
        "random": {"search": "random"},
    }[name]


class Measured(NamedTuple):
    """A player's score in a match and its seconds per move there, with many games at once on two
    cores. The match's record is ``experiments/RECORD/summary.json``."""

    player: PlayerName
    size: int
    opponent: str
    games: int
    score: float
    low: float
    high: float
    seconds: float
    record: str


MEASURED = (
    Measured(
        *("strong", 7, "GNU Go 3.8 at komi 9", 200, 0.9, 0.853373, 0.932964, 0.0881),
        "zero_strength/results/7x7-gnugo",
    ),
    Measured(
        *("strong", 9, "GNU Go 3.8", 400, 0.93, 0.901443, 0.950735, 0.123),
        "zero_strength/results/9x9-gnugo",
    ),
    Measured(
        *("fast", 9, "itself with uniform playouts", 200, 0.81, 0.745881, 0.860956, 0.0157),
        "against_gnugo/results/playouts",
    ),
    Measured(
        *("rave", 9, "GNU Go 3.8", 200, 0.5725, 0.503206, 0.639061, 0.1732),
        "against_gnugo/results/rave-1-leaf",
    ),
    Measured(
        *("uct", 9, "GNU Go 3.8", 200, 0.16, 0.115674, 0.217141, 0.6409),
        "against_gnugo/results/uct",
    ),
    Measured(
        *("literal", 9, "rave with --no-nakade", 200, 0.0825, 0.052096, 0.128247, 0.054),
        "against_gnugo/results/literal",
    ),
)
"""Scores of the package's players in recorded matches; they resigned at -0.95."""
