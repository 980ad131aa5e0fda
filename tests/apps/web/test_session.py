"""The session behind a board: games with variations, engines, analyses, all kinds of messages."""

from __future__ import annotations

import json
import os
import queue
import random

import numpy as np
import pytest
from sgfmill import sgf as sgfmill

from gozero.apps import sgf
from gozero.apps.analysis import query
from gozero.apps.analysis.run import Server
from gozero.apps.web import watch
from gozero.apps.web.config import WebConfig
from gozero.apps.web.session import _HANDLERS, BadMessage
from gozero.apps.web.thinking import OURS, Thinking
from gozero.apps.web.variations import Variations
from tests.apps.web.boards import SIZE, Board

PASS = SIZE * SIZE
GAME = "(;FF[4]SZ[5]KM[0.5]PB[A]PW[B]RE[B+R];B[cc]C[the centre];W[bb];B[];W[dd])"


@pytest.fixture(scope="module")
def board():
    return Board()


def test_a_game_against_an_engine_ends_and_is_scored(board):
    board.new(white="random")
    board.request("play", at=12)
    at = board.last("at")
    assert at["stones"] == "O" + "." * 11 + "X" + "." * 12
    assert (at["turn"], at["ended"], at["node"]) == (0, False, 2)
    board.request("resign")
    assert board.last("at")["result"] == "W+R"
    board.new()
    board.request("play", at=12)
    board.request("play", at=PASS)
    board.request("play", at=PASS)
    assert board.last("at")["result"] == "B+18"
    board.request("save")
    assert "RE[B+18]" in board.last("sgf")["text"]


def test_undo_returns_the_turn_and_keeps_a_variation(board):
    board.new(white="random")
    board.request("play", at=12)
    board.request("undo")
    assert board.last("at")["node"] == 0
    messages = board.request("play", at=13)
    assert [m["node"] for m in messages if m["tell"] == "node"] == [[0, 0, 13], [3, 1, 0]]
    board.request("goto", node=2)
    assert board.last("at")["stones"] == "O" + "." * 11 + "X" + "." * 12
    messages = board.request("undo")
    board.request("play", at=13)
    assert not [m for m in board.sent[-4:] if m["tell"] == "node"], "the move already existed"
    board.request("save")
    tree = sgfmill.Sgf_game.from_string(board.last("sgf")["text"])
    assert [child.get_move()[1] for child in tree.get_root()] == [(2, 3), (2, 2)]


def test_the_main_line_of_a_loaded_game_remains(board):
    board.request("load", sgf=GAME)
    board.request("goto", node=1)
    board.request("undo")
    board.request("play", at=13)
    assert board.last("at")["retracted"] == []
    board.request("save")
    saved = sgf.read(board.last("sgf")["text"].encode())
    assert (saved.moves, saved.result) == (sgf.read(GAME.encode()).moves, "B+R")
    assert saved.move_comments[0] == "the centre"


def test_a_move_taken_back_counts_again_once_play_goes_on_from_it(board):
    board.new()
    board.request("play", at=12)
    board.request("undo")
    board.request("goto", node=1)
    board.request("play", at=7)
    board.request("goto", node=0)
    board.request("play", at=3)
    board.request("save")
    tree = sgfmill.Sgf_game.from_string(board.last("sgf")["text"])
    assert [node.get_move() for node in tree.get_main_sequence()[1:]] == [
        ("b", (2, 2)),
        ("w", (3, 2)),
    ]


def test_the_result_of_a_loaded_game_remains(board):
    """Also where its board would score otherwise."""
    board.request("load", sgf="(;SZ[5]KM[0]RE[W+3];B[cc];W[];B[])")
    board.request("goto", node=3)
    assert (board.last("at")["ended"], board.last("at")["result"]) == (True, "W+3")
    board.request("save")
    assert "RE[W+3]" in board.last("sgf")["text"]


def test_a_resignation_belongs_to_its_position(board):
    board.new()
    for action in (12, 7):
        board.request("play", at=action)
    board.request("resign")
    assert (board.last("at")["ended"], board.last("at")["result"]) == (True, "W+R")
    with pytest.raises(ValueError, match="the game is over"):
        board.request("resign")
    with pytest.raises(ValueError, match="the game is over"):
        board.request("move")
    board.request("goto", node=1)
    assert not board.last("at")["ended"]
    board.request("save")
    assert "RE[W+R]" in board.last("sgf")["text"], "wherever the board is"
    board.request("play", at=8)
    assert not board.last("at")["ended"]
    board.request("goto", node=2)
    assert board.last("at")["ended"]
    board.request("undo")
    board.request("play", at=7)
    assert not board.last("at")["ended"], "taken back"


