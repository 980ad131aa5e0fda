"""Stages of one game in a kernel beside the same stages mapped over games, in interpret mode."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from gozero.compile import ahead, estimate, mode
from gozero.compile.kernels import one_game
from gozero.go import rules as go
from gozero.go import scoring, superko
from gozero.nets import features
from tests.compile.forms import form_of
from tests.playouts.positions import positions_in_atari, random_games


def collatz(number, factor, small, flag):
    """A loop of its own length for each game, small numbers, reductions, and what moves words."""
    state = lax.while_loop(
        lambda state: state[0] != 1,
        lambda state: (
            jnp.where(state[0] % 2 == 1, 3 * state[0] + 1, state[0] // 2),
            state[1] + jnp.int16(1),
        ),
        (number, small),
    )
    rows = jnp.stack([factor, factor * np.float32(2)])
    most = jnp.max(rows, axis=(0, 1)) + jnp.sum(rows, axis=1)[0]
    words = jnp.concatenate([factor[1:], factor[:1]])
    return state[1], jnp.where(flag, most, -most), words, jnp.any(factor > 3) & flag


COUNTS = [pytest.param(3, marks=pytest.mark.slow, id="a few"), pytest.param(1100, id="blocks")]


@pytest.mark.parametrize("count", COUNTS)
def test_a_stage_in_a_kernel_is_the_same(count, monkeypatch):
    rng = np.random.default_rng(count)
    number = jnp.asarray(rng.integers(1, 200, count), jnp.int32)
    factor = jnp.asarray(rng.integers(-9, 9, (4, count)), jnp.float32)
    small, flag = jnp.asarray(rng.integers(0, 9, count), jnp.int16), jnp.arange(count) % 3 == 0
    args = number, factor, small, flag
    expected = jax.jit(jax.vmap(collatz, -1, -1))(*args)
    with form_of("tpu", monkeypatch):
        got = jax.jit(functools.partial(one_game.run, collatz))(*args)
    jax.tree.map(np.testing.assert_array_equal, got, expected)
    assert [x.dtype for x in got] == [x.dtype for x in expected]


def test_unsupported_operations_are_named():
    table = jnp.arange(8, dtype=jnp.uint32)
    with pytest.raises(NotImplementedError, match="dynamic_slice is not supported in a kernel"):
        one_game.run(lambda i: table[i], jnp.arange(4))


BOARDS = [
    (5, False),
    pytest.param(4, True, marks=pytest.mark.slow),
    pytest.param(6, False, marks=pytest.mark.slow),  # of two words
    pytest.param(9, True, marks=pytest.mark.slow),
]


@pytest.mark.skipif(not mode.can_separate_traces(), reason="this JAX has no such kernels")
@pytest.mark.parametrize(("size", "suicide"), BOARDS)
def test_stages_of_go_in_a_kernel_are_the_same(size, suicide, monkeypatch):
    """At positions of random games: legal points, every move, the area after it, what superko
    looks for, and what a network sees."""
    rules = go.Rules(size, suicide=suicide)
    positions = positions_in_atari(random_games(size, 40, seed=1))
    positions = jax.tree.map(lambda x: np.repeat(x, rules.num_actions, axis=0), positions)
    actions = np.tile(np.arange(rules.num_actions), 40)
    run = jax.vmap(functools.partial(_stages, rules))
    expected = jax.jit(run)(positions, actions)
    with form_of("tpu", monkeypatch):
        program = jax.jit(run).trace(positions, actions)
        assert str(program.jaxpr).count("pallas_call") == 5
        got = program.lower().compile()(positions, actions)
    jax.tree.map(np.testing.assert_array_equal, got, expected)
    assert (expected[1].ko >= 0).any()


def _stages(rules, position, action):
    points = go.legal_points(rules, position)
    action = jnp.where(go.action_mask(rules, points)[action], action, rules.pass_action)
    after = go.play_position(rules, position, action)
    stones, suicides = (after.black, after.white), after.atari if rules.suicide else None
    now = superko.present_board(*stones, after.to_play, after.atari, suicides)
    sought = superko._query(rules.layout, now, situational=True, closely=True)
    planes = features._stacked_compact_boards(rules.layout)(after)
    return points, after, scoring.area_difference(rules, after), sought, planes


@pytest.mark.slow
def test_a_kernel_reduces_the_compile_time_of_a_move_on_a_tpu():
    """If this fails, such a kernel is no longer needed."""
    rules, target = go.Rules(19), ahead.target("v5e")
    empty = lambda _: (go.empty_position(rules), jnp.int32(0))
    args = jax.eval_shape(lambda: jax.vmap(empty)(jnp.arange(256)))

    def seconds(stage):
        compiled = ahead.compile(target, jax.vmap(functools.partial(stage, rules)), *args)
        return estimate.read(compiled.text, target.chip).seconds

    try:
        plainly, in_kernel = seconds(go._played), seconds(go.play_position)
    except ahead.MissingCompiler as missing:
        pytest.skip(str(missing))
    print(f"\na move: {1e6 * plainly:.0f} us, and {1e6 * in_kernel:.0f} us around its kernel")
    assert in_kernel + 10e-6 < 0.7 * plainly
