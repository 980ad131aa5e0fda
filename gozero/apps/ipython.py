"""What IPython shows of our types, by their names: nothing is imported until one is shown."""

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
    """Cells that end in one of these types show its picture; `import gozero` in IPython does it."""
    formatter = shell.display_formatter.formatters["image/svg+xml"]
    for (module, name), function in PICTURES.items():
        formatter.for_type_by_name(module, name, _drawn_by(function))


def _drawn_by(function: str):
    return lambda shown: getattr(importlib.import_module("gozero.apps.notebook"), function)(shown)
