"""Searches of many positions in lockstep, run in chunks, for queries of the analysis engine."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gozero.apps.analysis.query import MAX_PV
from gozero.apps.forecast import forecast
from gozero.apps.restricted import RestrictedState, without_avoided
from gozero.compile import executables
from gozero.games.go import go_game
from gozero.go.rules import GameState, Rules, play
from gozero.play.player_config import PlayerConfig
from gozero.play.setups import check_memory, make_setup
from gozero.search import search as searching
from gozero.search import tree as trees
from gozero.search.config import SearchConfig
from gozero.search.variations import lines_below

DETAILED = 12
"""The number of a position's moves that get a line, and that are forecast in one call."""


class Analysis(NamedTuple):
    """The results of a search for positions [B]; Q and values are for the player to move."""

    visits: jax.Array  # i32[B, A]
    q: jax.Array  # f32[B, A]
    prior: jax.Array  # f32[B, A]; negative where illegal
    value: jax.Array  # f32[B]
    ok: jax.Array  # bool[B]
    actions: jax.Array  # i32[B, M]: the most visited
    lines: jax.Array  # i32[B, M, L]: the moves expected after each
    line_visits: jax.Array  # i32[B, M, L]


class FullAnalysis(NamedTuple):
    """`Analysis`, and forecasts of how the games will end."""

    visits: jax.Array
    q: jax.Array
    prior: jax.Array
    value: jax.Array
    ok: jax.Array
    actions: jax.Array
    lines: jax.Array
    line_visits: jax.Array
    lead: jax.Array  # f32[B]: Black's
    ownership: jax.Array  # f32[B, N]: +1 Black's
    leads: Any  # f32[B, A]: Black's, after each action; NaN: there is no forecast
    ownerships: Any  # f32[B, M, N]: after each of `actions`; NaN: there is no forecast


def analysis_of(settings: SearchConfig, running: searching.Running) -> Analysis:
    """The results of a search so far. If a game has several trees, the lines are the first's."""
    result = searching.finish(running, settings)
    tree, num_trees = result.tree, settings.ensemble.trees if settings.ensemble else 1
    edges = trees.by_action(tree, trees.ROOT, tree.num_actions)
    actions = jax.lax.top_k(result.visits, min(DETAILED, tree.num_actions))[1]
    repeated = jnp.repeat(actions, num_trees, axis=0)
    nodes = jnp.take_along_axis(edges.nodes, repeated, axis=1)
    lines, visits = lines_below(tree, nodes, MAX_PV)
    prior = jnp.nan_to_num(edges.edges.prior[::num_trees], nan=-1.0, neginf=-1.0)
    return Analysis(
        result.visits,
        result.q,
        jnp.maximum(prior, -1.0),
        result.value,
        result.ok,
        actions,
        lines[::num_trees],
        visits[::num_trees],
    )


class Searches:
    """Searches under given rules; each number of positions is compiled once."""

    def __init__(self, rules: Rules, config: PlayerConfig, seed: int, score_playouts: int):
        setup = make_setup(rules, config, seed)
        self.settings = settings = setup.search
        forecast_games = forecast(rules, config.weights, score_playouts)
        game, evaluator = without_avoided(go_game(rules), setup.evaluator)
        self._params, evaluator = evaluator.params, evaluator._replace(params=None)

        def begin(params: Any, key: jax.Array, states: RestrictedState):
            return searching.begin(game, evaluator._replace(params=params), key, states, settings)

        def advance(params: Any, running: searching.Running, steps: jax.Array):
            with_params = evaluator._replace(params=params)
            return searching.advance(game, with_params, running, settings, steps)

        def analyse_root(
            running: searching.Running, key: jax.Array, states: GameState
        ) -> tuple[Analysis, jax.Array, jax.Array]:
            return analysis_of(settings, running), *forecast_games(key, states)

        def forecast_after(
            key: jax.Array, states: GameState, games: jax.Array, actions: jax.Array
        ) -> tuple[jax.Array, jax.Array]:
            """(leads f32[n], ownerships f32[n, N]) after actions i32[n] in games i32[n]."""
            before = jax.tree.map(lambda x: x[games], states)
            after = jax.vmap(lambda state, action: play(rules, state, action))(before, actions)
            return forecast_games(key, after)

        self._begin, self._analyse_root = executables.jit(begin), executables.jit(analyse_root)
        self._forecast_after = executables.jit(forecast_after)
        self.analyse = executables.jit(functools.partial(analysis_of, settings))
        self._advance = executables.jit(advance, donate_argnums=1)
        self._key = jax.random.key(seed)
        # (positions searched at once) -> the memory of their trees, as text
        self.check_memory = functools.partial(check_memory, rules, setup, False)
        self.compiled: set[int] = set()  # the numbers of positions compiled so far

    def compile(self, states: Sequence[RestrictedState]) -> None:
        """Compile searches of this many positions, if not done yet, so that a time limit covers
        only the search."""
        if len(states) not in self.compiled:
            running, games = self.begin(0, states)
            self.analyse_fully(self.advance(running, 1), games)
            self.compiled.add(len(states))

    def begin(
        self, number: int, states: Sequence[RestrictedState]
    ) -> tuple[searching.Running, GameState]:
        """Begin a search whose random streams `number` selects; returns (search, games)."""
        stacked = jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *states)
        key = jax.random.fold_in(self._key, number)
        return self._begin(self._params, key, stacked), stacked.state

    def advance(self, running: searching.Running, steps: int) -> searching.Running:
        """Run `steps` more steps, unless the search is at its end. `running` is donated."""
        running = self._advance(self._params, running, jnp.int32(steps))
        return jax.block_until_ready(running)

    def analyse_fully(
        self, running: searching.Running, states: GameState, earlier: FullAnalysis | None = None
    ) -> FullAnalysis:
        """The results so far with forecasts of all visited moves, on the host.

        Args:
          running, states: the search, and its games.
          earlier: earlier results of this search, whose leads need not be forecast again.
        """
        keys = jax.random.split(self._key)
        at_root = jax.device_get(self._analyse_root(running, keys[0], states))
        analysis: Analysis = at_root[0]
        lead, ownership = at_root[1:]
        visits, actions = np.asarray(analysis.visits), np.asarray(analysis.actions)
        (batch, width), num_actions = actions.shape, visits.shape[1]
        leads = (
            np.full(visits.shape, np.nan, np.float32) if earlier is None else earlier.leads.copy()
        )

        def forecast(games: np.ndarray, moves: np.ndarray) -> np.ndarray:
            after: Any = jax.device_get(self._forecast_after(keys[1], states, games, moves))
            leads[games, moves] = after[0]
            return after[1]

        ownerships = forecast(
            np.repeat(np.arange(batch, dtype=np.int32), width), actions.reshape(-1)
        )
        missing = np.flatnonzero((visits > 0) & np.isnan(leads)).astype(np.int32)
        for start in range(0, missing.size, batch * width):
            # As many as before, some of them twice, so that nothing is compiled again.
            some = np.resize(missing[start : start + batch * width], batch * width)
            forecast(some // num_actions, some % num_actions)
        ownerships = ownerships.reshape(batch, width, -1)
        return FullAnalysis(*analysis, lead, ownership, leads, ownerships)
