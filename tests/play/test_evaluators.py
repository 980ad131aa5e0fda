"""Evaluators: one interface for the network and for playouts."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gozero
from gozero.games.connect_four import connect_four_game
from gozero.games.rollouts import rollout_evaluator
from gozero.go import rules as go
from gozero.go import symmetry
from gozero.nets import features, network, weights
from gozero.nets.network import NetworkConfig
from gozero.play.evaluators import (
    make_evaluator,
    over_symmetries,
    playout_evaluator,
    random_symmetry,
    with_priors,
)
from gozero.play.networks import network_evaluator
from gozero.playouts.engine import outcomes
from gozero.playouts.policies import uniform
from gozero.playouts.policies.mogo.playouts import mogo_playouts
from gozero.playouts.policies.softmax import strengths
from gozero.playouts.policies.softmax.softmax import softmax_playouts, softmax_policy
from gozero.search.config import Amaf, SearchConfig
from gozero.search.game import Ancestors, Evaluation, Evaluator
from gozero.search.prior_counts import with_heuristic
from gozero.search.rules.rave import Rave
from tests.go.stepping import new_games

RULES = go.Rules(size=3)
PASS = jax.jit(jax.vmap(lambda state: go.play(RULES, state, RULES.pass_action)))


def evaluate(evaluator, states, seed=0):
    def run(states):
        ancestors = Ancestors(None, jnp.zeros(states.komi.shape, jnp.int32))
        seen = jax.vmap(lambda s, p: evaluator.observe(s, p, ancestors))(states, states.position)
        return evaluator.evaluate(evaluator.params, jax.random.key(seed), seen)

    return jax.jit(run)(states)


@pytest.mark.parametrize("name", ["network", "playout"])
def test_shapes_and_ranges(name):
    evaluation = evaluate(make_evaluator(RULES, name), new_games(RULES, 6))
    assert evaluation.prior_logits.shape == (6, 10)
    assert evaluation.value.shape == (6,)
    assert bool((jnp.abs(evaluation.value) <= 1).all())


@pytest.mark.parametrize(("komi", "black_wins"), [(-50.0, True), (50.0, False)])
def test_playout_values_are_for_the_player_to_move(komi, black_wins):
    black = new_games(RULES, 4, komi)
    white = PASS(black)
    evaluator = make_evaluator(RULES, "playout")
    sign = 1.0 if black_wins else -1.0
    assert evaluate(evaluator, black).value.tolist() == [sign] * 4
    assert evaluate(evaluator, white).value.tolist() == [-sign] * 4


def test_truncated_playouts_get_the_given_value():
    black = new_games(RULES, 4)
    white = PASS(black)

    def quarter(playouts, komi):
        assert playouts.ends is not None
        return jnp.full(komi.shape, 0.25)

    evaluator = playout_evaluator(RULES, max_moves=1, value_at_cut=quarter)
    assert evaluator.about["max_moves"] == 1
    assert evaluate(evaluator, black).value.tolist() == [0.25] * 4
    assert evaluate(evaluator, white).value.tolist() == [-0.25] * 4


def test_priors_by_strengths_of_features():
    """After White's move in the centre: points beside it, diagonal to it; the pass is last."""
    states = jax.vmap(lambda s: go.play(RULES, go.play(RULES, s, 0), 4))(new_games(RULES, 1))
    plain = strengths.uniform()._replace(contiguity=np.array([6.0, 2.0], np.float32))
    own = Evaluation(jnp.zeros((1, 10)), jnp.full(1, 0.25))
    beside = playout_evaluator(RULES)._replace(evaluate=lambda *args: own)
    evaluator = with_priors(RULES, beside, softmax_policy(plain, 3))
    evaluation = evaluate(evaluator, states)
    result = np.exp(evaluation.prior_logits[0] - evaluation.prior_logits[0, 2])
    np.testing.assert_allclose(result[[1, 2, 3, 5, 6, 7, 8]], [3, 1, 3, 3, 1, 3, 1], rtol=1e-5)
    assert result[9] < 1e-4
    assert evaluation.value.tolist() == [0.25]


