"""The progress display of long work."""

from __future__ import annotations

import io
import math

import pytest
from rich.console import Console

from gozero.runs import progress
from gozero.runs.progress import Progress


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until it is set."""
    at = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: at[0])
    return at


def test_without_a_terminal_lines_are_printed_occasionally(clock, capsys):
    with Progress("match", 10, done=2) as shown:
        shown.phase("compiling, about 9 s the first time")
        assert capsys.readouterr().err == "match: compiling, about 9 s the first time\n"
        clock[0] += 3
        shown.show(3, {"score": "1/1"})
        clock[0] += 3
        shown.show(4, {"score": "2/2"})
        shown.phase("playing")
        clock[0] += 3
        shown.show(5, {"score": "3/3", "": "ply 7"})
        shown.show(5, {"Elo": "+20"}, to_go=math.nan, now=True)
        shown.show(10)
    assert capsys.readouterr().err.splitlines() == [
        "3/10 games  score 1/1  0:00:21 to go",
        "5/10 games  score 3/3  ply 7  0:00:15 to go",
        "5/10 games  Elo +20  -:--:-- to go",
        "10/10 games  0:00:00 to go",
    ]


def test_while_no_unit_is_done_a_line_is_printed_each_minute(clock, capsys):
    with Progress("match", 4) as shown:
        for ply in range(13):
            shown.show(0, {"in play": f"4, ply {ply}"})
            clock[0] += 10
        shown.show(1, {"in play": "3, ply 13"})
    assert capsys.readouterr().err.splitlines() == [
        *(f"0/4 games  in play 4, ply {ply}  -:--:-- to go" for ply in (0, 6, 12)),
        "1/4 games  in play 3, ply 13  0:06:30 to go",
    ]


def test_half_of_the_units_in_work_count_as_done(clock, capsys):
    with Progress("match", 20, done=4) as shown:
        clock[0] += 60
        for done, begun in ((5, 10), (5, 16), (4, 10), (20, 10)):
            shown.show(done, begun=begun, now=True)
    assert [line.split("games  ")[1] for line in capsys.readouterr().err.splitlines()] == [
        "0:01:40 to go",  # 6 units took a minute, 10 are left
        "0:00:53 to go",  # 8.5 and 7.5: no more than 15 can be in work
        "-:--:-- to go",
        "0:00:00 to go",
    ]


@pytest.fixture
def terminal(monkeypatch):
    """The text that a terminal shows."""
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=70)
    monkeypatch.setattr(progress, "Console", lambda stderr: console)
    return text


def test_the_table_of_a_terminal_is_never_blank(clock, terminal):
    with Progress("train", 40, "iterations") as shown:
        shown.phase("compiling")
        clock[0] += 61
        shown.live.refresh()
        first = terminal.getvalue()
        shown.show(2, {"games/s": "5.0"}, to_go=3601)
    for text in ("train", "0 of 40", "compiling (0:00:00)", "compiling (0:01:01)", "-:--:--"):
        assert text in first
    last = terminal.getvalue()[len(first) :]
    for text in ("2 of 40", "games/s", "5.0", "1:00:01"):
        assert text in last
