"""``gozero gtp --search td``: temporal-difference search behind genmove, and in a match."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from gozero.apps import cli
from gozero.apps.gtp import search
from gozero.apps.gtp.config import GtpConfig
from gozero.apps.gtp.engine import Engine
from gozero.go.rules import Rules, init
from gozero.td import shapes
from gozero.td import weights as shape_weights
from tests.apps.gtp.sharing import sharing
from tests.apps.match.match_runs import results


class Clock:
    """A clock that advances a second at each look."""

    now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


@pytest.fixture(scope="module")
def nothing(tmp_path_factory):
    """Local shapes of 3x3 with weights of 0."""
    path, chosen = tmp_path_factory.mktemp("shapes") / "zeros.npz", shapes.Shapes(3, largest=1)
    shape_weights.save(path, chosen, np.zeros(shapes.sharing(chosen).num_weights + 1, np.float32))
    return path


@pytest.fixture(scope="module", autouse=True)
def _compiled_once():
    key = lambda rules, config, *more: (rules, config.simulations, config.shapes)
    make = sharing(search.TdSearcher, ("_search", "_learn", "_best"), key)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "TdSearcher", make)
        yield


def config(shapes, **more):
    fixed = {"size": 3, "ko": "simple", "reuse": False, "search": "td", "simulations": 256}
    return GtpConfig(**fixed | {"shapes": shapes} | more)


def test_it_learns_before_each_move(nothing):
    """Black's centre wins at this komi; with weights of 0, only the simulations can show it."""
    engine = Engine(config(nothing, komi=0.5))
    assert engine.genmove(0) == 4
    result = engine.searcher.search(engine.game.state, 1, 1)
    assert result.ok
    assert result.value < -0.2  # for White


@pytest.mark.parametrize("seconds", [None, 1.0])
def test_without_simulations_it_plays_by_its_weights(nothing, seconds):
    engine = Engine(config(nothing, simulations=0, seconds=seconds))
    assert engine.genmove(0) in range(9)


def test_it_resigns(nothing):
    engine = Engine(config(nothing, komi=0.5, resign=-0.2))
    engine.game.play(0, 4)
    assert engine.genmove(1) is None


@pytest.mark.parametrize(
    ("seconds", "simulations", "chunks"),
    [
        pytest.param(1.0, 256, 1, marks=pytest.mark.thorough),
        (6.5, 256, 3),
        (100.0, 256, 4),
        (100.0, 300, 4),
        pytest.param(100.0, 20, 1, marks=pytest.mark.thorough),
    ],
)
def test_simulations_stop_at_the_time_limit(nothing, seconds, simulations, chunks):
    """By hand: a chunk of 64 simulations takes a second, and so does each look at the clock before
    the next one. No shorter chunk follows."""
    engine = Engine(config(nothing, seconds=seconds, simulations=simulations), Clock())
    searcher, made = engine.searcher, []
    learn = searcher._learn
    searcher._learn = lambda *args: made.append(args[0].weights) or learn(*args)
    result = searcher.search(engine.game.state, 0, 0, seconds=seconds)
    assert result.ok
    assert len(made) == chunks
    assert all((a != b).any() for a, b in itertools.pairwise(made))  # it keeps learning


@pytest.mark.parametrize(("reuse", "seconds"), [(True, None), (True, 1.0), (False, None)])
def test_learned_weights_are_kept_during_a_game(nothing, reuse, seconds):
    searcher = Engine(config(nothing, reuse=reuse), Clock()).searcher
    begun = []
    for name in ("_search", "_learn"):
        original = getattr(searcher, name)
        seen = lambda *args, original=original: begun.append(args[0].weights) or original(*args)
        setattr(searcher, name, seen)
    state = init(Rules(3, ko="simple"))
    for number, since in enumerate([None, [0, 1], None]):
        searcher.search(state, 0, number, since, seconds)
    first, second, another = begun
    assert (second != first).any() == reuse
    np.testing.assert_array_equal(another, first)


@pytest.mark.thorough
def test_a_match(nothing, tmp_path):
    flags = ["match", "--size", "3", "--ko", "simple", "--komi", "0.5", "--games", "4"]
    flags += ["--parallel", "4", "--out", str(tmp_path / "run")]
    for side in ("player", "opponent"):
        flags += [f"--{side}.search", "td", f"--{side}.simulations", "64"]
        flags += [f"--{side}.shapes", str(nothing)]
    assert cli.main(flags) == 0
    assert sorted(results(tmp_path / "run")) == [0, 1, 2, 3]
