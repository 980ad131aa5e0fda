"""Slow, plain local shapes: features by name, weights in a dict. Boards are lists of +1, -1, 0."""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np


def turned(grid: np.ndarray) -> list[np.ndarray]:
    """The 8 views of a square array."""
    return [np.rot90(view, k) for view in (grid, grid[:, ::-1]) for k in range(4)]


def named(views: list[tuple]) -> tuple[tuple, int]:
    """(the least of the views and their opposites, +1 if a view, -1 if an opposite, 0 if both)."""
    plain = min(views)
    opposite = min(tuple((where, -colour) for where, colour in view) for view in views)
    return min(plain, opposite), (plain < opposite) - (opposite < plain)


@functools.cache
def maps(size: int) -> list[dict[int, int]]:
    """For each of the 8 symmetries, {point: its image}."""
    grid = np.arange(size * size).reshape(size, size)
    return [{int(old): new for new, old in enumerate(v.reshape(-1))} for v in turned(grid)]


@functools.cache
def here(size: int, window: tuple) -> tuple[tuple, int]:
    """The location-dependent feature of a window, a tuple of (point, colour): (name, sign)."""
    views = [tuple(sorted((moved[p], colour) for p, colour in window)) for moved in maps(size)]
    name, sign = named(views)
    return ("here", *name), sign


@functools.cache
def anywhere(held: tuple) -> tuple[tuple, int]:
    """The location-independent feature of a window's colours, row by row: (name, sign)."""
    side = round(len(held) ** 0.5)
    shape = np.array(held).reshape(side, side)
    name, sign = named([tuple(enumerate(view.reshape(-1).tolist())) for view in turned(shape)])
    return ("anywhere", *name), sign


def windows(size: int, largest: int):
    """The points of every window, row by row: small windows first."""
    for side in range(1, largest + 1):
        for row in range(size - side + 1):
            for col in range(size - side + 1):
                inside = itertools.product(range(row, row + side), range(col, col + side))
                yield [r * size + c for r, c in inside]


def both_features(board: list[int], size: int, points: list[int]) -> list[tuple]:
    """(name, sign) of both features of a window, including those of sign 0."""
    held = tuple(int(board[point]) for point in points)
    return [here(size, tuple(zip(points, held, strict=True))), anywhere(held)]


def features(board: list[int], size: int, largest: int = 3, both: bool = True) -> list[tuple]:
    """(name, sign) of every active feature that is not its own opposite."""
    found = []
    for points in windows(size, largest):
        found += both_features(board, size, points)[: 1 + both]
    return [(name, sign) for name, sign in found if sign]


def logit(weights: dict, active: list[tuple]) -> float:
    return sum(sign * weights.get(name, 0.0) for name, sign in active)


def value(weights: dict, active: list[tuple]) -> float:
    return 1 / (1 + math.exp(-logit(weights, active)))


def update(weights: dict, actives: list[list[tuple]], errors: list[float], rate: float) -> dict:
    """The weights after one joint update by positions with these features."""
    asked, count = {}, {}
    for active, error in zip(actives, errors, strict=True):
        for name, sign in active if error else ():
            asked[name] = asked.get(name, 0.0) + rate * error * sign / len(active)
            count[name] = count.get(name, 0) + 1
    new = dict(weights)
    for name, amount in asked.items():
        new[name] = new.get(name, 0.0) + amount / math.sqrt(count[name])
    return new
