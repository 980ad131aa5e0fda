"""The progress that a run displays."""

from __future__ import annotations

import functools
import math
import time

import pytest

from gozero.runs import progress
from tests.train import tiny
from train import matches
from train.display import Cost, Display
from train.plan import make_plan

SIMULATIONS = (16, 16, 32, 32)
"""Of each iteration; an evaluation follows every second one."""
COST = Cost(
    lambda done: sum(SIMULATIONS[done:]),
    {"evaluation_s": lambda done: 2 - done // 2, "gate_s": lambda done: 4 - done},
)


def numbers(iteration, **more):
    rates = {"games_per_s": 2.0, "simulations_per_s": 3000.0}
    rates |= {"playing_s": 10.0, "learning_s": 4.0, "simulations": SIMULATIONS[iteration - 1]}
    return {"iteration": iteration, "steps": 10, "losses": {"policy": 1.5}, **rates, **more}


@pytest.fixture
def one():
    return Display("zero tiny", 4, [], COST)


@pytest.fixture
def last_line(capsys):
    """A function that returns the last line on stderr."""
    return lambda: capsys.readouterr().err.splitlines()[-1]


def test_the_last_elo_stays_with_its_iteration(one, last_line):
    one.add(numbers(1))
    assert "Elo" not in last_line()
    one.add(numbers(2, elo=120.4))
    assert last_line().startswith("2/4 iterations  games/s 2.0  simulations/s 3,000  steps 10")
    one.add(numbers(4))
    assert "policy 1.500  Elo +120 at 2" in last_line()


def test_a_resumed_run_shows_the_earlier_elo(last_line):
    one = Display("zero tiny", 4, [numbers(1, elo=-30.0), numbers(2)], COST)
    one.add(numbers(3))
    assert "Elo -30 at 1" in last_line()


def test_the_elo_appears_after_the_match_against_the_previous_network(one, last_line):
    one.add(numbers(2))
    one.add(numbers(2, elo=40.0, before=[38, 2, 24]))
    assert len(one._timed) == 1
    assert "Elo +40 at 2, 38-2-24 against the one before" in last_line()


def test_the_remaining_time_counts_simulations_and_matches():
    """Two iterations at 16 simulations take 10 s each to play; two at 32 and a match remain."""
    to_go = lambda *lines: Display("zero tiny", 4, lines, COST).to_go()
    assert math.isnan(to_go())
    assert to_go(numbers(1)) == 10 + 2 * 20 + 3 * 4
    assert to_go(numbers(1), numbers(2)) == 2 * 20 + 2 * 4
    evaluated = numbers(2, elo=0.0, evaluation_s=100.0)
    assert to_go(numbers(1), evaluated) == 2 * 20 + 2 * 4 + 100
    assert to_go(numbers(1), numbers(2), evaluated, evaluated) == 2 * 20 + 2 * 4 + 100
    assert to_go(numbers(1), evaluated, numbers(4)) == 0
    assert to_go(numbers(1, gate_s=7.0), numbers(2, gate_s=9.0)) == 2 * 20 + 2 * 4 + 2 * 8


def test_a_pause_is_not_counted():
    lines = [numbers(1), numbers(2), numbers(3, playing_s=20.0 + 3600)]
    assert Display("zero tiny", 4, lines, COST).to_go() == 20 + 4


def test_the_cost_of_a_line_does_not_depend_on_the_length_of_the_run():
    config = tiny.config(iterations=10**6, evaluate_every=10)
    plan = make_plan(config)
    lines = [numbers(1) | {"iteration": i} for i in range(1, 100)]
    counts = {"evaluation_s": functools.partial(matches.num_due, config)}
    cost = Cost(plan.simulations_to_go, counts)
    one = Display("zero long", config.iterations, lines, cost)
    started = time.perf_counter()
    assert one.to_go() > 0
    assert time.perf_counter() - started < 0.1
    assert len(one._timed) == 10


@pytest.mark.parametrize(("iterations", "every"), [(1, 1), (7, 3), (12, 4), (13, 0), (40, 7)])
def test_what_is_to_go_is_the_sum_over_the_iterations(iterations, every):
    more = {"first_simulations": 2, "simulations": 13, "evaluate_every": every}
    more |= {"gate": 0.55, "gate_every": every} if every else {}
    config = tiny.config(iterations=iterations, **more)
    plan = make_plan(config)
    for done in range(iterations + 2):
        todo = range(done, iterations)
        assert plan.simulations_to_go(done) == sum(map(plan.simulations, todo))
        assert matches.num_due(config, done) == sum(matches.due(config, i + 1) for i in todo)
        due = [matches.gate_due(config, i + 1) for i in todo]
        assert matches.num_gates_due(config, done) == sum(due)
        assert not due or due[-1] == (every > 0)  # after the last iteration, too


def test_lines_are_printed_occasionally_and_at_an_elo(one, monkeypatch, capsys):
    monkeypatch.setattr(progress.time, "monotonic", lambda: 100.0)
    for line in (numbers(1), numbers(2, elo=5.0), numbers(3), numbers(4)):
        one.add(line)
    stderr_lines = capsys.readouterr().err.splitlines()
    assert [line.split()[0] for line in stderr_lines] == ["1/4", "2/4", "4/4"]
    assert stderr_lines[1].endswith("0:00:48 to go")
