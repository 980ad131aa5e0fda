"""Analysis commands of Leela Zero and KataGo: their arguments, and the lines they answer with.

https://github.com/lightvector/KataGo/blob/master/docs/GTP_Extensions.md

All numbers are for the player to move. The principal variation is the last item of a move, except
for optional ones: Sabaki relies on this.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from gozero.apps.gtp.engine import Engine
from gozero.apps.gtp.protocol import Command, GtpFailure, Talk, colour_of
from gozero.go import coords
from gozero.play.player_config import TREELESS

if TYPE_CHECKING:
    import numpy as np

    from gozero.apps.analysis.search import FullAnalysis

_USAGE = "[COLOUR] [INTERVAL] [KEY] [VALUE] [...]"
_INTERVAL = 1.0  # seconds, the default
_LONGEST = 10**7  # seconds
_PV_LENGTH = 16
_COLOURS = ("b", "w", "black", "white")
_FLAGS = {
    "ownership": "ownership",
    "movesOwnership": "moves_ownership",
    "pvVisits": "pv_visits",
    "rootInfo": "root_info",
}
"""KataGo's boolean keys, and the fields of `AnalyzeOptions` that they set."""

_IGNORED = ("ownershipStdev", "movesOwnershipStdev", "pvEdgeVisits", "noResultValue")
"""KataGo's keys for results that are not computed here."""

_SYMMETRIES = (0, 6, 4, 2, 5, 3, 1, 7)
"""Ours (`gozero.go.symmetry`) by KataGo's numbers: +1 flips rows, then +2 columns, then +4
transposes."""


class AnalyzeOptions(NamedTuple):
    """The options of an analysis command."""

    colour: int | None = None  # None: the player to move
    interval: float = _INTERVAL  # seconds between two lines
    least: int = 0  # the fewest moves to report, if that many are legal
    most: int = 10**6
    avoid: tuple[tuple[int, tuple[int, ...], int], ...] = ()  # (player, actions, depth limit)
    ownership: bool = False
    moves_ownership: bool = False
    pv_visits: bool = False
    root_info: bool = False
    policy: bool = False
    pv_length: int = _PV_LENGTH


def commands(engine: Engine) -> dict[str, Command]:
    """The commands by name."""
    table = {}
    for kind in ("lz", "kata"):
        analyze, genmove = (functools.partial(f, engine, kind) for f in (_analyze, _genmove))
        table[f"{kind}-analyze"] = Command(analyze, _USAGE, talks=True)
        table[f"{kind}-genmove_analyze"] = Command(genmove, _USAGE, talks=True)
    raw = functools.partial(_raw_network, engine)
    return {**table, "kata-raw-nn": Command(raw, "[COLOUR] SYMMETRY [OPTIMISM]")}


def parse_options(
    size: int, kind: str, words: tuple[str, ...], interval: float = _INTERVAL
) -> AnalyzeOptions:
    """Parse the words after a command.

    Args:
      size: points on a side.
      kind: lz or kata.
      words: a colour and an interval in hundredths of a second, both optional, and keys with their
        values.
      interval: the seconds to use if the words give no interval.

    Raises:
      GtpFailure: the words are invalid; the message says why.
    """
    remaining, options = list(words), dict[str, Any](interval=interval)
    if remaining and remaining[0].lower() in _COLOURS:
        options["colour"] = colour_of(remaining.pop(0))
    if remaining and remaining[0][:1] in "0123456789":
        options["interval"] = _interval(remaining.pop(0))
    avoid, num_allows = [], 0
    while remaining:
        key = remaining.pop(0)
        values = [
            remaining.pop(0)
            for _ in range(min(len(remaining), 3 if key in ("avoid", "allow") else 1))
        ]
        if key in ("avoid", "allow"):
            num_allows += key == "allow"
            avoid.append(_avoided(size, key, values))
        else:
            name, value = _value(kind, key, "".join(values))
            options |= {name: value} if name else {}
    if num_allows > 1 or (num_allows and len(avoid) > 1):
        raise GtpFailure("syntax error: allow can be given only once, and not with avoid")
    return AnalyzeOptions(**options, avoid=tuple(avoid))


