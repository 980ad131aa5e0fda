"""``gozero selfplay``: play games in lockstep, and write each as SGF (as text for games other than
Go) and as training rows."""

from __future__ import annotations

import sys

from gozero.apps import flags, runtime
from gozero.apps.selfplay.config import KIND, LOCK, SelfPlayFlags
from gozero.games import registry
from gozero.play.player_config import is_katago_network
from gozero.runs import folder as folders

PROG = "gozero selfplay"
__all__ = ["SelfPlayFlags", "run"]


def run(config: SelfPlayFlags) -> int:
    """Play the games; the exit status is 0, or 130 if stopped before the last one.

    Raises:
      SystemExit: one line; status 2 for an invalid flag, before any game is played, and 1 if the
        device is out of memory, or the folder cannot be written any more.
    """
    with folders.removed_if_empty(config.out):
        with flags.exit_on_error(PROG):
            if config.game != "go":
                registry.check(config.game, config.size)
            _check_folder(config)
        if config.evaluator == "network" and config.weights is None:
            print(runtime.random_network_message(game=config.game), file=sys.stderr)
        katago = is_katago_network(config.weights)
        message = runtime.compiling_message(config.size, config.game, katago)
        print(message, file=sys.stderr, flush=True)
        from gozero.apps.selfplay.play import play  # imports JAX, which takes seconds

        return play(config, PROG)


def _check_folder(config: SelfPlayFlags) -> None:
    """Check the folder before JAX is imported; the run itself checks again, and locks it.

    Raises:
      ValueError: it is not empty, and --resume is not given; or --resume is, and there is no run.
    """
    before = folders.read_config(config.out, KIND)
    if config.resume and before is None:
        raise ValueError(f"--resume: there is no run in {config.out}; omit --resume to start one")
    if not config.resume and before is not None:
        raise ValueError(
            f"out: {config.out} is not empty, and nothing is overwritten; name a new folder, or "
            "continue its run with --resume"
        )
    if not config.resume:
        folders.claim(config.out, folders.leftover_files(config.out, LOCK))
