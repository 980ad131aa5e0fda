"""Stages of a program that XLA:CPU compiles separately, or as a single kernel.

XLA:CPU fuses a computation again into every array that needs it. A board is many arrays, so a
number that all of its words depend on, such as "is this chain in atari?", would be computed
once per word, and with it everything that it was computed from. XLA:CPU ignores
``optimization_barrier``, but cannot look through a branch: a stage that ends in one small output
is put into a branch that is always taken (`once`). On other platforms fusions with several outputs
solve this, and there is no branch.

XLA:CPU also makes a kernel of each fusion and calls them one by one; `one_kernel` compiles a
function, with all its loops, as one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental.xla_metadata import set_xla_metadata
from jax.extend import core, random
from jax.interpreters import partial_eval
from jaxlib import version

from gozero.compile import mode

mode.make_context()

CPU_VECTOR_BITS = 512
"""The widest vectors that LLVM may use on a CPU; see `cpu_compiler_options`."""

_ONE_KERNEL = {"xla_cpu_small_call": "true", "inlineable": "false"}
_ALL_ONES = np.uint32(0xFFFFFFFF)


def once(stage: Callable, *args: Any) -> Any:
    """``stage(*args)``, on a CPU compiled separately from what comes before and after it.

    Args:
      stage: any function of a batch. (Under ``vmap`` the branch would become a select: for a
        stage of one game use `batching.behind_barrier`.)
      args: pytrees of arrays. The branch depends on a word of the first, in a way that always
        takes it but that the compiler does not see.
    """
    if mode.plain():
        return stage(*args)
    stage = jax.jit(stage)  # traced once for all its uses below
    always_true = _always(jax.tree.leaves(args)[0])

    def branch(*args):
        def zeros(*_):
            shapes = jax.eval_shape(stage, *args)
            return jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), shapes)

        return lax.cond(always_true, stage, zeros, *args)

    return mode.by_platform(*args, cpu=branch, default=stage)


def _always(words: jax.Array) -> jax.Array:
    """bool[]: True, but computed from integers of any shape so that the compiler does not know it.

    (A word shifted right is never all ones; the compiler does not find this out.)
    """
    if words.size == 0:
        return jnp.bool_(True)  # an empty batch: nothing is computed
    word = words[(0,) * words.ndim].astype(jnp.uint32)
    return (word >> np.uint32(1)) != _ALL_ONES


def not_constant(tree: Any, word: jax.Array) -> Any:
    """The arrays of a pytree, unchanged, but hidden so that the compiler sees no constants.

    XLA may abort the process when it emits a call of `one_kernel` with a constant among its
    arguments, which it may move into the called function (jaxlib 0.10.1). `one_kernel` prevents
    that of its arguments. `word` is an integer array that is not a constant.
    """
    if mode.plain():
        return tree

    def hide(x):
        x = x if hasattr(x, "dtype") else jnp.asarray(x)
        if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
            impl = jax.random.key_impl(x)
            return jax.random.wrap_key_data(hide(jax.random.key_data(x)), impl=impl)
        different = (x == 0).astype(x.dtype)  # XLA would drop a choice between equal constants
        return jnp.where(_always(word), x, different)

    return jax.tree.map(hide, tree)


MAX_REDUCED = 2**15 if version.__version_info__ < (0, 11) else 2**12 - 1
"""The size of the largest array that one kernel may reduce. XLA computes a sum or a maximum of more
floats by a library call, which such a kernel cannot contain: it does not compile. (Seen with jaxlib
0.10.1 above 2^15, with 0.12 from 2^12 on.)"""


def one_kernel(function: Callable, *args: Any, reduced: int = 0) -> Any:
    """``function(*args)``, compiled on the CPU as one kernel with all its loops.

    Where a loop works on a few thousand words, calling its kernels takes a good part of its time.
    XLA:CPU compiles what it considers a small loop as one kernel; here it is told to. Not for work
    that is worth several threads, nor for sorts, for which such a kernel has no code.

    Args:
      function: any function without sorts that returns two arrays or more. (XLA would split a
        single large one over threads, and call the kernel wrongly.)
      reduced: the size of the largest array that it reduces. Above `MAX_REDUCED`, where calls cost
        little compared with the work, the function is compiled like any other.
      args: its arguments; it must use all of them. (Some unused ones make XLA abort the process
        when it emits the kernel; seen with jaxlib 0.10.1.)

    Raises:
      ValueError: the function returns a single array, or does not use an argument.
    """
    if mode.plain() or reduced > MAX_REDUCED:
        return function(*args)
    function = jax.jit(function)

    def as_kernel(*args):
        # Behind the barrier XLA moves no constant array into the function, which aborts.
        out = function(*lax.optimization_barrier(args))
        if len(jax.tree.leaves(out)) < 2:
            raise ValueError("one_kernel: the function returns a single array; return two or more")
        unused = _unused(function, *args)
        if unused:
            raise ValueError(f"one_kernel: the function does not use {', '.join(unused)}")
        return set_xla_metadata(out, **_ONE_KERNEL)  # marks the call

    return mode.by_platform(*args, cpu=as_kernel, default=function)


def step_kernel(
    function: Callable, first: Any, *args: Any, word: jax.Array | None = None, reduced: int = 0
) -> Any:
    """``function(first, *args)`` as `one_kernel`, for a step or a stage of a search of few trees.

    A simulation of one tree is a hundred kernels of a few numbers each. XLA:CPU runs them as a
    graph, on several threads that wait for each other longer than the kernels take.

    The function may leave arguments unused. It writes at indices one after another
    (`mode.writes_sequentially`), because such a kernel has no code for scatters. If it contains
    anything else without code, such as a sort or a matrix product, it is compiled like any other
    function.

    Args:
      function, reduced: as in `one_kernel`.
      first, args: pytrees of arrays; those in `first` are not constants.
      word: an integer array that is not a constant; None if nothing in `args` is one either.
    """
    if mode.plain() or mode.writes_sequentially() or reduced > MAX_REDUCED:
        return function(first, *args)

    def as_kernel(first, *args):
        return _step_kernel(function, first, *(args if word is None else not_constant(args, word)))

    return mode.by_platform(first, *args, cpu=as_kernel, default=function)


def _step_kernel(function: Callable, *args: Any) -> Any:
    leaves, treedef = jax.tree.flatten(args)

    def of_leaves(*leaves):
        with mode.sequential_writes():
            return function(*treedef.unflatten(leaves))

    closed, shapes = jax.make_jaxpr(of_leaves, return_shape=True)(*leaves)
    jaxpr, used = partial_eval.dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars))
    if not _has_code(jaxpr):
        return function(*args)
    used_leaves = [x for x, is_used in zip(leaves, used, strict=True) if is_used]
    kernel = jax.jit(core.jaxpr_as_fun(core.ClosedJaxpr(jaxpr, closed.consts)))
    out: Any = set_xla_metadata(kernel(*lax.optimization_barrier(used_leaves)), **_ONE_KERNEL)
    return jax.tree.unflatten(jax.tree.structure(shapes), out)


_NO_CODE = (
    *("sort", "top_k", "scatter", "dot_general", "conv_general", "fft", "rng_", "ragged"),
    *("cholesky", "eig", "lu", "qr", "svd", "schur", "hessenberg", "householder", "tridiagonal"),
    *("triangular_solve", "custom_call", "ffi", "pure_callback", "io_callback", "debug", "pallas"),
    *("shard_map", "all_", "psum", "pmax", "pmin", "ppermute", "reduce_scatter", "infeed"),
)
"""Prefixes of the JAX primitives for which one kernel has no code (jaxlib 0.10.1)."""


def _has_code(jaxpr: Any) -> bool:
    """Whether one kernel has code for all operations."""
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        if name.startswith(_NO_CODE):
            return False
        inner = jax.tree.leaves(list(equation.params.values()), is_leaf=_is_jaxpr)
        if not all(_has_code(getattr(x, "jaxpr", x)) for x in inner if _is_jaxpr(x)):
            return False
    return True


def _is_jaxpr(x: Any) -> bool:
    return isinstance(x, (core.Jaxpr, core.ClosedJaxpr))


def _unused(function: Callable, *args: Any) -> list[str]:
    """The paths of the arrays among its arguments that a jitted function does not use."""
    traced = function.trace(*args).jaxpr.jaxpr
    used = {id(x) for equation in traced.eqns for x in equation.invars}
    used |= {id(x) for x in traced.outvars}
    places = [f"args{jax.tree_util.keystr(path)}" for path, _ in jax.tree.leaves_with_path(args)]
    inputs = traced.invars[-len(places) :] if places else []
    return [place for place, x in zip(places, inputs, strict=True) if id(x) not in used]


def cpu_compiler_options() -> dict[str, Any]:
    """The ``compiler_options`` for ``jax.jit`` of board code on this backend.

    LLVM uses 256-bit vectors unless told to prefer wider ones, because the first processors with
    wider ones lowered their clock for them. Board code is elementwise integer code throughout: with
    AVX-512, playouts run 1.1 times as fast on 9x9 and 1.4 times on 19x19; the rules, the search and
    the network neither gain nor lose. Without AVX-512 nothing changes. Other backends have no such
    option: the dict is empty.

    Starts JAX's backend. Commands use the option for everything that they compile; see
    `gozero.apps.runtime.prepare`.
    """
    if mode.plain() or mode.backend() != "cpu":
        return {}
    return {"xla_cpu_prefer_vector_width": CPU_VECTOR_BITS}


_SLOW_PASSES = (
    "while-loop-trip-count-annotator",
    "simplify-while-loops",
    "while-loop-invariant-code-motion",
)


def fast_compile_options(fuses_deeply: bool = False) -> dict[str, Any]:
    """Options that make a program of few games compile faster on this backend and run as fast.

    They disable passes over loops, which find a loop's trip count by running it, again in every
    round of the pipeline. And they select XLA's older emitter, which puts many kernels into one
    LLVM module; the newer one (jaxlib 0.12 has no other) uses MLIR and a module for each kernel.

    Args:
      fuses_deeply: whether values that depend on many arrays are used in many places: the older
        emitter would recompute them in each, so the newer one is kept.
    """
    if mode.plain() or mode.backend() != "cpu":
        return {}
    options: dict[str, Any] = {"xla_disable_hlo_passes": ",".join(_SLOW_PASSES)}
    if not fuses_deeply and version.__version_info__ < (0, 11):
        options["xla_cpu_use_fusion_emitters"] = False
    return options


def unoptimized_options() -> dict[str, Any]:
    """Options for a program that runs once per search, to compile as fast as possible on this
    backend: LLVM optimises nothing."""
    if mode.plain() or mode.backend() != "cpu":
        return {}
    return fast_compile_options() | {"xla_backend_optimization_level": 0}


def split_key(key: jax.Array, num: int) -> jax.Array:
    """``jax.random.split(key, num)``; on a GPU one kernel joins halves of keys, not two."""
    if mode.plain() or mode.backend() != "gpu" or not _is_threefry(key):
        return jax.random.split(key, num)
    high, low = jnp.zeros(num, jnp.uint32), jnp.arange(num, dtype=jnp.uint32)
    bits = random.threefry_2x32(jax.random.key_data(key), jnp.concatenate([high, low]))
    halves = jnp.where(jnp.arange(2)[None] == 0, bits[:num, None], bits[num:, None])
    return jax.random.wrap_key_data(halves, impl=jax.random.key_impl(key))


def _is_threefry(key: jax.Array) -> bool:
    """Whether the i-th key of a split is Threefry's hash of i, as with JAX's default settings."""
    settings: Any = jax.config
    is_typed = jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    is_threefry = is_typed and str(jax.random.key_impl(key)) in ("threefry2x32", "fry")
    return is_threefry and settings.jax_threefry_partitionable
