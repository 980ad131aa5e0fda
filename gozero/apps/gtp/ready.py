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
    """Compile and say how long it took; returns 1, after a line on stderr, on failure."""
    return _played("gozero warmup", config, with_a_clock=True)


def selftest(config: GtpConfig) -> int:
    """Play a move; print it and the time taken, or what is wrong; returns the exit status."""
    return _played("gozero gtp --selftest", config, with_a_clock=False)


def _played(prog: str, config: GtpConfig, with_a_clock: bool) -> int:
    started = time.perf_counter()
    engine = Engine(config)
    try:
        with flags.failing(prog):
            action = engine.genmove(BLACK)
            first = time.perf_counter() - started
            if with_a_clock:
                engine.searcher.warm_up()
    except (ImportError, RuntimeError, AssertionError) as error:
        said = runtime.missing_device(error) or f"{type(error).__name__}: {error}"
        print(f"{prog}: {' '.join(said.split())}; `gozero doctor` says more", file=sys.stderr)
        return 1
    move = "resign" if action is None else coords.to_gtp(engine.size, action)
    then = f", all in {time.perf_counter() - started:.1f} s" if with_a_clock else ""
    played = f"{engine.config.text} plays {move} on {engine.size}x{engine.size}"
    runtime.tell(f"ok: {played}, {first:.1f} s from the start{then}")
    return 0
