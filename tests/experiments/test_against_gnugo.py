"""The matches against GNU Go: their settings, and the table of results."""

from __future__ import annotations

import dataclasses
import json
import os
import shlex

import pytest

from experiments.against_gnugo.config import (
    BY_TIME,
    LARGE,
    MATCHES,
    VERSION,
    AgainstGnugoConfig,
)
from experiments.matches import results, run
from gozero.apps import flags
from gozero.apps.gtp.config import GtpConfig
from gozero.apps.match.config import Side
from gozero.play.players import settings_of
from gozero.td import weights as shape_weights
from train.classical import imitation

SMALL_K = (
    *("", "-first-action", "-per-action", "-exploration", "-exploration-0.25", "-reuse"),
    *("-initial-0.5", "-initial-0.6", "-initial-1.1", "-grandfather", "-uct"),
)
PARTS = "first-action", "same-colour", "legal", "eval"
FORMS = (
    *("ancestor", "learnt-bias", "mean-amaf", "mean-mixture", "plain-bonus", "even-game"),
    *("truncated", "pruned", "max", "mix", "tuned", "exploration-0.1", "exploration-0.5"),
    *("first-play-0.7", "first-play-1.3"),
)
ASKED = {  # match: simulations, games, required bounds, target
    "uct": (3000, 200, (0.12, 0.40), None),
    "rave": (3000, 200, (0.50, 1.0), 0.65),
    "heuristic": (3000, 400, (0.69, 1.0), 0.80),
    "heuristic-10000": (10_000, 200, (0.82, 1.0), 0.90),
    "taught": (3000, 400, (0.69, 1.0), 0.80),
    "taught-10000": (10_000, 200, (0.82, 1.0), 0.90),
    "taught-experts": (3000, 400, (0.69, 1.0), 0.80),
    "taught-experts-10000": (10_000, 200, (0.82, 1.0), 0.90),
    "taught-experts-100000": (100_000, 100, None, None),
    "playouts": (400, 200, (0.70, 1.0), 0.85),
    "literal": (3000, 200, None, None),
    "literal-first-action": (1000, 100, None, None),
    "literal-same-colour": (1000, 100, None, None),
    "literal-legal": (1000, 100, None, None),
    "literal-eval": (1000, 100, None, None),
    "literal-but-visits": (3000, 100, None, None),
    "literal-eval-3000": (3000, 100, None, None),
    "uct-literal": (3000, 400, None, None),
} | {f"form-{what}": (1000, 100, None, None) for what in FORMS}
ONE_LEAF = "rave", "heuristic", "heuristic-10000", "taught-experts", "taught-experts-10000"
ASKED |= {f"{name}-1-leaf": ASKED[name] for name in ONE_LEAF}
ASKED |= {f"small-k{what}": (3000, 40, None, None) for what in SMALL_K}
ASKED |= {f"per-action-k-{k}": (3000, 100, None, None) for k in (10, 30, 100, 1000, 10_000)}
FIGURE_5 = (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000)
ASKED |= {
    f"rave-{form}k-{k}": (3000, 100, None, None) for form in ("", "per-action-") for k in FIGURE_5
}
ASKED |= {f"as-uct-k-{k}": (1000, 100, None, None) for k in (1, 10, 100, 1000)}
GNUGOS = [name for name, (_, _, must, _) in ASKED.items() if must and name != "playouts"]


def test_every_match_has_its_requested_settings(tmp_path):
    config = AgainstGnugoConfig(out=tmp_path)
    assert config.only == tuple(ASKED)
    for name, (simulations, games, must, aim) in ASKED.items():
        match = config.match(name)
        assert (match.size, match.komi, match.ko, match.games) == (9, 7.0, "positional", games)
        assert match.player.simulations == simulations
        assert (MATCHES[name].must, MATCHES[name].aim) == (must, aim)
    assert AgainstGnugoConfig(games=10).match("heuristic").games == 10


@pytest.mark.parametrize("name", ONE_LEAF)
def test_one_leaf_a_step_is_the_only_difference(name):
    two, one = MATCHES[name].player, MATCHES[f"{name}-1-leaf"].player
    assert (two.leaves, one) == (2, dataclasses.replace(two, leaves=1))


@pytest.mark.parametrize("name", LARGE)
def test_matches_on_larger_boards_are_those_of_the_player_strong(name):
    board, *experts, level = name.split("-")
    match = AgainstGnugoConfig(only=(name,)).match(name)
    size = int(board.partition("x")[0])
    assert (match.size, match.komi) == (size, 7.0)
    assert f"--level {level} " in match.opponent.command
    player = dataclasses.asdict(match.player)
    strong = settings_of("strong", size)
    if size == 13 and not experts:
        strong |= {"priors": None, "expert_bonus": None, "expert_visits": Side().expert_visits}
    assert strong.items() <= player.items()
    assert match.player.evaluator == "playout"  # there is no network for them


