"""The search with a KataGo network, against KataGo's own search."""

from __future__ import annotations

import json

import jax
import numpy as np
import pytest

import gozero
from gozero.go import coords
from gozero.play.player_config import PlayerConfig
from gozero.play.setups import make_setup
from gozero.search import root
from gozero.search.rules.katago import lower_bound
from tests.nets.test_katago import DATA, NETWORK, states_of
from tests.play import katago_searches


@pytest.mark.thorough
@pytest.mark.parametrize("score", ["on", "off"])
def test_visits_bounds_results_and_moves_are_those_of_katago(score):
    if not NETWORK.exists():
        pytest.skip(f"{DATA} has no network of KataGo; GOZERO_KATAGO may name another folder")
    rules = gozero.Rules(9, "positional", suicide=True)
    simulations = katago_searches.VISITS - 1
    options = {"symmetries": "one", "simulations": simulations, "score_utility": score}
    setup = make_setup(rules, PlayerConfig("network", weights=NETWORK, **options))
    searched = json.loads(katago_searches.FILE.read_text())
    searched = [row for row in searched if row["score"] == (score == "on")]
    assert len(searched) == len(katago_searches.POSITIONS)
    rows = [
        {"komi": row["komi"], "moves": moves, "to_play": "BW"[len(moves) % 2]}
        for row in searched
        for moves in [row["moves"].split()]
    ]
    game, key = gozero.go_game(rules), jax.random.key(0)

    @jax.jit
    def search(params, states):
        evaluator = setup.evaluator._replace(params=params)
        return gozero.search(game, evaluator, key, states, setup.search)

    result = search(setup.evaluator.params, states_of(rules, rows))
    edges, rule = root.evaluated_edges(result.tree), setup.search.root_select
    bounds = np.asarray(lower_bound(edges.visits, edges.q, edges.variance, radius=rule.radius))
    for b, row in enumerate(searched):
        wanted = np.zeros_like(result.visits[b])
        for move, (count, bound, won) in row["found"].items():
            action = coords.from_gtp(9, move)
            wanted[action] = count
            np.testing.assert_allclose(bounds[b, action], bound, atol=0.002)
            np.testing.assert_allclose(result.q[b, action], won, atol=0.002)
        assert wanted.sum() == simulations
        # Sums in another order: two nearly equal scores may swap places.
        assert np.abs(result.visits[b] - wanted).sum() <= 2
        assert coords.to_gtp(9, int(result.action[b])) == next(iter(row["found"]))
