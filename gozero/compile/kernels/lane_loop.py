"""Advances lanes until all have ended, in one kernel: their state never leaves the chip.

The plain form is `plain_loop`: a loop in which every operation passes over the whole batch, and
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

_MAX_GAMES = 8  # per lane, one after another; more are hardly faster
_MAX_BYTES = 2**21  # of the games of a block; a TPU holds four times that at once
_FEW_WORDS = 32  # with up to so many, two registers a word fit into a TPU's registers
_WARPS = 528  # the number that a GPU of 132 processors runs at full speed


def plain_loop(is_running: Callable, advance: Callable, state: Any) -> Any:
    """The same loop as XLA compiles it."""
    return lax.while_loop(lambda state: jnp.any(is_running(state)), advance, state)


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
        shape, min_blocks = (32,), _WARPS
    else:
        shape, min_blocks = (8, 128), 1
        if words <= _FEW_WORDS and count >= 2 * math.prod(shape):
            shape = (16, 128)
    lanes = math.prod(shape)
    vectors = math.ceil(count / lanes)
    max_games = max(1, min(_MAX_GAMES, _MAX_BYTES // (4 * words * lanes)))
    blocks = max(math.ceil(vectors / max_games), min(vectors, min_blocks))
    games = math.ceil(vectors / blocks)
    return BlockPlan(platform, shape, math.ceil(vectors / games), games)


def run(is_running: Callable, advance: Callable, state: Any, platform: str) -> Any:
    """The final state of each lane, as ``plain_loop(is_running, advance, state)``, in one kernel.

    Only leftovers in a lane that has ended, such as what it would try next, may differ.

    Args:
      is_running: state -> bool[B].
      advance: state -> state, some iterations further; see `by_lane.traced` for what it may do.
      state: a pytree of arrays u32[..., B].
      platform: as in `BlockPlan`.
    """
    leaves, tree = jax.tree.flatten(state)
    count = leaves[0].shape[-1]
    blocks = plan(platform, count, _num_words(state))
    arrays = [x.reshape(-1, count) for x in leaves]
    ends = np.cumsum([len(x) for x in arrays])[:-1]
    if blocks.is_of_gpu:
        arrays = [jnp.concatenate(arrays)]

    def in_blocks(x):
        x = jnp.pad(x, ((0, 0), (0, blocks.size - count)), mode="edge")  # padding games
        return x.reshape(len(x), blocks.games, blocks.blocks * blocks.shape[0], *blocks.shape[1:])

    lanes = _LaneFunctions(
        by_lane.traced(is_running, state), by_lane.traced(advance, state), leaves
    )
    kernel = functools.partial(_gpu_kernel if blocks.is_of_gpu else _kernel, lanes, blocks)
    out = _call(blocks, kernel, list(map(in_blocks, arrays)))
    out = [x.reshape(len(x), -1)[:, :count] for x in out]
    if blocks.is_of_gpu:
        out = jnp.split(out[0], ends)
    return tree.unflatten([new.reshape(x.shape) for new, x in zip(out, leaves, strict=True)])


def _num_words(state: Any) -> int:
    return sum(math.prod(x.shape[:-1]) for x in jax.tree.leaves(state))


class _LaneFunctions(NamedTuple):
    """The functions of a block's lanes, applied to a list of the words of their state."""

    is_running_of: Any  # a program of `by_lane`
    advance_of: Any
    leaves: list[jax.Array]  # the state of all lanes; for its shapes

    def values(self, words: list[jax.Array]) -> list[np.ndarray]:
        out, rest = [], iter(words)
        for x in self.leaves:
            lead = x.shape[:-1]
            out.append(by_lane.array_of(list(itertools.islice(rest, math.prod(lead))), lead))
        return out

    def is_running(self, words: list[jax.Array]) -> jax.Array:
        (value,) = by_lane.run(self.is_running_of, self.values(words), words[0].shape)
        return value[()]

    def advance(self, words: list[jax.Array]) -> list[jax.Array]:
        return by_lane.words(by_lane.run(self.advance_of, self.values(words), words[0].shape))


