"""Exact results of Connect Four, 7x6: alpha-beta with a table, on Python's integers.

A board is two integers with one bit per point, column by column of 7 bits, the lowest row first;
the top bit of a column stays free (Tromp 1988; Pons 2019). `mine` holds the stones of the player to
move, `all_` the stones of both. Results are +1, 0 and -1 for the player to move: won, drawn, lost.

    python -m tests.reference.connect_four_solver FILE   # positions for experiments/connect_four
"""

from __future__ import annotations

import json
import pathlib
import random
import sys

WIDTH, HEIGHT = 7, 6
_STRIDE = HEIGHT + 1
_BOTTOM = sum(1 << column * _STRIDE for column in range(WIDTH))
_BOARD = _BOTTOM * ((1 << HEIGHT) - 1)
_COLUMN = [((1 << HEIGHT) - 1) << column * _STRIDE for column in range(WIDTH)]
_BY_CENTRE = [3, 2, 4, 1, 5, 0, 6]


def after(columns: list[int]) -> tuple[int, int]:
    """(mine, all_) after these columns are played.

    Raises:
      ValueError: if a column is full.
    """
    mine = all_ = 0
    for column in columns:
        stone = (all_ + (1 << column * _STRIDE)) & _COLUMN[column]
        if not stone:
            raise ValueError(f"columns: {column} is full in {columns}")
        mine, all_ = mine ^ all_, all_ | stone
    return mine, all_


def has_won(stones: int) -> bool:
    """Whether the stones have four in a row."""
    for step in (1, _STRIDE - 1, _STRIDE, _STRIDE + 1):
        pairs = stones & stones >> step
        if pairs & pairs >> 2 * step:
            return True
    return False


def winning_points(stones: int, all_: int) -> int:
    """The empty points where a stone would make four, playable yet or not."""
    found = stones << 1 & stones << 2 & stones << 3
    for step in (_STRIDE - 1, _STRIDE, _STRIDE + 1):
        pair = stones << step & stones << 2 * step
        found |= pair & stones << 3 * step | pair & stones >> step
        pair = stones >> step & stones >> 2 * step
        found |= pair & stones >> 3 * step | pair & stones << step
    return found & (_BOARD ^ all_)


class Solver:
    """Results of positions, memoised."""

    def __init__(self):
        self.known: dict[int, tuple[int, int]] = {}  # lower and upper bound of the result

    def result(self, mine: int, all_: int) -> int:
        """The result of a position that is not over."""
        if winning_points(mine, all_) & (all_ + _BOTTOM):
            return 1
        return self._search(mine, all_, -1, 1)

    def results_of_moves(self, columns: list[int]) -> dict[int, int]:
        """The value of each legal move for the player to move."""
        mine, all_ = after(columns)
        worth = {}
        for column in range(WIDTH):
            stone = (all_ + (1 << column * _STRIDE)) & _COLUMN[column]
            if not stone:
                continue
            if has_won(mine | stone):
                worth[column] = 1
            elif (all_ | stone) == _BOARD:
                worth[column] = 0
            else:
                worth[column] = -self.result(mine ^ all_, all_ | stone)
        return worth

    def _search(self, mine: int, all_: int, low: int, high: int) -> int:
        """The result if within [low, high], else a bound; the player to move cannot win at once."""
        possible, theirs = (all_ + _BOTTOM) & _BOARD, mine ^ all_
        threats = winning_points(theirs, all_)
        forced = possible & threats
        if forced:
            if forced & (forced - 1):
                return -1  # two threats at once
            possible = forced
        possible &= ~(threats >> 1)  # never play right below an opponent's threat
        if not possible:
            # Every move loses, unless the board is full.
            return 0 if (all_ + _BOTTOM) & _BOARD == 0 else -1
        key = mine + all_ + _BOTTOM  # unique to the position
        least, most = self.known.get(key, (-1, 1))
        low, high = max(low, least), min(high, most)
        if low >= high:
            return low
        best, floor = -1, low
        for stone in self._ordered(mine, all_, possible):
            after_it = all_ | stone
            value = 0 if after_it == _BOARD else -self._search(theirs, after_it, -high, -low)
            best = max(best, value)
            low = max(low, value)
            if low >= high:
                break
        least, most = self.known.get(key, (-1, 1))
        if best > floor:
            least = best
        if best < high:
            most = best
        self.known[key] = least, most
        return best

    @staticmethod
    def _ordered(mine: int, all_: int, possible: int) -> list[int]:
        """The moves that make the most threats first; among equals the middle columns first."""
        stones = [possible & _COLUMN[column] for column in _BY_CENTRE]
        stones = [stone for stone in stones if stone]
        threats = lambda stone: -winning_points(mine | stone, all_ | stone).bit_count()
        return sorted(stones, key=threats)


def random_positions(count: int, fewest: int, most: int, seed: int) -> list[list[int]]:
    """The columns of random unfinished games of `fewest` to `most` stones, all distinct."""
    rng, found, seen = random.Random(seed), [], set()
    while len(found) < count:
        columns: list[int] = []
        wanted = rng.randint(fewest, most)
        while len(columns) < wanted:
            mine, all_ = after(columns)
            if has_won(mine ^ all_):
                break
            free = [c for c in range(WIDTH) if (all_ + (1 << c * _STRIDE)) & _COLUMN[c]]
            columns.append(rng.choice(free))
        mine, all_ = after(columns)
        if not has_won(mine ^ all_) and (mine, all_) not in seen:
            seen.add((mine, all_))
            found.append(columns)
    return found


def positions_where_it_matters(count: int, fewest: int, most: int, seed: int) -> list[dict]:
    """Random positions where some move gives away the result, with the value of each move."""
    solver, found = Solver(), []
    for columns in random_positions(20 * count, fewest, most, seed):
        worth = solver.results_of_moves(columns)
        if len(set(worth.values())) > 1:
            found.append({"columns": columns, "results": worth})
            if len(found) == count:
                break
        if len(solver.known) > 3_000_000:
            solver.known.clear()
    return found


if __name__ == "__main__":
    rows = positions_where_it_matters(200, fewest=12, most=30, seed=0)
    pathlib.Path(sys.argv[1]).write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")
