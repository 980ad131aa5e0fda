"""Hostile queries of the analysis protocol: each is answered, and none fills memory."""

from __future__ import annotations

import collections
import io
import json
import random
import threading
import time

import jax
import pytest

import gozero
from gozero.apps.analysis import positions, query, run
from gozero.apps.analysis.config import AnalyzeConfig
from tests.attack.memory import resident

CONFIG = AnalyzeConfig(json=True, simulations=8, batch=1, score_playouts=2, search="puct")
QUERIES = 4000
POINTS = ("A1", "B2", "c3", "A3", "C1", "pass", "D4", "I1", "", "A" * 40, "A\u0661", 7, None)
VALUES = (None, True, -1, 0, 1.5, 10**400, -(10**30), 1e308, "", "x" * 300, "\ud800", [], {})
VALUES += ([[]], [1, None], {"a": [1]}, [["B", "A1"]] * 500, "POSITIONAL", "japanese")
RAW = (b"", b"{}", b"[]", b"null", b"\xff\xfe{\x00", b"{" * 5000, b'{"id":NaN}', b'{"id":"a"')
RAW += (b'{"id":"x","action":"query_version","a":' + b"[" * 900 + b"]" * 900 + b"}",)
RAW += (b'{"id":"x","komi":' + b"9" * 5000 + b"}", b" " * 2000 + b"{}")


def usual(rng: random.Random, number: int) -> dict:
    """A plausible query."""
    moves = [[rng.choice("BW"), rng.choice(POINTS[:5])] for _ in range(rng.randrange(4))]
    some = {
        "id": f"q{number}",
        "moves": moves,
        "boardXSize": 3,
        "boardYSize": 3,
        "komi": rng.choice((0.5, 7, -3.5)),
        "maxVisits": rng.choice((1, 3, 8)),
        "analyzeTurns": rng.sample(range(len(moves) + 1), rng.randrange(1, len(moves) + 2)),
        "rules": rng.choice((None, "tromp-taylor", {"ko": "POSITIONAL", "suicide": True})),
        "initialStones": [["W", "B3"]] if rng.random() < 0.2 else [],
        "priority": rng.randrange(-3, 3),
        "avoidMoves": [{"player": "B", "moves": ["A1", "pass"], "untilDepth": 2}],
        "overrideSettings": {"maxTime": rng.choice((0, 0.001, 10.0))},
        "reportDuringSearchEvery": rng.choice((0.001, 5)),
        **{name: rng.random() < 0.5 for name in ("includeOwnership", "includePolicy")},
    }
    return {name: some[name] for name in some if name in ("id", "rules") or rng.random() < 0.97}


def odd(rng: random.Random, fields: dict) -> dict:
    """Change or add one value, at random; boards keep a size that is compiled."""
    name = rng.choice([*fields, *sorted(query.KNOWN), "surprise", "terminateId", "turnNumbers"])
    value = rng.choice([*VALUES, *POINTS])
    if name == "action":
        value = rng.choice(("query_version", "query_models", "clear_cache", "terminate", value))
    if name in fields and isinstance(fields[name], list) and fields[name] and rng.random() < 0.5:
        value = [*fields[name], value]
    if name.startswith("board") and type(value) is int and value >= query.MIN_SIZE:
        return fields
    return fields | {name: value}


def lines_of(seed: int, count: int) -> list[bytes]:
    """Queries, most of them odd in some way, and lines that are not queries."""
    rng, lines = random.Random(seed), []
    for number in range(count):
        fields = usual(rng, number)
        for _ in range(rng.choice((0, 0, 1, 1, 2))):
            fields = odd(rng, fields)
        line = bytearray(json.dumps(fields).encode())
        if rng.random() < 0.1:
            line = bytearray(rng.choice(RAW))
        for _ in range(rng.choice((0,) * 8 + (1, 3))):
            at = rng.randrange(len(line) + 1)
            line[at : at + rng.randrange(3)] = rng.randbytes(rng.randrange(3))
        if rng.random() < 0.002:
            line += b" " * rng.randrange(2 * query.MAX_LINE)
        lines.append(bytes(line).replace(b"\n", b" "))
    return lines


def attack(server: run.Server, out: io.StringIO, lines: list[bytes]) -> list[dict]:
    """The answers; asserts that each query gets a final one for each position, or an error."""
    begun = out.tell()
    listener = threading.Thread(target=server.listen, args=(io.BytesIO(b"\n".join(lines)),))
    listener.start()
    server._closed = False
    server.serve()
    listener.join()
    out.seek(begun)
    messages = [json.loads(line) for line in out.read().splitlines()]
    assert not [one for one in messages if "internal" in str(one.get("error"))]
    assert all(len(str(one["error"])) < 400 for one in messages if "error" in one)
    for line in lines:
        asked = accepted(line)
        if asked is not None:
            last = [
                x for x in messages if x.get("id") == asked.id and not x.get("isDuringSearch", 1)
            ]
            is_illegal = any("error" in x for x in messages if x.get("id") == asked.id)
            turns = sorted(x["turnNumber"] for x in last)
            assert is_illegal or turns == list(asked.turns), asked
    return messages


