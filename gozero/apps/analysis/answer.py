"""Answers of KataGo's analysis protocol, from what a search found."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gozero.apps.analysis.query import Query
from gozero.apps.analysis.search import Told
from gozero.go import coords

_Z = 1.96  # standard deviations of the lower confidence bound


def answer(query: Query, turn: int, told: Told, view: str, during: bool) -> dict:
    """The answer for one position.

    Args:
      query: what was asked.
      turn: after how many moves.
      told: what was found of this position.
      view: whose winrates are told: BLACK, WHITE or SIDETOMOVE.
      during: the search goes on.
    """
    mover = query.mover(turn)
    side = {"BLACK": 0, "WHITE": 1, "SIDETOMOVE": mover}[view]
    to_side, of_black = (1 if side == mover else -1), (1 if side == 0 else -1)
    name = lambda action: coords.to_gtp(query.size, int(action))
    winrate = lambda value: (1 + to_side * float(value)) / 2
    said: dict[str, Any] = {
        "id": query.id,
        "isDuringSearch": during,
        "turnNumber": turn,
        "rootInfo": {
            "currentPlayer": "BW"[mover],
            "visits": int(told.visits.sum()) + 1,
            "winrate": _round(winrate(told.value)),
            "utility": _round(to_side * float(told.value)),
            **_leads(of_black * float(told.lead)),
        },
    }
    details = {int(action): i for i, action in enumerate(told.actions)}
    order = sorted(np.flatnonzero(told.visits), key=lambda a: _merit(told, int(a)))
    infos = []
    for action in map(int, order):
        i = details.get(action)
        line, visits = _line(told, i, query.pv_length)
        lead = told.lead if i is None else told.leads[i]
        count, q = int(told.visits[action]), float(told.q[action])
        info = {
            "move": name(action),
            "order": len(infos),
            "visits": count,
            "edgeVisits": count,
            "weight": count,
            "winrate": _round(winrate(q)),
            "utility": _round(to_side * q),
            "prior": _round(max(0.0, float(told.prior[action]))),
            "lcb": _round(_bound((1 + to_side * q) / 2, count, to_side)),
            "pv": [name(action), *map(name, line)][: query.pv_length],
            **_leads(of_black * float(lead)),
        }
        if query.pv_visits:
            info["pvVisits"] = [count, *visits][: query.pv_length]
        if query.moves_ownership and i is not None:
            info["ownership"] = _numbers(of_black * told.ownerships[i])
        infos.append(info)
    said["moveInfos"] = infos
    if query.ownership:
        said["ownership"] = _numbers(of_black * told.ownership)
    if query.policy:
        said["policy"] = _numbers(np.where(told.prior < 0, -1.0, told.prior))
    return said


def _merit(told: Told, action: int) -> tuple:
    return -int(told.visits[action]), -float(told.q[action]), action


def _line(told: Told, i: int | None, length: int) -> tuple[list[int], list[int]]:
    if i is None:
        return [], []
    played = [int(a) for a in told.lines[i] if a >= 0][: length - 1]
    return played, [int(n) for n in told.line_visits[i][: len(played)]]


def _leads(lead: float) -> dict[str, float]:
    """KataGo has several kinds of score; here they are one."""
    return {"scoreLead": _round(lead), "scoreMean": _round(lead), "scoreSelfplay": _round(lead)}


def _bound(share: float, count: int, to_side: int) -> float:
    """Wilson's bound of the winrate that is worse for the player to move."""
    z = _Z * to_side
    middle = share + z * z / (2 * count)
    spread = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return (middle - spread) / (1 + z * z / count)


def _round(number: float) -> float:
    return round(float(number), 6)


def _numbers(values: Any) -> list[float]:
    return [_round(value) for value in values]
