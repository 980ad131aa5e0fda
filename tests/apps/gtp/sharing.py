"""Searchers that share their programs, so that each is compiled once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gozero.apps.gtp.search import Searcher


def sharing(make: Callable[..., Searcher], names: tuple[str, ...], key: Callable[..., Any]):
    """As `make`, but searchers with equal keys have the programs of the first one of them.

    Args:
      make: the class of the searchers.
      names: the attributes that are programs.
      key: the arguments -> all that the programs depend on.
    """
    first: dict[Any, dict] = {}

    def made(*arguments):
        own = make(*arguments)
        programs = {name: vars(own)[name] for name in names}
        vars(own).update(first.setdefault(key(*arguments), programs))
        return own

    return made
