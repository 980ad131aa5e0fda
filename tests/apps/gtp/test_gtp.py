"""GTP: the protocol's lines, the engine's answers, and robustness against any input."""

import dataclasses
import functools
import io
import random
import re
import subprocess
import sys
import threading

import jax
import numpy as np
import pytest

from gozero.apps import host_game, pictures
from gozero.apps.gtp import protocol as gtp_protocol
from gozero.apps.gtp import run as gtp
from gozero.apps.gtp import search as gtp_search
from gozero.apps.gtp.protocol import Command, parse_line
from gozero.go import coords
from gozero.go import rules as go
from gozero.nets import network, weights
from gozero.nets.network import NetworkConfig
from gozero.runs import memory
from gozero.td import shapes
from gozero.td import weights as shape_weights
from tests.apps.gtp.sharing import sharing
from tests.reference.go import BLACK, ReferenceGame

SMALL = gtp.GtpConfig(size=5, simulations=16, seed=3)
ANSWER = re.compile(r"[=?]\d*(?: ?[^\n]+)?(?:\n[^\n]+)*\n\n")


PROGRAMS = "_runner", "_timed", "_to_search", "_move_fields", "_reroot"
WITHOUT_SEED = lambda rules, config, *more: (rules, dataclasses.replace(config, seed=0), *more)
searcher = functools.cache(sharing(gtp_search.TreeSearcher, PROGRAMS, WITHOUT_SEED))


@pytest.fixture
def compiled_once(monkeypatch):
    """Engines with the same flags share their searcher, as games of one engine do."""
    monkeypatch.setattr(gtp_search, "TreeSearcher", searcher)


def session(script: str, config: gtp.GtpConfig = SMALL) -> list[str]:
    """The answers to the lines of a script."""
    out = io.StringIO()
    assert gtp.run(config, io.StringIO(script), out) == 0
    return answers(out.getvalue())


def answers(text: str) -> list[str]:
    assert "".join(ANSWER.findall(text)) == text
    return text.split("\n\n")[:-1]


def moves(*vertices: str) -> str:
    """Lines that play the vertices, Black first."""
    return "".join(f"play {'bw'[i % 2]} {vertex}\n" for i, vertex in enumerate(vertices))


# --- lines ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "request_"),
    [
        ("name", ("", "name", ())),
        ("12 play b\tD4 # said\r\n", ("12", "play", ("b", "D4"))),
        ("\x00\x07na\x7fme\r", ("", "name", ())),
        (b"0 komi 7\xff\n", ("0", "komi", ("7\ufffd",))),
        ("007", ("007", "", ())),
        ("-1 name", ("", "-1", ("name",))),
        ("\u0661 name", ("", "\u0661", ("name",))),
        ("", None),
        (" \t \n", None),
        ("# 1 name", None),
    ],
)
def test_parse_line(line, request_):
    assert parse_line(line) == request_


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        (("", ""), "=\n\n"),
        (("7", "D4"), "=7 D4\n\n"),
        (("", "\n A\n\n\n B \n"), "=\n A\n B\n\n"),
        (("3", "bad\n\nthing \u7881", True), "?3 bad thing \\u7881\n\n"),
    ],
)
def test_answer(arguments, sent):
    assert gtp_protocol.answer(*arguments) == sent


def test_an_exception_in_a_command_is_answered_and_logged():
    def broken():
        raise RuntimeError("a\nb")

    out, err = io.StringIO(), io.StringIO()
    table = {"broken": Command(broken)}
    gtp_protocol.serve(table, io.BytesIO(b"5 broken\nknown_command broken"), out, err)
    assert out.getvalue() == "?5 internal error: RuntimeError: a b\n\n= true\n\n"
    assert err.getvalue() == "gozero gtp: broken: internal error: RuntimeError: a b\n"


