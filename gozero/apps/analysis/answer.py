"""Answers in KataGo's analysis protocol, made from the results of a search."""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np

from gozero.apps.analysis.query import Query
from gozero.apps.analysis.search import FullAnalysis
from gozero.go import coords

_Z = 1.96  # standard deviations of the lower confidence bound


class AnswerParts(Protocol):
    """The optional parts of an answer; a `Query` has these fields."""

    @property
    def pv_length(self) -> int: ...
    @property
    def ownership(self) -> bool: ...
    @property
    def moves_ownership(self) -> bool: ...
    @property
    def policy(self) -> bool: ...
    @property
    def pv_visits(self) -> bool: ...


def answer(query: Query, turn: int, analysis: FullAnalysis, view: str, during: bool) -> dict:
    """The answer for one position.

    Args:
      query: the query.
      turn: the number of moves before the position.
      analysis: the search's results for this position.
      view: whose winrates are reported: BLACK, WHITE or SIDETOMOVE.
      during: whether the search is still running.
    """
    mover = query.mover(turn)
    side = {"BLACK": 0, "WHITE": 1, "SIDETOMOVE": mover}[view]
    header = {"id": query.id, "isDuringSearch": during, "turnNumber": turn}
    return header | position(query, query.size, mover, side, analysis)


def position(
    parts: AnswerParts, size: int, mover: int, side: int, analysis: FullAnalysis, min_moves: int = 0
) -> dict:
    """The results for a position: rootInfo, moveInfos (best first), and the optional parts.

    Args:
      parts: the optional parts to include.
      size: points on a side.
      mover: who is to play: 0 Black, 1 White.
      side: whose winrates, leads and ownership are reported.
      analysis: the search's results.
      min_moves: the fewest moves, if that many are legal: after the visited moves, those with the
        highest priors are added.
    """
    to_side, of_black = (1 if side == mover else -1), (1 if side == 0 else -1)
    winrate = (1 + to_side * float(analysis.value)) / 2
    result: dict[str, Any] = {
        "rootInfo": {
            "currentPlayer": "BW"[mover],
            "visits": int(analysis.visits.sum()) + 1,
            "winrate": _round(winrate),
            "utility": _round(to_side * float(analysis.value)),
            **_leads(of_black * float(analysis.lead)),
        },
    }
    visited = sorted(np.flatnonzero(analysis.visits), key=lambda a: _order_key(analysis, int(a)))
    unvisited = (
        np.flatnonzero((analysis.visits == 0) & (analysis.prior >= 0))
        if min_moves > len(visited)
        else []
    )
    unvisited = sorted(unvisited, key=lambda a: -analysis.prior[a])[: min_moves - len(visited)]
    details = {int(action): i for i, action in enumerate(analysis.actions)}
    result["moveInfos"] = [
        {**_info(parts, size, to_side, of_black, analysis, int(a), details.get(int(a))), "order": n}
        for n, a in enumerate([*visited, *unvisited])
    ]
    if parts.ownership:
        result["ownership"] = _numbers(of_black * analysis.ownership)
    if parts.policy:
        result["policy"] = _numbers(np.where(analysis.prior < 0, -1.0, analysis.prior))
    return result


def _info(
    parts: AnswerParts,
    size: int,
    to_side: int,
    of_black: int,
    analysis: FullAnalysis,
    action: int,
    i: int | None,
) -> dict:
    """The moveInfo of one move, the i-th of those with lines; None: it has none."""
    name = lambda action: coords.to_gtp(size, int(action))
    line, visits = _line(analysis, i, parts.pv_length)
    lead = float(analysis.leads[action])
    count = int(analysis.visits[action])
    q = float(analysis.q[action]) if count else float(analysis.value)
    info = {
        "move": name(action),
        "visits": count,
        "edgeVisits": count,
        "weight": count,
        "winrate": _round((1 + to_side * q) / 2),
        "utility": _round(to_side * q),
        "prior": _round(max(0.0, float(analysis.prior[action]))),
        "lcb": _round(_bound((1 + to_side * q) / 2, max(count, 1), to_side)),
        "pv": [name(action), *map(name, line)][: parts.pv_length],
        **({} if math.isnan(lead) else _leads(of_black * lead)),
    }
    if parts.pv_visits:
        info["pvVisits"] = [count, *visits][: parts.pv_length]
    if parts.moves_ownership and i is not None and not np.isnan(analysis.ownerships[i][0]):
        info["ownership"] = _numbers(of_black * analysis.ownerships[i])
    return info


def _order_key(analysis: FullAnalysis, action: int) -> tuple:
    return -int(analysis.visits[action]), -float(analysis.q[action]), action


def _line(analysis: FullAnalysis, i: int | None, length: int) -> tuple[list[int], list[int]]:
    if i is None:
        return [], []
    played = [int(a) for a in analysis.lines[i] if a >= 0][: length - 1]
    return played, [int(n) for n in analysis.line_visits[i][: len(played)]]


def _leads(lead: float) -> dict[str, float]:
    """The lead under the names of KataGo's several kinds of score, which are all the same here."""
    return {"scoreLead": _round(lead), "scoreMean": _round(lead), "scoreSelfplay": _round(lead)}


def _bound(share: float, count: int, to_side: int) -> float:
    """The Wilson bound of the winrate on the side that is worse for the player to move."""
    z = _Z * to_side
    middle = share + z * z / (2 * count)
    spread = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return (middle - spread) / (1 + z * z / count)


def _round(number: float) -> float:
    return round(float(number), 6)


def _numbers(values: Any) -> list[float]:
    return [_round(value) for value in values]
