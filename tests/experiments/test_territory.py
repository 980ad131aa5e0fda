"""The territory network of `surveyed`: its targets, its values, and that it learns."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from experiments.surveyed import territory
from gozero.go.rules import Rules, init, play
from gozero.nets import network
from gozero.nets.network import NetworkConfig
from gozero.search.game import Ancestors

RULES = Rules(3, ko="simple")
CONFIG = NetworkConfig(1, 8, auxiliary=True, board_size=3)


def test_targets_by_hand():
    """Minus the prediction for the next position, or the final owners if the game has ended."""
    next_logits = jnp.array([[0.5, -1.0], [9.0, 9.0]])
    result = territory.targets(jnp.array([False, True]), jnp.array([[1, 1], [1, -1]]), next_logits)
    np.testing.assert_allclose(result, [[-np.tanh(0.5), np.tanh(1.0)], [1, -1]], rtol=1e-6)


def test_values_are_scores_for_the_player_to_move():
    """The network gives the player to move all 9 points; komi is subtracted for Black."""
    params = network.init(CONFIG, jax.random.key(0))
    params["owners"] = {"kernel": params["owners"]["kernel"] * 0, "bias": jnp.full(1, 20.0)}
    evaluator = territory.territory_evaluator(RULES, CONFIG, params)
    states = [init(RULES, 2.5), play(RULES, init(RULES, 2.5), 4)]
    states = jax.tree.map(lambda *x: jnp.stack(x), *states)
    see = lambda state: evaluator.observe(state, state.position, Ancestors(None, jnp.int32(0)))
    seen = jax.vmap(see)(states)
    result = evaluator.evaluate(evaluator.params, jax.random.key(0), seen)
    np.testing.assert_allclose(result.value, np.tanh([6.5 / 9, 11.5 / 9]), rtol=1e-5)
    assert not result.prior_logits.any()


@pytest.mark.parametrize("name", ["old.safetensors", "new.bin", "file/new.safetensors"])
def test_the_file_to_write_is_checked_before_learning(tmp_path, name):
    for other in ("old.safetensors", "file"):
        (tmp_path / other).write_bytes(b"")
    with pytest.raises(ValueError, match=f"--out .*{name}: "):
        territory.TerritoryFlags(tmp_path / name)
    assert territory.TerritoryFlags(tmp_path / "new" / "new.safetensors").steps == 2000


@pytest.mark.thorough
def test_it_learns():
    """On 3x3, random games end soon, and a stone's point mostly ends up its own player's."""
    params = network.init(CONFIG, jax.random.key(0))
    games = jax.vmap(functools.partial(init, RULES))(jnp.full(64, 7.0))
    state = territory.State(games, params, optax.adam(1e-3).init(params))
    step = jax.jit(functools.partial(territory.step, RULES, CONFIG))
    losses = []
    for i in range(400):
        state, loss = step(state, jax.random.fold_in(jax.random.key(1), i))
        losses.append(float(loss))
    assert np.mean(losses[-50:]) < 0.9 * np.mean(losses[:50])
    centre = play(RULES, init(RULES, 7.0), 4)
    seen = territory._observer(RULES, CONFIG)(jax.tree.map(lambda x: x[None], centre))
    owners = network.apply(CONFIG, state.params, seen).ownership[0]
    assert owners[4] < -0.2  # White is to move