@pytest.mark.parametrize("size", ["13x13", "19x19"])
def test_an_expert_bias_is_the_only_difference_on_larger_boards(size):
    name = f"{size}-experts"
    match, other = MATCHES[name], MATCHES[f"{size}-katago"]
    assert other.opponent == match.player
    assert other.player == dataclasses.replace(match.player, priors="katago")
    assert (match.player.priors, match.player.expert_bonus) == ("mm", 0.1)
    without = dataclasses.replace(
        match.player, priors=None, expert_bonus=None, expert_visits=match.opponent.expert_visits
    )
    assert without == match.opponent
    assert match.opponent == MATCHES[name.replace("experts", "0")].player


@pytest.mark.parametrize("name", BY_TIME)
def test_matches_by_time_give_our_program_a_clock(name):
    config = AgainstGnugoConfig(only=(name,), parallel=16)
    match = config.match(name)
    untimed_name, minutes, _ = name.rsplit("-", 2)
    seconds = 60 * int(minutes)
    assert (match.player.main_time, match.opponent.main_time) == (seconds, None)
    assert (match.parallel, match.games) == (min(16, os.cpu_count()), 200)  # a core for each
    assert config.estimate == 1 + 200 * seconds / 60 / 2
    alone = AgainstGnugoConfig(only=(name,), parallel=1)
    assert (alone.match(name).parallel, alone.estimate) == (1, 1 + 200 * seconds / 60)
    player = flags.parse(GtpConfig, match.player.words(7)[2:], prog="gozero gtp")
    untimed = MATCHES[f"{untimed_name}-1-leaf"].player
    same = set(vars(player)) & set(vars(untimed)) - {"simulations", "leaves"}
    assert {x: getattr(player, x) for x in same} == {x: getattr(untimed, x) for x in same}
    assert (player.size, player.seed, player.leaves) == (9, 7, 8)


@pytest.mark.parametrize("name", GNUGOS)
def test_gnugo_plays_by_our_rules_at_its_full_level(name):
    words = shlex.split(AgainstGnugoConfig().match(name).opponent.command)
    assert words[0] == "gnugo"
    assert words[words.index("--level") + 1] == "10"
    assert words[words.index("--mode") + 1] == "gtp"
    assert words[words.index("--seed") + 1] == "{game}"  # otherwise all games would be the same
    ours = ("--chinese-rules", "--positional-superko")
    assert {*ours, "--play-out-aftermath", "--capture-all-dead"} <= set(words)


@pytest.mark.parametrize("name", [name for name in VERSION if not name.startswith("gnugo")])
def test_only_the_version_of_gnugo_differs(name):
    config = AgainstGnugoConfig()
    match = config.match(name)
    other = config.match(name.removesuffix("-3.7.10"))
    program, *words = shlex.split(match.opponent.command)
    assert (program, words) == ("gnugo-3.7.10", shlex.split(other.opponent.command)[1:])
    assert dataclasses.replace(match, opponent=other.opponent, out=other.out) == other
    assert MATCHES[name].must == MATCHES[name.removesuffix("-3.7.10")].must
    assert name not in config.only  # apt-get has no such program


def differences(one, other):
    one, other = dataclasses.asdict(one), dataclasses.asdict(other)
    return {key: one[key] for key in one if one[key] != other[key]}


def test_the_final_move_of_the_letter_with_its_simulations():
    literal, default = MATCHES["literal"].player, MATCHES["literal"].opponent
    but, alone = MATCHES["literal-but-visits"], MATCHES["literal-eval-3000"]
    assert differences(but.player, literal) == {"final_move": "visits"}
    assert differences(alone.player, default) == {"final_move": "eval"}
    assert but.opponent == alone.opponent == default


def test_the_letter_and_its_parts():
    config = AgainstGnugoConfig()
    whole, parts = {}, {}
    for name in ("literal", *(f"literal-{part}" for part in PARTS)):
        match = config.match(name)
        differ = differences(match.player, match.opponent)
        if name == "literal":
            whole = differ
        else:
            assert len(differ) == 1
            parts |= differ
    assert whole == parts | {key: whole[key] for key in whole.keys() - parts.keys()}
    assert whole.keys() - parts.keys() <= {"nakade", "reuse", "playouts"}


@pytest.mark.parametrize("after", ["", "-10000"])
def test_only_the_shapes_were_taught(after):
    """The taught player is the heuristic one but for the weights, which come with the checkout."""
    taught, learned = MATCHES[f"taught{after}"].player, MATCHES[f"heuristic{after}"].player
    assert dataclasses.replace(taught, shapes=None) == learned
    about = shape_weights.read(taught.shapes).about
    assert about["command"][:3] == [imitation.PROG, "--teacher", "gozero/play/data/9x9.safetensors"]


