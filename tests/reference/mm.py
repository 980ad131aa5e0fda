"""Slow, plain minorisation-maximisation, one feature and one choice at a time."""

from __future__ import annotations

import math

Team = tuple[tuple[str, int], ...]
"""The features of one move: (group, number)."""


def strength(team: Team, strengths: dict) -> float:
    return math.prod(strengths[feature] for feature in team)


def objective(choices: list[tuple[list[Team], Team]], strengths: dict) -> float:
    """The log-likelihood, and the prior's: each feature wins and loses once against 1.

    A choice is (the teams that compete, the one that won).
    """
    total = 0.0
    for teams, winner in choices:
        everyone = sum(strength(team, strengths) for team in teams)
        total += math.log(strength(winner, strengths) / everyone)
    for x in strengths.values():
        total += math.log(x / (x + 1)) + math.log(1 / (x + 1))
    return total


def updated(choices: list[tuple[list[Team], Team]], strengths: dict, group: str) -> dict:
    """The strengths after an update of one group's features, Eq. 3 of Coulom (2007)."""
    new = dict(strengths)
    for feature, old in strengths.items():
        if feature[0] != group:
            continue
        wins, losses = 1.0, 1 / (old + 1) + 1 / (old + 1)
        for teams, winner in choices:
            wins += feature in winner
            everyone = sum(strength(team, strengths) for team in teams)
            mates = sum(strength(team, strengths) / old for team in teams if feature in team)
            losses += mates / everyone
        new[feature] = wins / losses
    return new
