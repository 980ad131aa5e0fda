"""``gozero match`` with programs that play, and programs that misbehave."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import jax
import pytest

from gozero.apps import cli, sgf
from gozero.apps.host_game import HostGame
from gozero.apps.match import gtp_opponent, referee
from gozero.games.connect_four import connect_four_game
from gozero.games.go import go_game
from gozero.go.rules import Rules
from gozero.play import openings
from gozero.runs import memory
from tests.apps.match.match_runs import arguments, match, results, scripted


@pytest.fixture(scope="module")
def troubled(tmp_path_factory):
    """(the folder of a match with many failures, its stdout)."""
    folder = tmp_path_factory.mktemp("match")
    once = folder / "died"
    player = scripted(
        "0,4:b2", "1:HANG", "2:b2", "2:DIE", "3:NONSENSE", "4:b2", f"6:ONCE={once}", "8:Z99"
    )
    opponent = scripted("5:b2", "5:b2", "7:resign", "8:pass")
    command = [sys.executable, "-m", "gozero.apps.cli"]
    command += arguments(folder / "run", player, opponent, "--games", "9", "--timeout", "4")
    command += ["--parallel", "3", "--retries", "1", "--crash", "void"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return folder / "run", done.stdout


TROUBLE = {  # game: result, player's points, how it ended, and why; the player is Black if even
    0: ("B+9", 1.0, "score", ""),
    1: ("B+F", 0.0, "forfeit", "White gave no move: .* no answer to 'genmove w' in 4 s"),
    2: ("Void", None, "void", "Black died: Scripted 1: ended at 'genmove b' .exit status 7"),
    3: ("B+F", 0.0, "forfeit", "White gave no move: .*'what\\?'; expected = or \\?"),
    4: ("W+F", 0.0, "forfeit", "Black made an illegal move: B2 is occupied"),
    5: ("W+F", 1.0, "forfeit", "Black made an illegal move: B2 is occupied"),
    6: ("0", 0.5, "score", ""),
    7: ("W+R", 1.0, "resign", "Black resigned"),
    8: ("W+F", 0.0, "forfeit", "Black made no move: "),
}


@pytest.mark.parametrize("number", TROUBLE)
def test_each_failure_costs_one_game(troubled, number):
    game = results(troubled[0])[number]
    result, points, end, why = TROUBLE[number]
    assert (game["result"], game["points"], game["end"]) == (result, points, end)
    assert re.search(why, game["why"])
    assert game["black"] == ("player", "opponent")[number % 2]
    assert game["attempts"] == (2 if number in (2, 6) else 1)
    record = sgf.read(troubled[0] / "games" / f"{number:04d}.sgf")
    assert (record.result, len(record.moves)) == (result, game["moves"])
    assert re.search(why, record.comment)
    assert record.black == "Scripted 1"


def test_a_void_game_records_its_moves_and_failures(troubled):
    games = results(troubled[0])
    assert sgf.read(troubled[0] / "games" / "0002.sgf").moves == ((0, 4), (1, 9))
    assert games[2]["turns"] == [2, 1]
    assert min(games[2]["seconds"]) > 0
    assert games[2]["failures"] == [games[2]["why"]]
    (once,) = games[6]["failures"]
    assert "ended at 'genmove b' (exit status 7)" in once
    assert {number for number, game in games.items() if game["failures"]} == {2, 6}


def test_the_summary_counts_everything(troubled):
    out, printed = troubled
    summary = json.loads((out / "summary.json").read_text())
    counts = {name: summary[name] for name in ("games", "wins", "draws", "losses", "void")}
    assert counts == {"games": 8, "wins": 3, "draws": 1, "losses": 4, "void": 1}
    assert summary["score"] == pytest.approx(3.5 / 8)
    assert summary["forfeits"] == {"player": 4, "opponent": 1}
    assert summary["resigned"] == {"player": 0, "opponent": 1}
    assert (summary["replayed"], summary["move_limit"]) == (2, 0)
    assert [summary[x]["games"] for x in ("as_black", "as_white")] == [4, 4]
    assert "all            8     3     1     4    43.8%" in printed
    assert "resigned: player 0, opponent 1; void 1, replayed 2; at the move limit 0" in printed
    assert json.loads((out / "manifest.json").read_text())["state"] == "complete"


@pytest.mark.thorough
def test_a_program_that_dies_three_times_in_a_game_loses_it(tmp_path):
    """In game 1 the opponent is Black and dies at each attempt. In game 2 the player dies once; the
    opponent, which is White, dies at each later attempt."""
    out, once = tmp_path / "run", f"2:ONCE={tmp_path / 'died'}"
    flags = ["--games", "3", "--parallel", "1", "--openings", "0"]
    assert match(out, scripted("1:b2", once), scripted("1:DIE", "2:DIE"), *flags) == 0
    games = results(out)
    for number, (result, colour, failures) in {
        1: ("W+F", "Black", ["Black"] * 2),
        2: ("B+F", "White", ["Black", "White", "White"]),
    }.items():
        game = games[number]
        assert (game["result"], game["points"], game["end"]) == (result, 1.0, "forfeit")
        assert game["why"].startswith(f"{colour} died 3 times; {colour} died: Scripted 1: ended at")
        assert [why.split()[0] for why in game["failures"]] == failures
        assert sgf.read(out / "games" / f"{number:04d}.sgf").result == result
    summary = json.loads((out / "summary.json").read_text())
    assert (summary["void"], summary["replayed"], summary["forfeits"]["opponent"]) == (0, 5, 2)


@pytest.mark.thorough
def test_setup_failures_count_like_failures_in_a_game(tmp_path):
    out = tmp_path / "run"
    player = scripted("2:REFUSE@play", "3:NONSENSE@boardsize", "4:DIE@komi", "5:REFUSE@komi")
    opponent = scripted("6:HANG@komi", "7:HANG@play")
    flags = ["--games", "8", "--openings", "2", "--timeout", "3", "--parallel", "2"]
    assert match(out, player, opponent, *flags, "--retries", "1", "--crash", "void") == 0
    for number, (result, points, why) in {
        2: ("W+F", 0.0, "Black failed to set up the game: .*'play b .*answered: no"),
        3: ("B+F", 0.0, "White failed to set up the game: .*'what.'; expected = or"),
        4: ("Void", None, "Black died: Scripted 1: ended at 'komi 0' .exit status 7"),
        5: ("B+F", 0.0, "White failed to set up the game: .*'komi 0' answered: no"),
        6: ("B+F", 1.0, "White failed to set up the game: .*no answer to 'komi 0' in 3 s"),
        7: ("W+F", 1.0, "Black failed to set up the game: .*no answer to 'play b .*' in 3 s"),
    }.items():
        game = results(out)[number]
        assert (game["result"], game["points"]) == (result, points)
        assert re.search(why, game["why"])
        assert game["attempts"] == (2 if number == 4 else 1)
        record = sgf.read(out / "games" / f"{number:04d}.sgf")
        assert (record.result, len(record.moves)) == (result, 2)
    summary = json.loads((out / "summary.json").read_text())
    assert summary["forfeits"] == {"player": 3, "opponent": 2}
    assert (summary["games"], summary["void"]) == (7, 1)


@pytest.mark.parametrize("command", ["boardsize", "komi"])
def test_a_program_that_refuses_the_settings_ends_the_match(command, tmp_path, capsys):
    player = scripted(f"all:REFUSE@{command}")
    assert match(tmp_path / "run", player, scripted()) == 2
    complaint = capsys.readouterr().err
    assert re.match(f"gozero match: player.command: Scripted: '{command} .*: no\n$", complaint)
    assert not (tmp_path / "run").exists()


def test_a_killed_match_is_resumed(tmp_path, capsys):
    out = tmp_path / "run"
    players = scripted("all:SLEEP=0.3"), scripted()
    flags = arguments(out, *players, "--games", "8", "--parallel", "2")
    command = [sys.executable, "-m", "gozero.apps.cli", *flags]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    results_file, deadline = out / "results.jsonl", time.monotonic() + 120
    while time.monotonic() < deadline:
        if results_file.exists() and results_file.read_bytes().count(b"\n") >= 2:
            break
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = results_file.read_bytes()
    played = before.count(b"\n")
    assert 2 <= played < 8
    results_file.write_bytes(before + b'{"game": 7, "bla')

    assert match(out, *players, "--games", "8", "--parallel", "2", "--komi", "1") == 2
    assert "other flags: --komi was 0.0 and is 1.0;" in capsys.readouterr().err
    assert match(out, *players, "--games", "8", "--parallel", "3") == 0  # --parallel may differ
    assert f"resuming after {played} games" in capsys.readouterr().err
    assert results_file.read_bytes().startswith(before)
    assert len(results_file.read_text().splitlines()) == 8
    assert sorted(results(out)) == list(range(8))
    assert match(out, *players, "--games", "10", "--parallel", "2") == 0  # --games may grow
    assert match(out, *players, "--games", "8", "--parallel", "2") == 2
    assert "other flags: --games was 10 and is 8;" in capsys.readouterr().err
    assert results_file.read_bytes().startswith(before)
    assert sorted(results(out)) == list(range(10))
    names = sorted(path.name for path in (out / "games").iterdir())
    assert names == [f"{number:04d}.sgf" for number in range(10)]
    for path in (out / "games").iterdir():
        assert sgf.read(path).result == "0"

    written, manifest = results_file.read_bytes(), (out / "manifest.json").read_bytes()
    sessions = json.loads(manifest)["sessions"]
    assert [session["done"] for session in sessions] == [0, played, 8]
    assert all(session["jax"] == jax.__version__ for session in sessions)
    assert match(out, *players, "--games", "10") == 0  # nothing is left to play
    assert results_file.read_bytes() == written
    assert json.loads((out / "manifest.json").read_bytes()) == json.loads(manifest)
    with results_file.open("r+b") as file:
        file.write(b"?")
    assert match(out, *players, "--games", "10") == 2
    assert "results.jsonl, line 1 is damaged" in capsys.readouterr().err


def test_a_full_disk_is_one_line_and_status_1(tmp_path, monkeypatch, capsys):
    def full(path, record, *, durable):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    players = scripted(), scripted()
    with monkeypatch.context() as patch:
        patch.setattr(sgf, "write", full)
        assert match(tmp_path / "run", *players, "--games", "2") == 1
    says = f"gozero match: out: {tmp_path / 'run'} cannot be written (No space left on device)"
    assert capsys.readouterr().err.splitlines()[-1] == says  # after a note on equal sides
    assert match(tmp_path / "run", *players, "--games", "2") == 0


def test_two_matches_cannot_share_a_folder(troubled, tmp_path, capsys):
    out = tmp_path / "run"
    assert match(out, scripted(), scripted(), "--games", "2") == 0
    with (out / "results.jsonl").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert match(out, scripted(), scripted(), "--games", "4") == 2
    assert "is being played by another process" in capsys.readouterr().err
    assert json.loads((out / "config.json").read_text())["games"] == 2
    assert match(out, scripted(), scripted(), "--games", "2") == 0


@pytest.mark.thorough
def test_an_opening_does_not_end_the_game(monkeypatch):
    """In Connect Four, ten plies often do."""
    game = connect_four_game()
    lines = [openings.of_pair(game, 10, 0, pair) for pair in range(30)]
    assert {len(line) for line in lines} == {10}
    for line in lines:
        state = game.init(jax.random.key(0))
        for action in line:
            assert not game.outcome(state)[0]
            state = game.play(state, action)
        assert not game.outcome(state)[0]
    monkeypatch.setattr(openings, "_TRIES", 20)
    with pytest.raises(ValueError, match="42 random plies end the game, in 20 of 20 tries"):
        openings.of_pair(game, 42, 0, 0)


def test_openings_are_shared_by_a_pair(tmp_path):
    rules = Rules(3, max_moves=30)
    lines = [openings.of_pair(go_game(rules), 3, 5, pair) for pair in (0, 0, 1, 2)]
    assert lines[0] == lines[1]
    assert len(set(lines)) == 3
    assert [len(line) for line in lines] == [3] * 4
    out = tmp_path / "run"
    assert match(out, scripted(), scripted(), "--games", "4", "--openings", "3", "--seed", "5") == 0
    begun = [sgf.read(out / "games" / f"{i:04d}.sgf").moves[:3] for i in range(4)]
    assert begun[0] == begun[1] == tuple(enumerate_turns(lines[0]))
    assert begun[2] == begun[3] == tuple(enumerate_turns(lines[2]))
    assert results(out)[0]["turns"] == [1, 1]  # the two passes
    game = HostGame(rules)
    for colour, action in begun[2]:
        game.play(colour, action)
    assert not game.ended


def enumerate_turns(actions):
    return [(i % 2, action) for i, action in enumerate(actions)]


def test_openings_from_files(tmp_path):
    folder, out = tmp_path / "openings", tmp_path / "run"
    folder.mkdir()
    for name, games in (("a.sgf", [(4, 0), (4, 2)]), ("b.SGF", [(0, 8)])):
        records = [sgf.GameRecord(3, 0.0, tuple(enumerate_turns(actions))) for actions in games]
        (folder / name).write_text("".join(map(sgf.to_sgf, records)))
    flags = ["--games", "6", "--openings-from", str(folder)]
    assert match(out, scripted(), scripted(), *flags) == 0
    begun = [sgf.read(out / "games" / f"{i:04d}.sgf").moves[:2] for i in range(6)]
    lines = [(4, 0), (4, 0), (4, 2), (4, 2), (0, 8), (0, 8)]
    assert begun == [tuple(enumerate_turns(actions)) for actions in lines]


def test_a_bad_opening_of_a_collection_is_named(tmp_path, capsys):
    file = tmp_path / "lines.sgf"
    file.write_text("(;SZ[3];B[bb])(;SZ[3];B[aa];W[aa])")
    flags = ["--games", "2", "--openings-from", str(file)]
    assert match(tmp_path / "run", scripted(), scripted(), *flags) == 2
    assert "lines.sgf game 2: move 2: A3 is occupied" in capsys.readouterr().err


@pytest.mark.parametrize("moves", [(4, 9, 9), (4, 9, 9, 0, 8)])
def test_an_opening_may_not_end_the_game(tmp_path, capsys, moves):
    """Nor go on after its end, which `go.play` does not."""
    file = tmp_path / "over.sgf"
    sgf.write(file, sgf.GameRecord(size=3, komi=0.0, moves=tuple(enumerate_turns(moves))))
    flags = ["--games", "2", "--openings-from", str(file)]
    assert match(tmp_path / "run", scripted(), scripted(), *flags) == 2
    assert "over.sgf: the game is over after 3 moves" in capsys.readouterr().err


BAD = {
    "a missing program": (
        ["--opponent.command", "no-such-engine"],
        "'no-such-engine' is not a prog",
    ),
    "one that ends": (["--opponent.command", "false"], "opponent.command: .*exit status 1"),
    "no command line": (
        ["--player.command", "'unfinished"],
        "--player.command \"'unfinished\": expected a program's command line",
    ),
    "a search of a program": (
        ["--player.leaves", "8"],
        "--player.leaves 8: not with --player.command",
    ),
    "odd games in pairs": (
        ["--games", "3", "--openings", "2"],
        "--games 3: openings are played in pairs; use 4",
    ),
    "nothing after the openings": (
        ["--games", "2", "--openings", "4", "--max-moves", "4"],
        "--max-moves 4: expected above the 4 of --openings",
    ),
    "a flag that would be right": (
        ["--player.command", "None", "--player.trees", "2", "--player.search", "gumbel"],
        "--player.trees 2: not with --player.search gumbel",
    ),
    "no games": (["--games", "0"], "--games 0: expected from 1"),
    "no time": (["--timeout", "0"], "--timeout 0.0: expected above 0"),
    "a komi that is none": (["--komi", "0.3"], "--komi 0.3: expected a multiple of 0.5"),
    "a size without local shapes": (
        [
            *("--size", "13", "--player.command", "None"),
            *("--player.search", "rave", "--player.heuristic", "shape"),
        ],
        "--player.heuristic shape: the package has no local shapes for 13x13",
    ),
    "openings that are not there": (["--openings-from", "no.sgf", "--games", "2"], "no.sgf"),
}


def test_a_match_without_players_is_refused(tmp_path, capsys):
    out = tmp_path / "run"
    with pytest.raises(SystemExit) as stop:
        cli.main(["match", "--out", str(out)])
    assert stop.value.code == 2
    complaint = capsys.readouterr().err
    assert complaint.startswith("gozero match: define the two sides by --player.FLAG")
    assert len(complaint.splitlines()) == 1
    assert not out.exists()


def test_equal_players_are_reported(tmp_path, capsys):
    assert match(tmp_path / "same", scripted(), scripted(), "--games", "2") == 0
    stderr = capsys.readouterr().err
    assert "the two sides are identical" in stderr
    assert re.search(r"\n0/2 games  in play 2, ply \d+  -:--:-- to go\n", stderr)
    assert match(tmp_path / "two", scripted(), scripted() + " ", "--games", "2") == 0
    assert "equal" not in capsys.readouterr().err


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_status_2(case, tmp_path, capsys):
    more, says = BAD[case]
    assert match(tmp_path / "run", scripted(), scripted(), *more) == 2
    complaint = capsys.readouterr().err
    assert complaint.startswith("gozero match: ")
    assert len(complaint.splitlines()) == 1
    assert re.search(says, complaint)
    assert not (tmp_path / "run").exists()


@pytest.mark.thorough
def test_openings_that_end_every_game_are_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(openings, "_TRIES", 20)
    command = ["match", "--game", "hex", "--size", "3", "--games", "2", "--openings", "9"]
    sides = ["--player.simulations", "9", "--opponent.simulations", "8"]
    with pytest.raises(SystemExit) as stop:
        cli.main([*command, *sides, "--out", str(tmp_path / "run")])
    assert stop.value.code == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("gozero match: openings: 9 random plies end the game, in 20 of 20")
    assert not (tmp_path / "run").exists()


def test_a_flag_without_its_side_is_named(capsys):
    with pytest.raises(SystemExit):
        cli.main(["match", "--player", "strong"])
    assert "unknown flag --player; did you mean --player.player?" in capsys.readouterr().err


def test_trees_that_do_not_fit_are_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(memory, "of_device", lambda num_devices: 2**20)
    command = ["match", "--size", "3", "--out", str(tmp_path / "run"), "--player.simulations", "99"]
    with pytest.raises(SystemExit) as stop:
        cli.main([*command, "--games", "400", "--parallel", "300"])
    assert stop.value.code == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert re.match(r"gozero match: 150 trees of 100 nodes: .* at once \(--parallel", last)
    assert not (tmp_path / "run").exists()


def test_how_to_install_gnugo(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(gtp_opponent, "_GAMES", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert match(tmp_path / "run", scripted(), "gnugo --mode gtp") == 2
    assert "apt-get install gnugo" in capsys.readouterr().err


@pytest.mark.slow  # the test of a kill covers as much
def test_ctrl_c_keeps_finished_games(tmp_path):
    out = tmp_path / "run"
    flags = arguments(out, scripted("all:SLEEP=0.2"), scripted("1,3:HANG"), "--games", "500")
    command = [sys.executable, "-m", "gozero.apps.cli", *flags, "--parallel", "2"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not list(out.glob("games/*.sgf")):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    printed, complaint = process.communicate(timeout=60)
    assert process.returncode == 130, complaint
    assert "Traceback" not in complaint
    assert "games left; the same command plays them" in printed
    assert json.loads((out / "manifest.json").read_text())["state"] == "stopped"
    assert 1 <= len(results(out)) < 500


GNUGO = shutil.which("gnugo", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/games"]))


@pytest.mark.skipif(GNUGO is None, reason="needs GNU Go: neither /usr/games/gnugo nor on PATH")
def test_gnugo_plays_itself(tmp_path):
    out = tmp_path / "run"
    gnugo = "gnugo --mode gtp --level 0 --chinese-rules --positional-superko --never-resign"
    gnugo += " --seed {game}"
    assert match(out, gnugo, gnugo, "--size", "5", "--games", "2", "--max-moves", "100") == 0
    games = results(out)
    assert [games[i]["end"] for i in (0, 1)] == ["score", "score"]
    assert sgf.read(out / "games" / "0001.sgf").black == "GNU Go 3.8"


def test_a_program_is_told_its_time(tmp_path):
    """Before each move, the whole seconds that its earlier replies, as recorded, have left."""
    log = tmp_path / "commands.log"
    player = scripted(f"all:LOG={log}", "all:SLEEP=1.2", "all:SLEEP=0.9", "all:a1")
    opponent = scripted("all:b2", "all:c3")
    flags = ["--games", "1", "--player.main-time", "500", "--timeout", "400"]
    assert match(tmp_path / "run", player, opponent, *flags) == 0
    (game,) = results(tmp_path / "run").values()
    clock = [line for line in log.read_text().splitlines() if line.startswith("time_")]
    left = [500 - sum(game["replies"][0][:i]) for i in range(game["turns"][0])]
    assert clock == ["time_settings 500 0 0", *(f"time_left b {int(x)} 0" for x in left)]
    assert left[2] < 498
    assert [sum(x) for x in game["replies"]] == pytest.approx(game["seconds"], abs=0.01)
    assert [len(x) for x in game["replies"]] == game["turns"]


def test_a_program_that_exceeds_its_time_loses(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(referee, "CLOCK_TOLERANCE_S", 0.0)
    player = scripted("0:SLEEP=1.1", "1:HANG")
    flags = ["--games", "2", "--parallel", "1", "--player.main-time", "1"]
    assert match(tmp_path / "run", player, scripted(), *flags) == 0
    games = results(tmp_path / "run")
    assert [(games[i]["result"], games[i]["end"]) for i in (0, 1)] == [
        ("W+T", "forfeit"),
        ("B+T", "forfeit"),
    ]
    assert re.fullmatch(r"Black lost on time: \d+\.\d s, of 1 s", games[0]["why"])
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["on_time"] == summary["forfeits"] == {"player": 2, "opponent": 0}
    assert summary["player"] == "Scripted 1, 1 s a game"
    assert "forfeits: player 2, opponent 0 (2 and 0 on time)" in capsys.readouterr().out
    assert sgf.read(tmp_path / "run" / "games" / "0001.sgf").result == "B+T"


def test_a_program_cannot_think_for_free_while_it_is_told_a_move(tmp_path, monkeypatch):
    """In game 0 before it answers `play` and `time_left`, in game 1 for ever."""
    monkeypatch.setattr(referee, "CLOCK_TOLERANCE_S", 0.0)
    plan = ["0:a1", "0:SLEEP=0.6@play", "1:HANG@play", "0:false@time_left", "0:SLEEP=0.6@time_left"]
    flags = ["--games", "2", "--parallel", "1", "--player.main-time", "1"]
    assert match(tmp_path / "run", scripted(*plan), scripted("0:b2"), *flags) == 0
    games = results(tmp_path / "run")
    assert [(games[i]["result"], games[i]["moves"]) for i in (0, 1)] == [("W+T", 2), ("B+T", 1)]
    assert re.fullmatch(r"White lost on time: 1\.\d s, of 1 s", games[1]["why"])
    first, second = games[0]["replies"][0]
    assert first < 0.5
    assert 1.0 <= second < 2.0
    assert games[1]["seconds"][0] >= 1.0


def test_replies_to_moves_are_free_without_a_clock(tmp_path):
    player = scripted("all:SLEEP=0.6@play", "all:a1")
    assert match(tmp_path / "run", player, scripted("0:b2"), "--games", "1") == 0
    (game,) = results(tmp_path / "run").values()
    assert game["seconds"][0] < 0.5


@pytest.mark.parametrize(
    ("sides", "message"),
    [
        (["--opponent.main-time", "60"], "--opponent.main-time 60: only with --opponent.command"),
        (["--opponent.main-time", "60"], 'program: --opponent.command "gozero gtp ..."'),
        (["--player.main-time", "0"], "--player.main-time 0: expected "),
    ],
)
def test_only_programs_have_a_clock(tmp_path, capsys, sides, message):
    command = ["match", "--player.command", scripted(), *sides, "--out", str(tmp_path / "run")]
    with pytest.raises(SystemExit):
        cli.main(command)
    assert message in capsys.readouterr().err


def test_a_program_without_a_clock_is_refused(tmp_path, capsys):
    player = scripted("all:false@known_command")
    assert match(tmp_path / "run", player, scripted(), "--player.main-time", "60") == 2
    message = "player.command: Scripted has no time_settings, which --main-time needs"
    assert message in capsys.readouterr().err