def test_the_text_of_a_file_is_already_decoded(board):
    board.request("load", sgf="(;SZ[5]CA[Shift_JIS]PB[\u672c];B[aa])")
    assert board.last("game")["black"] == "\u672c"


def test_a_file_without_komi_has_that_of_the_flags(board):
    board.request("hello")
    board.request("load", sgf="(;SZ[5];B[cc])")
    assert board.last("game")["komi"] == board.last("hello")["komi"] != 0
    board.request("save")
    assert "KM[" in board.last("sgf")["text"]
    board.request("load", sgf="(;SZ[5]KM[0];B[cc])")
    assert board.last("game")["komi"] == 0


def test_two_engines_play_to_the_end(board):
    messages = board.new("random", "fast")
    assert board.last("at")["ended"]
    assert board.last("at")["result"] == "W+7"
    assert {m["text"] for m in messages if m["tell"] == "busy"} == {"random thinks", "fast thinks"}


def test_white_begins_after_a_handicap(board):
    board.request("load", sgf="(;SZ[5]HA[2]AB[bb][dd])")
    assert board.last("at")["turn"] == 1
    with pytest.raises(ValueError, match="handicap"):
        board.new(handicap=3)


@pytest.mark.slow
def test_an_engine_begins_after_a_handicap(board):
    board.new(white="random", size=7, handicap=3)
    at = board.last("at")
    assert (at["stones"].count("X"), at["stones"].count("O"), at["turn"]) == (3, 1, 0)


def test_a_file_is_loaded_reviewed_and_saved(board):
    messages = board.request("load", sgf=GAME)
    game = messages[-2]
    assert game["nodes"] == [[-1, 0, -1], [0, 0, 12], [1, 1, 6], [2, 0, PASS], [3, 1, 18]]
    assert (game["black"], game["result"], game["comments"][1]) == ("A", "B+R", "the centre")
    board.request("analyse", on=True)
    assert board.last("analysis")["node"] == 0
    board.request("goto", node=4)
    messages = board.request("review")
    analyses = [m for m in messages if m["tell"] == "analysis"]
    assert [m["node"] for m in analyses] == [1, 2, 3], "known analyses are not requested again"
    assert (analyses[0]["win"], analyses[0]["lead"], analyses[0]["moves"][0]["line"]) == (
        0.26,
        -1.5,
        [0, PASS],
    )
    assert analyses[0]["policy"][-1] == 0, "JSON has no nan"
    assert [m["text"] for m in messages if m["tell"] == "busy"][::3] == ["0 of 3 positions", ""]
    board.request("save")
    root = sgfmill.Sgf_game.from_string(board.last("sgf")["text"]).get_root()
    assert [node.get_raw("SBKV") for node in (root, root[0])] == [b"25.0", b"26.0"]
    board.request("analyse", on=False)


@pytest.mark.parametrize(
    ("begun", "progress", "ended"),
    [
        ({"do": "analyse", "on": True}, "searching", {"do": "analyse", "on": False}),
        ({"do": "review"}, "0 of 5 positions", {"do": "load", "sgf": GAME}),
    ],
)
def test_progress_of_a_cancelled_analysis_is_no_longer_shown(monkeypatch, begun, progress, ended):
    board = Board()
    board.request("load", sgf=GAME)
    monkeypatch.setattr(board.thinking, "analyse", lambda *_: "1")  # which never answers
    shown = lambda: [m["text"] for m in board.sent if m.get("of") == "analysis"][-1]
    board.request(**begun)
    assert shown() == progress
    board.request(**ended)
    assert shown() == ""


def test_the_result_of_a_record_belongs_to_its_last_move(board):
    """The board shows it at the node `last`, and not at the end of any other line."""
    board.request("load", sgf=GAME)
    assert board.last("game")["last"] == 4
    board.request("goto", node=1)
    board.request("play", at=13)
    assert board.last("at")["node"] == 5
    board.request("hello")
    assert (board.last("game")["last"], len(board.last("game")["nodes"])) == (4, 6)
    assert "result" not in board.last("at")


