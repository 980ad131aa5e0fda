"""The reports of the analysis commands, on endless searches and on those behind genmove.

What they need compiled is compiled on a background thread, while the engine obeys commands.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gozero.apps.analysis.search import Analysis, Asked, Searches, Told, analysis_of
from gozero.apps.forecast import forecast
from gozero.apps.gtp.background import InBackground
from gozero.apps.gtp.config import GtpConfig
from gozero.apps.gtp.protocol import Talk
from gozero.apps.gtp.search import PIECE, Look, Searcher
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
    show: Callable[[Told], None]


class Outlook:
    """Forecasts of how a game will end: from its position, and after each of some moves."""

    def __init__(self, rules: Rules, config: GtpConfig):
        foresee = forecast(rules, config.weights, _PLAYOUTS)
        one = lambda state: jax.tree.map(lambda x: jnp.asarray(x)[None], state)
        self._key, self._rules = jax.random.key(config.seed), rules
        self._now = executables.jit(lambda key, state: foresee(key, one(state)))
        self._after = executables.jit(lambda state, action: play(rules, state, action))

    def compile(self, state: GameState) -> None:
        """Compile what `begin` and `learn` need."""
        self._foreseen(self._after(state, jnp.int32(self._rules.pass_action)))

    def begin(self, state: GameState) -> None:
        """Forecast this game; forecasts of an earlier one are dropped."""
        self._state, self._root = state, self._foreseen(state)
        self._known: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def _foreseen(self, state: GameState) -> tuple[np.ndarray, np.ndarray]:
        lead, owners = jax.device_get(self._now(self._key, state))
        return lead[0], owners[0]

    def learn(self, found: Analysis) -> bool:
        """Forecast the game after one more of the search's visited moves; False if none is left."""
        tried = found.actions[found.visits[found.actions] > 0]
        action = next((int(a) for a in tried if int(a) not in self._known), None)
        if action is None:
            return False
        self._known[action] = self._foreseen(self._after(self._state, jnp.int32(action)))
        return True

    def told(self, found: Analysis) -> Told:
        """The search's results with the forecasts; a missing lead is that of the root, a missing
        ownership NaN."""
        unknown = self._root[0], np.full_like(self._root[1], np.nan)
        each = [self._known.get(int(action), unknown) for action in found.actions]
        return _with_ends(found, self._root, each)


