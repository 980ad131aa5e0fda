"""The programs of ``gozero match``: how they are started (or fail to start) and ended."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import sys

import pytest

from gozero.apps import runtime, sgf
from gozero.apps.gtp.client import GtpClient
from gozero.apps.match import gtp_opponent, scheduler
from gozero.apps.match.config import MatchConfig, Side
from gozero.apps.match.folder import MatchFolder
from gozero.apps.match.referee import Referee
from gozero.apps.match.worker import GameWorker
from tests.apps.match.match_runs import ENGINE, match, results, scripted


def test_more_retries_replay_void_games(tmp_path, capsys):
    out = tmp_path / "run"
    players = scripted(f"1:ONCE={tmp_path / 'died'}"), scripted()
    flags = ["--games", "3", "--parallel", "1"]
    assert match(out, *players, *flags, "--retries", "0", "--crash", "void") == 0
    assert results(out)[1]["points"] is None
    assert match(out, *players, *flags, "--retries", "0") == 0  # the game is already played
    assert len((out / "results.jsonl").read_text().splitlines()) == 3
    capsys.readouterr()
    assert match(out, *players, *flags, "--retries", "1") == 0
    assert "resuming after 2 games" in capsys.readouterr().err
    again = results(out)[1]
    assert (again["points"], again["attempts"]) == (0.5, 2)
    assert "exit status 7" in again["failures"][0]
    assert len((out / "results.jsonl").read_text().splitlines()) == 4
    assert sgf.read(out / "games" / "0001.sgf").result == "0"
    summary = json.loads((out / "summary.json").read_text())
    assert (summary["games"], summary["void"], summary["replayed"]) == (3, 0, 1)
    assert match(out, *players, *flags) == 0
    assert len((out / "results.jsonl").read_text().splitlines()) == 4


def test_failed_attempts_count_after_a_stop(tmp_path, monkeypatch):
    """The opponent dies at each attempt; after two, the match is stopped and resumed."""
    out, kept = tmp_path / "run", MatchFolder.add_failures

    def stopped_after_two(self, number, failures):
        kept(self, number, failures)
        if len(failures) == 2:
            raise KeyboardInterrupt

    players = scripted(), scripted("0:DIE")
    flags = ["--games", "1", "--openings", "0"]
    with monkeypatch.context() as patch:
        patch.setattr(MatchFolder, "add_failures", stopped_after_two)
        assert match(out, *players, *flags) == runtime.STOPPED
    assert results(out) == {}
    with (out / "failures.jsonl").open("a") as file:
        file.write('{"game": 0, "fail')  # torn by a kill
    assert match(out, *players, *flags) == 0
    game = results(out)[0]
    assert game["why"].startswith("White died 3 times; White died: Scripted 1: ended at")
    assert (game["result"], game["attempts"], len(game["failures"])) == ("B+F", 3, 2)


def test_a_program_that_a_stop_ends_has_not_crashed(tmp_path, monkeypatch):
    """SIGTERM goes to all processes of a job: the program is dead first, and our handler runs
    once this thread wakes up."""
    out, void = tmp_path / "run", Referee.void

    def stopped(self, reason):
        void(self, reason)
        os.kill(os.getpid(), signal.SIGTERM)

    flags = ["--games", "2", "--openings", "0", "--retries", "0"]
    with monkeypatch.context() as patch:
        patch.setattr(Referee, "void", stopped)
        assert match(out, scripted(), scripted("0:DIE"), *flags) == runtime.TERMINATED
    assert results(out).get(0) is None
    assert not (out / "failures.jsonl").exists() or not (out / "failures.jsonl").read_text()
    assert match(out, scripted(), scripted("0:DIE"), *flags) == 0
    assert results(out)[0]["result"] == "B+F"


def test_a_summary_of_fewer_games_does_not_remain(tmp_path, monkeypatch):
    out = tmp_path / "run"
    assert match(out, scripted(), scripted(), "--games", "2") == 0

    def interrupted(self, game, record):
        raise OSError("the machine is gone")

    with monkeypatch.context() as patch:
        patch.setattr(MatchFolder, "add", interrupted)
        assert match(out, scripted(), scripted(), "--games", "4") == 1
    assert not (out / "summary.json").exists()
    assert match(out, scripted(), scripted(), "--games", "4") == 0
    assert json.loads((out / "summary.json").read_text())["games"] == 4


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ('{"game": 1, "failures": []}', "game 1 of 1"),
        ('{"game": 0, "failures": [1]}', "failures (1,)"),
        ('{"game": 0}', "'failures'"),
    ],
)
def test_a_damaged_failures_file_is_reported(tmp_path, line, wrong):
    config = MatchConfig(size=3, games=1, out=tmp_path / "run")
    with MatchFolder(config):
        (config.out / "failures.jsonl").write_text(f"{line}\n")
    with pytest.raises(ValueError, match=re.escape(wrong)) as refused:
        MatchFolder(config)
    assert "failures.jsonl, line 1 is damaged" in str(refused.value)


@pytest.fixture
def comes_and_goes(tmp_path):
    """A program whose file can be moved away."""
    program = tmp_path / "engine"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -S {ENGINE} "$@"\n')
    program.chmod(0o755)
    return program


def test_a_temporarily_missing_program_costs_no_game(comes_and_goes, tmp_path, monkeypatch):
    """It is gone after two games, and back after the third failure to start it."""
    out, elsewhere, missed = tmp_path / "run", tmp_path / "elsewhere", []
    add, begin = MatchFolder.add, GameWorker.begin

    def gone_after_two(self, game, record):
        add(self, game, record)
        if len(self.games) == 2:
            comes_and_goes.rename(elsewhere)

    def counted(self):
        begin(self)
        if self.start_error is not None:
            missed.append(self.start_error)
            if len(missed) == 3:
                elsewhere.rename(comes_and_goes)

    monkeypatch.setattr(MatchFolder, "add", gone_after_two)
    monkeypatch.setattr(GameWorker, "begin", counted)
    monkeypatch.setattr(scheduler, "_PAUSES_S", (0.01,) * 9)
    flags = ["--games", "6", "--parallel", "1", "--retries", "0"]
    assert match(out, f"{comes_and_goes} {{game}}", scripted(), *flags) == 0
    assert len(missed) == 3
    assert missed[0].startswith("Scripted 1: cannot be started: [Errno 2]")
    assert [game["attempts"] for game in results(out).values()] == [1] * 6
    assert [game["points"] for game in results(out).values()] == [0.5] * 6


@pytest.mark.parametrize("parallel", ["1", "4"])
def test_a_permanently_missing_program_ends_the_match(
    parallel, comes_and_goes, tmp_path, monkeypatch, capsys
):
    out, add = tmp_path / "run", MatchFolder.add

    def gone_after_one(self, game, record):
        add(self, game, record)
        comes_and_goes.unlink(missing_ok=True)

    monkeypatch.setattr(MatchFolder, "add", gone_after_one)
    monkeypatch.setattr(scheduler, "_PAUSES_S", (0.01, 0.02))
    flags = ["--games", "12", "--parallel", parallel]
    assert match(out, f"{comes_and_goes} {{game}}", scripted(), *flags) == 1
    complaint = capsys.readouterr().err.splitlines()[-1]
    assert "cannot be started: [Errno 2]" in complaint
    assert complaint.endswith("the same command resumes the match, with all games so far")
    assert 1 <= len(results(out)) <= int(parallel)  # games that had begun
    assert all(game["attempts"] == 1 for game in results(out).values())


def test_another_version_of_a_program_is_another_player(tmp_path, capsys):
    out = tmp_path / "run"
    version = tmp_path / "version"
    version.write_text("1.0")
    engine = f"{sys.executable} -S {ENGINE} {{game}} all:FILE={version}@version"
    assert match(out, engine, scripted(), "--games", "2") == 0
    version.write_text("2.0")
    assert match(out, engine, scripted(), "--games", "4") == 2
    says = "contains games of Scripted 1.0, but --player.command now starts Scripted 2.0"
    assert says in capsys.readouterr().err
    version.write_text("1.0")
    assert match(out, engine, scripted(), "--games", "4") == 0


@pytest.mark.thorough
def test_finished_games_are_kept_while_programs_still_run(tmp_path, monkeypatch):
    """Both keep running after `quit`, and the match is stopped while it waits for them."""
    out, stops, close = tmp_path / "run", [], GtpClient.close

    class Stop(runtime.StopRequest):
        def __init__(self):
            super().__init__()
            stops.append(self)

    def stopped_meanwhile(self):
        for stop in stops:  # empty while programs are asked for their names
            stop.requested = True
        close(self)

    monkeypatch.setattr(runtime, "StopRequest", Stop)
    monkeypatch.setattr(GtpClient, "close", stopped_meanwhile)
    players = scripted("0:ON@quit"), scripted("0:ON@quit")
    assert match(out, *players, "--games", "8", "--parallel", "1") == runtime.STOPPED
    assert sorted(results(out)) == [0]


def test_the_file_limit_is_raised_for_the_programs(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (64, 320))
    flags = ["--games", "40", "--parallel", "30"]
    assert match(tmp_path / "run", scripted(), scripted(), *flags) == 2
    says = "parallel: 30 games at once need 496 open files, but the system allows 320 (ulimit -Hn)"
    assert f"gozero match: {says}; use 8\n" == capsys.readouterr().err
    limits = []
    monkeypatch.setattr(resource, "setrlimit", lambda kind, value: limits.append(value))
    gtp_opponent.allow_open_files(MatchConfig(player=Side(command="a"), games=4, parallel=10))
    assert limits == [(296, 320)]  # four programs; each needs six more to start
