"""Functions that make a request, as two programs, against one that computes the response too."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from gozero.compile import executables
from gozero.compile.split import SplitFunction, TrimmedProgram

TABLE = jnp.arange(12, dtype=jnp.float32).reshape(3, 4)


def respond(request):
    return {"twice": 2 * request["x"], "count": jnp.sum(request["x"] > 0)}


def response_types_of(request):
    return jax.eval_shape(respond, request)


def whole(send, table, row, x):
    """With a constant, a key, an argument passed through, a loop on each side of the request."""
    drawn = jax.random.uniform(jax.random.key(3), x.shape) + jnp.array([1.0, 2.0, 3.0, 4.0])
    x = lax.fori_loop(0, 3, lambda i, x: x + drawn, x)
    received = send({"x": x, "row": row})
    table = lax.fori_loop(0, 2, lambda i, table: table.at[i].add(received["twice"]), table)
    return {"table": table.at[row].set(x), "row": row, "count": received["count"], "one": 1}


def run(cut, *args):
    return run_at(cut.at(*args), *args)


def run_at(programs, *args):
    asked, held = programs.before(*args)
    request = jax.tree.unflatten(jax.tree.structure(programs.request), asked)
    return programs.after(held, respond(request))


def test_two_programs_equal_one():
    x = jnp.array([0.5, -7.0, 0.25, 3.0])
    expected = whole(respond, TABLE, jnp.int32(2), x)
    cut = SplitFunction(whole, response_types_of)
    actual = run(cut, TABLE, jnp.int32(2), x)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), actual, expected)
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    assert actual["count"].dtype == jnp.int32
    # Other types need another pair of programs.
    wide = jnp.zeros((5, 4), jnp.float32)
    assert run(cut, wide, jnp.int32(4), x)["table"].shape == (5, 4)


def test_donated_buffers_are_reused():
    table, row, x = TABLE + 1, jnp.int32(0), jnp.ones(4)
    expected = whole(respond, TABLE + 1, row, x)
    cut = SplitFunction(whole, response_types_of, donated=True)
    place = table.unsafe_buffer_pointer()
    actual = run(cut, table, row, x)
    assert table.is_deleted()
    assert not x.is_deleted()
    np.testing.assert_allclose(actual["table"], expected["table"], rtol=1e-6)
    assert actual["table"].unsafe_buffer_pointer() == place


@pytest.mark.parametrize(
    ("function", "times"),
    [
        (lambda send, x: x, 0),
        (lambda send, x: send({"x": send({"x": x})["twice"]}), 2),
        (lambda send, x: lax.fori_loop(0, 2, lambda i, x: send({"x": x})["twice"], x), 1),
    ],
)
def test_a_function_asks_once_and_not_in_a_loop(function, times):
    with pytest.raises(ValueError, match=f"it called `send` {times} times"):
        SplitFunction(function, response_types_of).at(jnp.ones(4))


def test_a_trimmed_program_takes_only_used_leaves():
    given = {"x": jnp.array([1.0, -1.0]), "row": jnp.int32(1)}
    program = TrimmedProgram(respond, (given,), dict)
    assert program.needed == [False, True]  # of row, x
    received = program([None, given["x"]])
    np.testing.assert_array_equal(received["twice"], [2.0, -2.0])
    assert jax.tree.map(lambda x: x.dtype, program.result_types) == {
        "count": "int32",
        "twice": "float32",
    }


def test_unused_leaves_are_not_computed_nor_passed_through():
    def function(send, carried, x):
        received = send({"x": x + 1, "row": x[0] * 7})
        return {"kept": carried["kept"], "sum": carried["sum"] + received["twice"]}, x, x

    needed = lambda request: [False, True]
    carried = {"kept": jnp.arange(3.0), "sum": jnp.zeros(4)}
    x = jnp.ones(4)
    halves = SplitFunction(function, response_types_of, needed, donated=True).at(carried, x)
    asked, held = halves.before(carried, x)
    assert asked[0] is None
    text = halves._first.jitted.lower(*halves._types_first()).as_text()
    assert "7.0" not in text
    assert "3xf32" not in text
    received = respond({"x": asked[1]})
    after, one, other = halves.after(held, received)
    assert after["kept"] is carried["kept"]  # the caller's own array, since it is donated
    assert carried["sum"].is_deleted()
    np.testing.assert_array_equal(after["sum"], [4.0] * 4)
    # Arrays not donated stay the caller's, and no two results share an array.
    assert len({y.unsafe_buffer_pointer() for y in (x, one, other)}) == 3
    # Again with the returned arrays, as the steps of a search do.
    after, *_ = run_at(halves, after, x)
    np.testing.assert_array_equal(after["sum"], [8.0] * 4)


def test_cached_results_are_computed_once(tmp_path, monkeypatch):
    computed = []
    make = lambda: computed.append(1) or (1, jax.ShapeDtypeStruct((2,), jnp.float32))
    monkeypatch.setattr(executables, "folder", lambda: tmp_path)
    tmp_path.chmod(0o700)
    of = "these", (1, 2)
    assert executables.cached_result(make, *of) == executables.cached_result(make, *of) == make()
    assert len(computed) == 2  # once by `remembered`
    assert executables.cached_result(make, "these", (1, 3))
    assert len(computed) == 3
    for file in tmp_path.iterdir():
        file.write_bytes(b"damaged")
    assert executables.cached_result(make, *of)
    assert len(computed) == 4
    monkeypatch.setattr(executables, "folder", lambda: None)
    assert executables.cached_result(make, *of)
    assert len(computed) == 5
