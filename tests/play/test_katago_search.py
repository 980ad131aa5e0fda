"""The search with a network of KataGo, beside KataGo's own."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import gozero
from gozero.go import coords
from gozero.play.player_config import PlayerConfig
from gozero.play.setups import make_setup
from gozero.search import tree as trees
from gozero.search.rules.katago import lower_bound
from tests.nets.test_katago import DATA, NETWORK, states_of

SEARCHED = (
    # komi, moves, the move that is played, visits and lower bound of each
    (
        6.5,
        "",
        "F5",
        "F5:75:-0.021 E4:28:-0.078 E5:26:-0.062 E6:24:-0.042 D5:15:-0.095 F4:9:-0.118 "
        "F6:8:-0.150 D4:8:-0.138 D6:7:-0.146",
    ),
    (
        7,
        "A8 E5 F3 F4 G4 G5 G3 D4 H5 G6 B6 C7",
        "H6",
        "H6:157:-0.857 C3:16:-0.960 C6:15:-0.968 C8:9:-1.004 B7:2:-1.991 D7:1:-3.403",
    ),
    (
        5.5,
        "F5 B7 D5 F3 G3 G2 E3 F4 G4 E4 E5 D4 C4 C3 C5 E7 F8 G5 H2 E2 G6 E8 C7 G8",
        "F7",
        "F7:159:0.214 C8:30:0.094 G7:3:-0.884 H8:2:-1.078 F2:2:-0.809 B3:1:-2.608 "
        "D8:1:-2.553 G1:1:-2.368 D7:1:-2.580",
    ),
    (
        5.5,
        "G9 F7 D4 D6 F4 G6 H5 H6 C6 C7 B6 G4 D7 G3 F5 D8 G5 E2 D2 E3 D3 H4 J6 E4 E6 D5 E7 "
        "E5 E8 F6 F8 F3 C5 H7 D1 E9",
        "H8",
        "H8:181:-0.137 C8:10:-1.243 G8:4:-1.249 F9:3:-1.357 B7:1:-3.364 D9:1:-3.067",
    ),
    (
        7,
        "E9 J4 E4 D6 G4 G6 E6 E5 F5 D5 E7 D4 F6 E3 F3 F4 C7 F2 E4 H3 H5 D2 B5 B4 C5 D7 D8 "
        "C6 B6 C4 J5 B7 C8 A6 E2 F4 G3 G5 E4 E1 G2 H4 F4 H2 D3 C3 H7 G7",
        "H6",
        "H6:136:-1.027 H1:30:-1.053 B8:19:-1.105 G8:9:-1.060 H8:6:-1.136",
    ),
    (
        9,
        "F2 F9 E6 C6 C4 F6 F7 G7 F5 G6 D6 G5 F4 C5 D4 C8 C7 B4 D8 F8 B7 C3 C2 D5 D3 G3 G4 "
        "E7 B8 D7 E5 H4 F3 G2 H5 H3 G1 H1 F1 D9 C9 E9 C8 B2 B3 A3 A5 C3 B5 D2 B3 B1 A4 F7 "
        "B6 E8 J2 J3 E2 J7",
        "D1",
        "D1:70:0.997 A2:55:0.996 C1:30:0.992 J5:13:0.909 C3:10:0.947 J1:8:0.916 C6:6:0.859 "
        "E1:6:0.859 H2:1:-1.725 H6:1:-1.597",
    ),
)
"""Of KataGo 1.17.2, g170-b6c96, 9x9, positional superko, suicide, symmetry 0, 201 visits, and what
gozero does not take over turned off: useGraphSearch, useNoisePruning, useUncertainty,
rootSymmetryPruning, rootPruneUselessMoves, conservativePass and the passing hacks false,
subtreeValueBiasFactor, valueWeightExponent, rootEndingBonusPoints and both score utility factors 0;
nnCacheSizePowerOfTwo -1, for the cache does not tell histories apart."""


@pytest.mark.thorough
def test_visits_bounds_and_moves_are_those_of_katago():
    if not NETWORK.exists():
        pytest.skip(f"{DATA} has no network of KataGo; GOZERO_KATAGO may name another folder")
    rules = gozero.Rules(9, "positional", suicide=True)
    player = PlayerConfig("network", weights=NETWORK, symmetries="one", simulations=200)
    setup = make_setup(rules, player)
    rows = [
        {"komi": komi, "moves": moves.split(), "to_play": "BW"[len(moves.split()) % 2]}
        for komi, moves, *_ in SEARCHED
    ]
    states, game, key = states_of(rules, rows), gozero.go_game(rules), jax.random.key(0)
    found = gozero.search(game, setup.evaluator, key, states, setup.search)
    edges = trees.all_edges(found.tree, 0)
    bounds = np.asarray(lower_bound(edges.visits, edges.q, edges.variance))
    for b, (*_, played, said) in enumerate(SEARCHED):
        assert coords.to_gtp(9, int(found.action[b])) == played
        wanted = np.zeros_like(found.visits[b])
        for move, count, bound in (part.split(":") for part in said.split()):
            action = coords.from_gtp(9, move)
            wanted[action] = int(count)
            np.testing.assert_allclose(bounds[b, action], float(bound), atol=0.002)
        assert wanted.sum() == 200
        # Sums of another order: two scores that are nearly equal may change places.
        assert np.abs(found.visits[b] - wanted).sum() <= 2
