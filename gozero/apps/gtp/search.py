"""The searches behind genmove, compiled once per board size: tree, temporal-difference and others.

With reuse, results are kept for the next move: a tree, which is re-rooted ply by ply and always
stays in the same arrays; or the weights that the game's searches have learnt.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from gozero.apps.host_game import HostGame
from gozero.apps.restricted import RestrictedState, without_avoided
from gozero.compile import executables, mode
from gozero.games.go import go_game
from gozero.go.rules import GameState, Rules, init, legal_actions, with_to_play
from gozero.play import annealing, devices
from gozero.play.annealing import Annealing, Values
from gozero.play.openings import any_sensible_play
from gozero.play.player_config import TREELESS, num_tree_devices
from gozero.play.setups import check_memory, make_setup
from gozero.play.td_player import TD_LANES
from gozero.search import move_choice, over_devices, reuse
from gozero.search.by_step import SeparatePrograms, unsupported_reason
from gozero.search.config import SearchConfig
from gozero.search.runner import Budget, Runner, SearchPrograms, TwoPrograms, undivided
from gozero.search.search import Running, SearchResult
from gozero.search.tree import Tree
from gozero.td import td_search
from gozero.td import weights as shape_weights
from gozero.td.td import TdConfig
from gozero.td.td_search import Best, TdSearchConfig

if TYPE_CHECKING:
    from gozero.apps.gtp.config import GtpConfig

_FIRST_SIMULATIONS = 16
"""Simulations of a tree search before it first checks the clock and the input; at least a step."""

_SEPARATE_LEAVES, _SEPARATE_SIZE, _QUICK_COMPILE_SIZE = 8, 16, 10
"""With at least this many leaves per step and this board size, playouts on a CPU are a separate
program, compiled once. On smaller boards they compile fast enough, and the host's calls would take
about as long as the playouts. From the third size on, options that compile sooner are used, with
networks too; on smaller boards they cost more time per step than they are worth."""

CHECK_EVERY_S = 0.05
"""About how many seconds pass between two checks."""

Look = Callable[[Running, bool], bool]
"""Called with the search so far, between two chunks of it and at its end (the flag); returns
whether to end the search."""

_TD_CHUNK = 2 * TD_LANES


class SearchedMove(NamedTuple):
    """The result of a search, for the colour that it searched for."""

    action: int  # the most visited
    value: float  # in [-1, 1]
    ok: bool  # every evaluation was a finite number
    resigns: bool = False  # the value is below the resignation threshold, if there is one


def make_searcher(
    rules: Rules,
    config: GtpConfig,
    clock: Callable[[], float] = time.monotonic,
    avoids: bool = False,
) -> Searcher:
    """The search that the flags define, for one game at a time.

    Args:
      rules: the rules.
      config: the flags.
      clock: seconds, from any origin; for searches with a time limit.
      avoids: whether searches accept moves to avoid; nothing is then kept between them.

    Raises:
      ValueError: files are missing, damaged or for another size; or `avoids` without a tree.
    """
    if config.search in TREELESS:
        if avoids:
            raise ValueError(f"search {config.search} has no tree, so it cannot avoid moves")
        kinds = {"td": TdSearcher, "annealing": AnnealingSearcher, "random": RandomSearcher}
        return kinds[config.search](rules, config, clock)
    if not avoids:
        return TreeSearcher(rules, config, clock)
    config = dataclasses.replace(config, reuse=False, ponder=False)
    return TreeSearcher(rules, config, clock, avoids=True)


class Searcher:
    """The base of all searches: random streams, and the state kept from move to move.

    A subclass defines `_begin`, which makes the kept state; `_follow`, which advances it by an
    action that was played; `_search_all`, a search of all simulations; and `_search_within`, one
    with a time limit. These two return the fields of `SearchedMove` and the new kept state; their
    last argument is a `Look`, or None.
    """

    _begin: Callable[[], Any]
    _follow: Callable[[Any, int], Any]
    _search_all: Callable[..., tuple[tuple, Any]]
    _search_within: Callable[..., tuple[tuple, Any]]

    settings: SearchConfig | None = None
    """The settings of its tree; None if it has no tree."""

    def __init__(self, rules: Rules, config: GtpConfig):
        self._rules, self._reuse = rules, config.reuse
        self._key, self._warm = jax.random.key(config.seed), False
        self._kept: Any = None

    def warm_up(self) -> None:
        """Compile everything for a move with a time limit, once, by playing one."""
        if self._warm:
            return
        game, key = HostGame(self._rules), _stream(self._key, np.uint32(0))
        move, state = self._search_within(0.0, key, game.state, np.int32(0), self._begin(), None)
        self._follow(state, int(move[0]))
        game.play(0, game.rules.pass_action)
        game.wins_by_passing(1)
        self._warm = True

    def search(
        self,
        state: GameState,
        colour: int,
        number: int,
        played: Sequence[int] | None = None,
        seconds: float | None = None,
        look: Look | None = None,
        avoid: np.ndarray | None = None,
    ) -> SearchedMove:
        """Search a game that is not over, for a colour.

        Args:
          state: the game.
          colour: 0 Black, 1 White.
          number: selects the random stream.
          played: the actions since the last search, by the two colours in turn; None if this is
            another game, or there was no search.
          seconds: the time limit; None: run all simulations. A first tree search compiles before
            its time starts.
          look: called between two chunks of the search, if it has a tree.
          avoid: i32[2, A], see `RestrictedState`; only for searches made with `avoids`.
        """
        # The kept arrays are donated: if a search fails, the next one starts afresh.
        kept, self._kept = self._kept, None
        if kept is None or played is None:
            kept = self._begin()
        for action in played or ():
            kept = self._follow(kept, action)
        key, mover = _stream(self._key, np.uint32(number)), np.int32(colour)
        game = state if avoid is None else RestrictedState(state, avoid)
        if seconds is None:
            move, kept = self._search_all(key, game, mover, kept, look)
        else:
            move, kept = self._search_within(seconds, key, game, mover, kept, look)
        self._kept = kept if self._reuse else None
        action, value, ok, resigns = move
        return SearchedMove(int(action), float(value), bool(ok), bool(resigns))


def _mesh_of(num_trees: int) -> Mesh | None:
    """A mesh of as many devices as trees are worth being divided among; None for one device."""
    count = num_tree_devices(num_trees, jax.device_count()) if jax.process_count() == 1 else 1
    return None if count == 1 else devices.mesh_of(count)


def _on_one(look: Look, running: Running, is_last: bool) -> bool:
    """`look` at a copy, on one device, of a search of one position on several."""
    return look(jax.device_put(running, jax.devices()[0]), is_last)


def _to_search(state: GameState | RestrictedState, colour: jax.Array) -> Any:
    """The state with a colour to play, as a batch of one."""
    if isinstance(state, RestrictedState):
        state = state._replace(state=with_to_play(state.state, colour))
    else:
        state = with_to_play(state, colour)
    return jax.tree.map(lambda x: jnp.asarray(x)[None], state)


def _move_fields(resign: float | None, result: SearchResult) -> tuple:
    """The fields of `SearchedMove`."""
    resigns = move_choice.resignations(result.value, result.visits, result.q, resign)
    return result.action[0], result.value[0], result.ok[0], resigns[0]


def _programs(
    rules: Rules, config: GtpConfig, settings: SearchConfig, divide: Callable
) -> Callable[..., SearchPrograms]:
    """How a search is compiled: playouts of many leaves on a large board in a program of their own,
    on a CPU."""
    is_separate = config.evaluator == "playout" and rules.size >= _SEPARATE_SIZE
    is_separate &= settings.leaves >= _SEPARATE_LEAVES and mode.backend() == "cpu"
    if is_separate and unsupported_reason(settings) is None:
        return SeparatePrograms
    sooner = rules.size >= _QUICK_COMPILE_SIZE
    return functools.partial(TwoPrograms, sooner=sooner, divide=divide)


class TreeSearcher(Searcher):
    """`gozero.search`, run in chunks; see `make_searcher`."""

    def __init__(
        self,
        rules: Rules,
        config: GtpConfig,
        clock: Callable[[], float] = time.monotonic,
        avoids: bool = False,
    ):
        super().__init__(rules, config)
        setup = make_setup(rules, config, config.seed)
        game, evaluator = go_game(rules), setup.evaluator
        self.settings = settings = setup.search.for_reuse if config.reuse else setup.search
        self._mesh = mesh = _mesh_of(config.trees)
        divide, reroot = undivided, reuse.reroot
        if mesh is not None:
            divide, reroot = over_devices.dividing(mesh), over_devices.reroot_on(mesh)
            settings = over_devices.divided(settings, mesh)
            evaluator = evaluator._replace(params=over_devices.copied(mesh, evaluator.params))
        if avoids:
            game, evaluator = without_avoided(game, evaluator)

        chunk = max(_FIRST_SIMULATIONS // settings.leaves, 1)
        runner = lambda settings: Runner(
            game,
            evaluator,
            settings,
            chunk,
            clock,
            chunk_seconds=CHECK_EVERY_S,
            programs=_programs(rules, config, settings, divide),
            divide=divide,
        )
        self._runner = self._timed = runner(settings)
        # A player that ponders uses all of its time: the extra simulations help later searches.
        is_settled_early = settings.ensemble is None and settings.final_move == "visits"
        if is_settled_early and not (settings.prove or config.ponder):
            self._timed = runner(dataclasses.replace(settings, early_stop=True))
        self._to_search = executables.jit(_to_search)
        self._move_fields = executables.jit(functools.partial(_move_fields, config.resign))
        self._reroot = executables.jit(reroot, donate_argnums=0)
        # Print the memory before allocating the tree.
        on_devices = "" if mesh is None else f", on {mesh.size} devices"
        memory = f"{check_memory(rules, setup, config.reuse, 1)}{on_devices}"
        print(f"gozero gtp: {memory}", file=sys.stderr)
        self._begin = lambda: None
        if config.reuse:
            root = jax.eval_shape(lambda: _to_search(init(rules), jnp.int32(0)).position)
            empty_trees = functools.partial(reuse.empty, root, rules.num_actions, settings)
            self._begin = executables.jit(functools.partial(empty_trees, setup.prior_counts))

    def _follow(self, tree: Tree | None, action: int) -> Tree | None:
        return None if tree is None else self._reroot(tree, np.array([action], np.int32))

    def _search_all(self, *arguments: Any):
        return self._run(self._runner, Budget(), *arguments)

    def _search_within(self, seconds: float, *arguments: Any):
        return self._run(self._timed, Budget(seconds=seconds), *arguments)

    def _run(self, runner: Runner, budget: Budget, key, state, colour, tree, look: Look | None):
        states = self._to_search(state, colour)
        look = look if look is None or self._mesh is None else functools.partial(_on_one, look)
        result = runner.search(key, states, budget, tree, look=look)
        return self._move_fields(result._replace(tree=None)), result.tree if self._reuse else None


class TdSearcher(Searcher):
    """Temporal-difference search: no tree, but weights that are learnt from the simulations.

    With a time limit, the simulations are run in whole chunks, each of which continues from the
    weights that the previous one learnt: at most the largest multiple of a chunk within the limit.
    """

    def __init__(
        self, rules: Rules, config: GtpConfig, clock: Callable[[], float] = time.monotonic
    ):
        super().__init__(rules, config)
        learnt, _ = shape_weights.for_board(rules.size, config.shapes)
        full_search = TdSearchConfig(TdConfig(rules, learnt.shapes), config.simulations, TD_LANES)
        chunk = min(_TD_CHUNK, config.simulations)
        chunk_search = dataclasses.replace(full_search, simulations=chunk)
        self._clock, self._resign = clock, config.resign
        self._num_chunks = config.simulations // max(chunk, 1)
        self._params = td_search.params(learnt.shapes, learnt.weights)
        self._begin = lambda: self._params.weights
        self._follow = lambda weights, action: weights

        def for_colour(
            function: Callable, params: td_search.TdParams, key, state: GameState, colour
        ):
            return function(params, key, with_to_play(state, colour))

        jit_for_colour = lambda function: executables.jit(functools.partial(for_colour, function))
        self._search = jit_for_colour(functools.partial(td_search.search, full_search))
        self._learn = jit_for_colour(functools.partial(td_search.learn, chunk_search))
        self._best = jit_for_colour(functools.partial(td_search.best, full_search))

    def _search_all(self, key: jax.Array, state: GameState, colour, weights, look: Look | None):
        params = self._params._replace(weights=weights)
        best, weights = self._search(params, key, state, colour)
        return self._move_fields(best), weights

    def _search_within(
        self, seconds: float, key: jax.Array, state: GameState, colour, weights, look
    ):
        """Run at least one chunk, and more until all simulations are done or another chunk, if it
        took as long as the last, would exceed the time."""
        end = self._clock() + seconds
        params = self._params._replace(weights=weights)
        for number in range(self._num_chunks):
            started = self._clock()
            weights = self._learn(params, jax.random.fold_in(key, number), state, colour)
            params = params._replace(weights=weights.block_until_ready())
            now = self._clock()
            if now + (now - started) > end:
                break
        return self._move_fields(self._best(params, key, state, colour)), params.weights

    def _move_fields(self, best: Best) -> tuple:
        value = float(best.value)
        resigns = self._resign is not None and value < self._resign
        return best.action, value, np.isfinite(value), resigns


class AnnealingSearcher(Searcher):
    """Simulated annealing, a round of playouts at a time; keeps nothing for the next move.

    With a time limit, the temperature falls with the time spent or with the rounds done, whichever
    is further on.
    """

    def __init__(
        self, rules: Rules, config: GtpConfig, clock: Callable[[], float] = time.monotonic
    ):
        super().__init__(rules, config)
        self._annealing = own = Annealing(rules, config.simulations)
        self._clock, self._resign = clock, config.resign
        self._begin, self._follow = lambda: None, lambda kept, action: kept

        def to_search(state: GameState, colour) -> GameState:
            return jax.tree.map(lambda x: x[None], with_to_play(state, colour))

        def one_round(key, state: GameState, colour, number, left, values: Values) -> Values:
            return annealing.one_round(own, key, to_search(state, colour), number, left, values)

        def best(key, state: GameState, colour, values: Values):
            states = to_search(state, colour)
            legal = jax.vmap(functools.partial(legal_actions, rules))(states)
            action, value = annealing.best(own, key, states, legal, values)
            return action[0], value[0]

        self._round, self._best = executables.jit(one_round), executables.jit(best)

    def _search_all(self, *arguments: Any):
        return self._search_within(math.inf, *arguments)

    def _search_within(self, seconds: float, key, state: GameState, colour, kept: None, look):
        start, values = self._clock(), annealing.nothing(self._annealing, 1)
        seconds = max(seconds, 1e-9)  # with 0 seconds, one round is run
        for number in range(self._annealing.rounds):
            share = max(number / self._annealing.rounds, (self._clock() - start) / seconds)
            if number and share >= 1:
                break
            remaining = np.float32(max(1 - share, 0))
            values = self._round(key, state, colour, np.int32(number), remaining, values)
            values.visits.block_until_ready()
        action, value = self._best(key, state, colour, values)
        resigns = self._resign is not None and float(value) < self._resign
        return (action, value, True, resigns), kept


class RandomSearcher(Searcher):
    """No search: a random play that fills no eye of its own."""

    def __init__(
        self, rules: Rules, config: GtpConfig, clock: Callable[[], float] = time.monotonic
    ):
        super().__init__(rules, config)
        game = go_game(rules)

        def whole(key: jax.Array, state: GameState, colour: jax.Array, kept: None):
            states = jax.tree.map(lambda x: x[None], with_to_play(state, colour))
            action = any_sensible_play(game, key, states, jax.vmap(game.legal)(states))
            return (action[0], jnp.float32(0), jnp.bool_(True), jnp.bool_(False)), kept

        compiled = executables.jit(whole)
        self._search_all = lambda *arguments: compiled(*arguments[:-1])
        self._search_within = lambda seconds, *arguments: self._search_all(*arguments)
        self._begin, self._follow = lambda: None, lambda kept, action: kept


_stream = executables.jit(jax.random.fold_in)
