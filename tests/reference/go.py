"""A slow, plain Go: a board is a dict, superko a set of every board. The rules' oracle."""

from __future__ import annotations

EMPTY, BLACK, WHITE = 0, 1, -1


class ReferenceGame:
    """One game, area scoring; simple ko, positional or situational superko.

    With `suicide` a play may remove its own chain, but not a single stone.
    """

    def __init__(self, size: int, ko: str = "positional", suicide: bool = False):
        self.size, self.ko_rule, self.suicide = size, ko, suicide
        self.board = [EMPTY] * (size * size)
        self.to_play = BLACK
        self.passes = 0
        self.moves = 0
        self.history = [tuple(self.board)]
        self.movers = [self.to_play]  # who was to play on each board of the history
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

    def chains(self, board):
        """(the first point, colour, stones, liberties) of each chain."""
        seen = set()
        for p, colour in enumerate(board):
            if colour != EMPTY and p not in seen:
                stones, liberties = self.chain(board, p)
                seen |= stones
                yield p, colour, stones, liberties

    def board_after(self, p):
        """The board after the mover plays p, or None if p is occupied or an illegal suicide."""
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
        stones, liberties = self.chain(board, p)
        if not liberties:
            if not self.suicide or len(stones) == 1:
                return None
            for s in stones:
                board[s] = EMPTY
        return board

    def is_legal(self, p):
        return self.legal([p])[0]

    def legal(self, actions=None):
        """Whether each action is legal; all of them if none are named."""
        repeats = self._repeats()
        if actions is None:
            actions = range(self.size * self.size + 1)
        return [self._is_legal(p, repeats) for p in actions]

    def first_legal(self, actions):
        """The first of the actions that is legal, or None."""
        repeats = self._repeats()
        return next((p for p in actions if self._is_legal(p, repeats)), None)

    def _is_legal(self, p, repeats):
        if p == self.size * self.size:
            return True
        board = None if self.passes >= 2 else self.board_after(p)
        return board is not None and tuple(board) not in repeats

    def _repeats(self):
        """The boards that the ko rule forbids the mover to leave."""
        if self.ko_rule == "simple":
            return self.history[-2:-1]
        if self.ko_rule == "positional":
            return set(self.history)
        situations = zip(self.history, self.movers, strict=True)
        return {board for board, mover in situations if mover == -self.to_play}

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
        self.movers.append(self.to_play)

    def give_turn(self, colour):
        """Give `colour` the turn on the same board, without a pass or a move."""
        if colour != self.to_play:
            self.passes = 0
        self.to_play = self.movers[-1] = colour

    def in_atari(self):
        """Whether each point has a stone whose chain has exactly one liberty."""
        return [
            bool(colour) and len(self.chain(self.board, p)[1]) == 1
            for p, colour in enumerate(self.board)
        ]

    def owners(self):
        """Whose area each point is: BLACK, WHITE, or 0."""
        found, seen = list(self.board), set()
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
                owner = borders.pop()
                for q in region:
                    found[q] = owner
        return found

    def area(self):
        """Black's area minus White's."""
        return sum(self.owners())

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
