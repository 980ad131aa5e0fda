"""``gozero review``: positions searched in lockstep, and reports that other programs read."""

import csv
import dataclasses
import errno
import functools
import io
import re
import types
import xml.etree.ElementTree as ET

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sgfmill import sgf as sgfmill

import gozero
from gozero.apps import cli, sgf
from gozero.apps.host_game import HostGame
from gozero.apps.review import analyse, report
from gozero.apps.review import run as command
from gozero.apps.review.config import ReviewConfig
from gozero.go import coords
from gozero.go.rules import legal_points, with_to_play
from gozero.runs import memory
from gozero.search import tree as trees
from gozero.search.game import NO_ACTION
from gozero.search.rules.puct import Puct
from gozero.search.variations import principal_variation
from tests.search.evaluators import hash_evaluate, observe_position

SVG = "{http://www.w3.org/2000/svg}"
FLAGS = ["--search", "puct", "--simulations", "64", "--batch", "4", "--score-playouts", "8"]


def at(vertex):
    return coords.from_gtp(3, vertex)


def moves(*vertices, first=0):
    return tuple(((first + i) % 2, at(vertex)) for i, vertex in enumerate(vertices))


# Black fills an eye of its living group, and White captures it: C1 is the mistake.
ALIVE = {"black_stones": tuple(map(at, ["A2", "B2", "C2", "B1"])), "komi": 0.5}
BLUNDER = sgf.GameRecord(3, moves=moves("C1", "pass", "A1"), **ALIVE)
# White's stone is dead: Black has 6 points and White 1 as the board stands, and Black 9 without it.
LEFT_DEAD = sgf.GameRecord(
    3,
    5.5,
    moves("pass", "pass"),
    black_stones=tuple(map(at, ["A2", "B2", "C2"])),
    white_stones=(at("A1"),),
)
QUIET = sgf.GameRecord(3, moves=moves("pass", "pass"), result="B+8.5", black="Ann", **ALIVE)


