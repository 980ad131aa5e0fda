"""The searches of self-play and training, and what they become in a match."""

from __future__ import annotations

import dataclasses
from typing import Any

from gozero.search.config import SearchConfig
from gozero.search.game import Evaluator, Game
from gozero.search.root import board_alpha
from gozero.search.rules.forced import ForcedPlayouts
from gozero.search.rules.gumbel import GumbelInterior, GumbelRoot
from gozero.search.rules.puct import Puct


def puct_search(
    game: Game, evaluator: Evaluator, num_simulations: int, reuse_subtree: bool = False
) -> SearchConfig:
    """PUCT, or the evaluator's own rule, with Dirichlet noise at the root, which is scaled to the
    number of actions (without the pass)."""
    config = SearchConfig(
        num_simulations=num_simulations,
        select=evaluator.select or Puct(),
        dirichlet_fraction=0.25,
        dirichlet_alpha=board_alpha(game.num_actions - (game.points is not None)),
    )
    return config.for_reuse if reuse_subtree else config


def gumbel_search(
    num_simulations: int, max_considered: int = 16, leaves: int = 1, value_scale: float = 1.0
) -> SearchConfig:
    """The search used in training: the Gumbel root and interior of Danihelka et al. (2022).

    Values are results of games and are not rescaled: c_scale (`value_scale`) is 1 by default, as in
    that paper's Go experiments. For PUCT with noise see `puct_search`. With several
    leaves a step, each pending leaf counts as one visit (virtual loss 1), because the root counts
    visits.
    """
    parallel: dict[str, Any] = {"leaves": leaves, "virtual_loss": 1} if leaves > 1 else {}
    return SearchConfig(
        num_simulations=num_simulations,
        **parallel,
        root_select=GumbelRoot(max_considered, value_scale=value_scale, rescale=False),
        select=GumbelInterior(value_scale=value_scale, rescale=False),
    )


def to_win(search: SearchConfig, num_simulations: int | None = None) -> SearchConfig:
    """The same search without exploration at the root, optionally with another `num_simulations`.

    Removes Dirichlet noise, softened priors, forced playouts, a `GumbelRoot`'s Gumbel noise and the
    temperature of the move.
    """
    rule: Any = search.root_select
    if isinstance(rule, GumbelRoot):
        rule = dataclasses.replace(rule, scale=0.0)
    elif isinstance(rule, ForcedPlayouts):
        rule = None if rule.rule == search.select else rule.rule
    if num_simulations is not None:
        search = dataclasses.replace(search, num_simulations=num_simulations, capacity=None)
    return dataclasses.replace(
        search, root_select=rule, root_temperature=1.0, dirichlet_fraction=0.0, temperature=0.0
    )
