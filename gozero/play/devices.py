"""Games divided among devices: each plays its share, in loops of its own.

Devices that search different games exchange nothing, so none waits for another. On the CPU a device
is a core, once `gozero.apps.runtime.cores_as_devices` has said so: two search about twice as fast
as one device that has both cores for the parts of each operation.
"""

from __future__ import annotations

import functools
from typing import Any, cast

import jax
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as Spec

from gozero.play.player import Choice, Choose, Player, Turn

AXIS = "device"
EVERYWHERE, DIVIDED, BY_LANE = Spec(), Spec(AXIS), Spec(None, AXIS)
"""How arrays lie: whole on each device, divided by their first axis, or by their second."""
TURN: Any = Turn(*cast(Any, (DIVIDED, DIVIDED, BY_LANE)))
"""How a turn is divided: by games."""

FEWEST = 8
"""Games that are worth a device: fewer hardly take less time."""


def make_mesh(num_games: int, round_up: bool = False) -> Mesh:
    """As many of this host's devices as have `FEWEST` games each, and the same number of them.

    Args:
      num_games: n, at least 1.
      round_up: where n cannot be divided, more games will be played; otherwise fewer devices do.
    """
    devices = jax.local_devices()
    count = max(1, min(len(devices), num_games // FEWEST))
    if not round_up:
        count = max(k for k in range(1, count + 1) if num_games % k == 0)
    return _mesh(devices[:count])


def mesh_of(num_devices: int | None = None) -> Mesh:
    """The first `num_devices` devices, or all: of every host, if there are several.

    Raises:
      ValueError: there are fewer, or not all of the devices of several hosts are asked for.
    """
    devices = jax.devices()
    count = len(devices) if num_devices is None else num_devices
    if count > len(devices):
        raise ValueError(f"--devices {count}: there are {len(devices)}")
    if count < len(devices) and jax.process_count() > 1:
        raise ValueError(f"--devices {count}: expected all {len(devices)} of several hosts")
    return _mesh(devices[:count])


def _mesh(devices: list) -> Mesh:
    return jax.make_mesh((len(devices),), (AXIS,), devices=devices, axis_types=(AxisType.Auto,))


def over_mesh(player: Player, mesh: Mesh) -> Player:
    """The player, with the games in which it chooses divided among the devices of a mesh.

    What it draws depends on the number of devices. Players that share `choose` still do.

    Args:
      player: who plays; its memory, if any, is of arrays [n * k, ...] for n games.
      mesh: of one axis, `AXIS`; its size divides the games.
    """
    if mesh.size == 1:
        return player
    begin = None if player.begin is None else _begin_over(player.begin, mesh)
    return player._replace(choose=_choose_over(player.choose, mesh), begin=begin)


@functools.lru_cache(maxsize=64)
def _choose_over(choose: Choose, mesh: Mesh) -> Choose:
    def of_one_device(params, key, turn: Turn, memory) -> Choice:
        return choose(params, own_key(key), turn, memory)

    return over_devices(of_one_device, mesh, (EVERYWHERE, EVERYWHERE, TURN, DIVIDED))


@functools.lru_cache(maxsize=64)
def _begin_over(begin: Any, mesh: Mesh) -> Any:
    return jax.jit(begin, out_shardings=NamedSharding(mesh, DIVIDED))


def over_devices(function: Any, mesh: Mesh, in_specs: Any) -> Any:
    """A function of arrays of n games as one of each device's share; so is what it returns."""
    return jax.shard_map(function, mesh=mesh, in_specs=in_specs, out_specs=DIVIDED, check_vma=False)


def on_each(
    mesh: Mesh, function: Any, in_specs: Any, out_specs: Any, donated: int | tuple[()] = ()
) -> Any:
    """A function of what one device has, on every device at once, jitted.

    The bodies hold loops whose first carry is the same everywhere and whose next is not, which the
    check of what varies would refuse. Where the outputs lie is said, for XLA would put arrays
    without a byte elsewhere than the call before had them, and a compiled program refuses those.
    """
    mapped = jax.shard_map(
        function, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False
    )
    where = jax.tree.map(
        lambda spec: NamedSharding(mesh, spec), out_specs, is_leaf=lambda x: isinstance(x, Spec)
    )
    return jax.jit(mapped, out_shardings=where, donate_argnums=donated)


def stack(tree: Any) -> Any:
    """What one device has, as its share [1, ...] of arrays [D, ...]."""
    return jax.tree.map(lambda x: x[None], tree)


def unstack(tree: Any) -> Any:
    """The inverse of `stack`."""
    return jax.tree.map(lambda x: x[0], tree)


def own_key(key: jax.Array) -> jax.Array:
    """A device's own key, on the device."""
    return jax.random.fold_in(key, lax.axis_index(AXIS))
