"""The reports of the analysis commands, on endless searches and on those behind genmove.

Their programs are compiled on a background thread, while the engine answers commands.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gozero.apps.analysis.search import (
    Analysis,
    FullAnalysis,
    Searches,
    analysis_of,
)
from gozero.apps.forecast import forecast
from gozero.apps.gtp.background import InBackground
from gozero.apps.gtp.config import GtpConfig
from gozero.apps.gtp.protocol import Talk
from gozero.apps.gtp.search import CHECK_EVERY_S, Look, Searcher
from gozero.apps.restricted import RestrictedState
from gozero.compile import executables
from gozero.go.rules import GameState, Rules, play
from gozero.search.runner import next_chunk
from gozero.search.search import Running

_PLAYOUTS = 32
"""Playouts per position that forecast score and ownership, if the network does not."""

_FIRST_STEPS = 4


class Reports(NamedTuple):
    """What to report about a search while it runs."""

    interval: float  # seconds between two reports
    with_outlook: bool  # whether to report expected scores and ownership, too
    show: Callable[[FullAnalysis], None]


class Outlook:
    """Forecasts of how a game will end: from its position, and after each of some moves."""

    def __init__(self, rules: Rules, config: GtpConfig):
        forecast_games = forecast(rules, config.weights, _PLAYOUTS)
        batch_of_one = lambda state: jax.tree.map(lambda x: jnp.asarray(x)[None], state)
        self._key, self._rules = jax.random.key(config.seed), rules
        self._forecast_state = executables.jit(
            lambda key, state: forecast_games(key, batch_of_one(state))
        )
        self._play = executables.jit(lambda state, action: play(rules, state, action))

    def compile(self, state: GameState) -> None:
        """Compile what `begin` and `learn` need."""
        self._forecast(self._play(state, jnp.int32(self._rules.pass_action)))

    def begin(self, state: GameState) -> None:
        """Forecast this game; forecasts of an earlier one are dropped."""
        self._state, self._root = state, self._forecast(state)
        self._forecasts: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def _forecast(self, state: GameState) -> tuple[np.ndarray, np.ndarray]:
        lead, owners = jax.device_get(self._forecast_state(self._key, state))
        return lead[0], owners[0]

    def learn(self, analysis: Analysis) -> bool:
        """Forecast the game after one more of the search's visited moves, the most visited first;
        False if all are done."""
        by_visits = np.argsort(-analysis.visits, kind="stable")[: np.sum(analysis.visits > 0)]
        action = next((int(a) for a in by_visits if int(a) not in self._forecasts), None)
        if action is None:
            return False
        self._forecasts[action] = self._forecast(self._play(self._state, jnp.int32(action)))
        return True

    def add_forecasts(self, analysis: Analysis) -> FullAnalysis:
        """The search's results with the forecasts; missing ones are NaN."""
        return _combine(analysis, self._root, self._forecasts)


