"""What a run shows of itself."""

from __future__ import annotations

import pytest

from train.zero import display
from train.zero.display import Display


def numbers(iteration, **more):
    rates = {"games_per_s": 2.0, "simulations_per_s": 3000.0}
    return {"iteration": iteration, "steps": 10, "losses": {"policy": 1.5}, **rates, **more}


def shown(table):
    """{name: text} of a table."""
    names, texts = ([*column.cells] for column in table.columns)
    return dict(zip(names, texts, strict=True))


@pytest.fixture
def one():
    return Display("zero tiny", 4)


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
    one = Display("zero tiny", 4, [numbers(1, elo=-30.0), numbers(2)])
    assert shown(one._table(numbers(3)))["Elo"] == "-30 at 1"
    assert one.to_go(2) == "-:--:--"


def test_a_line_is_printed_now_and_then_and_at_an_elo(one, monkeypatch, capsys):
    monkeypatch.setattr(display.time, "monotonic", lambda: one.started)
    one.last_plain = one.started
    for line in (numbers(1), numbers(2, elo=5.0), numbers(3), numbers(4)):
        one.show(line)
    said = capsys.readouterr().err.splitlines()
    assert [line.split()[0] for line in said] == ["2/4", "4/4"]
