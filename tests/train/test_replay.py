"""Rows of a self-play folder: the network's inputs, their symmetries, and bad rows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.go import symmetry
from gozero.go.rules import Rules, init, legal_actions, play
from gozero.nets import features
from tests.train import synthetic
from train import replay

RULES = Rules(size=5, ko="simple")


@jax.jit
def _examples(taken, k):
    return jax.vmap(lambda row: replay.example(RULES, "compact", row, k))(taken)


def examples(rows, indices, k):
    """(inputs, targets) of the rows at `indices`, under symmetry `k`."""
    return _examples(rows.take(jnp.asarray(indices)), k)


def test_a_row_is_the_position_that_was_played(folder):
    """Replaying the first game's actions gives the same planes and legal actions."""
    _, actions = synthetic.random_games(RULES, 1, 16)
    rules, rows, _, held = replay.load(folder, 0.0, 0)
    assert rules == RULES
    assert held is None
    inputs, got = examples(rows, range(16), 0)

    @jax.jit
    def step(state, action):
        planes = features.FEATURES["compact"].observe(RULES, state, state.position)
        return play(RULES, state, action), (legal_actions(RULES, state), planes)

    _, (legal, planes) = jax.lax.scan(step, init(RULES, synthetic.KOMI), jnp.asarray(actions))
    np.testing.assert_array_equal(got.legal, legal)
    np.testing.assert_array_equal(inputs, planes)


def test_rows_use_the_rules_they_were_played_by(tmp_path):
    """Suicide is a network input, and with the ko rule decides what superko bans."""
    rules = Rules(size=4, ko="situational", suicide=True, max_moves=40)
    rows, _ = synthetic.random_games(rules, 2, 4)
    synthetic.write_shard(tmp_path, rules, rows)
    assert replay.load(tmp_path, 0.0, 0)[0] == rules


def test_the_outcome_is_for_the_player_to_move(folder):
    """In one game, Black's outcomes are the opposite of White's; their sign is the score's."""
    rows = replay.load(folder, 0.0, 0).rows
    game, to_play = np.asarray(rows.game), np.asarray(rows.position.to_play)
    one_game = game == game[np.flatnonzero(rows.outcome)[0]]
    for_black = np.where(to_play == 0, 1, -1) * rows.outcome
    assert len(set(for_black[one_game].tolist())) == 1
    np.testing.assert_array_equal(np.sign(rows.score), rows.outcome)
    white_to_play = examples(rows, range(32), 0)[0][..., 6].mean(axis=(1, 2))
    np.testing.assert_array_equal(white_to_play, to_play[:32])


@pytest.mark.parametrize("k", range(symmetry.NUM_SYMMETRIES))
def test_a_symmetry_moves_planes_and_policy_alike(folder, k):
    rows = replay.load(folder, 0.0, 0).rows
    (inputs, before), (moved, after) = (examples(rows, range(40), turn) for turn in (0, k))
    np.testing.assert_array_equal(after.outcome, before.outcome)
    np.testing.assert_array_equal(after.policy_target[:, -1], before.policy_target[:, -1])
    where = np.asarray([int(symmetry.map_action(5, a, k)) for a in range(RULES.num_actions)])
    np.testing.assert_array_equal(after.legal[:, where], before.legal)
    np.testing.assert_array_equal(after.policy_target[:, where], before.policy_target)
    flat = moved.reshape(40, 25, -1), inputs.reshape(40, 25, -1)
    np.testing.assert_array_equal(flat[0][:, where[:-1]], flat[1])


def test_whole_games_are_held_out(folder):
    _, everything, _, none = replay.load(folder, 0.0, 0)
    assert none is None
    _, rows, frequency, held = replay.load(folder, 0.25, 3)
    assert held.num_rows == 6 * 16
    assert rows.num_rows + held.num_rows == everything.num_rows == 24 * 16
    assert frequency.tolist() == [64] * rows.num_rows


@pytest.mark.thorough
def test_the_frequencies_are_those_of_the_rows(tmp_path):
    for number in (0, 1):
        rows, _ = synthetic.random_games(RULES, 4, 16, seed=number)
        rows = rows.replace(game=rows.game + 4 * number)
        synthetic.write_shard(tmp_path, RULES, rows, number, (rows.game + 1) / 4)
    _, rows, frequency, held = replay.load(tmp_path, 0.5, 3)
    assert held.num_rows == rows.num_rows
    np.testing.assert_array_equal(frequency, 16 * (rows.game + 1))


@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        ("policy_target", 0, "policy_target"),
        ("policy_target", 254, "policy_target"),
        ("outcome", 3.0, "outcome"),
        ("outcome", np.nan, "outcome"),
        ("komi", np.inf, "komi"),
        ("root_value", np.nan, "root_value"),
    ],
)
def test_rows_that_cannot_be_trained_on(tmp_path, field, value, complaint):
    rows, _ = synthetic.random_games(RULES, 2, 16)
    rows = rows.replace(**{field: np.full_like(getattr(rows, field), value)})
    synthetic.write_shard(tmp_path, RULES, rows)
    with pytest.raises(ValueError, match=complaint):
        replay.load(tmp_path, 0.0, 0)


def test_a_truncated_game_has_no_outcome_target(tmp_path):
    rows, _ = synthetic.random_games(RULES, 2, 16)
    ended = (rows.game == 0).astype(np.float16)
    synthetic.write_shard(tmp_path, RULES, rows.replace(value_weight=ended, score_weight=ended))
    loaded = replay.load(tmp_path, 0.0, 0).rows
    _, got = examples(loaded, range(32), 0)
    np.testing.assert_array_equal(got.value_weight, ended)
    np.testing.assert_array_equal(got.score_weight, got.value_weight)
    np.testing.assert_array_equal(got.score, rows.score)
    assert got.policy_weight.all()
    assert not got.ownership.any()
    assert not got.ownership_weight.any()


def test_a_removed_row_has_no_target(folder):
    """Unlike one of a truncated game, whose root value is learnt with the weight of its share."""
    rows = replay.load(folder, 0.0, 0).rows
    truncated = jax.tree.map(lambda x: x[0], rows)
    truncated = truncated.replace(value_weight=jnp.float32(0), root_value=jnp.float32(0.5))
    gone = jax.tree.map(jnp.zeros_like, truncated)
    gone = gone.replace(game=jnp.int32(replay.GONE))
    of_row = jax.jit(lambda row: replay.example(RULES, "compact", row, 0, 0.75)[1])
    targets = of_row(truncated)
    assert (float(targets.outcome), float(targets.value_weight)) == (0.5, 0.25)
    targets = of_row(gone)
    names = ("policy_weight", "value_weight", "score_weight", "ownership_weight")
    assert [float(getattr(targets, name)) for name in names] == [0.0] * 4


def test_no_rows(tmp_path):
    rows, _ = synthetic.random_games(RULES, 2, 16)
    synthetic.write_shard(tmp_path, RULES, jax.tree.map(lambda x: x[:0], rows))
    with pytest.raises(ValueError, match="contain no rows"):
        replay.load(tmp_path, 0.0, 0)
