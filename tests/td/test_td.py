"""TD(0) on local shapes: one update, a game step by step, and the policy."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from gozero.go import rules as go
from gozero.td import local_shape, shapes, td
from gozero.td.shapes import Shapes
from gozero.td.td import TdConfig
from tests.go.boards import packed, random_boards
from tests.playouts.positions import allowed
from tests.reference import local_shape as plain
from tests.reference.go import BLACK, WHITE, ReferenceGame
from tests.td.test_local_shape import SHAPES, ByName, weights_of

RULES = go.Rules(size=5, ko="simple")
COUNT = 16


def active_of(chosen: Shapes, some: list[list[int]]) -> jax.Array:
    black, white = packed(chosen.size, some)
    return jax.jit(jax.vmap(functools.partial(local_shape.entries, chosen)))(black, white)


def test_one_update_equals_the_reference():
    some = random_boards(5, COUNT, seed=8)
    errors = np.random.default_rng(0).normal(size=COUNT).astype(np.float32) / 4
    errors[3] = 0.0
    weight = jnp.asarray(shapes.sharing(SHAPES).weight_index)
    active = active_of(SHAPES, some)
    weights = jax.jit(td.update)(weight, jnp.asarray(weights_of(SHAPES)), active, errors, 0.5)
    assert weights[0] == 0
    by_name = ByName()
    actives = [by_name.learn(SHAPES, board) for board in some]
    after = plain.update(by_name, actives, errors.tolist(), 0.5)
    table = local_shape.table(SHAPES, weights)
    actual = jax.vmap(local_shape.logit, (None, 0))(table, active)
    expected = [plain.logit(after, names) for names in actives]
    before = [plain.logit(by_name, names) for names in actives]
    assert np.abs(np.subtract(expected, before)).max() > 0.1
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)


def test_one_position_follows_the_papers_rule_except_for_shared_weights():
    """1x1 on 3x3: with n active features each weight moves by alpha delta / n."""
    chosen = Shapes(3, largest=1, anywhere=False)
    weight = jnp.asarray(shapes.sharing(chosen).weight_index)
    active = active_of(chosen, [[BLACK, 0, 0, 0, 0, 0, 0, 0, WHITE]])
    weights = td.update(weight, jnp.zeros(4), active, jnp.array([0.5]), jnp.float32(0.1))
    assert weights.tolist() == [0.0] * 4  # the two corners ask for opposite changes
    active = active_of(chosen, [[BLACK, WHITE, 0, 0, 0, 0, 0, 0, 0]])
    weights = td.update(weight, jnp.zeros(4), active, jnp.array([0.5]), jnp.float32(0.1))
    corner, edge = np.abs(weight[0][active[0, :2]])
    assert weights[corner] == pytest.approx(0.1 * 0.5 / 2)
    assert weights[edge] == pytest.approx(-0.1 * 0.5 / 2)
    active = active_of(chosen, [[BLACK, 0, BLACK, 0, 0, 0, BLACK, 0, BLACK]])
    weights = td.update(weight, jnp.zeros(4), active, jnp.array([0.5]), jnp.float32(0.1))
    # sqrt(4) times the change that each of the four corners asks for.
    assert weights[corner] == pytest.approx(2 * 0.1 * 0.5 / 4)


@pytest.mark.parametrize("plies", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_games_learn_as_the_reference(plies):
    """Four games in lockstep, continuing with new games, against plain ones."""
    size, lanes_count, rate = 3, 4, 0.8
    config = TdConfig(go.Rules(size, "simple"), Shapes(size, 2), 0.5, plies, max_moves=12)
    task, lanes, weights = begin(config, lanes_count)
    run = jax.jit(functools.partial(step_and_actions, config))
    games = [ReferenceGame(size, "simple") for _ in range(lanes_count)]
    seen = [[game.board] for game in games]
    by_name, num_ended = {}, 0
    for i in range(40):
        actions, (lanes, weights, stats) = run(task, lanes, weights, rate, jax.random.key(i))
        actives, errors, ended = [], [], 0
        for lane, action in enumerate(actions.tolist()):
            game = games[lane]
            assert action in allowed(game)
            game.play(action)
            seen[lane].append(game.board)
            over = game.passes == 2 or game.moves == 12
            now = plain.value(by_name, plain.features(game.board, size, 2))
            if over:
                now, ended = (1 + np.sign(game.area())) / 2, ended + 1
            if len(seen[lane]) > plies:
                actives.append(plain.features(seen[lane][-1 - plies], size, 2))
                errors.append(now - plain.value(by_name, actives[-1]))
            if over:
                games[lane] = ReferenceGame(size, "simple")
                seen[lane] = [games[lane].board]
        by_name = plain.update(by_name, actives, errors, rate)
        actual = (stats.ended, stats.updates, stats.squared_error)
        expected = (ended, len(errors), np.sum(np.square(errors)))
        np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=1e-5)
        num_ended += ended
    assert num_ended > 8
    table = local_shape.table(config.shapes, weights)
    some = random_boards(size, COUNT, seed=2)
    actual = jax.vmap(local_shape.logit, (None, 0))(table, active_of(config.shapes, some))
    expected = [plain.logit(by_name, plain.features(board, size, 2)) for board in some]
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=1e-4)


def begin(config: TdConfig, count: int):
    """Initial (task, lanes, weights), komi 0."""
    share = shapes.sharing(config.shapes)
    root = go.empty_position(config.rules)
    task = td.Task(jnp.asarray(share.weight_index), jnp.float32(0.0), root)
    return task, td.start(config, root, count), jnp.zeros(share.num_weights + 1)


def step_and_actions(config, task, lanes, weights, rate, key):
    """(the actions that a step takes, the step's result)."""
    table = shapes.expand(task.weight_index, weights)
    logits = local_shape.action_logits(config.rules, config.shapes, table, lanes.positions)
    legal = td.candidates(config.rules, lanes.positions)
    actions = td.choose(legal, lanes.positions, logits, config.epsilon, key)
    return actions, td.step(config, task, lanes, weights, rate, key)


# --- the policy -----------------------------------------------------------------------


def test_the_best_move_or_a_random_one():
    positions = jax.tree.map(lambda x: jnp.broadcast_to(x, (4000,)), go.empty_position(RULES))
    white = jnp.arange(4000) % 2
    positions = positions.replace(to_play=white.astype(jnp.int8))
    logits = jnp.zeros((4000, 26)).at[:, 3].set(1.0).at[:, 7].set(-1.0).at[:, 9].set(2.0)
    allowed = jnp.zeros((4000, 26), bool).at[:, 1:9].set(True)
    choose = jax.jit(td.choose, static_argnums=3)
    best = choose(allowed, positions, logits, 0.0, jax.random.key(0))
    np.testing.assert_array_equal(best, np.where(white, 7, 3))
    some = choose(allowed, positions, logits, 0.25, jax.random.key(0))
    # The random move is uniform over eight: the best is played in 1 - 0.25 * 7/8 = 0.78 of cases.
    assert np.mean(some == best) == pytest.approx(1 - 0.25 * 7 / 8, abs=0.03)
    counts = np.bincount(some, minlength=26)
    assert set(np.flatnonzero(counts)) == set(range(1, 9))
    level = choose(allowed, positions, jnp.zeros_like(logits), 0.0, jax.random.key(1))
    counts = np.bincount(level, minlength=26)[1:9]
    assert stats.chisquare(counts).pvalue > 1e-3
    broken = choose(allowed, positions, jnp.full_like(logits, jnp.nan), 0.0, jax.random.key(2))
    assert set(np.unique(broken)) == set(range(1, 9))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"epsilon": 1.5}, "epsilon: 1.5 is not from 0 to 1"),
        ({"plies": 0}, "plies: 0 is not a whole number of at least 1"),
        ({"max_moves": 0}, "max_moves: 0"),
        ({"rules": go.Rules(size=9)}, "shapes: for size 5"),
    ],
)
def test_bad_settings_are_refused(bad, message):
    with pytest.raises(ValueError, match=message):
        TdConfig(**{"rules": RULES, "shapes": SHAPES, **bad})
