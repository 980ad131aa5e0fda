"""The client and the referee, with tiny engines that misbehave."""

import pathlib
import subprocess
import sys
import time

import pytest

from gozero.apps.gtp import client as gtp_client
from gozero.apps.gtp.client import (
    EngineConfused,
    EngineDied,
    EngineNotStarted,
    EngineTimeout,
    GtpClient,
    GtpError,
)
from gozero.apps.sgf import GameRecord
from tests.apps.gtp.refereed import play_game

# Answers genmove with its arguments in turn, then passes; refuses commands named as "refuse:NAME".
PLAYER = """
import sys
moves = sys.argv[1:]
refused = [x[7:] for x in moves if x.startswith("refuse:")]
moves = [x for x in moves if not x.startswith("refuse:")]
for line in sys.stdin:
    words = line.split()
    if words[0] in refused:
        print("? will not\\n", flush=True)
        continue
    answer = (moves.pop(0) if moves else "PASS") if words[0] == "genmove" else ""
    print("=", "scripted" if words[0] == "name" else answer, end="\\n\\n", flush=True)
    if words[0] == "quit":
        break
"""


def program(code: str, *arguments: str, **settings) -> GtpClient:
    return GtpClient([sys.executable, "-c", code, *arguments], **settings)


def play(black: list[str], white: list[str], **settings) -> GameRecord:
    with program(PLAYER, *black) as one, program(PLAYER, *white, name="two") as other:
        return play_game(one, other, size=3, komi=0.5, **settings)


def says(text: str) -> str:
    """A program that answers every line with the same text."""
    return f"import sys\nfor line in sys.stdin: print({text!r}, end='', flush=True)"


def test_a_finished_game_is_not_forfeited_by_later_errors():
    """Black refuses all plays, but need not be told of White's pass, which ends the game."""
    assert play(["refuse:play"], []).result == "W+0.5"
    limit = play(["A1", "refuse:play"], ["A2"], max_moves=2)
    assert (limit.result, limit.comment) == ("W+0.5", "move limit")


COMPLAINS = "import sys; sys.exit('e' * 9999)"
DEAF = "import os, time; input(); os.close(1); time.sleep(60)"  # looks as if it had ended
ORPHANING = """
import os, subprocess
input()
subprocess.Popen(["sleep", "60"])  # which keeps the output open
os._exit(3)
"""
DESERTING = """
import os, time
os.setpgid(0, os.getpgid(os.getppid()))  # out of the group that is killed
input(); time.sleep(60)
"""


def test_send():
    with program(says("\n\n= a  b\n c\n\n"), name="x") as client:
        assert client.send("showboard") == "a  b\n c"
        assert client.send("again") == "a  b\n c"
        for bad in ("", "two\nlines"):
            with pytest.raises(ValueError, match="not one line"):
                client.send(bad)
    with program(says("? no\n\n")) as client:
        assert client.name == sys.executable
        with pytest.raises(GtpError, match="'undo' answered: no"):
            client.send("undo")


@pytest.mark.parametrize(
    ("code", "error", "message"),
    [
        ("import sys; sys.exit('no licence')", EngineDied, "exit status 1.*stderr ends:\n  no lic"),
        ("input(); print('partly', flush=True)", EngineDied, "ended at 'name'"),
        ("import time; input(); time.sleep(60)", EngineTimeout, r"no answer to 'name' in 0.5 s"),
        (says("= never ends\n"), EngineTimeout, "no answer"),
        ("input()\nwhile True: print('= or so')", EngineConfused, "more than 1,048,576 characters"),
        ("input()\nwhile True: print(end='=' * 9999)", EngineConfused, "more than 1,048,576 char"),
        (says("Hello!\n\n"), EngineConfused, "'name' with 'Hello!'; expected = or \\?"),
        (
            says("H" * 999 + "\n\n"),
            EngineConfused,
            "with 'H{300}... .999 characters.'; expected = or",
        ),
        (COMPLAINS, EngineDied, "stderr ends:\n  e{300}... .9,999 characters.$"),
        (DEAF, EngineDied, r"ended at 'name' .it closed its output but kept running.$"),
        (ORPHANING, EngineDied, r"ended at 'name' .exit status 3.$"),
        (DESERTING, EngineTimeout, "no answer to 'name' in 0.5 s"),
    ],
)
def test_failures_are_named_and_end_the_process(code, error, message):
    with pytest.raises(error, match=f"(?s){message}"):
        program(code, timeout=0.5 if error is EngineTimeout else 30.0)


def test_lines_without_end_are_no_answer(monkeypatch):
    monkeypatch.setattr(gtp_client, "_LONGEST", 2**14)
    with pytest.raises(EngineConfused, match="more than 16,384 characters"):
        program("input()\nwhile True: print()")


