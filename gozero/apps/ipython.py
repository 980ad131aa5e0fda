"""Registers pictures of our types with IPython, by name, so that nothing is imported early."""

from __future__ import annotations

import importlib
from typing import Any

PICTURES = {
    ("gozero.go.rules", "GameState"): "state_svg",
    ("gozero.search.search", "SearchResult"): "search_svg",
    ("gozero.play.arena", "MatchResult"): "match_svg",
}
"""The function of `notebook` that draws a type."""


def load_ipython_extension(shell: Any) -> None:
    """Show the picture of a cell's result of one of these types. `import gozero` calls this."""
    formatter = shell.display_formatter.formatters["image/svg+xml"]
    for (module, name), function in PICTURES.items():
        formatter.for_type_by_name(module, name, _drawer(function))


def _drawer(function: str):
    return lambda result: getattr(importlib.import_module("gozero.apps.notebook"), function)(result)
