"""Settings of a command: the range and the conflicts of each field, declared once.

    @dataclasses.dataclass(frozen=True)
    class Config:
        simulations: int = setting(400, least=1, most=131_070)
        '''Simulations of each move.'''

        leaves: int = setting(1, least=1, most="simulations")
        '''Leaves evaluated together.'''

        search: Literal["puct", "gumbel"] = setting("puct")
        '''The rule of the search.'''

        CONFLICTS = (Conflict("leaves", "search=gumbel", "its root counts visits one by one"),)
        EXAMPLES = ("gozero gtp --simulations 800", "gozero gtp --search gumbel")

        def __post_init__(self):
            check(self)

Flags, their help, the errors of `check` and the tables of docs/commands.md come from these.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import functools
import inspect
import itertools
import math
import numbers
import pathlib
import textwrap
import types
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Self

MAX_SEED = 2**32 - 1

Bound = float | str | None
"""A limit: a number, or the name of another setting or property with it; None: no limit."""

_KEY = "setting"
_NOUNS: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    str: "text",
    bool: "no value",
    pathlib.Path: "a path",
}


@dataclasses.dataclass(frozen=True)
class Setting:
    """The properties of a field besides its type and default; see `setting`."""

    help: str = ""
    group: str = ""
    unit: str = ""
    least: Bound = None
    above: Bound = None
    most: Bound = None
    below: Bound = None
    step: float | None = None
    unset: str = ""
    effective: str = ""
    positional: bool = False

    @property
    def range(self) -> Range:
        """The range, whose limits may be names of settings."""
        return Range(self.least, self.most, self.above, self.below)


class Range(NamedTuple):
    """The numbers that a setting may have."""

    least: Any = None
    most: Any = None
    above: Any = None  # exclusive limits
    below: Any = None
    whole: bool = False
    optional: bool = False  # whether None is allowed
    why: str = ""  # the reason for the range, for an error

    def holds(self, value: Any) -> bool:
        """Whether a value is in the range; nan never is."""
        if value is None:
            return self.optional
        return (
            isinstance(value, numbers.Integral if self.whole else numbers.Real)
            and value == value
            and (self.least is None or value >= self.least)
            and (self.above is None or value > self.above)
            and (self.most is None or value <= self.most)
            and (self.below is None or value < self.below)
        )

    def limits(self, words: Callable[[Any], str] | None = None) -> str:
        """The range in words: ``from 1 to 9``; `words` may return "" for a limit, to omit it."""
        bounds = self.least, self.above, self.most, self.below
        least, above, most, below = (
            (words or number_text)(x) if x is not None else "" for x in bounds
        )
        top = f"to {most}" if most else f"to below {below}" if below else ""
        if least:
            return f"from {least} {top}" if top else f"at least {least}"
        top = top.replace("to below", "below").replace("to ", "at most ")
        return f"above {above}{' and ' if top else ''}{top}" if above else top

    def __str__(self) -> str:
        return _with_noun(_NOUNS[int] if self.whole else "", self.limits())


AT_LEAST_0, ABOVE_0, SHARE = Range(0), Range(above=0), Range(0, 1)
COUNT = Range(1, whole=True)


def check_ranges(config: Any, **ranges: Range) -> None:
    """Check that attributes are in their ranges; for a class without flags.

    Raises:
      ValueError: one is not; the message names it, its value and what is allowed.
    """
    for name, allowed in ranges.items():
        if not allowed.holds(getattr(config, name)):
            why = allowed.why and f" ({allowed.why})"
            raise ValueError(f"{name}: {getattr(config, name)!r} is not {allowed}{why}")


def check_choice(config: Any, name: str, kind: Any) -> None:
    """Check that an attribute is one of a Literal's values.

    Raises:
      ValueError: it is not; the message names it, its value and what is allowed.
    """
    allowed = choices_of(kind)
    if getattr(config, name) not in allowed:
        raise ValueError(f"{name}: {getattr(config, name)!r} is not one of {', '.join(allowed)}")


def setting(default: Any = dataclasses.MISSING, help: str = "", **facts: Any) -> Any:
    """A field of a frozen dataclass, with its range, help and other properties.

    Args:
      default: its default; if omitted, the field is required.
      help: its description, in sentences; or put these in a string below the field.
      group: the heading in the help that starts at this field, up to the next one.
      unit: what a number counts, in the plural: "seconds".
      least, most: inclusive limits. Either may name another field, or a property.
      above, below: exclusive limits.
      step: the value must be a multiple of this.
      unset: the default in words, where None or () stands for something: "random weights".
      effective: the property with the value that None stands for, which ranges and conflicts use.
      positional: whether it is given without a flag; its type must be one that tyro accepts there.
    """
    metadata = {_KEY: Setting(help=help, **facts)}
    return dataclasses.field(default=default, metadata=metadata)


def seed_setting(help: str = "", default: int = 0, **facts: Any) -> Any:
    """A field for a seed, at most `MAX_SEED`: a larger one would wrap around."""
    return setting(default, help, least=0, most=MAX_SEED, **facts)


@functools.cache
def help_of(config: type) -> dict[str, str]:
    """The description of each field: the help of its `setting`, else the string below it."""
    docstrings: dict[str, str] = {}
    for base in reversed(config.__mro__):
        with contextlib.suppress(OSError, TypeError):  # a class without source, such as object
            body = typing.cast(
                Any, ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
            ).body
            for field, docstring in itertools.pairwise(body):
                if isinstance(field, ast.AnnAssign) and isinstance(docstring, ast.Expr):
                    docstrings[ast.unparse(field.target)] = ast.literal_eval(docstring.value)
    explicit = {field.name: facts_of(field).help for field in dataclasses.fields(config)}
    return docstrings | {name: help for name, help in explicit.items() if help}


def same_as(config: type, name: str, default: Any = dataclasses.MISSING, **facts: Any) -> Any:
    """A field with the range and help of a field of another dataclass.

    Args:
      config: the other dataclass.
      name: the name of its field.
      default: the default, if it differs here.
      facts: arguments of `setting` that differ.
    """
    field = next(field for field in dataclasses.fields(config) if field.name == name)
    facts = {"help": help_of(config).get(name, "")} | facts
    metadata = {_KEY: dataclasses.replace(facts_of(field), **facts)}
    default = field.default if default is dataclasses.MISSING else default
    return dataclasses.field(default=default, metadata=metadata)


def facts_of(field: dataclasses.Field) -> Setting:
    """The properties of a field; an empty `Setting` if it was not declared by `setting`."""
    return field.metadata.get(_KEY, Setting())


class Conflict(NamedTuple):
    """Two conditions that may not both hold, and why.

    A condition is the name of a field, which holds if it is not at its default (a bool: if it is
    True), or ``search=uct|rave``, which holds for those values; a leading ``!`` negates it. `first`
    may be several conditions, separated by spaces, each of which conflicts.

    If `given`, `first` conflicts only as a flag of the command line, at its default too: see
    `check_given`. This is for settings that would have no effect, where presets and earlier runs
    may have values.

    There is no conflict where one of the conditions `unless` holds, separated by spaces.
    """

    first: str
    second: str
    reason: str
    given: bool = False
    unless: str = ""


class OfFlags:
    """A base of frozen dataclasses whose instances remember which flags were given."""

    @classmethod
    def of_flags(cls, flags: Mapping[str, Any]) -> Self:
        """The settings of the flags that were given, even if a value is the default.

        Raises:
          ValueError: as for the class.
        """
        return cls(**flags)._remember(flags)

    def _remember(self, flags: Mapping[str, Any]) -> Self:
        """Itself, with `flags` as those that were given."""
        object.__setattr__(self, "_explicit_flags", dict(flags))
        return self

    @property
    def explicit_flags(self) -> Mapping[str, Any] | None:
        """The flags that were given; None if not built by `of_flags`."""
        return self.__dict__.get("_explicit_flags")

    @property
    def given(self) -> dict[str, Any]:
        """The flags that were given; made in Python, those that differ from their defaults."""
        if self.explicit_flags is not None:
            return dict(self.explicit_flags)
        fields = dataclasses.fields(typing.cast(Any, self))
        values = ((field.name, getattr(self, field.name), field.default) for field in fields)
        return {name: value for name, value, default in values if value != default}


def check(config: Any, prefix: str = "") -> None:
    """Check that values are in range and that no settings conflict.

    None is always accepted; nested dataclasses are left to their own checks.

    Args:
      config: an instance of a dataclass.
      prefix: the prefix of each flag: "player.".

    Raises:
      ValueError: ``--simulations 0: expected from 1 to 131070``, or ``--leaves 8: not with --search
        gumbel; its root counts visits one by one``.
    """
    hints = typing.get_type_hints(type(config))
    for field in dataclasses.fields(config):
        kind, words = kind_of_one(hints[field.name]), words_of(hints[field.name])
        value = getattr(config, facts_of(field).effective or field.name)
        if value == () and facts_of(field).range != Range():
            raise ValueError(f"{flag_of(field.name, prefix)}: expected one or more values")
        for element in value if isinstance(value, tuple) else (value,):
            if element in words:
                continue
            expected = _expected_text(config, facts_of(field), kind, element)
            if expected:
                expected = _with_words(expected.replace("--", f"--{prefix}"), words)
                raise ValueError(f"{flag_of(field.name, prefix)} {element}: expected {expected}")
    always = (one for one in conflicts(type(config)) if not one.given)
    conflict = first_conflict(always, functools.partial(_holds, config))
    if conflict is not None:
        raise ValueError(_conflict_error(config, conflict, prefix))


def check_given(config: Any, given: Collection[str], prefix: str = "") -> None:
    """Check that no flag of a command line is without effect, by the conflicts of `given` flags.

    Args:
      config: an instance of a dataclass.
      given: the names of the fields whose flags were given.
      prefix: the prefix of each flag: "player.".

    Raises:
      ValueError: as `check`.
    """
    for conflict in _without_effect(config):
        name = _name(conflict.first)
        any_value = name == conflict.first and not isinstance(getattr(config, name), bool)
        if name in given and (any_value or _holds(config, conflict.first)):
            raise ValueError(_conflict_error(config, conflict, prefix))


def without_effect(config: Any) -> frozenset[str]:
    """The names of the fields whose values have no effect, by the conflicts of `given` flags."""
    return frozenset(_name(conflict.first) for conflict in _without_effect(config))


def _without_effect(config: Any) -> Iterator[Conflict]:
    for conflict in conflicts(type(config)):
        holds = functools.partial(_holds, config)
        if conflict.given and holds(conflict.second) and not _is_excused(conflict, holds):
            yield conflict


def _conflict_error(config: Any, conflict: Conflict, prefix: str = "") -> str:
    name, reason = _name(conflict.first), conflict.reason.replace("--", f"--{prefix}")
    value = getattr(config, name)
    value_suffix = "" if isinstance(value, bool) else f" {value}"
    return (
        f"{flag_of(name, prefix)}{value_suffix}: {_requirement_text(conflict.second, prefix)}; "
        f"{reason}"
    )


def _expected_text(config: Any, facts: Setting, kind: Any, value: Any) -> str:
    """A description of the allowed values; empty if the value is one of them."""
    if value is None or kind not in (int, float):
        choices = choices_of(kind)
        return "" if value is None or not choices or value in choices else _kind_text(kind)
    limits = facts.range.limits(lambda bound: _bound_text(config, bound))
    number_type: type = numbers.Integral if kind is int else numbers.Real
    if not isinstance(value, number_type):
        return _with_noun(_NOUNS[kind], limits)
    if not math.isfinite(value):
        return _with_noun("a finite number", limits)
    least, most, above, below = (_number(config, bound) for bound in facts.range[:4])
    is_valid = Range(least, most, above, below).holds(value) and not (
        facts.step and value % facts.step
    )
    return "" if is_valid else _with_noun(_step_text(facts), limits)


def conflicts(config: type) -> Iterator[Conflict]:
    """The class's CONFLICTS whose fields it has, one first condition at a time."""
    fields = {field.name for field in dataclasses.fields(config)}
    for declared in getattr(config, "CONFLICTS", ()):
        for first in declared.first.split():
            if set(map(_name, (first, declared.second, *declared.unless.split()))) <= fields:
                yield declared._replace(first=first)


