"""The comparison of recipes: what is trained, with which flags, and the matches' results."""

from __future__ import annotations

import dataclasses
import itertools
import math
import types

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from experiments.recipes import root_value, run
from experiments.recipes.config import RECIPES, RecipesConfig, RootValueConfig
from gozero.play.selfplay import policy_value
from gozero.runs import files
from gozero.runs.statistics import elo
from gozero.search.search import SearchResult
from train.plan import make_plan


def test_references_are_trained_first():
    names = RecipesConfig(only=("puct, reuse", "surprise")).names
    assert names == ["gumbel", "puct", "puct, reuse", "surprise"]
    with pytest.raises(ValueError, match="--only pcut: expected some of gumbel, puct"):
        RecipesConfig(only=("pcut",))


@pytest.mark.parametrize("size", [5, 7])
def test_every_recipe_is_a_valid_run(size):
    plans = {name: make_plan(run.train_config(RecipesConfig(size=size), name)) for name in RECIPES}
    parts = {
        name: dataclasses.replace(x, config=plans["gumbel"].config) for name, x in plans.items()
    }
    same = [pair for pair in itertools.combinations(parts, 2) if parts[pair[0]] == parts[pair[1]]]
    # Two recipes change what is not a part of the plan: the evaluator, and the loop's matches.
    outside = ["gumbel", "random symmetries", "gate"]
    assert same == list(itertools.combinations(outside, 2))
    assert plans["random symmetries"].evaluator != plans["gumbel"].evaluator
    assert plans["gate"].evaluator == plans["gumbel"].evaluator


def test_a_difference_varies_with_the_seeds_of_both():
    """By hand: Elo varies by +-30 between rows and by +-60 between columns."""
    scores = {
        (i, j): 1 / (1 + 10 ** (-(100 + 30 * i + 60 * j) / 400))
        for i, j in itertools.product((-1, 0, 1), repeat=2)
    }
    scores = {(i + 1, j + 1): score * (1 + 1 / 40) - 1 / 80 for (i, j), score in scores.items()}
    found, low, high = run.compare(scores, 3)
    freedom = 2 * (30**2 + 60**2) ** 2 / (30**4 + 60**4)  # 2.94, between 2 and 4
    half = stats.t.ppf(0.975, freedom) * math.sqrt((30**2 + 60**2) / 3)
    np.testing.assert_allclose([found, low, high], [100, 100 - half, 100 + half])


def test_a_recipe_against_itself_and_matches_won_in_full():
    assert run.compare({(0, 1): 0.5}, 2) == (0, -math.inf, math.inf)
    mean, low, high = run.compare({(0, 1): 1.0, (0, 2): 0.5, (1, 2): 0.0}, 3)
    np.testing.assert_allclose([mean, low], [0, -high], atol=1e-9)
    full = elo((1 + 1 / 80) / (1 + 1 / 40))
    # x_0 - x_2 counts twice in the mean of the three: (x_0 - x_2) 2/3 varies by 8/9, where the
    # sample variance of the three, by 3, is expected to be 5/9.
    np.testing.assert_allclose(high, stats.t.ppf(0.975, 2) * full * math.sqrt(8 / 5 / 3))


def test_matches_are_played_once_and_make_a_row(tmp_path, monkeypatch):
    config = RecipesConfig(only=("puct",), seeds=2, out=tmp_path, budget=10.0)
    with run._folder(config):
        study = run.Study(config)
        for name, seconds in (("gumbel", 0.5), ("puct", 1.0)):
            files.add_line(tmp_path / run.COSTS, {"recipe": name, "seconds": seconds})
        for seed, (games, rows) in enumerate([(30, 400), (50, 600)]):
            about = {"games": games, "added": rows, "processor_s": 9.5}
            files.write_json(study._network("puct", seed).with_suffix(".json"), about)
        played = []

        def play(terms, first, second, numbers):
            played.append((first, second, terms.search, numbers))

        line = {"score": 0.75, "won": 30, "drawn": 0, "lost": 10}
        monkeypatch.setattr(run.matches, "play", play)
        monkeypatch.setattr(run.matches, "line_of", lambda match, terms: line)
        monkeypatch.setattr(study, "_player", lambda terms, name, seed: (name, seed))
        row = study.row("puct")
        assert study.row("puct") == row == run.Study(config).row("puct")
    assert [one[:3] for one in played] == [
        (("puct", i), ("gumbel", j), "gumbel") for i, j in itertools.product((0, 1), repeat=2)
    ]
    assert len({one[3] for one in played}) == 4
    assert (row.games, row.iterations, row.played, row.positions) == (160, 10, 40, 500)
    assert row.low == row.elo == row.high == round(elo((0.75 + 1 / 80) / (1 + 1 / 40)), 1)
    run.write([row], tmp_path)
    assert (tmp_path / "results.csv").read_text().startswith("recipe,against,elo,low,high,seeds")