class Analyst:
    """Reports on searches under given rules. The clock is in seconds, from any origin."""

    def __init__(self, rules: Rules, config: GtpConfig, clock: Callable[[], float]):
        self._rules, self._config, self._clock = rules, config, clock
        self._jobs: dict[Any, InBackground] = {}
        self._analysers: dict[Searcher, Callable[[Running], Analysis]] = {}  # compiled

    @functools.cached_property
    def _searches(self) -> Searches:
        config = self._config.for_analysis()
        searches = Searches(self._rules, config, config.seed, _PLAYOUTS)
        print(f"gozero gtp: to analyse, {searches.check_memory(1)}", file=sys.stderr, flush=True)
        return searches

    @functools.cached_property
    def _outlook(self) -> Outlook:
        return Outlook(self._rules, self._config)

    def _is_done(self, name: Any, work: Callable[[], Any], seconds: float | None = 0.0) -> bool:
        """Whether a job is done, within `seconds`; the first call starts it."""
        if name not in self._jobs:
            self._jobs[name] = InBackground(work)
        return self._jobs[name].is_done(seconds)

    def _is_outlook_ready(self, state: GameState, seconds: float | None = 0.0) -> bool:
        return self._is_done("outlook", lambda: self._outlook.compile(state), seconds)

    def _is_search_ready(self, state: RestrictedState, seconds: float) -> bool:
        def work():
            running, _ = self._searches.begin(0, [state])
            self._searches.analyse(self._searches.advance(running, 1))

        return self._is_done("search", work, seconds)

    def analyse(self, state: RestrictedState, number: int, reports: Reports, talk: Talk) -> None:
        """Search a position until input arrives, and report the results.

        Args:
          state: the game, with the player to search for on turn, and the moves to avoid.
          number: selects the random stream.
          reports: what to report.
          talk: tells whether input has arrived.

        Raises:
          ValueError: the player has no tree, or its files do not fit.
        """
        if not talk.until(lambda seconds: self._is_search_ready(state, seconds)):
            return
        if reports.with_outlook and not talk.until(
            lambda seconds: self._is_outlook_ready(state.state, seconds)
        ):
            return
        outlook = self._outlook if reports.with_outlook else None
        if outlook is not None:
            outlook.begin(state.state)
        search, reported, wait = self._begin_search(number, state), self._clock(), 0.0
        while not talk.is_interrupted(wait):
            has_progressed = search.advance(self._clock)
            if outlook is not None and search.latest is not None:
                has_progressed |= outlook.learn(search.latest)
            now = self._clock()
            if now - reported >= reports.interval:
                reports.show(_with_forecasts(search.analyse(), outlook))
                reported = now
            wait = 0.0 if has_progressed else max(0.0, reported + reports.interval - now)

    def _begin_search(self, number: int, state: RestrictedState) -> _Search:
        return _Search(self._searches, self._searches.begin(number, [state])[0])

    def look(
        self, searcher: Searcher, state: GameState, reports: Reports, hurried: bool, talk: Talk
    ) -> Look:
        """The `Look` of a search behind genmove, which reports the results, also at its end.

        Args:
          searcher: the searcher that runs the search.
          state: the game, with the player to search for on turn.
          reports: what to report.
          hurried: whether time is short: then no report waits for a compilation.
          talk: tells whether the search must stop.
        """
        outlook, reported = None, self._clock()

        def look(running: Running, is_over: bool) -> bool:
            nonlocal outlook, reported
            is_stopped = talk.is_stopped()
            timeout = None if is_over and not (hurried or is_stopped) else 0.0
            is_ready = self._is_analyser_ready(searcher, running, timeout)
            if reports.with_outlook:
                is_ready &= self._is_outlook_ready(state, timeout)
            if not is_ready:
                return is_stopped
            if reports.with_outlook and outlook is None:
                outlook = self._outlook
                outlook.begin(state)
            if is_over or self._clock() - reported >= reports.interval:
                analysis = _first(self._analysers[searcher](running))
                if outlook is not None:
                    outlook.learn(analysis)
                reports.show(_with_forecasts(analysis, outlook))
                reported = self._clock()
            return is_stopped

        return look

    def _is_analyser_ready(
        self, searcher: Searcher, running: Running, seconds: float | None
    ) -> bool:
        shapes = jax.eval_shape(lambda x: x, running)

        def work():
            assert searcher.settings is not None  # it has a tree
            analyse = jax.jit(functools.partial(analysis_of, searcher.settings))
            self._analysers[searcher] = analyse.lower(shapes).compile()

        return self._is_done(searcher, work, seconds)


class _Search:
    """An endless search, run in chunks; after its last simulation it no longer changes."""

    def __init__(self, searches: Searches, running: Running):
        self._searches, self._running = searches, running
        self._chunk, self._done = _FIRST_STEPS, 0
        self._last = searches.settings.num_simulations // searches.settings.leaves
        self.latest: Analysis | None = None  # the last result reported

    def advance(self, clock: Callable[[], float]) -> bool:
        """Run some more steps; False if all are done."""
        if self._done >= self._last:
            return False
        before = clock()
        self._running = self._searches.advance(self._running, self._chunk)
        self._done += self._chunk
        self._chunk = next_chunk(self._chunk, clock() - before, CHECK_EVERY_S)
        return True

    def analyse(self) -> Analysis:
        """The result so far."""
        self.latest = _first(self._searches.analyse(self._running))
        return self.latest


def _first(analyses: Analysis) -> Analysis:
    """The first game's result, copied to the host."""
    return Analysis(*(field[0] for field in jax.device_get(analyses)))


def _with_forecasts(analysis: Analysis, outlook: Outlook | None) -> FullAnalysis:
    """The result with the forecasts, or with empty ones (0 and NaN) if there is no outlook."""
    if outlook is not None:
        return outlook.add_forecasts(analysis)
    return _combine(analysis, (np.float32(0), np.full(1, np.nan)), {})


def _combine(analysis: Analysis, root: tuple, after: dict[int, tuple]) -> FullAnalysis:
    (lead, owners), unknown = root, (np.nan, np.full_like(root[1], np.nan))
    leads = np.array([after.get(action, unknown)[0] for action in range(len(analysis.visits))])
    ownerships = np.array([after.get(int(action), unknown)[1] for action in analysis.actions])
    return FullAnalysis(*analysis, lead, owners, leads, ownerships)
