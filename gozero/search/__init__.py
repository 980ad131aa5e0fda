"""Lockstep Monte-Carlo tree search of any two-player game. Knows no Go.

The package is also the function: ``gozero.search(game, evaluate, params, key, contexts, roots,
config, tree=None)`` runs a search (``help(gozero.search.search.search)`` says all of it), and
``gozero.search.selection`` and the other modules are where they always are.
``gozero.search.memory(roots, num_actions, config)`` says what a search takes.
"""

from __future__ import annotations

import sys
import types
from typing import Any


class _CallablePackage(types.ModuleType):
    def __call__(self, *args: Any, **kwargs: Any):
        from gozero.search.search import search

        return search(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name != "memory":
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        from gozero.search.footprint import memory

        return memory


sys.modules[__name__].__class__ = _CallablePackage