def test_a_missing_program_is_an_error():
    with pytest.raises(
        EngineNotStarted, match=r"no-such-engine: cannot be started: .*No such file"
    ):
        GtpClient(["no-such-engine"])


def test_child_processes_end_with_their_program(tmp_path):
    started = tmp_path / "pid"
    code = f"""
import pathlib, subprocess
child = subprocess.Popen(["sleep", "60"], stdin=subprocess.DEVNULL)
pathlib.Path({str(started)!r}).write_text(str(child.pid))
{says("= x" + 2 * chr(10))}
"""
    with program(code):
        child = int(started.read_text())
        assert runs(child)
    deadline = time.monotonic() + 10
    while runs(child) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not runs(child)


HIDING = """
import os, pathlib, signal, sys, time
for number in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() > 0:
        os._exit(0)
    pathlib.Path(sys.argv[2]).write_text(str(os.getpid()))
    os.execve("/bin/sleep", ["sleep", "60"], {})  # nobody's child, of no session, nameless
pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))
time.sleep(60)
"""


def test_hanging_programs_end_with_a_killed_controller(tmp_path):
    """Nor does a child process of theirs that has left their session."""
    code = "import sys; from gozero.apps.gtp.client import GtpClient; GtpClient(sys.argv[1:])"
    files = tmp_path / "program", tmp_path / "child"
    command = [sys.executable, "-c", code, sys.executable, "-c", HIDING, *map(str, files)]
    controller = subprocess.Popen(command)
    assert soon(lambda: all(path.exists() and path.read_text() for path in files))
    pids = [int(path.read_text()) for path in files]
    assert all(map(runs, pids))
    controller.kill()
    controller.wait()
    assert soon(lambda: not any(map(runs, pids)))


def test_the_exit_status_of_a_crash_is_reported():
    with pytest.raises(EngineDied, match="exit status -11"):
        program("import os; os.kill(os.getpid(), 11)")


def soon(is_so, seconds: float = 20.0) -> bool:
    deadline = time.monotonic() + seconds
    while not is_so() and time.monotonic() < deadline:
        time.sleep(0.02)
    return is_so()


def runs(pid: int) -> bool:
    """Whether a process runs; a zombie, whose exit status nobody has read, does not."""
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_closing_ends_a_program_that_ignores_quit(monkeypatch):
    monkeypatch.setattr(gtp_client, "_GRACE", 0.1)
    client = program("import time\nfor i in range(99): time.sleep(1)", name="deaf")
    client.close()
    client.close()
    assert client._process.returncode != 0
    with pytest.raises(EngineDied, match="deaf: ended before 'name'"):
        client.send("name")


def test_a_program_that_answers_without_reading_is_ended():
    ahead = "import time; print('=\\n\\n' * 99, flush=True); time.sleep(60)"
    with program(ahead, name="seer", timeout=0.5) as client:
        send = lambda: [client.send("x" * 3000) for _ in range(99)]
        with pytest.raises(EngineTimeout, match="seer: has not read the input before"):
            send()
        assert client.ended


def test_a_name_is_one_printable_line():
    with program(says("= a\x1b[31m\nb \n\n")) as client:
        assert client.name == "a [31m b"


def test_a_game_to_two_passes():
    record = play(["B2", "pass"], ["a1"])
    assert record.moves == ((0, 4), (1, 6), (0, 9), (1, 9))
    assert (record.result, record.comment) == ("W+0.5", "")
    assert (record.black, record.white) == ("scripted", "two")


@pytest.mark.parametrize(
    ("black", "white", "result", "comment"),
    [
        (["resign"], [], "W+R", "Black resigned"),
        (["b2"], ["B2"], "B+F", "White made an illegal move: B2 is occupied"),
        (["b2"], ["e9"], "B+F", "White made no move: invalid vertex 'e9'"),
        (["refuse:genmove"], [], "W+F", "Black gave no move: scripted: 'genmove b' answered: wil"),
        (["b2"], ["refuse:play"], "B+F", "White refused a legal move"),
    ],
)
def test_how_games_end_early(black, white, result, comment):
    record = play(black, white)
    assert record.result == result
    assert record.comment.startswith(comment)


def test_the_board_is_scored_at_the_move_limit():
    record = play(["b2", "a1"], ["b1"], max_moves=3)
    assert (record.result, record.comment, len(record.moves)) == ("B+0.5", "move limit", 3)


def test_an_engine_that_refuses_the_size_is_an_error():
    with pytest.raises(GtpError, match="boardsize 3"):
        play(["refuse:boardsize"], [])
