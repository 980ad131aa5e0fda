"""The search behind genmove: one tree, compiled once for a board size.

With reuse the tree stays, and is re-rooted ply by ply: all of its life in the same arrays.
"""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gozero.apps.host_game import HostGame
from gozero.games.go import go_game
from gozero.go.rules import GameState, Rules, init, with_to_play
from gozero.play.setups import make_setup
from gozero.search import move_choice, reuse
from gozero.search.config import SearchConfig
from gozero.search.memory import memory_of
from gozero.search.runner import Budget, Runner
from gozero.search.search import SearchResult, search
from gozero.search.tree import Tree

if TYPE_CHECKING:
    from gozero.apps.gtp.config import GtpConfig

_SIMULATIONS_A_LOOK = 16
"""Between two looks at the clock, but a step at least."""


class Found(NamedTuple):
    """What a search says of the root, for the colour that it searched for."""

    action: int  # the most visited
    value: float  # in [-1, 1]
    ok: bool  # every evaluation was a finite number
    resigns: bool = False  # the position is worth less than the threshold, if there is one


class Searcher:
    """`gozero.search` for single games under some rules.

    Args:
      rules: the rules.
      config: the flags.
      clock: seconds, from any moment on; for searches that have a limit of time.

    Raises:
      ValueError: files that are missing, damaged or for another size.
    """

    def __init__(
        self, rules: Rules, config: GtpConfig, clock: Callable[[], float] = time.monotonic
    ):
        setup = make_setup(rules, config, config.seed)
        evaluator, settings = setup.evaluator, setup.search
        game = go_game(rules)
        if config.reuse:
            settings = settings.roomy

        def to_search(state: GameState, colour: jax.Array) -> GameState:
            return jax.tree.map(lambda x: x[None], with_to_play(state, colour))

        def told(result: SearchResult) -> tuple:
            """What `Found` is made of."""
            resigns = move_choice.resignations(result.value, result.visits, result.q, config.resign)
            return result.action[0], result.value[0], result.ok[0], resigns[0]

        def one_tree(params, key: jax.Array, state: GameState, colour: jax.Array, tree):
            states = to_search(state, colour)
            result = search(game, evaluator._replace(params=params), key, states, settings, tree)
            return told(result), result.tree if config.reuse else None

        self._search = jax.jit(one_tree, donate_argnames="tree")
        early = dataclasses.replace(settings, early_stop=settings.ensemble is None)
        chunk = max(_SIMULATIONS_A_LOOK // settings.leaves, 1)
        self._timed = Runner(game, evaluator, early, chunk, clock)
        self._to_search, self._told = jax.jit(to_search), jax.jit(told)
        self._reroot = jax.jit(reuse.reroot, donate_argnums=0)
        self._new_tree = _new_tree(rules, settings, setup.prior_counts) if config.reuse else None
        self._tree: Tree | None = None
        self._params = evaluator.params
        self._rules, self._warm = rules, False
        self._key = jax.random.key(config.seed)

    def warm_up(self) -> None:
        """Compile what a move within a limit of time needs, once, by playing one."""
        if self._warm:
            return
        game = HostGame(self._rules)
        tree = self._new_tree() if self._new_tree is not None else None
        found, tree = self._within(0.0, self._key, game.state, 0, tree)
        if tree is not None:
            self._reroot(tree, np.array([int(found[0])], np.int32))
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
    ) -> Found:
        """Search a game that is not over, for a colour.

        Args:
          state: the game.
          colour: 0 Black, 1 White.
          number: picks the random stream.
          played: the actions since the last search, by either colour in turn; None if this is
            another game, or there was no search.
          seconds: what the search may take; None: it does all of its simulations. A first search
            is compiled before that.
        """
        # The arrays are handed on: if a search fails, the next one starts anew.
        tree, self._tree = self._tree, None
        if self._new_tree is not None and (tree is None or played is None):
            tree = self._new_tree()
        for action in played or ():
            if tree is not None:
                tree = self._reroot(tree, np.array([action], np.int32))
        key = jax.random.fold_in(self._key, number)
        if seconds is None:
            found, self._tree = self._search(self._params, key, state, jnp.int32(colour), tree)
        else:
            found, self._tree = self._within(seconds, key, state, colour, tree)
        action, value, ok, resigns = found
        return Found(int(action), float(value), bool(ok), bool(resigns))

    def _within(self, seconds: float, key: jax.Array, state: GameState, colour: int, tree):
        states = self._to_search(state, jnp.int32(colour))
        limits = Budget(seconds=seconds)
        result = self._timed.search(key, states, limits, tree)
        kept = result.tree if self._new_tree is not None else None
        return self._told(result._replace(tree=None)), kept


def _new_tree(rules: Rules, settings: SearchConfig, prior_counts: bool) -> Callable[[], Tree]:
    """What makes an empty tree; says on stderr what one takes, before any is made."""
    state = jax.eval_shape(lambda: jax.tree.map(lambda x: jnp.asarray(x)[None], init(rules)))
    memory = memory_of(state.position, rules.num_actions, settings, True, prior_counts)
    print(f"gozero gtp: a tree of {settings.num_nodes} nodes: {memory}", file=sys.stderr)
    return jax.jit(lambda: reuse.empty(state.position, rules.num_actions, settings, prior_counts))
