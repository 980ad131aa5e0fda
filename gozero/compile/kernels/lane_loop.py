"""Advances lanes until all have ended, in one kernel: their state never leaves the chip.

The plain function is `plainly`: a loop in which every operation passes over the whole batch, and
whose predicate the host of a GPU reads in every iteration. Here each block of lanes runs to its own
end, with a vector for each word of the state. A lane runs several games one after another, so that
few lanes wait for the longest game.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gozero.compile.kernels import by_lane

_MOST_GAMES = 8  # per lane, one after another; more are hardly faster
_MOST_BYTES = 2**21  # of the games of a block; a TPU holds four times that at once
_FEW_WORDS = 32  # with up to so many, two registers a word fit into a TPU's registers
_WARPS = 528  # the number that a GPU of 132 processors runs at full speed


def plainly(goes_on: Callable, advance: Callable, state: Any) -> Any:
    """The same loop as XLA compiles it."""
    return lax.while_loop(lambda state: jnp.any(goes_on(state)), advance, state)


class BlockPlan(NamedTuple):
    """How a batch is divided into blocks of lanes; each lane runs games one after another."""

    platform: str  # "tpu" (Mosaic), "cuda" (Triton); "interpret", "interpret-cuda": anywhere
    shape: tuple[int, ...]  # lanes of a block: one or two registers of a TPU, a warp of a GPU
    blocks: int
    games: int  # per lane

    @property
    def size(self) -> int:
        """The size of the padded batch."""
        return self.blocks * self.games * math.prod(self.shape)

    @property
    def is_of_gpu(self) -> bool:
        return self.platform.endswith("cuda")


def plan(platform: str, count: int, words: int) -> BlockPlan:
    """The plan for `count` games whose state has `words` words each.

    On a TPU two registers a word take 1.33 times as long as one, and 1.6 times where they no longer
    fit (instruction bundles of playouts on 9x9, uniform and MoGo's, v5e).
    """
    if platform.endswith("cuda"):
        shape, at_once = (32,), _WARPS
    else:
        shape, at_once = (8, 128), 1
        if words <= _FEW_WORDS and count >= 2 * math.prod(shape):
            shape = (16, 128)
    lanes = math.prod(shape)
    vectors = math.ceil(count / lanes)
    most = max(1, min(_MOST_GAMES, _MOST_BYTES // (4 * words * lanes)))
    blocks = max(math.ceil(vectors / most), min(vectors, at_once))
    games = math.ceil(vectors / blocks)
    return BlockPlan(platform, shape, math.ceil(vectors / games), games)


def run(goes_on: Callable, advance: Callable, state: Any, platform: str) -> Any:
    """The final state of each lane, as ``plainly(goes_on, advance, state)``, in one kernel.

    Only leftovers in a lane that has ended, such as what it would try next, may differ.

    Args:
      goes_on: state -> bool[B].
      advance: state -> state, some iterations further; see `by_lane.traced` for what it may do.
      state: a pytree of arrays u32[..., B].
      platform: as in `BlockPlan`.
    """
    leaves, tree = jax.tree.flatten(state)
    count = leaves[0].shape[-1]
    how = plan(platform, count, _num_words(state))
    arrays = [x.reshape(-1, count) for x in leaves]
    ends = np.cumsum([len(x) for x in arrays])[:-1]
    if how.is_of_gpu:
        arrays = [jnp.concatenate(arrays)]

    def in_blocks(x):
        x = jnp.pad(x, ((0, 0), (0, how.size - count)), mode="edge")  # padding games
        return x.reshape(len(x), how.games, how.blocks * how.shape[0], *how.shape[1:])

    lanes = _LaneFunctions(by_lane.traced(goes_on, state), by_lane.traced(advance, state), leaves)
    kernel = functools.partial(_gpu_kernel if how.is_of_gpu else _kernel, lanes, how)
    out = _call(how, kernel, list(map(in_blocks, arrays)))
    out = [x.reshape(len(x), -1)[:, :count] for x in out]
    if how.is_of_gpu:
        out = jnp.split(out[0], ends)
    return tree.unflatten([new.reshape(x.shape) for new, x in zip(out, leaves, strict=True)])


def _num_words(state: Any) -> int:
    return sum(math.prod(x.shape[:-1]) for x in jax.tree.leaves(state))


class _LaneFunctions(NamedTuple):
    """The functions of a block's lanes, applied to a list of the words of their state."""

    goes_on_of: Any  # a program of `by_lane`
    advance_of: Any
    leaves: list[jax.Array]  # the state of all lanes; for its shapes

    def values(self, words: list[jax.Array]) -> list[np.ndarray]:
        out, rest = [], iter(words)
        for x in self.leaves:
            lead = x.shape[:-1]
            out.append(by_lane.array_of(list(itertools.islice(rest, math.prod(lead))), lead))
        return out

    def goes_on(self, words: list[jax.Array]) -> jax.Array:
        (value,) = by_lane.run(self.goes_on_of, self.values(words), words[0].shape)
        return value[()]

    def advance(self, words: list[jax.Array]) -> list[jax.Array]:
        return by_lane.words(by_lane.run(self.advance_of, self.values(words), words[0].shape))


def _kernel(lanes: _LaneFunctions, how: BlockPlan, *refs: Any) -> None:
    """One block: references u32[words, games, *shape] to the initial state and to the final one."""
    places = [(ref, word) for ref in refs for word in range(ref.shape[0])]
    given, out = places[: len(places) // 2], places[len(places) // 2 :]
    last = how.games - 1

    def body(carry):
        game, words, _ = carry
        words = lanes.advance(words)
        going = lanes.goes_on(words)
        more = going | (game < last)  # computed before a lane takes its next game
        for k in reversed(range(last)):
            ends = ~going & (game == k)
            for n, ((old, i), (new, _)) in enumerate(zip(given, out, strict=True)):
                new[i, k] = jnp.where(ends, words[n], new[i, k])
                words[n] = jnp.where(ends, old[i, k + 1], words[n])
            game = jnp.where(ends, k + 1, game)
        return game, words, jnp.max(more.astype(jnp.int32))

    words = [ref[i, 0] for ref, i in given]
    start = jnp.zeros(how.shape, jnp.int32), words, jnp.int32(1)
    _, words, _ = lax.while_loop(lambda carry: carry[2] > 0, body, start)
    for word, (ref, i) in zip(words, out, strict=True):
        ref[i, last] = word


def _gpu_kernel(lanes: _LaneFunctions, how: BlockPlan, given: Any, out: Any) -> None:
    """One block, with references u32[words, games, 32]; memory is accessed in few places.

    For each access to memory Triton goes through the whole program several times: with one for each
    of 84 words, compiling playouts of 19x19 took two minutes (jax 0.10.1, H100).
    """
    from jax.experimental.pallas import triton

    num_words, last = given.shape[0], how.games - 1
    lane = lax.iota(jnp.int32, how.shape[0])

    def read(game):
        def one(i, words):
            word = triton.load(given.at[i, game, lane])
            return [jnp.where(i == n, word, old) for n, old in enumerate(words)]

        nothing = [jnp.zeros(how.shape, jnp.uint32)] * num_words
        return lax.fori_loop(0, num_words, one, nothing)

    def write(words, game, which=None):
        def one(i, carry):
            word = words[0]
            for n in range(1, num_words):
                word = jnp.where(i == n, words[n], word)
            triton.store(out.at[i, game, lane], word, mask=which)
            return carry

        lax.fori_loop(0, num_words, one, jnp.int32(0))

    def next_game(game, words, ends):
        write(words, game, ends)
        game = game + ends.astype(jnp.int32)
        return game, [jnp.where(ends, x, y) for x, y in zip(read(game), words, strict=True)]

    def body(carry):
        game, words, _ = carry
        words = lanes.advance(words)
        going = lanes.goes_on(words)
        if last:
            ends = ~going & (game < last)
            some = jnp.max(ends.astype(jnp.int32)) > 0
            game, words = lax.cond(some, next_game, lambda *x: x[:2], game, words, ends)
            going = going | ends
        return game, words, jnp.max(going.astype(jnp.int32))

    first = jnp.zeros(how.shape, jnp.int32)
    start = first, read(first), jnp.int32(1)
    game, words, _ = lax.while_loop(lambda carry: carry[2] > 0, body, start)
    write(words, game)


def _call(how: BlockPlan, kernel: Callable, state: list[jax.Array]) -> list[jax.Array]:
    """Runs the kernel on each block; arrays are u32[words, games, *shape], with the third axis that
    of all blocks."""
    from jax.experimental import pallas as pl  # slow to import, and not needed on a CPU

    def spec(x):
        of_block = (*x.shape[:2], *how.shape)
        return pl.BlockSpec(of_block, lambda i: (0, 0, i, *[0] * (len(how.shape) - 1)))

    options: dict[str, Any] = {}
    if how.platform == "tpu":
        from jax.experimental.pallas import tpu

        options["compiler_params"] = tpu.CompilerParams(dimension_semantics=("parallel",))
    elif how.platform == "cuda":
        from jax.experimental.pallas import triton

        options["compiler_params"] = triton.CompilerParams(num_warps=1, num_stages=1)
    call = pl.pallas_call(
        kernel,
        out_shape=[jax.ShapeDtypeStruct(x.shape, x.dtype) for x in state],
        grid=(how.blocks,),
        in_specs=list(map(spec, state)),
        out_specs=list(map(spec, state)),
        interpret=how.platform.startswith("interpret"),
        **options,
    )
    return call(*state)
