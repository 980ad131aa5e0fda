"""Additional commands: of GTP 2's appendix, for SGF files, and of KGS, KataGo and GoGui.

KataGo's: https://github.com/lightvector/KataGo/blob/master/docs/GTP_Extensions.md
"""

from __future__ import annotations

import functools
import json
import math
import pathlib
import time
from collections.abc import Mapping

from gozero.apps import rule_sets
from gozero.apps.gtp.clock import Increment
from gozero.apps.gtp.engine import Engine
from gozero.apps.gtp.protocol import Command, GtpFailure, Talk, colour_of
from gozero.apps.rule_sets import RuleSet
from gozero.go import coords
from gozero.runs import files

_ANALYZE_COMMANDS = """varc/Best Move/reg_genmove %c
string/Final Score/final_score
plist/Dead Stones/final_status_list dead
plist/Alive Stones/final_status_list alive
hstring/Network/kata-raw-nn 0
string/Komi/get_komi
string/Rules/kata-get-rules
hstring/Game/printsgf
string/Processor Time/cputime
none/Forget Searches/clear_cache
none/Stop Pondering/stop"""


def commands(engine: Engine) -> dict[str, Command]:
    """The commands by name."""
    time_settings = functools.partial(_time_settings, engine)
    return {
        "reg_genmove": Command(functools.partial(_reg_genmove, engine), "COLOUR", talks=True),
        "get_komi": Command(lambda: f"{engine.komi:g}"),
        "cputime": Command(lambda: f"{time.process_time():.3f}"),
        "clear_cache": Command(lambda: engine.forget() or ""),
        "set_position": Command(
            functools.partial(_set_position, engine), "[COLOUR] [VERTEX] [...]"
        ),
        "loadsgf": Command(functools.partial(_load_sgf, engine), "FILE [MOVE]"),
        "printsgf": Command(functools.partial(_print_sgf, engine), "[FILE]"),
        "final_status_list": Command(functools.partial(_status_list, engine), "STATUS"),
        "kgs-rules": Command(functools.partial(_set_kgs_rules, engine), "RULES"),
        "kgs-time_settings": Command(
            functools.partial(time_settings, kinds=_KGS_TIMES), "KIND [SECONDS] [...]"
        ),
        "kata-set-rules": Command(functools.partial(_set_rules, engine), "RULES [...]"),
        "kata-set-rule": Command(functools.partial(_set_rule, engine), "RULE VALUE"),
        "kata-get-rules": Command(functools.partial(_get_rules, engine)),
        "kata-time_settings": Command(time_settings, "KIND [SECONDS] [...]"),
        "kata-list_time_settings": Command(lambda: " ".join(_TIMES)),
        "gogui-analyze_commands": Command(lambda: _ANALYZE_COMMANDS),
        "gogui-interrupt": Command(lambda: ""),  # its presence tells GoGui how to interrupt
        "stop": Command(lambda: engine.stop() or ""),
    }


def _reg_genmove(engine: Engine, talk: Talk, colour: str) -> str:
    action = engine.choose(colour_of(colour), talk)
    return "resign" if action is None else coords.to_gtp(engine.size, action)


def _set_position(engine: Engine, *words: str) -> str:
    if len(words) % 2:
        raise GtpFailure("syntax error: expected pairs of a colour and a vertex")
    stones: dict[int, int] = {}
    try:
        for colour, vertex in zip(words[::2], words[1::2], strict=True):
            stones[coords.from_gtp(engine.size, vertex[:20])] = colour_of(colour)
        if len(stones) < len(words) // 2 or engine.size**2 in stones:
            raise ValueError("it contains a point twice, or a pass")
        engine.set_stones(*([p for p, of in stones.items() if of == c] for c in (0, 1)))
    except ValueError as error:
        raise GtpFailure(f"illegal position: {error}") from error
    return ""


def _load_sgf(engine: Engine, name: str, before: str = "") -> str:
    from gozero.apps import sgf

    if before and not (before.isascii() and before.isdigit() and 0 < int(before[:9]) < 10**6):
        message = "expected the number of a move; names with spaces are not possible"
        raise GtpFailure(f"syntax error: {message}")
    try:
        record = sgf.read(pathlib.Path(name))
        engine.load(record, int(before) - 1 if before else len(record.moves))
    except ValueError as error:
        raise GtpFailure(f"cannot load file: {error}") from error
    return ""


def _print_sgf(engine: Engine, name: str = "") -> str:
    from gozero.apps import sgf

    record = engine.record()
    if name in ("", "-"):
        return sgf.to_sgf(record)
    try:
        sgf.write(pathlib.Path(name), record)
    except OSError as error:
        raise GtpFailure(f"cannot write file: {error.strerror}") from error
    return ""


