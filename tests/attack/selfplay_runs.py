"""Small runs of ``gozero selfplay``, checks of their results, and a disk that fills up."""

from __future__ import annotations

import errno
import functools
import json
import os
import pathlib
import sys
from collections.abc import Callable

import chex

from gozero.apps import cli
from gozero.apps.selfplay import play as app
from gozero.apps.selfplay import writer
from gozero.play import shards

GAMES = 6
FLAGS = (
    *("--size", "5", "--simulations", "8", "--komi", "5.5", "--seed", "3"),
    *("--evaluator", "playout"),
)


def selfplay(out: pathlib.Path, *more: str, games: int = GAMES, batch: int = 4) -> int:
    """Run ``gozero selfplay``; returns the exit status."""
    try:
        counts = ("--games", str(games), "--batch", str(batch))
        return cli.main(["selfplay", *FLAGS, *counts, "--out", str(out), *more])
    except SystemExit as stop:
        return int(stop.code or 0)


_compile, _made = app._compile, {}


def compile_once(put: Callable[[object, str, object], None]) -> None:
    """Runs with the same settings share their program; `put` sets an attribute."""

    def compiled(settings, evaluator, lanes, mesh):
        key = settings, repr(evaluator.about), mesh
        if key not in _made:
            _made[key] = _compile(settings, evaluator, lanes, mesh)
        else:
            print("compiled in 0.0 s", file=sys.stderr)
        return _made[key]

    put(app, "_compile", compiled)


def make_small(put: Callable[[object, str, object], None]) -> None:
    """Rows and states are written every few moves; `put` sets an attribute."""
    put(writer, "ROWS_AT_RISK", 20)

    def save_if_due(run, lanes):
        run.calls = getattr(run, "calls", 0) + 1
        if run.calls % 3 == 0:
            run._save(lanes)

    put(app._Run, "_save_if_due", save_if_due)


def texts(out: pathlib.Path) -> dict[str, bytes]:
    """{file name: the SGF} of a run's games."""
    return {path.name: path.read_bytes() for path in (out / "games").glob("*.sgf")}


def check_part(out: pathlib.Path, whole: pathlib.Path) -> None:
    """All games and rows that are there are those of the uninterrupted run: no file is torn."""
    expected = texts(whole)
    assert all(text == expected[name] for name, text in texts(out).items())
    assert not list(out.rglob("*.part"))
    if not list((out / shards.FOLDER).glob("*.npz")):
        return
    rows, all_rows = (shards.read_folder(folder)[1] for folder in (out, whole))
    chex.assert_trees_all_equal(rows, all_rows.take(slice(rows.num_rows)))


def check_whole(out: pathlib.Path, whole: pathlib.Path) -> None:
    """The run has the same games and rows, each once, as an uninterrupted one."""
    assert texts(out) == texts(whole)
    chex.assert_trees_all_equal(shards.read_folder(out), shards.read_folder(whole))
    found, expected = (json.loads((x / "manifest.json").read_text()) for x in (out, whole))
    for name in ("state", "games", "moves", "black", "white", "drawn", "truncated"):
        assert found[name] == expected[name], name
    assert sorted(path.name for path in out.iterdir() if path.suffix != ".lock") == [
        *("config.json", "games", "manifest.json", "metrics.jsonl", "shards")
    ]
    moves = [json.loads(line)["moves"] for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert moves == sorted(set(moves))


class FullDisk:
    """Counts file creations and writes; from the `last`-th on there is no room.

    Half of that write is still written, as on a real disk. If `alone`, there is room again for
    the next one.
    """

    def __init__(self, put: Callable[[object, str, object], None], last: int | None, alone=False):
        self.count, self.last, self.alone = 0, last, alone
        for name in ("open", "write", "mkdir"):
            put(os, name, functools.partial(getattr(self, name), getattr(os, name)))

    def _takes(self) -> bool:
        self.count += 1
        if self.last is None or self.count < self.last:
            return True
        return self.alone and self.count > self.last

    def _full(self) -> OSError:
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def open(self, real, path, flags, *rest, **more):
        if flags & os.O_CREAT and not self._takes():
            raise self._full()
        return real(path, flags, *rest, **more)

    def write(self, real, handle, data):
        if not self._takes():
            if self.count == self.last:
                real(handle, bytes(data)[: len(data) // 2])
            raise self._full()
        return real(handle, data)

    def mkdir(self, real, path, *rest, **more):
        if not self._takes():
            raise self._full()
        return real(path, *rest, **more)