def first_conflict(conflicts: Iterable[Conflict], holds: Callable[[str], bool]) -> Conflict | None:
    """The first conflict both of whose conditions hold, or None."""
    hold = (one for one in conflicts if holds(one.first) and holds(one.second))
    return next((one for one in hold if not _is_excused(one, holds)), None)


def _is_excused(conflict: Conflict, holds: Callable[[str], bool]) -> bool:
    return any(map(holds, conflict.unless.split()))


def is_excluded(config: Any, name: str, by: str) -> bool:
    """Whether the value of the setting `by` rules out another, whatever the other settings are."""
    return any(
        one.first == name and _name(one.second) == by and _holds(config, one.second)
        for one in conflicts(type(config))
        if not one.unless
    )


def conflict_text(conflict: Conflict) -> tuple[str, str]:
    """(what is set, what it conflicts with), as flags, for the docs."""
    setting_name = _name(conflict.first) if conflict.first.startswith("!") else conflict.first
    return _condition_text(setting_name), _requirement_text(conflict.second)


def _name(condition: str) -> str:
    return condition.lstrip("!").partition("=")[0]


def _holds(config: Any, condition: str) -> bool:
    name, _, values = condition.lstrip("!").partition("=")
    field = next(field for field in dataclasses.fields(config) if field.name == name)
    value = getattr(config, facts_of(field).effective or name)
    if values:
        holds = number_text(value) in values.split("|")
    else:
        holds = value if isinstance(value, bool) else getattr(config, name) != field.default
    return bool(holds) != condition.startswith("!")


