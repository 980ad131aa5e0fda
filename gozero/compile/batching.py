"""Turns stages written for a batch into functions of one game.

Under `vmap` a loop has one predicate per game, and XLA selects or copies everything it carries in
every iteration (invariant 2). Here a stage is written for the batch, with one predicate per loop
for all games, and becomes the batching rule of a function of one game.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_batching import custom_vmap

from gozero.compile import mode, stages
from gozero.compile.kernels import one_game


def over_games(stage: Callable, axis: int = -1, in_cache: bool = False) -> Callable:
    """Turns a stage of a batch into a function of one game; under ``vmap`` it runs the stage.

    The function is jitted, so that a call outside ``jit`` compiles once and not every time. In
    plain mode the stage runs on batches of one, which ``vmap`` maps like any function.

    Args:
      stage: (pytrees of arrays) -> a pytree of arrays; each has one axis of games.
      axis: the axis of games: -1, the last, or 0, the first.
      in_cache: whether a CPU runs it as one kernel, on one group of games after another: for a
        stage whose arrays of a whole batch would not fit into its cache. Needs games last.
    """

    def one_game(*args):
        out = stage(*jax.tree.map(lambda x: jnp.expand_dims(x, axis), args))
        return jax.tree.map(lambda x: jnp.squeeze(x, axis), out)

    def many_games(axis_size, batched, *args):
        def with_games(is_batched, x):
            if is_batched:
                return jnp.moveaxis(x, 0, axis)
            shape = (axis_size, *jnp.shape(x)) if axis == 0 else (*jnp.shape(x), axis_size)
            return jnp.broadcast_to(jnp.expand_dims(x, axis), shape)

        run = functools.partial(_in_cache, stage) if in_cache else stage
        out = run(*jax.tree.map(with_games, tuple(batched), args))
        out = jax.tree.map(lambda x: jnp.moveaxis(x, axis, 0), out)
        return out, jax.tree.map(lambda _: True, out)

    batched = custom_vmap(one_game)
    batched.def_vmap(many_games)

    def function(*args):
        return one_game(*args) if mode.plain() else batched(*args)

    return jax.jit(function)


def behind_barrier(stage: Callable) -> Callable:
    """A stage of one game behind a barrier (`stages.once`); under ``vmap`` one barrier per batch.

    Args:
      stage: a function of one game whose first argument is a board, an integer or a bool.
    """
    return over_games(lambda *args: stages.once(jax.vmap(stage), *args), axis=0)


def in_one_kernel(function: Callable) -> Callable:
    """A function of one game that a TPU runs, under ``vmap``, as one kernel for the batch.

    Args:
      function: see `kernels.one_game.run` for what it may do.
    """
    mapped = custom_vmap(function)

    @mapped.def_vmap
    def many_games(axis_size, batched, *args):
        def games_last(is_batched, x):
            if is_batched:
                return jnp.moveaxis(x, 0, -1)
            return jnp.broadcast_to(jnp.expand_dims(x, -1), (*jnp.shape(x), axis_size))

        out = mode.by_platform(
            *jax.tree.map(games_last, tuple(batched), args),
            tpu=functools.partial(one_game.run, function),
            default=jax.vmap(function, in_axes=-1, out_axes=-1),  # on the CPU beside a TPU
        )
        out = jax.tree.map(lambda x: jnp.moveaxis(x, -1, 0), out)
        return out, jax.tree.map(lambda _: True, out)

    def call(*args):
        if mode.plain() or mode.backend() != "tpu" or not mode.can_separate_traces():
            return function(*args)
        return mapped(*args)

    return call


_MAX_GAMES, _MIN_GAMES = 128, 80
"""How many games a CPU processes at a time. With 256, the planes do not fit into its cache. LLVM
unrolls a loop over 72 or fewer completely (it does so up to 300 instructions) before it vectorises,
and a game takes twice as long (AVX-512, jaxlib 0.10.1): so a batch of 33 to 79 is padded."""
_TOO_FEW_TO_PAD = 32


def _in_cache(stage: Callable, *args):
    """The stage on a batch; on the CPU as one kernel, on one group of games after another."""
    games = jax.tree.leaves(args)[0].shape[-1]
    if games == 0:
        return stage(*args)

    def in_groups(*args):
        num_groups = math.ceil(games / _MAX_GAMES)
        group_size = math.ceil(games / num_groups)
        if group_size > _TOO_FEW_TO_PAD:
            group_size = max(group_size, _MIN_GAMES)

        def split(x):
            num_padding = num_groups * group_size - games
            x = jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, num_padding)])
            return jnp.moveaxis(x.reshape(*x.shape[:-1], -1, group_size), -2, 0)

        def join(x):
            return jnp.moveaxis(x, 0, -2).reshape(*x.shape[1:-1], -1)[..., :games]

        one_kernel = functools.partial(stages.one_kernel, stage)
        return jax.tree.map(join, lax.map(lambda x: one_kernel(*x), jax.tree.map(split, args)))

    return mode.by_platform(*args, cpu=in_groups, default=stage)
