"""``gozero selfplay``: play games in batch, keep every one as SGF (of other games than Go, as text)
and as rows to learn from."""

from __future__ import annotations

import sys

from gozero.apps import flags, runtime
from gozero.apps.selfplay.config import KIND, LOCK, SelfPlayFlags
from gozero.games import registry
from gozero.runs import folder as folders

PROG = "gozero selfplay"
__all__ = ["SelfPlayFlags", "run"]


def run(config: SelfPlayFlags) -> int:
    """Play the games; the exit status: 0, or 130 if it was stopped before the last.

    Raises:
      SystemExit: one line; status 2 for a flag that cannot be, before anything is played, and
        1 if the device has not the memory, or the folder cannot be written any more.
    """
    with folders.gone_if_empty(config.out):
        with flags.failing(PROG):
            if config.game != "go":
                registry.check(config.game, config.size)
            _check_folder(config)
        if config.evaluator == "network" and config.weights is None:
            print(runtime.random_network(game=config.game), file=sys.stderr)
        print(runtime.compiling(config.size, config.game), file=sys.stderr, flush=True)
        from gozero.apps.selfplay.play import play  # JAX, which takes seconds

        return play(config, PROG)


def _check_folder(config: SelfPlayFlags) -> None:
    """Refuse a folder before JAX is imported; the run itself looks again, and locks it.

    Raises:
      ValueError: it holds something, and this is not to go on with it; or there is nothing.
    """
    before = folders.read_config(config.out, KIND)
    if config.resume and before is None:
        raise ValueError(f"--resume: there is no run in {config.out}; leave it out to begin one")
    if not config.resume and before is not None:
        raise ValueError(
            f"out: {config.out} is not empty; give a new folder, nothing is overwritten, or "
            "--resume to go on with the run there"
        )
    if not config.resume:
        folders.claim(config.out, folders.left_by_a_kill(config.out, LOCK))
