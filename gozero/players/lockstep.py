"""A player in many games at once: his choice compiled once, for a fixed number of lanes.

The host keeps the games, and says which lanes have one to move in; in the other lanes he chooses
along with them, for a batch has one shape, and what comes of it there is thrown away.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gozero.go.rules import GameState, Rules, init, legal_actions
from gozero.players.player import NO_ACTION, Player, Turn

PLIES = 2
"""Between two turns in a game: his move and the answer."""


class Moves(NamedTuple):
    """What he does in the lanes that were asked for."""

    action: np.ndarray  # i32[L]
    ok: np.ndarray  # bool[L]: every evaluation was a finite number
    resigns: np.ndarray  # bool[L]


class LockstepPlayer:
    """A player in up to L games under some rules.

    Args:
      rules: the rules.
      player: who plays.
      lanes: L.
      key: PRNG key; no two choices draw the same.

    Raises:
      ValueError: no lanes.
    """

    def __init__(self, rules: Rules, player: Player, lanes: int, key: jax.Array):
        if lanes < 1:
            raise ValueError(f"lanes: {lanes} is not at least 1")
        self.lanes, self._rules, self._player = lanes, rules, player
        self._key, self.num_choices = key, 0
        start = jax.tree.map(np.asarray, init(rules))
        self._idle = jax.tree.map(lambda x: np.broadcast_to(x, (lanes, *x.shape)).copy(), start)
        self._jitted = jax.jit(self._in_all_lanes, donate_argnames="memory")
        self._choose: Callable = self._jitted

    def new_memory(self) -> Any:
        """What he knows of L games before the first turn, trees say; None: he keeps nothing."""
        begin = self._player.begin
        return None if begin is None else jax.jit(begin)(self._player.params, self._idle)

    def _blank(self) -> tuple[np.ndarray, np.ndarray]:
        """Which lanes are asked for, and what was played in them: none, nothing."""
        return np.zeros(self.lanes, bool), np.full((PLIES, self.lanes), NO_ACTION, np.int32)

    def compile(self) -> None:
        """Compile the choice, before a clock runs."""
        args = self._player.params, self._key, self._idle, *self._blank()
        memory = jax.eval_shape(self.new_memory)
        self._choose = self._jitted.lower(*args, memory=memory).compile()

    def choose(
        self,
        states: Mapping[int, GameState],
        memory: Any = None,
        since: Mapping[int, Sequence[int]] | None = None,
    ) -> tuple[Moves, Any]:
        """Move in the games of some lanes, none of them over.

        Args:
          states: lane -> game.
          memory: what the last choice in these lanes returned, or `new_memory`; used up.
          since: lane -> the two actions of the game since the lane's last turn; what he knows of a
            lane that is not here is forgotten. Of no meaning without memory.

        Returns:
          The moves, of meaning in the lanes of `states`, and the memory for the next call; that
          of other lanes is as it was.
        """
        for lane, state in states.items():
            jax.tree.map(lambda all_, one, i=lane: all_.__setitem__(i, one), self._idle, state)
        active, played = self._blank()
        active[list(states)] = True
        for lane, actions in (since or {}).items():
            played[:, lane] = actions
        key = jax.random.fold_in(self._key, self.num_choices)
        self.num_choices += 1
        # The lanes are copied: an asynchronous transfer may still read them when they are filled.
        lanes = jax.tree.map(np.copy, self._idle)
        params = self._player.params
        moves, memory = self._choose(params, key, lanes, active, played, memory=memory)
        return Moves(*jax.device_get(moves)), memory

    def _in_all_lanes(self, params: Any, key, states: GameState, active, played, memory):
        """(what `Moves` has, the memory of the next call)."""
        legal = jax.vmap(lambda state: legal_actions(self._rules, state))(states)
        choice = self._player.choose(params, key, Turn(states, legal, played), memory)
        if memory is not None:
            memory = _chosen(active, choice.memory, memory)
        resigns = jnp.zeros(self.lanes, bool) if choice.resigns is None else choice.resigns
        return (choice.action, choice.ok, resigns & choice.ok), memory


def _chosen(active: jax.Array, new: Any, old: Any) -> Any:
    """The memory of `new` in the lanes bool[L], elsewhere that of `old`."""

    def choose(x, y):
        mask = jnp.repeat(active, x.shape[0] // active.shape[0], total_repeat_length=x.shape[0])
        return jnp.where(mask.reshape(-1, *[1] * (x.ndim - 1)), x, y)

    return jax.tree.map(choose, new, old)
