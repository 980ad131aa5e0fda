"""``gozero review``: search the games of SGF files in lockstep, and write a report on them."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import sys

from gozero.apps import flags, runtime, sgf
from gozero.apps.review.config import ReviewConfig
from gozero.runs.files import check_writable, write_whole

PROG = "gozero review"
__all__ = ["ReviewConfig", "run"]


def run(config: ReviewConfig) -> int:
    """Print the summary and write the report; returns the exit status.

    Raises:
      SystemExit: one line; status 2 for invalid games or flags, or a report's place that cannot be
        written or is one of the games; 1 if it cannot be written in the end.
    """
    with flags.exit_on_error(PROG):
        _check_out(config)
        games = [game for path in config.games for game in _games(path, config.komi)]
        if config.is_random:
            print(runtime.random_network_message(), file=sys.stderr)
        size = games[0][1].size
        message = runtime.compiling_message(size, katago=config.uses_katago_network)
        print(message, file=sys.stderr, flush=True)
        from gozero.apps.review import analyse, report  # imports JAX, which takes seconds

        tell = lambda text: print(f"{PROG}: {text}", file=sys.stderr, flush=True)
        reviewed = analyse.analyse(config, games, _progress, tell)
        runtime.print_result(report.summary(reviewed, config.mistakes))
        if config.out is not None:
            text = report.WRITERS[config.out.suffix](reviewed, config.mistakes)
            write_whole(config.out, text.encode())
            runtime.print_result(f"written: {config.out}")
    return 0


def _games(path: pathlib.Path, komi: float | None) -> list[tuple[str, sgf.GameRecord]]:
    """(name, game) of each game of a file, with this komi; None: its own, or 0 with a warning."""
    records = sgf.read_all(path)
    names = sgf.names_of_games(path.name, len(records))
    missing = [name for name, record in zip(names, records, strict=True) if not record.komi_given]
    if komi is None and missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        print(
            f"{PROG}: {missing[0]}{more}: no komi (KM); 0 is used, --komi sets another",
            file=sys.stderr,
        )
    return [
        (
            name,
            dataclasses.replace(
                record, komi=record.komi if komi is None else komi, komi_given=True
            ),
        )
        for name, record in zip(names, records, strict=True)
    ]


def _check_out(config: ReviewConfig) -> None:
    """Raises:
    ValueError: the report cannot be written, or would replace one of the games.
    """
    if config.out is None:
        return
    if os.path.realpath(config.out) in map(os.path.realpath, config.games):
        raise ValueError(f"--out {config.out}: is one of the games; name another file")
    check_writable(config.out, "--out")


def _progress(done: int, total: int) -> None:
    if sys.stderr.isatty():
        end = "\n" if done == total else ""
        print(f"\r{done} of {total} positions", end=end, file=sys.stderr, flush=True)
