"""The parts of self-play that differ on a GPU give exactly the same results."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from gozero.search.game import Evaluator
from tests.compile.forms import form_of
from tests.search.evaluators import hash_evaluate, observe_position
from tests.train.scripted import BUFFER, CONFIG, GAME
from train import games

CALLS, MOVES = 3, 6


def played():
    """(the games and the buffer after the calls, without keys; the events of each move)."""
    evaluator = Evaluator(hash_evaluate(GAME.num_actions), observe=observe_position)
    play = games.make_play(CONFIG, BUFFER, evaluator, MOVES)
    playing, found = games.start(CONFIG, BUFFER, seed=3), []
    for _ in range(CALLS):
        playing, events = play(None, playing)
        found.append(events)
    lanes = playing.lanes.replace(key=None, batch_key=None)
    return jax.device_get((playing.replace(lanes=lanes), found))


@pytest.mark.slow
def test_a_gpu_records_the_same(monkeypatch):
    """With its kernels interpreted: rows of games, the buffer, and the events of each move."""
    here = played()
    assert here[0].buffer.size > 0
    with form_of("cuda", monkeypatch):
        there = played()
    jax.tree.map(np.testing.assert_array_equal, here, there)
