"""Games divided among devices: each device plays its share in its own loops.

Devices that search different games exchange nothing, so none waits for another. On the CPU,
`gozero.apps.runtime.cores_as_devices` makes each core a device: two such devices search about twice
as fast as one device that splits each operation between both cores.
"""

from __future__ import annotations

import functools
from typing import Any, cast

import jax
import numpy as np
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as Spec

from gozero.play.player import Choice, Choose, Player, Turn

AXIS = "device"
EVERYWHERE, DIVIDED, BY_LANE = Spec(), Spec(AXIS), Spec(None, AXIS)
"""How arrays are sharded: replicated, by their first axis, or by their second."""
TURN: Any = Turn(*cast(Any, (DIVIDED, DIVIDED, BY_LANE)))
"""How a `Turn` is sharded: by games."""

FEWEST = 8
"""The fewest games for a device: fewer games take hardly less time."""


def make_mesh(num_games: int, round_up: bool = False) -> Mesh:
    """A mesh of this host's devices: as many as get `FEWEST` games each, at least one.

    Args:
      num_games: n, at least 1.
      round_up: whether the caller will round n up to a multiple of the devices; if not, the mesh
        has only as many devices as divide n.
    """
    devices = jax.local_devices()
    count = max(1, min(len(devices), num_games // FEWEST))
    if not round_up:
        count = max(k for k in range(1, count + 1) if num_games % k == 0)
    return _mesh(devices[:count])


def local_mesh(num_devices: int | None = None) -> Mesh:
    """A mesh of the first `num_devices` of this host's devices, or of all of them.

    Raises:
      ValueError: there are fewer.
    """
    devices = jax.local_devices()
    count = len(devices) if num_devices is None else num_devices
    if count > len(devices):
        raise ValueError(f"--devices {count}: only {len(devices)} devices are available")
    return _mesh(devices[:count])


def mesh_of(num_devices: int | None = None) -> Mesh:
    """A mesh of the first `num_devices` devices, or of all, across all hosts.

    Raises:
      ValueError: there are fewer devices, or there are several hosts and not all of their devices
        are requested.
    """
    devices = jax.devices()
    count = len(devices) if num_devices is None else num_devices
    if count > len(devices):
        raise ValueError(f"--devices {count}: only {len(devices)} devices are available")
    if count < len(devices) and jax.process_count() > 1:
        raise ValueError(
            f"--devices {count}: with several hosts, all {len(devices)} devices must be used"
        )
    return _mesh(devices[:count])


def _mesh(devices: list) -> Mesh:
    if len(devices) == jax.device_count():  # in an order that suits their network
        return jax.make_mesh((len(devices),), (AXIS,), axis_types=(AxisType.Auto,))
    # JAX orders only TPUs that form a whole rectangle (0.10.1).
    return Mesh(np.array(devices), (AXIS,), axis_types=(AxisType.Auto,))


def over_mesh(player: Player, mesh: Mesh) -> Player:
    """The player, with its games divided among the devices of a mesh.

    Its random draws depend on the number of devices. Players that share `choose` still share it.

    Args:
      player: the player; its memory, if any, consists of arrays [n * k, ...] for n games.
      mesh: a mesh with one axis, `AXIS`, whose size divides the number of games, in `play_match`
        half of the match's.

    Raises:
      ValueError: by `begin` and `choose`, if the mesh's size does not divide the number of games.
    """
    if mesh.size == 1:
        return player
    begin = None if player.begin is None else _begin_over(player.begin, mesh)
    return player._replace(choose=_choose_over(player.choose, mesh), begin=begin)


@functools.lru_cache(maxsize=64)
def _choose_over(choose: Choose, mesh: Mesh) -> Choose:
    def of_one_device(params, key, turn: Turn, memory) -> Choice:
        return choose(params, own_key(key), turn, memory)

    divided = over_devices(of_one_device, mesh, (EVERYWHERE, EVERYWHERE, TURN, DIVIDED))

    def checked(params, key, turn: Turn, memory) -> Choice:
        _check_divides(mesh, turn.legal.shape[0])
        return divided(params, key, turn, memory)

    return checked


@functools.lru_cache(maxsize=64)
def _begin_over(begin: Any, mesh: Mesh) -> Any:
    divided = jax.jit(begin, out_shardings=NamedSharding(mesh, DIVIDED))

    def checked(params, states: Any) -> Any:
        _check_divides(mesh, len(jax.tree.leaves(states)[0]))
        return divided(params, states)

    return checked


def _check_divides(mesh: Mesh, games: int) -> None:
    if games % mesh.size:
        raise ValueError(
            f"mesh: {mesh.size} devices do not divide {games} games; a player of play_match has "
            "half of the match's games at a time: make_mesh(num_games // 2)"
        )


def over_devices(function: Any, mesh: Mesh, in_specs: Any) -> Any:
    """The function of n games' arrays, sharded over the mesh by `in_specs`; outputs by game."""
    return jax.shard_map(function, mesh=mesh, in_specs=in_specs, out_specs=DIVIDED, check_vma=False)


def on_each(
    mesh: Mesh, function: Any, in_specs: Any, out_specs: Any, donated: int | tuple[()] = ()
) -> Any:
    """A function of one device's arrays, jitted to run on every device at once.

    `check_vma` is off because the bodies contain loops whose initial carry is replicated and whose
    later carries vary by device. Output shardings are explicit because XLA would otherwise place
    zero-size arrays differently from the previous call, which a compiled program rejects.
    """
    mapped = jax.shard_map(
        function, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False
    )
    out_shardings = jax.tree.map(
        lambda spec: NamedSharding(mesh, spec), out_specs, is_leaf=lambda x: isinstance(x, Spec)
    )
    return jax.jit(mapped, out_shardings=out_shardings, donate_argnums=donated)


def stack(tree: Any) -> Any:
    """One device's arrays as its share [1, ...] of arrays [D, ...]."""
    return jax.tree.map(lambda x: x[None], tree)


def unstack(tree: Any) -> Any:
    """The inverse of `stack`."""
    return jax.tree.map(lambda x: x[0], tree)


def own_key(key: jax.Array) -> jax.Array:
    """The device's own PRNG key; to be called on the device, within `shard_map`."""
    return jax.random.fold_in(key, lax.axis_index(AXIS))
