"""Splits a function that makes one expensive request into two programs: before it and after it.

The response to the request is computed by other programs, or by the host. Where several functions
make the same request, as the begin of a search and each of its steps do for evaluations, the code
for the response is compiled once, and all programs are compiled at the same time.

A program takes only the arrays that it uses and returns only those that it computes: a call costs
some time per array, and XLA copies arrays that are only passed through. Which arrays these are is
found by tracing, and kept beside the programs.
"""

from __future__ import annotations

import collections
import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend import core
from jax.interpreters import partial_eval

from gozero.compile import executables

TypesOf = Callable[[Any], Any]
"""The types of a request, a pytree of `jax.ShapeDtypeStruct` -> the types of the response."""

NeededOf = Callable[[Any], Sequence[bool]]
"""The types of a request -> which of its leaves are used."""

Options = Callable[[], dict[str, Any]]
"""Returns the compiler options; called when a program is compiled."""

Leaves = list[Any]
"""Arrays; None for one that is not used."""

_request = core.Primitive("gozero_request")
_request.multiple_results = True
_request.def_abstract_eval(lambda *request, response_types: list(response_types))


class SplitFunction:
    """``function(send, *args)`` as two programs; it calls `send` exactly once, outside loops and
    branches.

    Args:
      function: jittable; the argument of `send` (the request) and its result (the response) are
        pytrees of arrays.
      response_types_of: gives the types of the response.
      needed_of: gives the leaves of a request that are used; None: all are.
      donated: whether the arrays of the first argument are donated; those that are passed through
        to the result are not.
      options: the compiler options of both programs.
    """

    def __init__(
        self,
        function: Callable,
        response_types_of: TypesOf,
        needed_of: NeededOf | None = None,
        donated: bool = False,
        options: Options = dict,
    ):
        self._cut_args = (function, response_types_of, needed_of, donated)
        self._options = options
        self._halves: dict[tuple, Halves] = {}

    def at(self, *args: Any) -> Halves:
        """The programs for arguments of these types, arrays or `jax.ShapeDtypeStruct`."""
        signature = _types(args)
        if signature not in self._halves:
            self._halves[signature] = Halves(*self._cut_args, *signature, self._options)
        return self._halves[signature]


class Halves:
    """The two programs of a function, for arguments of some types; see `SplitFunction.at`."""

    def __init__(
        self, function, response_types_of, needed_of, donated, types, tree, options: Options
    ):
        cut = functools.partial(_cut, function, response_types_of, needed_of, donated, types, tree)
        self._cut, self._types = cut, types
        self._layout: ProgramLayout = executables.cached_result(lambda: cut().layout, cut)
        jit = functools.partial(executables.jit, donate_argnums=0, compiler_options=options)
        self._first = jit(functools.partial(_first, cut))
        self._second = jit(functools.partial(_second, cut))
        self._first_again: Callable | None = None
        self._second_again: Callable | None = None

    def before(self, *args: Any) -> tuple[Leaves, Leaves]:
        """Runs the first program: (the leaves of the request, arrays to pass on to `after`)."""
        arrays = jax.tree.leaves(args)
        inputs = _select(arrays, self._layout.used), _select(arrays, self._layout.read)
        results = (self._first_again or self._first)(*inputs)
        self._first_again = self._first_again or self._first.again(*inputs)
        arrays += results
        return [None if i is None else arrays[i] for i in self._layout.request], arrays

    def after(self, arrays: Leaves, response: Any) -> Any:
        """Runs the second program on the response; returns the function's result."""
        layout = self._layout
        inputs = _select(arrays, layout.used_later), _select(arrays, layout.read_later), response
        results = (self._second_again or self._second)(*inputs)
        self._second_again = self._second_again or self._second.again(*inputs)
        arrays = arrays + results
        return jax.tree.unflatten(layout.result_tree, [arrays[i] for i in layout.result])

    @property
    def request(self) -> Any:
        """The types of the request."""
        return self._layout.request_types

    @property
    def is_missing(self) -> bool:
        """See `executables.CachedFunction.is_missing`."""
        return self._first.is_missing(*self._types_first())

    def prepare_before(self) -> None:
        """`executables.CachedFunction.prepare` for the first program."""
        self._first.prepare(*self._types_first())

    def prepare_after(self, response: Any) -> None:
        """The same for the second program; `response` has the types of the response."""
        types, layout = [*self._types, *self._cut().results], self._layout
        self._second.prepare(
            _select(types, layout.used_later), _select(types, layout.read_later), response
        )

    @property
    def result(self) -> Any:
        """The types of the function's result."""
        cut = self._cut()
        types = [*self._types, *cut.results, *cut.later_results]
        return jax.tree.unflatten(cut.layout.result_tree, [types[i] for i in cut.layout.result])

    def _types_first(self) -> tuple[Leaves, Leaves]:
        return _select(self._types, self._layout.used), _select(self._types, self._layout.read)