@pytest.mark.parametrize("end", [b"\n", b""])
def test_a_line_that_is_too_long_is_refused_before_it_ends(end):
    class Endless(io.BytesIO):
        """The rest of the second line, after 64 kB, comes only once the line is answered."""

        def readline(self, size=-1):
            asked.append(size)
            if len(asked) == 3:
                answered.append(out.answered.wait(10))
            return super().readline(size)

    class Out(io.StringIO):
        answered = threading.Event()

        def flush(self):
            if self.getvalue().endswith(refused):
                self.answered.set()

    out, asked, answered, most = Out(), [], [], gtp_protocol.LONGEST_LINE
    refused = f"?2 syntax error: the line has more than {most} bytes\n\n"
    longest = b"1 known_command" + b" " * (most - 20) + b"quit\n"
    assert len(longest) == most
    lines = longest + b"2 play b " + b"9" * 10**6 + b" quit" + end
    gtp_protocol.serve({}, Endless(lines + (b"3 quit\n" if end else b"")), out)
    assert out.getvalue() == "=1 true\n\n" + refused + "=3\n\n" * bool(end)
    assert answered == [True]
    assert all(0 < size <= most + 1 for size in asked)


@pytest.mark.parametrize(
    ("redirected", "message"),
    [
        ("<&-", "standard input is closed"),
        (">&-", "standard output is closed"),
        (">/dev/full", "standard input or output: [Errno 28] No space left on device"),
    ],
)
def test_stream_errors_end_the_session_with_one_line(redirected, message):
    command = f"echo name | ({sys.executable} -m gozero.apps.cli gtp {redirected})"
    done = subprocess.run(command, shell=True, text=True, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"gozero gtp: {message}\n")


def test_random_input_gets_only_gtp_responses(capsys):
    rng = random.Random(0)
    words = [b"play", b"b", b"W", b"D4", b"z99", b"komi", b"7", b"nan", b"boardsize", b"3", b"undo"]
    words += [b"1e9", b"-", b"showboard", b"12", b"known_command", b"#", b"\t", b"\r", b"pass"]
    lines = []
    for _ in range(400):
        some = [rng.choice(words) for _ in range(rng.randint(0, 4))]
        some += [rng.randbytes(rng.randint(0, 5)) for _ in range(rng.randint(0, 2))]
        rng.shuffle(some)
        lines.append(b" ".join(some))
    lines.append(b"play b " + b"9" * 10000)
    out = io.StringIO()
    assert gtp.run(SMALL, io.BytesIO(b"\n".join(lines)), out) == 0
    responses = answers(out.getvalue())
    assert responses
    assert all(len(answer) < 400 for answer in responses if answer.startswith("?"))
    assert not [answer for answer in responses if "internal" in answer]
    captured = capsys.readouterr()
    assert captured.out == ""
    assert all("compiling for" in line for line in captured.err.splitlines())


# --- the engine -----------------------------------------------------------------------


def test_initial_queries_of_front_ends_need_no_jax():
    script = "1 name\nversion\nprotocol_version\nlist_commands\nknown_command genmove\n"
    script += "boardsize 19 19\nkomi 6.5\nclear_board\nplay b\nfoo\nquit\nname\n"
    code = "import sys; from gozero.apps.gtp.run import GtpConfig, run; "
    code += "status = run(GtpConfig(), sys.stdin, sys.stdout); "
    code += "sys.exit(status or 9 * ('jax' in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], input=script, text=True, capture_output=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    responses = answers(done.stdout)
    assert responses[:3] == ["=1 gozero", f"= {gtp.__version__}", "= 2"]
    assert set(responses[3].removeprefix("= ").split("\n")) == {
        *("protocol_version", "name", "version", "known_command", "list_commands", "boardsize"),
        *("clear_board", "komi", "play", "genmove", "undo", "showboard", "final_score", "quit"),
        *("fixed_handicap", "place_free_handicap", "set_free_handicap"),
        *("time_settings", "time_left", "reg_genmove", "get_komi", "cputime", "clear_cache"),
        *("set_position", "loadsgf", "printsgf", "final_status_list", "kgs-rules"),
        *("kata-set-rule", "kata-list_time_settings"),
        *("kgs-time_settings", "kata-set-rules", "kata-get-rules", "kata-time_settings"),
        *("gogui-analyze_commands", "gogui-interrupt", "stop", "kata-raw-nn"),
        *("lz-analyze", "lz-genmove_analyze", "kata-analyze", "kata-genmove_analyze"),
    }
    assert responses[4:] == [
        *("= true", "=", "=", "="),
        "? syntax error: expected play COLOUR VERTEX",
        "? unknown command",
        "=",
    ]


