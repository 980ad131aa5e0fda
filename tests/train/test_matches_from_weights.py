"""The anchor of the ratings of a run that began from given weights."""

from __future__ import annotations

import dataclasses
import pathlib

import jax
import pytest

from gozero.nets import network
from gozero.runs import arrays, statistics
from tests.train import tiny
from train import folder, matches
from train.matches import RANDOM, UNIFORM
from train.plan import make_plan


def fake_match(won):
    """The record of a match in which `won` of 64 games were won, in place of a match."""
    total, low, high = {"won": won, "drawn": 0, "lost": 64 - won}, 0.4, 0.6
    return total | {
        "score": won / 64,
        "interval": [low, high],
        "simulations": 4,
        "search": "gumbel",
    }


def test_ratings_are_relative_to_the_initial_weights(tmp_path, monkeypatch):
    """Random moves and the uninformed search lose every game of the first evaluation, so they are
    not played again. Each network wins 38 of 64 games against the one before it."""
    config = tiny.config(
        tmp_path, weights=pathlib.Path("given.npz"), evaluate_games=64, evaluate_simulations=4
    )
    plan, met = make_plan(config), []

    def result(terms, first, second, numbers, progress):
        met.append(numbers)
        return fake_match(64 if numbers[1] < 2 else 38)

    monkeypatch.setattr(matches, "play", result)
    monkeypatch.setattr(matches, "line_of", lambda line, terms: line)
    found = []
    for iteration in (0, 50, 100):
        params = network.init(plan.learner.network, jax.random.key(iteration))
        folder.write_weights(plan, params, iteration, [])
        if iteration:
            found.append(matches.evaluate(plan, iteration, params))
    assert met == [(50, 0), (50, 1), (50, 2), (100, 2)]
    assert [line["opponent"] for line in folder.read_lines(tmp_path / matches.MATCHES)] == [
        RANDOM,
        UNIFORM,
        "000000",
        "000050",
    ]
    assert [line["before"] for line in found] == [[38, 0, 26]] * 2
    step = statistics.elo(38 / 64)
    assert [line["elo"] for line in found] == pytest.approx([step, 2 * step], abs=2)
    low, high = found[0]["elo_interval"]
    assert high - low < 200


def test_what_a_gate_keeps_of_a_random_start_is_random(tmp_path):
    """Until another network plays, whatever the iteration; with initial weights none is."""
    config = tiny.config(tmp_path / "run", gate=0.55)
    plan = make_plan(config)
    start, later = (network.init(plan.learner.network, jax.random.key(i)) for i in range(2))
    found = []
    for iteration, params in ((0, start), (10, start), (20, later), (30, start)):
        path = folder.write_weights(plan, params, iteration, [])
        found.append(arrays.describe(path, "weights")["random"])
    assert found == [True, True, False, True]
    given = dataclasses.replace(config, weights=pathlib.Path("given.npz"), out=tmp_path / "given")
    path = folder.write_weights(make_plan(given), start, 0, [])
    assert arrays.describe(path, "weights")["random"] is False