class TrimmedProgram:
    """``function(*args)``, a pytree of arrays, as a program that takes only the leaves it uses.

    Args:
      function: jittable.
      args: arrays or `jax.ShapeDtypeStruct` of the types of the arguments.
      options: the compiler options of the program.

    Attributes:
      result_types: the types of the result.
    """

    def __init__(self, function: Callable, args: tuple, options: Options):
        self._types, tree = _types(args)
        self._trim = trim = functools.partial(_trim, function, self._types, tree)
        self._used_leaves, self.result_types = executables.cached_result(lambda: trim()[1:], trim)
        trimmed = functools.partial(_trimmed, self._trim)
        self._program = executables.jit(trimmed, compiler_options=options)
        self._again: Callable | None = None

    def __call__(self, leaves: Leaves) -> Any:
        """The function's result for arguments with these leaves."""
        inputs = _select(leaves, self._used_leaves)
        result = (self._again or self._program)(inputs)
        self._again = self._again or self._program.again(inputs)
        return result

    @property
    def needed(self) -> list[bool]:
        """Which of the leaves it uses."""
        return [i in self._used_leaves for i in range(len(self._types))]

    def prepare(self) -> None:
        """`executables.CachedFunction.prepare` for the program."""
        self._program.prepare(_select(self._types, self._used_leaves))


class ProgramLayout(NamedTuple):
    """Which arrays the two programs take and return, by number.

    The leaves of the arguments are numbered first, then the results of the first program, then
    those of the second.
    """

    used: tuple[int, ...]  # donated to the first program
    read: tuple[int, ...]  # its other arguments
    request: tuple[int | None, ...]  # None: it is not used
    used_later: tuple[int, ...]  # as `used` and `read`, for the second program
    read_later: tuple[int, ...]
    result: tuple[int, ...]
    request_types: Any
    result_tree: Any


class _Cut(NamedTuple):
    """A traced function, split at the equation that makes the request."""

    first: core.ClosedJaxpr  # (donated arrays, other arrays) -> results
    second: core.ClosedJaxpr  # (donated arrays, other arrays, the response) -> results
    results: list  # the types of the first program's results
    later_results: list  # the same, of the second
    layout: ProgramLayout


class _Trim(NamedTuple):
    program: core.ClosedJaxpr
    used_leaves: tuple[int, ...]
    result_types: Any


def _types(args: Any) -> tuple[tuple, Any]:
    """(type of each array, tree structure), for tracing and as a key."""
    leaves, tree = jax.tree.flatten(args)
    leaves = [x if hasattr(x, "dtype") else jax.typeof(x) for x in leaves]
    return tuple(map(_type, leaves)), tree