@pytest.fixture(scope="module", autouse=True)
def compiled():
    """Reviews with the same settings share their compiled program."""
    make, cache = analyse._make_review, {}

    def review_of(rules, config):
        key = rules, dataclasses.replace(config, games=("any",), out=None)
        if key not in cache:
            cache[key] = make(rules, config)
        return cache[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(analyse, "_make_review", review_of)
        yield cache


@pytest.fixture(scope="module")
def all_reviewed():
    some = {"simulations": 64, "batch": 4, "score_playouts": 8}
    config = ReviewConfig(games=("a", "b"), search="puct", **some)
    messages = []
    games = analyse.analyse(
        config,
        [("blunder", BLUNDER), ("quiet", QUIET), ("dead", LEFT_DEAD)],
        lambda *x: messages.append(x),
    )
    assert messages == [(4, 10), (8, 10), (10, 10)]
    return games


@pytest.fixture(scope="module")
def reviewed(all_reviewed):
    return all_reviewed[:2]


def test_passes_with_dead_stones_on_the_board_lose_nothing(all_reviewed):
    """Black's pass offers no win to White, who is behind although the board as it stands is
    White's by half a point; nor does White's pass win anything for Black."""
    game = all_reviewed[2]
    assert [one.win > 0.7 for one in game.positions] == [True] * 3
    assert max(one.lost for one in game.positions) < 0.25
    end = game.positions[-1]
    assert (end.win, end.lead, end.ownership.tolist()) == (1.0, 3.5, [1.0] * 9)


@pytest.mark.thorough
@pytest.mark.parametrize("ko", ["positional", "situational"])
def test_the_positions_of_a_game_share_its_past(ko):
    """They ban what they ban with a past of their own, also where a player moves twice."""
    rules = gozero.Rules(3, ko, suicide=True, max_moves=60)
    rng, game = np.random.default_rng(4), HostGame(rules)
    legal = jax.jit(functools.partial(gozero.legal_actions, rules))
    expected = []
    while len(game.moves) < 50:
        colour = game.to_play if rng.random() < 0.8 else 1 - game.to_play
        state = with_to_play(game.state, colour)
        points = np.flatnonzero(legal(state)[:-1])
        action = rng.choice(points) if len(points) and rng.random() < 0.9 else 9
        expected.append(state)
        game.play(colour, int(action))
    states = analyse._states(rules, "g", sgf.GameRecord(3, 7.0, tuple(game.moves)))
    assert len({id(state.past) for state in states}) == 1
    legal_by_simple_ko = jax.jit(functools.partial(legal_points, rules))
    superko_bans = 0
    for state, own in zip(states, [*expected, game.state], strict=True):
        jax.tree.map(np.testing.assert_array_equal, *(x.replace(past=None) for x in (state, own)))
        np.testing.assert_array_equal(legal(state), legal(own))
        num_by_simple_ko = sum(map(int.bit_count, map(int, legal_by_simple_ko(own.position))))
        superko_bans += not own.ended and num_by_simple_ko > legal(own)[:-1].sum()
    assert superko_bans > 1


def test_positions_are_those_of_the_games(reviewed):
    blunder, quiet = reviewed
    assert [len(game.positions) for game in reviewed] == [4, 3]
    assert [one.to_play for one in blunder.positions] == [0, 1, 0, 1]
    first = np.array([[0, 0, 0], [1, 1, 1], [0, 1, 0]])
    assert (blunder.positions[0].stones == first).all()
    assert (blunder.positions[1].stones[2] == [0, 1, 1]).all()
    assert [one.played for one in quiet.positions] == [9, 9, None]


def test_finished_games_are_scored_without_a_search(reviewed):
    end = reviewed[1].positions[-1]
    assert (end.win, end.lead, end.variation, end.visits.sum()) == (1.0, 8.5, (), 0)
    assert (end.ownership == 1).all()


def test_a_black_board_is_won_and_owned(reviewed):
    start = reviewed[1].positions[0]
    assert start.win > 0.9
    assert start.lead > 5
    assert start.ownership.reshape(3, 3)[1].min() > 0.5
    assert start.visits.sum() == 64
    assert start.visits[start.variation[0]] == start.visits.max()


def test_losses_belong_to_the_player_who_moved():
    make_result = lambda value, first: types.SimpleNamespace(
        stones=np.zeros((3, 3)),
        value=value,
        visits=np.zeros(10),
        variation=np.array([first, NO_ACTION]),
        lead=0.0,
        ownership=np.zeros(9),
    )
    states = [
        types.SimpleNamespace(position=types.SimpleNamespace(to_play=player))
        for player in (0, 1, 0, 1)
    ]
    record = sgf.GameRecord(3, 0.5, moves("A1", "A2", "A3"))
    # Winrates of the player to move: Black 60%, White 70% (Black 30%), Black 35%, White 80%.
    values = (0.2, 0.4, -0.3, 0.6)
    for best, lost in ((at("B2"), [0.3, 0.05, 0.15, 0.0]), (at("A2"), [0.3, 0.0, 0.15, 0.0])):
        line = [make_result(value, best) for value in values]
        ones = analyse._reviewed_positions(record, states, line)
        assert [one.lost for one in ones] == pytest.approx(lost)
        assert [one.win for one in ones] == pytest.approx([0.6, 0.3, 0.35, 0.2])
        assert {one.variation for one in ones} == {(best,)}
    game = analyse.ReviewedGame("g", record, ones)
    assert game.mistakes(5) == [0, 2]
    assert game.mistakes(1) == [0]


@pytest.mark.thorough
def test_the_principal_variation_is_the_most_visited_line():
    rules = gozero.Rules(size=3)
    game = gozero.go_game(rules, observe_position)
    evaluator = gozero.Evaluator(hash_evaluate(rules.num_actions))
    config = gozero.SearchConfig(num_simulations=40, select=Puct())

    @jax.jit
    def run(key):
        states = jax.vmap(lambda _: gozero.init(rules))(jnp.arange(3))
        tree = gozero.search(game, evaluator, key, states, config).tree
        return tree, principal_variation(tree, 12)

    tree, lines = jax.device_get(run(jax.random.key(0)))
    for index, line in enumerate(lines):
        node, rows = trees.ROOT, slice(index * tree.capacity, (index + 1) * tree.capacity)
        visits, actions = tree.visits[rows], tree.action[rows]
        for action in line:
            below = tree.children[rows][node][: tree.num_children[rows][node]]
            if not len(below):
                assert action == NO_ACTION
                continue
            node = below[np.argmax(visits[below])]
            assert action == actions[node]
        assert NO_ACTION in line


def test_the_summary_names_players_and_mistakes(reviewed):
    text = report.summary(reviewed, 2)
    assert (
        "quiet: Ann - White, 3x3, komi 0.5, B+8.5: Black wins 100.0%, lead B+8.5 after 2 moves"
        in text
    )
    assert len(text.splitlines()) == 2 + sum(len(game.mistakes(2)) for game in reviewed)


def test_the_table_has_every_position(reviewed):
    rows = list(csv.DictReader(io.StringIO(report.table(reviewed))))
    assert [(row["game"], row["moves"]) for row in rows] == [
        *(("blunder", str(i)) for i in range(4)),
        *(("quiet", str(i)) for i in range(3)),
    ]
    assert [row["played"] for row in rows] == ["C1", "pass", "A1", "", "pass", "pass", ""]
    for row, one in zip(rows, [p for g in reviewed for p in g.positions], strict=True):
        assert float(row["black_win"]) == pytest.approx(one.win, abs=1e-4)
        assert row["best"] == row["variation"].partition(" ")[0]


def test_the_sgf_keeps_the_game_and_adds_variations(reviewed):
    text = report.annotated(reviewed, 5)
    parts = text.strip().split("\n(;FF[4]")
    texts = [parts[0], *("(;FF[4]" + part for part in parts[1:])]
    assert len(texts) == 2
    for text, game in zip(texts, reviewed, strict=True):
        again = sgf.read(text.encode())
        assert (again.moves, again.komi) == (game.record.moves, game.record.komi)
        assert again.black_stones == tuple(sorted(game.record.black_stones))
        nodes = sgfmill.Sgf_game.from_bytes(text.encode()).get_main_sequence()
        wins = [float(node.get_raw("SBKV")) / 100 for node in nodes]
        assert wins == pytest.approx([one.win for one in game.positions], abs=1e-3)
        branches = [i for i, node in enumerate(nodes) if len(list(node)) > 1]
        assert sorted(game.mistakes(5)) == branches
        for i in branches:
            colour, point = nodes[i][1].get_move()
            assert colour == "bw"[game.positions[i].to_play]
            best = game.positions[i].variation[0]
            assert point == (None if best == 9 else (2 - best // 3, best % 3))
    owned = nodes[-1].get("TB")
    assert owned == {(0, 0), (0, 2), (2, 0), (2, 1), (2, 2)}  # sgfmill counts from the bottom left


def test_the_sgf_keeps_facts_and_comments(reviewed):
    facts = (("DT", "2016-03-09"), ("EV", "cup"), ("WR", "9p"))
    remarks = {"comment": "before", "move_comments": ("first", ""), "info": facts}
    record = dataclasses.replace(QUIET, **remarks)
    again = sgf.read(report.annotated([reviewed[1]._replace(record=record)], 0).encode())
    assert (again.info, again.black) == (facts, "Ann")
    assert again.comment.startswith("before\nBlack wins ")
    assert again.move_comments[0].startswith("first\n")


def test_the_page_is_one_file_with_all_pictures(reviewed):
    page = report.page(reviewed, 5)
    root = ET.fromstring(page.replace("<!DOCTYPE html>", "").replace('<meta charset="utf-8">', ""))
    pictures = [element for element in root.iter(f"{SVG}svg")]
    mistakes = sum(len(game.mistakes(5)) for game in reviewed)
    assert len(pictures) == 2 * 3 + mistakes  # two curves and the final board for each game
    crosses = [path for path in root.iter(f"{SVG}path") if path.get("class") == "cross"]
    played = [g.positions[i].played for g in reviewed for i in g.mistakes(5)]
    assert len(crosses) == sum(action < 9 for action in played)
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")


def test_names_in_a_page_are_escaped(reviewed):
    evil = reviewed[1]._replace(name="<script>alert(1)</script>")
    assert "<script>" not in report.page([evil], 5)


def test_a_curve_stays_in_its_picture():
    root = ET.fromstring(report.curve([0.0, 50.0, 100.0], 0, 100, "wins", marks=[0]))
    points = root.find(f"{SVG}polyline").get("points").split()
    assert len(points) == 3
    heights = [float(point.split(",")[1]) for point in points]
    assert heights == sorted(heights, reverse=True)
    assert float(root.get("height")) > heights[0] > heights[-1] > 0
    mark = root.find(f"{SVG}circle")
    assert float(mark.get("cy")) == heights[1]


def run(tmp_path, *more, records=(QUIET,)):
    paths = [tmp_path / f"{i}.sgf" for i in range(len(records))]
    for path, record in zip(paths, records, strict=True):
        sgf.write(path, record)
    return cli.main(["review", *map(str, paths), *FLAGS, *map(str, more)])


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "gozero review: expected games as SGF files: gozero review GAME.sgf"),
        (["x.sgf", "--out", "x.pdf"], "--out x.pdf: expected a .html, .sgf or .csv file"),
        (["x.sgf", "--search", "td"], "--search td: expected one of puct, katago, uct, rave"),
        (["x.sgf", "--resign", "-0.9"], "--resign -0.9: this command plays no moves"),
        (["/nowhere/x.sgf"], "sgf /nowhere/x.sgf: cannot be read (No such file or directory)"),
    ],
)
def test_invalid_arguments(arguments, complaint, capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main(["review", *arguments])
    assert stopped.value.code == 2
    stderr = capsys.readouterr().err
    assert complaint in stderr
    assert len(stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("records", "complaint"),
    [
        (
            [QUIET, sgf.GameRecord(3, 0.5, moves("A1", "A1"))],
            "1.sgf: move 2: A1 is occupied; --ko and --suicide may help",
        ),
        (
            [QUIET, sgf.GameRecord(5, 0.5, ())],
            "games: of sizes 3, 5; review each size separately",
        ),
        ([sgf.GameRecord(3, 0.3, ())], "0.sgf: komi: 0.3 is not a multiple of 0.5"),
        (
            [sgf.GameRecord(3, 0.5, ((0, 9),) * 1001)],
            "0.sgf: 1,001 moves; expected at most 400 on 3x3",
        ),
    ],
)
def test_invalid_games_are_named(tmp_path, capsys, records, complaint):
    with pytest.raises(SystemExit):
        run(tmp_path, records=records)
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize(
    ("out", "complaint"),
    [
        ("none/report.html", "the folder {}/none does not exist"),
        ("../{}/0.sgf", "is one of the games; name another file"),
        ("link.sgf", "is one of the games; name another file"),
        ("folder.html", "is not a file to replace"),
    ],
)
def test_a_report_that_cannot_be_written_is_refused_before_the_search(
    tmp_path, capsys, monkeypatch, out, complaint
):
    (tmp_path / "folder.html").mkdir()
    (tmp_path / "link.sgf").symlink_to("0.sgf")
    monkeypatch.setattr(analyse, "analyse", None)
    with pytest.raises(SystemExit) as stopped:
        run(tmp_path, "--out", tmp_path / out.format(tmp_path.name))
    assert stopped.value.code == 2
    assert complaint.format(tmp_path) in capsys.readouterr().err
    assert sgf.read(tmp_path / "0.sgf") == QUIET


def test_the_summary_is_printed_if_the_report_cannot_be_written(tmp_path, capsys, monkeypatch):
    def full(path, data):
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(command, "write_whole", full)
    with pytest.raises(SystemExit) as stopped:
        run(tmp_path, "--out", tmp_path / "report.csv")
    assert stopped.value.code == 1
    captured = capsys.readouterr()
    assert "0.sgf: Ann - White" in captured.out
    assert "No space left on device" in captured.err


def test_trees_that_do_not_fit_are_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(memory, "of_device", lambda num_devices: 1000)
    with pytest.raises(SystemExit) as stop:
        run(tmp_path, "--batch", 5)  # another program than those of the tests above
    assert stop.value.code == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert re.match(r"gozero review: \d+ trees of \d+ nodes: .* MiB: lower", last)


@pytest.mark.parametrize(
    ("flags", "komi", "warning"),
    [
        (
            [],
            [0.5, 0, 0],
            "two.sgf game 2 and 1 more: no komi (KM); 0 is used, --komi sets another",
        ),
        (["--komi", "-6.5"], [-6.5] * 3, ""),
    ],
)
def test_every_game_is_reviewed_with_its_komi_or_that_of_the_flag(
    tmp_path, capsys, monkeypatch, flags, komi, warning
):
    seen = []
    monkeypatch.setattr(analyse, "analyse", lambda config, games, *_: seen.extend(games) or [])
    path = tmp_path / "two.sgf"
    path.write_text("(;SZ[3]KM[0.5];B[aa])(;SZ[3];B[bb])(;SZ[3]KM[];B[cc])")
    assert cli.main(["review", str(path), *FLAGS, *flags]) == 0
    assert [name for name, _ in seen] == [f"two.sgf game {i}" for i in (1, 2, 3)]
    assert [(record.komi, record.komi_given) for _, record in seen] == [(k, True) for k in komi]
    lines = [line for line in capsys.readouterr().err.splitlines() if "komi" in line]
    assert lines == ([f"gozero review: {warning}"] if warning else [])


def test_the_command_writes_a_report(tmp_path, capsys, reviewed, compiled):
    out = tmp_path / "report.csv"
    assert run(tmp_path, "--out", out) == 0
    assert len(compiled) == 1  # the flags give the config above
    captured = capsys.readouterr()
    assert "compiling for 3x3" in captured.err
    assert re.search(r"gozero review: \d+ trees of \d+ nodes: .* MiB", captured.err)
    assert captured.out.splitlines()[-1] == f"written: {out}"
    assert len(out.read_text().splitlines()) == 4
