"""Playout cap randomisation: at some moves a full search, at most of them a cheap one."""

from __future__ import annotations

import dataclasses

import jax

from gozero.search.config import SearchConfig


@dataclasses.dataclass(frozen=True)
class PlayoutCap:
    """How often a move is searched in full.

    Wu (2019), section 3.1: a policy target wants many simulations, a value target many games. So a
    full search is made at a share of the moves only, and only it is learnt from. The games of
    a batch keep step, and a batch takes as long as its slowest search: one draw decides for all
    of them, at each move anew.

    Attributes:
      cheap: the search of the other moves; `searches.to_win` makes one.
      full_share: the probability of a full search.

    Raises:
      ValueError: naming the field, what it was and what is allowed.
    """

    cheap: SearchConfig
    full_share: float = 0.25

    def __post_init__(self):
        if not 0 < self.full_share <= 1:
            raise ValueError(f"full_share: {self.full_share} is not above 0 and at most 1")

    def is_full(self, key: jax.Array) -> jax.Array:
        """bool[]: whether the next search of the batch is a full one."""
        return jax.random.bernoulli(key, self.full_share)
