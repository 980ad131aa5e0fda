"""The statistics of a match, worked by hand."""

from __future__ import annotations

import json

import pytest

from gozero.apps.match import score as match_score
from gozero.apps.match.score import GameLine
from gozero.runs import statistics


def game(number: int, points: float | None, end: str = "score") -> GameLine:
    black = ("player", "opponent")[number % 2]
    return GameLine(number, black, "?", points, end, "", 40, 1, (1.0, 4.0), (20, 20))


def test_the_table():
    # As Black 2 won and 1 drawn of 3, as White 1 won of 2; one void game, one opponent's forfeit.
    games = [
        game(0, 1.0), game(1, 0.0), game(2, 0.5), game(3, 1.0, "forfeit"), game(4, 1.0, "resign"),
        game(5, None, "void")._replace(moves=7, seconds=(60.0, 60.0)),
    ]  # fmt: skip
    summary = match_score.summarise(games)
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    assert match_score.line(summary) == "3.5/5 70.0% [30, 93]"
    assert match_score.table(summary, ("ours", "theirs")).splitlines() == [
        "ours against theirs",
        "           games   won drawn  lost    score             95%",
        "all            5     3     1     1    70.0%    29.9 to 92.7",
        "as Black       3     2     1     0    83.3%    31.0 to 98.2",
        "as White       2     1     0     1    50.0%     9.5 to 90.5",
        "Elo +147 [-148, +443]",
        "forfeits: player 0, opponent 1; resigned: player 0, opponent 1; void 1, replayed 0; "
        "at the move limit 0",
        "40.0 moves a game; seconds a move: player 0.050, opponent 0.200",
    ]


def test_the_live_score_takes_a_bounded_share_of_the_time(monkeypatch):
    clock, counted = [0.0], []

    def summarise(games, paired):
        clock[0] += 0.01 * len(games)
        counted.append(len(games))
        return actual(games, paired)

    actual = match_score.summarise
    monkeypatch.setattr(match_score, "summarise", summarise)
    monkeypatch.setattr(match_score.time, "monotonic", lambda: clock[0])
    score, games = match_score.LiveScore(paired=False), []
    for number in range(1000):
        games.append(game(number, 1.0))
        clock[0] += 0.1
        text = score.text(games, is_last=number == 999)
    assert sum(counted[:-1]) * 0.01 < clock[0] / 10
    assert counted[0] == 1
    assert text == "1000/1000 100.0% [100, 100]"


def test_repeated_games_are_counted():
    # Games 0 and 2 are the same; 1 has their moves with the colours exchanged.
    moves = [(3, 4), (3, 4), (3, 4), (3, 5), (34,)]
    games = [
        game(number, 1.0)._replace(digest=match_score.moves_digest(actions))
        for number, actions in enumerate(moves)
    ]
    summary = match_score.summarise(games)
    assert summary["different"] == 4
    remark = match_score.table(summary, ("ours", "theirs")).splitlines()[-1]
    assert remark.startswith("only 4 of the 5 games differ; ")
    no_repeats = match_score.summarise([*games[1:], game(5, None, "void")._replace(digest="")])
    assert no_repeats["different"] == 4
    assert "differ" not in match_score.table(no_repeats, ("ours", "theirs"))
    without_digests = match_score.summarise([*games, game(5, 1.0)])
    assert without_digests["different"] is None
    assert "differ" not in match_score.table(without_digests, ("ours", "theirs"))


def test_resignations_are_counted_for_the_losing_side():
    games = [game(0, 0.0, "resign"), game(1, 0.0, "resign"), game(2, 1.0, "resign"), game(3, 0.0)]
    summary = match_score.summarise(games)
    assert summary["resigned"] == {"player": 2, "opponent": 1}
    assert summary["forfeits"] == {"player": 0, "opponent": 0}
    assert "resigned: player 2, opponent 1;" in match_score.table(summary, ("ours", "theirs"))


def test_pairs_that_share_an_opening():
    games = [game(0, 1.0), game(1, 0.0), game(3, 1.0), game(2, 0.5), game(4, 1.0), game(5, None)]
    low, high = match_score.summarise(games, paired=True)["interval"]
    whole_and_half = statistics.pair_interval([0.5, 0.75, 1.0], games=[2, 2, 1])
    assert (low, high) == pytest.approx(whole_and_half, abs=1e-6)
    assert match_score.summarise(games[-2:], paired=True)["interval"] == pytest.approx(
        statistics.wilson(1.0, 1), abs=1e-6
    )


def test_the_score_lies_in_its_interval_where_pairs_are_broken():
    lost = [game(i, 0.0) for i in range(6)]
    won = [game(i, 1.0 if i % 2 else None, "void") for i in range(6, 40)]
    summary = match_score.summarise([*lost, *won], paired=True)
    low, high = summary["interval"]
    assert low < summary["score"] < high
    # Three pairs count twice and 17 games once: 17/23, about as certain as 20 games.
    wilson = statistics.wilson(17 / 23, 20)
    assert 1.0 < (high - low) / (wilson[1] - wilson[0]) < 1.3


def test_nothing_played_and_nothing_lost():
    empty = match_score.summarise([])
    assert (empty["games"], empty["score"]) == (0, None)
    assert match_score.line(empty) == "no game yet"
    assert "as White       0" in match_score.table(empty, ("a", "b"))
    won = match_score.summarise([game(0, 1.0), game(1, 1.0)])
    assert (won["elo"], won["elo_interval"][1]) == (None, None)
    assert "Elo +inf [-113, +inf]" in match_score.table(won, ("a", "b"))
