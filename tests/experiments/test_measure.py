"""Result rows and their bounds, measuring in turn, and child processes on one core."""

import json
import os

import pytest

from experiments.throughput import readme
from experiments.throughput.measure import Report, Result, in_turn, median_ratio
from experiments.throughput.worker import Worker


def row(**fields) -> Result:
    return Result(row="a row", unit="things", device="none", **fields)


@pytest.mark.parametrize(
    ("fields", "holds"),
    [
        ({"ours": 30.0, "peer": 10.0, "must": 3.0}, True),
        ({"ours": 29.0, "peer": 10.0, "must": 3.0}, False),
        ({"ours": 30.0, "peer": 10.0, "must": 3.0, "ratio": 2.9}, False),
        ({"ours": 30.0, "must": 3.0}, None),
        ({"ours": 30.0, "peer": 10.0}, None),
        ({"ours": 11.0, "peer": 10.0, "must": 1.1, "better": "less"}, True),
        ({"ours": 12.0, "peer": 10.0, "must": 1.1, "better": "less"}, False),
        ({"ours": 42.0, "must": 64.0, "bounds": "ours", "better": "less"}, True),
        ({"ours": 65.0, "must": 64.0, "bounds": "ours", "better": "less"}, False),
    ],
)
def test_whether_a_row_meets_its_bound(fields, holds):
    assert row(**fields).as_dict()["holds"] is holds


def test_json_rows_keep_their_keys(capsys):
    Report(as_json=True).add(row(ours=1.0))
    keys = {"row", "ours", "unit", "peer", "ratio", "must", "aim", "holds", "note", "device"}
    assert keys <= set(json.loads(capsys.readouterr().out))


def test_readme_tables_of_rows(tmp_path):
    def line(name, **fields):
        return json.dumps(Result(row=name, device="none", **fields).as_dict() | {"run": 1}) + "\n"

    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    speed = {"unit": "games/s", "peer_name": "C", "must": 2.0, "aim": 4.0}
    first.write_text(
        line("playouts", ours=3e4, peer=1e4, **speed)
        + line("a step", ours=30.0, unit="s", bounds="ours", better="less", must=40.0, note="idle")
    )
    second.write_text(
        line("playouts", ours=2_345_678.0, peer=1e4, **speed)
        + line("gain", ours=1.5, unit="x", peer=2.0, peer_name="alone", must=0.8)
    )
    assert readme.rows(first, second).splitlines()[2:] == [
        "| playouts | 30k, 2.35M games/s | 10k, C | **3.00x, 235x** | 2x | 4x |  |",
        "| a step | **30 s** |  |  | 40 s |  | idle |",
        "| gain | 1.5x | 2, alone | 0.75x | 0.8x |  |  |",
    ]


def test_readme_tables_of_training(tmp_path):
    """Steps are counted from a run's start; the first iteration that learns is left out."""
    path = tmp_path / "runs.csv"
    path.write_text(
        "devices,run,iteration,playing_s,learning_s,steps\n"
        "2,1,1,4.0,0.0,0\n2,1,2,3.0,9.0,10\n2,1,3,3.0,1.0,20\n2,1,4,3.0,1.0,40\n"
    )
    assert readme.training(path).splitlines()[-1] == "| devices: 2 | 1 | 3.0 s | 75 ms | 25% |"


def test_the_table_shows_bounds_of_both_kinds(capsys):
    report = Report(as_json=False)
    report.add(row(ours=30.0, peer=10.0, must=3.0))
    report.add(row(ours=42.0, must=64.0, bounds="ours", better="less"))
    report.close()
    shown = capsys.readouterr().out
    assert "≥ 3x" in shown
    assert "≤ 64 things" in shown


def test_sides_are_measured_in_turn_and_compared_round_by_round():
    order = []

    def side(name, figures):
        figures = iter(figures)
        return lambda: order.append(name) or next(figures)

    ours, peer = in_turn([side("a", [2.0, 9.0, 6.0]), side("b", [1.0, 3.0, 3.0])], 3)
    assert order == ["a", "b"] * 3
    assert median_ratio(ours, peer) == 2.0


def make_core_count():
    return lambda: len(os.sched_getaffinity(0))


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cores cannot be chosen here")
def test_a_worker_and_this_process_use_separate_cores():
    before = os.sched_getaffinity(0)
    with Worker(f"{__name__}:make_core_count", 1) as child:
        assert child() == 1
    assert os.sched_getaffinity(0) == before


def test_a_failing_worker_is_reported():
    with pytest.raises(RuntimeError, match="status 1"):
        Worker(f"{__name__}:there_is_no_such_task", 1)