@pytest.mark.parametrize(
    ("script", "last"),
    [
        ("boardsize 26", "? unacceptable size: 26 is not from 2 to 25"),
        ("boardsize -1", "? unacceptable size: -1 is not from 2 to 25"),
        ("boardsize 9 13", "? unacceptable size: only square boards can be played"),
        ("boardsize nine", "? syntax error: expected a whole number from 2 to 25"),
        ("komi 6.3", "? syntax error: komi 6.3 is not a multiple of 0.5 from -1000 to 1000"),
        ("komi inf", "? syntax error: komi inf is not a multiple of 0.5 from -1000 to 1000"),
        ("komi 1e300", "? syntax error: komi 1e+300 is not a multiple of 0.5 from -1000 to 1000"),
        ("komi", "? syntax error: expected komi KOMI"),
        ("play green D4", "? syntax error: green is not a colour; expected b, w, black or white"),
        ("play b I1", "? syntax error: invalid vertex 'I1': expected A1 to E5, or pass"),
        ("play b F1", "? illegal move: F1 is not on the 5x5 board"),
        ("genmove", "? syntax error: expected genmove COLOUR"),
        ("undo", "? cannot undo"),
        ("Name", "? unknown command"),
        ("4", "?4 syntax error: expected a command after the id"),
        (moves("c3", "C3"), "? illegal move: C3 is occupied"),
        (moves("a2", "pass", "b1", "a1"), "? illegal move: A1 is suicide"),
    ],
)
def test_refusals(script, last):
    assert session(script)[-1] == last


# On 4x4, . X O .    White has just taken C3 in a ko.
#         X O . O
#         . X O .
KO = "boardsize 4\n" + moves("b4", "c4", "a3", "d3", "b2", "c2", "c3", "b3")


def test_ko_and_superko():
    assert session(KO + "play b C3")[-1] == "? illegal move: C3 retakes a ko"
    # A pass lifts the ko, but then the retake would recreate the board before White's capture.
    twice = KO + "play b pass\nplay b C3"
    recreates = "? illegal move: C3 would recreate an earlier position (superko)"
    assert session(twice)[-1] == recreates
    assert session(twice, gtp.GtpConfig(ko="simple"))[-1] == "="


def test_a_refused_move_changes_nothing():
    assert session(KO + "play b c3\nplay w c3\nundo\nplay b c4\nplay b c3\nshowboard")[-6:-1] == [
        "? illegal move: C3 retakes a ko",
        "=",
        "=",
        "? illegal move: C4 is occupied",
        "? illegal move: C3 retakes a ko",
    ]


def test_either_colour_may_move_and_undo_reverts_each_move():
    responses = session("play w c3\nplay w c2\nplay b d4\nundo\nundo\nundo\nundo\nshowboard")
    assert responses[:7] == [*["="] * 6, "? cannot undo"]
    assert responses[7].endswith("Moves: 0  Komi: 7  Black to play")


def test_showboard():
    responses = session(moves("c3", "d4", "pass", "a5") + "showboard")[-1]
    assert responses == (
        "=\n   A B C D E\n 5(O). . . . 5\n 4 . . . O . 4\n 3 . . X . . 3\n"
        " 2 . . . . . 2\n 1 . . . . . 1\n   A B C D E\nMoves: 4  Komi: 7  Black to play"
    )


def test_komi_survives_boardsize_and_clear_board():
    responses = session(
        "komi -0.5\nplay b c3\nfinal_score\nboardsize 4\nfinal_score\nclear_board\n"
        "komi 0\nfinal_score\nplay w a1\nkomi 20\nfinal_score"
    )
    assert responses == ["=", "=", "= B+25.5", "=", "= B+0.5", "=", "=", "= 0", "=", "=", "= W+36"]


def test_a_play_resumes_a_game_that_two_passes_ended():
    ended = moves("c3", "pass", "pass")
    responses = session(ended + "genmove w\nplay b pass\ngenmove w\nshowboard")
    assert responses[3:6] == ["= pass", "=", "= pass"]
    assert responses[6].endswith("the game is over")
    responses = session(ended + "play w d3\nplay b d3\nplay b d2\nshowboard\nundo\nundo\nshowboard")
    assert responses[4] == "? illegal move: D3 is occupied"
    assert responses[6].endswith("Moves: 5  Komi: 7  White to play")
    assert responses[9].endswith("Moves: 3  Komi: 7  the game is over")