def accepted(line: bytes) -> query.Query | None:
    """The query in a line, if it is valid and its id is one of ours."""
    try:
        fields = query.decode(line, len(line) <= query.MAX_LINE)
        asked = None if "action" in fields else query.read(fields)
    except query.QueryError as error:
        assert len(str(error)) < 400  # noqa: PT017
        return None
    return asked if asked is not None and asked.id.startswith("q") else None


@pytest.fixture(scope="module")
def server():
    out = io.StringIO()
    return run.Server(CONFIG, out), out


def test_queries_without_a_search():
    """Without a search: each line is a query, or an error that fits in one line."""
    lines = lines_of(1, 600)
    kept = sum(accepted(line) is not None for line in lines)
    assert 100 < kept < 500


@pytest.mark.slow
def test_many_queries(server):
    """In four parts; the last two add less than 20 MB, as everything is compiled by then."""
    used, answered, slowest = [], 0, 0.0
    for seed in range(4):
        lines = lines_of(seed, QUERIES // 4)
        begun = time.monotonic()
        replies = attack(*server, lines)
        slowest = max(slowest, time.monotonic() - begun)
        answered += sum("moveInfos" in one for one in replies)
        server[1].seek(0)
        server[1].truncate()
        used.append(round(resident(), 1))
    print(f"{QUERIES} queries, seeds 0 to 3: {answered} positions answered; MB after each {used}")
    print(f"the slowest part {slowest:.0f} s")
    assert answered > QUERIES // 8
    assert used[3] - used[1] < 20


def test_a_line_without_an_end_is_refused_before_it_is_read(server, monkeypatch):
    """A line too long is skipped without being held: no more than the bound is read at once."""
    monkeypatch.setattr(query, "MAX_LINE", 1000)

    class Endless(io.RawIOBase):
        left, most = 10**6, 0

        def readline(self, size: int | None = -1) -> bytes:
            assert size is not None
            assert 0 < size <= 1001
            self.left -= min(size, self.left)
            return b"[" * size if self.left else b""

    one, out = server
    begun = out.tell()
    one._closed = False
    one.listen(Endless())
    one.serve()
    out.seek(begun)
    assert [json.loads(line) for line in out.read().splitlines()] == [
        {"error": "The line has more than 1000 bytes"}
    ]


def test_input_is_not_read_while_too_many_queries_are_pending(monkeypatch):
    line = b"x" * 9 + b"\n"
    size = len(line) + run.LINE_BYTES
    monkeypatch.setattr(run, "MAX_BUFFERED", 10 * size)
    monkeypatch.setattr(run, "CHECK_EVERY_S", 0.001)
    server = run.Server(CONFIG, io.StringIO())
    listener = threading.Thread(target=server.listen, args=(io.BytesIO(line * 40),))
    listener.start()
    end = time.monotonic() + 60
    while server._inbox.qsize() < 10 and time.monotonic() < end:
        time.sleep(0.001)
    time.sleep(0.05)  # enough time to read all the others
    assert 10 <= server._inbox.qsize() <= 12
    server.serve()
    listener.join()
    assert server._bytes_read == server._bytes_handled == 40 * size


def test_blank_lines_take_no_memory():
    server = run.Server(CONFIG, io.StringIO())
    server.listen(io.BytesIO(b"\n \n\r\n" * 1000 + b"x\n"))
    assert server._inbox.qsize() == 2  # the last line, and the end


def test_the_positions_of_one_query_are_bounded(monkeypatch):
    """A short line can hold a thousand moves, and each position of a large board is large."""
    most, sizes = 8, []

    class Counted(collections.OrderedDict):
        def __setitem__(self, key, value):
            super().__setitem__(key, value)
            sizes.append(len(self))

    fields = {"id": "q", "boardXSize": 3, "boardYSize": 3, "rules": "tromp-taylor"}
    asked = query.read(fields | {"moves": [["B", "pass"]] * 30})
    key = (3, "positional", False, False)
    cache = positions.Positions()
    cache._states = Counted()
    state_size = sum(x.nbytes for x in jax.tree.leaves(gozero.init(positions.rules_of(key))))
    monkeypatch.setattr(positions, "KEPT_BYTES", most * state_size)
    cache.check(asked, key)
    assert max(sizes) == most + 1
    assert len(cache._states) == most


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), BrokenPipeError()])
def test_a_stream_error_ends_the_server(error, capsys):
    class Failing(io.StringIO):
        def readline(self, size=-1):
            raise error

    if isinstance(error, BrokenPipeError):
        assert run.run(CONFIG, Failing(), io.StringIO()) == 0
        return
    with pytest.raises(SystemExit) as stop:
        run.run(CONFIG, Failing(), io.StringIO())
    assert stop.value.code == 1
    assert "standard input or output: [Errno 5]" in capsys.readouterr().err.splitlines()[-1]


def test_a_failing_search_is_answered(monkeypatch, capsys):
    def fails(*_):
        raise RuntimeError("out of\nmemory")

    out = io.StringIO()
    server = run.Server(CONFIG, out)
    monkeypatch.setattr(server, "_searches_for", fails)
    server.listen(
        io.BytesIO(
            json.dumps(usual(random.Random(1), 5) | {"moves": [], "analyzeTurns": [0]}).encode()
        )
    )
    server.serve()
    (replies,) = [json.loads(line) for line in out.getvalue().splitlines()]
    assert replies["error"] == "internal error: RuntimeError: out of memory"
    assert "internal error" in capsys.readouterr().err
