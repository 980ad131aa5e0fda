"""Reads, writes and small kernels in the form that XLA compiles well.

For arrays that a loop reads and then writes in place, for small kernels on a CPU, and for forms
that a TPU or a GPU prefers. None of it changes a result.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental.layout import Layout, with_layout_constraint
from jax.interpreters import partial_eval

from gozero.compile import batching, mode, stages
from gozero.compile.kernels import paths


def read_rows(array: jax.Array, rows: jax.Array) -> jax.Array:
    """array [R, ...] at rows i32[...], all inside the array.

    XLA turns a read of one row into a slice and fuses it into later code, even past the next write;
    then it has to keep the old array: two copies of each tree-sized array per step, with a single
    tree (jaxlib 0.10.1, `tests/test_invariants.py`, invariant 2). So a single row is read twice.
    """
    if rows.size == 1 and not mode.plain():
        twice = array.at[jnp.tile(rows.reshape(1), 2)].get(mode="promise_in_bounds")
        return twice[:1].reshape(*rows.shape, *array.shape[1:])
    return array.at[rows].get(mode="promise_in_bounds")


_WIDTH = 32
"""Up to how many numbers of each row are gathered at a time; for more, XLA would rather make the
rows contiguous."""


def take(array: jax.Array, rows: jax.Array) -> jax.Array:
    """array [C, ...] at rows i32[n], all inside the array.

    On a TPU axis C is last in memory, so that nothing is padded. For a gather, XLA copies an array
    of vectors so that the vectors are contiguous, and copies an array of numbers stored as [1, C],
    as a device's shard is, to one with an axis less (jaxlib 0.10.1). It does neither where [1, C]
    is indexed, and few numbers of each vector at a time.
    """
    if mode.plain() or mode.backend() != "tpu":
        return array[rows]
    if array.ndim != 2 or array.shape[1] <= _WIDTH:
        return array[None][jnp.zeros_like(rows), rows]
    lanes, parts = in_this_order(array.T), []
    for start in range(0, array.shape[1], _WIDTH):
        part = lanes[start : start + _WIDTH].T[None][jnp.zeros_like(rows), rows]
        lanes, part = lax.optimization_barrier((lanes, part))  # one slice in memory at a time
        lanes = in_this_order(lanes)
        parts.append(part)
    return jnp.concatenate(parts, -1)


def write_rows(arrays: Any, rows: jax.Array, values: Any) -> Any:
    """Writes values [n, ...] into a pytree of arrays [R, ...] at distinct rows i32[n].

    Rows >= R are dropped. On a GPU each scatter takes a kernel, so one Pallas kernel writes all
    that it can address.
    """

    def in_kernel(arrays, rows, values):
        flat, treedef = jax.tree.flatten(arrays)
        values, fits = jax.tree.leaves(values), [paths.addressable(x) for x in flat]
        of_kernel = lambda all: [x for x, is_fit in zip(all, fits, strict=True) if is_fit]
        written = iter(paths.write_rows(of_kernel(flat), rows, of_kernel(values)))
        outputs = [
            next(written) if is_fit else _write_rows(array, rows, value)
            for array, value, is_fit in zip(flat, values, fits, strict=True)
        ]
        return treedef.unflatten(outputs)

    others = {"cuda": in_kernel} if mode.backend() == "gpu" else {}
    return mode.by_platform(arrays, rows, values, default=_write_rows, **others)


def _write_rows(arrays: Any, rows: jax.Array, values: Any) -> Any:
    def write(array, new):
        return array.at[rows].set(new.astype(array.dtype), mode="drop", unique_indices=True)

    return jax.tree.map(write, arrays, values)


def write_sequentially(
    array: jax.Array, places: tuple[jax.Array, ...], values: jax.Array, adds=False
):
    """Writes values [M, ...] into array at places, i32[M] for each indexed axis, one after another.

    With `adds`, adds them. Places outside the array are dropped; none may be negative. Does what a
    scatter does, where there is no code for one. Trip bound: M, up to the last place inside.
    """
    num_indexed, flat = len(places), [place.reshape(-1) for place in places]
    rest = array.shape[num_indexed:]
    values = values.astype(array.dtype).reshape(-1, *[1] * num_indexed, *rest)
    ends = zip(flat, array.shape, strict=False)
    is_inside = functools.reduce(jnp.logical_and, [x < size for x, size in ends])
    number = jnp.arange(1, 1 + values.shape[0], dtype=jnp.int32)

    def write_one(i, array):
        start = [jnp.where(is_inside[i], x[i], 0) for x in flat] + [np.int32(0)] * len(rest)
        before = lax.dynamic_slice(array, start, (*[1] * num_indexed, *rest))
        value = lax.dynamic_index_in_dim(values, i, keepdims=False)
        new = jnp.where(is_inside[i], before + value if adds else value, before)
        return lax.dynamic_update_slice(array, new, start)

    return lax.fori_loop(0, jnp.max(jnp.where(is_inside, number, 0)), write_one, array)


def for_each_true(flags: jax.Array, body: Callable[[jax.Array, Any], Any], carry: Any) -> Any:
    """``carry = body(i, carry)`` for the index i32[] of each true entry of bool[n], in order.

    Trip bound: the number of true entries.
    """
    for start in range(0, flags.size, 32):
        own = flags[start : start + 32]
        bit = np.uint32(1) << np.arange(own.size, dtype=np.uint32)
        bits = jnp.sum(jnp.where(own, bit, np.uint32(0)), dtype=jnp.uint32)

        def step(state, start=start):
            bits, carry = state
            index = start + 31 - lax.clz(bits & (~bits + np.uint32(1))).astype(jnp.int32)
            return bits & (bits - np.uint32(1)), body(index, carry)

        _, carry = lax.while_loop(lambda state: state[0] != 0, step, (bits, carry))
    return carry


def scan(step: Callable, carry: Any, length: int, shapes: Shapes = ()) -> tuple[Any, Any]:
    """``lax.scan(step, carry, length=length)``.

    On a GPU each output array takes a kernel in every step, and each array of the carry is copied
    by one if its old value is still used. So there small arrays are packed into one: outputs of the
    same shape, and arrays in the carry of each of the `shapes`.
    """
    if mode.plain() or mode.backend() != "gpu":
        return lax.scan(step, carry, length=length)
    packing, out_shapes = _Packing(carry, shapes), jax.eval_shape(step, carry, None)[1]
    of_outputs = _Packing(out_shapes, {x.shape for x in jax.tree.leaves(out_shapes)})

    def packed(carry, x):
        carry, out = step(packing.unpack(carry), x)
        return packing.pack(carry), of_outputs.pack(out)

    carry, stacks = lax.scan(packed, packing.pack(carry), length=length)
    return packing.unpack(carry), jax.vmap(of_outputs.unpack)(stacks)


def while_loop(condition: Callable, step: Callable, carry: Any, shapes: Shapes) -> Any:
    """``lax.while_loop(goes_on, step, carry)``; arrays of these shapes are packed as in `scan`."""
    if mode.plain() or mode.backend() != "gpu":
        return lax.while_loop(condition, step, carry)
    packing = _Packing(carry, shapes)
    carry = lax.while_loop(
        lambda carry: condition(packing.unpack(carry)),
        lambda carry: packing.pack(step(packing.unpack(carry))),
        packing.pack(carry),
    )
    return packing.unpack(carry)


def ranks(flags: jax.Array) -> jax.Array:
    """i32[n]: for each true entry of bool[n], how many true ones precede it; for others 1 less.

    On a GPU one kernel computes this, `true_first` and `count_true` for the same flags: a running
    sum would take several, a sort and a sum one each.
    """
    return _partition(0, lambda flags: jnp.cumsum(flags, dtype=jnp.int32) - 1, flags)


def true_first(flags: jax.Array) -> jax.Array:
    """i32[n]: the indices of the true entries of bool[n], in order, then those of the others."""
    first = lambda flags: jnp.argsort(~flags, stable=True).astype(jnp.int32)
    return _partition(1, first, flags)


def count_true(flags: jax.Array) -> jax.Array:
    """i32[]: the number of true entries of bool[n]."""
    return _partition(2, lambda flags: jnp.sum(flags, dtype=jnp.int32), flags)


def _partition(which: int, default: Callable, flags: jax.Array) -> jax.Array:
    if mode.plain() or mode.backend() != "gpu":
        return default(flags)
    in_kernel = lambda flags: paths.stable_partition(flags)[which]
    return mode.by_platform(flags, cuda=in_kernel, default=default)


Shapes = Collection[tuple[int, ...]]


class _Packing:
    """Packs those arrays of a pytree that have one of some shapes: words u32[n, ...] per shape.

    Only arrays of numbers of at most 32 bits are packed; others are kept as they are.
    """

    def __init__(self, tree: Any, shapes: Shapes):
        leaves, self.treedef = jax.tree.flatten(tree)
        self.dtypes = [x.dtype for x in leaves]
        self.places: dict[tuple[int, ...], list[int]] = {}  # shape -> leaves packed together
        for i, x in enumerate(leaves):
            if x.shape in shapes and x.dtype in paths.AS_WORDS:
                self.places.setdefault(x.shape, []).append(i)
        packed = {i for at in self.places.values() for i in at}
        self.others = [i for i in range(len(leaves)) if i not in packed]

    def pack(self, tree: Any) -> tuple[list[jax.Array], list[jax.Array]]:
        leaves = jax.tree.leaves(tree)
        words = [jnp.stack([paths.word(leaves[i]) for i in at]) for at in self.places.values()]
        return [leaves[i] for i in self.others], words

    def unpack(self, packed: tuple[list[jax.Array], list[jax.Array]]) -> Any:
        others, words = packed
        leaves = dict(zip(self.others, others, strict=True))
        for at, stack in zip(self.places.values(), words, strict=True):
            leaves |= {i: paths.number_of(stack[k], self.dtypes[i]) for k, i in enumerate(at)}
        return jax.tree.unflatten(self.treedef, [leaves[i] for i in sorted(leaves)])


def put(array: jax.Array, place: jax.Array, values: jax.Array, axis: int = 0) -> jax.Array:
    """Writes values at place i32[] of an axis of one game's array; 0 <= place < its length T.

    Under ``vmap`` each game has its own place. On a TPU, XLA puts the games last in elementwise
    code, but not in scatters and gathers: for those it copies the array to another layout and back,
    padded up to 128 times (jaxlib 0.10.1). So there each element is selected by a mask.
    """
    by_select = functools.partial(put_by_select, axis)
    default = functools.partial(_put, axis)
    return mode.by_platform(array, place, values, tpu=by_select, default=default)


def get(array: jax.Array, place: jax.Array) -> jax.Array:
    """Reads one game's array [T, ...] at place i32[], 0 <= place < T; see `put`."""
    return mode.by_platform(array, place, tpu=get_by_select, default=_get)


