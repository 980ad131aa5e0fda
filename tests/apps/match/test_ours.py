"""``gozero match`` with our own engine: batched searches, legal moves, reproducible games."""

from __future__ import annotations

import json
import os
import re
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.apps import cli, sgf
from gozero.apps.host_game import HostGame
from gozero.apps.match import ours
from gozero.apps.match.score import moves_digest
from gozero.games.go import go_game
from gozero.games.registry import named_game
from gozero.go.rules import Rules
from gozero.play import arena, lockstep, setups
from gozero.play.player import Turn, policy_player
from gozero.search.game import NO_ACTION
from tests.apps.match.match_runs import results, scripted
from tests.play.test_lockstep import evaluated_by_hashes

GNUGO = shutil.which("gnugo", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/games"]))


def replay(path, rules: Rules) -> tuple[HostGame, sgf.GameRecord]:
    """A file's game replayed by our rules; colours must alternate and moves be legal."""
    record, game = sgf.read(path), HostGame(rules, sgf.read(path).komi)
    for colour, action in record.moves:
        assert colour == game.to_play
        game.play(colour, action)
    return game, record


@pytest.mark.thorough
def test_our_player_in_batches_against_a_program(tmp_path, monkeypatch, capsys):
    # Rules and lanes are those of test_lockstep, to share its compiled search.
    monkeypatch.setattr(setups, "make_setup", evaluated_by_hashes)
    batches, going_on = [], []
    choose = lockstep.LockstepPlayer.choose

    def counted(self, states, tree, since):
        batches.append((self.lanes, sorted(states), self.num_choices))
        going_on.extend(since)
        return choose(self, states, tree, since)

    monkeypatch.setattr(lockstep.LockstepPlayer, "choose", counted)
    out = tmp_path / "run"
    command = ["match", "--size", "3", "--ko", "simple", "--komi", "0.5", "--out", str(out)]
    command += ["--games", "8", "--parallel", "6", "--player.reuse", "--openings", "2"]
    assert cli.main([*command, "--opponent.command", scripted(*["all:ANY"] * 3)]) == 0
    stderr = capsys.readouterr().err
    assert "3 trees of 81 nodes" in stderr
    assert "compiling for 3x3, about 10 s the first time\nplayer: " in stderr
    assert "\ncompiled in " in stderr
    assert re.search(r"\n0/8 games  in play 6, ply \d+ ", stderr)

    rules, played = Rules(3, "simple", max_moves=400), results(out)
    assert sorted(played) == list(range(8))
    for number, result in played.items():
        game, record = replay(out / "games" / f"{number:04d}.sgf", rules)
        assert record.result == result["result"]
        assert game.ended or "is suicide" in record.comment
        ours = ("black", "white")[number % 2]
        assert getattr(record, ours) == "gozero uniform playouts puct 400"
        assert result["digest"] == moves_digest([action for _, action in record.moves])
        assert result["turns"][0] <= len(record.moves) // 2
    # All our moves were searched in batches of three lanes, often several at once.
    searched = sum(len(states) for _, states, _ in batches)
    assert {lanes for lanes, _, _ in batches} == {3}
    assert searched == sum(result["turns"][0] for result in played.values())
    assert searched > 8
    assert max(len(states) for _, states, _ in batches) > 1
    summary = json.loads((out / "summary.json").read_text())
    assert summary["games"] == 8
    assert summary["forfeits"]["player"] == 0
    assert going_on  # trees were reused


@pytest.mark.thorough
def test_games_between_our_players_leave_no_lane_idle(tmp_path, monkeypatch, capsys):
    """Games are played on the device, in lanes that take the next game when one ends."""
    monkeypatch.setattr(setups, "make_setup", evaluated_by_hashes)
    searched = []
    think = arena.choose_actions

    def counted(choose, params, key, number, turn, memory):
        open_ = ~np.asarray(jax.vmap(lambda state: state.ended)(turn.states))
        searched.append((len(open_), int(open_.sum())))
        return think(choose, params, key, number, turn, memory)

    monkeypatch.setattr(arena, "choose_actions", counted)
    out, rules = tmp_path / "run", Rules(3, "simple", max_moves=400)
    command = ["match", "--size", "3", "--ko", "simple", "--komi", "0.5", "--out", str(out)]
    command += ["--games", "12", "--parallel", "6", "--openings", "3"]
    assert cli.main([*command, "--player.reuse", "--opponent.reuse"]) == 0
    assert "\n0/12 games  in play 6, ply 1  -:--:-- to go\n" in capsys.readouterr().err
    played = results(out)
    assert sorted(played) == list(range(12))
    for number, result in played.items():
        game, record = replay(out / "games" / f"{number:04d}.sgf", rules)
        assert (game.ended, record.result) == (True, result["result"])
        assert result["digest"] == moves_digest([action for _, action in record.moves])
        assert result["moves"] == len(record.moves) == 3 + sum(result["turns"])
        assert result["black"] == ("player", "opponent")[number % 2]
        points = {"B": 1.0, "W": 0.0}[record.result[0]]
        assert result["points"] == (points if number % 2 == 0 else 1 - points)
        white = ("player", "opponent")[1 - number % 2]  # moves first after the opening
        turns = dict(zip(("player", "opponent"), result["turns"], strict=True))
        assert turns[white] - turns[result["black"]] in (0, 1)
        assert min(result["seconds"]) > 0
    for pair in range(6):
        first, second = (sgf.read(out / "games" / f"{2 * pair + i:04d}.sgf").moves for i in (0, 1))
        assert first[:3] == second[:3]
    shortest = min(sum(result["turns"]) for result in played.values())
    assert searched[: 2 * shortest] == [(3, 3)] * (2 * shortest)
    assert sum(searches for _, searches in searched) == sum(
        sum(result["turns"]) for result in played.values()
    )


def test_our_player_passes_when_that_wins():
    """With one black stone on the board, the opponent has passed (but not in the second game). In
    the fourth that was the last move of the opening, of which players are told no actions."""
    rules = Rules(3, "simple", max_moves=400)
    game, pass_ = go_game(rules), rules.pass_action
    zeros = policy_player(lambda params, key, turn: jnp.zeros(turn.legal.shape[0], jnp.int32))
    choose = ours._passing_to_win(game, zeros).choose
    states = [game.points.new(komi) for komi in (0.5, 0.5, 9.5, 0.5)]
    lines = [(4, pass_), (4, 8), (4, pass_), (4, pass_)]
    for i, actions in enumerate(lines):
        for action in actions:
            states[i] = game.play(states[i], jnp.int32(action))
    together = jax.tree.map(lambda *x: jnp.stack(x), *states)
    recent = jnp.array([*lines[:3], (NO_ACTION, NO_ACTION)]).T
    turn = Turn(together, jax.vmap(game.legal)(together), recent)
    choice = choose(None, jax.random.key(0), turn, None)
    assert choice.action.tolist() == [pass_, 0, 0, pass_]  # at komi 9.5 passing loses
    assert choice.ok.all()


@pytest.mark.thorough
def test_an_opening_that_ends_with_a_pass_is_answered_by_a_pass_that_wins(tmp_path):
    opening, out = tmp_path / "opening.sgf", tmp_path / "run"
    sgf.write(opening, sgf.GameRecord(size=3, komi=0.5, moves=((0, 4), (1, 9))))
    flags = ["match", "--size", "3", "--komi", "0.5", "--games", "2", "--out", str(out)]
    flags += ["--player.search", "random", "--opponent.search", "random"]
    assert cli.main([*flags, "--openings-from", str(opening)]) == 0
    assert [(one["result"], one["moves"]) for one in results(out).values()] == [("B+8.5", 3)] * 2


@pytest.mark.thorough
@pytest.mark.parametrize("game", [pytest.param("connect4", marks=pytest.mark.slow), "hex"])
def test_two_searches_play_any_game(game, tmp_path):
    flags = ["match", "--game", game, "--games", "6", "--parallel", "4", "--openings", "2"]
    flags += ["--player.search", "rave", "--player.simulations", "24", "--player.reuse"]
    flags += ["--opponent.simulations", "2", "--out", str(tmp_path / "run")]
    flags += ["--size", "4"] if game == "hex" else []
    assert cli.main(flags) == 0
    played, named = results(tmp_path / "run"), named_game(game, 4 if game == "hex" else None)
    assert sum(result["points"] for result in played.values()) >= 5
    for number, result in played.items():
        lines = (tmp_path / "run" / "games" / f"{number:04d}.txt").read_text().splitlines()
        sides = ["gozero uniform playouts rave 24", "gozero uniform playouts puct 2"]
        black, white = sides if number % 2 == 0 else sides[::-1]
        assert lines[0] == f"{game}, game {number}: {black} - {white}"
        actions = [named.action_names.index(name) for name in lines[1].split()]
        state = named.game.init(jax.random.key(0))
        for action in actions:
            assert named.game.legal(state)[action]
            state = named.game.play(state, jnp.int32(action))
        over, value = named.game.outcome(state)
        assert over
        for_black = int(value) if len(actions) % 2 == 0 else -int(value)
        assert result["result"] == {1: "B+1", -1: "W+1", 0: "0"}[for_black]
        won = {1: "the first player won", -1: "the second player won", 0: "drawn"}
        assert lines[2] == won[for_black]
        assert result["points"] == (1 + (for_black if number % 2 == 0 else -for_black)) / 2
    if game == "connect4":  # the same command resumes
        assert cli.main([*flags[:4], "8", *flags[5:]]) == 0
        assert sorted(results(tmp_path / "run")) == list(range(8))


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--game", "chess"], "'chess' is not one of go, connect4, hex"),
        (["--game", "connect4", "--size", "9"], "size: connect4 comes in one size"),
        (["--game", "hex", "--komi", "3"], "komi"),
        (
            ["--game", "hex", "--opponent.command", "gnugo"],
            "opponent.command: programs play only Go",
        ),
        (["--game", "hex", "--player.playouts", "mogo"], "playouts: mogo applies only to Go"),
        (["--game", "hex", "--player.search", "td"], "search: td applies only to Go"),
    ],
)
def test_go_flags_are_refused_for_other_games(flags, message, tmp_path, capsys):
    some = ["match", "--player.simulations", "2", "--out", str(tmp_path / "run")]
    with pytest.raises(SystemExit) as stop:
        cli.main([*some, *flags])
    assert stop.value.code == 2
    stderr = capsys.readouterr().err
    assert message in stderr
    assert stderr.count("\n") == 1


