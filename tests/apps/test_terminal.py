"""The game in the terminal: moves as text, from a pipe or from a person."""

from __future__ import annotations

import errno
import io
import subprocess
import sys

import pytest
from sgfmill import sgf as sgfmill

from gozero.apps import cli, sgf, terminal
from gozero.apps.terminal import PlayConfig, Terminal
from tests.apps.web.boards import Unthinking


def play(capsys, text, *flags):
    """The output of a game on 5x5 against a player that plays the first empty point."""
    config = PlayConfig.of_flags({"player": "random", "size": 5, "komi": 0.5, **dict(flags)})
    terminal = Terminal(config, Unthinking())
    terminal.new()
    terminal.take(io.StringIO(text))
    return capsys.readouterr().out


def test_a_handicap_of_one_stone_is_refused_as_a_flag(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["play", "--handicap", "1"])
    assert stop.value.code == 2
    assert capsys.readouterr().err == "gozero play: --handicap 1: expected 0, or from 2 to 9\n"


def test_a_game_is_played_and_saved(capsys, tmp_path):
    path = tmp_path / "game.sgf"
    output = play(capsys, f"c3\nundo\nC4\nscore\n\n# nothing\nsave {path}\nquit\nD4\n")
    assert " 5(O). . . . 5\n 4 . . X . . 4\n" in output
    assert "move 2: White A5\nBlack to play" in output
    assert "as it stands W+0.5; expected W+1.5" in output
    assert f"written: {path}" in output
    root = sgfmill.Sgf_game.from_bytes(path.read_bytes()).get_root()
    assert [node.get_move() for node in root] == [("b", (3, 2)), ("b", (2, 2))]
    assert output.count("to play") == 4, "nothing is played after quit"
    assert "move 4: White A5" not in output
    again = play(capsys, f"load {path}\npass\npass\nscore\nC1")
    assert "as it stands W+0.5" in again
    assert "? the game is over; type undo, new or quit" in again


def test_a_loaded_file_is_not_overwritten(capsys, tmp_path):
    path, other = tmp_path / "game.sgf", tmp_path / "other.sgf"
    text = "(;SZ[5]KM[0.5]EV[cup](;B[aa])(;B[bb]C[better]))"
    path.write_text(text)
    (tmp_path / "link.sgf").symlink_to(path)
    output = play(
        capsys,
        f"load {path}\nsave {path}\nsave {tmp_path}/link.sgf\nnew\nsave {path}\n"
        f"load {path}\nsave {other}\n",
    )
    refused = "game.sgf was loaded, and may contain more than its main line"
    assert output.count("? save: ") == 3
    assert refused in output
    assert path.read_text() == text
    assert sgf.read(other).info == (("EV", "cup"),)


def test_invalid_input_is_reported_and_the_game_continues(capsys):
    output = play(
        capsys, "I5\nC3\nC3\nload\nload /none.sgf\ndance\nsave /none/game.sgf\nundo\nundo\nD4"
    )
    complaints = [line for line in output.splitlines() if line.startswith("? ")]
    assert len(complaints) == 7
    assert "C3 is occupied" in complaints[1]
    assert "load: expected a file: load FILE.sgf" in complaints[2]
    assert "there is no move to take back" in complaints[6]
    assert "move 2: White A5" in output.splitlines()[-2]


def test_a_line_that_is_no_text_is_an_unknown_command(capsys, monkeypatch):
    monkeypatch.setattr(terminal, "Thinking", lambda *_: Unthinking())
    config = PlayConfig.of_flags({"player": "random", "size": 5})
    lines = io.TextIOWrapper(io.BytesIO(b"C\xff3\nC3\n"), encoding="utf-8")
    assert terminal.run(config, lines) == 0
    output = capsys.readouterr().out
    assert r"? invalid vertex 'C\\xff3'" in output
    assert "move 2: White A5" in output


@pytest.mark.parametrize(
    ("stdin", "message"),
    [(None, "standard input is closed"), ("folder", "Is a directory")],
)
def test_input_that_cannot_be_read_is_one_line(capsys, monkeypatch, tmp_path, stdin, message):
    def readline(*_):
        raise IsADirectoryError(errno.EISDIR, "Is a directory")

    monkeypatch.setattr(terminal, "Thinking", lambda *_: Unthinking())
    monkeypatch.setattr(sys, "stdin", None)
    lines = None if stdin is None else iter(readline, "")
    config = PlayConfig.of_flags({"player": "random", "size": 5})
    with pytest.raises(SystemExit) as stopped:
        terminal.run(config, lines)
    assert stopped.value.code == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("gozero play: ")
    assert message in line


def test_hint_analysis_and_help(capsys):
    output = play(capsys, "hint\nanalysis\nhelp\nresign\nhint\n", ("colour", "white"))
    assert "move 1: Black A5\nWhite to play\n" in output
    assert "\nA5\n" in output, "the first point, which the stub says"
    assert "White wins 74.0%, W+1.5, 10 visits" in output
    assert "undo           take back" in output
    assert "B+R" in output
    assert output.endswith("? the game is over\n")


def test_a_position_is_analysed_once_and_a_new_game_knows_nothing(capsys):
    """Also after taking a move back; and what was known of the game before does not count."""
    thinking = Unthinking()
    terminal = Terminal(PlayConfig.of_flags({"player": "random", "size": 5}), thinking)
    terminal.new()
    for command, asked in (
        ("hint", [[0]]),
        ("D4\nhint", [[0], [2]]),
        ("undo\nhint", [[0], [2]]),
        ("new\nD4\nhint\nanalysis", [[0], [2], [2]]),
    ):
        terminal.take(io.StringIO(f"{command}\n"))
        assert thinking.asked == asked
    assert capsys.readouterr().out.splitlines().count("A5") == 4


def test_the_result_of_a_game_with_a_move_taken_back(capsys, tmp_path):
    path = tmp_path / "game.sgf"
    play(capsys, f"C3\nundo\nC4\nundo\nresign\nsave {path}\n")
    assert sgf.read(path).result == "W+R", "resigned before the moves that were taken back"
    assert "? the game is over; type new or quit" in play(capsys, "resign\nC3\n")
    output = play(capsys, f"C3\nundo\nC4\nresign\nresign\nsave {path}\n")
    assert "? the game is over" in output
    assert sgf.read(path).result == "W+R"
    assert [sgf.read(path).moves[0]] == [(0, 7)]


def test_two_engines_play_to_the_end(capsys):
    assert "W+0.5" in play(capsys, "", ("colour", "none"))


@pytest.mark.slow
def test_the_command_plays_moves_from_a_pipe(tmp_path):
    command = [sys.executable, "-m", "gozero.apps.cli", "play", "--size", "5", "--player", "fast"]
    moves = f"C3\nhint\nanalysis\nscore\npass\nsave {tmp_path / 'game.sgf'}\n"
    done = subprocess.run(command, input=moves, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr
    assert "compiling for 5x5" in done.stderr
    assert "Traceback" not in done.stderr
    assert "move   wins  visits" in done.stdout
    assert (tmp_path / "game.sgf").is_file()