def test_a_reconnect_receives_the_whole_state(board):
    board.request("load", sgf=GAME)
    board.request("analyse", on=True)
    messages = board.request("hello")
    assert [m["tell"] for m in messages] == ["hello", "game", "analysis", "at"]
    assert messages[0]["started"]
    names = "strong", "fast", "rave", "uct", "literal", "literal-uct", "random"
    assert messages[0]["players"] == list(names)
    board.request("analyse", on=False)


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        ({"do": "dance"}, "not one of new, load"),
        ({}, "not one of new, load"),
        ({"do": "new", "size": 99, "komi": 7, "black": "you", "white": "you"}, "from 2 to 25"),
        ({"do": "new", "size": 5, "komi": 0.3, "black": "you", "white": "you"}, "komi: 0.3 is not"),
        (
            {"do": "new", "size": 5, "komi": 7, "black": "a", "white": "you"},
            "black: 'a' is not a player",
        ),
        ({"do": "play", "at": 26}, "at: 26 is not a whole number from 0 to 25"),
        ({"do": "play", "at": True}, "at: True is not a whole number"),
        ({"do": "goto", "node": -1}, "node: -1 is not"),
        ({"do": "load", "sgf": "(;GM[2])"}, "GM\\[2\\] is a game other"),
        ({"do": "load", "sgf": "(;SZ[5];B[aa];W[aa])"}, "move 2: A5 is occupied"),
        ({"do": "load", "sgf": 7}, "expected the text of a file"),
        (
            {"do": "load", "sgf": f"(;SZ[5]{';B[];W[]' * 201})"},
            "402 moves; expected at most 400 on 5x5",
        ),
        ({"do": "watch", "what": "folder"}, "no folder; start with"),
        ({"do": "open", "game": 0}, "no games are watched"),
    ],
)
def test_invalid_requests_are_refused(board, message, complaint):
    board.new()
    with pytest.raises(ValueError, match=complaint):
        board.session.take(message)
    board.request("play", at=0)
    assert board.last("at")["stones"][0] == "X", "the game is unchanged"


def test_without_a_game_only_a_new_game_is_accepted():
    with pytest.raises(BadMessage, match="there is no game yet"):
        Board().request("play", at=0)


def test_a_folder_is_watched_as_it_grows(tmp_path):
    board = Board(tmp_path)
    board.request("watch", what="folder")
    (tmp_path / "games").mkdir()
    (tmp_path / "games" / "1.sgf").write_text(GAME)
    (tmp_path / "games" / "damaged.sgf").write_text("(;SZ[5]")
    board.session._show_watched()
    [game] = board.last("games")["games"]
    assert (game["name"], game["last"]) == ("1  B+R", 18)
    assert game["stones"] == "......O.....X.....O......"
    count = len(board.sent)
    board.session._show_watched()
    assert len(board.sent) == count, "no message was sent"
    board.request("open", game=0)
    assert board.last("at")["node"] == 4


def test_a_look_at_a_watched_folder_looks_at_few_files(tmp_path, monkeypatch):
    (tmp_path / "games").mkdir()
    for number in range(watch.MOST_GAMES + 4):
        (tmp_path / "games" / f"{number:02}.sgf").write_text(GAME)
        os.utime(tmp_path / "games" / f"{number:02}.sgf", (number + 1, number + 1))
    for folder in (tmp_path / "games", tmp_path):
        os.utime(folder, (1, 1))
    watched = watch.WatchedFolder(tmp_path, "positional", False)
    assert watched.look()["title"].endswith(": 20 games")
    looked, listed = [], []
    stat, scandir = os.stat, os.scandir
    monkeypatch.setattr(os, "stat", lambda path, **k: looked.append(str(path)) or stat(path, **k))
    monkeypatch.setattr(os, "scandir", lambda path: listed.append(str(path)) or scandir(path))
    assert watched.look() is None
    assert (len(looked), listed) == (watch.MOST_GAMES + 2, []), "the games shown, two folders"
    os.utime(tmp_path / "games" / "10.sgf", (30, 30))
    assert watched.look()["games"][0]["name"].startswith("10 ")
    (tmp_path / "games" / "new.sgf").write_text(GAME)
    looked.clear()
    assert watched.look()["games"][0]["name"].startswith("new ")
    assert listed == [str(tmp_path / "games")]
    assert not [path for path in looked if path.endswith("03.sgf")], "known, and not shown"
    os.utime(tmp_path / "games" / "new.sgf", (40, 40))  # the next file may get the same time
    sgf.write(tmp_path / "games" / "03.sgf", sgf.read(tmp_path / "games" / "04.sgf"))
    assert watched.look()["games"][0]["name"].startswith("03 "), "replaced by another file"
    (tmp_path / "games" / "new.sgf").unlink()
    assert watched.look()["title"].endswith(": 20 games")


