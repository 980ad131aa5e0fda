"""``gozero review``: games from SGF files, searched in lockstep, and a report of them."""

from __future__ import annotations

import sys

from gozero.apps import flags, runtime, sgf
from gozero.apps.review.config import ReviewConfig
from gozero.runs.files import write_whole

PROG = "gozero review"
__all__ = ["ReviewConfig", "run"]


def run(config: ReviewConfig) -> int:
    """Write the report and print the summary; the exit status.

    Raises:
      SystemExit: one line; status 2 for games or flags that cannot be, 1 for a report that
        cannot be written.
    """
    with flags.failing(PROG):
        games = [(path.name, sgf.read(path)) for path in config.games]
        if config.is_random:
            print(runtime.random_network(), file=sys.stderr)
        size = games[0][1].size
        print(runtime.compiling(size), file=sys.stderr, flush=True)
        from gozero.apps.review import analyse, report  # JAX, which takes seconds

        reviewed = analyse.analyse(config, games, _progress)
        if config.out is not None:
            words = report.WRITERS[config.out.suffix](reviewed, config.mistakes)
            write_whole(config.out, words.encode())
        runtime.tell(report.summary(reviewed, config.mistakes))
        if config.out is not None:
            runtime.tell(f"written: {config.out}")
    return 0


def _progress(done: int, total: int) -> None:
    if sys.stderr.isatty():
        end = "\n" if done == total else ""
        print(f"\r{done} of {total} positions", end=end, file=sys.stderr, flush=True)
