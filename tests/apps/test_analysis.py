"""``gozero analyze --json``: KataGo's protocol, with queries as its clients send them."""

import functools
import io
import itertools
import json
import math
import re

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gozero
from gozero.apps import cli
from gozero.apps.analysis import answer, positions, query, run, search
from gozero.apps.analysis.config import AnalyzeConfig
from gozero.apps.analysis.query import QueryError
from gozero.apps.analysis.search import FullAnalysis
from gozero.apps.restricted import RestrictedState, without_avoided
from gozero.compile import mode
from gozero.go import rules as go
from gozero.runs import memory
from gozero.search.game import Ancestors

BASE = {"id": "q", "moves": [], "boardXSize": 3, "boardYSize": 3, "komi": 0.5}
VISITS = 24
ALLOW = {"player": "B", "moves": ["A1"], "untilDepth": 2}


def ask(**fields):
    return {**BASE, **fields}


@pytest.mark.parametrize(
    ("fields", "field", "message"),
    [
        ({"id": 3}, "id", "Must be a string"),
        ({"boardXSize": None}, "boardXSize", "Must be an integer from 2 to 25"),
        ({"boardXSize": True}, "boardXSize", "Must be an integer"),
        ({"boardYSize": 4}, "boardYSize", "Only square boards"),
        ({"komi": "7"}, "komi", "Must be a number from -1000 to 1000"),
        ({"rules": {"komi": 7.1}}, "rules", "a multiple of 0.5"),
        ({"priority": 2**62 + 1}, "priority", "from -2.62 to 2.62"),
        ({"priority": True}, "priority", "Must be a number"),
        ({"moves": [["B", "(3,0)"]]}, "moves", "Could not parse board location: .3,0."),
        ({"moves": [["B", "(0,-1)"]]}, "moves", "Could not parse board location"),
        ({"firstReportDuringSearchAfter": 0}, "firstReportDuringSearchAfter", "from 0.001"),
        ({"komi": math.nan}, "komi", "Must be a number"),
        ({"komi": 7.25}, "komi", "a multiple of 0.5"),
        ({"moves": None}, "moves", "Must be an array"),
        ({"moves": [["B"]]}, "moves", "array of pairs"),
        ({"moves": [["X", "A1"]]}, "moves", "Must be B or W"),
        ({"moves": [["B", "D4"]]}, "moves", "Could not parse board location: D4"),
        ({"moves": [["B", 7]]}, "moves", "Could not parse board location: 7"),
        ({"moves": [["B", "pass"]] * 401}, "moves", "Must have at most 400 elements"),
        ({"id": "q" * 1001}, "id", "Must have at most 1000 characters"),
        ({"initialStones": [["B", "A1"], ["W", "A1"]]}, "initialStones", "different points"),
        ({"initialStones": [["B", "pass"]]}, "initialStones", "different points"),
        ({"initialPlayer": "red"}, "initialPlayer", "Must be B or W"),
        ({"analyzeTurns": [1]}, "analyzeTurns", "from 0 to 0"),
        ({"priorities": [1, 2]}, "priorities", "one element for each turn"),
        ({"maxVisits": 0}, "maxVisits", "from 1"),
        ({"includePolicy": "yes"}, "includePolicy", "Must be a boolean"),
        ({"rules": "chess"}, "rules", "Could not parse rules: chess"),
        ({"rules": {"ko": "SOMETIMES"}}, "rules", "ko must be"),
        ({"rules": 7}, "rules", "a string or an object"),
        ({"rules": {"kos": "SIMPLE"}}, "rules", "Unknown rules option: kos"),
        ({"rules": {"suicide": 1}}, "rules", "suicide must be true or false"),
        ({"whiteHandicapBonus": "M"}, "whiteHandicapBonus", "must be 0, N or N-1"),
        ({"avoidMoves": [{"player": "B", "moves": ["A1"]}]}, "avoidMoves", "Must be an integer"),
        ({"avoidMoves": ["A1"]}, "avoidMoves", "array of objects"),
        ({"allowMoves": [ALLOW, ALLOW]}, "allowMoves", "more than one entry for the same player"),
        ({"allowMoves": [ALLOW], "avoidMoves": []}, "allowMoves", "both allowMoves and avoid"),
        ({"overrideSettings": {"maxVisits": 0}}, "overrideSettings", "Must be an integer from 1"),
        ({"overrideSettings": {"maxTime": "long"}}, "overrideSettings", "Must be a number"),
        ({"overrideSettings": {"maxTime": 10**400}}, "overrideSettings", "Must be a number"),
        (
            {"overrideSettings": {"reportAnalysisWinratesAs": "ME"}},
            "overrideSettings",
            "BLACK, WHITE or SIDETOMOVE",
        ),
    ],
)
def test_query_errors_name_the_field(fields, field, message):
    with pytest.raises(QueryError, match=message) as error:
        query.read(ask(**fields))
    assert error.value.field == field


