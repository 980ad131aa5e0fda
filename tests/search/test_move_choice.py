"""The move to play: by visits, by value, by lower bound; temperatures and resignation."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.search import move_choice
from gozero.search.config import SearchConfig
from gozero.search.move_choice import Temperature

VISITS = jnp.array([50, 1, 10, 0, 10])
Q = jnp.array([0.5, 1.0, 0.75, 0.0, 0.6])


def test_choice_by_value_and_by_lower_bound():
    key = jax.random.key(0)
    assert int(move_choice.by_value(key, VISITS, Q)) == 1
    assert int(move_choice.by_value(key, VISITS, Q, move_choice.CONFIDENCE)) == 0
    unvisited_is_best = jnp.array([-0.5, -1.0, -0.75, 0.0, -0.6])
    assert int(move_choice.by_value(key, VISITS, unvisited_is_best)) == 0
    ties = jax.vmap(lambda k: move_choice.by_value(k, VISITS, jnp.ones(5) * 0.5))(
        jax.random.split(key, 40)
    )
    assert set(ties.tolist()) == {0, 1, 2, 4}


def test_the_bound_by_hand():
    # One win in one game, z = 2: (1 + 2 - 2 sqrt(0 + 1)) / (1 + 4) = 1 / 5.
    # Half of four: (.5 + .5 - 2 sqrt(1/16 + 1/16)) / (1 + 1) = (1 - .7071) / 2.
    # 90 of 100, from a table of Wilson's interval at z = 1.96: 0.8256.
    bound = move_choice.lower_bound(jnp.array([1, 4]), jnp.array([1.0, 0.0]), 2.0)
    np.testing.assert_allclose(bound, [0.2, (1 - 0.5**0.5) / 2], rtol=1e-5)
    bound = move_choice.lower_bound(jnp.array([100]), jnp.array([0.8]), 1.96)
    np.testing.assert_allclose(bound, [0.8256], atol=1e-4)


def test_resignation_needs_a_lost_root_and_best_child():
    visits, q = jnp.array([5, 3, 0]), jnp.array([-0.95, -0.92, 0.0])
    resigns = lambda value, q: bool(move_choice.resigns(jnp.float32(value), visits, q, -0.9))
    assert resigns(-0.95, q)
    assert not resigns(-0.85, q)
    assert not resigns(-0.95, q.at[1].set(-0.5))  # a way out has been found
    assert not bool(move_choice.resigns(jnp.float32(-1), visits * 0, q, -0.9))


def test_temperatures():
    ply = jnp.array([0, 29, 30, 60])
    assert Temperature()(ply).tolist() == [1, 1, 0, 0]
    halved = Temperature(early=0.9, late=0.1, halflife=30)(ply)
    np.testing.assert_allclose(halved, [0.9, 0.1 + 0.8 * 0.5 ** (29 / 30), 0.5, 0.3], rtol=1e-6)


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: Temperature(early=-1.0), "early"),
        (lambda: Temperature(halflife=0.0), "halflife"),
        (lambda: SearchConfig(final_move="luck"), "final_move"),
        (lambda: SearchConfig(final_move="value", temperature=1.0), "final_move"),
        (lambda: SearchConfig(leaves=5), "leaves: 5 does not divide 64 simulations; use 65"),
        (lambda: SearchConfig(virtual_loss=0), "virtual_loss"),
        (
            lambda: SearchConfig(leaves=4, virtual_loss=2**28 - 8),
            "virtual_loss: 268435448 .* use at most 16383",
        ),
        (lambda: SearchConfig(expand_after=0), "expand_after"),
    ],
)
def test_bad_settings(make, field):
    with pytest.raises(ValueError, match=f"^{field}"):
        make()