class Analyst:
    """Reports on searches under given rules. The clock is in seconds, from any origin."""

    def __init__(self, rules: Rules, config: GtpConfig, clock: Callable[[], float]):
        self._rules, self._config, self._clock = rules, config, clock
        self._jobs: dict[Any, InBackground] = {}
        self._tellers: dict[Searcher, Callable[[Running], Analysis]] = {}  # compiled

    @functools.cached_property
    def _searches(self) -> Searches:
        config = self._config.for_analysis()
        return Searches(self._rules, config, config.seed, _PLAYOUTS)

    @functools.cached_property
    def _outlook(self) -> Outlook:
        return Outlook(self._rules, self._config)

    def _is_done(self, name: Any, work: Callable[[], Any], seconds: float | None = 0.0) -> bool:
        """Whether a job is done, within `seconds`; it is started when it is first asked for."""
        if name not in self._jobs:
            self._jobs[name] = InBackground(work)
        return self._jobs[name].is_done(seconds)

    def _can_foresee(self, state: GameState, seconds: float | None = 0.0) -> bool:
        return self._is_done("outlook", lambda: self._outlook.compile(state), seconds)

    def _can_search(self, asked: Asked, seconds: float) -> bool:
        def work():
            running, _ = self._searches.begin(0, [asked])
            self._searches.found(self._searches.advance(running, 1))

        return self._is_done("search", work, seconds)

    def analyse(self, asked: Asked, number: int, reports: Reports, talk: Talk) -> None:
        """Search a position until input arrives, and report what is found.

        Args:
          asked: the game, with the player to search for on turn, and the moves to avoid.
          number: selects the random stream.
          reports: what to report.
          talk: knows whether input has come.

        Raises:
          ValueError: the player has no tree, or its files do not fit.
        """
        if not talk.until(lambda seconds: self._can_search(asked, seconds)):
            return
        if reports.with_outlook and not talk.until(
            lambda seconds: self._can_foresee(asked.state, seconds)
        ):
            return
        outlook = self._outlook if reports.with_outlook else None
        if outlook is not None:
            outlook.begin(asked.state)
        search, reported, wait = self._begun(number, asked), self._clock(), 0.0
        while not talk.is_interrupted(wait):
            is_at_work = search.advance(self._clock)
            if outlook is not None and search.found is not None:
                is_at_work |= outlook.learn(search.found)
            now = self._clock()
            if now - reported >= reports.interval:
                reports.show(_told(search.tell(), outlook))
                reported = now
            wait = 0.0 if is_at_work else max(0.0, reported + reports.interval - now)

    def _begun(self, number: int, asked: Asked) -> _Search:
        return _Search(self._searches, self._searches.begin(number, [asked])[0])

    def look(
        self, searcher: Searcher, state: GameState, reports: Reports, hurried: bool, talk: Talk
    ) -> Look:
        """The `Look` of a search behind genmove, which reports what is found, lastly at its end.

        Args:
          searcher: the searcher that runs the search.
          state: the game, with the player to search for on turn.
          reports: what to report.
          hurried: whether time is short: then no report waits for what is still being compiled.
          talk: knows whether the search is stopped.
        """
        outlook, reported, has_begun = None, self._clock(), False

        def look(running: Running, is_over: bool) -> bool:
            nonlocal outlook, reported, has_begun
            stopped = talk.is_stopped()
            patience = None if is_over and not (hurried or stopped) else 0.0
            ready = self._can_tell(searcher, running, patience)
            if reports.with_outlook:
                ready &= self._can_foresee(state, patience)
            if not ready:
                return stopped
            if reports.with_outlook and outlook is None:
                outlook = self._outlook
                outlook.begin(state)
            if is_over or self._clock() - reported >= reports.interval:
                found = _first(self._tellers[searcher](running))
                if outlook is not None and not hurried:
                    outlook.learn(found)
                reports.show(_told(found, outlook))
                reported = self._clock()
            return stopped

        return look

    def _can_tell(self, searcher: Searcher, running: Running, seconds: float | None) -> bool:
        shapes = jax.eval_shape(lambda x: x, running)

        def work():
            assert searcher.settings is not None  # it has a tree
            tell = jax.jit(functools.partial(analysis_of, searcher.settings))
            self._tellers[searcher] = tell.lower(shapes).compile()

        return self._is_done(searcher, work, seconds)


class _Search:
    """An endless search, run in pieces; after its last simulation it no longer changes."""

    def __init__(self, searches: Searches, running: Running):
        self._searches, self._running = searches, running
        self._chunk, self._done = _FIRST_STEPS, 0
        self._last = searches.settings.num_simulations // searches.settings.leaves
        self.found: Analysis | None = None  # the last result reported

    def advance(self, clock: Callable[[], float]) -> bool:
        """Run some more steps; False if all are done."""
        if self._done >= self._last:
            return False
        before = clock()
        self._running = self._searches.advance(self._running, self._chunk)
        self._done += self._chunk
        self._chunk = next_chunk(self._chunk, clock() - before, PIECE)
        return True

    def tell(self) -> Analysis:
        """The result so far."""
        self.found = _first(self._searches.found(self._running))
        return self.found


def _first(found: Analysis) -> Analysis:
    """The first game's result, copied to the host."""
    return Analysis(*(field[0] for field in jax.device_get(found)))


def _told(found: Analysis, outlook: Outlook | None) -> Told:
    """The result with the forecasts, or with empty ones (0 and NaN) if there is no outlook."""
    if outlook is not None:
        return outlook.told(found)
    nothing = np.float32(0), np.full(1, np.nan)
    return _with_ends(found, nothing, [nothing] * len(found.actions))


def _with_ends(found: Analysis, now: tuple, each: list[tuple]) -> Told:
    (lead, owners), (leads, ownerships) = now, map(np.array, zip(*each, strict=True))
    return Told(*found, lead, owners, leads, ownerships)
