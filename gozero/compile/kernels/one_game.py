"""Runs a stage of one game as one kernel for a batch on a TPU (Mosaic); each number is a vector.

XLA turns a stage on the words of boards into many fusions, and the smallest takes as long as a
thousand register operations. Here the program of one game is traced, and its operations are applied
to vectors over a block of games: an array u32[W] of one game is W vectors. A loop runs until it has
ended in every game of the block, and changes only games in which it goes on.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.interpreters import partial_eval

from gozero.compile import mode
from gozero.compile.kernels.by_lane import LaneOps, Value, array_of, unstacked

_LANES, _SUBLANES = 128, 8


def run(function: Callable, *args: Any) -> Any:
    """``jax.vmap(function, -1, -1)(*args)`` in one kernel.

    Args:
      function: from pytrees of one game's arrays to another; bools and numbers of up to 32 bits,
        where integers of fewer bits must not overflow. May use elementwise operations, reductions,
        loops, and operations that only move elements.
      args: pytrees of arrays [..., B].
    """
    leaves, tree = jax.tree.flatten(args)
    count = leaves[0].shape[-1]
    with mode.in_kernel():
        game_types = tree.unflatten(jax.ShapeDtypeStruct(x.shape[:-1], x.dtype) for x in leaves)
        closed, shapes = jax.make_jaxpr(function, return_shape=True)(*game_types)
    program, consts = _without_waste(closed.jaxpr), closed.consts
    results, result_tree = jax.tree.flatten(shapes)
    rows = math.ceil(count / _LANES)
    if rows >= _SUBLANES:
        rows = math.ceil(rows / _SUBLANES) * _SUBLANES
    pad = rows * _LANES - count

    def in_blocks(x):
        x = _words(x)
        if pad:  # repeats the last game: zeros may not be a valid game, and may never end
            x = jnp.pad(x, ((0, 0),) * (x.ndim - 1) + ((0, pad),), mode="edge")
        return x.reshape(*x.shape[:-1], rows, _LANES)

    def kernel(*refs):
        inputs, out = refs[: len(leaves)], refs[len(leaves) :]
        values = [
            _of_words((ref[at] for at in np.ndindex(*ref.shape[:-2])), x.shape[:-1], _wide(x.dtype))
            for ref, x in zip(inputs, leaves, strict=True)
        ]
        game = _Game(inputs[0].shape[-2:])
        values_out = game.run(program, [*map(_wide_constant, consts), *values])
        for ref, value in zip(out, values_out, strict=True):
            for at, vector in zip(np.ndindex(*ref.shape[:-2]), game.flat([value]), strict=True):
                ref[at] = vector

    shapes = [(*x.shape, rows, _LANES) for x in results]
    out = _call(kernel, list(map(in_blocks, leaves)), shapes)
    flat = [x.reshape(*x.shape[:-2], -1)[..., :count] for x in out]
    return result_tree.unflatten(_as(x, y.dtype) for x, y in zip(flat, results, strict=True))


def _without_waste(jaxpr: Any) -> Any:
    used = [True] * len(jaxpr.outvars)
    return partial_eval.dce_jaxpr(jaxpr, used, instantiate=True)[0]


def _wide(dtype: Any) -> Any:
    """The dtype in which a kernel holds numbers of a dtype: integers have 32 bits."""
    is_small = np.dtype(dtype).itemsize < 4 and np.dtype(dtype).kind in "iu"
    return np.dtype(f"{np.dtype(dtype).kind}4") if is_small else np.dtype(dtype)


def _wide_constant(x: Any) -> np.ndarray:
    x = np.asarray(x)
    return x.astype(_wide(x.dtype))


def _words(x: jax.Array) -> jax.Array:
    """The array as u32 words, of the same shape."""
    if x.dtype == bool:
        return x.astype(jnp.uint32)
    x = x.astype(_wide(x.dtype))
    return x if x.dtype == jnp.uint32 else lax.bitcast_convert_type(x, jnp.uint32)


def _as(words: jax.Array, dtype: Any) -> jax.Array:
    """The inverse of `_words`."""
    if np.dtype(dtype).kind == "b":
        return words != 0
    wide = _wide(dtype)
    x = words if wide == jnp.uint32 else lax.bitcast_convert_type(words, wide)
    return x.astype(dtype)


def _of_words(rest: Any, shape: Sequence[int], dtype: Any) -> np.ndarray:
    """An array of one game, from the next words."""
    return array_of([_as(next(rest), dtype) for _ in range(math.prod(shape))], tuple(shape))


def _call(kernel: Callable, arrays: list[jax.Array], shapes: list[Any]) -> list[jax.Array]:
    from jax.experimental import pallas as pl  # slow to import, and not needed on a CPU
    from jax.experimental.pallas import tpu

    rows = arrays[0].shape[-2]
    block = min(rows, _SUBLANES)

    def spec(shape):
        lead = len(shape) - 2
        return pl.BlockSpec((*shape[:-2], block, _LANES), lambda i: (*[0] * lead, i, 0))

    return pl.pallas_call(
        kernel,
        out_shape=[jax.ShapeDtypeStruct(shape, jnp.uint32) for shape in shapes],
        grid=(rows // block,),
        in_specs=[spec(x.shape) for x in arrays],
        out_specs=list(map(spec, shapes)),
        compiler_params=tpu.CompilerParams(dimension_semantics=("parallel",)),
    )(*arrays)


class _Game(LaneOps):
    """Operations on the vectors of a block of games: one vector per element of a game's array."""

    def run(self, jaxpr: Any, args: Sequence[Value]) -> list[Value]:
        environment = dict(zip([*jaxpr.constvars, *jaxpr.invars], args, strict=True))

        def value(x):
            if not hasattr(x, "val"):
                return environment[x]
            return _wide_constant(np.asarray(x.val, x.aval.dtype))

        for eqn in jaxpr.eqns:
            out = self.apply(eqn, [value(x) for x in eqn.invars])
            environment.update(zip(eqn.outvars, out, strict=True))
        return [value(x) for x in jaxpr.outvars]

    def apply(self, eqn: Any, args: list[Value]) -> Sequence[Value]:
        name, params = eqn.primitive.name, eqn.params
        if name == "while":
            return self._while(params, args)
        inner = params.get("jaxpr") or params.get("call_jaxpr")
        if inner is not None:
            return self.run(inner.jaxpr, [*map(_wide_constant, inner.consts), *args])
        if name == "unstack":
            return unstacked(args[0], params["axis"])
        shape = eqn.outvars[0].aval.shape
        if all(x.dtype != object for x in args):
            return [_wide_constant(self.without_lanes(eqn, args))]
        if name == "convert_element_type":
            eqn = eqn.replace(params=params | {"new_dtype": _wide(params["new_dtype"])})
        if name in _MOVES:
            return [_MOVES[name](params, shape, *args)]
        if name in _FOLDS:
            return [self._fold(_FOLDS[name], args[0], params["axes"])]
        if name in _NOT_ELEMENTWISE:
            raise NotImplementedError(f"{name} is not supported in a kernel of games: {eqn}")
        parts = [np.broadcast_to(x, shape) for x in args]
        each = [self.one(eqn, [part[at] for part in parts]) for at in np.ndindex(*shape)]
        return [array_of(each, shape)]

    def flat(self, values: Sequence[Value]) -> list[jax.Array]:
        """The vectors of the values, as words."""
        return [_words(self.vector(each)) for x in values for each in x.flat]

    def _fold(self, fold: Callable, x: np.ndarray, axes: Sequence[int]) -> np.ndarray:
        rest = [axis for axis in range(x.ndim) if axis not in axes]
        shape = tuple(x.shape[axis] for axis in rest)
        flat = x.transpose(*axes, *rest).reshape(-1, *shape)
        each = [functools.reduce(fold, flat[(slice(None), *at)]) for at in np.ndindex(*shape)]
        return array_of(each, shape)

    def _while(self, params: dict, args: list[Value]) -> list[Value]:
        condition, body = params["cond_jaxpr"], params["body_jaxpr"]
        split = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
        of_condition, of_body, carry = args[: split[0]], args[split[0] : split[1]], args[split[1] :]
        shapes = [x.shape for x in carry]

        def is_running(values):
            consts = map(_wide_constant, condition.consts)
            (condition_value,) = self.run(condition.jaxpr, [*consts, *of_condition, *values])
            return self.vector(condition_value[()])

        def unflat(words):
            rest = iter(words)
            return [
                _of_words(rest, shape, _wide(aval.dtype))
                for shape, aval in zip(shapes, body.out_avals, strict=True)
            ]

        def one_round(state):
            words, running = state[0], state[1] != 0
            values = [*map(_wide_constant, body.consts), *of_body, *unflat(words)]
            new = self.flat(self.run(body.jaxpr, values))
            words = [lax.select(running, a, b) for a, b in zip(new, words, strict=True)]
            return words, _words(running & is_running(unflat(words)))

        start = self.flat(carry)
        state = start, _words(is_running(unflat(start)))
        any_running = lambda state: jnp.max(state[1].astype(jnp.int32)) > 0
        return unflat(lax.while_loop(any_running, one_round, state)[0])


