"""How long a move may take: GTP's time_settings and time_left, and one rule.

What is left, less a reserve, is shared among the moves expected: in a byo-yomi period those that it
still asks for; before that half of the points that games fill (three quarters of the board), less
those played, and ten at least; and a move of the main time gets no less than a stone of the
byo-yomi will have. The reserve is for a busy machine: half of what is left, half a second at most,
or a twentieth, if that is more. Where a move has taken longer than it was given, the next ones get
that much less, and the reserve is three times as long at least; the delay counts a tenth less from
move to move. Imports no JAX.
"""

from __future__ import annotations

import dataclasses

_FILLED = 0.75
_FEWEST_EXPECTED = 10
_RESERVE = 0.5  # seconds
_LONGEST_DELAY = 1.0  # seconds; what takes longer is compiling, or no delay to reckon with


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
        self._delay = 0.0  # seconds that a move takes more than it is given
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

    def spend(self, colour: int, seconds: float, given: float | None = None) -> None:
        """A move has taken so long, and was given so long; a controller that keeps time says better
        what is left."""
        if self._left is None:
            return
        late = 0.0 if given is None else min(seconds - given, _LONGEST_DELAY)
        self._delay = max(late, 0.9 * self._delay)
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
            return self._share(left.seconds, left.stones)
        expected = max((_FILLED * num_points - num_moves) / 2, _FEWEST_EXPECTED)
        in_period = self._share(self._period, self._stones) if self._stones else 0.0
        return max(self._share(left.seconds, expected), in_period)

    def _share(self, seconds: float, moves: float) -> float:
        """For one of so many moves within some seconds."""
        reserve = max(min(seconds / 2, _RESERVE), seconds / 20, 3 * self._delay)
        return max(0.0, (seconds - reserve) / moves - self._delay)


def _check(name: str, value: float) -> None:
    if not 0 <= value < 10**9:
        raise ValueError(f"{name} {value:g} is not from 0 to 999999999")
