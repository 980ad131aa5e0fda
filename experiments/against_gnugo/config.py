"""Settings of the matches against GNU Go. Imports no JAX."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import ClassVar

from experiments.matches.config import (
    GNUGO,
    GNUGO_0,
    GNUGO_3_7_10,
    Match,
    MatchesConfig,
    strong_without_experts,
)
from gozero.apps.match.config import Side
from gozero.play.players import settings_of
from gozero.runs.settings import setting

RESULTS = pathlib.Path("experiments/against_gnugo/results")


def _our_side(simulations: int = 3000, **more) -> Side:
    flags = {"search": "rave", "leaves": 2, "rave_bias": 0.01, "nakade": True}
    flags |= {"reuse": True, "resign": -0.95} | more
    return Side(simulations=simulations, **flags)


_UCT = _our_side(
    search="uct", playouts="mogo", leaves=1, exploration=0.25, first_play=1.0, rave_bias=None
)
_HEURISTIC = {"heuristic": "shape", "heuristic_amaf_visits": 50, "heuristic_good_visits": 12}
_TAUGHT = {"shapes": RESULTS / "taught_9.safetensors"}
"""Values of local shapes that were learnt from a network, not by self-play."""
_EXPERTS = {"priors": "mm", "expert_bonus": 0.1, "expert_visits": 1.0}
"""Chaslot's expert bias (2010): a bonus by the probabilities of a policy learnt by MM."""

_HEURISTIC_SEARCHES = "heuristic", "heuristic-10000", "taught-experts", "taught-experts-10000"

_LITERAL = Side(**settings_of("literal", 9), resign=-0.95)
"""Algorithm 2 as the paper prints it, but that a playout's passes are not credited."""
_PLAIN = {"leaves": 1, "nakade": False, "reuse": False}
_DEVIATIONS = {
    "first-action": {"first_action": True},
    "same-colour": {"rave_colours": "same"},
    "legal": {"rave_legal": True},
    "eval": {"final_move": "eval"},
}
"""The settings in which the printed algorithm differs from our default."""

_FORMS = {
    "ancestor": {"rave_ancestor": 20},
    "learnt-bias": {"rave_bias": "learnt"},
    "mean-amaf": {"rave_mean": "amaf"},
    "mean-mixture": {"rave_mean": "mixture"},
    "plain-bonus": {"exploration": 0.1, "rave_bonus": "plain"},
    "even-game": {"heuristic": "even", "heuristic_amaf_visits": 10, "heuristic_eyes": True},
    "truncated": {"playout_moves": 60},
    "pruned": {"nodes": 300},
}
"""Forms that the paper mentions or tries besides its Algorithm 2."""
_UCT_FORMS = {
    "max": {"backup": "max", "resign": None},  # its values are near 0 or 1 from the first move
    "mix": {"backup": "mix"},
    "tuned": {"ucb_tuned": True, "exploration": 0.5},
    "exploration-0.1": {"exploration": 0.1},
    "exploration-0.5": {"exploration": 0.5},
    "first-play-0.7": {"first_play": 0.7},
    "first-play-1.3": {"first_play": 1.3},
}
"""Of UCT: the first two are Coulom's backups, the others what MoGo varied."""

_SMALL_K = {
    "small-k": {},
    "small-k-first-action": {"first_action": True},
    "small-k-per-action": {"rave_per_action": True},
    "small-k-exploration": {"exploration": 0.1},
    "small-k-exploration-0.25": {"exploration": 0.25},
    "small-k-reuse": {"exploration": 0.1, "reuse": True},
    "small-k-initial-0.5": {"rave_initial": 0.5},
    "small-k-initial-0.6": {"rave_initial": 0.6, "exploration": 0.05},
    "small-k-initial-1.1": {"rave_initial": 1.1},
    "small-k-grandfather": {
        "heuristic": "grandfather",
        "heuristic_visits": 1,
        "exploration": 0.05,
    },
}
"""Variants that might let k = 1 win as in Figure 5."""
_FIGURE_5 = {"leaves": 1, "reuse": False, "resign": -0.9}


def _small_k_match(games: int = 40, **flags) -> Match:
    player = _our_side(
        **(_FIGURE_5 | {"playouts": "mogo", "rave_bias": None, "rave_k": 1.0} | flags)
    )
    return Match(player, games, opponent=_our_side(**_FIGURE_5, playouts="mogo"), openings=4)


