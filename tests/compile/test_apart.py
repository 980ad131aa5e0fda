"""Functions that ask, as two programs: beside the same function with what it asks for in it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from gozero.compile.apart import InTwo

TABLE = jnp.arange(12, dtype=jnp.float32).reshape(3, 4)


def answer(question):
    return {"twice": 2 * question["x"], "count": jnp.sum(question["x"] > 0)}


def types_of(question):
    return jax.eval_shape(answer, question)


def whole(ask, table, row, x):
    """A constant, a key, an argument that is handed on, a loop on each side of the question."""
    drawn = jax.random.uniform(jax.random.key(3), x.shape) + jnp.array([1.0, 2.0, 3.0, 4.0])
    x = lax.fori_loop(0, 3, lambda i, x: x + drawn, x)
    said = ask({"x": x, "row": row})
    table = lax.fori_loop(0, 2, lambda i, table: table.at[i].add(said["twice"]), table)
    return {"table": table.at[row].set(x), "row": row, "count": said["count"], "one": 1}


def run(cut, *args):
    after = cut.after(*args)
    question, kept = cut.before(*args)
    return after(*kept, answer(question))


def test_two_programs_do_what_one_does():
    x = jnp.array([0.5, -7.0, 0.25, 3.0])
    wanted = whole(answer, TABLE, jnp.int32(2), x)
    cut = InTwo(whole, types_of)
    found = run(cut, TABLE, jnp.int32(2), x)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), found, wanted)
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    assert found["count"].dtype == jnp.int32
    # Other types are another pair of programs.
    wide = jnp.zeros((5, 4), jnp.float32)
    assert run(cut, wide, jnp.int32(4), x)["table"].shape == (5, 4)


def test_what_is_donated_is_used_up_and_its_place_taken():
    table, row, x = TABLE + 1, jnp.int32(0), jnp.ones(4)
    wanted = whole(answer, TABLE + 1, row, x)
    cut = InTwo(whole, types_of, donated=True)
    place = table.unsafe_buffer_pointer()
    found = run(cut, table, row, x)
    assert table.is_deleted()
    assert not x.is_deleted()
    np.testing.assert_allclose(found["table"], wanted["table"], rtol=1e-6)
    assert found["table"].unsafe_buffer_pointer() == place


@pytest.mark.parametrize(
    ("function", "times"),
    [
        (lambda ask, x: x, 0),
        (lambda ask, x: ask({"x": ask({"x": x})["twice"]}), 2),
        (lambda ask, x: lax.fori_loop(0, 2, lambda i, x: ask({"x": x})["twice"], x), 1),
    ],
)
def test_a_function_asks_once_and_not_in_a_loop(function, times):
    with pytest.raises(ValueError, match=f"it asked {times} times"):
        InTwo(function, types_of).before(jnp.ones(4))