def _status_list(engine: Engine, status: str) -> str:
    if status not in ("alive", "dead", "seki"):
        raise GtpFailure(f"syntax error: {status} is not alive, dead or seki")
    if status == "seki":  # area scoring does not need it
        return ""
    is_dead = engine.dead_stones()
    matching = (engine.game.stones() != 0) & (is_dead == (status == "dead"))
    return " ".join(coords.to_gtp(engine.size, int(p)) for p in matching.reshape(-1).nonzero()[0])


def _set_rules(engine: Engine, *words: str) -> str:
    name = " ".join(words)
    return _use(engine, rule_sets.named(name) or _rules_of_json(name))


def _use(engine: Engine, rules: RuleSet) -> str:
    if rules.ignored:
        raise GtpFailure(
            "unsupported rules: expected area scoring without taxes and without a button"
        )
    try:
        engine.set_rules(rules.ko, rules.suicide, rules.bonus)
    except ValueError as error:
        raise GtpFailure(f"the game so far is not legal under these rules: {error}") from error
    return ""


def _set_rule(engine: Engine, name: str, text: str) -> str:
    value = {"true": True, "false": False}.get(text.lower(), text)
    try:
        now = RuleSet(engine.ko, engine.suicide, bonus=engine.bonus)
        rules = rule_sets.with_field(now, name, value)
    except ValueError as error:
        raise GtpFailure(str(error)) from error
    return _use(engine, rules)


def _set_kgs_rules(engine: Engine, name: str) -> str:
    """KGS forbids repeating any position under its Chinese rules, too."""
    return _set_rules(engine, "chinese-kgs" if name.lower() == "chinese" else name)


def _rules_of_json(text: str) -> RuleSet:
    """The rules in KataGo's JSON; omitted fields are as in Tromp-Taylor rules."""
    try:
        fields = files.parse_json(text)
        if not isinstance(fields, dict):
            raise ValueError("not an object")
    except ValueError as error:
        names = ", ".join(name for name, rules in rule_sets.PRESETS.items() if not rules.ignored)
        raise GtpFailure(f"unknown rules; expected one of {names}, or JSON") from error
    try:
        return rule_sets.of_json(fields)
    except ValueError as error:
        raise GtpFailure(f"unknown rules; {error}") from error


def _get_rules(engine: Engine) -> str:
    facts = {"ko": engine.ko.upper(), "scoring": "AREA", "suicide": engine.suicide, "tax": "NONE"}
    return json.dumps({**facts, "hasButton": False, "whiteHandicapBonus": engine.bonus})


_KGS_TIMES = {
    "none": "",
    "absolute": "MAIN",
    "byoyomi": "MAIN PERIOD PERIODS",
    "canadian": "MAIN PERIOD STONES",
}
_TIMES = {
    **_KGS_TIMES,
    "fischer": "MAIN INCREMENT",
    "fischer-capped": "MAIN INCREMENT MOST_MAIN MOST_PER_MOVE",
}
"""Time systems, and the arguments of each."""


def _time_settings(
    engine: Engine, kind: str, *words: str, kinds: Mapping[str, str] = _TIMES
) -> str:
    kind = kind.lower()
    if kind not in kinds or len(kinds[kind].split()) != len(words):
        expected = [f"{name} {arguments}".strip() for name, arguments in kinds.items()]
        raise GtpFailure(f"syntax error: expected {', '.join(expected[:-1])} or {expected[-1]}")
    try:
        main, period, stones, longest = [*map(float, words), 0.0, 0.0, 0.0, 0.0][:4]
        if kind.startswith("fischer"):
            _set_fischer(engine, main, period, *((stones, longest) if len(words) == 4 else ()))
            return ""
        if kind == "none":
            period, stones = 1.0, 0.0  # a period without stones is no limit
        elif kind == "byoyomi":  # each period is for one move; a second one is a reserve
            stones = 1.0 if stones >= 1 else 0.0
        engine.set_time(main, period if stones or kind == "none" else 0.0, int(stones))
    except (ValueError, OverflowError) as error:
        raise GtpFailure(f"syntax error: {error}") from error
    return ""


def _set_fischer(
    engine: Engine, main: float, increment: float, most: float = -1.0, longest: float = -1.0
) -> None:
    """Negative limits, on the main time and on a move's time, are none."""
    if math.isnan(most) or math.isnan(longest) or 0 <= most < main:
        raise ValueError(f"{most:g} and {longest:g} are no limits for {main:g} seconds")
    cap, longest_move = (limit if limit >= 0 else math.inf for limit in (most, longest))
    engine.set_time(main, 0.0, 0, Increment(increment, cap, longest_move))
