"""GPU kernels (Triton) with one program per tree: a descent, or other work along its path.

If XLA compiles a loop over the levels of paths, the host of a GPU reads in every iteration whether
there is another, and each array that is written takes a kernel of its own. Here each tree goes only
as far as its own path, and writes its own entries. The rows of tree b begin at b * capacity.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

NO_NODE, ROOT = -1, 0


def descend(
    following: jax.Array, num_trees: int, limit: int, num_levels: int
) -> tuple[jax.Array, jax.Array]:
    """Each tree's path, from node 0 along `following`.

    Args:
      following: i16 or i32[R]: the next node after each node; NO_NODE if there is none.
      num_trees: B.
      limit: the most edges in a path; less than num_levels.
      num_levels: the length of the result's first axis.

    Returns:
      (the nodes i32[num_levels, B], NO_NODE beyond the end of a path; the number of edges of each
      path i32[B]).
    """
    kernel = functools.partial(_descend, following.shape[0] // num_trees, limit, num_levels)
    shape = jax.ShapeDtypeStruct((num_levels, num_trees), jnp.int32)
    nodes, length = each_tree(
        kernel, num_trees, [], [following], [shape, jax.ShapeDtypeStruct((num_trees,), jnp.int32)]
    )
    return nodes, length


def _descend(
    capacity: int, limit: int, num_levels: int, following: Any, nodes: Any, length: Any
) -> None:
    tree = number()

    def one_down(carry):
        level, node = carry
        nodes[level, tree] = node
        child = following[tree * capacity + node].astype(jnp.int32)
        return level + 1, jnp.where(level < limit, child, NO_NODE)

    def blank(level, _):
        nodes[level, tree] = jnp.int32(NO_NODE)
        return _

    start = jnp.int32(0), jnp.int32(ROOT)
    count, _ = lax.while_loop(lambda carry: carry[1] != NO_NODE, one_down, start)
    length[tree] = count - 1
    lax.fori_loop(count, num_levels, blank, jnp.int32(0))


def each_tree(
    kernel: Callable,
    num_trees: int,
    in_place: list[jax.Array],
    arrays: list[jax.Array],
    new: list[jax.ShapeDtypeStruct] | None = None,
) -> list[jax.Array]:
    """Runs one program of a single warp for each tree; each program sees the whole arrays.

    Args:
      kernel: takes references to `arrays`, to those of `in_place` and to the new ones; it may use
        the functions below.
      num_trees: B.
      in_place: arrays that it changes.
      arrays: other arrays, which it reads.
      new: shapes of new arrays that it fills.

    Returns:
      The arrays of `in_place`, then the new ones.

    Raises:
      ValueError: an array that is not `addressable`.
    """
    for x in [*arrays, *in_place]:
        if not addressable(x):
            raise ValueError(
                f"{x.dtype}{list(x.shape)}: a GPU kernel cannot address arrays of bytes from 2 to "
                "4 GiB; use fewer games at once, or fewer nodes"
            )
    from jax.experimental import pallas as pl  # slow to import, and not needed on a CPU
    from jax.experimental.pallas import triton

    whole_array = lambda x: pl.BlockSpec(x.shape, lambda i: (0,) * len(x.shape))
    shapes = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in in_place] + (new or [])
    first, last = len(arrays), len(arrays) + len(in_place)
    call = pl.pallas_call(
        lambda *refs: kernel(*refs[:first], *refs[last:]),
        out_shape=shapes,
        grid=(num_trees,),
        in_specs=[whole_array(x) for x in [*arrays, *in_place]],
        out_specs=[whole_array(x) for x in shapes],
        input_output_aliases={first + i: i for i in range(len(in_place))},
        compiler_params=triton.CompilerParams(num_warps=1, num_stages=1),
    )
    return call(*arrays, *in_place)


def addressable(array: jax.Array) -> bool:
    """Whether a kernel reaches all of an array: Pallas (jax 0.10.1) takes 64-bit offsets from 2^32
    bytes on, but 32-bit ones are signed and count elements, so bytes beyond 2^31 are missed."""
    return array.size <= 2**31 or array.size * array.dtype.itemsize > 2**32


def number() -> jax.Array:
    """i32[]: the tree of this program."""
    from jax.experimental import pallas as pl

    return pl.program_id(0)


def lanes(count: int) -> jax.Array:
    """i32[K]: 0, 1, ..., K - 1, with K a power of two above `count`."""
    return lax.broadcasted_iota(jnp.int32, (1 << count.bit_length(),), 0)


def load(array: Any, *index: jax.Array, mask: jax.Array) -> jax.Array:
    """[K]: an array's entries where the mask, bool[K], is true, else 0; indices i32[K] or i32[]."""
    from jax.experimental.pallas import triton

    index = tuple(jnp.broadcast_to(x, mask.shape) for x in index)
    return triton.load(array.at[index], mask=mask, other=jnp.zeros((), array.dtype))