def _condition_text(condition: str, prefix: str = "") -> str:
    """A condition as a flag: ``--heuristic even, mogo or shape``."""
    *most, last = condition.partition("=")[2].split("|")
    values = f"{', '.join(most)} or {last}" if most else last
    return f"{flag_of(_name(condition), prefix)} {values}".strip()


def _requirement_text(condition: str, prefix: str = "") -> str:
    how = "only with" if condition.startswith("!") else "not with"
    return f"{how} {_condition_text(condition, prefix)}"


def flag_of(name: str, prefix: str = "") -> str:
    """The flag of a field: ``--player.heuristic-visits``."""
    return f"--{prefix}{name.replace('_', '-')}"


def choices_of(kind: Any) -> tuple[Any, ...]:
    """The values of a Literal; () for another type."""
    return typing.get_args(kind) if typing.get_origin(kind) is typing.Literal else ()


def kind_of_one(kind: Any) -> Any:
    """The type of one value: without the None of an optional; of a tuple, that of its elements."""
    if _is_union(kind):
        return kind_of_one(next(x for x in typing.get_args(kind) if x is not type(None)))
    return typing.get_args(kind)[0] if typing.get_origin(kind) is tuple else kind


def words_of(kind: Any) -> tuple[Any, ...]:
    """The words that may stand for a number: ``float | Literal["learnt"]``; () for other types."""
    if not _is_union(kind) or kind_of_one(kind) not in (int, float):
        return ()
    return tuple(word for member in typing.get_args(kind) for word in choices_of(member))


