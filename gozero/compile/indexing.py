"""How rows are read and kernels return, where XLA has to be told what it cannot infer.

Five things, for arrays that a loop reads and then writes in place and for small kernels on a CPU.
None of them changes a number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import partial_eval

from gozero.compile import mode, stages


def read_rows(array: jax.Array, rows: jax.Array) -> jax.Array:
    """array [R, ...] at rows i32[...], all inside the array.

    A read of one row XLA makes a slice, and fuses that into what comes after, be it beyond the next
    write; then it has to keep the old array: two copies of each tree-sized array a step, with a
    single tree (jaxlib 0.10.1, `tests/test_invariants.py`, invariant 2). So one row is read twice.
    """
    if rows.shape == (1,) and not mode.plain():
        return array.at[jnp.tile(rows, 2)].get(mode="promise_in_bounds")[:1]
    return array.at[rows].get(mode="promise_in_bounds")


def small_kernel(function: Callable, *args: Any, reduced: int = 0) -> jax.Array:
    """``function(*args)``, an integer array, as `stages.one_kernel`.

    A kernel has two results or more (jaxlib 0.10.1, see there); the second is the first plus 1.
    """
    if mode.plain():
        return function(*args)

    def twice(*args):
        found = function(*args)
        return found, found + 1

    return stages.one_kernel(twice, *args, reduced=reduced)[0]


def all_used(function: Callable, one: Any, found: jax.Array, given: Any) -> jax.Array:
    """f32[M, K] `found`, as if each array [M, K] of `given` were needed for it.

    XLA:CPU stops the process where it finds an array of a kernel to be useless (jaxlib 0.10.1;
    `stages.one_kernel`), and a function of the user may ignore some of its arguments. Where it
    does, the result is made to depend on whether a number is a number.

    Args:
      function: what made `found` of one of the M.
      one: its argument, or the shapes of that: a pytree of arrays [K] and [].
      found: the results.
      given: the arguments of all M.
    """
    if mode.plain():
        return found
    _, used = partial_eval.dce_jaxpr(jax.make_jaxpr(function)(one).jaxpr, [True])
    for x, is_used in zip(jax.tree.leaves(given), used, strict=True):
        if x.ndim == 2 and not is_used:
            is_whole = jnp.issubdtype(x.dtype, jnp.integer)
            is_number = x > jnp.iinfo(x.dtype).min if is_whole else x == x
            found = jnp.where(is_number, found, -jnp.inf)
    return found


def after(decision: jax.Array, sound: jax.Array) -> jax.Array:
    """bool[B]: a decision, which is made to depend on what was read.

    Where an array is read and then written, the write stays in place only if what it writes, or
    where, depends on what was read: else XLA may put the read behind it, and copies the array
    (jaxlib 0.10.1, invariant 2 of `tests/test_invariants.py`).

    Args:
      decision: bool[B].
      sound: bool[B]: true of whatever is read, which the compiler does not know.
    """
    return decision if mode.plain() else decision & sound


def by_row(decision: jax.Array, by_entry: Callable[[], jax.Array]) -> jax.Array:
    """bool[B]: a decision by one entry of rows that are read whole, and written next.

    As with `after`: made of the rows that were read it keeps the write in place; read by itself it
    does not, and a single tree is copied (jaxlib 0.10.1, invariant 2 of
    `tests/test_invariants.py`).

    Args:
      decision: bool[B], made of the rows.
      by_entry: the same, made of the entries alone.
    """
    return by_entry() if mode.plain() else decision