def _type(x: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(x.shape, x.dtype, weak_type=getattr(x, "weak_type", False))


def _select(arrays: Sequence, numbers: Iterable[int]) -> Leaves:
    return [arrays[i] for i in numbers]


def _first(cut: Callable[[], _Cut], used: Leaves, read: Leaves) -> Leaves:
    return core.jaxpr_as_fun(cut().first)(*used, *read)


def _second(cut: Callable[[], _Cut], used: Leaves, read: Leaves, response: Any) -> Leaves:
    return core.jaxpr_as_fun(cut().second)(*used, *read, *jax.tree.leaves(response))


def _trimmed(trim: Callable[[], _Trim], leaves: Leaves) -> Any:
    out = core.jaxpr_as_fun(trim().program)(*leaves)
    return jax.tree.unflatten(jax.tree.structure(trim().result_types), out)


@functools.lru_cache(maxsize=16)
def _trim(function: Callable, types: tuple, tree: Any) -> _Trim:
    args = jax.tree.unflatten(tree, types)
    traced, result_types = jax.make_jaxpr(function, return_shape=True)(*args)
    variables = traced.jaxpr.invars
    jaxpr, needed = _needing(traced.jaxpr, traced.jaxpr.eqns, variables, [], traced.jaxpr.outvars)
    used_leaves = tuple(i for i, x in enumerate(variables) if x in needed)
    return _Trim(core.ClosedJaxpr(jaxpr, traced.consts), used_leaves, result_types)


@functools.lru_cache(maxsize=16)
def _cut(
    function: Callable,
    response_types_of: TypesOf,
    needed_of: NeededOf | None,
    donated: bool,
    types: tuple,
    tree: Any,
) -> _Cut:
    requests = []

    def send(request: Any) -> Any:
        leaves, request_types = jax.tree.leaves(request), jax.eval_shape(lambda: request)
        requests.append(request_types)
        response_types, response_tree = jax.tree.flatten(response_types_of(request_types))
        avals = tuple(ShapedArray(x.shape, x.dtype) for x in response_types)
        return jax.tree.unflatten(
            response_tree, _request.bind(*map(jnp.asarray, leaves), response_types=avals)
        )

    args = jax.tree.unflatten(tree, types)
    traced, result = jax.make_jaxpr(functools.partial(function, send), return_shape=True)(*args)
    jaxpr = traced.jaxpr
    places = [i for i, equation in enumerate(jaxpr.eqns) if equation.primitive is _request]
    if len(places) != 1 or len(requests) != 1:
        raise ValueError(
            f"function: it called `send` {len(requests)} times, or within a loop or a branch; call "
            "it exactly once, outside loops and branches"
        )
    request = requests[0]
    needed = needed_of(request) if needed_of else [True] * len(jax.tree.leaves(request))
    num_donated = len(jax.tree.leaves(args[:1])) if donated else 0
    return _divided(traced, places[0], needed, num_donated, request, jax.tree.structure(result))


def _divided(
    traced: core.ClosedJaxpr,
    place: int,
    needed: Sequence[bool],
    num_donated: int,
    request_types: Any,
    result_tree: Any,
) -> _Cut:
    """Splits a traced function at the equation that makes the request, the one at `place`.

    Args:
      needed: which leaves of the request are used.
      num_donated: how many of the arguments, the first ones, may be donated.
    """
    jaxpr, args = traced.jaxpr, list(traced.jaxpr.invars)
    call, later = jaxpr.eqns[place], jaxpr.eqns[place + 1 :]
    request = [x if is_needed else None for x, is_needed in zip(call.invars, needed, strict=True)]
    response, not_donated = list(call.outvars), args[num_donated:]
    defined_later = {
        *jaxpr.constvars,
        *response,
        *(x for equation in later for x in equation.outvars),
    }

    # A donated argument or a result of the first program bypasses the second program, once.
    is_passed_on = _are_first(jaxpr.outvars, exclude=defined_later | set(not_donated))
    later_results = [x for x, passed in zip(jaxpr.outvars, is_passed_on, strict=True) if not passed]
    passed_on = [x for x, passed in zip(jaxpr.outvars, is_passed_on, strict=True) if passed]
    free = _variables(
        [*(x for e in later for x in e.invars), *later_results], exclude=defined_later
    )
    second, free = _needing(jaxpr, later, free, response, later_results)

    results = _variables([*request, *free, *passed_on], exclude={*args, *jaxpr.constvars})
    results += [x for x in request if x is not None and x not in {*args, *results}]
    first, read = _needing(jaxpr, jaxpr.eqns[:place], args, [], results)

    stays = set(_variables([*request, *passed_on]))
    used, read = _by_use(read, set(args[:num_donated]) - stays - set(free), results)
    used_later, read_later = _by_use(free, {*args[:num_donated], *results} - stays, later_results)
    number = {x: i for i, x in enumerate([*args, *results])}
    of = lambda some: tuple(number[x] for x in some)
    later_numbers = itertools.count(len(number))
    layout = ProgramLayout(
        used=of(used),
        read=of(read),
        request=tuple(None if x is None else number[x] for x in request),
        used_later=of(used_later),
        read_later=of(read_later),
        result=tuple(
            number[x] if passed else next(later_numbers)
            for x, passed in zip(jaxpr.outvars, is_passed_on, strict=True)
        ),
        request_types=request_types,
        result_tree=result_tree,
    )
    closed = lambda part, some: core.ClosedJaxpr(part.replace(invars=some), traced.consts)
    return _Cut(
        first=closed(first, used + read),
        second=closed(second, used_later + read_later + response),
        results=[_type(x.aval) for x in results],
        later_results=[_type(x.aval) for x in later_results],
        layout=layout,
    )


def _needing(jaxpr, equations, args: list, extra: list, results: list) -> tuple[core.Jaxpr, list]:
    """(a part of a function, the `args` that it needs); all of `extra` are arguments too."""
    debug_info = jaxpr.debug_info._replace(arg_names=None, result_paths=None)
    part = jaxpr.replace(
        eqns=equations, invars=args + extra, outvars=results, debug_info=debug_info
    )
    always = [False] * len(args) + [True] * len(extra)
    part, is_needed = partial_eval.dce_jaxpr(part, [True] * len(results), always)
    return part, [x for x, needed in zip(args, is_needed, strict=False) if needed]


def _variables(some: Iterable[Any], exclude: Iterable[core.Var] = ()) -> list[core.Var]:
    """Each variable in `some` once, without literals, None and those in `exclude`."""
    unique = dict.fromkeys(x for x in some if isinstance(x, core.Var))
    return [x for x in unique if x not in exclude]


def _are_first(some: Sequence[Any], exclude: set[core.Var]) -> list[bool]:
    """Which entries are variables that do not occur earlier in `some`, nor in `exclude`."""
    return [
        isinstance(x, core.Var) and x not in exclude and x not in some[:i]
        for i, x in enumerate(some)
    ]


def _by_use(
    read: list[core.Var], donatable: set[core.Var], results: list[Any]
) -> tuple[list[core.Var], list[core.Var]]:
    """(variables to donate, each matched to a result of the same shape and type; the others)."""
    available = collections.Counter(str(x.aval) for x in results)
    used: list = []
    for x in read:
        if x in donatable and available[str(x.aval)] > 0:
            available[str(x.aval)] -= 1
            used.append(x)
    return used, [x for x in read if x not in used]
