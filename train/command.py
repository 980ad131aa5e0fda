"""``python -m train``: runs the module of the given command."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

from gozero.apps import help
from gozero.apps.flags import fail

_ABOUT = "Train networks by self-play, and evaluate the results."
_COMMANDS = {
    "--preset NAME": "Train by self-play, or continue a run that was stopped.",
    "--game NAME": "Short for the preset of a game: connect4 or hex.",
    "--preset NAME --dry-run": "The cost of such a run on devices that need not be present.",
    "evaluate": "Rate the networks of a run.",
    "plots": "Plot the metrics of a run.",
    "average": "Average the weights of several networks of one training.",
    "worker": "Play games for a run, on another device or machine.",
    "status": "Report the state of a run and its workers.",
    "--data DIR": "Train on the games of `gozero selfplay`.",
}
_EXAMPLES = (
    "python -m train --preset 3x3 --out runs/zero",
    "python -m train --data runs/selfplay --steps 1000",
)
_MODULES = {
    "evaluate": "train.evaluate",
    "plots": "train.plots",
    "average": "train.average",
    "worker": "train.worker",
    "status": "train.status",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run that command; returns its exit status."""
    argv = sys.argv[1:] if argv is None else list(argv)
    if argv in ([], ["-h"], ["--help"]):
        print(help.text_of_commands(_COMMANDS, "python -m train", _ABOUT, _EXAMPLES), end="")
        return 0 if argv else 2
    if argv[0] in _MODULES:
        return importlib.import_module(_MODULES[argv[0]]).main(argv[1:])
    flags = [argument.partition("=")[0] for argument in argv]
    if not {"--preset", "--game", "--data", "--dry-run", "-h", "--help"} & {*flags}:
        fail(
            "python -m train",
            "give --preset NAME, to train by self-play or to continue such a run, or --data DIR, "
            "to train on the games of `gozero selfplay`",
        )
    module = "train.run" if {"--preset", "--game"} & {*flags} else "train.supervised"
    module = "train.dry_run" if "--dry-run" in flags else module
    return importlib.import_module(module).main(argv)
