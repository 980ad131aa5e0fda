"""``gozero warmup``, and ``gozero gtp --selftest``: whether the engine can play, and how soon."""

from __future__ import annotations

import dataclasses
import sys
import time

from gozero.apps import flags, runtime
from gozero.apps.gtp.config import GtpConfig
from gozero.apps.gtp.engine import Engine
from gozero.go import coords

BLACK = 0


@dataclasses.dataclass(frozen=True)
class WarmupConfig(GtpConfig):
    """Compile what `gozero gtp` with the same flags compiles at its first moves.

    The programs are kept in the compile cache, so that an engine started later answers its first
    genmove within seconds.
    """

    EXAMPLES = ("gozero warmup", "gozero warmup --player strong --size 19")


def run(config: GtpConfig) -> int:
    """Compile, and print how long it took; returns 1 on failure, after a line on stderr."""
    runtime.divide_cores(config.trees)
    return _play_move("gozero warmup", config, with_a_clock=True)


def selftest(config: GtpConfig) -> int:
    """Play a move; print it and the time taken, or the error; returns the exit status."""
    return _play_move("gozero gtp --selftest", config, with_a_clock=False)


def _play_move(prog: str, config: GtpConfig, with_a_clock: bool) -> int:
    started = time.perf_counter()
    engine = Engine(config)
    try:
        with flags.exit_on_error(prog):
            action = engine.genmove(BLACK)
            first_seconds = time.perf_counter() - started
            if with_a_clock:
                engine.searcher.warm_up()
    except (ImportError, RuntimeError, AssertionError) as error:
        message = runtime.missing_device(error) or f"{type(error).__name__}: {error}"
        print(f"{prog}: {' '.join(message.split())}; `gozero doctor` reports more", file=sys.stderr)
        return 1
    move = "resign" if action is None else coords.to_gtp(engine.size, action)
    total = f", all in {time.perf_counter() - started:.1f} s" if with_a_clock else ""
    move_text = f"{engine.config.text} plays {move} on {engine.size}x{engine.size}"
    runtime.print_result(f"ok: {move_text}, {first_seconds:.1f} s from the start{total}")
    return 0
