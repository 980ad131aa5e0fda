"""Rewrites a function of lanes as code for one block of lanes: elementwise, one vector per word.

The compilers of Pallas kernels support only part of JAX's operations: no stacks of boards (Triton),
no `min` of unsigned numbers (Mosaic), no population count of them (Triton). So a function of arrays
[..., lanes] is traced, and its operations are applied again to the arrays' vectors: an array
u32[W, lanes] becomes a numpy array of W vectors. Stacking, slicing and reshaping then move vectors
about at trace time, and the code that remains to be compiled works on single vectors.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer
from jax.interpreters import partial_eval

from gozero.compile import mode

LANES = 4099
"""The number of lanes in traced functions: a prime, so that no other axis is as long."""

Value = Any
"""An array with lanes is a numpy array of objects, of its shape without the last axis: vectors, or
numbers that all lanes share. One without lanes is a numpy array, or a traced scalar."""


def traced(function: Callable, tree: Any) -> Any:
    """The program of ``function(tree)``, for `run`.

    Args:
      function: from a pytree of arrays [..., lanes] to another; elementwise over lanes, except
        that it may ask whether a condition holds for any lane, as loop predicates do.
      tree: such arrays, with any number of lanes.
    """
    shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct((*x.shape[:-1], LANES), x.dtype), tree)
    with mode.in_kernel():
        closed = jax.make_jaxpr(function)(shapes)
    used = [True] * len(closed.jaxpr.outvars)
    jaxpr, _ = partial_eval.dce_jaxpr(closed.jaxpr, used, instantiate=True)
    return jaxpr, closed.consts


def run(program: Any, values: Sequence[Value], shape: tuple[int, ...]) -> list[Value]:
    """Runs a traced program on values whose vectors have this shape."""
    jaxpr, consts = program
    return _Block(shape).run(jaxpr, [*map(np.asarray, consts), *values])


def words(values: Sequence[Value]) -> list[jax.Array]:
    """The vectors of values with lanes, in order."""
    return [each for value in values for each in value.flat]


class LaneOps:
    """Operations on a block's single vectors, of this shape, and on numbers shared by its lanes."""

    def __init__(self, shape: tuple[int, ...]):
        self.shape = shape

    def one(self, eqn: Any, args: list) -> Any:
        """Applies an elementwise operation to vectors or numbers."""
        if not any(isinstance(x, jax.Array) for x in args):
            return self.without_lanes(eqn, args)[()]
        rule = _REWRITTEN.get(eqn.primitive.name, eqn.primitive.bind)
        return rule(*map(self.vector, args), **eqn.params)

    def without_lanes(self, eqn: Any, args: list[Value]) -> Value:
        if any(isinstance(x, Tracer) for x in args):
            return eqn.primitive.bind(*args, **eqn.params)
        with jax.ensure_compile_time_eval():
            return np.asarray(eqn.primitive.bind(*map(jnp.asarray, args), **eqn.params))

    def vector(self, x: Any) -> jax.Array:
        return x if jnp.shape(x) == self.shape else lax.full(self.shape, x, x.dtype)


def unstacked(x: np.ndarray, axis: int) -> list[np.ndarray]:
    """As `jnp.unstack`, which is a primitive of its own from JAX 0.12 on."""
    return [part.squeeze(axis) for part in np.split(x, x.shape[axis], axis)]


def _consts_and_carry(params: dict) -> tuple[int, int]:
    """(the number of a scan's constants, the number of its carries)."""
    if "ft_in" in params:  # from JAX 0.12 on
        consts, carry, _ = params["ft_in"].unpack()
        return len(consts.vals), len(carry.vals)
    return params["num_consts"], params["num_carry"]