def test_mogo_playouts_answer_the_last_move():
    evaluator = playout_evaluator(RULES, "mogo", first_plays=True)
    assert evaluator.about["policy"] == "mogo"
    states = jax.vmap(lambda s: go.play(RULES, s, 4))(new_games(RULES, 20))
    last = jnp.full(20, 4)

    @jax.jit
    def both_ways(states, key):
        ancestors = Ancestors(None, jnp.int32(0))
        seen = jax.vmap(lambda s, p: evaluator.observe(s, p, ancestors))(states, states.position)
        played = mogo_playouts(RULES, states.position, key, last=last, first_plays=True)
        return seen, evaluator.evaluate(None, key, seen), played

    seen, evaluation, played = both_ways(states, jax.random.key(1))
    np.testing.assert_array_equal(seen[2], last)
    np.testing.assert_array_equal(evaluation.value, -jnp.sign(played.score))  # White is to move
    first = np.asarray(evaluation.played)[np.arange(20), 0, played.first_action]
    assert np.all(first | (played.first_action == RULES.pass_action))


def test_network_weights_round_trip(tmp_path):
    config = NetworkConfig(blocks=1, channels=4)
    params = jax.jit(network.init, static_argnums=0)(config, jax.random.key(3))
    path = weights.save(tmp_path / "w.npz", params, config, size=3)
    evaluator = make_evaluator(RULES, "network", path)
    states = new_games(RULES, 2)
    observe = features.FEATURES["compact"].observe
    planes = jax.jit(jax.vmap(lambda s: observe(RULES, s, s.position)))(states)
    expected = jax.jit(network.apply, static_argnums=0)(config, params, planes)
    actual = evaluate(evaluator, states)
    np.testing.assert_allclose(actual.prior_logits, expected.policy_logits, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(actual.value, expected.value, rtol=1e-5, atol=1e-6)
    assert evaluator.about["weights_sha256"]


def test_weights_load_unchanged_and_are_refused_for_another_board(tmp_path):
    shape = NetworkConfig(blocks=1, channels=4)
    params = jax.jit(network.init, static_argnums=0)(shape, jax.random.key(3))
    path = weights.save(tmp_path / "w.npz", params, shape, size=3)
    config, loaded, about = weights.load(path)
    assert (config, config.board_size, about["size"]) == (shape, 3, 3)
    assert "board_size" not in about  # the file format has not changed
    evaluator = network_evaluator(go.Rules(size=3), config, loaded)
    assert "board_size" not in evaluator.about  # nor has what a match compares with its folder
    with pytest.raises(ValueError, match="the weights are for 3x3, but the board is 5x5"):
        network_evaluator(go.Rules(size=5), config, loaded)
    network_evaluator(go.Rules(size=5), dataclasses.replace(config, board_size=None), loaded)


def test_bad_requests(tmp_path):
    with pytest.raises(ValueError, match="not one of network, playout"):
        make_evaluator(RULES, "oracle")
    with pytest.raises(ValueError, match="policy: 'best' is not one of uniform, mogo"):
        playout_evaluator(RULES, "best")
    with pytest.raises(ValueError, match="playouts use no"):
        make_evaluator(RULES, "playout", tmp_path / "w.npz")


@pytest.mark.thorough
def test_any_policy_of_playouts_may_be_given():
    """Uniform playouts given as a policy, and playouts that always pass."""
    states, own = new_games(RULES, 50, 3.5), uniform.policy(RULES.layout)
    evaluator = playout_evaluator(RULES, own)
    assert evaluator.about == {"evaluator": "playout", "policy": "given"}
    found, expected = (evaluate(x, states).value for x in (evaluator, playout_evaluator(RULES)))
    assert found.tolist() == expected.tolist()
    passing = own._replace(init=lambda *args: _ended(own.init(*args)))
    assert evaluate(playout_evaluator(RULES, passing), states).value.tolist() == [-1.0] * 50


def _ended(state):
    """The state as after two passes: no area, so komi decides."""
    return state._replace(clock=state.clock._replace(passes=jnp.full_like(state.clock.passes, 2)))


@pytest.mark.thorough
def test_playouts_use_the_policy_in_the_params():
    contiguity = np.array([30, 30], np.float32)
    policy = softmax_policy(strengths.uniform()._replace(contiguity=contiguity), 3)
    evaluator = playout_evaluator(RULES, policy=policy)
    assert evaluator.params is policy
    states, key = new_games(RULES, 200, 3.5), jax.random.key(0)
    values = evaluate(evaluator, states)
    run = jax.jit(lambda x: softmax_playouts(RULES, states.position, key, x))
    played = run(policy)
    assert values.value.tolist() == outcomes(played, jnp.float32(3.5)).tolist()
    other = run(softmax_policy(strengths.uniform(), 3))
    assert other.moves.tolist() != played.moves.tolist()


def by_place(params, key, inputs):
    """Every image of a position has a different value; the prior follows the first plane."""
    del params, key
    planes = inputs.reshape(inputs.shape[0], -1)
    value = planes @ jnp.linspace(0.0, 1.0, planes.shape[1]) / planes.shape[1]
    columns = inputs[:, 0, :, 0]
    return Evaluation(columns * jnp.arange(1.0, columns.shape[1] + 1)[None], value)


def test_a_mean_over_symmetries_by_hand():
    """Connect Four's two: a column's probability is the mean over the board and its mirror."""
    game = connect_four_game(4, 4)
    planes = jnp.zeros((1, 4, 4, 3)).at[0, 0, :, 0].set(jnp.array([1.0, 2, 0, 4]))
    both = over_symmetries(game, Evaluator(by_place))
    result = both.evaluate(None, jax.random.key(0), planes)
    # As is: 1, 4, 0, 16. Mirrored, 4 0 2 1: 4, 0, 6, 4, which is 4, 6, 0, 4 in the board's order.
    of = [np.exp(logits) / np.exp(logits).sum() for logits in ([1.0, 4, 0, 16], [4.0, 6, 0, 4])]
    np.testing.assert_allclose(np.exp(result.prior_logits[0]), (of[0] + of[1]) / 2, rtol=1e-5)
    alone, other = by_place(None, None, planes), by_place(None, None, planes[:, :, ::-1])
    np.testing.assert_allclose(result.value, (alone.value + other.value) / 2)


@pytest.mark.parametrize("k", range(8))
def test_a_mean_over_symmetries_is_equivariant(k):
    planes = jax.random.uniform(jax.random.key(1), (2, 3, 3, 9))

    def by_point(params, key, inputs):
        del params, key
        logits = inputs[..., 0].reshape(2 * 8, 9) ** 2 * jnp.arange(9.0)[None]
        return Evaluation(jnp.pad(logits, ((0, 0), (0, 1))), inputs[:, 0, 1, 3])

    mean = over_symmetries(RULES, Evaluator(by_point))
    averaged = mean.evaluate(None, jax.random.key(0), planes)
    images = jax.vmap(symmetry.map_planes, in_axes=(0, None))(planes, jnp.int32(k))
    of_images = mean.evaluate(None, jax.random.key(0), images)
    np.testing.assert_allclose(of_images.value, averaged.value, rtol=1e-6)
    moved = jax.vmap(symmetry.map_actions, in_axes=(None, 0, None))(3, averaged.prior_logits, k)
    np.testing.assert_allclose(of_images.prior_logits, moved, rtol=1e-5)
    edges = planes[:, [0, 1, 1, 2], [1, 0, 2, 1], 3]  # plane 3 is read at each of these, twice
    np.testing.assert_allclose(averaged.value, edges.mean(1), rtol=1e-6)


def test_a_score_of_two_symmetries_by_hand():
    """Means of 1 and 5, both with deviation 3: mean 3, deviation sqrt(9 + 4)."""
    game = connect_four_game(4, 4)
    planes = jnp.zeros((1, 4, 4, 3)).at[0, 0, 0, 0].set(4.0)

    def scored(params, key, planes):
        result = by_place(params, key, planes)
        mean = 1.0 + planes[:, 0, 0, 0]
        return result._replace(score=jnp.stack([mean, jnp.full_like(mean, 3.0)], axis=-1))

    result = over_symmetries(game, Evaluator(scored)).evaluate(None, jax.random.key(0), planes)
    np.testing.assert_allclose(result.score, [[3.0, 13**0.5]], rtol=1e-6)
    drawn = random_symmetry(game, Evaluator(scored)).evaluate(None, jax.random.key(0), planes)
    assert drawn.score.tolist() in ([[1.0, 3.0]], [[5.0, 3.0]])


def test_a_game_without_symmetries_has_no_mean_over_them():
    game = connect_four_game()._replace(symmetries=None)
    for seen in (over_symmetries, random_symmetry):
        with pytest.raises(ValueError, match="has no symmetries"):
            seen(game, Evaluator(by_place))


def test_random_symmetries_are_uniform_and_inverted():
    """Each of 64 copies of a position gets the value and the policy of one of its eight images."""
    planes = jax.random.uniform(jax.random.key(1), (1, 3, 3, 9))

    def by_point(params, key, inputs):
        del params, key
        logits = inputs[..., 0].reshape(-1, 9) ** 2 * jnp.arange(9.0)[None]
        return Evaluation(
            jnp.pad(logits, ((0, 0), (0, 1))), inputs[:, 0, 0, 3] + inputs[:, 0, 1, 4]
        )

    images = jax.vmap(symmetry.map_planes, in_axes=(None, 0))(planes[0], jnp.arange(8))
    of_image = by_point(None, None, images)
    inverse = symmetry.inverse(jnp.arange(8))
    move_back = jax.vmap(symmetry.map_actions, in_axes=(None, 0, 0))
    expected = np.asarray(move_back(3, of_image.prior_logits, inverse))
    drawn = random_symmetry(RULES, Evaluator(by_point))
    actual = drawn.evaluate(None, jax.random.key(3), jnp.repeat(planes, 64, axis=0))
    which = np.argmin(np.abs(actual.value[:, None] - of_image.value[None]), axis=1)
    np.testing.assert_allclose(actual.value, of_image.value[which], rtol=1e-6)
    np.testing.assert_allclose(actual.prior_logits, expected[which], rtol=1e-6)
    assert np.bincount(which, minlength=8).min() > 0


def test_evaluations_that_symmetries_would_lose_are_refused():
    evaluator = network_evaluator(RULES, NetworkConfig(blocks=1, channels=4))
    value = lambda params, key, inputs: jnp.zeros((1, 10))
    with_values = evaluator._replace(
        evaluate=with_heuristic(evaluator.evaluate, value, amaf_visits=np.int64(5))
    )
    game = gozero.go_game(RULES)
    states = jax.vmap(lambda komi: gozero.init(RULES, komi))(jnp.zeros(1))
    config = SearchConfig(num_simulations=1, amaf=Amaf(), select=Rave())
    run = lambda one: gozero.search(game, one, jax.random.key(0), states, config)
    jax.eval_shape(lambda: run(with_values))
    for average in (over_symmetries, random_symmetry):
        with pytest.raises(ValueError, match="have `heuristic`, which symmetries would lose"):
            jax.eval_shape(functools.partial(run, average(RULES, with_values)))
        with pytest.raises(ValueError, match="inputs: a tuple is neither planes nor has `planes`"):
            jax.eval_shape(functools.partial(run, average(RULES, playout_evaluator(RULES))))


def test_parameters_of_another_architecture_are_refused():
    wide = NetworkConfig(blocks=1, channels=8)
    params = network.init(wide, jax.random.key(0))
    network_evaluator(RULES, wide, params)
    with pytest.raises(ValueError, match=r"params: block_0/.* has shape \(.*8.*; .* it has \(.*4"):
        network_evaluator(RULES, NetworkConfig(blocks=1, channels=4), params)
    with pytest.raises(ValueError, match=r"params: block_1/.* has shape None; .* it has \("):
        network_evaluator(RULES, NetworkConfig(blocks=2, channels=8), params)
    with pytest.raises(ValueError, match=r"params: a list, not the dict of network\.init"):
        network_evaluator(RULES, wide, [])


def test_kinds_of_playouts_that_do_not_exist_are_refused():
    with pytest.raises(ValueError, match="first_plays: 'both' is neither a bool nor one of either"):
        playout_evaluator(RULES, first_plays="both")
    with pytest.raises(ValueError, match="first_plays: 'both' is neither"):
        rollout_evaluator(gozero.connect_four_game(), first_plays="both")
    with pytest.raises(ValueError, match="max_moves: 0; expected at least 1, or None"):
        playout_evaluator(RULES, max_moves=0)
    states = jax.vmap(lambda komi: gozero.init(RULES, komi))(jnp.zeros(2))
    with pytest.raises(ValueError, match=r"positions: a GameState, .* pass state\.position"):
        gozero.uniform_playouts(RULES, states, jax.random.key(0))
