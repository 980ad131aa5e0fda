"""``python -m train``: which of its works is asked for."""

from __future__ import annotations

import importlib
import sys

_BY_WORD = {
    "evaluate": "train.zero.league",
    "plots": "train.zero.plots",
    "worker": "train.zero.worker",
}


def main() -> int:
    """The exit status of that work."""
    first = sys.argv[1] if len(sys.argv) > 1 else ""
    if first in _BY_WORD:
        return importlib.import_module(_BY_WORD[first]).main(sys.argv[2:])
    asked = [argument.partition("=")[0] for argument in sys.argv[1:]]
    work = "train.zero.run" if "--preset" in asked else "train.run"
    return importlib.import_module(work).main()
