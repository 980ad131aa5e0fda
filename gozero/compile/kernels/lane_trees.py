"""Kernels for trees in lanes (Mosaic): each number of a node is a vector over a block of trees.

On a TPU reading one number of each tree takes as long as a few operations on all numbers of small
trees: a node is found by comparing with every node. So the descent is one kernel, the backup with
the new selections along the path another, and no number is read or written by an index.

A block is [..., 8, 128]: each number of a tree is a vector of the trees' own shape, written [trees]
here.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

NO_NODE = -1
_LANES, _SUBLANES = 128, 8
_VMEM_BYTES = 2**26


class Numbers(NamedTuple):
    """The numbers of the N nodes of all trees, [N, trees] each."""

    next: jax.Array  # i32: the child to which a descent goes; NO_NODE: it ends here
    parent: jax.Array  # i32; NO_NODE for the root and for unused nodes
    action: jax.Array  # i32: the action that led to the node
    edge_prior: jax.Array  # f32: that action's prior
    visits: jax.Array  # i32
    value_sum: jax.Array  # i32
    value: jax.Array  # i32: the node's own evaluation
    over: jax.Array  # i32: 1 where the game has ended
    slot: jax.Array  # i32: where the priors of its actions are stored
    untried: jax.Array  # i32: the best action without a child
    untried_prior: jax.Array  # f32: its prior; -inf if there is none


class End(NamedTuple):
    """Where a descent ended, [trees] each."""

    node: jax.Array
    length: jax.Array  # edges from the root
    visits: jax.Array
    over: jax.Array
    slot: jax.Array
    untried: jax.Array
    untried_prior: jax.Array


class TreeUpdate(NamedTuple):
    """What a simulation adds to a tree, [trees] each; a node NO_NODE: nothing."""

    node: jax.Array  # the node that is added
    parent: jax.Array  # its parent, which gets a new `untried`
    action: jax.Array
    edge_prior: jax.Array
    value: jax.Array
    over: jax.Array
    slot: jax.Array
    untried: jax.Array
    untried_prior: jax.Array
    parent_untried: jax.Array
    parent_untried_prior: jax.Array


def shape_of(num_trees: int) -> tuple[int, int] | None:
    """The shape of `num_trees` trees in lanes; None if they do not fill one."""
    if num_trees <= _LANES:
        return 1, num_trees
    rows = num_trees // _LANES
    fits = num_trees % _LANES == 0 and (rows % _SUBLANES == 0 or rows < _SUBLANES)
    return (rows, _LANES) if fits else None


def descend(numbers: Numbers, num_levels: int, num_words: int) -> tuple[jax.Array, End, jax.Array]:
    """Follows `next` from node 0.

    Args:
      numbers: the trees.
      num_levels: the most nodes in a path.
      num_words: the number of words of a set of actions.

    Returns:
      (the nodes of the paths, i32[num_levels, trees], NO_NODE beyond their ends; the ends; the
      actions tried there, as bits, i32[num_words, trees]).
    """
    trees = numbers.next.shape[1:]
    of = lambda dtype, *lead: jax.ShapeDtypeStruct((*lead, *trees), dtype)
    dtypes = [jnp.float32 if name == "untried_prior" else jnp.int32 for name in End._fields]
    end = End._make(map(of, dtypes))
    shapes = of(jnp.int32, num_levels), end, of(jnp.int32, num_words)
    return _call(_descend, shapes, numbers)


def _descend(inputs: tuple[Numbers], out: tuple[Any, End, Any]) -> None:
    (numbers,), (nodes, end, tried) = inputs, out
    limit = nodes.shape[0] - 1
    # Zeros that are not a constant: a loop's initial vectors must not be constants (jax 0.10.1).
    root = jnp.where(numbers.parent[0] == NO_NODE, 0, 1)
    nodes[...] = jnp.full(nodes.shape, NO_NODE, jnp.int32)

    def one_down(carry):
        level, node, last, length = carry
        nodes[level] = node
        descends = node != NO_NODE
        last, length = jnp.where(descends, node, last), jnp.where(descends, level, length)
        child = jnp.where(descends, _at(numbers.next, node), NO_NODE)
        return level + 1, jnp.where(level < limit, child, NO_NODE), last, length

    start = jnp.int32(0), root, root, root
    carry = lax.while_loop(lambda carry: jnp.max(carry[1]) > NO_NODE, one_down, start)
    end.node[...], end.length[...] = carry[2:]
    for name in End._fields[2:]:
        getattr(end, name)[...] = _at(getattr(numbers, name), carry[2])
    is_child, action = numbers.parent[...] == carry[2][None], numbers.action[...]
    bit = jnp.int32(1) << (action & 31)
    for word in range(tried.shape[0]):  # a sum suffices: no action leads to two children
        tried_bits = jnp.where(is_child & (action >> 5 == word), bit, 0)
        tried[word] = jnp.sum(tried_bits, axis=0, dtype=jnp.int32)


def back_up(
    choose: Callable,
    numbers: Numbers,
    new: TreeUpdate,
    nodes: jax.Array,
    length: jax.Array,
    value: jax.Array,
    of_trees: tuple[jax.Array, ...],
    first_level: int,
) -> Numbers:
    """Writes the new nodes, adds the values to the nodes of the paths, and selects there again.

    Args:
      choose: (`Numbers`, None where irrelevant to selection; bool[N, trees], which nodes are
        children; the node; its own `Numbers`, [trees] each; `of_trees`) -> i32[trees], a child or
        NO_NODE.
      numbers: the trees; changed in place.
      new: the nodes to add.
      nodes: i32[D, trees], the paths including the new nodes.
      length: i32[trees], the number of edges of these paths; -1: nothing is backed up.
      value: i32[trees], for the player to move at the end of the path; nodes an odd number of edges
        above the end add -value.
      of_trees: other numbers of the trees, [trees] each.
      first_level: static; `next` is set only on levels >= first_level, and not at a path's end.
    """
    shapes = Numbers._make(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in numbers)
    kernel = functools.partial(_back_up, choose, first_level)
    inputs = numbers, new, nodes, length, value, of_trees
    return _call(kernel, shapes, *inputs, in_place=len(numbers))


def _back_up(choose: Callable, first_level: int, inputs: tuple, out: Numbers) -> None:
    numbers, new, nodes, length, value, of_trees = inputs
    _write_new(numbers, jax.tree.map(lambda ref: ref[...], new), out)
    length, value = length[...], value[...]
    tree_numbers = [x[...] for x in of_trees]

    def add(level):
        """(each path's node on a level, or NO_NODE; a mask of these nodes)."""
        node = jnp.where(level <= length, nodes[level], NO_NODE)
        is_node = _is_at(out.next, node)
        gained = jnp.where((length - level) & 1 == 1, -value, value)
        out.visits[...] += is_node.astype(jnp.int32)
        out.value_sum[...] += jnp.where(is_node, gained[None], 0)
        return node, is_node

    def one_up(i, carry):
        level = last - 1 - i
        node, is_node = add(level)
        unread = dict.fromkeys(("action", "over", "slot", "untried"))
        current = jax.tree.map(lambda ref: ref[...], out._replace(**unread))
        own = jax.tree.map(lambda x: jnp.sum(jnp.where(is_node, x, 0), axis=0), current)
        is_child = (current.parent == node[None]) & (node != NO_NODE)[None]
        chosen = choose(current, is_child, node, own, tree_numbers)
        may_choose = (level < length) & (level >= first_level)
        out.next[...] = jnp.where(is_node & may_choose[None], chosen[None], current.next)
        return carry

    last = jnp.max(length)
    add(jnp.maximum(last, 0))
    lax.fori_loop(0, last, one_up, jnp.int32(0))


def _write_new(numbers: Numbers, new: TreeUpdate, out: Numbers) -> None:
    """Writes all numbers, with those of the new nodes and their parents replaced."""
    is_new = _is_at(numbers.next, new.node)
    is_parent = _is_at(numbers.next, new.parent) & (new.node != NO_NODE)[None]
    for name in Numbers._fields:
        x = getattr(numbers, name)[...]
        if name in TreeUpdate._fields:
            x = jnp.where(is_new, getattr(new, name)[None], x)
        if f"parent_{name}" in TreeUpdate._fields:
            x = jnp.where(is_parent, getattr(new, f"parent_{name}")[None], x)
        getattr(out, name)[...] = x


def _is_at(like: Any, node: jax.Array) -> jax.Array:
    """bool[N, trees]: a mask of the nodes [trees]; all False for NO_NODE."""
    return lax.broadcasted_iota(jnp.int32, like.shape, 0) == node[None]


def _at(numbers: Any, node: jax.Array) -> jax.Array:
    """[trees]: a number of one node of each tree; 0 for NO_NODE."""
    return jnp.sum(jnp.where(_is_at(numbers, node), numbers[...], 0), axis=0)


def of_one(function: Callable, args: Any) -> jax.Array:
    """``function(args)``, written for arrays [...] of one tree, on arrays [..., trees] of all.

    Like `jax.vmap`, but with the trees last in every intermediate array: the kernels' compiler
    cannot move axes.

    Args:
      function: may use elementwise operations, reductions, and operations that only move elements.
      args: its argument, a pytree of arrays.
    """
    leaves, tree = jax.tree.flatten(args)
    trees = leaves[0].shape[-2:]
    types = [jax.ShapeDtypeStruct(x.shape[:-2], x.dtype) for x in leaves]
    closed = jax.make_jaxpr(lambda *leaves: function(tree.unflatten(leaves)))(*types)
    return _run(closed.jaxpr, closed.consts, leaves, trees)[0]


def _run(jaxpr: Any, consts: Sequence[Any], args: Sequence[Any], trees: Sequence[int]) -> list:
    """The results, for all trees, of a program for one tree."""
    shared = [_for_all(jnp.asarray(x), trees) for x in consts]
    environment = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*shared, *args], strict=True))

    def value(x):
        is_literal = hasattr(x, "val")
        return _for_all(jnp.asarray(x.val, x.aval.dtype), trees) if is_literal else environment[x]

    for eqn in jaxpr.eqns:
        inner = eqn.params.get("jaxpr") or eqn.params.get("call_jaxpr")
        inputs = [value(x) for x in eqn.invars]
        if inner is None:
            out = [_apply(eqn, inputs, trees)]
        else:
            out = _run(getattr(inner, "jaxpr", inner), getattr(inner, "consts", ()), inputs, trees)
        environment.update(zip(eqn.outvars, out, strict=True))
    return [value(x) for x in jaxpr.outvars]


