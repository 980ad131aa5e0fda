"""The flags of ``gozero gtp``: what is refused, and by which limits."""

from __future__ import annotations

import pytest

from gozero.apps import host_game
from gozero.apps.gtp.config import GtpConfig
from gozero.go import coords
from gozero.play import player_config
from gozero.search.values import MAX_VISITS
from gozero.td import weights as shape_weights


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"size": 26}, "size: 26 is not a board size from 2 to 25"),
        ({"komi": 6.3}, "komi: 6.3"),
        ({"komi": float("inf")}, "komi: inf"),
        ({"ko": "super"}, "ko: 'super'"),
        ({"evaluator": "guess"}, "evaluator: 'guess'"),
        ({"weights": "x.npz"}, "playouts take none"),
        ({"simulations": 0}, "simulations: 0 is not from 1"),
        ({"leaves": 0}, "leaves: 0 is not from 1 to the 400 simulations"),
        ({"leaves": 500}, "leaves: 500 is not from 1 to the 400"),
        ({"simulations": 131_070, "leaves": 64}, "simulations: 131072 is above 131070"),
        ({"search": "alpha-beta"}, "search: 'alpha-beta' is not one of puct, uct, rave"),
        ({"search": "gumbel", "leaves": 2}, "gumbel goes with one tree and one leaf"),
        ({"search": "gumbel", "reuse": False, "exploration": 1.0}, "not of --search gumbel"),
        ({"search": "rave", "evaluator": "network"}, "search: rave asks .* only playouts say"),
        ({"exploration": -1.0}, "exploration: -1.0"),
        ({"rave_k": 100.0}, "only --search rave has a schedule"),
        ({"search": "rave", "rave_k": 0.0}, "rave_k: 0.0 is not above 0"),
        ({"search": "rave", "rave_bias": 2.0}, "rave_bias: 2.0 is not from 0 to 1"),
        ({"search": "rave", "rave_k": 1.0, "rave_bias": 0.1}, "give one schedule"),
        ({"trees": 2}, "trees: 2 with reuse; use --no-reuse"),
        (
            {"search": "rave", "heuristic": "shape", "size": 13},
            r"heuristic: shape has no local shapes of 13x13; those of 7x7 and 9x9 come with",
        ),
        ({"seconds": 0.0}, "seconds: 0.0 is not above 0"),
        ({"seconds": float("nan")}, "seconds: nan"),
        ({"seconds": 1e9}, "seconds: 1000000000.0"),
        ({"resign": 0.5}, "resign: 0.5 is not a value from -1"),
        ({"seed": -1}, "--seed -1: expected from 0"),
    ],
)
def test_bad_flags(flags, message):
    with pytest.raises(ValueError, match=message):
        GtpConfig(**flags)


def test_gumbel_turns_reuse_off():
    assert GtpConfig().reuse
    assert not GtpConfig(search="gumbel").reuse


def test_limits_are_those_of_the_rooms_below():
    assert player_config.MAX_SIMULATIONS == MAX_VISITS
    assert set(player_config.SHAPE_SIZES) == set(shape_weights.shipped())
    assert all(
        host_game.roomy_limit(n) < 2**15 for n in range(coords.MIN_SIZE, coords.MAX_SIZE + 1)
    )
