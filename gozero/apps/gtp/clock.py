"""How long a move may take, by GTP's time_settings and time_left.

The time left, less a reserve, is divided by the number of moves expected. In a byo-yomi period,
those are the stones still to be played in it. In the main time, a game is assumed to fill three
quarters of the board; half of the moves still to come are the player's own, and at least ten are
expected. A move of the main time gets no less than a stone of the byo-yomi will; with Fischer's
increment, which is added to the main time after each move, it gets that, too. The reserve is for
a busy machine: half of the time left but at most half a second, or a twentieth of the time left if
that is more. After a move that exceeded its time, each next one gets less by that delay, and the
reserve is at least three times the delay, which decays by a tenth per move. Imports no JAX.
"""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

_FILLED = 0.75
_FEWEST_EXPECTED = 10
_RESERVE = 0.5  # seconds
_LONGEST_DELAY = 1.0  # seconds; longer ones are due to compiling, or cannot be planned for
_LONGEST = 2**31 - 1  # seconds, or stones


@dataclasses.dataclass
class _TimeLeft:
    """One player's time."""

    seconds: float
    stones: int  # to be played in that time; 0 in the main time


class Increment(NamedTuple):
    """Fischer's time: seconds that are added after each move."""

    seconds: float = 0.0
    cap: float = math.inf  # the most main time, after adding them
    longest_move: float = math.inf


class GameClock:
    """The time of both players of a game; no limit until one is set.

    Raises:
      ValueError: from `set` and `set_left`: a number is not a valid time; the text names it.
    """

    def __init__(self):
        self._main, self._period, self._stones, self._increment = 0.0, 0.0, 0, Increment()
        self._delay = 0.0  # seconds that moves take beyond their allotted time
        self._left: tuple[_TimeLeft, _TimeLeft] | None = None
        self._has_no_limit = False  # by `set`

    @property
    def limited(self) -> bool:
        """Whether there is a limit."""
        return self._left is not None

    def set(
        self, main: float, period: float, stones: int, increment: Increment | None = None
    ) -> None:
        """Set a game's time: `main` seconds, then periods of `period` seconds for `stones` stones;
        or with an increment, which has no periods.

        As in GTP, a period without stones means no limit, and without a period there is only the
        main time. (All three 0, which would leave no time at all, also means no limit.)
        """
        for name, value in (("main time", main), ("byo-yomi time", period), ("stones", stones)):
            _check(name, value)
        _check("increment", (increment or Increment()).seconds)
        self._main, self._period, self._stones = main, period, stones
        self._increment = increment or Increment()
        self.reset()
        self._has_no_limit = self._left is None

    def reset(self) -> None:
        """Give both players all of their time again, for a new game."""
        no_time = self._main == self._period == self._increment.seconds == 0
        if (self._period > 0 and self._stones == 0) or no_time:
            self._left = None
            return
        is_byo_yomi = self._main == 0 and self._stones > 0
        start = (self._period, self._stones) if is_byo_yomi else (self._main, 0)
        self._left = (_TimeLeft(*start), _TimeLeft(*start))

    def set_left(self, colour: int, seconds: float, stones: int) -> None:
        """Set a player's remaining time; `stones` are those of the byo-yomi period, 0 in main time.

        Controllers report overspent time as negative. If each period is for one stone, KGS reports
        the number of periods left instead of the stones. Where `set` has said that there is no
        limit, the time left is ignored; if it was never called, this sets a limit.
        """
        if self._stones:
            stones = min(stones, self._stones)
        seconds = max(seconds, 0.0)
        _check("time", seconds)
        _check("stones", stones)
        if self._has_no_limit:
            return
        if self._left is None:
            self._left = (_TimeLeft(seconds, stones), _TimeLeft(seconds, stones))
        self._left[colour].seconds, self._left[colour].stones = seconds, stones

    def spend(self, colour: int, seconds: float, allotted: float | None = None) -> None:
        """Charge a player `seconds` for a move, for which the clock allotted `allotted`. If the
        controller keeps time, `set_left` corrects the result."""
        if self._left is None:
            return
        delay = 0.0 if allotted is None else min(seconds - allotted, _LONGEST_DELAY)
        self._delay = max(delay, 0.9 * self._delay)
        time_left = self._left[colour]
        time_left.seconds -= seconds
        if time_left.stones > 0:
            time_left.stones -= 1
            if time_left.stones == 0:
                time_left.seconds, time_left.stones = self._period, self._stones
        elif time_left.seconds <= 0 and self._period > 0:
            time_left.seconds, time_left.stones = self._period, self._stones
        time_left.seconds = max(time_left.seconds, 0.0)
        if self._increment.seconds > 0:
            with_increment = time_left.seconds + self._increment.seconds
            time_left.seconds = min(with_increment, self._increment.cap)

    def for_move(self, colour: int, num_points: int, num_moves: int) -> float | None:
        """Seconds for a player's next move, `num_moves` moves into the game; None: no limit."""
        if self._left is None:
            return None
        time_left = self._left[colour]
        if time_left.stones > 0:
            return self._share(time_left.seconds, time_left.stones)
        expected_moves = max((_FILLED * num_points - num_moves) / 2, _FEWEST_EXPECTED)
        byo_yomi_share = self._share(self._period, self._stones) if self._stones else 0.0
        share = max(self._share(time_left.seconds, expected_moves), byo_yomi_share)
        increment = self._increment
        if increment.seconds > 0:
            share = min(share + increment.seconds, self._share(time_left.seconds, 1))
        return min(share, increment.longest_move)

    def _share(self, seconds: float, moves: float) -> float:
        """Seconds for one of `moves` moves to be made within `seconds`."""
        reserve = max(min(seconds / 2, _RESERVE), seconds / 20, 3 * self._delay)
        return max(0.0, (seconds - reserve) / moves - self._delay)


def _check(name: str, value: float) -> None:
    if not 0 <= value <= _LONGEST:
        raise ValueError(f"{name} {value:g} is not from 0 to {_LONGEST}")
