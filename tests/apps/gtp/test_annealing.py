"""GTP with simulated annealing."""

from __future__ import annotations

import time

import jax
import numpy as np
import pytest

from gozero.apps.gtp import search
from gozero.apps.gtp.config import GtpConfig
from gozero.apps.gtp.engine import Engine
from gozero.apps.gtp.search import make_searcher
from gozero.go.rules import Rules
from gozero.play.annealing import Annealing, best, learn
from gozero.play.player_config import PlayerConfig
from gozero.play.setups import make_player
from tests.apps.gtp.sharing import sharing
from tests.apps.gtp.test_td import Clock


@pytest.fixture(scope="module", autouse=True)
def _compiled_once():
    key = lambda rules, config, *more: (rules, config.simulations)
    make = sharing(search.AnnealingSearcher, ("_round", "_best"), key)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "AnnealingSearcher", make)
        yield


def config(**more):
    fixed = {"size": 3, "ko": "simple", "reuse": False, "search": "annealing", "simulations": 256}
    return GtpConfig(**fixed | more)


@pytest.mark.thorough
def test_chunked_search_plays_the_move_of_a_whole_search():
    """Black's centre wins at this komi, and White then resigns."""
    engine = Engine(config(komi=0.5, resign=-0.05))
    own = Annealing(engine.game.rules, 256)
    state, key = engine.game.state, jax.random.fold_in(jax.random.key(0), np.uint32(0))
    states = jax.tree.map(lambda x: x[None], state)
    values = jax.jit(lambda: learn(own, key, states))()
    action, value = best(own, key, states, np.ones((1, 10), bool), values)
    result = engine.searcher.search(state, 0, 0)
    assert (result.action, result.value) == (int(action[0]), pytest.approx(float(value[0])))
    assert engine.genmove(0) == 4
    assert engine.genmove(1) is None


@pytest.mark.parametrize(("seconds", "rounds"), [(1.0, 1), (6.5, 6), (100.0, 8)])
def test_rounds_stop_at_the_time_limit(seconds, rounds):
    """By hand: each look at the clock takes a second; 256 simulations are 8 rounds."""
    searcher = make_searcher(Rules(3, ko="simple"), config(), Clock())
    left, one_round = [], searcher._round
    searcher._round = lambda *args: left.append(float(args[4])) or one_round(*args)
    state = Engine(config()).game.state
    assert searcher.search(state, 0, 0, seconds=seconds).ok
    assert len(left) == rounds
    # The first look at the clock shows that one second has passed.
    expected = [1 - max(i / 8, (i + 1) / seconds) for i in range(rounds)]
    np.testing.assert_allclose(left, np.maximum(expected, 0), atol=1e-6)


@pytest.mark.parametrize("clock", [time.monotonic, lambda: 5.0])
def test_one_round_is_always_played(clock):
    """One round is played without time, as in `gozero warmup`, and on a clock that stands still."""
    searcher = make_searcher(Rules(3, ko="simple"), config(), clock)
    searcher.warm_up()
    assert searcher.search(Engine(config()).game.state, 0, 0, seconds=0.0).ok


def test_tree_flags_are_refused():
    with pytest.raises(ValueError, match="--leaves 2: not with --search td, annealing or random"):
        config(leaves=2)
    with pytest.raises(ValueError, match="no tree, so it cannot avoid moves"):
        make_searcher(Rules(3), config(), avoids=True)
    player = make_player(Rules(3), PlayerConfig(search="annealing"))
    assert player.about == {"evaluator": "ordered playouts"}