MATCHES = {
    "uct": Match(_UCT, 200, (0.12, 0.40), None, "24%"),
    "rave": Match(_our_side(), 200, (0.50, 1.0), 0.65, "50-60%"),
    "heuristic": Match(_our_side(**_HEURISTIC), 400, (0.69, 1.0), 0.80, "69%"),
    "heuristic-10000": Match(_our_side(10_000, **_HEURISTIC), 200, (0.82, 1.0), 0.90, "82%"),
    "taught": Match(_our_side(3000, **_HEURISTIC, **_TAUGHT), 400, (0.69, 1.0), 0.80),
    "taught-10000": Match(_our_side(10_000, **_HEURISTIC, **_TAUGHT), 200, (0.82, 1.0), 0.90),
    "taught-experts": Match(
        _our_side(3000, **_HEURISTIC, **_TAUGHT, **_EXPERTS), 400, (0.69, 1.0), 0.80
    ),
    "taught-experts-10000": Match(
        _our_side(10_000, **_HEURISTIC, **_TAUGHT, **_EXPERTS), 200, (0.82, 1.0), 0.90
    ),
    "taught-experts-100000": Match(
        _our_side(100_000, leaves=8, nodes=50_001, **_HEURISTIC, **_TAUGHT, **_EXPERTS), 100
    ),
    "playouts": Match(
        _our_side(400, leaves=1, nakade=False),
        200,
        (0.70, 1.0),
        0.85,
        opponent=_our_side(400, playouts="uniform", leaves=1, nakade=False),
        openings=2,
    ),
    "literal": Match(_LITERAL, 200, opponent=_our_side(**_PLAIN), openings=4),
} | {
    f"literal-{name}": Match(
        _our_side(1000, **_PLAIN, **flags), 100, opponent=_our_side(1000, **_PLAIN), openings=4
    )
    for name, flags in _DEVIATIONS.items()
}
MATCHES |= {
    f"literal-{name}": Match(
        dataclasses.replace(player, **flags), 100, opponent=_our_side(**_PLAIN), openings=4
    )
    for name, player, flags in (
        ("but-visits", _LITERAL, {"final_move": "visits"}),
        ("eval-3000", _our_side(**_PLAIN), {"final_move": "eval"}),
    )
}
MATCHES["uct-literal"] = Match(
    Side(**settings_of("literal-uct", 9), resign=-0.95), 400, paper="24%"
)

MATCHES |= {
    f"form-{name}": Match(
        _our_side(1000, **(_PLAIN | flags)), 100, opponent=_our_side(1000, **_PLAIN), openings=4
    )
    for name, flags in _FORMS.items()
}
_PLAIN_UCT = dataclasses.replace(_UCT, simulations=1000, nakade=False, reuse=False)
MATCHES |= {
    f"form-{name}": Match(
        dataclasses.replace(_PLAIN_UCT, **flags), 100, opponent=_PLAIN_UCT, openings=4
    )
    for name, flags in _UCT_FORMS.items()
}
MATCHES |= {
    f"{name}-1-leaf": dataclasses.replace(
        MATCHES[name], player=dataclasses.replace(MATCHES[name].player, leaves=1)
    )
    for name in ("rave", *_HEURISTIC_SEARCHES)
}


def _by_time(seconds: int, simulations: int, heuristic: str = "") -> Side:
    """MC-RAVE as `_our_side`, as a program with a clock, with more simulations than it has time for
    and eight leaves a step, so that more of them fit."""
    command = f"gozero gtp --size 9 --search rave --simulations {simulations} --leaves 8"
    command += f" --rave-bias 0.01 --nakade --resign -0.95 {heuristic} --seed {{game}}"
    return Side(command=command, main_time=seconds)


def _flags(settings: dict) -> str:
    return " ".join(f"--{k.replace('_', '-')} {v}" for k, v in settings.items())


_HEURISTIC_FLAGS = _flags(_HEURISTIC)
_TAUGHT_EXPERTS_FLAGS = _flags(_HEURISTIC | _TAUGHT | _EXPERTS)
BY_TIME = {
    "rave-1-minute": Match(_by_time(60, 120_000), 200),
    "rave-10-minutes": Match(_by_time(600, 1_000_000), 200),
    "heuristic-1-minute": Match(_by_time(60, 120_000, _HEURISTIC_FLAGS), 200),
    "heuristic-10-minutes": Match(
        _by_time(600, 1_000_000, _HEURISTIC_FLAGS), 200, (0.92, 1.0), 0.97
    ),
    "taught-experts-1-minute": Match(_by_time(60, 120_000, _TAUGHT_EXPERTS_FLAGS), 200),
    "taught-experts-10-minutes": Match(
        _by_time(600, 1_000_000, _TAUGHT_EXPERTS_FLAGS), 200, (0.92, 1.0), 0.97
    ),
}
"""The rows of Table 1 by time a game, and the same of `taught-experts`."""


def _strong(size: int, **more) -> Side:
    """MC-RAVE as the player `strong` of boards without a network, but for its expert bias."""
    return Side(**strong_without_experts(size), reuse=True, resign=-0.95, **more)


def _large(size: int, games: int, level: int, **experts) -> Match:
    opponent = Side(command=GNUGO if level else GNUGO_0)
    return Match(_strong(size, **experts), games, opponent=opponent, size=size)