def is_several(kind: Any) -> bool:
    """Whether a flag takes several values: a tuple, or an optional one."""
    members = typing.get_args(kind) if _is_union(kind) else (kind,)
    return any(typing.get_origin(member) is tuple for member in members)


def value_text(config: type, field: dataclasses.Field, kind: Any) -> str:
    """What a flag expects: ``a whole number from 2 to 25``; `kind` is the field's type."""
    text = limits_text(config, field)
    if facts_of(field).step is None:
        text = _with_noun(_kind_text(kind_of_one(kind)), text)
    text += ", one or more" if is_several(kind) else ""
    return _with_words(text, words_of(kind))


def limits_text(config: type, field: dataclasses.Field) -> str:
    """A field's range: ``from 1 to 131070``; limits may be flags; empty if there is none."""
    names = {field.name for field in dataclasses.fields(config)}

    def words(bound: Bound) -> str:
        if not isinstance(bound, str):
            return number_text(bound)
        return flag_of(bound) if bound in names else ""

    return _with_noun(_step_text(facts_of(field)), facts_of(field).range.limits(words))


def default_text(field: dataclasses.Field, value: Any) -> str:
    """A default in words; for None or no default, the field's `unset`, which may be empty."""
    unset = facts_of(field).unset
    if value in (None, dataclasses.MISSING, "") or (unset and value == field.default):
        return unset
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return " ".join(map(number_text, value))
    return number_text(value)


def number_text(value: Any) -> str:
    """A number as text, without a needless decimal point."""
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) < 1e15
    return str(int(value) if is_whole else value)


def _kind_text(kind: Any) -> str:
    choices = choices_of(kind)
    return "one of " + ", ".join(map(str, choices)) if choices else _NOUNS.get(kind, "a value")


def _is_union(kind: Any) -> bool:
    return typing.get_origin(kind) in (typing.Union, types.UnionType)


def _with_noun(noun: str, limits: str) -> str:
    of = "of " if noun and limits.startswith("at ") else ""
    return f"{noun} {of}{limits}".strip()


def _with_words(text: str, words: tuple[Any, ...]) -> str:
    return " or ".join([text, *map(str, words)])


def _step_text(facts: Setting) -> str:
    if facts.step is None:
        return ""
    return "an even number" if facts.step == 2 else f"a multiple of {number_text(facts.step)}"


def _number(config: Any, bound: Bound) -> float | None:
    return getattr(config, bound) if isinstance(bound, str) else bound


def _bound_text(config: Any, bound: Bound) -> str:
    value = _number(config, bound)
    if not isinstance(bound, str) or value is None:
        return "" if value is None else number_text(value)
    is_field = any(field.name == bound for field in dataclasses.fields(config))
    return f"the {number_text(value)} of {flag_of(bound)}" if is_field else number_text(value)
