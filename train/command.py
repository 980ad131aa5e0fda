"""``python -m train``: which of its works is asked for."""

from __future__ import annotations

import importlib
import sys


def main() -> int:
    """The exit status of that work."""
    asked = [argument.partition("=")[0] for argument in sys.argv[1:]]
    work = "train.zero.run" if "--preset" in asked else "train.run"
    return importlib.import_module(work).main()