@pytest.mark.slow  # to compile
def test_games_between_our_players_are_reproducible_and_resumable(tmp_path):
    flags = ["match", "--size", "5", "--games", "6", "--parallel", "4", "--openings", "2"]
    flags += ["--player.search", "rave", "--player.simulations", "60", "--player.leaves", "4"]
    flags += ["--opponent.search", "uct", "--opponent.simulations", "60", "--opponent.reuse"]
    for name in ("first", "again"):
        assert cli.main([*flags, "--out", str(tmp_path / name)]) == 0
    rules = Rules(5, max_moves=400)
    for number in range(6):
        first, again = (tmp_path / x / "games" / f"{number:04d}.sgf" for x in ("first", "again"))
        assert first.read_bytes() == again.read_bytes()
        game, record = replay(first, rules)
        assert record.comment.startswith(f"gozero match, game {number}; ")
        assert game.ended
    # A second session uses other random numbers, so games that are replayed differ.
    lines = (tmp_path / "again" / "results.jsonl").read_text().splitlines()
    (tmp_path / "again" / "results.jsonl").write_text("")
    assert cli.main([*flags, "--out", str(tmp_path / "again")]) == 0
    assert (tmp_path / "again" / "results.jsonl").read_text().splitlines() != lines
    moves = [
        [sgf.read(tmp_path / x / "games" / f"{i:04d}.sgf").moves for i in range(6)]
        for x in ("first", "again")
    ]
    assert moves[0] != moves[1]


@pytest.mark.slow
@pytest.mark.skipif(GNUGO is None, reason="needs GNU Go: neither /usr/games/gnugo nor on PATH")
def test_our_player_against_gnugo(tmp_path):
    out = tmp_path / "run"
    gnugo = "gnugo --mode gtp --level 1 --chinese-rules --positional-superko --never-resign"
    gnugo += " --play-out-aftermath --capture-all-dead --seed {game}"
    flags = ["match", "--size", "5", "--games", "8", "--parallel", "4", "--out", str(out)]
    flags += ["--player.search", "rave", "--player.simulations", "128", "--player.leaves", "8"]
    assert cli.main([*flags, "--opponent.command", gnugo]) == 0
    summary = json.loads((out / "summary.json").read_text())
    assert (summary["games"], summary["void"]) == (8, 0)
    assert summary["forfeits"] == {"player": 0, "opponent": 0}  # GNU Go's rules and ours agree