@pytest.mark.parametrize(
    ("turns", "priorities", "expected"),
    [
        ([2, 0], [5, 1], {0: 1.0, 2: 5.0}),
        ([1, 1], [3, 4], {1: 4.0}),
        ([2, 1], None, {1: 7.0, 2: 7.0}),
    ],
)
def test_priorities_belong_to_their_turns(turns, priorities, expected):
    moves = [["B", "A1"], ["W", "B2"]]
    own = {} if priorities is None else {"priorities": priorities}
    asked = query.read(ask(moves=moves, analyzeTurns=turns, priority=7, **own))
    assert dict(zip(asked.turns, asked.priorities, strict=True)) == expected
    assert list(asked.turns) == sorted(asked.turns)


def test_what_katago_accepts():
    asked = query.read(ask(komi=-400, priority=2**62 - 1, moves=[["B", "(2,0)"], ["W", "( 0, 2)"]]))
    assert (asked.komi, asked.priorities) == (-400.0, (2**62 - 1,))
    assert asked.moves == ((0, 2), (1, 6))  # C3 and A1
    assert (asked.first_report, asked.report_every) == (1e9, 1e9)
    asked = query.read(ask(reportDuringSearchEvery=2))
    assert (asked.first_report, asked.report_every) == (2.0, 2.0)
    asked = query.read(ask(reportDuringSearchEvery=2, firstReportDuringSearchAfter=0.5))
    assert (asked.first_report, asked.report_every) == (0.5, 2.0)
    assert asked.warnings == ()
    fields = ask(rules={"komi": 5.5, "ko": "SIMPLE"})
    assert query.read(fields).komi == 0.5
    del fields["komi"]
    assert query.read(fields).komi == 5.5


def test_a_board_that_the_flags_do_not_allow_is_answered():
    """As KaTrain may send 19x19 at first, where the player `strong` has no network."""
    out = io.StringIO()
    server = run.Server(AnalyzeConfig.of_flags({"json": True, "symmetries": "all"}), out)
    server._handle(json.dumps(ask(boardXSize=19, boardYSize=19)).encode(), True)
    answer = json.loads(out.getvalue())
    assert (answer["id"], answer["field"]) == (ask()["id"], "boardXSize")
    assert "symmetries" in answer["error"]


@pytest.mark.parametrize(
    "line", ["", "{", "[1]", "7", '"a"', b"\xff{}", "[" * 100_000, '{"a":' + "[" * 200 + "]" * 200]
)
def test_lines_that_are_not_objects(line):
    with pytest.raises(QueryError) as error:
        query.decode(line)
    assert error.value.field is None