def test_folders_that_vanish_during_a_scan_are_skipped(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    (tmp_path / "1.sgf").write_text(GAME)
    looked = os.scandir

    def scandir(path):
        if str(path).endswith("gone"):
            raise FileNotFoundError(2, "No such file or directory", str(path))
        return looked(path)

    monkeypatch.setattr(os, "scandir", scandir)
    board = Board(tmp_path)
    board.request("watch", what="folder")
    board.session._show_watched()
    assert [game["name"] for game in board.last("games")["games"]] == ["1  B+R"]


@pytest.mark.slow
def test_watched_self_play_continues_and_can_be_opened():
    board = Board()
    board.request("watch", what="selfplay", player="random", size=5, games=4)
    for _ in range(30):
        board.session._show_watched()
    games = board.last("games")["games"]
    assert len(games) == 4
    assert len({game["stones"] for game in games}) > 1
    board.request("open", game=3)
    assert board.last("at")["stones"] == games[3]["stones"]


def test_an_engine_that_fails_to_move_leaves_the_turn(board, monkeypatch):
    def choose(name, variations):
        raise ValueError("a player for another size")

    monkeypatch.setattr(board.thinking, "choose", choose)
    with pytest.raises(ValueError, match="another size"):  # of a board that waits
        board.new(black="random")
    board.request("play", at=12)  # by hand, for the engine
    board.session.take({"do": "move"})
    count = len(board.sent)
    for message in ({"do": "goto", "node": 0}, {"do": "move"}, None):
        board.session.put(message)
    board.session._inbox = Emptying(board.session._inbox)
    board.session.run()
    told = [m for m in board.sent[count:] if m["tell"] in ("at", "error")]
    assert [m["tell"] for m in told] == ["at", "error", "at"]
    assert told[1]["text"] == "a player for another size"
    assert told[2]["engine"] is False
    assert board.last("busy")["text"] == ""


class Emptying:
    """A queue that is found empty once before its last message."""

    def __init__(self, inbox):
        self._inbox, self._was_empty = inbox, False

    def get(self, *wait):
        if self._inbox.qsize() == 1 and not self._was_empty:
            self._was_empty = True
            raise queue.Empty
        return self._inbox.get()


def test_an_invalid_message_stops_neither_watching_nor_the_engine(board):
    board.new(white="random")
    board.session.take(
        {"do": "watch", "what": "selfplay", "player": "random", "size": 5, "games": 1}
    )
    watching = board.session._watching
    board.session._attempt(lambda: board.session.take({"do": "undo"}))
    assert board.last("error")["text"] == "there is no move to take back"
    assert board.session._watching is watching
    board.request("unwatch")
    assert board.sent[-1]["tell"] == "at"
    assert board.session._watching is None
    board.session.take({"do": "play", "at": 12})
    board.session._attempt(lambda: board.session.take({"do": "play", "at": 99}))
    assert board.session._is_engines_turn


def test_a_watched_game_that_is_resigned_says_so():
    board = Board()
    board.request("watch", what="selfplay", player="random", size=5, games=2)
    board.session._show_watched()
    watched = board.session._watching
    watched._lanes = watched._lanes._replace(resigned=np.array([False, True]))
    games = watched._message(np.array([False, True]))["games"]
    assert [game["name"] for game in games] == ["move 1", "B+R"]


@pytest.mark.parametrize("name", ["random", None])
def test_players_are_played_by_the_rules_of_the_flags(name):
    """Watched self-play takes them from there."""
    flags = {"player": "random", "size": 5, "ko": "simple", "suicide": True}
    config = WebConfig.of_flags(flags).to_play(name, 7)
    assert (config.size, config.ko, config.suicide) == (7, "simple", True)


def test_every_node_can_be_visited(board):
    random.seed(1)
    tree = Variations(sgf.read(GAME.encode()))
    boards = {0: tree.game.stones()}
    for _ in range(40):
        tree.go_to(random.choice(list(boards)))
        free = [p for p in range(PASS) if tree.game.stones().reshape(-1)[p] == 0]
        try:
            tree.play(random.choice(free))
        except ValueError:
            continue
        boards[tree.at] = tree.game.stones()
    for node in random.sample(list(boards), 15):
        tree.go_to(node)
        assert (tree.game.stones() == boards[node]).all()
        assert len(tree.moves(node)) == len(tree.game.moves)


@pytest.mark.slow
def test_a_session_survives_a_thousand_odd_messages():
    rng = random.Random(3)
    odd = [
        None,
        -1,
        0,
        1,
        2,
        3,
        5,
        7,
        12,
        25,
        1e300,
        True,
        "",
        "you",
        "random",
        "B",
        [],
        {},
        GAME,
        "x" * 3000,
    ]
    odd += ["(;SZ[5];B[aa]", "\udcff", "selfplay", "folder", 10**30, [[]], 0.5]
    fields = [
        "at",
        "node",
        "size",
        "komi",
        "black",
        "white",
        "sgf",
        "on",
        "handicap",
        "what",
        "game",
    ]
    board = Board()
    board.new()
    for _ in range(1000):
        message = {name: rng.choice(odd) for name in rng.sample(fields, rng.randrange(7))}
        message["do"] = rng.choice([*_HANDLERS, *_HANDLERS, "?", None, 3])
        if message["do"] == "watch":
            message["what"] = "folder"
        board.session._attempt(lambda message=message: board.session.take(message))
        if board.session._is_engines_turn:
            board.session._attempt(board.session._engine_moves)
    errors = [message["text"] for message in board.sent if message["tell"] == "error"]
    kinds = (
        "KeyError",
        "TypeError",
        "AttributeError",
        "IndexError",
        "Assertion",
        "Unicode",
        "XlaRuntime",
    )
    assert not [text for text in errors if text.startswith(kinds)]
    assert len(errors) > 300
    board.new()
    board.request("play", at=0)
    assert board.last("at")["stones"][0] == "X"


def test_answers_of_the_analysis_engine_reach_the_requester(monkeypatch):
    """It refuses every id, so the answer needs no search. An engine that ends is replaced."""
    monkeypatch.setattr(query, "MAX_ID", 0)
    thinking = Thinking(WebConfig.of_flags({"player": "random", "size": 5}), "test")
    answers: queue.Queue[dict] = queue.Queue()
    tree = Variations(sgf.read(GAME.encode()))

    def error():
        thinking.analyse(tree, tree.moves(0), [0], answers.put)
        return answers.get(timeout=60)["error"]

    refused = "Must have at most 0 characters"
    assert refused in error()
    assert refused in error()
    with monkeypatch.context() as patch:
        patch.setattr(Server, "_handle", lambda *_: 1 / 0)
        assert "the analysis ended: ZeroDivisionError" in error()
    assert refused in error()


def test_an_error_of_one_position_leaves_the_others_of_a_review():
    thinking = Thinking(WebConfig.of_flags({"player": "random", "size": 5}), "test")
    answers: list[dict] = []
    thinking._pending["1"] = answers.append, {0, 1}
    for answer in ({"turnNumber": 0, "error": "not finite"}, {"turnNumber": 1}, {"turnNumber": 1}):
        thinking.write(json.dumps({"id": "1", **answer}))
    assert [answer["turnNumber"] for answer in answers] == [0, 1]
    thinking._pending["2"] = answers.append, {0, 1}
    thinking.write('{"id": "2", "error": "no such rules"}')
    assert "2" not in thinking._pending


def test_a_katago_network_is_said_to_compile_for_longer():
    thinking = Thinking(WebConfig.of_flags({"weights": "NAME.bin.gz", "size": 19}), "test")
    seconds = [thinking.compiling_text(name, 19) for name in (None, OURS, "rave")]
    assert [text.split("about ")[1][:4] for text in seconds] == ["55 s", "55 s", "20 s"]


def test_a_player_that_resigns_can_analyse():
    config = WebConfig.of_flags({"player": "rave", "resign": -0.9, "size": 5})
    assert config.to_play(None, 5).resign == -0.9
    assert config.to_analyse().resign is None


def test_leaves_of_an_analysis_are_at_most_its_visits():
    config = WebConfig.of_flags({"leaves": 256, "simulations": 10_000, "visits": 200})
    assert (config.to_analyse().leaves, config.to_analyse().simulations) == (200, 200)
