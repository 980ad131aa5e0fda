"""What the search requires of any `Game`, checked on random games."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gozero.search.game import Game, symmetries_of

BATCH = 16


class View(NamedTuple):
    legal: Any  # bool[A]
    over: Any  # bool[]
    value: Any  # f32[]
    observation: Any


@functools.cache
def stepper(game: Game):
    """jitted (states [B], actions i32[B]) -> states, and (states [B]) -> View."""

    def look(state):
        return View(game.legal(state), *game.outcome(state), game.observe(state))

    return jax.jit(jax.vmap(game.play)), jax.jit(jax.vmap(look))


def new_states(game: Game, count: int = BATCH):
    return jax.jit(jax.vmap(game.init))(jax.random.split(jax.random.key(0), count))


def random_actions(legal: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
    """i32[B]: a random legal action in each row; 0 where none is legal."""
    random = rng.rand(*legal.shape)
    return np.where(legal, random, -1).argmax(axis=1).astype(np.int32)


def check_contract(game: Game, seed: int = 0) -> np.ndarray:
    """Check random games to the end; returns their results f32[B] for the player to move."""
    play, look = stepper(game)
    states, rng = new_states(game), np.random.RandomState(seed)
    shapes = jax.tree.map(lambda x: (x.shape, x.dtype), states)
    first = look(states)
    actions_of_first_game, boards_of_first_game = [], []
    for ply in range(game.max_moves + 1):
        seen = look(states)
        check_view(game, seen, first)
        over = np.asarray(seen.over)
        boards_of_first_game.append(jax.tree.map(lambda x: x[0], states))
        if over.all():
            break
        assert ply < game.max_moves, "a game is not over after max_moves"
        actions = random_actions(np.asarray(seen.legal), rng)
        actions_of_first_game.append(actions[0])
        after = play(states, actions)
        assert jax.tree.map(lambda x: (x.shape, x.dtype), after) == shapes
        check_unchanged(states, after, over)
        states = after
    check_one_game(game, actions_of_first_game, boards_of_first_game)
    return np.asarray(look(states).value)


def check_view(game: Game, seen: View, first: View):
    """Check masks, values and observations of all games at one ply."""
    over, value = np.asarray(seen.over), np.asarray(seen.value)
    assert (seen.legal.dtype, seen.legal.shape[1:]) == (bool, (game.num_actions,))
    assert np.asarray(seen.legal)[~over].any(axis=1).all(), "an open game without a legal action"
    assert (over.dtype, value.dtype) == (bool, np.float32)
    assert np.isfinite(value[over]).all()
    assert (np.abs(value[over]) <= 1).all()
    same = jax.tree.map(lambda x, y: (x.shape, x.dtype) == (y.shape, y.dtype), seen, first)
    assert all(jax.tree.leaves(same)), "an observation has another shape later on"
    finite = jax.tree.map(lambda x: bool(np.isfinite(np.asarray(x)).all()), seen.observation)
    assert all(jax.tree.leaves(finite))


def check_unchanged(before, after, over: np.ndarray):
    """Check that an action changes nothing where a game is over."""
    for x, y in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True):
        np.testing.assert_array_equal(np.asarray(x)[over], np.asarray(y)[over])


def check_one_game(game: Game, actions, expected_states):
    """Check that a single game plays as it does in a batch."""
    play = jax.jit(game.play)
    state = jax.jit(game.init)(jax.random.split(jax.random.key(0), BATCH)[0])
    for i, expected in enumerate(expected_states):
        jax.tree.map(np.testing.assert_array_equal, state, expected)
        if i < len(actions):
            state = play(state, jnp.int32(actions[i]))


def check_values_change_sides(game: Game, seed: int = 1):
    """Check that the last mover never loses: at the end the player to move has lost or drawn."""
    play, look = stepper(game)
    states, rng = new_states(game), np.random.RandomState(seed)
    results = set()
    for _ in range(game.max_moves):
        seen = look(states)
        results |= set(np.asarray(seen.value)[np.asarray(seen.over)].tolist())
        states = play(states, random_actions(np.asarray(seen.legal), rng))
    seen = look(states)
    assert np.asarray(seen.over).all()
    assert results | set(np.asarray(seen.value).tolist()) <= {-1.0, 0.0}


def check_symmetries(game: Game, seed: int = 2):
    """Check that a game of transformed actions has the transformed observations."""
    symmetries = symmetries_of(game)
    assert symmetries is not None
    play, look = stepper(game)

    @jax.jit
    def transform(planes, values):
        """Observations [B] and values of actions f32[B, A], both in all symmetries: [B, S]."""
        image = lambda x, y, k: (symmetries.planes(x, k), symmetries.actions(y, k))
        of_one = jax.vmap(image, in_axes=(None, None, 0))
        return jax.vmap(of_one, in_axes=(0, 0, None))(planes, values, jnp.arange(symmetries.count))

    states, rng = new_states(game), np.random.RandomState(seed)
    planes = look(states).observation
    one_hot = np.eye(game.num_actions, dtype=np.float32)
    seen, moved = transform(jnp.repeat(planes[:1], game.num_actions, axis=0), one_hot)
    maps = np.asarray(moved).argmax(axis=2).T  # [S, A]: the image of each action
    np.testing.assert_array_equal(maps[0], np.arange(game.num_actions))
    assert len({tuple(row) for row in maps.tolist()}) == len(maps)
    images = [states] * len(maps)
    for _ in range(game.max_moves):
        actions = random_actions(np.asarray(look(states).legal), rng)
        states = play(states, actions)
        images = [play(x, row[actions]) for x, row in zip(images, maps, strict=True)]
        uniform = np.zeros((BATCH, game.num_actions), np.float32)
        seen, _ = transform(look(states).observation, uniform)
        for s, image in enumerate(images):
            np.testing.assert_array_equal(np.asarray(seen)[:, s], look(image).observation)
