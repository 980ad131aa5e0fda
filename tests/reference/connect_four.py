"""Connect Four in plain Python: rules and the exact value of a position."""

from __future__ import annotations


class ConnectFour:
    """A position. `cells[row][col]` is +1 for the first player, -1 for the other, 0 if empty."""

    def __init__(self, width: int = 7, height: int = 6):
        self.width, self.height = width, height
        self.cells = [[0] * width for _ in range(height)]
        self.to_play = 1
        self.winner = 0
        self.over = False

    def legal(self) -> list[bool]:
        top = self.cells[-1]
        return [not self.over and not top[col] for col in range(self.width)]

    def play(self, col: int) -> int:
        """Drop a stone; returns the row where it lands."""
        row = next(row for row in range(self.height) if not self.cells[row][col])
        self.cells[row][col] = self.to_play
        if self._makes_four(row, col):
            self.winner = self.to_play
        self.over = bool(self.winner) or all(self.cells[-1])
        self.to_play = -self.to_play
        return row

    def undo(self, row: int, col: int):
        self.cells[row][col] = 0
        self.to_play, self.winner, self.over = -self.to_play, 0, False

    def result(self) -> int:
        """The result of a finished game, for the player to move."""
        return self.winner * self.to_play

    def _makes_four(self, row: int, col: int) -> bool:
        for down, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
            length = 1
            for way in (1, -1):
                r, c = row + way * down, col + way * right
                while self._at(r, c) == self.to_play:
                    length, r, c = length + 1, r + way * down, c + way * right
            if length >= 4:
                return True
        return False

    def _at(self, row: int, col: int) -> int:
        inside = 0 <= row < self.height and 0 <= col < self.width
        return self.cells[row][col] if inside else 0

    def code(self) -> tuple:
        return tuple(map(tuple, self.cells))


def value(game: ConnectFour, known: dict) -> int:
    """+1, 0 or -1 for the player to move, by full search; `known` memoises positions."""
    if game.over:
        return game.result()
    code = game.code()
    if code not in known:
        best = -1
        for col in range(game.width):
            if best < 1 and game.legal()[col]:
                row = game.play(col)
                best = max(best, -value(game, known))
                game.undo(row, col)
        known[code] = best
    return known[code]


def values_of_moves(game: ConnectFour, known: dict) -> dict[int, int]:
    """The value of each legal move for the player to move."""
    worth = {}
    for col, legal in enumerate(game.legal()):
        if legal:
            row = game.play(col)
            worth[col] = -value(game, known)
            game.undo(row, col)
    return worth


def expectation(game: ConnectFour) -> float:
    """The mean value of uniformly random play, for the player to move."""
    if game.over:
        return float(game.result())
    columns = [col for col, legal in enumerate(game.legal()) if legal]
    total = 0.0
    for col in columns:
        row = game.play(col)
        total -= expectation(game)
        game.undo(row, col)
    return total / len(columns)
