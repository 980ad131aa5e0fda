"""``gozero review``: search the games of SGF files in lockstep, and write a report on them."""

from __future__ import annotations

import sys

from gozero.apps import flags, runtime, sgf
from gozero.apps.review.config import ReviewConfig
from gozero.runs.files import write_whole

PROG = "gozero review"
__all__ = ["ReviewConfig", "run"]


def run(config: ReviewConfig) -> int:
    """Write the report and print the summary; returns the exit status.

    Raises:
      SystemExit: one line; status 2 for invalid games or flags, 1 for a report that cannot be
        written.
    """
    with flags.exit_on_error(PROG):
        games = [(path.name, sgf.read(path)) for path in config.games]
        if config.is_random:
            print(runtime.random_network_message(), file=sys.stderr)
        size = games[0][1].size
        message = runtime.compiling_message(size, katago=config.uses_katago_network)
        print(message, file=sys.stderr, flush=True)
        from gozero.apps.review import analyse, report  # imports JAX, which takes seconds

        tell = lambda text: print(f"{PROG}: {text}", file=sys.stderr, flush=True)
        reviewed = analyse.analyse(config, games, _progress, tell)
        if config.out is not None:
            text = report.WRITERS[config.out.suffix](reviewed, config.mistakes)
            write_whole(config.out, text.encode())
        runtime.print_result(report.summary(reviewed, config.mistakes))
        if config.out is not None:
            runtime.print_result(f"written: {config.out}")
    return 0


def _progress(done: int, total: int) -> None:
    if sys.stderr.isatty():
        end = "\n" if done == total else ""
        print(f"\r{done} of {total} positions", end=end, file=sys.stderr, flush=True)
