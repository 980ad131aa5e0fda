"""``python -m train``: which of its works is asked for."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

USAGE = """\
usage: python -m train --preset NAME [--out DIR] ...    learn from self-play, or go on with it
       python -m train evaluate --out DIR ...           rate the networks of such a run
       python -m train plots --out DIR                  draw what came of it
       python -m train worker --out DIR ...             play for it, elsewhere
       python -m train --data DIR --steps N ...         learn from the games of gozero selfplay

Each has its flags: add --help.
"""

_BY_WORD = {
    "evaluate": "train.evaluate",
    "plots": "train.plots",
    "worker": "train.worker",
}


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status of that work."""
    argv = sys.argv[1:] if argv is None else list(argv)
    if argv in ([], ["-h"], ["--help"]):
        print(USAGE, end="")
        return 0 if argv else 2
    if argv[0] in _BY_WORD:
        return importlib.import_module(_BY_WORD[argv[0]]).main(argv[1:])
    asked = [argument.partition("=")[0] for argument in argv]
    work = "train.run" if "--preset" in asked else "train.supervised"
    return importlib.import_module(work).main(argv)
