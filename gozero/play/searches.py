"""Searches that self-play, training and matches have in common."""

from __future__ import annotations

import dataclasses
from typing import Any

from gozero.search.config import SearchConfig
from gozero.search.rules.gumbel import GumbelInterior, GumbelRoot


def gumbel_search(num_simulations: int, max_considered: int = 16) -> SearchConfig:
    """The search that training uses: the Gumbel root and interior of Danihelka et al. (2022).

    Values are results of games and are not stretched: c_scale 1, as that paper has it for Go. For
    PUCT with noise there is `selfplay.search_config`.
    """
    return SearchConfig(
        num_simulations=num_simulations,
        root_select=GumbelRoot(max_considered, value_scale=1.0, rescale=False),
        select=GumbelInterior(value_scale=1.0, rescale=False),
    )


def to_win(search: SearchConfig, num_simulations: int | None = None) -> SearchConfig:
    """The same search without what explores, and with other simulations if they are given.

    Dirichlet noise, softened priors and the Gumbel noise of a `GumbelRoot` go.
    """
    rule: Any = search.root_select
    if hasattr(rule, "scale"):
        rule = dataclasses.replace(rule, scale=0.0)
    if num_simulations is not None:
        search = dataclasses.replace(search, num_simulations=num_simulations, capacity=None)
    return dataclasses.replace(
        search, root_select=rule, root_temperature=1.0, dirichlet_fraction=0.0
    )
