"""Queries of KataGo's analysis protocol: parsing and checking their lines.

https://github.com/lightvector/KataGo/blob/master/docs/Analysis_Engine.md
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Any

from gozero.apps import rule_sets
from gozero.apps.rule_sets import RuleSet
from gozero.go import coords
from gozero.go.coords import MAX_SIZE, MIN_SIZE, KoRule
from gozero.runs import files

MAX_LINE = 1 << 20
"""The most bytes of a line."""
MAX_ID = 1000
"""The most characters of an id."""

_COLUMN_AND_ROW = re.compile(r" *\( *(\d{1,2}) *, *(\d{1,2}) *\) *", re.ASCII)

_COLOURS = {"b": 0, "black": 0, "w": 1, "white": 1}

KNOWN = frozenset(
    (
        *("id", "action", "moves", "initialStones", "initialPlayer", "rules", "komi"),
        *("whiteHandicapBonus", "boardXSize", "boardYSize", "analyzeTurns", "maxVisits"),
        *("rootPolicyTemperature", "rootFpuReductionMax", "analysisPVLen", "includeOwnership"),
        *("includeOwnershipStdev", "includeMovesOwnership", "includeMovesOwnershipStdev"),
        *("includePolicy", "includePVVisits", "includeNoResultValue", "avoidMoves", "allowMoves"),
        *("overrideSettings", "reportDuringSearchEvery", "priority", "priorities"),
        "firstReportDuringSearchAfter",
    )
)
"""KataGo's fields."""

NO_EFFECT = {
    "rootPolicyTemperature": 1,
    "rootFpuReductionMax": None,
    "includeOwnershipStdev": False,
    "includeMovesOwnershipStdev": False,
    "includeNoResultValue": False,
}
"""The known fields that are ignored, each with the value that asks for nothing; None: none does."""

OVERRIDES = frozenset(("maxVisits", "maxTime", "reportAnalysisWinratesAs"))
"""The keys of overrideSettings that have an effect."""
_NO_EFFECT_OVERRIDES = {"rootPolicyTemperature": 1, "wideRootNoise": 0}

MAX_PV = 15
"""The most moves of a principal variation, after its first."""


class QueryError(ValueError):
    """A field of a query is invalid; the message says why."""

    def __init__(self, field: str | None, message: str):
        super().__init__(message)
        self.field = field


@dataclasses.dataclass(frozen=True)
class Query:
    """A query; moves and stones are pairs (0 Black or 1 White, action)."""

    id: str
    size: int
    komi: float
    ko: KoRule | None  # None: the engine's own
    suicide: bool
    bonus: str  # White's points for N handicap stones: 0, N or N-1
    moves: tuple[tuple[int, int], ...]
    stones: tuple[tuple[int, int], ...]
    first: int | None  # who plays first, if the query says so
    turns: tuple[int, ...]
    priorities: tuple[float, ...]  # of each turn
    visits: int | None
    pv_length: int
    ownership: bool
    moves_ownership: bool
    policy: bool
    pv_visits: bool
    avoid: Mapping[tuple[int, int], int]  # {player, action: until which depth}
    winrates_as: str | None
    max_time: float
    first_report: float  # seconds until the first report during the search
    report_every: float
    warnings: tuple[tuple[str, str], ...]  # field, message

    def mover(self, turn: int) -> int:
        """Who is to play after `turn` moves: the opponent of the last mover, or at the start
        initialPlayer, else the first mover, else White if there are handicap stones."""
        if turn > 0:
            return 1 - self.moves[turn - 1][0]
        if self.first is not None:
            return self.first
        if self.moves:
            return self.moves[0][0]
        return int(self._handicap(0) > 0)

    def handicap_bonus(self, turn: int) -> int:
        """White's points, besides the komi, for the handicap stones after `turn` moves."""
        return RuleSet(bonus=self.bonus).handicap_points(self._handicap(turn))

    def _handicap(self, turn: int) -> int:
        """The number of handicap stones, 0 or at least 2: Black's initial stones, if White has
        none, and those that Black has played while White at most passed, once at a time."""
        count, moves = len(self.stones), self.moves[:turn]
        if any(colour == 1 for colour, _ in self.stones):
            return 0
        for i, (colour, action) in enumerate(moves):
            is_pass = action == self.size**2
            if colour == 1 and moves[i + 1 : i + 2] and moves[i + 1][0] == 1:
                count = len(self.stones)  # both sides set up a position
                break
            if colour == 1 and not is_pass:
                break
            count += colour == 0 and not is_pass
        return count if count > 1 else 0


