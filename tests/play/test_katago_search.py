"""The search with a network of KataGo, beside KataGo's own."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import gozero
from gozero.go import coords
from gozero.play.player_config import PlayerConfig
from gozero.play.setups import make_setup
from tests.nets.test_katago import DATA, NETWORK, states_of

SEARCHED = (
    # komi, moves, visits
    (
        6.5,
        "",
        "E5:47 F5:33 E4:29 E6:25 D5:23 F4:12 F6:11 D4:10 D6:10",
    ),
    (
        7,
        "A8 E5 F3 F4 G4 G5 G3 D4 H5 G6 B6 C7",
        "H6:119 C3:29 C6:27 C8:16 B7:5 D7:2 B4:1 C5:1",
    ),
    (
        5.5,
        "F5 B7 D5 F3 G3 G2 E3 F4 G4 E4 E5 D4 C4 C3 C5 E7 F8 G5 H2 E2 G6 E8 C7 G8",
        "F7:158 C8:29 G7:4 H8:3 F2:2 B3:1 D8:1 G1:1 D7:1",
    ),
    (
        5.5,
        "G9 F7 D4 D6 F4 G6 H5 H6 C6 C7 B6 G4 D7 G3 F5 D8 G5 E2 D2 E3 D3 H4 J6 E4 E6 D5 E7 "
        "E5 E8 F6 F8 F3 C5 H7 D1 E9",
        "H8:184 C8:8 G8:4 F9:2 B7:1 D9:1",
    ),
    (
        7,
        "E9 J4 E4 D6 G4 G6 E6 E5 F5 D5 E7 D4 F6 E3 F3 F4 C7 F2 E4 H3 H5 D2 B5 B4 C5 D7 D8 "
        "C6 B6 C4 J5 B7 C8 A6 E2 F4 G3 G5 E4 E1 G2 H4 F4 H2 D3 C3 H7 G7",
        "H6:140 H1:36 G8:10 H8:7 B8:6 G1:1",
    ),
    (
        9,
        "F2 F9 E6 C6 C4 F6 F7 G7 F5 G6 D6 G5 F4 C5 D4 C8 C7 B4 D8 F8 B7 C3 C2 D5 D3 G3 G4 "
        "E7 B8 D7 E5 H4 F3 G2 H5 H3 G1 H1 F1 D9 C9 E9 C8 B2 B3 A3 A5 C3 B5 D2 B3 B1 A4 F7 "
        "B6 E8 J2 J3 E2 J7",
        "D1:55 A2:43 C1:23 J5:17 C3:8 H2:7 J1:7 C6:5 H6:4 E1:4 E3:4 C5:4 B4:3 A9:3 A7:3 "
        "A8:2 pass:2 D5:2 E4:2 B9:2",
    ),
)
"""Of KataGo 1.17.2, g170-b6c96, 9x9, positional superko, suicide, symmetry 0, 201 visits, and what
gozero does not take over turned off: useGraphSearch, useNoisePruning, useUncertainty,
rootSymmetryPruning, rootPruneUselessMoves, conservativePass and the passing hacks false,
subtreeValueBiasFactor, valueWeightExponent, cpuctUtilityStdevScale, rootEndingBonusPoints and both
score utility factors 0; nnCacheSizePowerOfTwo -1, for the cache does not tell histories apart."""


@pytest.mark.thorough
def test_the_visits_are_those_of_katago():
    if not NETWORK.exists():
        pytest.skip(f"{DATA} has no network of KataGo; GOZERO_KATAGO may name another folder")
    rules = gozero.Rules(9, "positional", suicide=True)
    player = PlayerConfig(evaluator="network", weights=NETWORK, symmetries="one", simulations=200)
    setup = make_setup(rules, player)
    rows = [
        {"komi": komi, "moves": moves.split(), "to_play": "BW"[len(moves.split()) % 2]}
        for komi, moves, _ in SEARCHED
    ]
    states, game, key = states_of(rules, rows), gozero.go_game(rules), jax.random.key(0)
    found = gozero.search(game, setup.evaluator, key, states, setup.search, keep_tree=False)
    for visits, (*_, said) in zip(np.asarray(found.visits), SEARCHED, strict=True):
        wanted = np.zeros_like(visits)
        for move, count in (part.split(":") for part in said.split()):
            wanted[coords.from_gtp(9, move)] = int(count)
        assert wanted.sum() == 200
        # Sums of another order: two scores that are nearly equal may change places.
        assert np.abs(visits - wanted).sum() <= 2
