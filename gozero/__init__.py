"""Batched Monte-Carlo tree search for Go, in JAX.

Names are loaded on first use: importing gozero neither starts JAX's backend nor compiles anything.
"""

from __future__ import annotations

import importlib
import sys
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gozero.games.connect_four import connect_four_game
    from gozero.games.go import go_game
    from gozero.games.hex import hex_game
    from gozero.games.mctx import from_mctx, gumbel_muzero_policy
    from gozero.games.pgx import pgx_game
    from gozero.games.registry import make_game
    from gozero.games.rollouts import rollout_evaluator
    from gozero.go.rules import GameState, Position, Rules, init, legal_actions, play, stones
    from gozero.go.scoring import area_score, ownership
    from gozero.go.setup import from_stones, with_handicap
    from gozero.play.evaluators import playout_evaluator
    from gozero.play.networks import network_evaluator
    from gozero.playouts.policies.uniform import uniform_playouts
    from gozero.search.config import SearchConfig
    from gozero.search.game import Evaluation, Evaluator, Game, History, Symmetries
    from gozero.search.memory import search_memory
    from gozero.search.search import SearchResult, search

__version__ = "0.2.0"

_HOME = {
    "GameState": "gozero.go.rules",
    "Position": "gozero.go.rules",
    "Rules": "gozero.go.rules",
    "init": "gozero.go.rules",
    "legal_actions": "gozero.go.rules",
    "play": "gozero.go.rules",
    "stones": "gozero.go.rules",
    "area_score": "gozero.go.scoring",
    "ownership": "gozero.go.scoring",
    "uniform_playouts": "gozero.playouts.policies.uniform",
    "from_stones": "gozero.go.setup",
    "with_handicap": "gozero.go.setup",
    "Evaluation": "gozero.search.game",
    "Game": "gozero.search.game",
    "SearchConfig": "gozero.search.config",
    "SearchResult": "gozero.search.search",
    "Evaluator": "gozero.search.game",
    "History": "gozero.search.game",
    "Symmetries": "gozero.search.game",
    "search_memory": "gozero.search.memory",
    "network_evaluator": "gozero.play.networks",
    "playout_evaluator": "gozero.play.evaluators",
    "go_game": "gozero.games.go",
    "connect_four_game": "gozero.games.connect_four",
    "hex_game": "gozero.games.hex",
    "make_game": "gozero.games.registry",
    "from_mctx": "gozero.games.mctx",
    "gumbel_muzero_policy": "gozero.games.mctx",
    "pgx_game": "gozero.games.pgx",
    "rollout_evaluator": "gozero.games.rollouts",
}

__all__ = [
    "Evaluation",
    "Evaluator",
    "Game",
    "GameState",
    "History",
    "Position",
    "Rules",
    "SearchConfig",
    "SearchResult",
    "Symmetries",
    "__version__",
    "area_score",
    "connect_four_game",
    "from_mctx",
    "from_stones",
    "go_game",
    "gumbel_muzero_policy",
    "hex_game",
    "init",
    "legal_actions",
    "make_game",
    "network_evaluator",
    "ownership",
    "pgx_game",
    "play",
    "playout_evaluator",
    "rollout_evaluator",
    "search",
    "search_memory",
    "stones",
    "uniform_playouts",
    "with_handicap",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'gozero' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


def _function_beside_its_package(name: str, module: str) -> property:
    """`gozero.NAME` is the function; ``from gozero.NAME import ...`` still finds the package.

    After loading a subpackage the import system assigns it to its parent under its name; the
    setter ignores that assignment.
    """

    def load(package: types.ModuleType) -> Any:
        try:
            return getattr(importlib.import_module(module), name)
        except AttributeError as error:  # Python would ask __getattr__, and hide the error
            raise ImportError(f"{module} cannot be imported: {error}") from error

    return property(load, lambda package, loaded: None)


class _Package(types.ModuleType):
    search = _function_beside_its_package("search", "gozero.search.search")
    play = _function_beside_its_package("play", "gozero.go.rules")


sys.modules[__name__].__class__ = _Package

if (_ipython := sys.modules.get("IPython")) and (_shell := _ipython.get_ipython()):
    importlib.import_module("gozero.apps.ipython").load_ipython_extension(_shell)
