"""A player in many games at once: its choice compiled once, for a fixed number of lanes.

The host keeps the games and tells the player in which lanes to move. Because a batch has one shape,
the other lanes are searched too and their results discarded. When most lanes are idle, as at
the end of a match, the requested lanes are gathered into a batch of half the lanes, a quarter, and
so on. Several devices have equal shares of the lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding

from gozero.go.rules import GameState, Rules, init, legal_actions
from gozero.play import devices
from gozero.play.devices import DIVIDED, EVERYWHERE
from gozero.play.player import Player, Turn
from gozero.search.game import NO_ACTION, where_games

PLIES = 2
"""Plies between two turns of the player in a game: its own move and the reply."""


class LaneChoices(NamedTuple):
    """The player's choices in the requested lanes."""

    action: np.ndarray  # i32[L]
    ok: np.ndarray  # bool[L]: every evaluation was a finite number
    resigns: np.ndarray  # bool[L]


class LockstepPlayer:
    """A player in up to L games of Go.

    Args:
      rules: the rules.
      player: the player.
      lanes: L, the number of lanes.
      key: PRNG key, from which each call of `choose` derives its own.
      mesh: the mesh of devices that search, see `devices.make_mesh`; None: one device.

    Raises:
      ValueError: a number of lanes that is below 1 or not a multiple of the number of devices.
    """

    def __init__(
        self, rules: Rules, player: Player, lanes: int, key: jax.Array, mesh: Mesh | None = None
    ):
        self._mesh = mesh or devices.make_mesh(1)
        if lanes < 1 or lanes % self._mesh.size:
            raise ValueError(
                f"lanes: {lanes} is not a positive multiple of the {self._mesh.size} devices"
            )
        self.lanes, self._rules, self._player = lanes, rules, player
        self._share = lanes // self._mesh.size  # lanes of a device
        self._divided = NamedSharding(self._mesh, DIVIDED)
        self._key, self.num_choices = key, 0
        start = jax.tree.map(np.asarray, init(rules))
        self._idle = jax.tree.map(lambda x: np.broadcast_to(x, (lanes, *x.shape)).copy(), start)
        choose = self._over_devices(self._in_lanes)
        self._jitted = jax.jit(choose, donate_argnums=6)  # the memory
        self._in_all_lanes: Callable = self._jitted

    def new_memory(self) -> Any:
        """The memory of L games before the first turn, such as trees; None: the player has none."""
        begin = self._player.begin
        if begin is None:
            return None
        return jax.jit(begin, out_shardings=self._divided)(self._player.params, self._idle)

    def _blank(self) -> tuple[np.ndarray, np.ndarray]:
        """(no requested lanes bool[L], no recent actions i32[2, L])."""
        return np.zeros(self.lanes, bool), np.full((PLIES, self.lanes), NO_ACTION, np.int32)

    def compile(self) -> None:
        """Compile the choice in all lanes ahead of time, before any clock runs."""
        all_lanes = self._batch(np.ones(self.lanes, bool))
        args = self._player.params, self._key, all_lanes, self._idle, *self._blank()
        to_struct = lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=self._divided)
        memory = jax.tree.map(to_struct, jax.eval_shape(self.new_memory))
        self._in_all_lanes = self._jitted.lower(*args, memory).compile()

    def choose(
        self,
        states: Mapping[int, GameState],
        memory: Any = None,
        since: Mapping[int, Sequence[int]] | None = None,
    ) -> tuple[LaneChoices, Any]:
        """Choose moves in the games of some lanes, none of which is over.

        Args:
          states: lane -> game state.
          memory: the memory returned by the last call, or `new_memory()`; donated.
          since: lane -> the two actions in its game since the player's last turn there; the memory
            of requested lanes that are missing here is forgotten. Ignored without memory.

        Returns:
          The moves, meaningful only in the lanes of `states`, and the memory for the next call, in
          which other lanes are unchanged.
        """
        for lane, state in states.items():
            jax.tree.map(lambda all_, one, i=lane: all_.__setitem__(i, one), self._idle, state)
        active, recent = self._blank()
        active[list(states)] = True
        for lane, actions in (since or {}).items():
            recent[:, lane] = actions
        key = jax.random.fold_in(self._key, self.num_choices)
        self.num_choices += 1
        own_lanes = self._batch(active)
        first_lane = np.arange(self._mesh.size, dtype=np.int32)[:, None] * self._share
        lanes = (first_lane + own_lanes).reshape(-1)
        # Copies: an asynchronous transfer may still be reading when the next call fills the lanes.
        games = jax.tree.map(lambda x: x[lanes], self._idle)
        choose = self._in_all_lanes if lanes.size == self.lanes else self._jitted
        args = self._player.params, key, own_lanes, games, active[lanes], recent[:, lanes]
        moves, memory = choose(*args, memory)
        return LaneChoices(*(self._spread(lanes, x) for x in jax.device_get(moves))), memory

    def _batch(self, active: np.ndarray) -> np.ndarray:
        """i32[D, W]: the lanes to search on each device, sorted: the active ones bool[L], and idle
        ones to fill W."""
        active_by_device = active.reshape(self._mesh.size, self._share)
        width, num_active = self._share, np.max(np.sum(active_by_device, axis=1))
        while width >= 2 * devices.FEWEST and num_active <= width // 2:
            width //= 2
        active_first = np.argsort(~active_by_device, axis=1, kind="stable")[:, :width]
        return np.sort(active_first, axis=1).astype(np.int32)

    def _spread(self, lanes: np.ndarray, values: np.ndarray) -> np.ndarray:
        """[L]: the values in the lanes i32[W], zeros elsewhere."""
        spread = np.zeros(self.lanes, values.dtype)
        spread[lanes] = values
        return spread

    def _over_devices(self, choose: Callable) -> Callable:
        """`_in_lanes` on each device: (params, key, lanes i32[D, W], games [D * W], ...)."""
        turn = devices.TURN
        specs = EVERYWHERE, EVERYWHERE, DIVIDED, turn.states, DIVIDED, turn.recent, DIVIDED
        return devices.over_devices(choose, self._mesh, specs)

    def _in_lanes(self, params: Any, key, lanes, states: GameState, active, played, memory):
        """(the fields of `LaneChoices` for a device's lanes i32[1, W], the memory for the next)."""
        (lanes,) = lanes
        legal = jax.vmap(lambda state: legal_actions(self._rules, state))(states)
        turn, in_all_lanes = Turn(states, legal, played), lanes.shape[0] == self._share
        lane_memory = (
            memory if in_all_lanes else jax.tree.map(lambda x: self._gather(x, lanes), memory)
        )
        choice = self._player.choose(params, devices.own_key(key), turn, lane_memory)
        if memory is not None:
            lane_memory = _replace_where(active, choice.memory, lane_memory)
            scatter = lambda x, new: self._scatter(x, lanes, new)
            memory = lane_memory if in_all_lanes else jax.tree.map(scatter, memory, lane_memory)
        never = jnp.zeros(lanes.shape, bool)
        resigns = never if choice.resigns is None else choice.resigns
        return (choice.action, choice.ok, resigns & choice.ok), memory

    def _gather(self, x: jax.Array, lanes: jax.Array) -> jax.Array:
        """[W * k, ...]: the rows of the lanes i32[W], of a device's rows with k for each lane."""
        rows_per_lane = x.shape[0] // self._share
        rows_of = lambda lane: lax.dynamic_slice_in_dim(x, lane * rows_per_lane, rows_per_lane)
        return lax.map(rows_of, lanes).reshape(-1, *x.shape[1:])

    def _scatter(self, x: jax.Array, lanes: jax.Array, new: jax.Array) -> jax.Array:
        """A device's rows, k for each lane, with those of the lanes i32[W] replaced by `new`
        [W * k, ...]. Trip bound: W."""
        rows_per_lane = x.shape[0] // self._share

        def put_one(i, x):
            rows = lax.dynamic_slice_in_dim(new, i * rows_per_lane, rows_per_lane)
            return lax.dynamic_update_slice_in_dim(x, rows, lanes[i] * rows_per_lane, axis=0)

        return lax.fori_loop(0, lanes.shape[0], put_one, x)


def _replace_where(active: jax.Array, new: Any, old: Any) -> Any:
    """The memory `new` in the active lanes bool[L], `old` elsewhere."""

    def choose(x, y):
        mask = jnp.repeat(active, x.shape[0] // active.shape[0], total_repeat_length=x.shape[0])
        return where_games(mask, x, y)

    return jax.tree.map(choose, new, old)