def _put(axis: int, array: jax.Array, place: jax.Array, values: jax.Array) -> jax.Array:
    return array.at[(slice(None),) * axis + (place,)].set(values)


def _get(array: jax.Array, place: jax.Array) -> jax.Array:
    return lax.dynamic_index_in_dim(array, place, keepdims=False)


def put_by_select(axis: int, array: jax.Array, place: jax.Array, values: jax.Array) -> jax.Array:
    """`put` in the form for a TPU."""
    return jnp.moveaxis(_put_by_select(jnp.moveaxis(array, axis, -1), place, values), -1, axis)


def get_by_select(array: jax.Array, place: jax.Array) -> jax.Array:
    """`get` in the form for a TPU."""
    return _get_by_select(jnp.moveaxis(array, 0, -1), place)


@batching.over_games
def _put_by_select(array: jax.Array, place: jax.Array, values: jax.Array) -> jax.Array:
    """Arrays [..., T, B], i32[B], [..., B].

    A TPU would compute the new array twice if it is read before the loop ends; the barrier prevents
    that.
    """
    array = in_this_order(array)
    updated = jnp.where(_is_at(place, 0, array), values[..., None, :], array)
    return lax.optimization_barrier(in_this_order(updated))


_CHUNK = 32


@batching.over_games
def _get_by_select(array: jax.Array, place: jax.Array) -> jax.Array:
    """Array [..., T, B], i32[B] -> [..., B].

    Chunks along T are combined first: reducing over all of T takes twice as long.
    """
    array = in_this_order(array)
    length = array.shape[-2]
    size = min(length, _CHUNK)
    united = jnp.zeros_like(array[..., :size, :])
    for start in range(0, length, size):
        start = min(start, length - size)  # harmless: a place in two chunks is found twice
        chunk = lax.slice_in_dim(array, start, start + size, axis=-2)
        united |= jnp.where(_is_at(place, start, chunk), chunk, 0)
    united = lax.optimization_barrier(united)
    return lax.reduce(united, np.zeros((), array.dtype), lax.bitwise_or, (united.ndim - 2,))