def test_a_query_of_katrain():
    parsed = query.read(
        {
            "rules": "japanese",
            "priority": 1,
            "analyzeTurns": [2],
            "maxVisits": 500,
            "komi": 6.5,
            "boardXSize": 19,
            "boardYSize": 19,
            "includeOwnership": True,
            "includeMovesOwnership": True,
            "includePolicy": True,
            "initialStones": [["B", "D4"], ["B", "Q16"]],
            "initialPlayer": "W",
            "moves": [["W", "Q4"], ["B", "D16"]],
            "overrideSettings": {
                "reportAnalysisWinratesAs": "BLACK",
                "wideRootNoise": 0.04,
                "maxTime": 8.0,
            },
            "id": "QUERY:1",
            "reportDuringSearchEvery": 1,
            "avoidMoves": [{"moves": ["A1", "pass"], "player": "W", "untilDepth": 1}],
        }
    )
    assert (parsed.ko, parsed.suicide, parsed.mover(0), parsed.mover(2)) == ("simple", False, 1, 1)
    assert parsed.warnings == (
        ("rules", "The score is counted by area; other scoring is not supported"),
        ("overrideSettings", "wideRootNoise is not supported, it is ignored"),
    )
    assert parsed.avoid == {(1, 18 * 19): 1, (1, 361): 1}
    assert (parsed.max_time, parsed.winrates_as, parsed.visits) == (8.0, "BLACK", 500)
    assert query.read(ask(surprise=1)).warnings[0][0] == "surprise"


@pytest.mark.parametrize(
    ("first", "stones", "moves", "movers"),
    [
        (None, "", "", [0]),
        ("W", "", "", [1]),
        (None, "B", "", [0]),
        (None, "BB", "", [1]),  # a handicap
        (None, "BBW", "", [0]),
        ("B", "BB", "", [0]),
        (None, "BB", "B", [0, 1]),
        ("W", "", "B", [1, 1]),  # asked for White, although Black moved
        ("B", "", "WB", [0, 0, 1]),
        (None, "", "BBW", [0, 1, 1, 0]),  # after Black's first move it is White's turn
    ],
)
def test_who_is_to_play(first, stones, moves, movers):
    """As in KataGo: initialPlayer at the start, later the opponent of the last mover."""
    points = ["A1", "B1", "C1"]
    initial = {} if first is None else {"initialPlayer": first}
    initial["initialStones"] = [[colour, points[i]] for i, colour in enumerate(stones)]
    asked = query.read(ask(moves=[[colour, "pass"] for colour in moves], **initial))
    assert [asked.mover(turn) for turn in range(len(moves) + 1)] == movers
    rules_key = (3, "positional", False, False)
    searched = [positions.Positions().to_search(asked, t, rules_key) for t in range(len(movers))]
    assert [int(x.state.to_play) for x in searched] == movers


@pytest.mark.parametrize(
    ("fields", "visits", "warnings"),
    [
        ({"maxVisits": 500}, 500, []),
        ({"maxVisits": 501}, 501, ["maxVisits"]),
        ({"overrideSettings": {"maxVisits": 5}}, 5, []),
        ({"overrideSettings": {"maxVisits": 501}}, 501, ["overrideSettings"]),
        ({"overrideSettings": {"maxVisits": 501}, "maxVisits": 5}, 5, []),  # as in KataGo
        ({"overrideSettings": {"maxVisits": 5}, "maxVisits": 501}, 501, ["maxVisits"]),
    ],
)
def test_more_visits_than_the_limit_are_told(fields, visits, warnings):
    asked = query.read(ask(**fields), 500)
    assert asked.visits == visits
    limited = "maxVisits is limited to 500; --simulations sets this limit"
    assert asked.warnings == tuple((field, limited) for field in warnings)


@pytest.mark.parametrize(
    ("fields", "warnings"),
    [
        ({"rootPolicyTemperature": 1.0, "analysisPVLen": 15}, []),
        ({"includeOwnershipStdev": False, "includeMovesOwnershipStdev": False}, []),
        ({"includeNoResultValue": False, "overrideSettings": {"wideRootNoise": 0.0}}, []),
        ({"rootPolicyTemperature": 1.5}, ["rootPolicyTemperature"]),
        ({"rootFpuReductionMax": 0}, ["rootFpuReductionMax"]),
        ({"includeOwnershipStdev": True}, ["includeOwnershipStdev"]),
        ({"includeMovesOwnershipStdev": True}, ["includeMovesOwnershipStdev"]),
        ({"includeNoResultValue": True}, ["includeNoResultValue"]),
        ({"analysisPVLen": 16}, ["analysisPVLen"]),
        ({"overrideSettings": {"maxTime": 3, "wideRootNoise": 0.04}}, ["wideRootNoise"]),
        ({"overrideSettings": {"rootPolicyTemperature": 1, "foo": 1, "bar": 0}}, ["foo", "bar"]),
    ],
)
def test_what_is_ignored_is_told(fields, warnings):
    found = query.read(ask(**fields)).warnings
    fields_of = ["overrideSettings" if "overrideSettings" in fields else name for name in warnings]
    assert [field for field, _ in found] == fields_of
    assert [message.split()[0] for _, message in found] == warnings


