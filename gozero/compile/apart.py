"""A function that asks once for something dear, as two programs: before it asks, and after.

What it asks for is computed by another program, or by the host. Where several functions ask for the
same, as the begin of a search and each of its steps do for evaluations, that is compiled once, and
all of the programs at the same time.
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend import core

from gozero.compile import executables

TypesOf = Callable[[Any], Any]
"""The types of a question, a pytree of `jax.ShapeDtypeStruct` -> those of what is said to it."""

_asked = core.Primitive("gozero_ask")
_asked.multiple_results = True
_asked.def_abstract_eval(lambda *question, said: list(said))


class Kept(NamedTuple):
    """Arrays that wait for what is said."""

    used: list[jax.Array]  # used up then: the results take their places
    read: list[jax.Array]


class InTwo:
    """``function(ask, *args)``, which calls `ask` exactly once and not within a loop or a branch.

    `before` gives the question and what is kept; `after` takes that and what was said.

    Args:
      function: jittable; what it hands `ask`, and what that returns, are pytrees of arrays.
      types_of: of what is said to a question.
      donated: whether the arrays of the first argument are used up.
      options: gives the compiler's, for both.
    """

    def __init__(
        self,
        function: Callable,
        types_of: TypesOf,
        donated: bool = False,
        options: Callable[[], dict[str, Any]] = dict,
    ):
        self._function, self._types_of = function, types_of
        self._options: dict[str, Any] = {"compiler_options": options}
        given = functools.partial(_before, function, types_of)
        self.before = executables.jit(
            given, (), donate_argnums=0 if donated else (), **self._options
        )
        self._afters: dict[tuple, Any] = {}

    def after(self, *args: Any) -> executables.Kept:
        """The program ``(*kept, said) -> what it returns``, for arguments of such types."""
        types, tree = _types(args)
        if (types, tree) not in self._afters:
            given = functools.partial(_after, self._function, self._types_of, types, tree)
            self._afters[types, tree] = executables.jit(
                given, (), donate_argnums=0, **self._options
            )
        return self._afters[types, tree]


def _before(function: Callable, types_of: TypesOf, *args: Any) -> tuple[Any, Kept]:
    cut = _cut(function, types_of, *_types(args))
    out = core.jaxpr_as_fun(cut.before)(*jax.tree.leaves(args))
    count, kept = cut.question.num_leaves, out[cut.question.num_leaves :]
    return jax.tree.unflatten(cut.question, out[:count]), Kept(kept[: cut.used], kept[cut.used :])


def _after(
    function: Callable,
    types_of: TypesOf,
    types: tuple,
    tree: Any,
    used: list,
    read: list,
    said: Any,
) -> Any:
    cut = _cut(function, types_of, types, tree)
    out = core.jaxpr_as_fun(cut.after)(*used, *read, *jax.tree.leaves(said))
    return jax.tree.unflatten(cut.result, out)


class _Cut(NamedTuple):
    """A traced function, divided at the equation that asks."""

    before: core.ClosedJaxpr  # arguments -> the question, and what is kept
    after: core.ClosedJaxpr  # what was kept, and what was said -> what is returned
    used: int  # of what is kept: arrays that come first, in whose places the results can lie
    question: Any  # its structure
    result: Any  # the structure of what is returned


def _types(args: Any) -> tuple[tuple, Any]:
    """(type of each array, structure), to trace with and to compare."""
    leaves, tree = jax.tree.flatten(args)
    leaves = [x if hasattr(x, "dtype") else jax.typeof(x) for x in leaves]
    type_of = lambda x: jax.ShapeDtypeStruct(
        x.shape, x.dtype, weak_type=getattr(x, "weak_type", False)
    )
    return tuple(map(type_of, leaves)), tree


@functools.lru_cache(maxsize=16)
def _cut(function: Callable, types_of: TypesOf, types: tuple, tree: Any) -> _Cut:
    asked = []

    def ask(question: Any) -> Any:
        leaves, structure = jax.tree.flatten(question)
        asked.append(structure)
        said, form = jax.tree.flatten(types_of(jax.eval_shape(lambda: question)))
        avals = tuple(ShapedArray(x.shape, x.dtype) for x in said)
        return jax.tree.unflatten(form, _asked.bind(*map(jnp.asarray, leaves), said=avals))

    traced, result = jax.make_jaxpr(functools.partial(function, ask), return_shape=True)(
        *jax.tree.unflatten(tree, types)
    )
    jaxpr = traced.jaxpr
    places = [i for i, equation in enumerate(jaxpr.eqns) if equation.primitive is _asked]
    if len(places) != 1 or len(asked) != 1:
        raise ValueError(f"function: it asked {len(asked)} times, or within a loop or a branch")
    asking, later = jaxpr.eqns[places[0]], jaxpr.eqns[places[0] + 1 :]
    made = {x for equation in [asking, *later] for x in equation.outvars} | set(jaxpr.constvars)
    used = [x for equation in later for x in equation.invars] + jaxpr.outvars
    names = dict.fromkeys(x for x in used if not isinstance(x, core.Literal))
    used, read = _by_use([x for x in names if x not in made], jaxpr.outvars)
    kept = used + read

    def part(**changes: Any) -> core.ClosedJaxpr:
        about = jaxpr.debug_info._replace(arg_names=None, result_paths=None)
        return core.ClosedJaxpr(jaxpr.replace(debug_info=about, **changes), traced.consts)

    return _Cut(
        before=part(eqns=jaxpr.eqns[: places[0]], outvars=[*asking.invars, *kept]),
        after=part(eqns=later, invars=[*kept, *asking.outvars]),
        used=len(used),
        question=asked[0],
        result=jax.tree.structure(result),
    )


def _by_use(kept: list, results: list) -> tuple[list, list]:
    """(the variables of which there is a result of the same shape and type each, the others)."""
    left = collections.Counter(str(x.aval) for x in results)
    used: list = []
    for x in kept:
        if left[str(x.aval)] > 0:
            left[str(x.aval)] -= 1
            used.append(x)
    return used, [x for x in kept if not any(x is one for one in used)]