def _is_at(place: jax.Array, start: int, array: jax.Array) -> jax.Array:
    """bool[1, ..., T, B]: whether each index is its game's place; the indices begin at `start`."""
    is_at = start + lax.iota(jnp.int32, array.shape[-2])[:, None] == place[None]
    return is_at.reshape((1,) * (array.ndim - 2) + is_at.shape)


def in_this_order(array: jax.Array) -> jax.Array:
    """Makes a TPU lay an array out in the order of its axes, with tiles of the last two.

    Does nothing on a CPU, which returns an array with such a layout from a program as if it had
    another (jaxlib 0.10.1), nor where programs are exported for several platforms: JAX does not
    serialise programs with such a custom call.
    """
    if mode.backend() != "tpu":
        return array
    order = Layout(tuple(range(array.ndim)))
    lay_out = lambda array: with_layout_constraint(array, order)
    return lax.platform_dependent(array, tpu=lay_out, default=lambda array: array)


def small_kernel(function: Callable, *args: Any, reduced: int = 0) -> jax.Array:
    """``function(*args)``, an integer array, as `stages.one_kernel`.

    A kernel must have two results or more (jaxlib 0.10.1, see there); the second is the first + 1.
    """
    if mode.plain():
        return function(*args)

    def twice(*args):
        result = function(*args)
        return result, result + 1

    return stages.one_kernel(twice, *args, reduced=reduced)[0]


