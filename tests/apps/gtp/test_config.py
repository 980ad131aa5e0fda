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
        ({"size": 26}, "--size 26: expected from 2 to 25"),
        ({"komi": 6.3}, "--komi 6.3: expected a multiple of 0.5 from -1000 to 1000"),
        ({"komi": float("inf")}, "--komi inf: expected a finite number"),
        ({"ko": "super"}, "--ko super: expected one of simple, positional, situational"),
        ({"evaluator": "guess"}, "--evaluator guess: expected one of network, playout"),
        (
            {"weights": "x.npz"},
            "--weights x.npz: only with --evaluator network; playouts have none",
        ),
        ({"simulations": 0}, "--simulations 0: expected from 1"),
        ({"leaves": 0}, "--leaves 0: expected from 1 to the 400 of --simulations"),
        ({"leaves": 500}, "--leaves 500: expected from 1 to the 400 of --simulations"),
        (
            {"simulations": 131_070, "leaves": 64},
            "--simulations 131072, .*: expected at most 131070",
        ),
        ({"search": "alpha-beta"}, "--search alpha-beta: expected one of puct, uct, rave"),
        ({"search": "gumbel", "trees": 2}, "--trees 2: not with --search gumbel"),
        (
            {"search": "gumbel", "reuse": False, "exploration": 1.0},
            "--exploration 1.0: not with --search gumbel",
        ),
        (
            {"search": "rave", "evaluator": "network"},
            "--search rave: only with --evaluator playout; only playouts say",
        ),
        ({"exploration": -1.0}, "--exploration -1.0: expected from 0"),
        ({"rave_k": 100.0}, "--rave-k 100.0: only with --search rave"),
        ({"search": "rave", "rave_k": 0.0}, "--rave-k 0.0: expected above 0"),
        ({"search": "rave", "rave_bias": 2.0}, "--rave-bias 2.0: expected from 0 to 1"),
        (
            {"search": "rave", "rave_k": 1.0, "rave_bias": 0.1},
            "--rave-k 1.0: not with --rave-bias; give one schedule",
        ),
        (
            {"search": "rave", "heuristic": "shape", "size": 13},
            r"--heuristic shape: has no local shapes of 13x13; those of 7x7 and 9x9 come with",
        ),
        ({"seconds": 0.0}, "--seconds 0.0: expected above 0"),
        ({"seconds": float("nan")}, "--seconds nan: expected a finite number above 0"),
        ({"seconds": 1e9}, "--seconds 1000000000.0: expected above 0 and at most 86400"),
        ({"resign": 0.5}, "--resign 0.5: expected from -1 to below 0"),
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
