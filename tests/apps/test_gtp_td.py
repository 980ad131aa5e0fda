"""``gozero gtp --search td``: temporal-difference search behind genmove, and in a match."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from gozero.apps import cli
from gozero.apps.gtp_config import GtpConfig
from gozero.apps.gtp_engine import Engine
from gozero.montecarlo.rlgo import shapes
from gozero.montecarlo.rlgo import weights as shape_weights
from tests.apps.test_match import results


class Clock:
    """Each look takes a second."""

    now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


@pytest.fixture(scope="module")
def nothing(tmp_path_factory):
    """Local shapes of 3x3 that are worth nothing yet."""
    path, chosen = tmp_path_factory.mktemp("shapes") / "zeros.npz", shapes.Shapes(3, largest=1)
    shape_weights.save(path, chosen, np.zeros(shapes.sharing(chosen).num_weights + 1, np.float32))
    return path


def config(shapes, **more):
    fixed = {"size": 3, "ko": "simple", "reuse": False, "search": "td", "simulations": 256}
    return GtpConfig(**fixed | {"shapes": shapes} | more)


def test_it_learns_before_each_move(nothing):
    """Black's centre wins at this komi; from weights of 0 nothing but the simulations says so."""
    engine = Engine(config(nothing, komi=0.5))
    assert engine.genmove(0) == 4
    found = engine.searcher.search(engine.game.state, 1, 1)
    assert found.ok
    assert found.value < -0.2  # for White


def test_it_resigns(nothing):
    engine = Engine(config(nothing, komi=0.5, resign=-0.2))
    engine.game.play(0, 4)
    assert engine.genmove(1) is None


@pytest.mark.parametrize(("seconds", "pieces"), [(1.0, 1), (6.5, 3), (100.0, 4)])
def test_simulations_stop_when_the_time_is_over(nothing, seconds, pieces):
    """By hand: a piece takes a second, and so does looking at the clock before the next one."""
    engine = Engine(config(nothing, seconds=seconds), Clock())
    searcher, made = engine.searcher, []
    learn = searcher._learn
    searcher._learn = lambda *args: made.append(args[0].weights) or learn(*args)
    found = searcher.search(engine.game.state, 0, 0, seconds=seconds)
    assert found.ok
    assert len(made) == pieces
    assert all((a != b).any() for a, b in itertools.pairwise(made))  # it goes on


def test_a_match(nothing, tmp_path):
    flags = ["match", "--size", "3", "--ko", "simple", "--komi", "0.5", "--games", "4"]
    flags += ["--parallel", "4", "--out", str(tmp_path / "run")]
    for side in ("player", "opponent"):
        flags += [f"--{side}.search", "td", f"--{side}.simulations", "64"]
        flags += [f"--{side}.shapes", str(nothing)]
    assert cli.main(flags) == 0
    assert sorted(results(tmp_path / "run")) == [0, 1, 2, 3]
