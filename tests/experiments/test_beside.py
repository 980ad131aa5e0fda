"""Two checkouts measured in turn: their ratio, and a program run by both."""

import pathlib

import pytest

from experiments.output import write_csv
from experiments.throughput import beside, readme

ROOT = pathlib.Path(__file__).parents[2]


def test_the_ratio_is_taken_round_by_round(monkeypatch, tmp_path):
    """The machine is ten times slower in the second of three rounds; the ratio is unaffected."""
    calls, speed = [], iter([1, 1, 10, 10, 1, 1])

    class Side:
        def __init__(self, checkout, program):
            self.is_other, self.is_warm = checkout == tmp_path.resolve(), False

        def seconds(self):
            if not self.is_warm:
                self.is_warm = True
                return 100.0
            calls.append("other" if self.is_other else "this")
            return next(speed) * (0.006 if self.is_other else 0.004)

        def close(self):
            calls.append("closed")

    monkeypatch.setattr(beside, "_Side", Side)
    row = beside.measure("rules 9x9, B=1024", tmp_path, 3)
    assert (row.this_ms, row.other_ms, row.ratio) == (4.0, 6.0, 1.5)
    order = ["other", "this", "this", "other", "other", "this"]
    assert calls == [*order, "closed", "closed"]
    write_csv(beside.Row, [row], tmp_path / "rows.csv")
    lines = readme.checkouts(tmp_path / "rows.csv").splitlines()
    assert lines[-1] == "| rules 9x9, B=1024 | 4.0 ms | 6.0 ms | 1.5x |"


@pytest.mark.thorough  # compiles twice
def test_a_program_of_this_checkout_beside_itself():
    row = beside.measure("tree of 82 actions B=64, 400 sims", ROOT, 1)
    assert row.this == row.other
    assert 0.2 < row.ratio < 5


@pytest.mark.thorough
def test_a_failing_program_is_reported(tmp_path):
    with pytest.raises(RuntimeError, match="status 1"):
        beside.measure("rules 9x9, B=1024", tmp_path, 1)  # tmp_path has no such modules