def store(array: Any, *index: jax.Array, mask: jax.Array, value: jax.Array) -> None:
    """Writes entries where the mask, bool[K], is true; indices and value [K] or []."""
    from jax.experimental.pallas import triton

    index = tuple(jnp.broadcast_to(x, mask.shape) for x in index)
    value = jnp.broadcast_to(value, mask.shape).astype(array.dtype)
    triton.store(array.at[index], value, mask=mask)


def settle() -> None:
    """A barrier: makes what was written visible to all lanes."""
    from jax.experimental.pallas import triton

    triton.debug_barrier()


class ByAction(NamedTuple):
    """The statistics of all actions of a node, with or without a child; [B, A]."""

    visits: Any  # i32
    nodes: Any  # i32: the child; NO_NODE if there is none
    prior: Any  # f32
    q: Any  # f32

    @classmethod
    def shapes(cls, tree: Any) -> ByAction:
        shape = tree.num_trees, tree.num_actions
        dtypes = cls(jnp.int32, jnp.int32, jnp.float32, jnp.float32)
        return jax.tree.map(lambda dtype: jax.ShapeDtypeStruct(shape, dtype), dtypes)


def write_by_action(
    tree: Any, out: ByAction, tree_number: jax.Array, node: jax.Array, mean: Callable
) -> None:
    """Writes the statistics of all actions of a tree's node into the tree's row of `out`.

    `tree` and `out` hold references. `mean`: (value sums, visits) -> f32."""
    actions, base = lanes(tree.num_actions), tree_number * tree.capacity
    row, is_action = base + node, actions < tree.num_actions
    prior = load(tree.prior, row, actions, mask=is_action)
    blank = ByAction(jnp.int32(0), jnp.int32(NO_NODE), prior, jnp.float32(0))
    for array, value in zip(out, blank, strict=True):
        store(array, tree_number, actions, mask=is_action, value=value)
    settle()
    is_child = actions < tree.num_children[row].astype(jnp.int32)
    child = load(tree.children, row, actions, mask=is_child).astype(jnp.int32)
    of_child = lambda array: load(array, base + child, mask=is_child)
    child_action, visits = of_child(tree.action).astype(jnp.int32), of_child(tree.visits)
    # Distinct for all lanes.
    child_action = jnp.where(is_child, child_action, tree.num_actions + actions)
    q = mean(-of_child(tree.value_sum), visits)
    for array, value in zip(out, (visits, child, of_child(tree.edge_prior), q), strict=True):
        store(array, tree_number, child_action, mask=is_child, value=value)


_FEW = 16
"""`write_rows` packs arrays with up to so many numbers per row as columns."""


