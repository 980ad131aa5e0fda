"""Answers in KataGo's analysis protocol, made from the results of a search."""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np

from gozero.apps.analysis.query import Query
from gozero.apps.analysis.search import Told
from gozero.go import coords

_Z = 1.96  # standard deviations of the lower confidence bound


class Wanted(Protocol):
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


def answer(query: Query, turn: int, told: Told, view: str, during: bool) -> dict:
    """The answer for one position.

    Args:
      query: the query.
      turn: the number of moves before the position.
      told: the search's results for this position.
      view: whose winrates are reported: BLACK, WHITE or SIDETOMOVE.
      during: whether the search is still running.
    """
    mover = query.mover(turn)
    side = {"BLACK": 0, "WHITE": 1, "SIDETOMOVE": mover}[view]
    said = {"id": query.id, "isDuringSearch": during, "turnNumber": turn}
    return said | position(query, query.size, mover, side, told)


def position(wanted: Wanted, size: int, mover: int, side: int, told: Told, least: int = 0) -> dict:
    """The results for a position: rootInfo, moveInfos (best first), and the parts wanted.

    Args:
      wanted: the optional parts.
      size: points on a side.
      mover: who is to play: 0 Black, 1 White.
      side: whose winrates, leads and ownership are reported.
      told: the search's results.
      least: the fewest moves, if that many are legal: after the visited moves, those with the
        highest priors are added.
    """
    to_side, of_black = (1 if side == mover else -1), (1 if side == 0 else -1)
    winrate = (1 + to_side * float(told.value)) / 2
    said: dict[str, Any] = {
        "rootInfo": {
            "currentPlayer": "BW"[mover],
            "visits": int(told.visits.sum()) + 1,
            "winrate": _round(winrate),
            "utility": _round(to_side * float(told.value)),
            **_leads(of_black * float(told.lead)),
        },
    }
    tried = sorted(np.flatnonzero(told.visits), key=lambda a: _merit(told, int(a)))
    others = np.flatnonzero((told.visits == 0) & (told.prior >= 0)) if least > len(tried) else []
    others = sorted(others, key=lambda a: -told.prior[a])[: least - len(tried)]
    details = {int(action): i for i, action in enumerate(told.actions)}
    said["moveInfos"] = [
        {**_info(wanted, size, to_side, of_black, told, int(a), details.get(int(a))), "order": n}
        for n, a in enumerate([*tried, *others])
    ]
    if wanted.ownership:
        said["ownership"] = _numbers(of_black * told.ownership)
    if wanted.policy:
        said["policy"] = _numbers(np.where(told.prior < 0, -1.0, told.prior))
    return said


def _info(
    wanted: Wanted, size: int, to_side: int, of_black: int, told: Told, action: int, i: int | None
) -> dict:
    """The moveInfo of one move, the i-th of those with lines; None: it has none."""
    name = lambda action: coords.to_gtp(size, int(action))
    line, visits = _line(told, i, wanted.pv_length)
    lead = told.lead if i is None else told.leads[i]
    count = int(told.visits[action])
    q = float(told.q[action]) if count else float(told.value)
    info = {
        "move": name(action),
        "visits": count,
        "edgeVisits": count,
        "weight": count,
        "winrate": _round((1 + to_side * q) / 2),
        "utility": _round(to_side * q),
        "prior": _round(max(0.0, float(told.prior[action]))),
        "lcb": _round(_bound((1 + to_side * q) / 2, max(count, 1), to_side)),
        "pv": [name(action), *map(name, line)][: wanted.pv_length],
        **_leads(of_black * float(lead)),
    }
    if wanted.pv_visits:
        info["pvVisits"] = [count, *visits][: wanted.pv_length]
    if wanted.moves_ownership and i is not None and not np.isnan(told.ownerships[i][0]):
        info["ownership"] = _numbers(of_black * told.ownerships[i])
    return info


def _merit(told: Told, action: int) -> tuple:
    return -int(told.visits[action]), -float(told.q[action]), action


def _line(told: Told, i: int | None, length: int) -> tuple[list[int], list[int]]:
    if i is None:
        return [], []
    played = [int(a) for a in told.lines[i] if a >= 0][: length - 1]
    return played, [int(n) for n in told.line_visits[i][: len(played)]]


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