def _value(kind: str, key: str, text: str) -> tuple[str, Any]:
    """(field, value) for a key; the field is empty if the key is ignored."""
    if key == "interval":
        return "interval", _interval(text)
    if key in ("minmoves", "maxmoves"):
        return {"minmoves": "least", "maxmoves": "most"}[key], _count(key, text)
    if kind == "kata" and (key in _FLAGS or key in _IGNORED):
        if text.lower() not in ("true", "false"):
            raise GtpFailure(f"syntax error: {key} must be true or false")
        return _FLAGS.get(key, ""), text.lower() == "true"
    raise GtpFailure(f"syntax error: unknown key {key}")


def _interval(text: str) -> float:
    try:
        seconds = float(text) / 100
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= _LONGEST:
        raise GtpFailure(f"syntax error: {text} is not an interval in hundredths of a second")
    return max(seconds, 0.01)


def _count(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 7):
        raise GtpFailure(f"syntax error: {name} must be a number, not {text or 'nothing'}")
    return int(text)


def _avoided(size: int, key: str, values: list[str]) -> tuple[int, tuple[int, ...], int]:
    if len(values) < 3:
        raise GtpFailure(f"syntax error: expected {key} COLOUR VERTEX[,VERTEX...] DEPTH")
    colour, names, depth = values
    try:
        actions = {coords.from_gtp(size, name[:20]) for name in names.split(",")}
    except ValueError as error:
        raise GtpFailure(f"syntax error: {error}") from error
    if key == "allow":
        actions = set(range(size * size + 1)) - actions
    return colour_of(colour), tuple(sorted(actions)), max(1, _count("the depth", depth))


def _avoid(engine: Engine, options: AnalyzeOptions) -> np.ndarray:
    """i32[2, A]: the depth until which each player avoids each action."""
    import numpy as np

    avoid = np.zeros((2, engine.size**2 + 1), np.int32)
    for player, actions, depth in options.avoid:
        avoid[player, list(actions)] = np.maximum(avoid[player, list(actions)], depth)
    return avoid


def _analyze(engine: Engine, kind: str, talk: Talk, *words: str) -> str:
    options = parse_options(engine.size, kind, words)
    try:
        engine.config.on(engine.size).for_analysis()
    except ValueError as error:
        raise GtpFailure(f"cannot analyze: {error}") from error
    talk.begin()
    if talk.until(engine.prepare().is_done):
        colour = engine.game.to_play if options.colour is None else options.colour
        reports = _reports(engine, kind, options, colour, talk)
        engine.analyse(colour, _avoid(engine, options), reports, talk)
    return ""


def _genmove(engine: Engine, kind: str, talk: Talk, *words: str) -> str:
    options = parse_options(engine.size, kind, words, interval=math.inf)
    if options.avoid and engine.config.on(engine.size).search in TREELESS:
        raise GtpFailure("cannot avoid moves: the player does not search a tree")
    colour = engine.game.to_play if options.colour is None else options.colour
    avoid = _avoid(engine, options) if options.avoid else None
    engine.searcher_for(colour, avoid)  # may fail, which is answered with "?"
    talk.begin()
    reports = _reports(engine, kind, options, colour, talk)
    action = engine.genmove(colour, talk, reports, avoid)
    return f"play {'resign' if action is None else coords.to_gtp(engine.size, action)}"


def _reports(engine: Engine, kind: str, options: AnalyzeOptions, colour: int, talk: Talk) -> Any:
    from gozero.apps.gtp.analyst import Reports  # imports JAX, which takes seconds

    def show(analysis: FullAnalysis) -> None:
        line = info_line(engine.size, kind, options, colour, analysis)
        if line:
            talk.say(line)

    return Reports(options.interval, kind == "kata", show)