@pytest.mark.usefixtures("compiled_once")
def test_genmove_plays_for_either_colour_and_repeats_with_the_seed():
    script = "genmove b\ngenmove b\ngenmove w\nundo\ngenmove w\nclear_board\ngenmove b\n"
    responses = session(script)
    chosen = [answer.removeprefix("= ") for answer in responses if answer != "="]
    assert all(coords.from_gtp(5, vertex) <= 25 for vertex in chosen)
    assert session(script) == responses
    other = gtp.GtpConfig(size=5, simulations=16, seed=4)
    assert session(script, other) != responses


@pytest.mark.usefixtures("compiled_once")
def test_genmove_passes_when_that_wins_and_not_when_it_loses():
    # Black owns the whole board; White has passed.
    script = "play b c3\nplay w pass\n"
    assert session(script + "genmove b")[-1] == "= pass"
    assert session("komi 30\n" + script + "genmove b\nshowboard")[-2] != "= pass"
    # The last pass was Black's own, not the opponent's: a pass need not end the game.
    assert session("play w c3\nplay b pass\ngenmove b\nshowboard")[-1].count("X") == 1


def test_a_network_plays_and_its_weights_fix_the_size(tmp_path, capsys):
    shape = NetworkConfig(blocks=1, channels=8)
    params = network.init(shape, jax.random.key(0))
    path = weights.save(tmp_path / "net.safetensors", params, shape, 3)
    config = gtp.GtpConfig(ko="simple", evaluator="network", weights=path, simulations=2)
    assert config.size == 3
    responses = session("genmove b\nboardsize 9\nboardsize 3\n", config)
    assert coords.from_gtp(3, responses[0].removeprefix("= ")) <= 9
    assert responses[1:] == ["? unacceptable size: the weights are for 3x3", "="]
    assert "a tree of 5 nodes" in capsys.readouterr().err
    path.write_bytes(b"no weights")
    out = io.StringIO()
    with pytest.raises(SystemExit) as stop:
        gtp.run(config, io.StringIO("name\n"), out)
    assert stop.value.code == 2
    assert out.getvalue() == ""
    complaint = capsys.readouterr().err.splitlines()
    assert len(complaint) == 1
    assert "net.safetensors: damaged" in complaint[0]


@pytest.mark.thorough
@pytest.mark.parametrize(("reuse", "nodes"), [(True, 5), (False, 3)])
def test_the_memory_of_the_tree_is_told(reuse, nodes, capsys):
    session("genmove b\n", gtp.GtpConfig(size=3, simulations=2, reuse=reuse))
    assert f"gozero gtp: a tree of {nodes} nodes: " in capsys.readouterr().err


def test_a_tree_that_does_not_fit_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(memory, "of_device", lambda num_devices: 2**20)
    config = gtp.GtpConfig(size=3, simulations=10**6, nodes=10**5)
    refused, after = session("genmove b\nname\n", config)
    assert re.match(r"\? a tree of 100000 nodes: .* MiB: lower --nodes", refused)
    assert after.startswith("= ")
    assert f"gozero gtp: genmove: {refused[2:]}" in capsys.readouterr().err


def test_compilation_is_announced_once(capsys):
    session("play b c3\nclear_board\nplay b c3\nshowboard\n", gtp.GtpConfig(size=5, reuse=False))
    assert capsys.readouterr().err == ("gozero gtp: compiling for 5x5, about 10 s the first time\n")


def test_sizes_without_local_shapes_are_refused_without_jax():
    config = "GtpConfig(search='rave', heuristic='shape')"
    code = "import io, sys; from gozero.apps.gtp.run import GtpConfig, run; "
    code += f"run({config}, io.StringIO('boardsize 13\\nboardsize 7\\nquit\\n')); "
    code += "assert 'jax' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    refused, taken, *_ = answers(done.stdout)
    assert refused.startswith(
        "? unacceptable size: --heuristic shape: the package has no local shapes for 13x13,"
    )
    assert taken == "="


