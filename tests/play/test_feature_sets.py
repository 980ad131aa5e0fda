"""Every feature set through self-play's search, its shards, and training's examples."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.apps.gtp.config import GtpConfig
from gozero.apps.gtp.engine import Engine
from gozero.apps.selfplay.writer import GameWriter
from gozero.games.go import go_game
from gozero.go import rules as go
from gozero.nets import network, weights
from gozero.nets.features import FEATURES
from gozero.nets.network import NetworkConfig
from gozero.play import searches, selfplay
from gozero.play.evaluators import make_evaluator
from gozero.play.networks import network_evaluator
from gozero.play.player_config import needs_past_boards
from gozero.play.rows import Rows
from train import replay

RULES = go.Rules(size=4, max_moves=12)


@pytest.mark.slow
@pytest.mark.parametrize("name", FEATURES)
def test_training_and_self_play_have_the_same_features(name, tmp_path):
    shape = NetworkConfig(blocks=1, channels=4, features=name)
    params = jax.jit(network.init, static_argnums=0)(shape, jax.random.key(1))
    evaluator = network_evaluator(RULES, shape, params)
    game = go_game(RULES)
    search = searches.puct_search(game, evaluator, num_simulations=4)
    config = selfplay.SelfPlayConfig(game, 2, search, komi=4.5, num_games=4, stagger=0)
    writer = GameWriter(tmp_path, RULES, config, evaluator)
    lanes = selfplay.start(config, 0)
    play_moves = selfplay.make_play_moves(config, evaluator, 4)
    observe = jax.jit(jax.vmap(lambda s: FEATURES[name].observe(RULES, s, s.position)))
    while writer.num_games < 4:
        lanes, rows = play_moves(params, lanes)
        writer.take(jax.device_get(rows))
    writer.flush()

    stored = replay.load(tmp_path, 0.0, 0).rows
    stored = replay.with_past(stored, FEATURES[name].past_boards)
    # As training takes them: shuffled, after the past was found.
    order = np.random.default_rng(0).permutation(stored.num_rows)
    taken = stored.take(jnp.asarray(order))
    example = lambda row: replay.example(RULES, name, row, jnp.int32(0))
    inputs, _ = jax.jit(jax.vmap(example))(taken)
    expected = observe(_states_of(stored))
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a, b[order]), inputs, expected)


def _states_of(stored: Rows) -> go.GameState:
    """The states [n] at each row, by replaying the games to match the rows' boards."""
    words = [np.stack(x) for x in (stored.position.black, stored.position.white)]
    states, state = [], None
    for i, (game, ply) in enumerate(zip(stored.game, stored.position.ply, strict=True)):
        if ply == 0:
            state = START
        else:
            assert game == stored.game[i - 1]
            state = _by_the_action_to(state, [w[:, i] for w in words])
        states.append(state)
    return jax.tree.map(lambda *x: np.stack(x), *states)


START = go.init(RULES, 4.5)


@jax.jit
def _after_each(state):
    """(states after each action [A], legal bool[A])."""
    after = jax.vmap(lambda action: go.play(RULES, state, action))(jnp.arange(RULES.num_actions))
    return after, go.legal_actions(RULES, state)


def _by_the_action_to(state, wanted):
    """The state after the first legal action that leads to these boards."""
    after, legal = jax.tree.map(np.asarray, _after_each(state))
    boards = zip((after.position.black, after.position.white), wanted, strict=True)
    same = [(np.stack(x) == y[:, None]).all(axis=0) for x, y in boards]
    actual = np.flatnonzero(legal & same[0] & same[1])
    assert actual.size > 0, "no move leads there"
    return jax.tree.map(lambda x: x[actual[0]], after)


def test_invalid_features(tmp_path):
    simple = go.Rules(size=4, ko="simple")
    with pytest.raises(ValueError, match=r"simple ko does not keep; use .*remember=True"):
        make_evaluator(simple, "network", features="zero")
    with pytest.raises(ValueError, match="playouts use no"):
        make_evaluator(RULES, "playout", features="zero")
    with pytest.raises(ValueError, match="not one of"):
        make_evaluator(RULES, "network", features="all")


@pytest.mark.parametrize(("features", "expected"), [("compact", False), ("zero", True)])
def test_history_is_read_from_the_weights_file(features, expected, tmp_path):
    """So the engine's games keep past boards for them under simple ko too."""
    shape = NetworkConfig(blocks=1, channels=2, features=features)
    params = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), network.shapes(shape))
    path = weights.save(tmp_path / "own.safetensors", params, shape, 5)
    rules = Engine(GtpConfig(evaluator="network", weights=path, ko="simple"))._rules()
    assert rules == go.Rules(5, "simple", max_moves=400, remember=expected)
    assert not needs_past_boards(tmp_path / "none.safetensors")
