"""The learning step: it overfits one batch, and leaves the weights alone when it must."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.compile import mode
from gozero.go.rules import Rules
from gozero.nets import network
from gozero.play.rows import policy_shares
from gozero.search.game import Symmetries
from tests.train import synthetic
from train import buffer as buffers
from train import learner, losses, replay
from train.learner import LearnerConfig
from train.optimizer import OptimizerConfig

RULES = Rules(size=5, ko="simple")
SHAPE = network.NetworkConfig(blocks=1, channels=8)


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    folder = synthetic.write_folder(tmp_path_factory.mktemp("data") / "run")
    return replay.load(folder, 0.0, 0)[1]


@functools.cache
def _trainer(learning_rate, num_steps=1, weight_decay=1e-4):
    how = OptimizerConfig(learning_rate, weight_decay, warmup_steps=5)
    config = LearnerConfig(SHAPE, how)
    take = functools.partial(learner.take_steps, RULES, config)
    return config, jax.jit(
        lambda ring, state, buffer: take(ring, 32, num_steps, state, buffer),
        static_argnums=0,
        donate_argnums=1,
    )


def of(state, rows):
    """The arguments of a step: (the buffer's settings, the state, the rows as a buffer)."""
    ring, buffer = buffers.of_rows(rows)
    return ring, state, buffer


def train(rows, calls, learning_rate=1e-2, num_steps=1, seed=0):
    config, step = _trainer(learning_rate, num_steps)
    params = network.init(SHAPE, jax.random.key(seed))
    state = learner.start(config, params, jax.random.key(seed + 1))
    for _ in range(calls):
        state, metrics = step(*of(state, rows))
    return state, metrics


@pytest.mark.parametrize("count", [16, 64])  # by convolutions, and by products in slices
def test_a_cpu_learns_a_bf16_network_in_f32(rows, count):
    shape = network.NetworkConfig(blocks=1, channels=32, dtype="bfloat16")
    config = LearnerConfig(shape, OptimizerConfig())
    few = jax.tree.map(lambda x: jnp.resize(x, (count, *x.shape[1:])), rows)
    batch = jax.eval_shape(
        lambda: learner.batch_of(RULES, config, few, jnp.zeros(count, jnp.int32))
    )
    for of_rows in (learner._gradient, learner.batch_losses):
        jaxpr = jax.make_jaxpr(functools.partial(of_rows, config))(network.shapes(shape), *batch)
        assert "bf16" not in str(jaxpr)


@pytest.mark.parametrize(("count", "turns"), [(6, 6), (3, 3), (1, 8), (2, 8), (8, 8)])
def test_each_symmetry_is_drawn_as_often(count, turns, rows, monkeypatch):
    """The replay takes a drawn number modulo their count."""

    class DrawnError(Exception):
        pass

    def draw(ring, buffer, key, batch_size, num_symmetries):
        raise DrawnError(num_symmetries)

    monkeypatch.setattr(learner, "symmetries_of", lambda game: Symmetries(count, None, None))
    monkeypatch.setattr(buffers, "draw", draw)
    params, key = network.init(SHAPE, jax.random.key(0)), jax.random.key(1)
    state = learner.start(LearnerConfig(SHAPE), params, key)
    with pytest.raises(DrawnError, match=f"^{turns}$"):
        learner.take_steps(RULES, LearnerConfig(SHAPE), *of(state, rows)[:1], 4, 1, state, None)


def evaluate(params, rows):
    return learner.make_evaluate(RULES, LearnerConfig(SHAPE))(params, rows)


def test_the_mean_is_over_the_rows(rows):
    """mean_losses against a plain loop over rows and the losses' own formulas."""
    params, few = network.init(SHAPE, jax.random.key(3)), rows.take(jnp.arange(6))
    turns = jnp.arange(6)
    parts = jax.jit(functools.partial(learner.mean_losses, RULES, LearnerConfig(SHAPE)))(
        params, few, turns
    )

    @jax.jit
    def one_row(row, k):
        inputs, one = replay.example(RULES, "compact", row, k)
        output = network.apply(SHAPE, params, inputs[None])
        logits = output.policy_logits[0]
        policy = losses.policy_cross_entropy(logits, one.legal, one.policy_target)
        return policy, (one.outcome - output.value[0]) ** 2

    each = [one_row(few.take(i), turns[i]) for i in range(6)]
    np.testing.assert_allclose(parts[:2], np.mean(each, axis=0), rtol=1e-4)


@pytest.mark.slow
def test_one_batch_overfits(rows):
    few = rows.take(jnp.arange(5, 384, 24))  # one row from each of 16 games
    before = evaluate(network.init(SHAPE, jax.random.key(0)), few)
    state, _ = train(few, calls=400)
    after = evaluate(state.params, few)
    floor = float(jax.vmap(losses.entropy)(policy_shares(jnp, few.policy_target)).mean())
    assert after.policy - floor < 0.1 * (before.policy - floor)
    assert after.value < 0.1 * before.value


def test_the_value_is_for_the_player_to_move(rows):
    """When Black always wins, the network must look at whose turn it is."""
    black_wins = jnp.where(rows.position.to_play == 0, 1.0, -1.0)
    state, _ = train(rows.replace(outcome=black_wins), calls=75)
    few = rows.take(jnp.arange(32))

    @jax.jit
    def value_of(params, rows):
        example = lambda row: replay.example(RULES, "compact", row, jnp.int32(0))[0]
        return network.apply(SHAPE, params, jax.vmap(example)(rows)).value

    value = value_of(state.params, few)
    assert np.all(np.sign(value) == np.sign(black_wins[:32]))


def test_a_zero_learning_rate_leaves_the_weights(rows):
    state, metrics = train(rows, calls=3, learning_rate=0.0)
    start = network.init(SHAPE, jax.random.key(0))
    jax.tree.map(np.testing.assert_array_equal, state.params, start)
    assert np.isfinite(jax.tree.leaves(metrics)).all()
    assert state.step == 3


@pytest.mark.slow
def test_steps_in_one_call_equal_separate_steps(rows):
    one, _ = train(rows, calls=4)
    four, metrics = train(rows, calls=1, num_steps=4)
    assert four.step == one.step == 4
    assert np.isfinite(jax.tree.leaves(metrics)).all()
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-4), one.params, four.params)


def test_a_nan_stops_learning_and_keeps_the_weights(rows):
    good, _ = train(rows, calls=2)
    _, step = _trainer(1e-2)
    kept = jax.tree.map(np.asarray, good.params)
    broken = rows.replace(outcome=jnp.full_like(rows.outcome, jnp.nan))
    state, _ = step(*of(good, broken))
    state, _ = step(*of(state, rows))
    assert not state.ok
    assert state.step == 2
    jax.tree.map(np.testing.assert_array_equal, state.params, kept)


def test_steps_of_a_call_divide_the_steps():
    with mode.target("cpu"):
        assert learner.steps_per_call(1000) == 1
    with mode.target("gpu"):
        assert learner.steps_per_call() == 16
        assert [learner.steps_per_call(n) for n in (1, 7, 1000, 90, 997)] == [1, 7, 10, 15, 1]
