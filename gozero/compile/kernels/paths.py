"""Paths of trees, each as one program of a GPU's kernel: a descent, and choices along it (Triton).

As XLA compiles a loop over the levels of paths, the host of a GPU reads in every iteration whether
there is another. Here each tree goes as far as its own path does. The rows of tree b are
b * capacity and on.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

NO_NODE = -1


def descend(following: jax.Array, num_trees: int, limit: int, num_levels: int) -> jax.Array:
    """The nodes i32[num_levels, B] of each tree's path: from node 0 on along `following`.

    Args:
      following: i16 or i32[R]: the node that comes after each; NO_NODE: none does.
      num_trees: B.
      limit: edges of a path at most; less than num_levels.
      num_levels: beyond the ends of the paths stands NO_NODE.
    """
    kernel = functools.partial(_descend, following.shape[0] // num_trees, limit, num_levels)
    shape = jax.ShapeDtypeStruct((num_levels, num_trees), jnp.int32)
    return _call(kernel, num_trees, shape, [following])


def _descend(capacity: int, limit: int, num_levels: int, following: Any, nodes: Any) -> None:
    tree = _number()

    def one_down(carry):
        level, node = carry
        nodes[level, tree] = node
        child = following[tree * capacity + node].astype(jnp.int32)
        return level + 1, jnp.where(level < limit, child, NO_NODE)

    def blank(level, _):
        nodes[level, tree] = jnp.int32(NO_NODE)
        return _

    start = jnp.int32(0), jnp.int32(0)
    length, _ = lax.while_loop(lambda carry: carry[1] != NO_NODE, one_down, start)
    lax.fori_loop(length, num_levels, blank, jnp.int32(0))


def choose_along(
    choose: Callable,
    target: jax.Array,
    nodes: jax.Array,
    end: jax.Array,
    children: jax.Array,
    num_children: jax.Array,
    of_children: tuple[jax.Array, ...],
    of_nodes: tuple[jax.Array, ...],
    of_trees: tuple[jax.Array, ...],
    first_level: int,
) -> jax.Array:
    """`target` with what is chosen at the nodes of each tree's path, in place.

    Args:
      choose: (children i32[K], NO_NODE where there is none; what is known of them, [K] each; the
        node; what is known of it, [] each; of the tree, [] each) -> i32[]. K is more than A and a
        power of two. Elementwise operations, sums and maxima are what it may use.
      target: [R].
      nodes: i32[D + 1, B]: those on levels first_level .. end - 1 are of the path.
      end: i32[B].
      children: [R, A]: nodes, as many as `num_children`, [R], says.
      of_children, of_nodes: [R] each.
      of_trees: [B] each.
      first_level: static.
    """
    num_trees, width = nodes.shape[1], 1 << children.shape[1].bit_length()
    capacity = target.shape[0] // num_trees
    arrays = [target, nodes, end, children, num_children, *of_children, *of_nodes, *of_trees]
    split = len(of_children), len(of_nodes)
    kernel = functools.partial(_choose_along, choose, capacity, width, first_level, split)
    shape = jax.ShapeDtypeStruct(target.shape, target.dtype)
    return _call(kernel, num_trees, shape, arrays, {0: 0})


def _choose_along(
    choose: Callable,
    capacity: int,
    width: int,
    first_level: int,
    split: tuple[int, int],
    _: Any,
    nodes: Any,
    end: Any,
    children: Any,
    num_children: Any,
    *more: Any,
) -> None:
    *fields, target = more
    of_children, fields = fields[: split[0]], fields[split[0] :]
    of_nodes, of_trees = fields[: split[1]], fields[split[1] :]
    tree = _number()
    known = [field[tree] for field in of_trees]
    lanes = lax.broadcasted_iota(jnp.int32, (width,), 0)

    def at_level(level, carry):
        node = nodes[level, tree]
        row = tree * capacity + node
        is_child = lanes < num_children[row].astype(jnp.int32)
        child = _load(children, (jnp.full((width,), row, jnp.int32), lanes), is_child)
        child = jnp.where(is_child, child.astype(jnp.int32), NO_NODE)
        child_row = jnp.where(is_child, tree * capacity + child, row)
        seen = [_load(field, (child_row,), is_child) for field in of_children]
        target[row] = choose(child, seen, node, [field[row] for field in of_nodes], known).astype(
            target.dtype
        )
        return carry

    lax.fori_loop(first_level, end[tree], at_level, jnp.int32(0))


def _number() -> jax.Array:
    from jax.experimental import pallas as pl

    return pl.program_id(0)


def _load(array: Any, index: tuple[jax.Array, ...], mask: jax.Array) -> jax.Array:
    from jax.experimental.pallas import triton

    return triton.load(array.at[index], mask=mask, other=jnp.zeros((), array.dtype))


def _call(
    kernel: Callable,
    num_trees: int,
    shape: jax.ShapeDtypeStruct,
    arrays: list[jax.Array],
    in_place: dict[int, int] | None = None,
) -> jax.Array:
    """One program of a single warp for each tree; every one sees the whole arrays."""
    from jax.experimental import pallas as pl  # slow to import, and a CPU needs it not
    from jax.experimental.pallas import triton

    whole = lambda x: pl.BlockSpec(x.shape, lambda i: (0,) * len(x.shape))
    call = pl.pallas_call(
        kernel,
        out_shape=shape,
        grid=(num_trees,),
        in_specs=[whole(x) for x in arrays],
        out_specs=whole(shape),
        input_output_aliases=in_place or {},
        compiler_params=triton.CompilerParams(num_warps=1, num_stages=1),
    )
    return call(*arrays)
