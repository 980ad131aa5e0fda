"""Leaves judged by several devices: each judges its share of them.

For one tree on many devices, `SearchConfig(leaves=...)` makes the batch: K leaves of each of B
trees are judged in one call, and of these K * B positions a device gets as many as any other. The
trees themselves stay whole on every device.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import Mesh, PartitionSpec

from gozero.search.game import Evaluate, Evaluation


def over_mesh(evaluate: Evaluate, mesh: Mesh) -> Evaluate:
    """The evaluator, with its positions divided among the devices of a mesh.

    Every device has the parameters, and all of the judgements afterwards. One whose judgements
    do not depend on the key, nor on what else is in the batch, judges as before; of the others
    each device has a key of its own. Positions that cannot be divided evenly (the root of one
    tree, for one) are filled up with copies of the first, and their judgements dropped: let the
    devices divide leaves * trees.

    Args:
      evaluate: ``(params, key, observations[M]) -> Evaluation[M]``, on a device's share.
      mesh: of one axis.

    Raises:
      ValueError: a mesh of several axes; when it is called, observations of different numbers.
    """
    if len(mesh.axis_names) != 1:
        raise ValueError(f"mesh: its axes are {dict(mesh.shape)}; leaves are spread over one")
    (axis,) = mesh.axis_names
    mesh = Mesh(mesh.devices, mesh.axis_names)  # of no explicit shardings: the search has none

    def of_one_device(params: Any, key: jax.Array, observations: Any) -> Evaluation:
        number = lax.axis_index(axis)
        share = jax.tree.leaves(observations)[0].shape[0] // mesh.size
        mine = jax.tree.map(
            lambda x: lax.dynamic_slice_in_dim(x, number * share, share), observations
        )
        judged = evaluate(params, jax.random.fold_in(key, number), mine)
        return jax.tree.map(lambda x: lax.all_gather(x, axis, tiled=True), judged)

    everywhere = PartitionSpec()
    on_all = jax.shard_map(
        of_one_device, mesh=mesh, in_specs=everywhere, out_specs=everywhere, check_vma=False
    )

    def spread(params: Any, key: jax.Array, observations: Any) -> Evaluation:
        counts = {x.shape[0] for x in jax.tree.leaves(observations)}
        if len(counts) != 1:
            raise ValueError(f"observations: leading axes {sorted(counts)}; give one number of all")
        (count,) = counts
        padded = jax.tree.map(lambda x: _filled_up(x, -count % mesh.size), observations)
        return jax.tree.map(lambda x: x[:count], on_all(params, key, padded))

    return spread


def _filled_up(x: jax.Array, extra: int) -> jax.Array:
    """[M + extra, ...], with copies of the first."""
    if extra == 0:
        return x
    return jnp.concatenate([x, jnp.broadcast_to(x[:1], (extra, *x.shape[1:]))])
