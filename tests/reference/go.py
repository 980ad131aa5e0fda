"""A slow, plain Go: a board is a dict, superko a set of every board. The rules' oracle."""

from __future__ import annotations

EMPTY, BLACK, WHITE = 0, 1, -1


class ReferenceGame:
    """One game, area scoring, suicide illegal; simple ko or positional superko."""

    def __init__(self, size: int, ko: str = "positional"):
        self.size, self.ko_rule = size, ko
        self.board = [EMPTY] * (size * size)
        self.to_play = BLACK
        self.passes = 0
        self.moves = 0
        self.history = [tuple(self.board)]
        self.neighbours = [self._neighbours(p) for p in range(size * size)]

    def _neighbours(self, p):
        row, col = divmod(p, self.size)
        around = [(row - 1, col), (row + 1, col), (row, col - 1), (row, col + 1)]
        return [r * self.size + c for r, c in around if 0 <= r < self.size and 0 <= c < self.size]

    def chain(self, board, p):
        """(stones, liberties) of the chain at p."""
        stones, liberties, todo = {p}, set(), [p]
        while todo:
            for q in self.neighbours[todo.pop()]:
                if board[q] == EMPTY:
                    liberties.add(q)
                elif board[q] == board[p] and q not in stones:
                    stones.add(q)
                    todo.append(q)
        return stones, liberties

    def board_after(self, p):
        """The board after the mover plays p, or None if occupied or suicide."""
        if self.board[p] != EMPTY:
            return None
        board = list(self.board)
        board[p] = self.to_play
        for q in self.neighbours[p]:
            if board[q] == -self.to_play:
                stones, liberties = self.chain(board, q)
                if not liberties:
                    for s in stones:
                        board[s] = EMPTY
        return board if self.chain(board, p)[1] else None

    def is_legal(self, p):
        if p == self.size * self.size:
            return True
        if self.passes >= 2:
            return False
        board = self.board_after(p)
        if board is None:
            return False
        if self.ko_rule == "simple":
            return len(self.history) < 2 or tuple(board) != self.history[-2]
        return tuple(board) not in self.history

    def legal(self):
        return [self.is_legal(p) for p in range(self.size * self.size + 1)]

    def play(self, p):
        if self.passes >= 2:
            return
        if p == self.size * self.size:
            self.passes += 1
        else:
            self.passes = 0
            self.board = self.board_after(p)
        self.to_play = -self.to_play
        self.moves += 1
        self.history.append(tuple(self.board))

    def in_atari(self):
        """Every stone whose chain has exactly one liberty."""
        return [
            bool(colour) and len(self.chain(self.board, p)[1]) == 1
            for p, colour in enumerate(self.board)
        ]

    def area(self):
        """Black's area minus White's."""
        score, seen = sum(self.board), set()
        for p, colour in enumerate(self.board):
            if colour != EMPTY or p in seen:
                continue
            region, borders, todo = {p}, set(), [p]
            while todo:
                for q in self.neighbours[todo.pop()]:
                    if self.board[q] != EMPTY:
                        borders.add(self.board[q])
                    elif q not in region:
                        region.add(q)
                        todo.append(q)
            seen |= region
            if len(borders) == 1:
                score += borders.pop() * len(region)
        return score

    def is_eye(self, p, colour):
        """p is empty, its neighbours are all `colour`, and not too many diagonals are hostile."""
        if self.board[p] != EMPTY or any(self.board[q] != colour for q in self.neighbours[p]):
            return False
        row, col = divmod(p, self.size)
        diagonals = [
            (row + i) * self.size + col + j
            for i in (-1, 1)
            for j in (-1, 1)
            if 0 <= row + i < self.size and 0 <= col + j < self.size
        ]
        hostile = sum(self.board[q] == -colour for q in diagonals)
        return hostile < (2 if len(self.neighbours[p]) == 4 else 1)