def decode(line: bytes | str, is_whole: bool = True) -> dict:
    """Parse a line as a JSON object.

    Raises:
      QueryError: the line is not whole, or is not a JSON object.
    """
    if not is_whole:
        raise QueryError(None, f"The line has more than {MAX_LINE} bytes")
    try:
        value = files.parse_json(line)
    except ValueError as error:
        raise QueryError(None, f"Could not parse input as json: {str(error)[:200]}") from error
    if not isinstance(value, dict):
        raise QueryError(None, "Input line was valid json but was not an object")
    return value


def read(fields: Mapping[str, Any], visits_limit: int | None = None) -> Query:
    """The query in a JSON object.

    Args:
      fields: the JSON object.
      visits_limit: the most visits of a search, so that a query for more gets a warning; None: no
        limit.

    Raises:
      QueryError: a field is missing, has the wrong type, or is invalid.
    """
    size = _size(fields)
    warnings = [(name, "Unknown field, it is ignored") for name in fields if name not in KNOWN]
    given = fields.get("rules")
    rules = _with_bonus(RuleSet(suicide=False) if given is None else _rules(given), fields)
    warnings += [("rules", sentence) for sentence in rules.ignored]
    moves = _moves(fields, "moves", size)
    priorities = _priorities(fields, len(moves))
    first = fields.get("initialPlayer")
    override = _field(fields, "overrideSettings", dict, {})
    winrates_as = override.get("reportAnalysisWinratesAs")
    if winrates_as not in (None, "BLACK", "WHITE", "SIDETOMOVE"):
        message = "reportAnalysisWinratesAs must be BLACK, WHITE or SIDETOMOVE"
        raise QueryError("overrideSettings", message)
    warnings += _ignored(fields, override)
    visits_field, visits = _visits(fields, override)
    if visits_limit is not None and visits is not None and visits > visits_limit:
        limited = f"maxVisits is limited to {visits_limit}; --simulations sets this limit"
        warnings.append((visits_field, limited))
    pv_length = _integer("analysisPVLen", fields.get("analysisPVLen", MAX_PV), 1, 1000)
    if pv_length > MAX_PV:
        warnings.append(("analysisPVLen", f"analysisPVLen is limited to {MAX_PV}"))
    report_every = _seconds(fields, "reportDuringSearchEvery", 1e9)
    return Query(
        id=_id(fields),
        size=size,
        komi=_komi(fields, rules.usual_komi),
        ko=None if given is None else rules.ko,
        suicide=rules.suicide,
        bonus=rules.bonus,
        moves=moves,
        stones=_moves(fields, "initialStones", size, stones=True),
        first=None if first is None else _colour("initialPlayer", first),
        turns=tuple(priorities),
        priorities=tuple(priorities.values()),
        visits=visits,
        pv_length=pv_length + 1,
        ownership=_boolean(fields, "includeOwnership"),
        moves_ownership=_boolean(fields, "includeMovesOwnership"),
        policy=_boolean(fields, "includePolicy"),
        pv_visits=_boolean(fields, "includePVVisits"),
        avoid=_avoid(fields, size),
        winrates_as=winrates_as,
        max_time=_number("overrideSettings", override.get("maxTime", 1e9), 0, 1e20),
        first_report=_seconds(fields, "firstReportDuringSearchAfter", report_every),
        report_every=report_every,
        warnings=tuple(warnings),
    )