def test_only_the_playouts_differ():
    match = AgainstGnugoConfig().match("playouts")
    assert (match.player.policy, match.opponent.policy) == ("mogo", "uniform")
    assert dataclasses.replace(match.player, playouts="uniform") == match.opponent
    assert match.paired


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"only": ("mcts",)}, "--only mcts: expected one of uct, rave, heuristic, "),
        ({"games": 3}, "--games 3: expected an even number"),
        ({"parallel": 0}, "--parallel 0: expected at least 1"),
    ],
)
def test_invalid_flags_are_named(flags, message):
    with pytest.raises(ValueError, match=message):
        AgainstGnugoConfig(**flags)


def summary(wins: int, losses: int, void: int = 0) -> dict:
    games = wins + losses
    return {
        "state": "complete",
        "player": "gozero mogo playouts uct 3000",
        "opponent": "GNU Go 3.8",
        "games": games,
        "wins": wins,
        "draws": 0,
        "losses": losses,
        "void": void,
        "forfeits": {"player": 0, "opponent": 1},
        "resigned": {"player": 3, "opponent": 2},
        "score": wins / games,
        "interval": [wins / games - 0.05, wins / games + 0.05],
        "seconds_a_move": {"player": 0.1, "opponent": 0.2},
        "mean_moves": 60.5,
    }


def test_the_table_shows_which_bounds_hold(tmp_path):
    pytest.importorskip("matplotlib")
    for name, wins in (("uct", 50), ("rave", 80)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "summary.json").write_text(json.dumps(summary(wins, 200 - wins)))
        (tmp_path / name / "config.json").write_text(json.dumps({"games": 200}))
    rows = run.rows(MATCHES, tmp_path)
    assert [(row.match, row.holds) for row in rows] == [("uct", True), ("rave", False)]
    run.write(rows, tmp_path)
    lines = (tmp_path / "results.csv").read_text().splitlines()
    assert lines[1].startswith(
        "uct,gozero mogo playouts uct 3000,GNU Go 3.8,200,200,50,0,150,0,1,5,0.25"
    )
    assert (tmp_path / "results.svg").read_text().startswith("<?xml")
    table = run.table(rows).splitlines()
    assert (
        "| 24% | 200 (1 by forfeit) | 50, 0, 150 | 25.0% [20.0%, 30.0%] | 12% to 40% |  |"
        in table[2]
    )
    assert "| 50% (missed) | 65% |" in table[3]


def test_a_match_without_a_target_is_only_measured(tmp_path):
    pytest.importorskip("matplotlib")
    spec = dataclasses.replace(MATCHES["rave"], must=None, aim=None)
    row = results.row_of("rave", spec, 200, summary(80, 120))
    assert (row.must_low, row.must_high, row.holds) == (None, None, None)
    assert run.table([row]).endswith("| 40.0% [35.0%, 45.0%] |  |  |")
    run.write([row], tmp_path)
    assert (tmp_path / "results.csv").read_text().splitlines()[1].endswith(",50-60%,,,,,False")
    drawn = (tmp_path / "results.svg").read_text()
    run.write([results.row_of("rave", MATCHES["rave"], 200, summary(80, 120))], tmp_path)
    shade = "#e6ede8"
    assert shade not in drawn
    assert shade in (tmp_path / "results.svg").read_text()


def test_older_summaries_have_one_number_of_games_resigned():
    now = summary(150, 50)
    older = now | {"resigned": 5}
    rows = [results.row_of("rave", MATCHES["rave"], 200, one) for one in (now, older)]
    assert rows[0] == rows[1]
    assert rows[0].resigned == 5


@pytest.mark.parametrize(("state", "games"), [("stopped", 200), ("complete", 10)])
def test_an_unfinished_match_holds_no_bound(tmp_path, state, games):
    """A match that was stopped, or played with a smaller --games."""
    (tmp_path / "rave").mkdir()
    short = summary(8, 2) | {"state": state}
    (tmp_path / "rave" / "summary.json").write_text(json.dumps(short))
    (tmp_path / "rave" / "config.json").write_text(json.dumps({"games": games}))
    (row,) = run.rows(MATCHES, tmp_path)
    assert (row.games, row.asked, row.holds) == (10, 200, None)
    assert row.stopped == (state == "stopped")
    line = run.table([row]).splitlines()[2]
    assert "| 10 of 200 (1 by forfeit) |" in line
    assert "missed" not in line


@pytest.mark.parametrize(
    ("void", "holds", "text"),
    [
        (0, True, "| 200 (1 by forfeit) |"),
        (4, True, "| 196 of 200 (4 void, 1 by forfeit) |"),
        (5, None, "| 195 of 200 (5 void, 1 by forfeit) |"),
        (190, None, "| 10 of 200 (190 void, 1 by forfeit) |"),
    ],
)
def test_void_games_are_reported_and_too_many_hold_no_bound(void, holds, text):
    row = results.row_of("rave", MATCHES["rave"], 200, summary(200 - void, 0, void))
    assert row.holds is holds
    assert text in run.table([row])
