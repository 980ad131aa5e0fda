"""A whole 9x9 game over GTP against GNU Go, which also checks that our moves are legal."""

import os
import shutil
import sys

import pytest
from sgfmill import boards

from gozero.apps import sgf
from gozero.apps.gtp.client import GtpClient
from gozero.go import coords
from tests.apps.gtp.refereed import play_game

GNUGO = "/usr/games/gnugo" if os.access("/usr/games/gnugo", os.X_OK) else shutil.which("gnugo")
OURS = [sys.executable, "-m", "gozero.apps.cli", "gtp", "--evaluator", "playout"]
OURS += ["--simulations", "32"]


def board_of(record: sgf.GameRecord) -> boards.Board:
    """The final board of a record, by sgfmill's rules."""
    board = boards.Board(record.size)
    for colour, action in record.moves:
        if action != record.size**2:
            row, col = coords.row_col(record.size, action)
            board.play(record.size - 1 - row, col, "bw"[colour])
    return board


def vertices(board: boards.Board, colour: str) -> set[str]:
    points = board.list_occupied_points()
    size = board.side
    return {coords.to_gtp(size, (size - 1 - r) * size + c) for k, (r, c) in points if k == colour}


def shown(text: str, mark: str) -> set[str]:
    """The vertices where showboard has a mark."""
    rows = [line.replace("(", " ").replace(")", " ").split() for line in text.split("\n")[2:11]]
    letters = coords.GTP_COLUMNS
    return {f"{letters[c]}{row[0]}" for row in rows for c, x in enumerate(row[1:-1]) if x == mark}


@pytest.mark.thorough
@pytest.mark.skipif(GNUGO is None, reason="needs GNU Go: neither /usr/games/gnugo nor on PATH")
def test_a_game_against_gnugo(tmp_path, monkeypatch, as_here):
    monkeypatch.setenv("XLA_FLAGS", as_here.get("XLA_FLAGS", ""))
    theirs = [GNUGO, "--mode", "gtp", "--level", "1", "--chinese-rules", "--quiet"]
    theirs += ["--positional-superko", "--seed", "1"]
    with GtpClient(OURS, timeout=120.0) as black, GtpClient(theirs) as white:
        record = play_game(black, white, size=9, komi=7.0)
        for colour, mark, name in (("b", "X", "black"), ("w", "O", "white")):
            stones = vertices(board_of(record), colour)
            assert set(white.send(f"list_stones {name}").split()) == stones
            assert shown(black.send("showboard"), mark) == stones
        assert black.send("get_komi") == "7"  # so with the stones the score is the record's

    # Nobody forfeited: our rules accepted all of GNU Go's moves, and GNU Go accepted ours.
    assert not record.comment
    assert [action for _, action in record.moves[-2:]] == [81, 81]
    assert (record.black, record.white) == ("gozero", "GNU Go")
    sgf.write(tmp_path / "game.sgf", record)
    assert sgf.read(tmp_path / "game.sgf") == record
    print(f"{record.result} in {len(record.moves)} moves")
