"""The 5x5 experiment's openings: Black plays its policy and White plays at random."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.solved_5x5 import run
from experiments.solved_5x5.config import Solved5x5Config
from gozero.go.rules import BLACK, Rules, stones
from gozero.play.player import policy_player
from gozero.runs.settings import flag_of

RULES = Rules(5, "simple")


def test_black_plays_its_policy_and_white_at_random():
    """Black's policy is the free point whose index is nearest to the centre's."""
    order = jnp.abs(jnp.arange(26) - 12)

    def nearest(params, key, turn):
        return jnp.argmin(jnp.where(turn.legal, order, 99), axis=1)

    states = run.openings(RULES, policy_player(nearest), jax.random.key(1), 40, 24.5, 2)
    boards = np.asarray(jax.vmap(lambda state: stones(RULES, state))(states)).reshape(40, 25)
    assert np.all(boards[:, 12] == 1)
    assert np.all((boards == 1).sum(axis=1) == 2)
    assert np.all((boards == -1).sum(axis=1) == 2)
    assert np.all(np.asarray(states.position.to_play) == BLACK)
    assert np.all(np.asarray(states.komi) == 24.5)
    assert len(np.unique(boards, axis=0)) > 30


def test_without_replies_the_board_is_empty():
    player = policy_player(lambda params, key, turn: jnp.zeros(turn.legal.shape[0], jnp.int32))
    states = run.openings(RULES, player, jax.random.key(1), 3, 24.5, 0)
    assert np.all(np.asarray(states.position.ply) == 0)


LEASTS = {"games": 1, "simulations": 1, "opponent_simulations": 8, "parallel": 1}


@pytest.mark.parametrize(("name", "least"), LEASTS.items())
def test_invalid_flags(name, least):
    with pytest.raises(ValueError, match=f"{flag_of(name)} {least - 1}: expected at least {least}"):
        Solved5x5Config(**{name: least - 1})


def test_a_nan_komi_is_refused():
    with pytest.raises(ValueError, match="--komi nan: expected a finite number"):
        Solved5x5Config(komi=float("nan"))
