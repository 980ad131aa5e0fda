"""What a run shows of itself."""

from __future__ import annotations

import datetime

import pytest

from train import display
from train.display import Cost, Display

COST = Cost(lambda done: 16 if done < 2 else 32, lambda iteration: iteration % 2 == 0)


def numbers(iteration, **more):
    rates = {"games_per_s": 2.0, "simulations_per_s": 3000.0}
    rates |= {"playing_s": 10.0, "learning_s": 4.0, "simulations": COST.simulations(iteration - 1)}
    return {"iteration": iteration, "steps": 10, "losses": {"policy": 1.5}, **rates, **more}


def shown(table):
    """{name: text} of a table."""
    names, texts = ([*column.cells] for column in table.columns)
    return dict(zip(names, texts, strict=True))


@pytest.fixture
def one():
    return Display("zero tiny", 4, [], COST)


def test_the_last_elo_stays_with_its_iteration(one):
    one.show(numbers(1))
    assert "Elo" not in shown(one._table(numbers(1)))
    one.show(numbers(2, elo=120.4))
    one.show(numbers(3))
    cells = shown(one._table(numbers(3)))
    assert cells["iteration"] == "3 of 4"
    assert cells["Elo"] == "+120 at 2"
    assert "Elo +120 at 2" in one._line(numbers(3))


def test_a_run_that_goes_on_has_the_elo_of_before():
    one = Display("zero tiny", 4, [numbers(1, elo=-30.0), numbers(2)], COST)
    assert shown(one._table(numbers(3)))["Elo"] == "-30 at 1"


def test_the_elo_comes_with_the_match_against_the_network_before(one):
    one.show(numbers(2))
    one.show(numbers(2, elo=40.0, before=[38, 2, 24]))
    assert len(one.lines) == 1
    assert shown(one._table(numbers(2)))["Elo"] == "+40 at 2, 38-2-24 against the one before"


def test_the_time_to_go_knows_how_many_simulations_and_matches_are_to_come(one):
    """Two iterations of 16 simulations took 10 s to play; those of 32 are left, and a match."""
    assert one.to_go() == "-:--:--"
    one.show(numbers(1))
    assert one.to_go() == str(datetime.timedelta(seconds=10 + 2 * 20 + 3 * 4))
    one.show(numbers(2))
    assert one.to_go() == str(datetime.timedelta(seconds=2 * 20 + 2 * 4))
    one.show(numbers(2, elo=0.0, evaluation_s=100.0))
    assert one.to_go() == str(datetime.timedelta(seconds=2 * 20 + 2 * 4 + 100))
    one.show(numbers(4))
    assert one.to_go() == "0:00:00"


def test_a_pause_does_not_count(one):
    for line in (numbers(1), numbers(2), numbers(3, playing_s=20.0 + 3600)):
        one.show(line)
    assert one.to_go() == str(datetime.timedelta(seconds=20 + 4))


def test_a_line_is_printed_now_and_then_and_at_an_elo(one, monkeypatch, capsys):
    monkeypatch.setattr(display.time, "monotonic", lambda: 100.0)
    one.last_plain = 100.0
    for line in (numbers(1), numbers(2, elo=5.0), numbers(3), numbers(4)):
        one.show(line)
    said = capsys.readouterr().err.splitlines()
    assert [line.split()[0] for line in said] == ["2/4", "4/4"]
