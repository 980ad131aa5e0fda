"""A search player of many games at once: one compiled search of a fixed number of lanes.

The host keeps the games, and says which lanes have one to move in; the other lanes are searched
along with them, for a batch has one shape, and what is found there is thrown away.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gozero.go.rules import GameState, Rules, init
from gozero.players.go_game import go_game
from gozero.players.setups import Setup
from gozero.search import footprint, move_choice, reuse
from gozero.search.footprint import Memory
from gozero.search.search import search
from gozero.search.tree import Tree

NO_MOVE = -1
PLIES = 2
"""Between two searches of a game: our move and the answer."""


class Moves(NamedTuple):
    """What was found in the lanes that were asked for."""

    action: np.ndarray  # i32[L]: the most visited
    value: np.ndarray  # f32[L] in [-1, 1], for the player to move
    ok: np.ndarray  # bool[L]: every evaluation was a finite number
    resigns: np.ndarray  # bool[L]: by the setup's threshold, if it has one


class LockstepPlayer:
    """`gozero.search` for up to L games under some rules, compiled once.

    Args:
      rules: the rules.
      setup: what searches.
      lanes: L.
      key: PRNG key; no two searches of this player draw the same.
      reuse_subtree: a search goes on from what the last one found in its lane.

    Raises:
      ValueError: no lanes.
    """

    def __init__(
        self,
        rules: Rules,
        setup: Setup,
        lanes: int,
        key: jax.Array,
        reuse_subtree: bool = False,
    ):
        if lanes < 1:
            raise ValueError(f"lanes: {lanes} is not at least 1")
        self.lanes, self.num_actions, self.reuses = lanes, rules.num_actions, reuse_subtree
        self._evaluator, self._guesses = setup.evaluator, setup.guesses
        self._resign = setup.resign
        self._game = go_game(rules, setup.evaluator.observe)
        self.config = setup.search.roomy if reuse_subtree else setup.search
        self._key, self.num_searches = key, 0
        start = jax.tree.map(np.asarray, init(rules))
        self._idle = jax.tree.map(lambda x: np.broadcast_to(x, (lanes, *x.shape)).copy(), start)
        self._jitted = jax.jit(self._in_all_lanes, donate_argnames="tree")
        self._search: Callable = self._jitted

    def memory(self) -> Memory:
        """What the trees of one search take."""
        return footprint.memory(
            self._idle.position, self.num_actions, self.config, self.reuses, self._guesses
        )

    def new_trees(self) -> Tree | None:
        """Empty trees for L games; None if they are not reused."""
        return jax.jit(self._empty)() if self.reuses else None

    def _empty(self) -> Tree:
        return reuse.empty(self._idle.position, self.num_actions, self.config, self._guesses)

    def _blank(self) -> tuple[np.ndarray, np.ndarray]:
        """Which lanes are asked for, and what was played in them: none, nothing."""
        return np.zeros(self.lanes, bool), np.full((PLIES, self.lanes), NO_MOVE, np.int32)

    def compile(self) -> None:
        """Compile the search, before a clock runs."""
        tree = None if not self.reuses else jax.eval_shape(self._empty)
        active, played = self._blank()
        args = self._evaluator.params, self._key, self._idle, active, played
        self._search = self._jitted.lower(*args, tree=tree).compile()

    def choose(
        self,
        states: Mapping[int, GameState],
        tree: Tree | None = None,
        since: Mapping[int, Sequence[int]] | None = None,
    ) -> tuple[Moves, Tree | None]:
        """Search the games of some lanes, none of them over.

        Args:
          states: lane -> game.
          tree: what the last search of these lanes returned, or `new_trees`; used up.
          since: lane -> the two actions of the game since the lane's last search; a lane that is
            not here starts anew. Of no meaning without trees.

        Returns:
          The moves, of meaning in the lanes of `states`, and the trees for the next call; those
          of other lanes are as they were.
        """
        for lane, state in states.items():
            jax.tree.map(lambda all_, one, i=lane: all_.__setitem__(i, one), self._idle, state)
        active, played = self._blank()
        active[list(states)] = True
        for lane, actions in (since or {}).items():
            played[:, lane] = actions
        key = jax.random.fold_in(self._key, self.num_searches)
        self.num_searches += 1
        # The lanes are copied: an asynchronous transfer may still read them when they are filled.
        lanes = jax.tree.map(np.copy, self._idle)
        moves, tree = self._search(self._evaluator.params, key, lanes, active, played, tree=tree)
        return Moves(*jax.device_get(moves)), tree

    def _in_all_lanes(self, params: Any, key, states: GameState, active, played, tree):
        """(what `Moves` has, the trees of the next call)."""
        start = tree
        if start is not None:
            for ply in range(PLIES):
                start = reuse.reroot(start, played[ply])
        evaluate, config = self._evaluator.evaluate, self.config
        found = search(
            self._game, evaluate, params, key, states, states.position, config, tree=start
        )
        if tree is not None:
            tree = _chosen(active, found.tree, tree)
        resigns = move_choice.resignations(found.value, found.visits, found.q, self._resign)
        return (found.action, found.value, found.ok, resigns & found.ok), tree


def _chosen(active: jax.Array, new: Tree, old: Tree) -> Tree:
    """The trees of `new` in the lanes bool[L], elsewhere those of `old`."""

    def choose(x, y):
        mask = jnp.repeat(active, x.shape[0] // active.shape[0], total_repeat_length=x.shape[0])
        return jnp.where(mask.reshape(-1, *[1] * (x.ndim - 1)), x, y)

    return jax.tree.map(choose, new, old)
