"""Self-play for training with a real search: what the scripted one of `test_games` leaves out."""

from __future__ import annotations

import dataclasses

import chex
import jax
import numpy as np
import pytest

from gozero.games.connect_four import connect_four_game
from gozero.games.go import go_game
from gozero.games.rollouts import rollout_evaluator
from gozero.go.rules import Rules
from gozero.play import searches, selfplay
from gozero.play.openings import Openings
from gozero.play.selfplay_config import SelfPlayConfig
from gozero.search.config import SearchConfig
from gozero.search.game import Evaluator
from gozero.search.move_choice import Temperature
from gozero.search.rules.puct import Puct
from tests.hlo import AS_USERS_HAVE_IT, moves_in_loops
from tests.search.evaluators import hash_evaluate, observe_position
from tests.test_invariants import export
from tests.train import scripted
from train import buffer as buffers
from train import games

RULES = Rules(size=3, ko="simple", max_moves=14)
EVALUATOR = Evaluator(hash_evaluate(10, 1.0, 0.5), None, observe_position, Puct())
CONFIG = dataclasses.replace(scripted.CONFIG, game=go_game(RULES), stagger=None)
BUFFER = dataclasses.replace(scripted.BUFFER, capacity=77)


@pytest.mark.slow  # other tests in tests/train cover whole runs with full searches only
@pytest.mark.parametrize("cap", [None, CONFIG.cap])
def test_searches_play_and_fill_the_buffer(cap):
    """Either all searches are full, or one program holds a cheap and a full one, compiled once."""
    config = dataclasses.replace(CONFIG, cap=cap)
    play = games.make_play(config, BUFFER, EVALUATOR, num_moves=8)
    playing = games.start(config, BUFFER, seed=2)
    shapes = jax.tree.map(lambda x: (x.shape, x.dtype), playing)
    ended, full = 0, []
    for _ in range(5):
        playing, seen = play(None, playing)
        ended += int(seen.ended.sum())
        full.append(np.asarray(seen.full))
        assert seen.ok.all()
    assert jax.tree.map(lambda x: (x.shape, x.dtype), playing) == shapes
    assert play._cache_size() == 1
    assert int(playing.lanes.moves) == 40
    assert int(playing.lanes.next_game) == CONFIG.batch + ended
    assert np.concatenate(full).all() == (cap is None)
    assert np.concatenate(full).any()
    rows = playing.buffer.rows
    assert int(playing.buffer.size) == 77
    assert (rows.policy_target.max(axis=1) == 255).all()
    legal = np.unpackbits(rows.legal, axis=1, count=10)
    assert not np.asarray(rows.policy_target)[legal == 0].any()
    chex.assert_tree_all_finite(rows)


def test_self_play_lowers_for_every_platform(monkeypatch):
    """Everything but the search, which has its own test of invariant 7."""
    monkeypatch.setattr(selfplay, "search", scripted.search)
    shapes = jax.eval_shape(scripted.start)
    export(jax.jit(scripted.scan), shapes)


@pytest.mark.slow
def test_each_number_of_simulations_is_compiled_once():
    play = games.make_play(CONFIG, BUFFER, EVALUATOR, num_moves=2)
    playing = games.start(CONFIG, BUFFER, seed=2)
    for number in (None, 4, None, 4):
        playing, _ = play(None, playing, num_simulations=number)
    assert play._cache_size() == 2
    with pytest.raises(ValueError, match="num_simulations: 9"):
        play(None, playing, num_simulations=9)


@pytest.mark.slow
def test_puct_with_noise_may_be_used():
    """A search without its own root rule plays the most visited move when no move is drawn."""
    game = go_game(RULES)
    search = searches.puct_search(game, EVALUATOR, 8)
    temperature = Temperature(moves=0)
    config = SelfPlayConfig(game, 4, search, 3.0, temperature=temperature, stagger=0)
    lanes = selfplay.start(config, 0)
    made = jax.jit(lambda x: selfplay.move(config, EVALUATOR, None, x))(lanes)[1]
    assert made.full.all()
    target = np.asarray(made.policy_target)
    np.testing.assert_array_equal(target[np.arange(4), made.action], target.max(axis=1))


@pytest.mark.slow
def test_invariant_2_for_loop_carries():
    """No loop copies the ring, the games in play or their past boards."""
    game = go_game(dataclasses.replace(RULES, ko="positional"))
    config = dataclasses.replace(CONFIG, game=game, batch=5)
    play = games.make_play(config, BUFFER, EVALUATOR, num_moves=2)
    playing = jax.eval_shape(lambda: games.start(config, BUFFER, 0))
    lowered = play.lower(None, playing)
    text = lowered.compile(compiler_options=AS_USERS_HAVE_IT).as_text()
    for leading in (BUFFER.capacity, config.batch * RULES.move_limit):
        assert moves_in_loops(text, leading) == []


@pytest.mark.thorough
def test_any_game_has_rows():
    """Connect Four's rows have a position and the mover's result, but no komi, score or area."""
    four = connect_four_game(4, 4)
    config = SelfPlayConfig(four, 3, SearchConfig(4), openings=Openings(0, 2), stagger=0)
    kept = buffers.BufferConfig(64, surprise=0.5)
    evaluator = rollout_evaluator(four)
    playing = games.start(config, kept, 0)
    shapes = jax.tree.map(lambda x: (x.shape, x.dtype), playing)
    playing, events = games.make_play(config, kept, evaluator, 20)(None, playing)
    assert jax.tree.map(lambda x: (x.shape, x.dtype), playing) == shapes
    rows = jax.tree.map(lambda x: np.asarray(x[: playing.buffer.size]), playing.buffer.rows)
    assert rows.komi is rows.score is rows.area is rows.past is events.komi is None
    assert events.ended.sum() == len(np.unique(rows.game)) > 3
    value, in_play = events.calibration.value, playing.games.predicted
    assert value.count.sum() == playing.buffer.added  # a prediction per row, ...
    np.testing.assert_array_equal(in_play[:, 0].sum(axis=1), playing.games.length)
    assert events.calibration.policy.observed.sum() == pytest.approx(3)  # ... and shares of visits
    number, ends = [0, 1, 2], {}
    for t, lane in zip(*np.nonzero(events.ended), strict=True):
        ends[number[lane]] = float(events.outcome[t, lane])
        number[lane] = 2 + len(ends)
    stones = np.sum([np.bitwise_count(word) for words in rows.position for word in words], axis=0)
    for game, ply, outcome in zip(rows.game, stones, rows.outcome, strict=True):
        assert outcome == (ends[int(game)] if ply % 2 == 0 else -ends[int(game)])
    legal = np.unpackbits(rows.legal, axis=1, count=4)
    assert not rows.policy_target[legal == 0].any()