def write_rows(
    arrays: list[jax.Array], rows: jax.Array, values: list[jax.Array]
) -> list[jax.Array]:
    """Writes values [n, ...] into arrays [R, ...] at distinct rows i32[n]; drops rows >= R."""
    flat = lambda x: x.reshape(len(x), -1)
    indices = [i for i, x in enumerate(arrays) if x.size]
    # The few numbers of such rows are packed: separate arrays would each take a kernel before this.
    width_of = lambda i: math.prod(arrays[i].shape[1:])
    small = [i for i in indices if width_of(i) <= _FEW and arrays[i].dtype in AS_WORDS]
    others = [i for i in indices if i not in small]
    starts = dict(zip(small, np.cumsum([0, *map(width_of, small)]), strict=False))
    columns = [values[i].astype(arrays[i].dtype).reshape(len(rows), -1) for i in small]
    words = [jnp.concatenate([word(x).T for x in columns])] if small else []

    def kernel(rows, *refs):
        i, row = number(), rows[number()]
        inputs = refs[: -len(indices)]
        arrays_out = dict(zip(indices, refs[-len(indices) :], strict=True))
        new = dict(zip(others, inputs[len(words) :], strict=True))
        for at, array in arrays_out.items():
            place, is_row = lanes(width_of(at)), row < array.shape[0]
            inside = place < width_of(at)
            if at in starts:
                value = load(inputs[0], int(starts[at]) + place, i, mask=inside)
                value = number_of(value, array.dtype)
            else:
                value = load(new[at], i, place, mask=inside)
            store(array, row, place, mask=inside & is_row, value=value)

    inputs = [rows, *words, *(flat(values[i]) for i in others)]
    outputs = each_tree(kernel, len(rows), [flat(arrays[i]) for i in indices], inputs)
    for i, new in zip(indices, outputs, strict=True):
        arrays = [*arrays[:i], new.reshape(arrays[i].shape), *arrays[i + 1 :]]
    return arrays


_CHUNK = 1024
"""How many numbers one warp processes at a time."""


def stable_partition(flags: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(`indexing.ranks`, `true_first`, `count_true`) of bool[n], in a single program."""
    count = flags.shape[0]
    size = min(_CHUNK, 1 << (count - 1).bit_length())

    def kernel(flags, rank, order, total_of):
        lane = lax.broadcasted_iota(jnp.int32, (size,), 0)

        def of_chunk(i):
            place = i * size + lane
            inside = place < count
            return place, inside, load(flags, place, mask=inside).astype(jnp.int32)

        def add(i, total):
            return total + jnp.sum(of_chunk(i)[2])

        def write(i, before):
            place, inside, flag = of_chunk(i)
            rank_here = before + jnp.cumsum(flag) - 1
            store(rank, place, mask=inside, value=rank_here)
            place_of_false = total + place - rank_here - 1
            store(order, jnp.where(flag > 0, rank_here, place_of_false), mask=inside, value=place)
            return before + jnp.sum(flag)

        chunks = -(-count // size)
        total = lax.fori_loop(0, chunks, add, jnp.int32(0))
        total_of[0] = lax.fori_loop(0, chunks, write, jnp.int32(0))

    new = [jax.ShapeDtypeStruct((size,), jnp.int32) for size in (count, count, 1)]
    rank, order, total = each_tree(kernel, 1, [], [flags.astype(jnp.int32)], new)
    return rank, order, total[0]


AS_WORDS = [
    *map(jnp.dtype, ["bool", "uint8", "int8", "int16", "int32", "uint32", "float16", "float32"])
]
"""The dtypes that `word` accepts."""


def word(x: jax.Array) -> jax.Array:
    """Numbers of at most 32 bits as words, u32[...]."""
    if x.dtype == jnp.float16:
        x = lax.bitcast_convert_type(x, jnp.int16)
    return lax.bitcast_convert_type(x if x.dtype.itemsize == 4 else x.astype(jnp.int32), jnp.uint32)


def number_of(word: jax.Array, dtype: Any) -> jax.Array:
    """The inverse of `word`."""
    dtype = jnp.dtype(dtype)
    if dtype.itemsize == 4:
        return lax.bitcast_convert_type(word, dtype)
    integers = lax.bitcast_convert_type(word, jnp.int32)
    if dtype == jnp.float16:
        return lax.bitcast_convert_type(integers.astype(jnp.int16), dtype)
    return integers.astype(dtype)
