"""A ladder reader by plain recursion. The oracle of `gozero.go.ladders`."""

from __future__ import annotations

from tests.reference.go import ReferenceGame


class OutOfMoves(Exception):
    """More moves would be tried than the limit allows."""


class Reader:
    """Reads the chains of a board: one liberty, the defender moves first; two, the attacker."""

    def __init__(self, size: int, max_plies: int, max_moves: int):
        self.game = ReferenceGame(size)
        self.max_plies, self.max_moves = max_plies, max_moves

    def read(self, board, to_play, previous=None):
        """(laddered stones, capturing moves of `to_play`); ko forbids board `previous`."""
        laddered, captures = set(), set()
        for p, colour, stones, liberties in self.game.chains(board):
            ko = lambda mover: previous if mover == to_play else None
            self.tried = 0
            if len(liberties) == 1:
                try:
                    if not self._defends(board, p, ko(colour), 0):
                        laddered |= stones
                except OutOfMoves:
                    pass
            elif len(liberties) == 2:
                works = self._works(board, p, ko(-colour))
                if works:
                    laddered |= stones
                    captures |= works if colour == -to_play else set()
        return laddered, captures

    def _works(self, board, target, previous):
        found = set()
        try:
            for move in sorted(self.game.chain(board, target)[1]):
                after = self._play(board, move, -board[target], previous)
                if after is not None and not self._defends(after, target, board, 1):
                    found.add(move)
        except OutOfMoves:
            pass
        return found

    def _attacks(self, board, target, previous, ply):
        for move in sorted(self.game.chain(board, target)[1]):
            after = self._play(board, move, -board[target], previous)
            if after is None or ply + 1 >= self.max_plies:
                continue
            if not self._defends(after, target, board, ply + 1):
                return True
        return False

    def _defends(self, board, target, previous, ply):
        colour = board[target]
        stones, moves = self.game.chain(board, target)
        for p in {q for s in stones for q in self.game.neighbours[s] if board[q] == -colour}:
            liberties = self.game.chain(board, p)[1]
            if len(liberties) == 1:
                moves = moves | liberties
        for move in sorted(moves):
            after = self._play(board, move, colour, previous)
            if after is None:
                continue
            liberties = len(self.game.chain(after, target)[1])
            if liberties > 2 or (liberties == 2 and ply + 1 >= self.max_plies):
                return True
            if liberties == 2 and not self._attacks(after, target, board, ply + 1):
                return True
        return False

    def _play(self, board, move, colour, previous):
        """The board after a move, or None if it is illegal; legal moves are counted."""
        self.game.board, self.game.to_play = board, colour
        after = self.game.board_after(move)
        if after is None or after == previous:
            return None
        if self.tried >= self.max_moves:
            raise OutOfMoves
        self.tried += 1
        return after