class _Block(LaneOps):
    """Operations on arrays of such vectors; in the traced program lanes are the last axis."""

    def run(self, jaxpr: Any, args: Sequence[Value]) -> list[Value]:
        environment = dict(zip([*jaxpr.constvars, *jaxpr.invars], args, strict=True))

        def value(x):
            return np.asarray(x.val, x.aval.dtype) if hasattr(x, "val") else environment[x]

        for eqn in jaxpr.eqns:
            out = self.apply(eqn, [value(x) for x in eqn.invars])
            environment.update(zip(eqn.outvars, out, strict=True))
        return [value(x) for x in jaxpr.outvars]

    def apply(self, eqn: Any, args: list[Value]) -> Sequence[Value]:
        name = eqn.primitive.name
        inner = eqn.params.get("jaxpr") or eqn.params.get("call_jaxpr")
        if name in _CONTROL:
            return getattr(self, f"_{name}")(eqn.params, args)
        if inner is not None:
            return self.run(inner.jaxpr, [*map(np.asarray, inner.consts), *args])
        if name == "unstack":
            return unstacked(args[0], eqn.params["axis"])
        (out,) = eqn.outvars
        if not any(map(_has_lanes, args)) and not _lanes_last(out.aval):
            return [self.without_lanes(eqn, args)]
        if name in _STRUCTURE:
            return [_STRUCTURE[name](eqn, *args)]
        if name == "reduce_or" and out.aval.shape == ():
            return [self.any_of(args[0])]
        if out.aval.shape[-1:] != (LANES,) or name in _NOT_ELEMENTWISE:
            raise NotImplementedError(f"{name} is not supported in a kernel of lanes: {eqn}")
        return [self._elementwise(eqn, args)]

    def _elementwise(self, eqn: Any, args: list[Value]) -> np.ndarray:
        lead = eqn.outvars[0].aval.shape[:-1]
        args = [x if _has_lanes(x) else _alike(x, len(lead)) for x in args]
        parts = [np.broadcast_to(x, lead) for x in args]
        each = [self.one(eqn, [part[at] for part in parts]) for at in np.ndindex(*lead)]
        return array_of(each, lead)

    def any_of(self, x: np.ndarray) -> jax.Array:
        """bool[]: whether the condition holds for any lane in any of the vectors."""
        vectors = [self.vector(each).astype(jnp.int32) for each in x.flat]
        union = vectors[0]
        for each in vectors[1:]:
            union = union | each
        return jnp.max(union) > 0

    # --- loops and branches: they carry vectors ---------------------------------------

    def flat(self, values: Sequence[Value]) -> list[jax.Array]:
        out = []
        for x in values:
            out += [self.vector(each) for each in x.flat] if _has_lanes(x) else [jnp.asarray(x)]
        return out

    @staticmethod
    def unflat(avals: Sequence[Any], flat: Sequence[jax.Array]) -> list[Value]:
        rest, out = iter(flat), []
        for aval in avals:
            if not _lanes_last(aval):
                out.append(next(rest))
                continue
            lead = aval.shape[:-1]
            vectors = itertools.islice(rest, int(np.prod(lead)))
            out.append(array_of(list(vectors), lead))
        return out

    def _scan(self, params: dict, args: list[Value]) -> list[Value]:
        closed, (split, carried) = params["jaxpr"], _consts_and_carry(params)
        consts, carry = args[:split], args[split:]
        if len(carry) != carried:
            raise NotImplementedError("a scan over arrays is not supported in a kernel of lanes")
        avals = closed.in_avals[split:]

        def body(_, flat):
            values = [*map(np.asarray, closed.consts), *consts, *self.unflat(avals, flat)]
            return tuple(self.flat(self.run(closed.jaxpr, values)))

        out = lax.fori_loop(0, params["length"], body, tuple(self.flat(carry)))
        return self.unflat(avals, out)

    def _cond(self, params: dict, args: list[Value]) -> list[Value]:
        index, *operands = args
        branches = params["branches"]

        def branch(closed):
            values = [*map(np.asarray, closed.consts), *operands]
            return lambda: tuple(self.flat(self.run(closed.jaxpr, values)))

        no, yes = map(branch, branches)
        return self.unflat(branches[0].out_avals, lax.cond(index > 0, yes, no))

    def _while(self, params: dict, args: list[Value]) -> list[Value]:
        parts, start = [], 0
        for name in ("cond_jaxpr", "body_jaxpr"):
            closed, end = params[name], start + params[name.replace("jaxpr", "nconsts")]
            parts.append((closed.jaxpr, [*map(np.asarray, closed.consts), *args[start:end]]))
            start = end
        (condition, condition_consts), (step, step_consts) = parts
        avals = params["body_jaxpr"].out_avals

        def is_running(flat):
            return self.run(condition, [*condition_consts, *self.unflat(avals, flat)])[0]

        def body(flat):
            return tuple(self.flat(self.run(step, [*step_consts, *self.unflat(avals, flat)])))

        return self.unflat(avals, lax.while_loop(is_running, body, tuple(self.flat(args[start:]))))


