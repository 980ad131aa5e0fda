"""Loops of lanes in a kernel beside the same loops as XLA compiles them, in interpret mode."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from gozero.compile.kernels import by_lane, lane_loop

ONE = np.uint32(1)


class State(NamedTuple):
    number: jax.Array  # u32[B]; 3 n + 1 if odd, else n / 2, until 1
    steps: jax.Array  # u32[B]
    seen: jax.Array  # u32[2, B]: the bits of all numbers, and the least number after a doubling


def goes_on(state: State) -> jax.Array:
    return state.number != 1


def one_step(state: State, _=None) -> tuple[State, None]:
    """With operations that only move words, and those that kernels have in other forms."""
    going, odd = goes_on(state), (state.number & ONE) != 0
    after = jnp.where(odd, np.uint32(3) * state.number + ONE, state.number >> ONE)
    row = lax.iota(jnp.uint32, 2)[:, None]
    least = jnp.minimum(jnp.where(odd, state.seen[1], after), state.seen[1])
    bits = lax.population_count(after) + lax.clz(state.number) * ONE
    seen = jnp.where(row == 0, state.seen | bits[None], jnp.stack([state.seen[0], least]))
    number, steps = jnp.where(going, after, state.number), state.steps + going
    return State(number, steps, jnp.where(going[None], seen, state.seen)), None


def advance(state: State) -> State:
    """Three steps; then, in turns in which some lane is at an odd number, one more for all."""
    state, _ = lax.scan(one_step, state, length=3)
    some = jnp.any((state.number & ONE) != 0)
    return lax.cond(some, lambda state: one_step(state)[0], lambda state: state, state)


def of_numbers(numbers: np.ndarray) -> State:
    zero = jnp.zeros(numbers.shape, jnp.uint32)
    return State(jnp.asarray(numbers, jnp.uint32), zero, jnp.stack([zero, ~zero]))


@pytest.mark.parametrize("platform", ["interpret", "interpret-cuda"])
@pytest.mark.parametrize("count", [1, 3000, 20000], ids=["a lane", "games", "blocks"])
def test_lanes_in_a_kernel_end_as_in_a_loop(count, platform):
    """3000: two games per lane of a TPU, and unused lanes; 20000: two blocks, five games per lane
    (a GPU's: 313 blocks, two games)."""
    numbers = np.random.default_rng(count).integers(1, 4000, count)
    state = of_numbers(numbers)
    run = jax.jit(lambda state: lane_loop.run(goes_on, advance, state, platform))
    got, expected = run(state), jax.jit(lambda s: lane_loop.plain_loop(goes_on, advance, s))(state)
    jax.tree.map(np.testing.assert_array_equal, got, expected)
    assert np.all(got.number == 1)
    steps = {1: 0, 2: 1, 3: 7, 27: 111, 97: 118}
    known = {n: int(s) for n, s in zip(numbers, np.asarray(got.steps), strict=True) if n in steps}
    assert known == {n: steps[n] for n in known}


@pytest.mark.parametrize("platform", ["interpret", "interpret-cuda"])
def test_the_last_lane_to_end_a_game_plays_its_next_one(platform):
    """Two games a lane; when the first lane takes its second, all others have ended theirs."""
    count = {"interpret": 4096, "interpret-cuda": 2 * 32 * lane_loop._WARPS}[platform]
    assert lane_loop.plan(platform, count, 4).games == 2
    numbers = np.ones(count, np.uint32)
    numbers[[0, count // 2]] = 27, 97
    run = jax.jit(lambda state: lane_loop.run(goes_on, advance, state, platform))
    got = run(of_numbers(numbers))
    assert np.all(got.number == 1)
    assert (got.steps[0], got.steps[count // 2], np.sum(got.steps)) == (111, 118, 229)


@pytest.mark.parametrize(
    ("platform", "count", "words", "shape", "blocks", "games"),
    [
        ("tpu", 1, 19, (8, 128), 1, 1),
        ("tpu", 1025, 19, (8, 128), 1, 2),
        ("tpu", 4096, 19, (16, 128), 1, 2),
        ("tpu", 4096, 37, (8, 128), 1, 4),
        ("tpu", 4096, 122, (8, 128), 1, 4),
        ("tpu", 65536, 19, (16, 128), 4, 8),
        ("cuda", 4096, 19, (32,), 128, 1),
        ("cuda", 65536, 19, (32,), 512, 4),
    ],
)
def test_how_a_batch_is_divided_into_lanes(platform, count, words, shape, blocks, games):
    plan = lane_loop.plan(platform, count, words)
    assert plan == (platform, shape, blocks, games)
    assert count <= plan.size < count + blocks * np.prod(shape)


def test_unsupported_operations_are_named():
    table = jnp.arange(8, dtype=jnp.uint32)
    looks_up = lambda state: state._replace(number=table[state.number % 8])
    with pytest.raises(NotImplementedError, match="gather is not supported in a kernel of lanes"):
        lane_loop.run(goes_on, looks_up, of_numbers(np.arange(1, 9)), "interpret")
    turns = lambda state: state._replace(number=jnp.flip(state.number))  # lanes into other lanes
    with pytest.raises(NotImplementedError, match="rev is not supported in a kernel of lanes"):
        lane_loop.run(goes_on, turns, of_numbers(np.arange(1, 9)), "interpret")


def test_the_number_of_lanes_is_a_prime():
    """JAX caches a kernel's traces by shape, and no batch has a prime number of lanes."""
    assert all(by_lane.LANES % n for n in range(2, 65))