def _broadcast(params: dict, shape: Sequence[int], x: np.ndarray) -> np.ndarray:
    new_shape = [1] * len(shape)
    for dim, length in zip(params["broadcast_dimensions"], x.shape, strict=True):
        new_shape[dim] = length
    return np.broadcast_to(x.reshape(new_shape), shape)


def _slice(params: dict, shape: Sequence[int], x: np.ndarray) -> np.ndarray:
    strides = params["strides"] or (1,) * x.ndim
    bounds = zip(params["start_indices"], params["limit_indices"], strides, strict=True)
    return x[tuple(slice(*each) for each in bounds)]


def _objects(x: np.ndarray) -> np.ndarray:
    return x if x.dtype == object else array_of([x[at] for at in np.ndindex(*x.shape)], x.shape)


def _concatenate(params: dict, shape: Sequence[int], *parts: np.ndarray) -> np.ndarray:
    return np.concatenate([_objects(x) for x in parts], axis=params["dimension"])


def _stack(params: dict, shape: Sequence[int], *parts: np.ndarray) -> np.ndarray:
    return np.stack([_objects(x) for x in parts], axis=params["axis"])


_reshape = lambda params, shape, x: x.reshape(shape)
_MOVES = {
    "broadcast_in_dim": _broadcast,
    "reshape": _reshape,
    "squeeze": _reshape,
    "expand_dims": _reshape,
    "slice": _slice,
    "concatenate": _concatenate,
    "stack": _stack,
    "transpose": lambda params, shape, x: x.transpose(params["permutation"]),
}
_FOLDS = {
    "reduce_sum": lambda x, y: x + y,
    "reduce_or": lambda x, y: x | y,
    "reduce_and": lambda x, y: x & y,
    "reduce_max": jnp.maximum,
}
_NOT_ELEMENTWISE = (
    *("scan", "cond", "gather", "scatter", "iota", "cumsum", "sort", "dynamic_slice"),
    *("rev", "pad", "split"),
)