def _kernel(lanes: _LaneFunctions, blocks: BlockPlan, *refs: Any) -> None:
    """One block: references u32[words, games, *shape] to the initial state and to the final one."""
    places = [(ref, word) for ref in refs for word in range(ref.shape[0])]
    inputs, outputs = places[: len(places) // 2], places[len(places) // 2 :]
    last = blocks.games - 1

    def body(carry):
        game, words, _ = carry
        words = lanes.advance(words)
        running = lanes.is_running(words)
        has_more = running | (game < last)  # computed before a lane takes its next game
        for k in reversed(range(last)):
            ended = ~running & (game == k)
            for n, ((old, i), (new, _)) in enumerate(zip(inputs, outputs, strict=True)):
                new[i, k] = jnp.where(ended, words[n], new[i, k])
                words[n] = jnp.where(ended, old[i, k + 1], words[n])
            game = jnp.where(ended, k + 1, game)
        return game, words, jnp.max(has_more.astype(jnp.int32))

    words = [ref[i, 0] for ref, i in inputs]
    start = jnp.zeros(blocks.shape, jnp.int32), words, jnp.int32(1)
    _, words, _ = lax.while_loop(lambda carry: carry[2] > 0, body, start)
    for word, (ref, i) in zip(words, outputs, strict=True):
        ref[i, last] = word


def _gpu_kernel(lanes: _LaneFunctions, blocks: BlockPlan, inputs: Any, outputs: Any) -> None:
    """One block, with references u32[words, games, 32]; memory is accessed in few places.

    For each access to memory Triton goes through the whole program several times: with one for each
    of 84 words, compiling playouts of 19x19 took two minutes (jax 0.10.1, H100).
    """
    from jax.experimental.pallas import triton

    num_words, last = inputs.shape[0], blocks.games - 1
    lane = lax.iota(jnp.int32, blocks.shape[0])

    def read(game):
        def read_word(i, words):
            word = triton.load(inputs.at[i, game, lane])
            return [jnp.where(i == n, word, old) for n, old in enumerate(words)]

        nothing = [jnp.zeros(blocks.shape, jnp.uint32)] * num_words
        return lax.fori_loop(0, num_words, read_word, nothing)

    def write(words, game, which=None):
        def write_word(i, carry):
            word = words[0]
            for n in range(1, num_words):
                word = jnp.where(i == n, words[n], word)
            triton.store(outputs.at[i, game, lane], word, mask=which)
            return carry

        lax.fori_loop(0, num_words, write_word, jnp.int32(0))

    def next_game(game, words, ended):
        write(words, game, ended)
        game = game + ended.astype(jnp.int32)
        return game, [jnp.where(ended, x, y) for x, y in zip(read(game), words, strict=True)]

    def body(carry):
        game, words, _ = carry
        words = lanes.advance(words)
        running = lanes.is_running(words)
        if last:
            ended = ~running & (game < last)
            any_ended = jnp.max(ended.astype(jnp.int32)) > 0
            game, words = lax.cond(any_ended, next_game, lambda *x: x[:2], game, words, ended)
            running = running | ended
        return game, words, jnp.max(running.astype(jnp.int32))

    first = jnp.zeros(blocks.shape, jnp.int32)
    start = first, read(first), jnp.int32(1)
    game, words, _ = lax.while_loop(lambda carry: carry[2] > 0, body, start)
    write(words, game)


def _call(blocks: BlockPlan, kernel: Callable, state: list[jax.Array]) -> list[jax.Array]:
    """Runs the kernel on each block; arrays are u32[words, games, *shape], with the third axis that
    of all blocks."""
    from jax.experimental import pallas as pl  # slow to import, and not needed on a CPU

    def spec(x):
        of_block = (*x.shape[:2], *blocks.shape)
        return pl.BlockSpec(of_block, lambda i: (0, 0, i, *[0] * (len(blocks.shape) - 1)))

    options: dict[str, Any] = {}
    if blocks.platform == "tpu":
        from jax.experimental.pallas import tpu

        options["compiler_params"] = tpu.CompilerParams(dimension_semantics=("parallel",))
    elif blocks.platform == "cuda":
        from jax.experimental.pallas import triton

        options["compiler_params"] = triton.CompilerParams(num_warps=1, num_stages=1)
    call = pl.pallas_call(
        kernel,
        out_shape=[jax.ShapeDtypeStruct(x.shape, x.dtype) for x in state],
        grid=(blocks.blocks,),
        in_specs=list(map(spec, state)),
        out_specs=list(map(spec, state)),
        interpret=blocks.platform.startswith("interpret"),
        **options,
    )
    return call(*state)