def test_a_folder_of_other_terms_is_refused(tmp_path):
    with run._folder(RecipesConfig(out=tmp_path)):
        pass
    with run._folder(RecipesConfig(out=tmp_path, only=("puct",), seeds=5)):
        pass
    with pytest.raises(ValueError, match=r"begun with other terms: .*budget"):
        run._folder(RecipesConfig(out=tmp_path, budget=1.0))


def test_a_recipe_that_has_changed_is_refused(tmp_path, monkeypatch):
    with run._folder(RecipesConfig(out=tmp_path, only=("puct",))):
        pass
    monkeypatch.setitem(run.BASE, "learning_rate", 0.1)
    with run._folder(RecipesConfig(out=tmp_path / "new", only=("puct",))):
        pass
    message = "(puct|gumbel) was begun with other flags: --learning-rate was 0.00.* and is 0.1"
    with pytest.raises(ValueError, match=message):
        run._folder(RecipesConfig(out=tmp_path, only=("puct",)))


def test_later_costs_are_those_of_a_machine_as_fast_as_before(tmp_path, monkeypatch):
    config = RecipesConfig(out=tmp_path, only=("puct", "4 leaves"), rounds=1)
    (tmp_path / run.COSTS).write_text('{"recipe": "gumbel", "seconds": 1.0}\n')
    times = {"gumbel": 2.0, "puct": 3.0, "4 leaves": 1.0}
    loops = {name: types.SimpleNamespace(iterate=lambda name=name: name) for name in times}
    monkeypatch.setattr(run.Study, "_loop", lambda study, name: loops[name])
    monkeypatch.setattr(run, "_processor_time", lambda work: times[work()])
    study = run.Study(config)
    study.measure_costs()
    assert study.costs == {"gumbel": 1.0, "puct": 1.5, "4 leaves": 0.5}


def test_a_root_value_by_the_policy_target():
    """By hand: v_mix = 0.1 / 4 + 3/4 (0.5 * 0.5 - 0.3 * 0.5) / 0.8 = 0.11875, and
    0.6 * 0.5 - 0.1 * 0.5 + 0.3 * 0.11875 = 0.285625."""
    rows = ([2, 1, 0], [0.5, -0.5, 0.0], [0.6, 0.1, 0.3], [0.5, 0.3, 0.2])
    visits, q, target, prior = (jnp.array([row]) for row in rows)
    action, ok = jnp.array([0]), jnp.array([True])
    result = SearchResult(action, visits, q, target, jnp.array([0.2]), ok, None)
    result = result._replace(prior=prior, raw_value=jnp.array([0.1]))
    np.testing.assert_allclose(policy_value(result), [0.285625], rtol=1e-6)


def test_errors_of_root_values_with_intervals_by_games():
    """By hand: games of two moves and of one, won and lost by whoever moves first."""
    values = np.zeros((2, 2, 3))
    values[:, 0] = [[1.0, 0.5, 1.0], [-1.0, 0.0, -0.5]]
    values[0, 1] = [0.0, 0.5, -1.0]
    outcomes, searched = (
        np.array([[1.0, -1.0], [-1.0, 1.0]]),
        np.array([[True, True], [True, False]]),
    )
    found = list(root_value.errors(root_value.Moves(values, outcomes, searched)))
    assert [x["estimate"] for x in found] == list(root_value.ESTIMATES)
    np.testing.assert_allclose([x["bias"] for x in found], [1 / 3, 2 / 3, 1 / 6])
    np.testing.assert_allclose([x["mse"] for x in found], [1 / 3, 3.5 / 3, 0.25 / 3])
    np.testing.assert_allclose(found[0]["against_mean"], -2.5 / 3)
    # The sums of errors of the first estimate are 0 and 1 of 2 and 1 moves: -2/3 and 2/3 about the
    # mean of 1/3, so the half width is 1.96 sqrt(2 * 8/9) / 3.
    half = 1.96 * math.sqrt(16 / 9) / 3
    np.testing.assert_allclose(
        [found[0]["bias_low"], found[0]["bias_high"]], [1 / 3 - half, 1 / 3 + half]
    )
    assert found[1]["against_low"] == found[1]["against_high"] == 0


@pytest.mark.thorough
def test_games_of_root_values_are_played_to_the_end():
    config = RootValueConfig(sizes=(7,), simulations=(2,), games=2, plies=40)
    rows = list(root_value.measure(config))
    assert [row.estimate for row in rows] == [*root_value.ESTIMATES] * 2
    assert all(row.moves >= 4 and 0 <= row.mse <= 4 for row in rows)
