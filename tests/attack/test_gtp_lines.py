"""Hostile GTP lines: each is answered, and none fills memory.

The seeds and counts of the slow test are those of the long attack: 20,000 lines.
"""

import io
import itertools
import random
import time

import pytest

from gozero.apps.gtp import protocol
from gozero.apps.gtp import run as gtp
from gozero.apps.gtp.engine import Engine
from tests.apps.gtp.test_gtp import SMALL, answers
from tests.attack.memory import resident

SIZES = ("3", "5")
"""The board sizes played on: any other size would have to be compiled."""

_PLAIN = (
    "b w black White B2 c3 E5 i9 A0 z26 pass resign 0 1 2 3 5 -1 7 0.5 nan inf 1e308 1e9 7.5 -0"
)
WORDS = [*_PLAIN.split(), "#", "\t", "\x00", "true", "name", "../x", "%s"]
WORDS += ["interval", "minmoves", "maxmoves", "avoid", "allow", "A1,B2,pass"]
WORDS += ["ownership", "rootInfo", "pvVisits"]
WORDS += ["9" * 400, "\u0663", "\ud7ff"]
USAGE = {name: made.usage for name, made in gtp.commands(Engine(SMALL)).items()}
NAMES = sorted({*USAGE, "protocol_version", "list_commands", "known_command"} - {"printsgf"})
"""All commands but the one that writes files."""

LINES, CHANGES = 20_000, 4

COMPILED = """boardsize {}
genmove b
undo
kata-analyze b 1
kata-genmove_analyze w 1
kata-genmove_analyze b 1 allow b A1,B2,pass 1
time_settings 9 0 0
genmove w
kata-genmove_analyze w 1
kata-genmove_analyze b 1 allow b A1,B2,pass 1
time_settings 0 9 0
final_status_list dead
clear_board
place_free_handicap 2
set_position b A1 w B2
showboard
final_score"""
"""Compiles everything for a board, even for commands drawn once in 20,000 lines."""


def lines_of(seed: int, count: int, names: list[str]) -> list[bytes]:
    """Commands with plausible arguments, most of them damaged."""
    rng, lines = random.Random(seed), []
    while len(lines) < count:
        name = rng.choice(names)
        usual = len(USAGE.get(name, "").split())
        some = rng.choices(WORDS, k=rng.choice((usual, usual, usual, 0, 1, 2, 8)))
        if name == "boardsize":
            some[:1] = [rng.choice(SIZES)]
        if name in ("play", "genmove") and rng.random() < 0.7:
            some = [rng.choice("bw"), rng.choice("ABCDE") + rng.choice("12345")][: len(some) or 1]
        ident = [str(rng.randrange(10**6))] * (rng.random() < 0.3)
        line = bytearray(" ".join([*ident, name, *some]).encode())
        for _ in range(rng.choice((0, 0, 0, 1, CHANGES))):
            damage(rng, line)
        if rng.random() < 0.001:
            line += b" 9" * rng.randrange(2**17)
        if not asks_for_another_board(bytes(line)):
            lines.append(bytes(line).replace(b"\n", b" "))
    return lines


def damage(rng: random.Random, line: bytearray) -> None:
    """Insert, delete or change bytes at random, or repeat a part."""
    at = rng.randrange(len(line) + 1)
    match rng.randrange(4):
        case 0:
            line[at:at] = rng.randbytes(1)
        case 1:
            del line[at : at + rng.randrange(4)]
        case 2:
            line[at : at + 1] = rng.randbytes(1)
        case 3:
            line[at:at] = line[rng.randrange(len(line) + 1) :]


def asks_for_another_board(line: bytes) -> bool:
    request = protocol.parse_line(line.replace(b"\n", b" "))
    is_size = request is not None and request.name == "boardsize" and request.arguments
    return bool(is_size) and not all(x.isdigit() and x in SIZES for x in request.arguments)


class Answers(io.StringIO):
    """The output, with counts of the answers and analysis reports that have begun."""

    begun = reports = 0

    def write(self, text: str) -> int:
        self.begun += text.startswith(("=", "?"))
        self.reports += text.startswith("info")
        return super().write(text)


class Typed(io.BytesIO):
    """Input lines; the one after an analysis waits for a report, or `patience` after its begin.

    Args:
      lines: the lines.
      answers: the output with their answers.
      patience: the most seconds to wait for a report.
    """

    def __init__(self, lines: list[bytes], answers: Answers, patience: float):
        super().__init__(b"\n".join(lines))
        asked = [protocol.parse_line(line) for line in lines]
        number = itertools.accumulate(request is not None for request in asked)
        after = itertools.accumulate(len(line) + 1 for line in lines)
        self._answers, self._patience = answers, patience
        self._analyses = {  # offset of the next line -> the number of the analysis's answer
            at: count
            for at, count, request in zip(after, number, asked, strict=True)
            if request is not None and request.name in ("lz-analyze", "kata-analyze")
        }

    def readline(self, size: int | None = -1, /) -> bytes:
        number, before = self._analyses.get(self.tell(), 0), self._answers.reports
        while self._answers.begun < number:
            time.sleep(0.001)
        end = time.monotonic() + self._patience
        while number and self._answers.reports == before and time.monotonic() < end:
            time.sleep(0.001)
        return super().readline(size)


def attack(lines: list[bytes], engine: Engine, patience: float = 0.02) -> list[str]:
    out = Answers()
    protocol.serve(gtp.commands(engine), Typed(lines, out, patience), out)
    responses = answers(out.getvalue())
    requests = [protocol.parse_line(line) for line in lines]
    assert len(responses) == sum(request is not None for request in requests)
    assert not [answer for answer in responses if "internal" in answer]
    assert all(len(answer) < 400 for answer in responses if answer.startswith("?"))
    return responses


SEARCHING = ("genmove", "reg_genmove", "time_settings", "time_left")
SEARCHING += ("final_status_list", "final_score")
NO_SEARCH = [name for name in NAMES if name not in SEARCHING and "analyze" not in name]
NO_SEARCH.append("gogui-analyze_commands")


def test_lines_without_a_search(capsys):
    responses = attack(lines_of(1, 1_000, NO_SEARCH), Engine(SMALL))
    assert 100 < sum(answer.startswith("=") for answer in responses) < 900
    assert all("compiling for" in line for line in capsys.readouterr().err.splitlines())


@pytest.mark.slow
def test_lines_with_searches():
    """They add less than 20 MB, once everything is compiled."""
    engine, good = Engine(SMALL), 0
    for size in SIZES:
        compiled = attack(COMPILED.format(size).encode().splitlines(), engine, patience=300.0)
        assert all(answer.startswith("=") for answer in compiled)
        assert sum("\ninfo move " in answer for answer in compiled) == 5
    used = [round(resident(), 1)]
    for seed in range(4):
        responses = attack(lines_of(seed, LINES // 4, NAMES), engine)
        good += sum(answer.startswith("=") for answer in responses)
        used.append(round(resident(), 1))
    print(f"{LINES} lines, seeds 0 to 3: {good} answered with =; MB before, and after each {used}")
    assert max(used) - used[0] < 20