def _for_all(x: jax.Array, trees: Sequence[int]) -> jax.Array:
    return jnp.broadcast_to(x.reshape(*x.shape, 1, 1), (*x.shape, *trees))


def _apply(eqn: Any, args: list[jax.Array], trees: Sequence[int]) -> jax.Array:
    name, params = eqn.primitive.name, eqn.params
    shape = (*eqn.outvars[0].aval.shape, *trees)
    if name == "broadcast_in_dim":
        last = len(shape) - 2, len(shape) - 1
        return lax.broadcast_in_dim(args[0], shape, (*params["broadcast_dimensions"], *last))
    if name in ("reshape", "squeeze"):
        return args[0].reshape(shape)
    if name == "slice":
        strides = params["strides"] or (1,) * len(params["start_indices"])
        bounds = zip(params["start_indices"], params["limit_indices"], strides, strict=True)
        return args[0][tuple(slice(*each) for each in bounds)]
    if name == "stop_gradient":
        return args[0]
    if name in ("reduce_or", "reduce_and"):
        fold = jnp.max if name == "reduce_or" else jnp.min
        return fold(args[0].astype(jnp.int32), axis=params["axes"]) > 0
    if name in ("concatenate", *_REDUCTIONS):
        return eqn.primitive.bind(*args, **params)
    if name in _NOT_ELEMENTWISE:
        raise NotImplementedError(f"{name} is not supported in a kernel of trees: {eqn}")
    return eqn.primitive.bind(*[jnp.broadcast_to(x, shape) for x in args], **params)


