"""A game with its variations: a tree of moves, with a `HostGame` at the current node."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np

from gozero.apps import sgf
from gozero.apps.host_game import HostGame, move_limit_for
from gozero.apps.sgf import GameRecord
from gozero.go import coords
from gozero.go.coords import KoRule
from gozero.go.rules import Rules
from gozero.go.setup import from_points

MOST_NODES = 20_000
"""The most nodes of a tree, because a browser could request any number."""


def board_text(stones: np.ndarray) -> str:
    """The stones as sent to boards: X Black, O White, . empty; row by row from the top left."""
    return "".join(".XO"[value] for value in stones.reshape(-1).tolist())


@dataclasses.dataclass
class MoveNode:
    """A move, or the root; `parent` and `children` are indices into `Variations.nodes`."""

    parent: int  # -1 for the root
    colour: int  # 0 Black, 1 White; at the root, who is to play
    action: int  # -1 for the root
    children: list[int] = dataclasses.field(default_factory=list)
    win: float | None = None  # Black's winning probability, from 0 to 1, if analysed
    result: str | None = None  # of the game that ends here, by its score or a resignation
    retracted: bool = False  # taken back, see `take_back`


class Variations:
    """A game and every variation of it that was played.

    Args:
      record: the starting position and the moves; the current node is the root at first.
      ko, suicide, remember: the rules, see `Rules`.

    Raises:
      ValueError: the position is impossible, there are more moves than `ample_move_limit`, or one
        is illegal; the message names it.
    """

    def __init__(
        self,
        record: GameRecord,
        ko: KoRule = "positional",
        suicide: bool = False,
        remember: bool = False,
    ):
        self.record = record
        limit = move_limit_for(record.size, len(record.moves))
        rules = Rules(record.size, ko, suicide, limit, remember)
        stones = record.black_stones, record.white_stones
        self._start = from_points(rules, *stones, record.first_player, record.komi)
        self.game = HostGame(rules, start=self._start)
        self.nodes = [MoveNode(-1, record.first_player, -1)]
        self.at = 0
        for number, (colour, action) in enumerate(record.moves, start=1):
            try:
                self.play(action, colour)
            except ValueError as error:
                raise ValueError(f"move {number}: {error}") from error
        self.go_to(0)

    @property
    def size(self) -> int:
        """Points on a side."""
        return self.record.size

    def play(self, action: int, colour: int | None = None) -> int:
        """Play a move at the current node; returns its node, which may have existed already.

        Args:
          action: the point, row-major from the top left, or size * size for a pass.
          colour: who plays it; None: the player to move.

        Raises:
          ValueError: the move is illegal, or the tree has `MOST_NODES` nodes.
        """
        colour = self.game.to_play if colour is None else colour
        children = self.nodes[self.at].children
        for child in children:
            if (self.nodes[child].colour, self.nodes[child].action) == (colour, action):
                self.game.play(colour, action)
                self.at = child
                self._keep()
                return child
        if len(self.nodes) >= MOST_NODES:
            raise ValueError(f"the game already has {MOST_NODES:,} nodes, the maximum")
        self.game.play(colour, action)
        self.nodes.append(MoveNode(self.at, colour, action))
        children.append(len(self.nodes) - 1)
        self.at = len(self.nodes) - 1
        self._keep()
        return self.at

    def _keep(self) -> None:
        """Play has gone on here, so the moves that lead here are not taken back."""
        for node in self.path(self.at):
            self.nodes[node].retracted = False

    def go_to(self, node: int) -> None:
        """Make a node the current one: undo moves to the last common node, or restart from the root
        if that is shorter, and replay from there.

        Raises:
          ValueError: there is no such node.
        """
        if not 0 <= node < len(self.nodes):
            raise ValueError(f"there is no move {node} in this game")
        line, current = self.path(node), self.path(self.at)
        num_shared = sum(a == b for a, b in zip(line, current, strict=False))
        if len(current) - num_shared > num_shared:
            self.game, self.at, num_shared = HostGame(self.game.rules, start=self._start), 0, 1
        while self.at != line[num_shared - 1]:
            self.game.undo()
            self.at = self.nodes[self.at].parent
        for child in line[num_shared:]:
            self.game.play(self.nodes[child].colour, self.nodes[child].action)
            self.at = child

    def take_back(self, node: int) -> None:
        """Go back to a node of the current path. In the main line, what is played there next
        replaces the move that was taken back, unless that is a move of the record.

        Raises:
          ValueError: the node is not before the current one.
        """
        path = self.path(self.at)
        if node not in path[:-1]:
            raise ValueError(f"move {node} is not before the current one")
        self.go_to(node)
        child = path[path.index(node) + 1]
        self.nodes[child].retracted = child > len(self.record.moves)

    def path(self, node: int) -> list[int]:
        """The nodes from the root to a node, both included."""
        line = [node]
        while line[-1] != 0:
            line.append(self.nodes[line[-1]].parent)
        return line[::-1]

    def line(self) -> list[int]:
        """The nodes of the current line: from the root to the current node, and on from there."""
        return self._continued(self.path(self.at))

    def _continued(self, line: list[int]) -> list[int]:
        """The line and what follows: the first child that was not taken back, if there is one."""
        while children := self.nodes[line[-1]].children:
            kept = (child for child in children if not self.nodes[child].retracted)
            line.append(next(kept, children[0]))
        return line

    def moves(self, node: int) -> list[tuple[int, int]]:
        """(colour, action) of each move from the root to a node."""
        return [(self.nodes[i].colour, self.nodes[i].action) for i in self.path(node)[1:]]

    def to_sgf(self) -> str:
        """The game as SGF, with its variations, the record's comments, the result at the end of the
        main line, and Black's wins (SBKV) where they are known."""
        main = self._continued([0])
        own_result = self.record.result if main[-1] == len(self.record.moves) else "?"
        *_, last_kept = itertools.takewhile(lambda node: not self.nodes[node].retracted, main)
        result = self.nodes[main[-1]].result or self.nodes[last_kept].result or own_result
        record = dataclasses.replace(
            self.record,
            moves=tuple(self.moves(main[-1])),
            move_comments=(),
            result=result,
        )
        tree = sgf.tree_of(record)
        comments = self.record.move_comments
        sgf_nodes: dict[int, Any] = dict(zip(main, tree.main_sequence_iter(), strict=True))
        for number, node in enumerate(self.nodes):
            if number not in sgf_nodes:
                sgf_nodes[number] = sgf_nodes[node.parent].new_child()
                point = coords.to_sgf(self.size, node.action).encode()
                sgf_nodes[number].set_raw("BW"[node.colour], point)
            if 0 < number <= len(comments) and comments[number - 1]:
                sgf_nodes[number].set("C", comments[number - 1])
            if node.win is not None:
                sgf_nodes[number].set_raw("SBKV", f"{100 * node.win:.1f}".encode())
        return tree.serialise().decode("utf-8")
