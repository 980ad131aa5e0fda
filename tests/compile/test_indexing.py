"""Hints to XLA about rows and kernels change no result."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.compile import indexing, mode, stages
from gozero.compile.kernels import paths
from tests.compile.forms import form_of

ROWS = jnp.arange(12.0).reshape(4, 3)


@pytest.fixture(params=["", "plain"])
def compile_mode(request, monkeypatch):
    monkeypatch.setenv(mode.VARIABLE, request.param)
    return request.param


@pytest.mark.parametrize("count", [1, 16, 17, 33, 82])
def test_the_highest_of_many(compile_mode, count):
    """For any scores that a choice may see; a nan is the highest, whatever its sign."""
    rng = np.random.RandomState(count)
    rows = rng.randn(40, count).astype(np.float32)
    rows[4:8] = -np.abs(rows[4:8])
    rows[8:16][rng.rand(8, count) < 0.5] = -np.inf
    rows[16:24] = rng.choice(np.float32([-np.inf, -0.0, 0.0, 1.2e-38, -1.2e-38]), (8, count))
    rows[24] = -np.inf
    rows[25:28, rng.randint(count)] = np.inf
    rows[28:36, rng.randint(count)] = np.nan
    rows[32:36] = np.copysign(rows[32:36], np.float32(-1))
    find = jax.jit(indexing.highest)
    np.testing.assert_array_equal(find(rows), np.max(rows, axis=1))
    for dtype in (np.int32, np.uint32):
        whole = rng.randint(0, 2**32, (40, count), np.uint32).astype(dtype)
        np.testing.assert_array_equal(find(whole), np.max(whole, axis=1))


@pytest.mark.parametrize("rows", [[2], [3, 0], [[1], [1]]])
def test_rows_are_read(compile_mode, rows):
    read = jax.jit(lambda array, rows: indexing.read_rows(array, rows))
    np.testing.assert_array_equal(read(ROWS, jnp.array(rows)), ROWS[np.array(rows)])


def test_a_kernel_of_one_result(compile_mode):
    run = jax.jit(lambda x: indexing.small_kernel(lambda x: x * 2, x))
    assert run(jnp.arange(3)).tolist() == [0, 2, 4]


def test_unused_arguments_count_as_used(compile_mode):
    """Unless compiled plainly the program reads the second array, so that nans in it show."""
    first = lambda pair: pair[0]
    shapes = (jax.ShapeDtypeStruct((3,), jnp.float32),) * 2
    run = jax.jit(lambda pair: indexing.all_used(first, shapes, pair[0], pair))
    assert run((ROWS, 2 * ROWS)).tolist() == ROWS.tolist()
    broken = run((ROWS, jnp.full_like(ROWS, jnp.nan)))
    assert np.isneginf(broken).all() == (compile_mode == "")


def test_a_decision_after_a_read(compile_mode):
    run = jax.jit(lambda x: indexing.after(x > 1, x < 3))
    assert run(jnp.arange(4)).tolist() == [False, False, True, compile_mode == "plain"]


def test_a_decision_by_a_row(compile_mode):
    run = jax.jit(lambda x: indexing.by_row(x[:, 0] > 1, lambda: x[:, 1] > 1))
    assert run(jnp.array([[2, 0], [0, 2]])).tolist() == [
        compile_mode == "",
        compile_mode == "plain",
    ]


@pytest.mark.parametrize("target", ["cpu", "tpu"])
@pytest.mark.parametrize("shape", [(50,), (50, 11), (50, 82), (50, 2, 3), (50, 0, 2)])
def test_rows_are_taken(target, shape):
    array, rows = np.arange(np.prod(shape)).reshape(shape), np.array([[3, 3, 49], [0, 7, 1]])
    with mode.target(target):
        take = jax.jit(lambda rows: indexing.take(jnp.asarray(array), rows))
        each = jax.jit(jax.vmap(lambda rows: indexing.take(jnp.asarray(array), rows)))
        np.testing.assert_array_equal(take(rows[0]), array[rows[0]])
        np.testing.assert_array_equal(each(rows), array[rows])


def test_rows_of_many_arrays_are_written_in_one_kernel(monkeypatch):
    """Like scatters, for any shape and type; rows beyond the end are dropped."""
    arrays = {
        "words": jnp.zeros((5, 2, 3), jnp.uint32),
        "half": jnp.zeros((5, 82), jnp.float16),
        "flags": jnp.ones(5, bool),
        "none": jnp.zeros((5, 0, 2)),
    }
    rng, rows = np.random.RandomState(0), jnp.array([3, 7, 0], jnp.int32)
    value = lambda x: jnp.asarray(rng.randint(0, 2**12, (3, *x.shape[1:])).astype(np.float32))
    values = jax.tree.map(value, arrays) | {"flags": jnp.array([False, False, True])}
    expected = indexing.write_rows(arrays, rows, values)
    assert expected["flags"].tolist() == [True, True, True, False, True]
    with form_of("cuda", monkeypatch):
        actual = jax.jit(lambda *args: indexing.write_rows(*args))(arrays, rows, values)
    jax.tree.map(np.testing.assert_array_equal, actual, expected)


def test_rows_that_a_gpu_kernel_cannot_address_are_scattered():
    """Bytes beyond 2^31 elements; from 2^32 bytes on, Pallas has wide offsets."""
    of = lambda rows: (jax.ShapeDtypeStruct((rows, 362), jnp.uint8),)
    row = jax.ShapeDtypeStruct((8, 362), jnp.uint8)
    number = jax.ShapeDtypeStruct((8,), jnp.int32)
    write = lambda arrays, rows, values: indexing.write_rows(arrays, rows, values)
    with mode.target("gpu"):
        for count, scatters in ((5_900_000, 0), (6_000_000, 1), (11_800_000, 1), (12_000_000, 0)):
            other = jax.ShapeDtypeStruct((count,), jnp.float32)
            of_other = jax.ShapeDtypeStruct((8,), jnp.float32)
            args = (*of(count), other), number, (row, of_other)
            text = str(jax.make_jaxpr(write)(*args))
            assert (text.count("pallas_call["), text.count("scatter[")) == (1, scatters)
    with pytest.raises(ValueError, match="cannot address arrays of bytes from 2 to 4 GiB"):
        paths.each_tree(lambda *refs: None, 1, [], [*of(6_000_000)])


def on_a_gpu(monkeypatch, function, *args):
    with form_of("cuda", monkeypatch):
        return jax.jit(lambda *args: function(*args))(*args)


@pytest.mark.parametrize("count", [1, 5, 2500])
def test_ranks_and_order_of_flags(monkeypatch, count):
    def in_turn(these):
        return indexing.ranks(these), indexing.true_first(these), indexing.count_true(these)

    these = np.random.default_rng(count).random(count) < 0.3
    plain = np.cumsum(these) - 1, np.argsort(~these, stable=True), these.sum()
    jax.tree.map(np.testing.assert_array_equal, in_turn(jnp.asarray(these)), plain)
    result = on_a_gpu(monkeypatch, in_turn, jnp.asarray(these))
    jax.tree.map(np.testing.assert_array_equal, result, plain)


def test_packed_loop_carries_are_unchanged(monkeypatch):
    """Numbers of all dtypes, and a key, which is carried separately."""

    def run(key):
        kinds = "bool", "int8", "int16", "int32", "uint32", "float16", "float32"
        small = {kind: jnp.array([-3, 0, 2], jnp.int32).astype(kind) for kind in kinds}

        def step(carry, _):
            small, count, key = carry
            small = {name: x ^ True if x.dtype == bool else x * -1 for name, x in small.items()}
            return (small, count + 1, jax.random.split(key)[0]), (small["int8"], small["float32"])

        carry, out = indexing.scan(step, (small, jnp.int32(0), key), 3, shapes=[(), (3,)])
        goes_on, one_more = (lambda x: x[1] < 5), (lambda x: step(x, None)[0])
        small, count, key = indexing.while_loop(goes_on, one_more, carry, shapes=[(), (3,)])
        return small, count, jax.random.key_data(key), out

    key = jax.random.key(1)
    jax.tree.map(np.testing.assert_array_equal, on_a_gpu(monkeypatch, run, key), run(key))


def test_keys_are_split_as_by_jax(monkeypatch):
    split = lambda key: jax.random.key_data(stages.split_key(key, 5))
    key = jax.random.key(3)
    result = on_a_gpu(monkeypatch, split, key)
    np.testing.assert_array_equal(result, jax.random.key_data(jax.random.split(key, 5)))


@pytest.mark.parametrize("size", [1, 31, 32, 33, 70])
def test_the_true_entries_in_order(size):
    """Their indices are appended one after another; the last flag of a group of 32 is the highest
    bit of its word."""
    flags = np.random.default_rng(size).random(size) < 0.4
    flags[-1] = flags[31 % size] = True

    def append(index, carry):
        count, indices = carry
        return count + 1, indices.at[count].set(index)

    start = jnp.int32(0), jnp.full(size, -1, jnp.int32)
    count, indices = jax.jit(lambda flags: indexing.for_each_true(flags, append, start))(flags)
    expected = np.flatnonzero(flags)
    assert count == len(expected)
    np.testing.assert_array_equal(indices[:count], expected)
    assert np.all(indices[count:] == -1)


def test_no_true_entry():
    flags = jnp.zeros(40, bool)
    assert indexing.for_each_true(flags, lambda i, carry: carry + 1, jnp.int32(0)) == 0
