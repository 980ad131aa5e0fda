"""The progress that a run displays."""

from __future__ import annotations

import math

import pytest

from gozero.runs import progress
from train.display import Cost, Display

COST = Cost(lambda done: 16 if done < 2 else 32, lambda iteration: iteration % 2 == 0)


def numbers(iteration, **more):
    rates = {"games_per_s": 2.0, "simulations_per_s": 3000.0}
    rates |= {"playing_s": 10.0, "learning_s": 4.0, "simulations": COST.simulations(iteration - 1)}
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
    assert len(one.lines) == 1
    assert "Elo +40 at 2, 38-2-24 against the one before" in last_line()


def test_the_remaining_time_counts_simulations_and_matches():
    """Two iterations at 16 simulations take 10 s each to play; two at 32 and a match remain."""
    lines = []
    assert math.isnan(COST.to_go(lines, 4))
    lines = [numbers(1)]
    assert COST.to_go(lines, 4) == 10 + 2 * 20 + 3 * 4
    lines += [numbers(2)]
    assert COST.to_go(lines, 4) == 2 * 20 + 2 * 4
    lines[-1] = numbers(2, elo=0.0, evaluation_s=100.0)
    assert COST.to_go(lines, 4) == 2 * 20 + 2 * 4 + 100
    assert COST.to_go([*lines, numbers(4)], 4) == 0


def test_a_pause_is_not_counted():
    lines = [numbers(1), numbers(2), numbers(3, playing_s=20.0 + 3600)]
    assert COST.to_go(lines, 4) == 20 + 4


def test_lines_are_printed_occasionally_and_at_an_elo(one, monkeypatch, capsys):
    monkeypatch.setattr(progress.time, "monotonic", lambda: 100.0)
    for line in (numbers(1), numbers(2, elo=5.0), numbers(3), numbers(4)):
        one.add(line)
    stderr_lines = capsys.readouterr().err.splitlines()
    assert [line.split()[0] for line in stderr_lines] == ["1/4", "2/4", "4/4"]
    assert stderr_lines[1].endswith("0:00:48 to go")