LARGE = {
    f"{size}x{size}-{level}": _large(size, games, level)
    for size, games in ((13, 100), (19, 40))
    for level in (0, 10)
} | {f"13x13-strong-{level}": _large(13, 100, level, **_EXPERTS) for level in (0, 10)}
"""Larger boards, named by board and GNU Go's level; on 13x13 `strong` is now the one with an expert
bias."""
_KATAGO = _EXPERTS | {"priors": "katago"}
"""Experts who learnt from games of KataGo, and see a move's distance from the last."""
LARGE_EXPERTS = {
    f"{size}x{size}-{name}": Match(
        _strong(size, **experts), games, opponent=_strong(size, **others), size=size, openings=4
    )
    for size, games in ((13, 100), (19, 40))
    for name, experts, others in (("experts", _EXPERTS, {}), ("katago", _KATAGO, _EXPERTS))
}
"""The player of larger boards with an expert bias against the one without, and with experts who
learnt from KataGo against those."""
VERSION = {
    f"{name}-3.7.10": dataclasses.replace(MATCHES[name], opponent=Side(command=GNUGO_3_7_10))
    for name in ("uct", "rave", "heuristic", "heuristic-10000")
} | {
    "gnugo-3.8-3.7.10": Match(
        Side(command=GNUGO), 200, opponent=Side(command=GNUGO_3_7_10), openings=2
    )
}
"""Matches against GNU Go 3.7.10, the paper's version, which must be on the PATH as gnugo-3.7.10."""
MATCHES |= {name: _small_k_match(**flags) for name, flags in _SMALL_K.items()}
MATCHES["small-k-uct"] = _small_k_match(search="uct", rave_k=None, exploration=0.25, first_play=1.0)
MATCHES |= {
    f"per-action-k-{k}": _small_k_match(100, rave_k=float(k), rave_per_action=True)
    for k in (10, 30, 100, 1000, 10_000)
}
MATCHES |= {
    f"rave-{form}k-{k}": Match(
        _our_side(
            leaves=1, playouts="mogo", rave_bias=None, rave_k=float(k), rave_per_action=bool(form)
        ),
        100,
        paper="50-60%",
    )
    for form in ("", "per-action-")
    for k in (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000)
}
MATCHES |= {
    f"as-uct-k-{k}": Match(
        _our_side(
            1000,
            **(_FIGURE_5 | {"playouts": "mogo", "rave_bias": None, "rave_k": float(k)}),
            exploration=_UCT.exploration,
            rave_initial=_UCT.first_play,
        ),
        100,
        opponent=dataclasses.replace(_UCT, simulations=1000, reuse=False, resign=-0.9),
        openings=4,
    )
    for k in (1, 10, 100, 1000)
}
MATCHES |= BY_TIME | LARGE | LARGE_EXPERTS | VERSION
"""The matches by name. Two of our players meet in `playouts` (MoGo's against uniform ones), in
`literal` (the paper's algorithm as printed, against our default), in `literal-*` (one part of it),
`form-*` (another form of a part), `small-k*`, `per-action-k-*` (Eq. 19 by the action's own visits),
and `as-uct-k-*` (MC-RAVE with UCT's exploration and value of untried actions, against UCT);
`rave-k-*` and `rave-per-action-k-*` are points of Figure 5, with Eq. 19 as printed and by the
action's own visits, and otherwise as `rave-1-leaf`; `*-1-leaf` evaluate one leaf a step, as the
paper's search does, where the matches without this ending evaluate two; those named by a board are
`LARGE` and `LARGE_EXPERTS`. The paper is Gelly & Silver (2011), who used GNU Go 3.7.10, the
opponent in `VERSION`.
"""


@dataclasses.dataclass(frozen=True)
class AgainstGnugoConfig(MatchesConfig):
    """Our searches against GNU Go 3.8, 9x9 and at level 10 unless the name says otherwise, komi 7,
    area scoring, positional superko on both sides, dead stones played out. Each match is run by
    `gozero match` in a folder of its own; the same command resumes where it was stopped."""

    MATCHES: ClassVar = MATCHES
    QUICK: ClassVar = {"only": ("playouts",), "games": 4, "parallel": 4}

    only: tuple[str, ...] = setting(
        tuple(name for name in MATCHES if name not in BY_TIME | LARGE | LARGE_EXPERTS | VERSION)
    )
    """Which matches to play. By default all but those by time a game (*-1-minute, *-10-minutes),
    with a minute or ten for our moves of each game, of which a core plays one at a time, those on
    13x13 and 19x19, and those against another version of GNU Go (*-3.7.10)."""

    out: pathlib.Path = setting(pathlib.Path("runs/against_gnugo"))
    """The folder of the matches, results.csv and results.svg."""

    EXAMPLES = (
        "python -m experiments.against_gnugo.run",
        "python -m experiments.against_gnugo.run --games 20 --parallel 8",
        "python -m experiments.against_gnugo.run --only heuristic-1-minute",
    )
