"""The learnt bias of all-moves-as-first values: in a game where it is known, and as a flag."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

from gozero.apps import flags
from gozero.apps.gtp.config import GtpConfig
from gozero.go.rules import Rules
from gozero.play import bias
from gozero.play.player_config import PlayerConfig
from gozero.play.setups import make_setup
from gozero.search.config import Amaf, SearchConfig
from gozero.search.game import Evaluation, Evaluator, Game
from gozero.search.rules.rave import AmafOnly, MinimumMse, Rave

A = 3


def game() -> Game:
    """Moves without any effect; a game lasts long enough not to end."""
    return Game(
        num_actions=A,
        init=lambda key: jnp.zeros((), jnp.int32),
        play=lambda state, action: state + 1,
        legal=lambda state: jnp.ones(A, bool),
        outcome=lambda state: (jnp.zeros((), bool), jnp.zeros(())),
        observe=lambda state: state,
        max_moves=99,
    )


def coin(params, key, plies):
    """Playouts won by chance, which play every action for the player to move."""
    won = jax.random.bernoulli(key, 0.5, plies.shape)
    played = jnp.zeros((*plies.shape, 2, A), bool).at[:, 0].set(True)
    return Evaluation(jnp.zeros((*plies.shape, A)), jnp.where(won, 1.0, -1.0), played)


@pytest.mark.thorough
def test_chance_is_not_bias():
    search = SearchConfig(400, select=Rave(AmafOnly(), c=1.0), amaf=Amaf(), max_depth=1)
    evaluator = Evaluator(coin)
    measured = bias.measure(game(), evaluator, search, games=8, moves=2, least=30)
    assert measured.actions == 8 * 2 * A
    assert measured.bias < 0.02  # of values with a standard deviation of 0.04
    with pytest.raises(ValueError, match="no action had 500 visits"):
        bias.measure(game(), evaluator, search, games=2, moves=1, least=500)


@pytest.mark.thorough
def test_a_known_bias_is_found():
    """Action a wins with probability 0.7, 0.5 or 0.3, and every playout plays all three: their
    all-moves-as-first values are 0.5, so b^2 = (0.2^2 + 0 + 0.2^2) / 3."""
    chances = jnp.array([0.7, 0.5, 0.3])
    last = game()._replace(play=lambda state, action: (state // A + 1) * A + action)

    def biased(params, key, states):
        lost = jax.random.bernoulli(key, chances[states % A])  # by the player to move at the leaf
        played = jnp.ones((*states.shape, 2, A), bool)
        return Evaluation(jnp.zeros((*states.shape, A)), jnp.where(lost, -1.0, 1.0), played)

    search = SearchConfig(400, select=Rave(AmafOnly(), c=1.0), amaf=Amaf(), max_depth=1)
    measured = bias.measure(last, Evaluator(biased), search, games=8, moves=2, least=30)
    assert measured.actions == 8 * 2 * A
    assert measured.bias == pytest.approx((0.08 / 3) ** 0.5, abs=0.025)


@pytest.mark.thorough
def test_the_flag_measures_it_once_for_a_board(monkeypatch, capsys):
    monkeypatch.setattr(bias, "SIMULATIONS", 64)
    monkeypatch.setattr(bias.measure, "__defaults__", (2, 2, 5, 0))
    config = flags.parse(
        GtpConfig, ["--search", "rave", "--rave-bias", "learnt", "--size", "3"], prog="gozero gtp"
    )
    rules = Rules(3)
    setup = make_setup(rules, config)
    found = setup.evaluator.about["learnt_bias"]
    assert setup.search.select == Rave(MinimumMse(found))
    assert 0 <= found <= 1
    assert f"learnt bias of all-moves-as-first values on 3x3: {found:g}" in capsys.readouterr().err
    again = make_setup(rules, PlayerConfig(search="rave", rave_bias="learnt", simulations=9))
    assert again.evaluator.about == setup.evaluator.about
    assert capsys.readouterr().err == ""


def test_what_the_bias_may_be(capsys):
    with pytest.raises(SystemExit):
        flags.parse(GtpConfig, ["--search", "rave", "--rave-bias", "x"], prog="gozero gtp")
    message = "--rave-bias x: expected a number from 0 to 1 or learnt\n"
    assert capsys.readouterr().err.endswith(message)
    with pytest.raises(ValueError, match="learnt applies only to Go"):
        PlayerConfig(search="rave", rave_bias="learnt", playouts="uniform").check_other_game()
