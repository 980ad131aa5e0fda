"""Lockstep Monte-Carlo tree search of any two-player game. Knows no Go.

The package is also the function: ``gozero.search(game, evaluate, ...)`` runs a search, and
``gozero.search.selection`` and the other modules are where they always are.
"""

from __future__ import annotations

import sys
import types
from typing import Any


class _CallablePackage(types.ModuleType):
    def __call__(self, *args: Any, **kwargs: Any):
        from gozero.search.search import search

        return search(*args, **kwargs)


sys.modules[__name__].__class__ = _CallablePackage
