"""The ``gozero`` command: a subcommand for each thing that the library does."""

from __future__ import annotations

import functools
import importlib
import sys
import threading
from collections.abc import Sequence

from gozero import __version__
from gozero.apps import flags, runtime
from gozero.compile import executables, expected

DESCRIPTION = (
    "Batched Monte-Carlo tree search for Go, in JAX. `gozero --version` prints the version."
)

_COMMANDS = {
    "selfplay": ("gozero.apps.selfplay.run", "SelfPlayFlags"),
    "gtp": ("gozero.apps.gtp.run", "GtpConfig"),
    "match": ("gozero.apps.match.run", "MatchConfig"),
    "play": ("gozero.apps.terminal", "PlayConfig"),
    "web": ("gozero.apps.web.run", "WebConfig"),
    "review": ("gozero.apps.review.run", "ReviewConfig"),
    "analyze": ("gozero.apps.analysis.run", "AnalyzeConfig"),
    "players": ("gozero.apps.players", "PlayersConfig"),
    "warmup": ("gozero.apps.gtp.ready", "WarmupConfig"),
    "doctor": ("gozero.apps.doctor", "DoctorConfig"),
}
"""Maps each command to the module with its ``run(config)`` and the class of its flags."""


_OF_ONE_GAME = ("gtp", "play", "web", "warmup")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; exit status 0, 1 for a failure, 2 for bad input, 130 if Ctrl-C stopped it."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments == ["--version"]:
        runtime.print_result(f"gozero {__version__}")
        return 0
    return runtime.status_of("gozero", lambda: _run(arguments))


def _run(arguments: list[str]) -> int:
    runtime.prepare(one_game=not {*arguments[:1]}.isdisjoint(_OF_ONE_GAME))
    # Only the command's own module is imported: a GTP front end waits for the first answer.
    names = arguments[:1] if arguments[:1] and arguments[0] in _COMMANDS else _COMMANDS
    modules = {name: importlib.import_module(_COMMANDS[name][0]) for name in names}
    classes = {name: getattr(module, _COMMANDS[name][1]) for name, module in modules.items()}
    config = flags.parse(classes, arguments, prog="gozero", description=DESCRIPTION)
    return modules[arguments[0]].run(config)


def program() -> None:
    """The entry point: run `main`, then exit without waiting for the device or other threads."""
    runtime.let_stderr_close()
    executables.keep(functools.partial(expected.load, sys.argv[1:]))
    try:
        status = main()
    except SystemExit as stop:
        if not isinstance(stop.code, int):
            raise
        status = stop.code
    if status in (runtime.STOPPED, runtime.TERMINATED) or threading.active_count() > 1:
        runtime.end_at_once(status)
    sys.exit(status)


if __name__ == "__main__":
    program()