def info_line(
    size: int, kind: str, options: AnalyzeOptions, colour: int, analysis: FullAnalysis
) -> str:
    """A line with the results for the colour to play; empty if there is no move."""
    from gozero.apps.analysis.answer import position

    result = position(options, size, colour, colour, analysis, options.least)
    info = _lz_info if kind == "lz" else _kata_info
    parts = [" ".join(info(move_info)) for move_info in result["moveInfos"][: options.most]]
    if parts and options.root_info:
        root = result["rootInfo"]
        numbers = " ".join(f"{name} {_number(root[name])}" for name in _ROOT if name in root)
        parts.append(f"rootInfo visits {root['visits']} {numbers}")
    if parts and options.ownership:
        parts.append(_owners("ownership", result["ownership"]))
    return " ".join(parts)


_ROOT = ("utility", "winrate", "scoreMean", "scoreLead", "scoreSelfplay")
_SCORES = ("scoreMean", "scoreLead", "scoreSelfplay")


def _lz_info(info: dict) -> Iterator[str]:
    share = lambda value: str(min(10_000, max(0, round(10_000 * value))))
    yield f"info move {info['move']} visits {info['visits']} winrate {share(info['winrate'])}"
    yield f"prior {share(info['prior'])} lcb {share(info['lcb'])} order {info['order']}"
    yield f"pv {' '.join(info['pv'])}"


def _kata_info(info: dict) -> Iterator[str]:
    yield f"info move {info['move']} visits {info['visits']} edgeVisits {info['edgeVisits']}"
    yield f"utility {_number(info['utility'])} winrate {_number(info['winrate'])}"
    yield from (f"{name} {_number(info[name])}" for name in _SCORES if name in info)
    yield f"prior {_number(info['prior'])} lcb {_number(info['lcb'])}"
    yield f"utilityLcb {_number(2 * info['lcb'] - 1)} weight {_number(info['weight'])}"
    yield f"order {info['order']} pv {' '.join(info['pv'])}"
    if "pvVisits" in info:
        yield f"pvVisits {' '.join(map(str, info['pvVisits']))}"
    if "ownership" in info:
        yield _owners("movesOwnership", info["ownership"])


def _owners(name: str, values: list[float]) -> str:
    return f"{name} {' '.join(map(_number, values))}"


def _number(value: float) -> str:
    """With a decimal point, by which Sabaki recognises a fraction, not hundredths of a percent."""
    return f"{value:.6f}"


def _raw_network(engine: Engine, *words: str) -> str:
    remaining = list(words)
    colour = colour_of(remaining.pop(0)) if words and words[0].lower() in _COLOURS else None
    symmetry, optimism, *more = [*remaining, "", ""][: max(2, len(remaining))]
    if symmetry not in (*"01234567", "all"):
        raise GtpFailure("syntax error: expected a symmetry from 0 to 7, or all")
    if more:
        raise GtpFailure(f"syntax error: {more[0]} is one word too many")
    options = {"colour": colour, "optimism": _optimism(optimism) if optimism else None}
    try:
        outputs = [
            (k, engine.raw_network(_SYMMETRIES[k], **options))
            for k in (range(8) if symmetry == "all" else [int(symmetry)])
        ]
    except ValueError as error:
        raise GtpFailure(f"cannot evaluate: {error}") from error
    return "\n".join(
        line for k, output in outputs for line in (f"symmetry {k}", *_raw_lines(output))
    )


def _optimism(word: str) -> float:
    try:
        optimism = float(word)
    except ValueError:
        optimism = math.nan
    if not 0 <= optimism <= 1:
        raise GtpFailure(f"syntax error: {word} is no optimism from 0 to 1")
    return optimism


def _raw_lines(output: dict[str, Any]) -> Iterator[str]:
    for name, value in output.items():
        if isinstance(value, float):
            yield f"{name} {_number(value)}"
        else:
            yield name
            yield from (" ".join(map(_number, row)) for row in value)
