"""Ranges of settings, and pairs of features that exclude each other."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, get_args


class Range(NamedTuple):
    """The numbers that a setting may be."""

    least: float = -math.inf
    most: float = math.inf
    above: float = -math.inf  # a limit that is not in the range
    whole: bool = False
    optional: bool = False  # None is allowed
    why: str = ""  # what the range comes from, for an error

    def holds(self, value: Any) -> bool:
        """Whether a value is in the range; no nan is."""
        if value is None:
            return self.optional
        is_number = isinstance(value, numbers.Integral if self.whole else numbers.Real)
        return is_number and self.least <= value <= self.most and value > self.above

    def __str__(self) -> str:
        low = f"above {self.above}" if self.above > -math.inf else f"at least {self.least}"
        if self.most < math.inf:
            both = f"{low} and at most {self.most}"
            low = both if self.above > -math.inf else f"from {self.least} to {self.most}"
        if not self.whole:
            return low
        return f"a whole number {'of ' if self.most == math.inf else ''}{low}"


AT_LEAST_0, ABOVE_0, SHARE = Range(least=0), Range(above=0), Range(0, 1)
COUNT = Range(1, whole=True)


def check(settings: Any, **ranges: Range) -> None:
    """Refuse attributes of the settings that are out of their ranges.

    Raises:
      ValueError: naming the attribute, what it was and what is allowed.
    """
    for name, allowed in ranges.items():
        if not allowed.holds(getattr(settings, name)):
            why = allowed.why and f" ({allowed.why})"
            raise ValueError(f"{name}: {getattr(settings, name)!r} is not {allowed}{why}")


def check_choice(settings: Any, name: str, choices: Any) -> None:
    """Refuse an attribute that is none of a Literal's values.

    Raises:
      ValueError: naming the attribute, what it was and what is allowed.
    """
    allowed = get_args(choices)
    if getattr(settings, name) not in allowed:
        raise ValueError(f"{name}: {getattr(settings, name)!r} is not one of {', '.join(allowed)}")


class Feature(NamedTuple):
    """Something that a search does besides, as an error names it."""

    field: str
    value: Any

    def __str__(self) -> str:
        return f"{self.field}={self.value}"


class Conflict(NamedTuple):
    """Two features, by their names, that do not go together, and why."""

    first: str
    second: str
    reason: str


def check_conflicts(conflicts: Iterable[Conflict], used: Mapping[str, Feature]) -> None:
    """Refuse features that do not go together.

    Args:
      conflicts: the table.
      used: the features in use, by their names.

    Raises:
      ValueError: naming both, and the reason.
    """
    for first, second, reason in conflicts:
        if first in used and second in used:
            one = used[first]
            raise ValueError(f"{one.field}: {one.value} does not go with {used[second]}; {reason}")
