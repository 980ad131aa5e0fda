"""Handicap over GTP: where the stones go, what is refused, and the game after it."""

import re

import pytest
from sgfmill import boards

from gozero.apps import sgf
from gozero.apps.gtp import run as gtp
from gozero.apps.host_game import HostGame, IllegalMove
from gozero.go import coords, handicap
from gozero.go.rules import Rules
from tests.apps.gtp.refereed import play_game
from tests.apps.gtp.test_gtp import session


def test_fixed_handicap_is_answered_and_white_begins():
    responses = session("boardsize 9\nfixed_handicap 5\nshowboard\nundo\nplay w D4\nundo\nundo")
    assert responses[1] == "= C3 G7 C7 G3 E5"
    assert responses[2].count("X") == 5
    assert responses[2].endswith("White to play")
    assert responses[3:] == ["? cannot undo", "=", "=", "? cannot undo"]


def test_free_handicap():
    assert session("place_free_handicap 3\nshowboard")[-1].count("X") == 3
    responses = session("set_free_handicap a1 b1 C1\nshowboard\nclear_board\nshowboard")
    assert responses[0] == "="
    assert " 1 X X X . . 1" in responses[1]
    assert "X" not in responses[3].replace("X  ", "")
    assert session("set_free_handicap a1 b1\nfinal_score\nkomi 0\nfinal_score")[1:] == [
        *("= B+18", "=", "= B+25"),
    ]


@pytest.mark.parametrize(
    ("script", "refusal"),
    [
        ("fixed_handicap", "syntax error: expected fixed_handicap NUMBER"),
        ("fixed_handicap many", "syntax error"),
        ("fixed_handicap 2", "invalid number of stones"),  # 5x5 has no fixed placement
        ("boardsize 7\nfixed_handicap 5", "invalid number of stones"),
        ("boardsize 9\nfixed_handicap 10", "invalid number of stones"),
        ("boardsize 9\nfixed_handicap 1", "invalid number of stones"),
        ("place_free_handicap 1", "invalid number of stones"),
        ("place_free_handicap 25", "invalid number of stones"),
        ("set_free_handicap a1", "syntax error"),
        ("set_free_handicap a1 A1", "bad vertex list: .*A1 occurs twice"),
        ("set_free_handicap a1 pass", "bad vertex list"),
        ("set_free_handicap a1 z9", "bad vertex list"),
        ("play b a1\nplace_free_handicap 2", "board not empty"),
        ("play b pass\nset_free_handicap a1 b1", "board not empty"),
        ("set_free_handicap a1 b1\nset_free_handicap c1 d1", "board not empty"),
    ],
)
def test_refusals(script, refusal):
    assert re.match(rf"\? {refusal}", session(script)[-1])


def test_placements_match_the_specification():
    for size in range(2, 26):
        assert handicap.most_fixed(size) == (
            0 if size < 7 else 4 if size == 7 or size % 2 == 0 else 9
        )
        for number in range(2, handicap.most_fixed(size) + 1):
            points = handicap.fixed(size, number)
            assert len(set(points)) == number
            if number <= 5 or size >= 13:
                stars = coords.star_points(size)
                assert {divmod(p, size) for p in points} <= set(stars)
        for number in {2, 3, 10, size * size - 1} & set(range(2, size * size)):
            assert len(set(handicap.free(size, number))) == number
    on_19 = [coords.to_gtp(19, p) for p in handicap.fixed(19, 9)]
    assert " ".join(on_19) == "D4 Q16 D16 Q4 D10 Q10 K4 K16 K10"


def test_superko_starts_at_the_handicap_position():
    """Three handicap stones on 2x2, which White captures; Black may not recreate that position."""
    game = HostGame(Rules(2), 0.5, [0, 1, 2])
    game.play(1, 3)  # takes all three stones
    assert game.stones().tolist() == [[0, 0], [0, -1]]
    game.play(0, 1)
    game.play(1, 2)
    game.play(0, 0)  # takes White's two stones, which have lost their last liberty
    assert game.stones().tolist() == [[1, 1], [0, 0]]
    game.play(1, 4)
    with pytest.raises(IllegalMove, match="superko"):
        game.play(0, 2)  # would recreate the three handicap stones


class PassingClient:
    """A client that passes."""

    def __init__(self, name):
        self.name, self.heard = name, []

    def send(self, command, timeout=None):
        self.heard.append(command)
        return "pass" if command.startswith("genmove") else ""


def test_a_refereed_game_records_its_handicap():
    black, white = PassingClient("b"), PassingClient("w")
    record = play_game(black, white, size=9, komi=0.5, handicap=handicap.fixed(9, 3))
    assert "set_free_handicap C3 G7 C7" in black.heard
    assert "set_free_handicap C3 G7 C7" in white.heard
    assert record.moves == ((1, 81), (0, 81))
    assert record.result == "B+80.5"
    text = sgf.to_sgf(record)
    assert "HA[3]" in text
    root = sgf.sgfmill.Sgf_game.from_string(text).get_root()
    board = boards.Board(9)
    board.apply_setup(*root.get_setup_stones())
    assert {("b", (2, 2)), ("b", (6, 6)), ("b", (6, 2))} == set(board.list_occupied_points())
    assert sgf.read(text.encode()) == record


def test_the_command_table_describes_handicap_arguments():
    table = gtp.commands(gtp.Engine(gtp.GtpConfig()))
    assert table["set_free_handicap"].usage == "VERTEX VERTEX [VERTEX...]"