def all_used(function: Callable, arg_types: Any, result: jax.Array, args: Any) -> jax.Array:
    """Returns `result`, f32[M, K], made to depend on each array [M, K] of `args`.

    XLA:CPU aborts the process if a kernel does not use one of its arrays (jaxlib 0.10.1;
    `stages.one_kernel`), and a user's function may ignore some of its arguments. For those the
    result is made to depend on whether their numbers are NaN (or the lowest integer).

    Args:
      function: the function that computed `result`, for one of the M.
      arg_types: its argument, or the argument's shapes: a pytree of arrays [K] and [].
      result: the results.
      args: the arguments of all M.
    """
    if mode.plain():
        return result
    _, used = partial_eval.dce_jaxpr(jax.make_jaxpr(function)(arg_types).jaxpr, [True])
    for x, is_used in zip(jax.tree.leaves(args), used, strict=True):
        if x.ndim == 2 and not is_used:
            is_integer = jnp.issubdtype(x.dtype, jnp.integer)
            is_number = x > jnp.iinfo(x.dtype).min if is_integer else x == x
            result = jnp.where(is_number, result, -jnp.inf)
    return result


_VECTOR = 16
"""How many 32-bit numbers are compared at once."""


def highest(numbers: jax.Array) -> jax.Array:
    """``jnp.max(numbers, axis=-1)`` of 32-bit numbers, [..., K] with K > 0.

    LLVM computes a maximum of many numbers one after another: for floats, because XLA returns NaN
    if there is one, and for up to a hundred integers too (jaxlib 0.10.1). Slices are compared as
    vectors. (If all are subnormal, this returns the highest, where XLA:CPU otherwise returns 0.)
    """
    maximum = functools.partial(jnp.max, axis=-1)
    by_slices = _highest_by_slices if numbers.shape[-1] > _VECTOR else maximum
    return mode.by_platform(numbers, cpu=by_slices, default=maximum)


def _highest_by_slices(numbers: jax.Array) -> jax.Array:
    if not jnp.issubdtype(numbers.dtype, jnp.floating):
        return _max_of_slices(numbers)
    # As integers of the same order: the bits, with all but the sign inverted in negative ones.
    ordered = lambda bits: bits ^ ((bits >> 31) & np.int32(2**31 - 1))  # its own inverse
    bits = ordered(lax.bitcast_convert_type(numbers, jnp.int32))
    # A NaN, but not the highest integer: LLVM would turn a maximum with that into a select and not
    # vectorise it.
    maximum = _max_of_slices(jnp.where(jnp.isnan(numbers), np.int32(2**31 - 2), bits))
    return lax.bitcast_convert_type(ordered(maximum), numbers.dtype)


def _max_of_slices(numbers: jax.Array) -> jax.Array:
    last = numbers.shape[-1] - _VECTOR
    starts = [*range(0, last, _VECTOR), last]  # harmless: numbers in two slices are found twice
    slices = [lax.slice_in_dim(numbers, x, x + _VECTOR, axis=-1) for x in starts]
    return jnp.max(functools.reduce(jnp.maximum, slices), axis=-1)


def after(decision: jax.Array, is_sound: jax.Array) -> jax.Array:
    """bool[B]: the decision, made to depend on what was read.

    Where an array is read and then written, the write is done in place only if what it writes, or
    where, depends on what was read: otherwise XLA may move the read after the write, and copies the
    array (jaxlib 0.10.1, invariant 2 of `tests/test_invariants.py`).

    Args:
      decision: bool[B].
      is_sound: bool[B], computed from what was read; always true, but the compiler cannot know.
    """
    return decision if mode.plain() else decision & is_sound


def by_row(decision: jax.Array, by_entry: Callable[[], jax.Array]) -> jax.Array:
    """bool[B]: a decision that depends on one entry of rows that are read whole and written next.

    As with `after`: computed from the rows that were read, it keeps the write in place; computed
    from a separate read of the entry it does not, and a single tree is copied (jaxlib 0.10.1,
    invariant 2 of `tests/test_invariants.py`).

    Args:
      decision: bool[B], computed from the rows.
      by_entry: the same, computed from the entries alone.
    """
    return by_entry() if mode.plain() else decision
