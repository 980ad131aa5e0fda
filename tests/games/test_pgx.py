"""Games of pgx meet the contract and are searched like ours."""

from __future__ import annotations

import functools
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.games.connect_four import connect_four_game
from gozero.games.pgx import LIMITS, make, pgx_game
from gozero.games.registry import make_game
from gozero.games.rollouts import rollout_evaluator
from gozero.hashing import mix
from gozero.search.config import SearchConfig
from gozero.search.game import Evaluation, Evaluator
from gozero.search.search import search
from tests.games import contract

pgx = pytest.importorskip("pgx")
pytestmark = pytest.mark.usefixtures("ranks")


@pytest.fixture
def ranks():
    """Allow rank promotion, which pgx relies on."""
    with jax.numpy_rank_promotion("allow"):
        yield


@functools.cache
def game(name, max_moves=None, trial_seed=None):
    return pgx_game(make(name), max_moves, trial_seed)


@pytest.mark.parametrize(
    ("name", "max_moves"),
    [
        ("tic_tac_toe", 9),
        ("connect_four", 42),
        pytest.param("othello", 130, marks=pytest.mark.thorough),
        pytest.param("go_9x9", 20, marks=pytest.mark.thorough),
    ],
)
def test_contract(name, max_moves):
    contract.check_contract(game(name, max_moves))


@pytest.mark.thorough
def test_the_move_limit_is_the_games_own():
    assert set(LIMITS) < set(pgx.available_envs())
    for name in ("tic_tac_toe", "connect_four"):
        free = game(name, 512)
        play = jax.jit(functools.partial(uniform_play, free))
        keys = jax.random.split(jax.random.key(0), 64)
        most = int(jnp.max(jax.vmap(play)(keys)))
        assert 0.9 * LIMITS[name] < most <= LIMITS[name]
        assert game(name).max_moves == LIMITS[name]
    assert game("chess").max_moves == pgx._src.games.chess.MAX_TERMINATION_STEPS


def uniform_play(free, key):
    """i32[]: the number of moves of a random game."""

    def one(carry):
        state, count = carry
        legal = jnp.log(free.legal(state))
        action = jax.random.categorical(jax.random.fold_in(key, count), legal)
        return free.play(state, action), count + 1

    start = free.init(key), jnp.int32(0)
    return jax.lax.while_loop(lambda carry: ~free.outcome(carry[0])[0], one, start)[1]


def test_the_last_mover_never_loses():
    contract.check_values_change_sides(game("tic_tac_toe", 9))


def test_a_game_is_cut_and_drawn():
    results = contract.check_contract(game("connect_four", 6))
    assert results.tolist() == [0.0] * contract.BATCH


def test_connect_four_equals_our_game():
    """Equal move by move; the planes of pgx have the same orientation."""
    ours, theirs = connect_four_game(), game("connect_four", 42)
    (play, look), (their_play, their_look) = contract.stepper(ours), contract.stepper(theirs)
    states, their_states = contract.new_states(ours), contract.new_states(theirs)
    rng = np.random.RandomState(0)
    for _ in range(43):
        seen, their = look(states), their_look(their_states)
        over = np.asarray(seen.over)
        np.testing.assert_array_equal(over, their.over)
        np.testing.assert_array_equal(seen.value, their.value)
        np.testing.assert_array_equal(seen.observation[..., :2], their.observation)
        np.testing.assert_array_equal(np.asarray(seen.legal)[~over], np.asarray(their.legal)[~over])
        actions = contract.random_actions(np.asarray(seen.legal), rng)
        states, their_states = play(states, actions), their_play(their_states, actions)
    assert over.all()


def by_planes(params, key, planes):
    """An evaluation that depends only on the first two planes."""
    del params, key
    cells = planes[..., :2].reshape(planes.shape[0], -1).astype(jnp.uint32)
    places = mix(jnp.arange(cells.shape[1], dtype=jnp.uint32) + np.uint32(1))
    code = mix(jnp.sum(cells * places[None], axis=1, dtype=jnp.uint32))
    logits = mix(code[:, None] + jnp.arange(7, dtype=jnp.uint32)[None] * np.uint32(7919))
    as_float = lambda x: (x >> np.uint32(8)).astype(jnp.float32) / 2**24
    return Evaluation(3 * as_float(logits), 2 * as_float(code) - 1)


@pytest.mark.thorough
def test_a_search_of_connect_four_equals_that_of_our_game():
    config, found = SearchConfig(64), []
    for each in (connect_four_game(), game("connect_four", 42)):
        play, _ = contract.stepper(each)
        states = contract.new_states(each)
        for i in range(6):
            states = play(states, np.arange(contract.BATCH, dtype=np.int32) * (i + 1) % 7)
        run = lambda key, states, each=each: search(each, Evaluator(by_planes), key, states, config)
        found.append(jax.jit(run)(jax.random.key(0), states))
    ours, theirs = found
    np.testing.assert_array_equal(ours.visits, theirs.visits)
    np.testing.assert_array_equal(ours.q, theirs.q)
    assert ours.ok.all()
    assert theirs.ok.all()
    assert np.asarray(ours.visits).max(axis=1).std() > 0


@pytest.mark.thorough
def test_random_games_of_pgx_find_a_win():
    each = make_game("pgx:tic_tac_toe")
    play, _ = contract.stepper(each)
    states = contract.new_states(each, 2)
    for square in (0, 3, 1, 4):  # two in a row each: the player to move wins at 2
        states = play(states, np.full(2, square, np.int32))
    run = lambda key, x: search(each, rollout_evaluator(each), key, x, SearchConfig(200))
    result = jax.jit(run)(jax.random.key(0), states)
    assert result.action.tolist() == [2, 2]
    assert (np.asarray(result.value) > 0.5).all()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("2048", "^env: 2048 has 1 players"),
        ("backgammon", "^env: backgammon has chance or hidden information"),
        ("kuhn_poker", "^env: kuhn_poker has chance or hidden information"),
    ],
)
def test_other_games_are_refused(name, message):
    with pytest.raises(ValueError, match=message):
        pgx_game(make(name))


def test_names_of_pgx():
    with pytest.raises(ValueError, match=r"^game: pgx has no 'draughts'; it has 2048, "):
        make_game("pgx:draughts")


def environment(rewards=(0.0, 0.0), over=False, alternates=True):
    """An environment with one action, which leads to this result."""

    def state(player):
        return SimpleNamespace(
            current_player=player,
            legal_action_mask=np.array([True]),
            rewards=np.array(rewards),
            terminated=np.bool_(over),
            truncated=np.bool_(False),
        )

    step = lambda before, action: state((before.current_player + alternates) % 2)
    return SimpleNamespace(id="trial", num_players=2, init=lambda key: state(0), step=step)


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (environment(alternates=False), "a player moved twice"),
        (environment((1.0, 1.0), over=True), r"they must be in \[-1, 1\] and add up to 0"),
        (environment((2.0, -2.0), over=True), r"they must be in \[-1, 1\] and add up to 0"),
        (environment((1.0, -1.0)), "has rewards before the end"),
    ],
)
def test_assumptions_about_an_environment_are_checked(env, message, monkeypatch):
    monkeypatch.setattr("gozero.games.pgx.jax.jit", lambda function: function)
    with pytest.raises(ValueError, match=message):
        pgx_game(env)
