"""Temporal-difference search behind genmove: no tree; weights that the game's searches teach."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from gozero.apps.gtp.search import Found
from gozero.go.rules import GameState, Rules, init, with_to_play
from gozero.play.setups import TD_LANES
from gozero.td import td_search
from gozero.td import weights as shape_weights
from gozero.td.td import TdConfig
from gozero.td.td_search import Best, Params, TdSearchConfig

if TYPE_CHECKING:
    from gozero.apps.gtp.config import GtpConfig

_SIMULATIONS_A_LOOK = 2 * TD_LANES
"""Between two looks at the clock."""


class TdSearcher:
    """What `gtp_search.Searcher` is, for `--search td`.

    Within a limit of time the simulations are made in pieces, each of which goes on with what the
    one before has learnt.

    Args:
      rules: the rules.
      config: the flags.
      clock: seconds, from any moment on.

    Raises:
      ValueError: local shapes that are missing, damaged or for another size.
    """

    def __init__(
        self, rules: Rules, config: GtpConfig, clock: Callable[[], float] = time.monotonic
    ):
        learnt, _ = shape_weights.given(rules.size, config.shapes)
        all_ = TdSearchConfig(TdConfig(rules, learnt.shapes), config.simulations, TD_LANES)
        piece = dataclasses.replace(all_, simulations=min(_SIMULATIONS_A_LOOK, config.simulations))
        self._rules, self._clock, self._resign = rules, clock, config.resign
        self._params = td_search.params(learnt.shapes, learnt.weights)
        self._reuse, self._kept = config.reuse, None
        self._simulations, self._piece = config.simulations, piece.simulations
        self._key, self._warm = jax.random.key(config.seed), False

        def for_colour(function: Callable, params: Params, key, state: GameState, colour):
            return function(params, key, with_to_play(state, colour))

        jitted = lambda function: jax.jit(functools.partial(for_colour, function))
        self._search = jitted(functools.partial(td_search.search, all_))
        self._learn = jitted(functools.partial(td_search.learn, piece))
        self._best = jitted(functools.partial(td_search.best, all_))

    def warm_up(self) -> None:
        """Compile what a move within a limit of time needs, once, by choosing one."""
        if not self._warm:
            self._within(0.0, self._params, self._key, init(self._rules), jnp.int32(0))
            self._warm = True

    def search(
        self,
        state: GameState,
        colour: int,
        number: int,
        played: Sequence[int] | None = None,
        seconds: float | None = None,
    ) -> Found:
        """As `gtp_search.Searcher.search`."""
        key, mover = jax.random.fold_in(self._key, number), jnp.int32(colour)
        params, kept = self._params, self._kept
        if played is not None and kept is not None:
            params = params._replace(weights=kept)
        if seconds is None:
            found, weights = self._search(params, key, state, mover)
        else:
            found, weights = self._within(seconds, params, key, state, mover)
        self._kept = weights if self._reuse else None
        value = float(found.value)
        resigns = self._resign is not None and value < self._resign
        return Found(int(found.action), value, bool(np.isfinite(value)), resigns)

    def _within(
        self, seconds: float, params: Params, key: jax.Array, state: GameState, mover: jax.Array
    ) -> tuple[Best, jax.Array]:
        """A piece at least, and no more once another would take too long by the last one's time, or
        be more than all simulations."""
        end = self._clock() + seconds
        for number in range(self._simulations // self._piece):
            started = self._clock()
            weights = self._learn(params, jax.random.fold_in(key, number), state, mover)
            params = params._replace(weights=weights.block_until_ready())
            now = self._clock()
            if now + (now - started) > end:
                break
        return self._best(params, key, state, mover), params.weights
