"""The 3x3 experiment: its deliberate faults, and what counts as solved."""

from __future__ import annotations

import csv
import dataclasses

import jax.numpy as jnp
import numpy as np

from experiments.solved_3x3 import run
from gozero.play import devices
from gozero.search import values
from tests.train import tiny
from train import steps
from train.loop import Loop
from train.plan import make_plan

POINT = run.Point("none", 0, 40, 60.0, 5000, 2000, 0.99, 0.99, -0.99)


def test_only_outcomes_of_existing_rows_are_shuffled(monkeypatch):
    plan, mesh = make_plan(tiny.config()), devices.mesh_of(1)
    loop = run.Shuffled(plan, mesh, steps.begin(plan, mesh))
    size, capacity = 60, plan.buffer.capacity
    buffer = loop.state.playing.buffer
    numbers = jnp.arange(capacity, dtype=jnp.float32)[None]
    rows = buffer.rows.replace(outcome=numbers, score=numbers)
    buffer = buffer.replace(rows=rows, size=buffer.size + size)
    loop.state = loop.state.replace(playing=loop.state.playing.replace(buffer=buffer))
    learnt_from = []
    learn = lambda loop, step, due: learnt_from.append(loop.state.playing.buffer.rows)
    monkeypatch.setattr(Loop, "_learn", learn)
    loop._learn(None, 0)
    after = learnt_from[0]
    outcome = np.asarray(after.outcome[0])
    np.testing.assert_array_equal(np.sort(outcome), np.arange(capacity))
    np.testing.assert_array_equal(outcome[size:], np.arange(size, capacity))
    assert np.mean(outcome[:size] != np.arange(size)) > 0.5
    np.testing.assert_array_equal(after.score, numbers)


def test_the_backup_fault_lasts_as_long_as_requested():
    value, plies = jnp.array([3, 3, 3]), jnp.array([0, 1, 2])
    with run._flipped_backup():
        assert values.opponent(value, plies).tolist() == [-3, 3, -3]
    assert values.opponent(value, plies).tolist() == [3, -3, 3]


def test_a_run_needs_all_three_criteria():
    assert POINT.holds
    for change in ({"centre": 0.9}, {"value_won": 0.95}, {"value_lost": -0.9}):
        assert not dataclasses.replace(POINT, **change).holds


def test_results_are_the_last_points_of_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(run.plot, "draw", lambda *_: None)
    earlier = dataclasses.replace(POINT, iteration=1, centre=0.1)
    other = dataclasses.replace(POINT, seed=1, value_lost=0.2)
    run.write([earlier, POINT, other], tmp_path)
    with (tmp_path / "results.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["seed"], row["iteration"], row["holds"]) for row in rows] == [
        ("0", "40", "True"),
        ("1", "40", "False"),
    ]
    assert "| none | 1 | 60 | 5,000 | 0.990 | +0.990 | +0.200 | no |" in run.table([POINT, other])


def test_a_network_is_evaluated_at_both_komi():
    plan, mesh = make_plan(tiny.config()), devices.mesh_of(1)
    loop = Loop(plan, mesh, steps.begin(plan, mesh))
    point = run.look(plan, loop, "none", 0)
    assert 0 < point.centre < 1
    assert point.value_won != point.value_lost
    assert not point.holds