def test_local_shapes_of_a_file_fix_the_size(tmp_path, capsys):
    path, chosen = tmp_path / "mine.safetensors", shapes.Shapes(3, largest=2)
    count = shapes.sharing(chosen).num_weights
    shape_weights.save(path, chosen, np.zeros(count + 1, np.float32))
    flags = {"search": "rave", "heuristic": "shape", "shapes": path}
    responses = session("boardsize 9\nboardsize 3\n", gtp.GtpConfig(size=3, **flags))
    assert responses == ["? unacceptable size: the shapes are for 3x3", "="]
    assert gtp.GtpConfig(**flags).size == 3
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        gtp.run(gtp.GtpConfig(size=9, **flags), io.StringIO("name\n"), io.StringIO())
    assert stop.value.code == 2
    message = "gozero gtp: shapes: .*mine.safetensors is for 3x3, but the board is 9x9\n"
    assert re.fullmatch(message, capsys.readouterr().err)


# --- the board ------------------------------------------------------------------------


def play_beside_reference(rules: go.Rules, seed: int) -> set[str]:
    """The reasons of all refusals in a random game, each checked against the reference.

    Some moves are out of turn, and some are undone and replayed.
    """
    rng, reasons, size = random.Random(seed), set(), rules.size
    game = host_game.HostGame(rules)
    reference = ReferenceGame(size, rules.ko, rules.suicide)
    while not game.ended:
        if rng.random() < 0.1 and rules.ko != "simple":
            reference.give_turn(-reference.to_play)
        colour = 0 if reference.to_play == BLACK else 1
        legal = reference.legal()
        for point in (p for p in range(size * size) if not legal[p]):
            with pytest.raises(host_game.IllegalMove) as refusal:
                game.play(colour, point)
            reasons.add(str(refusal.value).partition(" ")[2])
        points = [p for p in range(size * size) if legal[p]]
        action = rng.choice(points) if points and rng.random() < 0.97 else size * size
        if rng.random() < 0.2:
            game.play(colour, action)
            game.undo()
        game.play(colour, action)
        reference.play(action)
        assert game.stones().ravel().tolist() == reference.board
    assert game.score() + 7 == reference.area()
    return reasons


@pytest.mark.parametrize(
    ("ko", "suicide"),
    [
        pytest.param("simple", False, marks=pytest.mark.slow),
        ("positional", False),
        pytest.param("situational", True, marks=pytest.mark.slow),
    ],
)
def test_refusals_match_the_reference(ko, suicide):
    every_rules = [go.Rules(size, ko, suicide) for size in (3, 4)]
    reasons = set.union(*(play_beside_reference(every_rules[i % 2], i) for i in range(16)))
    superko = set() if ko == "simple" else {"would recreate an earlier position (superko)"}
    assert reasons == {"is occupied", "is suicide", "retakes a ko"} | superko


def test_only_passes_are_accepted_at_the_move_limit():
    game = host_game.HostGame(go.Rules(3, max_moves=4), komi=0.0)
    for action in (0, 1, 2, 9):
        game.play(game.to_play, action)
    assert (game.truncated, game.terminated) == (True, False)
    with pytest.raises(host_game.IllegalMove, match="limit of 4 moves"):
        game.play(0, 5)
    for _ in range(3):
        game.play(1, 9)
    assert game.ended
    assert len(game.moves) == 7
    for _ in range(4):
        game.undo()
    game.play(1, 8)
    assert game.stones().tolist() == [[1, -1, 1], [0, 0, 0], [0, 0, -1]]


def test_undone_moves_do_not_count_for_superko():
    game = host_game.HostGame(go.Rules(2), komi=0.0)
    game.play(0, 0)
    game.play(1, 3)
    game.undo()
    game.undo()
    for colour, action in ((0, 3), (0, 0)):
        game.play(colour, action)
    assert game.stones().tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize("stones", [[], [1], [[0, 1]], [[0] * 26] * 26])
def test_render_refuses_invalid_boards(stones):
    with pytest.raises(ValueError, match="not a square board"):
        pictures.ascii_board(stones)


def test_render_star_points():
    def stars(size):
        return pictures.ascii_board([[0] * size] * size).count("+")

    assert [stars(size) for size in (2, 5, 6, 7, 9, 10, 13, 18, 19)] == [0, 1, 0, 5, 5, 4, 9, 4, 9]
