"""Every position of Go on a small board, solved in NumPy without the library.

A state is a board from the mover's view, up to the 8 symmetries, with the point that simple ko
bans, if any. A set of points is an integer, one bit per point, row by row. Simple ko, no suicide,
area scoring; two passes end the game. 2x2 takes no time, 3x3 less than a second, 4x4 minutes.

4x4 has 3,180,440 states, solved in 44 s on one core of a shared machine. The first player is sure
of 1 with a play in the centre, and loses everything with any other; whether more is possible
depends on endless games. With 33 plies the value is 2, with 32 it is 1.

Under simple ko a game may never end, so a state has two values: what the mover is sure of if an
endless game counts as a loss, and what the mover can reach if it counts as a win. Where the two
are equal the value is exact.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

NO_KO = -1
ILLEGAL = 127  # a child's value that no mover chooses
KO_CODES = 32  # a state's rank is its ternary code times this, plus 1 + its ko point
CHUNK = 1 << 20


class Solved(NamedTuple):
    """S states; the first is the empty board's. Values are area differences for the mover."""

    size: int
    ranks: np.ndarray  # i64[S]: each state's rank, ascending
    children: np.ndarray  # i32[P, S]: the state after a play at a point; S where illegal
    passed: np.ndarray  # i32[S]: the state after a pass
    area: np.ndarray  # i8[S]: the mover's area - the other's
    low: np.ndarray  # i8[S]: the value if an endless game is the mover's loss
    high: np.ndarray  # i8[S]: the value if it is the mover's win

    def find(self, own, other, ko) -> np.ndarray:
        """The states of boards given as sets of points; `ko` is a point or NO_KO."""
        return np.searchsorted(self.ranks, Points(self.size).rank(own, other, ko))

    def first_moves(self) -> np.ndarray:
        """(low, high) of each first play, for the first player: i8[P, 2]."""
        first = self.children[:, 0]
        return np.stack([-self.high[first], -self.low[first]], axis=1)