def _ignored(fields: Mapping[str, Any], override: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(field, warning) for each known field and each key of overrideSettings that is ignored,
    except those whose values ask for nothing."""
    message = "{} is not supported, it is ignored"
    for name, no_effect in NO_EFFECT.items():
        if fields.get(name, no_effect) != no_effect:
            yield name, message.format(name)
    for key, value in override.items():
        if key not in OVERRIDES and (
            key not in _NO_EFFECT_OVERRIDES or value != _NO_EFFECT_OVERRIDES[key]
        ):
            yield "overrideSettings", message.format(key[:40])


def _visits(fields: Mapping[str, Any], override: Mapping[str, Any]) -> tuple[str, int | None]:
    """(the field that sets it, maxVisits): as in KataGo, the query's own comes before that of
    overrideSettings."""
    given = {"overrideSettings": override.get("maxVisits"), "maxVisits": fields.get("maxVisits")}
    visits = [
        (field, _integer(field, value, 1, 10**15))
        for field, value in given.items()
        if value is not None
    ]
    return visits[-1] if visits else ("maxVisits", None)


def _id(fields: Mapping[str, Any]) -> str:
    """The id, which every answer repeats."""
    name = _field(fields, "id", str)
    if len(name) > MAX_ID:
        raise QueryError("id", f"Must have at most {MAX_ID} characters")
    return name


def _size(fields: Mapping[str, Any]) -> int:
    width, height = (
        _integer(name, fields.get(name), MIN_SIZE, MAX_SIZE)
        for name in ("boardXSize", "boardYSize")
    )
    if width != height:
        raise QueryError("boardYSize", f"Only square boards can be analysed, not {width}x{height}")
    return width


def _field(fields: Mapping[str, Any], name: str, kind: type, default: Any = None) -> Any:
    value = fields.get(name, default)
    if not isinstance(value, kind):
        raise QueryError(name, f"Must be {_KINDS[kind]}")
    return value


_KINDS = {str: "a string", dict: "an object", list: "an array", bool: "a boolean"}


def _boolean(fields: Mapping[str, Any], name: str) -> bool:
    return _field(fields, name, bool, False)


def _integer(name: str, value: Any, least: int, most: int) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if type(value) is not int or not least <= value <= most:
        raise QueryError(name, f"Must be an integer from {least} to {most}")
    return value


def _number(name: str, value: Any, least: float, most: float) -> float:
    if type(value) not in (int, float) or not least <= value <= most:
        raise QueryError(name, f"Must be a number from {least:g} to {most:g}")
    return float(value)


def _seconds(fields: Mapping[str, Any], name: str, default: float) -> float:
    return _number(name, fields.get(name, default), 0.001, 1e9)


def _komi(fields: Mapping[str, Any], usual: float) -> float:
    return _checked_komi("komi", fields.get("komi", usual))


def _checked_komi(field: str, value: Any) -> float:
    komi = _number(field, value, -coords.MAX_KOMI, coords.MAX_KOMI)
    if not coords.is_komi(komi):
        raise QueryError(field, f"Must be {coords.KOMI_EXPECTED}")
    return komi


def _colour(name: str, value: Any) -> int:
    if not isinstance(value, str) or value.lower() not in _COLOURS:
        raise QueryError(name, "Must be B or W")
    return _COLOURS[value.lower()]


def _action(name: str, value: Any, size: int) -> int:
    """The action of a vertex, or of its column and row from the top left: "(0,13)"."""
    pair = _COLUMN_AND_ROW.fullmatch(value) if isinstance(value, str) else None
    if pair is not None and all(int(number) < size for number in pair.groups()):
        return int(pair[2]) * size + int(pair[1])
    try:
        return coords.from_gtp(size, value[:20] if isinstance(value, str) else "")
    except ValueError as error:
        text = str(value)[:20]
        raise QueryError(name, f"Could not parse board location: {text}") from error


def _moves(
    fields: Mapping[str, Any], name: str, size: int, stones: bool = False
) -> tuple[tuple[int, int], ...]:
    from gozero.apps.host_game import ample_move_limit  # imports JAX, which takes seconds

    moves, limit = [], ample_move_limit(size)
    pairs = _field(fields, name, list, [] if stones else None)
    if len(pairs) > limit:
        raise QueryError(name, f"Must have at most {limit} elements")
    for pair in pairs:
        if not isinstance(pair, list) or len(pair) != 2:
            raise QueryError(name, 'Must be an array of pairs, ["B", "D4"]')
        moves.append((_colour(name, pair[0]), _action(name, pair[1], size)))
    points = [action for _, action in moves]
    if stones and (len(set(points)) != len(points) or size * size in points):
        raise QueryError(name, "Stones must lie on different points")
    return tuple(moves)


def _priorities(fields: Mapping[str, Any], num_moves: int) -> dict[int, float]:
    """{turn to analyse: its priority}, in order of the turns."""
    turns = _field(fields, "analyzeTurns", list, [num_moves])
    turns = [_integer("analyzeTurns", turn, 0, num_moves) for turn in turns]
    priorities = _field(fields, "priorities", list, [fields.get("priority", 0)] * len(turns))
    if len(priorities) != len(turns):
        raise QueryError("priorities", "Must have one element for each turn")
    for priority in priorities:
        if type(priority) not in (int, float) or not -(2**62) <= priority <= 2**62:
            raise QueryError("priority", "Must be a number from -2^62 to 2^62")
    return dict(sorted(dict(zip(turns, priorities, strict=True)).items()))


def _rules(rules: Any) -> RuleSet:
    if isinstance(rules, str):
        preset = rule_sets.named(rules)
        if preset is None:
            raise QueryError("rules", f"Could not parse rules: {rules[:40]}")
        return preset
    if not isinstance(rules, dict):
        raise QueryError("rules", "Must be a string or an object")
    try:
        parsed = rule_sets.of_json({name: rules[name] for name in rules if name != "komi"})
    except ValueError as error:
        raise QueryError("rules", str(error)) from error
    if "komi" in rules:
        parsed = parsed._replace(usual_komi=_checked_komi("rules", rules["komi"]))
    return parsed


def _with_bonus(rules: RuleSet, fields: Mapping[str, Any]) -> RuleSet:
    name = "whiteHandicapBonus"
    if name not in fields:
        return rules
    try:
        return rule_sets.with_field(rules, name, fields[name])
    except ValueError as error:
        raise QueryError(name, str(error)) from error


def _avoid(fields: Mapping[str, Any], size: int) -> dict[tuple[int, int], int]:
    """{(player, action): depth}: the moves in avoidMoves, or those not in allowMoves; if a move is
    named more than once, the greatest depth."""
    depths: dict[tuple[int, int], int] = {}
    if "avoidMoves" in fields and "allowMoves" in fields:
        raise QueryError("allowMoves", "Cannot specify both allowMoves and avoidMoves")
    allowed = set()  # players
    for name in ("avoidMoves", "allowMoves"):
        for entry in _field(fields, name, list, []):
            if not isinstance(entry, dict):
                raise QueryError(name, "Must be an array of objects")
            actions = {_action(name, move, size) for move in _field(entry, "moves", list)}
            if name == "allowMoves":
                actions = set(range(size * size + 1)) - actions
            depth = _integer(name, entry.get("untilDepth"), 1, 10**9)
            player = _colour(name, entry.get("player"))
            if name == "allowMoves" and player in allowed:
                raise QueryError(name, "Cannot specify more than one entry for the same player")
            allowed.add(player)
            depths |= {(player, a): max(depth, depths.get((player, a), 0)) for a in actions}
    return depths
