"""Ordered playouts and their annealing, one game after the other, on the plain rules of Go."""

from __future__ import annotations

import copy

import numpy as np

from tests.reference.go import BLACK, ReferenceGame
from tests.reference.mcts import mix

F32 = np.float32


def places(rank: np.ndarray, temperature: float, stride: int) -> np.ndarray:
    """f32[2, P]: rank + T E, each colour's order of the points in the playout with this stride."""
    found = np.zeros(rank.shape, F32)
    for colour in (0, 1):
        for point in range(rank.shape[1]):
            bits = mix(stride ^ ((2 * point + colour) * 0x85EBCA6B & 0xFFFFFFFF)) >> 8
            drawn = -np.log((F32(bits) + F32(0.5)) / F32(2**24))
            found[colour, point] = rank[colour, point] + F32(temperature) * drawn
    return found


def play_out(start: ReferenceGame, place: np.ndarray) -> tuple[ReferenceGame, list[int]]:
    """(the final game, the actions): each player plays the first allowed point of its order."""
    game, actions = copy.deepcopy(start), []
    while game.passes < 2 and len(actions) < 3 * game.size**2:
        may = [
            p for p in range(game.size**2) if game.is_legal(p) and not game.is_eye(p, game.to_play)
        ]
        mine = place[0 if game.to_play == BLACK else 1]
        actions.append(min(may, key=lambda p: mine[p]) if may else game.size**2)
        game.play(actions[-1])
    return game, actions


def add(visits: np.ndarray, sums: np.ndarray, start, game, actions, komi: float) -> None:
    """Add a playout's result: each point counts for the player who first played there."""
    won = int(np.sign(game.area() - komi))
    colour, seen = (0 if start.to_play == BLACK else 1), set()
    for action in actions:
        if action < game.size**2 and action not in seen:
            visits[colour, action] += 1
            sums[colour, action] += -won if colour else won
            seen.add(action)
        colour = 1 - colour
