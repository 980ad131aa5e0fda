"""Hex in plain Python: rules and the exact value of a position."""

from __future__ import annotations

NEIGHBOURS = ((0, 1), (0, -1), (1, 0), (-1, 0), (-1, 1), (1, -1))


class Hex:
    """A position. `cells[point]` is +1 (joins top and bottom), -1 (the sides) or 0."""

    def __init__(self, size: int):
        self.size = size
        self.cells = [0] * (size * size)
        self.to_play = 1

    def legal(self) -> list[bool]:
        return [not cell and not self.over() for cell in self.cells]

    def play(self, point: int):
        self.cells[point] = self.to_play
        self.to_play = -self.to_play

    def undo(self, point: int):
        self.cells[point] = 0
        self.to_play = -self.to_play

    def over(self) -> bool:
        return self.joined(1) or self.joined(-1)

    def joined(self, colour: int) -> bool:
        """Whether a colour's stones connect its two sides."""
        size, cells = self.size, self.cells
        side = range(size) if colour == 1 else range(0, size * size, size)
        waiting = [point for point in side if cells[point] == colour]
        seen = set(waiting)
        while waiting:
            row, col = divmod(waiting.pop(), size)
            if (row if colour == 1 else col) == size - 1:
                return True
            for down, right in NEIGHBOURS:
                r, c = row + down, col + right
                inside, point = 0 <= r < size and 0 <= c < size, r * size + c
                if inside and cells[point] == colour and point not in seen:
                    seen.add(point)
                    waiting.append(point)
        return False


def mover_wins(game: Hex, known: dict) -> bool:
    """Whether the player to move wins, if the other has not yet won; `known` memoises positions."""
    code = tuple(game.cells)
    if code not in known:
        known[code] = any(_wins(game, point, known) for point in _by_the_centre(game))
    return known[code]


def _wins(game: Hex, point: int, known: dict) -> bool:
    mover = game.to_play
    game.play(point)
    wins = game.joined(mover) or not mover_wins(game, known)
    game.undo(point)
    return wins


def _by_the_centre(game: Hex) -> list[int]:
    """The empty points, the middle ones first, so that the search stops sooner."""
    middle = (game.size - 1) / 2
    far = lambda point: sum(abs(x - middle) for x in divmod(point, game.size))
    return sorted((p for p, cell in enumerate(game.cells) if not cell), key=far)


def winning_moves(game: Hex, known: dict) -> set[int]:
    """The moves that win, for the player to move."""
    return {point for point in _by_the_centre(game) if _wins(game, point, known)}


def expectation(game: Hex) -> float:
    """The mean value of uniformly random play, for the player to move."""
    if game.joined(-game.to_play):
        return -1.0
    points = _by_the_centre(game)
    total = 0.0
    for point in points:
        game.play(point)
        total -= expectation(game)
        game.undo(point)
    return total / len(points)
