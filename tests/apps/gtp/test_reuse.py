"""The engine's search continues from the last tree if the game continued from there."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from gozero.apps import host_game
from gozero.apps.gtp import config as gtp_config
from gozero.apps.gtp import engine as gtp_engine
from gozero.apps.gtp import run as gtp_run
from gozero.apps.gtp import search as gtp_search
from gozero.go import rules as go
from gozero.play import setups
from gozero.search.by_step import SeparatePrograms
from gozero.search.config import Ensemble, SearchConfig
from gozero.search.game import Evaluator
from gozero.search.rules.puct import Puct
from gozero.search.runner import TwoPrograms
from tests.search.evaluators import hash_evaluate, observe_position


def test_the_tree_is_reused_when_the_game_continues():
    engine, requests = gtp_engine.Engine(gtp_config.GtpConfig(size=5)), []

    class FakeSearcher:
        def search(self, state, colour, number, played, seconds, look):
            requests.append(played)
            action = next(p for p in range(26) if p not in [a for _, a in engine.game.moves])
            return gtp_search.SearchedMove(action, 0.0, True)

    engine.searches.searcher = FakeSearcher()
    for line in (
        ("genmove", 0),  # another game
        ("genmove", 1),  # after 0
        ("play", 0, 20),
        ("genmove", 1),  # after 1 and 20
        ("genmove", 1),  # the same colour moves twice in a row
        ("play", 0, 21),
        ("play", 0, 22),
        ("genmove", 1),  # Black moved twice in a row
        ("undo",),
        ("genmove", 1),  # the position searched last: no move since
        ("undo",),
        ("undo",),
        ("genmove", 1),  # not a continuation
        ("komi", 3),
        ("genmove", 0),
        ("clear",),
        ("genmove", 0),
    ):
        if line[0] == "play":
            engine.game.play(*line[1:])
        elif line[0] == "undo":
            engine.game.undo()
        elif line[0] == "komi":
            engine.set_komi(3.0)
        else:
            getattr(engine, line[0])(*line[1:])
    assert requests == [None, [0], [1, 20], None, None, [], None, None, None]


RULES = go.Rules(3, "simple", max_moves=400)  # quick to compile


def make_searcher(monkeypatch, ensemble):
    """A searcher with 40 simulations per tree."""
    evaluator = Evaluator(hash_evaluate(10, 1.0, 0.2), None, observe_position, Puct())
    setup = setups.Setup(evaluator, SearchConfig(40, ensemble=ensemble))
    monkeypatch.setattr(gtp_search, "make_setup", lambda *_: setup)
    return gtp_search.TreeSearcher(RULES, gtp_config.GtpConfig(size=3, simulations=40))


@pytest.mark.parametrize(
    "ensemble",
    [
        pytest.param(None, id="a tree", marks=pytest.mark.thorough),
        pytest.param(Ensemble(3, every=None), id="trees", marks=pytest.mark.thorough),
    ],
)
def test_reused_visits_count_and_memory_stays_flat(monkeypatch, ensemble):
    searcher, rules = make_searcher(monkeypatch, ensemble), RULES
    game, played, sizes, visits = host_game.HostGame(rules), None, [], []
    for number in range(8):
        result = searcher.search(game.state, game.to_play, number, played)
        assert result.ok
        visits.append(int(searcher._kept.visits[0]))
        assert searcher._kept.num_trees == (3 if ensemble else 1)
        sizes.append(sum(x.nbytes for x in jax.tree.leaves(searcher._kept)))
        game.play(game.to_play, result.action)
        played = [result.action]
        if game.ended:
            break
    assert visits[0] == 41
    assert min(visits[1:]) > 41
    assert len(set(sizes)) == 1
    assert searcher._runner._programs.advance.jitted._cache_size() == 1


@pytest.mark.parametrize(
    ("flags", "kind"),
    [
        ({}, SeparatePrograms),
        ({"size": 13}, TwoPrograms),
        ({"leaves": 4}, TwoPrograms),
        ({"trees": 2}, TwoPrograms),
        ({"nodes": 20}, TwoPrograms),
        ({"evaluator": "network", "playouts": None}, TwoPrograms),
    ],
)
def test_large_steps_of_playouts_use_separate_programs(flags, kind):
    defaults = {"size": 19, "search": "uct", "simulations": 64, "leaves": 8, "playouts": "uniform"}
    config = gtp_config.GtpConfig(**{**defaults, **flags})
    searcher = gtp_search.TreeSearcher(go.Rules(config.size), config)
    assert isinstance(searcher._runner._programs, kind)
    assert isinstance(searcher._timed._programs, kind)


@pytest.mark.slow
def test_several_trees_are_reused_under_a_time_limit(monkeypatch):
    searcher = make_searcher(monkeypatch, Ensemble(3, every=8))
    game, played = host_game.HostGame(RULES), None
    for number in range(3):
        result = searcher.search(game.state, game.to_play, number, played, seconds=60.0)
        assert result.ok
        own = searcher._kept.visits[:: searcher._kept.capacity]
        assert (own > (41 if number else 40)).all()
        game.play(game.to_play, result.action)
        played = [result.action]


@pytest.mark.thorough
def test_pondering_counts_towards_the_search(monkeypatch):
    evaluator = Evaluator(hash_evaluate(10, 1.0, 0.2), None, observe_position, Puct())
    setup = setups.Setup(evaluator, SearchConfig(40))
    monkeypatch.setattr(gtp_search, "make_setup", lambda *_: setup)
    monkeypatch.setattr(gtp_engine.Engine, "_rules", lambda self: RULES)
    engine = gtp_engine.Engine(gtp_config.GtpConfig(size=3, simulations=40, ponder=True))
    visits = lambda: int(engine.searcher._kept.visits[0])
    engine.ponder(lambda: False)
    assert engine._num_searches == 0  # pondering waits for its first move
    engine.genmove(0)
    assert visits() == 41
    engine.ponder(lambda: True)
    pondered = visits()
    engine.ponder(lambda: False)
    assert visits() >= pondered + 40
    num_searches = engine._num_searches
    engine.ponder(lambda: False)
    assert engine._num_searches == num_searches  # it has pondered enough
    kept = jax.tree.map(np.array, engine.searcher._kept)
    children = kept.children[0, : kept.num_children[0]]
    reply = children[np.argmax(kept.visits[children])]
    engine.game.play(1, int(kept.action[reply]))  # as predicted
    engine.genmove(0)
    assert visits() == int(kept.visits[reply]) + 40
    assert int(kept.visits[reply]) > 10
    engine.ponder(lambda: False)
    engine.game.play(1, engine.choose(1))
    engine.stop()
    engine.ponder(lambda: False)
    engine.genmove(0)
    engine.stop()
    engine.ponder(lambda: False)
    assert engine._num_searches == num_searches + 4
    engine.genmove(0)
    engine.clear()
    engine.ponder(lambda: False)
    assert engine._num_searches == num_searches + 5  # not of an empty board
    engine.genmove(0)
    gtp_run._undo(engine)
    engine.ponder(lambda: False)
    assert engine._num_searches == num_searches + 6  # nor of a position before the move