_CONTROL = ("scan", "cond", "while")
_NOT_ELEMENTWISE = (
    *("gather", "scatter", "iota", "cumsum", "sort", "dynamic_update_slice", "reduce_or"),
    *("rev", "pad", "split"),
)


def _lanes_last(aval: Any) -> bool:
    return aval.shape[-1:] == (LANES,)


def _has_lanes(x: Value) -> bool:
    return isinstance(x, np.ndarray) and x.dtype == object


def _objects(x: Any) -> np.ndarray:
    """Numbers without lanes, in the form of an array with lanes."""
    x = np.asarray(x)
    return array_of([x[at] for at in np.ndindex(*x.shape)], x.shape)


def _alike(x: Any, axes: int) -> np.ndarray:
    """Numbers without lanes (their lane axis has length 1 or is missing), shared by all lanes."""
    return _objects(np.squeeze(x, -1) if np.ndim(x) > axes else x)


def array_of(elements: list, shape: tuple[int, ...]) -> np.ndarray:
    """Makes a value with lanes from its vectors or numbers, in order."""
    out = np.empty(len(elements), object)
    for i, each in enumerate(elements):
        out[i] = each
    return out.reshape(shape)


# --- operations that only move vectors ------------------------------------------------


def _broadcast(eqn: Any, x: Value) -> np.ndarray:
    shape, dims = eqn.params["shape"], eqn.params["broadcast_dimensions"]
    if not _has_lanes(x):
        x = np.asarray(x)
        if len(shape) - 1 in dims:  # an axis of length 1, broadcast over the lanes
            x, dims = x.reshape(x.shape[:-1]), dims[:-1]
        x = _objects(x)
    else:
        dims = dims[:-1]
    new_shape = [1] * (len(shape) - 1)
    for dim, length in zip(dims, x.shape, strict=True):
        new_shape[dim] = length
    return np.broadcast_to(x.reshape(new_shape), shape[:-1])


def _reshape(eqn: Any, x: np.ndarray, *_: Any) -> np.ndarray:
    return x.reshape(eqn.outvars[0].aval.shape[:-1])


def _slice(eqn: Any, x: np.ndarray) -> np.ndarray:
    p = eqn.params
    strides = p["strides"] or (1,) * len(p["start_indices"])
    ranges = zip(p["start_indices"], p["limit_indices"], strides, strict=True)
    return x[tuple(slice(*each) for each in ranges)[:-1]]


def _dynamic_slice(eqn: Any, x: np.ndarray, *starts: Any) -> np.ndarray:
    sizes = eqn.params["slice_sizes"]
    ends = (slice(int(a), int(a) + n) for a, n in zip(starts, sizes, strict=True))
    return x[tuple(ends)[:-1]]


def _concatenate(eqn: Any, *parts: Value) -> np.ndarray:
    return np.concatenate(parts, axis=eqn.params["dimension"])


def _stack(eqn: Any, *parts: Value) -> np.ndarray:
    return np.stack(parts, axis=eqn.params["axis"])


_STRUCTURE = {
    "broadcast_in_dim": _broadcast,
    "reshape": _reshape,
    "squeeze": _reshape,
    "expand_dims": _reshape,
    "slice": _slice,
    "dynamic_slice": _dynamic_slice,
    "concatenate": _concatenate,
    "stack": _stack,
}


# --- operations that the compilers of kernels lack ------------------------------------


def _min(a: jax.Array, b: jax.Array, **_: Any) -> jax.Array:
    """Mosaic has no `min` of unsigned numbers (jax 0.10.1)."""
    return jnp.where(a < b, a, b)


def _of_signed(primitive: Any) -> Callable:
    """Triton has neither of the two for unsigned numbers (jax 0.10.1)."""
    return lambda x, **_: primitive(x.astype(jnp.int32)).astype(x.dtype)


def _sign(x: jax.Array, **_: Any) -> jax.Array:
    """Mosaic queries the device for its kind, and there may be none here (jax 0.10.1)."""
    return (x > 0).astype(x.dtype) - (x < 0).astype(x.dtype)


_REWRITTEN = {
    "min": _min,
    "sign": _sign,
    "population_count": _of_signed(lax.population_count),
    "clz": _of_signed(lax.clz),
}