_REDUCTIONS = ("reduce_sum", "reduce_max", "reduce_min")
_NOT_ELEMENTWISE = (
    *("while", "scan", "cond", "gather", "scatter", "iota", "cumsum", "sort", "rev", "pad"),
    "split",
)


def read_along(words: jax.Array, nodes: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Reads the words of the nodes along paths.

    Args:
      words: i32[W, N, B], those of every node.
      nodes: i32[D + 1, B], the paths; NO_NODE beyond the end of a path.

    Returns:
      (i32[W, D, B]: the words of the nodes on all levels but the last, 0 for NO_NODE; i32[W, B]:
      those of the last node of each path).
    """
    num_words, num_nodes, num_trees = words.shape
    lanes = _LANES if num_trees % _LANES == 0 else num_trees
    block = lambda *lead: _block((*lead, lanes), len(lead))
    of = lambda *lead: jax.ShapeDtypeStruct((*lead, num_trees), words.dtype)
    levels = nodes.shape[0] - 1
    shapes = of(num_words, levels), of(num_words)
    in_specs = block(num_words, num_nodes), block(levels + 1)
    out_specs = block(num_words, levels), block(num_words)
    return _pallas(_read_along, shapes, num_trees // lanes, in_specs, out_specs)(words, nodes)


def _read_along(words: Any, nodes: Any, out: Any, last: Any) -> None:
    from jax.experimental import pallas as pl

    num_words, num_nodes, lanes = words.shape
    place = lax.broadcasted_iota(jnp.int32, (num_nodes, lanes), 0)
    out[...] = jnp.zeros(out.shape, out.dtype)
    last[...] = jnp.zeros(last.shape, last.dtype)

    def at_level(level, carry):
        node = nodes[pl.ds(level, 1), :]
        is_node = place == node
        for w in range(num_words):
            value = jnp.sum(jnp.where(is_node, words[w], 0), axis=0, keepdims=True)
            row = pl.ds(w, 1)
            last[row, :] = jnp.where(node == NO_NODE, last[row, :], value)

            @pl.when(level < out.shape[1])
            def _(value=value, w=w):
                out[w, pl.ds(level, 1), :] = value

        return carry

    num_levels = jnp.max(jnp.sum((nodes[...] != NO_NODE).astype(jnp.int32), axis=0))
    lax.fori_loop(0, num_levels, at_level, jnp.int32(0))


def _call(kernel: Callable, shapes: Any, *inputs: Any, in_place: int = 0) -> Any:
    """Runs a kernel of (references to the inputs, references to the outputs) on each block.

    The last two axes of every array are those of the trees; their rows are divided among blocks.
    """
    arrays, tree = jax.tree.flatten(inputs)
    results, result_tree = jax.tree.flatten(shapes)
    rows, lanes = arrays[0].shape[-2:]
    block = min(rows, _SUBLANES), lanes

    def flat_kernel(*refs):
        kernel(tree.unflatten(refs[: len(arrays)]), result_tree.unflatten(refs[len(arrays) :]))

    spec = lambda x: _block((*x.shape[:-2], *block), x.ndim - 2)
    specs = list(map(spec, arrays)), list(map(spec, results))
    aliases = {i: i for i in range(in_place)}
    call = _pallas(flat_kernel, results, math.ceil(rows / block[0]), *specs, aliases)
    return result_tree.unflatten(call(*arrays))


def _block(shape: tuple[int, ...], axis: int) -> Any:
    from jax.experimental import pallas as pl

    return pl.BlockSpec(shape, lambda i: (*[0] * axis, i, *[0] * (len(shape) - axis - 1)))


def _pallas(kernel, shapes, blocks, in_specs, out_specs, aliases=None) -> Callable:
    from jax.experimental import pallas as pl  # slow to import, and not needed on a CPU
    from jax.experimental.pallas import tpu

    options = {"dimension_semantics": ("parallel",), "vmem_limit_bytes": _VMEM_BYTES}
    return pl.pallas_call(
        kernel,
        out_shape=shapes,
        grid=(blocks,),
        in_specs=in_specs,
        out_specs=out_specs,
        input_output_aliases=aliases or {},
        compiler_params=tpu.CompilerParams(**options),
    )
