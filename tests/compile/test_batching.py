"""Batched stages as functions of one game: a batch gives the results of its single games."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.compile import batching, mode


def numbers(games: int):
    rng = np.random.default_rng(games)
    a = rng.integers(0, 2**32, (games, 3, 2), dtype=np.uint32)
    return a, rng.integers(0, 2**32, (games,), dtype=np.uint32)


def multiply(a, b, one):
    """a [3, 2, B], b [B], one [B]."""
    return a + (b * one)[None, None], {"b": b ^ one}


def check(product, rest, a, b):
    np.testing.assert_array_equal(product, a + b[..., None, None] * np.uint32(3))
    np.testing.assert_array_equal(rest["b"], b ^ np.uint32(3))


@pytest.mark.parametrize("in_cache", [False, True])
@pytest.mark.parametrize("games", [1, 2, 32, 33, 80, 128, 129, 300])
def test_a_batch_of_any_size_equals_its_games(games, in_cache):
    a, b = numbers(games)
    stage = batching.over_games(multiply, in_cache=in_cache)
    check(*jax.vmap(stage, in_axes=(0, 0, None))(a, b, np.uint32(3)), a, b)


def test_one_game_is_a_batch_of_one():
    a, b = numbers(1)
    check(*batching.over_games(multiply)(a[0], b[0], np.uint32(3)), a[0], b[0])


def test_games_may_be_the_first_axis():
    a, b = numbers(5)
    first = lambda a, b, one: (a + (b * one)[:, None, None], {"b": b ^ one})
    stage = batching.over_games(first, axis=0)
    check(*jax.vmap(stage, in_axes=(0, 0, None))(a, b, np.uint32(3)), a, b)


def test_a_batch_of_batches_equals_its_games():
    a, b = numbers(6)
    stage = jax.vmap(jax.vmap(batching.over_games(multiply), in_axes=(0, 0, None)), (0, 0, None))
    product, rest = stage(a.reshape(2, 3, 3, 2), b.reshape(2, 3), np.uint32(3))
    check(product.reshape(a.shape), jax.tree.map(jnp.ravel, rest), a, b)


@pytest.mark.parametrize("games", [1, 7])
def test_a_barrier_does_not_change_the_result(games):
    a, b = numbers(games)
    stage = batching.behind_barrier(lambda words, n: (words[0] + n, words[1].sum()))
    result = jax.vmap(stage)((a, b), b)
    np.testing.assert_array_equal(result[0], a + b[:, None, None])
    np.testing.assert_array_equal(result[1], b)


@pytest.mark.parametrize("plain", [False, True])
def test_a_loop_has_one_predicate_for_the_batch_unless_compiled_plainly(monkeypatch, plain):
    monkeypatch.setenv(mode.VARIABLE, "plain" if plain else "")

    def bit_length(n):
        halved = lambda carry: (carry[0] >> 1, carry[1] + (carry[0] > 0))
        start = (n, jnp.zeros_like(n))
        return jax.lax.while_loop(lambda carry: jnp.any(carry[0] > 0), halved, start)[1]

    stage = jax.vmap(batching.over_games(bit_length))
    assert stage(jnp.array([0, 1, 5, 100])).tolist() == [0, 1, 3, 7]
    program = jax.jit(stage).lower(jnp.arange(4)).as_text()
    assert ("stablehlo.select" in program) == plain


def test_an_empty_batch_in_the_cache():
    count = batching.over_games(lambda x: (x + 1, x * 2), in_cache=True)
    assert [x.shape for x in jax.vmap(count)(jnp.zeros(0, jnp.int32))] == [(0,), (0,)]
