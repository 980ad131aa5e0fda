"""What a player's flags come to."""

from __future__ import annotations

import pytest

from gozero.go.rules import Rules
from gozero.players.player_config import PlayerConfig
from gozero.players.setups import make_setup
from gozero.search.amaf import Amaf
from gozero.search.rave import HandSelected, MinimumMse, Rave
from gozero.search.selection import Puct, Ucb1

RULES = Rules(3)


@pytest.mark.parametrize(
    ("flags", "rule"),
    [
        ({}, Puct(3.0, first_play="parent")),
        ({"exploration": 1.0}, Puct(1.0, first_play="parent")),
        ({"search": "uct"}, Ucb1(0.5)),
        ({"search": "uct", "exploration": 0.25}, Ucb1(0.25)),
        ({"search": "rave"}, Rave(MinimumMse(0.1))),
        ({"search": "rave", "rave_bias": 0.02}, Rave(MinimumMse(0.02))),
        ({"search": "rave", "rave_k": 1000.0, "exploration": 0.1}, Rave(HandSelected(1000.0), 0.1)),
    ],
)
def test_rules_of_search(flags, rule):
    player = make_setup(RULES, PlayerConfig(**flags))
    assert player.search.select == rule
    assert player.search.amaf == (Amaf() if flags.get("search") == "rave" else None)
    assert player.search.num_simulations == 400


def test_simulations_come_in_whole_steps():
    config = PlayerConfig(search="rave", simulations=3000, leaves=64)
    search = make_setup(RULES, config).search
    assert (search.num_simulations, search.leaves) == (3008, 64)
    assert config.text == "mogo playouts rave 3008 leaves 64"
    assert PlayerConfig(simulations=3000).text == "uniform playouts puct 3000"


def test_playouts_are_mogos_where_the_paper_has_them():
    policy = lambda **flags: make_setup(RULES, PlayerConfig(**flags)).evaluator.about["policy"]
    assert [policy(), policy(search="rave"), policy(search="uct")] == ["uniform", "mogo", "uniform"]
    assert policy(search="rave", playouts="uniform") == "uniform"
    assert policy(search="uct", playouts="mogo") == "mogo"


def test_what_does_not_go_together_names_the_flag():
    with pytest.raises(ValueError, match=r"^opponent\.search: rave asks"):
        PlayerConfig(evaluator="network", search="rave").check("opponent.")
    with pytest.raises(ValueError, match="playouts: a network plays none"):
        make_setup(RULES, PlayerConfig(evaluator="network", playouts="mogo"))
    with pytest.raises(ValueError, match="leaves: 500 is not from 1 to the 400 simulations"):
        make_setup(RULES, PlayerConfig(leaves=500))