AREA = "The score is counted by area; other scoring is not supported"
TAX = "The tax {} is not supported, it is ignored"
BUTTON = "hasButton is not supported, it is ignored"


@pytest.mark.parametrize(
    ("rules", "warnings", "ko", "suicide", "komi"),
    [
        (None, [], None, False, 7.5),
        ("chinese", [], "simple", False, 7.5),
        ("stone_scoring", [TAX.format("ALL")], "simple", False, 7.5),
        ("AGA button", [BUTTON], "situational", False, 7.0),
        ("ancient-territory", [AREA, TAX.format("ALL")], "simple", False, 6.5),
        ("korean", [AREA], "simple", False, 6.5),
        ("nz", [], "situational", True, 7.0),
        ({}, [], "positional", True, 7.5),
        ({"tax": "SEKI", "hasButton": True}, [TAX.format("SEKI"), BUTTON], "positional", True, 7.0),
        ({"scoring": "TERRITORY", "tax": "SEKI"}, [AREA], "positional", True, 6.5),
        ({"ko": "SIMPLE", "suicide": False, "friendlyPassOk": True}, [], "simple", False, 7.5),
    ],
)
def test_rules_that_are_ignored_are_told(rules, warnings, ko, suicide, komi):
    fields = ask(rules=rules)
    del fields["komi"]
    asked = query.read(fields)
    assert asked.warnings == tuple(("rules", warning) for warning in warnings)
    assert (asked.ko, asked.suicide, asked.komi) == (ko, suicide, komi)


@pytest.mark.parametrize(
    ("rules", "stones", "moves", "bonuses"),
    [
        ({"rules": "chinese"}, "", "", [0]),
        ({"rules": "chinese"}, "B", "", [0]),
        ({"rules": "chinese"}, "BB", "w", [2, 2]),
        ({"rules": "chinese"}, "BBW", "", [0]),
        ({"rules": "aga"}, "BBB", "", [2]),
        ({"rules": "tromp-taylor"}, "BB", "", [0]),
        ({"rules": "chinese", "whiteHandicapBonus": "0"}, "BB", "", [0]),
        ({"rules": {"whiteHandicapBonus": "N-1"}}, "BB", "", [1]),
        ({"rules": "chinese"}, "", "bbwb", [0, 0, 2, 2, 2]),  # stones that are played first
        ({"rules": "chinese"}, "", "bpb", [0, 0, 0, 2]),  # White passes in between
        ({"rules": "chinese"}, "", "bbww", [0, 0, 2, 2, 0]),  # no handicap: a position
    ],
)
def test_whites_bonus_for_a_handicap_is_komi(rules, stones, moves, bonuses):
    points = ["A1", "B1", "C1", "A3", "B3", "C3"]
    initial = [[colour, points[i]] for i, colour in enumerate(stones)]
    later = [
        ["W" if m in "wp" else "B", "pass" if m == "p" else points[i]]
        for i, m in enumerate(moves, start=len(stones))
    ]
    asked = query.read(ask(initialStones=initial, moves=later, **rules))
    rules_key = (3, "positional", False, False)
    searched = [positions.Positions().to_search(asked, t, rules_key) for t in range(len(bonuses))]
    assert [float(x.state.komi) - 0.5 for x in searched] == bonuses


def test_each_player_may_be_allowed_other_moves():
    allow = [ALLOW, {"player": "W", "moves": ["C3", "pass"], "untilDepth": 1}]
    avoid = query.read(ask(allowMoves=allow)).avoid
    black = {(0, action): 2 for action in range(10) if action != 6}
    white = {(1, action): 1 for action in range(10) if action not in (2, 9)}
    assert avoid == black | white