class Points:
    """Sets of points as integers, one bit per point."""

    def __init__(self, size: int):
        self.size, self.count = size, size * size
        self.full = np.uint32((1 << self.count) - 1)
        self.left = self._set(lambda row, col: col == 0)
        self.right = self._set(lambda row, col: col == size - 1)
        grid = np.arange(self.count).reshape(size, size)
        turns = [np.rot90(grid, k) for k in range(4)]
        self.maps = [x.ravel() for x in turns] + [x.T.ravel() for x in turns]
        sets = np.arange(1 << self.count, dtype=np.uint32)
        bit = lambda point: (sets >> np.uint32(point)) & np.uint32(1)
        # mapped[k][set]: point p of the set goes to maps[k][p]; ternary[set]: digits of base 3
        self.mapped = [
            sum(bit(p) << np.uint32(to) for p, to in enumerate(moved)) for moved in self.maps
        ]
        self.ternary = sum(bit(p) * np.uint32(3**p) for p in range(self.count))
        half = np.arange(3 ** -(-self.count // 2))
        self.places = {
            digit: sum(
                (half // 3**p % 3 == digit).astype(np.uint32) << np.uint32(p)
                for p in range(-(-self.count // 2))
            )
            for digit in (1, 2)
        }

    def _set(self, inside) -> np.uint32:
        cells = [divmod(p, self.size) for p in range(self.count)]
        return np.uint32(sum(1 << p for p, cell in enumerate(cells) if inside(*cell)))

    def spread(self, points):
        """The points and their neighbours."""
        one, row = np.uint32(1), np.uint32(self.size)
        sideways = ((points & ~self.right) << one) | ((points & ~self.left) >> one)
        return (points | sideways | (points << row) | (points >> row)) & self.full

    def fill(self, seeds, inside):
        """The points of `inside` that are connected to the seeds within it."""
        reached = seeds & inside
        while True:
            more = self.spread(reached) & inside
            if (more == reached).all():
                return more
            reached = more

    def without_liberties(self, stones, others):
        """The stones whose chains have no liberty."""
        empty = self.full & ~(stones | others)
        return stones & ~self.fill(self.spread(empty), stones)

    def area(self, own, other):
        """i8: own area less the other's."""
        empty = self.full & ~(own | other)
        of_own = self.fill(self.spread(own), empty)
        of_other = self.fill(self.spread(other), empty)
        count = lambda points: np.bitwise_count(points).astype(np.int8)
        mine, theirs = own | (of_own & ~of_other), other | (of_other & ~of_own)
        return count(mine) - count(theirs)

    def rank(self, own, other, ko):
        """i64: the rank of a state, the same for all its 8 symmetric images."""
        ranks = []
        for mapped, moved in zip(self.mapped, self.maps, strict=True):
            code = self.ternary[mapped[own]] + np.uint32(2) * self.ternary[mapped[other]]
            turned = np.append(moved, NO_KO)[ko]  # a ko of -1 indexes the last
            ranks.append(code.astype(np.int64) * KO_CODES + turned + 1)
        return np.minimum.reduce(ranks)

    def of_rank(self, rank):
        """(own, other, ko) of the symmetric image that the rank encodes."""
        code, ko = np.divmod(rank, KO_CODES)
        half = self.count // 2
        upper, lower = np.divmod(code, 3**half)
        own, other = (
            self.places[digit][lower] | (self.places[digit][upper] << np.uint32(half))
            for digit in (1, 2)
        )
        return own, other, ko - 1

    def play(self, own, other, point):
        """(legal, own, other, ko) after the mover plays a point; own and other are not swapped."""
        stone = np.uint32(1 << point)
        placed = own | stone
        captured = self.without_liberties(other, placed)
        left = other & ~captured
        empty = self.full & ~(placed | left)
        chain = self.fill(np.broadcast_to(stone, own.shape), placed)
        liberties = self.spread(chain) & empty
        legal = ((own | other) & stone == 0) & (liberties != 0)
        is_ko = (np.bitwise_count(captured) == 1) & (chain == stone) & (liberties == captured)
        ko = np.where(is_ko, np.bitwise_count(captured - np.uint32(1)).astype(np.int64), NO_KO)
        return legal, placed, left, ko


def solve(size: int) -> Solved:
    """All states of a board of `size`, 2 to 4."""
    points = Points(size)
    fresh = np.concatenate(list(_boards(points)))
    ranks, after = [], []
    while len(fresh):
        ranks.append(fresh)
        after.append(
            np.concatenate(
                [_ranks_after(points, x) for x in np.array_split(fresh, 1 + len(fresh) // CHUNK)],
                axis=1,
            )
        )
        fresh = np.setdiff1d(after[-1], np.concatenate([*ranks, [-1]]))
    ranks, after = np.concatenate(ranks), np.concatenate(after, axis=1)
    order = np.argsort(ranks, kind="stable")
    ranks, after = ranks[order], after[:, order]
    place = lambda x: np.where(x >= 0, np.searchsorted(ranks, x), len(ranks)).astype(np.int32)
    children = np.stack([place(x) for x in after])
    own, other, _ = points.of_rank(ranks)
    passed = place(points.rank(other, own, np.full(len(ranks), NO_KO)))
    area = points.area(own, other)
    low, high = _values(children, passed, area)
    return Solved(size, ranks, children, passed, area, low, high)


def _boards(points: Points):
    """The ranks of all legal boards without a ko point, in chunks."""
    for start in range(0, 3**points.count, CHUNK):
        codes = np.arange(start, min(start + CHUNK, 3**points.count), dtype=np.int64)
        rank = codes * KO_CODES
        own, other, ko = points.of_rank(rank)
        dead = points.without_liberties(own, other) | points.without_liberties(other, own)
        own, other, ko, rank = (x[dead == 0] for x in (own, other, ko, rank))
        yield rank[points.rank(own, other, ko) == rank]


def _ranks_after(points: Points, ranks: np.ndarray) -> np.ndarray:
    """i64[P, len(ranks)]: the rank of the state after each play, -1 where it is illegal."""
    own, other, ko = points.of_rank(ranks)
    after = []
    for point in range(points.count):
        legal, placed, left, new_ko = points.play(own, other, point)
        rank = points.rank(left, placed, np.where(legal, new_ko, NO_KO))
        after.append(np.where(legal & (ko != point), rank, -1))
    return np.stack(after)


def _values(children: np.ndarray, passed: np.ndarray, area: np.ndarray):
    """(low, high), i8[S] each, iterated from the worst and best values until nothing changes."""
    num_points, num_states = children.shape
    low = np.full(num_states + 1, -num_points, np.int8)
    high = np.full(num_states + 1, num_points, np.int8)
    low[-1] = high[-1] = ILLEGAL
    while True:
        plays_low = np.max([-high[child] for child in children], axis=0)
        plays_high = np.max([-low[child] for child in children], axis=0)
        # After a pass the opponent may end the game.
        new_low = np.maximum(plays_low, -np.maximum(area, plays_high)[passed])
        new_high = np.maximum(plays_high, -np.maximum(area, plays_low)[passed])
        if (new_low == low[:-1]).all() and (new_high == high[:-1]).all():
            return new_low, new_high
        low[:-1], high[:-1] = new_low, new_high


def with_limit(solved: Solved, plies: int) -> np.ndarray:
    """i8[S]: each state's value when the board is scored after `plies` more plies."""
    num_states = len(solved.area)
    value = np.append(solved.area, np.int8(ILLEGAL))
    after_pass = solved.area
    for _ in range(plies):
        plays = np.max([-value[child] for child in solved.children], axis=0)
        value[:num_states], after_pass = (
            np.maximum(plays, -after_pass[solved.passed]),
            np.maximum(plays, solved.area),
        )
    return value[:num_states]


def first_moves_with_limit(solved: Solved, plies: int) -> np.ndarray:
    """i8[P]: the value of each first play, for the first player, in a game of `plies` plies."""
    return -with_limit(solved, plies - 1)[solved.children[:, 0]]
