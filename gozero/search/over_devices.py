"""One position searched on many devices. (`gozero.play.devices` divides games instead.)

`search` divides the trees of an ensemble: MoGo Titan, one tree for each machine. Each device
searches its own trees of every game, as in `ensemble`; only the statistics of the nodes near the
roots cross between devices, at each exchange.

`divided_evaluator` divides the positions of a step: with `SearchConfig(leaves=...)` K leaves of
each of B trees are evaluated in one call, and each device gets an equal share of these K B
positions. Every device holds all the trees.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as Spec

from gozero.search import reuse
from gozero.search import search as searching
from gozero.search.config import SearchConfig
from gozero.search.evaluate import pad
from gozero.search.game import Evaluate, Evaluation, Evaluator, Game
from gozero.search.search import Running, SearchResult
from gozero.search.tree import Tree

EVERYWHERE: Any = Spec()  # in place of arrays' fields
"""The sharding of what every device has."""


def by_tree(mesh: Mesh) -> Any:
    """The sharding of arrays with a leading axis of trees, or of all trees' nodes."""
    return Spec(mesh.axis_names[0])


def copied(mesh: Mesh, x: Any) -> Any:
    """Arrays, such as a network's parameters, with a copy on every device of a mesh."""
    return jax.device_put(x, NamedSharding(mesh, EVERYWHERE))


def _result(mesh: Mesh) -> SearchResult:
    """The shardings of a result."""
    everywhere = SearchResult(*[EVERYWHERE] * len(SearchResult._fields))
    return everywhere._replace(tree=by_tree(mesh))


def dividing(mesh: Mesh) -> Callable[[str, Callable], Callable]:
    """The ``divide`` of a `Runner` with the `divided` config."""
    here = by_tree(mesh)
    running = Running(*[here] * len(Running._fields))._replace(
        choice_key=EVERYWHERE, evaluation_key=EVERYWHERE, steps=EVERYWHERE
    )
    shardings = {
        "begin": ((EVERYWHERE, EVERYWHERE, EVERYWHERE, here), running),
        "advance": ((running, EVERYWHERE, EVERYWHERE, EVERYWHERE), running),
        "finish": ((here, running._replace(tree=None)), _result(mesh)),
    }
    return lambda name, function: on_all(mesh, function, *shardings[name])


def on_all(mesh: Mesh, function: Callable, inputs: Any, outputs: Any) -> Callable:
    """A function of one device's arrays, run on all devices of a mesh.

    Args:
      mesh: the mesh.
      function: of `divided` searches, or of single trees.
      inputs, outputs: the shardings of its arguments and of what it returns.
    """
    mesh = Mesh(mesh.devices, mesh.axis_names)  # without explicit shardings: the search has none
    return jax.shard_map(function, mesh=mesh, in_specs=inputs, out_specs=outputs, check_vma=False)


def _single_axis(mesh: Mesh) -> Any:
    if len(mesh.axis_names) != 1:
        raise ValueError(f"mesh: its axes are {dict(mesh.shape)}; give a mesh with a single axis")
    return mesh.axis_names[0]


def divided(config: SearchConfig, mesh: Mesh) -> SearchConfig:
    """The config with its ensemble's trees divided among the devices of a mesh.

    Raises:
      ValueError: a mesh with several axes, a config without an ensemble, or more or fewer devices
        than divide its trees.
    """
    axis = _single_axis(mesh)
    if config.ensemble is None:
        raise ValueError(
            f"ensemble: None; its trees are divided among {mesh.size} devices, so give one, such "
            f"as Ensemble(trees={mesh.size})"
        )
    group = dataclasses.replace(config.ensemble, devices=mesh.size, axis=axis)
    return dataclasses.replace(config, ensemble=group)


def search(
    game: Game,
    evaluator: Evaluator,
    key: jax.Array,
    states: Any,
    config: SearchConfig,
    mesh: Mesh,
    tree: Tree | None = None,
) -> SearchResult:
    """`search.search` with K / D of the K trees of each game on each of the D devices of a mesh.

    If evaluations do not depend on the key, and the roots have no noise, the trees are those of
    `search.search`; otherwise they differ, because each device uses a key of its own. Every device
    has all of the result but the trees.

    Args:
      game, evaluator, key, states, config: as for `search.search`, with `SearchConfig.ensemble`.
      mesh: a mesh with one axis, whose size divides the number of trees.
      tree: the trees of an earlier result of this function, re-rooted or not, or those of
        ``reuse.empty``; sharded by their first axis.

    Returns:
      The result. Its trees are ordered by device, then by game.

    Raises:
      As `search.search` and `divided`.
    """
    run = functools.partial(_search, game, divided(config, mesh), evaluator._replace(params=None))
    on_each = on_all(mesh, run, (EVERYWHERE, EVERYWHERE, EVERYWHERE, by_tree(mesh)), _result(mesh))
    return on_each(evaluator.params, key, states, tree)


def reroot_on(mesh: Mesh) -> Callable:
    """`reuse.reroot` of the trees that are divided among the devices of a mesh."""
    return on_all(mesh, reuse.reroot, (by_tree(mesh), EVERYWHERE), by_tree(mesh))


def _search(
    game: Game,
    config: SearchConfig,
    evaluator: Evaluator,
    params: Any,
    key: jax.Array,
    states: Any,
    tree: Tree | None,
) -> SearchResult:
    with_params = evaluator._replace(params=params)
    return searching.search(game, with_params, key, states, config, tree)


def divided_evaluator(evaluate: Evaluate, mesh: Mesh) -> Evaluate:
    """An evaluator that divides its positions among the devices of a mesh.

    Every device has the parameters, and receives all of the evaluations. If evaluations depend
    neither on the key nor on the rest of the batch, the results are those of `evaluate`; otherwise
    they differ, because each device uses a key of its own. Positions that cannot be divided evenly
    (such as the root of a single tree) are padded with copies of the first, whose evaluations are
    dropped: choose leaves * trees as a multiple of the number of devices.

    Args:
      evaluate: ``(params, key, observations[M]) -> Evaluation[M]``, called on a device's share.
      mesh: a mesh with one axis.

    Raises:
      ValueError: a mesh with several axes; when called, observations with different leading axes.
    """
    axis = _single_axis(mesh)

    def of_one_device(params: Any, key: jax.Array, observations: Any) -> Evaluation:
        device = lax.axis_index(axis)
        share_size = jax.tree.leaves(observations)[0].shape[0] // mesh.size
        own_share = jax.tree.map(
            lambda x: lax.dynamic_slice_in_dim(x, device * share_size, share_size), observations
        )
        evaluated = evaluate(params, jax.random.fold_in(key, device), own_share)
        return jax.tree.map(lambda x: lax.all_gather(x, axis, tiled=True), evaluated)

    divided = on_all(mesh, of_one_device, EVERYWHERE, EVERYWHERE)

    def evaluate_all(params: Any, key: jax.Array, observations: Any) -> Evaluation:
        counts = {x.shape[0] for x in jax.tree.leaves(observations)}
        if len(counts) != 1:
            raise ValueError(
                f"observations: different leading axes {sorted(counts)}; give every leaf one [M]"
            )
        (count,) = counts
        padded = jax.tree.map(lambda x: pad(x, -count % mesh.size), observations)
        return jax.tree.map(lambda x: x[:count], divided(params, key, padded))

    return evaluate_all