@pytest.fixture(scope="module", autouse=True)
def _compiled_once():
    """Servers with the same settings share their searches, as requests to one server do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "Searches", functools.cache(search.Searches))
        yield


def serve(lines, **settings):
    fields = {"simulations": VISITS, "batch": 1, "score_playouts": 2, "search": "puct"} | settings
    config = AnalyzeConfig(json=True, **fields)
    out = io.StringIO()
    server = run.Server(config, out)
    server.listen(io.StringIO("\n".join(x if isinstance(x, str) else json.dumps(x) for x in lines)))
    server.serve()
    return [json.loads(line) for line in out.getvalue().splitlines()]


@pytest.fixture(scope="module")
def answers():
    """The answers of a session."""
    wall = [["B", "A2"], ["B", "B2"], ["B", "C2"], ["B", "B1"]]
    messages = serve(
        [
            {"id": "v", "action": "query_version"},
            ask(id="late", priority=-1, moves=[["B", "B2"]], maxVisits=6),
            ask(
                id="turns",
                moves=[["B", "B2"], ["W", "B1"]],
                analyzeTurns=[0, 2],
                includeOwnership=True,
                includePolicy=True,
                includePVVisits=True,
                includeMovesOwnership=True,
                maxVisits=10**7,
            ),
            ask(id="owned", initialStones=wall, includeOwnership=True, initialPlayer="W"),
            ask(
                id="avoid",
                avoidMoves=[{"player": "B", "moves": ["B2", "A1", "pass"], "untilDepth": 1}],
                overrideSettings={"reportAnalysisWinratesAs": "WHITE"},
            ),
            ask(id="allow", allowMoves=[{"player": "B", "moves": ["C3"], "untilDepth": 1}]),
            ask(
                id="over",
                komi=5.5,
                initialStones=[["B", "A2"], ["B", "B2"], ["B", "C2"], ["W", "A1"]],
                moves=[["B", "pass"], ["W", "pass"]],
                analyzeTurns=[1, 2],
            ),
            ask(id="occupied", moves=[["B", "B2"], ["W", "B2"]]),
            ask(id="dead", initialStones=[["B", f"{x}{y}"] for x in "ABC" for y in (1, 2, 3)]),
            "no json",
            ask(id="never", moves=[["B", "A1"]]),
            {"id": "t", "action": "terminate", "terminateId": "never"},
            {"id": "x", "action": "dance"},
            {"id": "c", "action": "clear_cache"},
        ]
    )
    return {(one.get("id"), one.get("turnNumber")): one for one in messages}, messages


def test_every_query_is_answered_once(answers):
    by_id, messages = answers
    assert len(by_id) == len(messages) == 17
    assert by_id["turns", None]["field"] == "maxVisits"
    assert by_id["turns", None]["warning"].startswith(f"maxVisits is limited to {VISITS};")
    assert by_id["v", None]["version"] == run.__version__
    assert "Illegal move 1: B2 (B2 is occupied)" in by_id["occupied", None]["error"]
    assert by_id["dead", None]["field"] == "initialStones"
    assert "error" in by_id[None, None]
    assert by_id["x", None] == {"error": "Unknown action: dance", "field": "action", "id": "x"}
    assert by_id["never", 1]["noResults"] is True
    assert by_id["t", None] == {"id": "t", "action": "terminate", "terminateId": "never"}
    assert [one["id"] for one in messages if "moveInfos" in one][-1] == "late"


@pytest.mark.parametrize("turn", [0, 2])
def test_an_answer_has_the_fields_that_clients_read(answers, turn):
    one = answers[0]["turns", turn]
    root, infos = one["rootInfo"], one["moveInfos"]
    assert one["isDuringSearch"] is False
    assert root["currentPlayer"] == "B"
    assert root["visits"] == VISITS == 1 + sum(info["visits"] for info in infos)
    assert [info["order"] for info in infos] == list(range(len(infos)))
    visits = [info["visits"] for info in infos]
    assert visits == sorted(visits, reverse=True)
    for info in infos:
        assert 0 <= info["lcb"] <= info["winrate"] <= 1  # Black is to move
        assert info["pv"][0] == info["move"]
        assert len(info["pvVisits"]) == len(info["pv"])
        assert info["pvVisits"] == sorted(info["pvVisits"], reverse=True)
        assert len(info["ownership"]) == 9
    assert len(one["ownership"]) == 9
    policy = np.array(one["policy"])
    assert len(policy) == 10
    assert policy[policy >= 0].sum() == pytest.approx(1, abs=1e-4)
    assert (policy < 0).tolist() == [False] * 10 if turn == 0 else policy[4] < 0


def test_ownership_is_reported(answers):
    one = answers[0]["owned", 0]
    assert one["rootInfo"]["currentPlayer"] == "W"
    assert one["rootInfo"]["scoreLead"] > 5
    assert np.mean(one["ownership"]) > 0.5
    assert one["rootInfo"]["winrate"] > 0.7


def test_moves_are_avoided_or_allowed(answers):
    avoided = {info["move"] for info in answers[0]["avoid", 0]["moveInfos"]}
    assert len(avoided) == 7
    assert not avoided & {"B2", "A1", "pass"}
    assert [info["move"] for info in answers[0]["allow", 0]["moveInfos"]] == ["C3"]
    black = answers[0]["turns", 0]["rootInfo"]["scoreLead"]
    assert answers[0]["avoid", 0]["rootInfo"]["scoreLead"] == pytest.approx(-black, abs=9)


@pytest.mark.parametrize("turn", [1, 2])
def test_finished_games_are_analysed(answers, turn):
    """White's stone is dead: Black wins by 9 - 5.5 points, although the board as it stands, where
    White's pass would end the game, is White's by half a point."""
    one = answers[0]["over", turn]
    assert sum(info["visits"] for info in one["moveInfos"]) == VISITS - 1
    assert (one["rootInfo"]["winrate"] > 0.6) == (one["rootInfo"]["scoreLead"] > 0) is True


def _search_view():
    zeros = np.zeros
    visits = np.array([3, 1] + [0] * 8)
    return FullAnalysis(
        visits=visits,
        q=np.array([0.5, -0.5] + [0.0] * 8),
        prior=np.full(10, 0.1),
        value=0.25,
        ok=True,
        lead=-2.0,
        ownership=np.linspace(-1, 1, 9),
        actions=np.array([0, 1]),
        lines=np.array([[1, 9, -1], [-1, -1, -1]]),
        line_visits=np.array([[2, 1, 0], [0, 0, 0]]),
        leads=np.array([-3.0, 4.0] + [np.nan] * 8),
        ownerships=zeros((2, 9)),
    )


@pytest.mark.parametrize(
    ("moves", "view", "winrate", "lead", "first"),
    [
        ([], "BLACK", 0.625, -2.0, 0.75),
        ([], "WHITE", 0.375, 2.0, 0.25),
        ([["B", "C1"]], "SIDETOMOVE", 0.625, 2.0, 0.75),
        ([["B", "C1"]], "BLACK", 0.375, -2.0, 0.25),
    ],
)
def test_numbers_are_from_the_requested_perspective(moves, view, winrate, lead, first):
    parsed = query.read(ask(moves=moves, includeOwnership=True, includePVVisits=True))
    reply = answer.answer(parsed, len(moves), _search_view(), view, during=True)
    assert reply["isDuringSearch"] is True
    assert reply["rootInfo"]["winrate"] == winrate
    assert reply["rootInfo"]["scoreLead"] == lead
    best = reply["moveInfos"][0]
    assert (best["move"], best["winrate"], best["pv"]) == ("A3", first, ["A3", "B3", "pass"])
    assert best["pvVisits"] == [3, 2, 1]
    black = view == "BLACK" or (view == "SIDETOMOVE" and not moves)
    assert reply["ownership"][0] == (-1 if black else 1)
    # The bound is worse for the player to move, from whichever side the winrate is told.
    worse = best["lcb"] < best["winrate"]
    mover = "B" if not moves else "W"
    assert worse == ((mover == "B") == black)


@pytest.mark.thorough  # compiles for itself
def test_each_of_a_batch_of_queries_gets_its_own_answer():
    """Their only legal moves, or their visits, say which search an answer is from."""
    moves = {"a": "A1", "b": "C3", "c": "pass"}
    allow = lambda move: [{"player": "B", "moves": [move], "untilDepth": 1}]
    one_move = [ask(id=id, allowMoves=allow(move), maxVisits=6) for id, move in moves.items()]
    white = ask(id="d", moves=[["B", "B2"]], maxVisits=12)
    found = {one["id"]: one for one in serve([*one_move, white], batch=4)}
    for name, move in moves.items():
        assert [one["move"] for one in found[name]["moveInfos"]] == [move]
        assert found[name]["rootInfo"]["visits"] == 6
    assert found["d"]["rootInfo"]["visits"] == 12
    assert found["d"]["rootInfo"]["currentPlayer"] == "W"
    assert "B2" not in {one["move"] for one in found["d"]["moveInfos"]}


@pytest.mark.parametrize(
    ("platform", "batch", "priorities", "sizes"),
    [
        ("cpu", 64, [0], [1]),
        ("cpu", 64, [0] * 3, [1, 1, 1]),
        ("cpu", 64, [0] * 4, [4]),  # padded to 8
        ("cpu", 64, [0] * 20, [8, 8, 4]),
        ("cpu", 64, [0] * 32, [32]),  # padded to 64
        ("cpu", 64, [0] * 100, [64, 36]),
        ("cpu", 64, [-100] * 20 + [1000], [1, 8, 8, 4]),  # a click during a review
        ("cpu", 64, [0] * 20 + [1] * 5, [5, 8, 8, 4]),
        ("cpu", 4, [-1] * 7, [4, 3]),
        ("cpu", 1, [0] * 2, [1, 1]),
        ("gpu", 64, [-100] * 20 + [1000], [21]),
    ],
)
def test_the_sizes_of_batches(platform, batch, priorities, sizes, monkeypatch):
    monkeypatch.setattr(mode, "backend", lambda: platform)
    server = run.Server(AnalyzeConfig(json=True, batch=batch, search="puct"), io.StringIO())
    for number, priority in enumerate(priorities):
        asked = query.read(ask(id=str(number), priority=priority))
        server._waiting.append(run.Job(asked, 0, priority, number, 1))
    batches = []
    while server._waiting:
        batches.append(server._next_batch())
    assert [len(one) for one in batches] == sizes
    order = [job.priority for one in batches for job in one]
    assert order == sorted(priorities, reverse=True)
    for one in batches if platform == "cpu" else []:
        size = run._padded_size(len(one), batch)
        assert size <= 2 * len(one)


@pytest.mark.parametrize(
    ("fields", "least", "most"),
    [({"reportDuringSearchEvery": 3}, 2, 99), ({"firstReportDuringSearchAfter": 3}, 2, 2)],
)
def test_reports_during_a_search_and_its_time_limit(fields, least, most):
    """With a clock that advances a second at each look."""
    ticks = iter(range(10_000))
    out = io.StringIO()
    config = AnalyzeConfig(json=True, simulations=VISITS, batch=1, score_playouts=2, search="puct")
    server = run.Server(config, out, clock=lambda: float(next(ticks)))
    lines = [ask(id="long", overrideSettings={"maxTime": 12}, **fields)]
    server.listen(io.StringIO(json.dumps(lines[0])))
    server.serve()
    messages = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [one["isDuringSearch"] for one in messages] == [True] * (len(messages) - 1) + [False]
    assert least <= len(messages) <= most
    visits = [one["rootInfo"]["visits"] for one in messages]
    assert visits == sorted(visits)
    assert visits[-1] < VISITS  # the time was up


@pytest.mark.thorough  # compiles for itself
def test_the_memory_of_the_trees_is_told_before_they_are_compiled(capsys):
    answers = serve([ask(id="a"), ask(id="b")], seed=1)
    assert [one["id"] for one in answers] == ["a", "b"]
    told = [line for line in capsys.readouterr().err.splitlines() if "a tree of" in line]
    assert len(told) == 1
    assert re.fullmatch(rf"gozero analyze: a tree of {VISITS + 1} nodes: .* MiB, .*", told[0])


def test_trees_that_do_not_fit_are_refused(monkeypatch):
    monkeypatch.setattr(memory, "of_device", lambda num_devices: 1000)
    answers = serve([ask(id="a"), ask(id="b")], seed=2)
    assert [one["id"] for one in answers] == ["a", "b"]
    for one in answers:
        assert re.match(rf"a tree of {VISITS + 1} nodes: .*; but there are only", one["error"])
        assert "field" not in one


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "--json: required, because there is no other protocol"),
        (["--json", "--komi", "7"], 'unknown flag --komi; each query has its own komi, such as "k'),
        (["--json", "--size=9"], "unknown flag --size; each query has its own size, such as"),
        (["--json", "--trees", "2"], "--trees 2: expected 1; an analysis has one tree a position"),
        (["--json", "--resign", "-0.5"], "--resign -0.5: this command plays no moves"),
        (
            ["--json", "--evaluator", "network", "--weights", "/nowhere"],
            "--weights /nowhere: no such file",
        ),
    ],
)
def test_invalid_flags(arguments, complaint, capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main(["analyze", *arguments])
    assert stopped.value.code == 2
    assert complaint in capsys.readouterr().err


def test_moves_are_avoided_by_one_player_and_down_to_a_depth():
    """On an empty board of 2x2: points 0 and 1 are avoided at depths 0 and 1, point 2 at 0 only."""
    rules = gozero.Rules(2, ko="simple")
    game, _ = without_avoided(gozero.go_game(rules), gozero.playout_evaluator(rules))

    @jax.jit
    def legal(avoid, to_play, length):
        state = go.with_to_play(go.init(rules), to_play)
        context, position = game.history.root(RestrictedState(state, avoid))
        ancestors = Ancestors(jax.tree.map(lambda x: jnp.stack([x] * 3), position), length)
        return game.history.legal(context, position, ancestors)

    some, everything = np.array([2, 2, 1, 0, 0]), np.full(5, 9)
    for avoiding, to_play in itertools.product((0, 1), repeat=2):
        for length, wanted in enumerate(([0, 0, 0, 1, 1], [0, 0, 1, 1, 1], [1] * 5, [1] * 5)):
            found = legal(np.outer(np.arange(2) == avoiding, some), to_play, length)
            assert found.tolist() == (wanted if to_play == avoiding else [1] * 5)
            # If no other move is legal, all are.
            found = legal(np.outer(np.arange(2) == avoiding, everything), to_play, length)
            assert found.all()


def test_the_game_without_avoided_moves_is_the_game():
    rules = gozero.Rules(3)
    game = gozero.go_game(rules)
    evaluator = gozero.playout_evaluator(rules)
    restricted_game, _ = without_avoided(game, evaluator)
    passes = rules.num_actions - 1
    state = game.init(jax.random.key(0))
    for action in (4, passes, passes):
        state = game.play(state, action)
    restricted = RestrictedState(state, np.zeros((2, rules.num_actions), np.int32))
    history, wrapped = game.history, restricted_game.history
    context, position = history.root(state)
    restricted_context, restricted_position = wrapped.root(restricted)
    chex.assert_trees_all_equal(restricted_position, position)
    ancestors = Ancestors(jax.tree.map(lambda x: x[None], position), np.int32(0))
    assert [float(x) for x in history.scored(context, position)] == [1.0, -1.0, -2.0]  # White's
    for name, rest in {
        "legal": (ancestors,),
        "outcome": (),
        "observe": (ancestors,),
        "scored": (),
    }.items():
        expected = getattr(history, name)(context, position, *rest)
        got = getattr(wrapped, name)(restricted_context, position, *rest)
        chex.assert_trees_all_equal(got, expected)
    same = {name for name in history._fields if getattr(wrapped, name) == getattr(history, name)}
    assert same == {"play", "sees_ancestors"}  # these know nothing of the context
