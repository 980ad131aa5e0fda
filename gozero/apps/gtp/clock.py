"""How long a move may take: GTP's time_settings and time_left, and one rule.

A move gets the time that is left over the moves expected: in a byo-yomi period those that it
still asks for; before that half of the points that games fill (three quarters of the board), less
those played, and ten at least; and a move of the main time no less than a stone of the byo-yomi
will have. A part is held back for what is not thinking, and for the delays of a busy machine: a
quarter, from a tenth to half a second, or a twentieth, if that is more. Imports no JAX.
"""

from __future__ import annotations

import dataclasses

_FILLED = 0.75
_FEWEST_EXPECTED = 10
_LAGS = 0.1, 0.5  # seconds, the least and the most unless a move is long


@dataclasses.dataclass
class _Left:
    """One player's time."""

    seconds: float
    stones: int  # to be played within it; 0: it is the main time


class GameClock:
    """The time of both players of a game; no limit until one is set.

    Raises:
      ValueError: from `set` and `set_left`: numbers that are no time, and which.
    """

    def __init__(self):
        self._main, self._period, self._stones = 0.0, 0.0, 0
        self._left: tuple[_Left, _Left] | None = None

    @property
    def limited(self) -> bool:
        """There is a limit."""
        return self._left is not None

    def set(self, main: float, period: float, stones: int) -> None:
        """A game's time: main seconds, then periods of so many seconds for so many stones.

        As GTP has it: a period without stones means no limit; no period: the main time is all. (All
        three 0, which leaves no time at all, is no limit too.)
        """
        for name, value in (("main time", main), ("byo-yomi time", period), ("stones", stones)):
            _check(name, value)
        self._main, self._period, self._stones = main, period, stones
        self.reset()

    def reset(self) -> None:
        """All of the time again, for a new game."""
        if (self._period > 0 and self._stones == 0) or self._main == self._period == 0:
            self._left = None
            return
        in_period = self._main == 0
        left = (self._period, self._stones) if in_period else (self._main, 0)
        self._left = (_Left(*left), _Left(*left))

    def set_left(self, colour: int, seconds: float, stones: int) -> None:
        """What a player has left; stones: of a byo-yomi period, 0 in the main time.

        Controllers call less than nothing what was overspent; KGS says the periods that are left in
        place of the stones, if each is for one stone.
        """
        if self._stones:
            stones = min(stones, self._stones)
        seconds = max(seconds, 0.0)
        _check("time", seconds)
        _check("stones", stones)
        if self._left is None:
            self._left = (_Left(seconds, stones), _Left(seconds, stones))
        self._left[colour].seconds, self._left[colour].stones = seconds, stones

    def spend(self, colour: int, seconds: float) -> None:
        """A move has taken so long; a controller that keeps time says better what is left."""
        if self._left is None:
            return
        left = self._left[colour]
        left.seconds -= seconds
        if left.stones > 0:
            left.stones -= 1
            if left.stones == 0:
                left.seconds, left.stones = self._period, self._stones
        elif left.seconds <= 0 and self._period > 0:
            left.seconds, left.stones = self._period, self._stones
        left.seconds = max(left.seconds, 0.0)

    def for_move(self, colour: int, num_points: int, num_moves: int) -> float | None:
        """Seconds for a player's next move, of a game of so many moves so far; None: no limit."""
        if self._left is None:
            return None
        left = self._left[colour]
        if left.stones > 0:
            return _usable(left.seconds / left.stones)
        expected = max((_FILLED * num_points - num_moves) / 2, _FEWEST_EXPECTED)
        in_period = self._period / self._stones if self._stones else 0.0
        return _usable(max(left.seconds / expected, in_period))


def _usable(seconds: float) -> float:
    """Of a move's time, for thinking."""
    least, most = _LAGS
    lag = max(least, min(seconds / 4, most), seconds / 20)
    return max(0.0, seconds - lag)


def _check(name: str, value: float) -> None:
    if not 0 <= value < 10**9:
        raise ValueError(f"{name} {value:g} is not from 0 to 999999999")
