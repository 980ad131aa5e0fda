"""Properties of every game: symmetry, batch independence, no chain without liberties."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gozero.go import bitboard as bb
from gozero.go import rules as go
from gozero.go import scoring, symmetry
from tests.go.stepping import new_games

RULES = [
    pytest.param(go.Rules(size=5), marks=pytest.mark.thorough),
    go.Rules(size=5, ko="situational", suicide=True),
]
MOVES = 40


@functools.cache
def player(rules):
    """jitted: choices f32[MOVES, B] -> masks, boards and scores of every state, [MOVES, B, ...]."""

    def choose(state, choice):
        """The floor(choice * n)-th of the n legal actions."""
        legal = go.legal_actions(rules, state)
        rank = jnp.cumsum(legal) - 1
        chosen_rank = jnp.floor(choice * legal.sum()).astype(jnp.int32)
        return jnp.argmax(legal & (rank == chosen_rank)).astype(jnp.int32)

    def step(state, choice):
        action = choose(state, choice)
        state = go.play(rules, state, action)
        return state, action

    def look(state):
        return (
            go.legal_actions(rules, state),
            go.stones(rules, state),
            scoring.area_score(rules, state),
            bb.unpack(rules.layout, state.position.atari),
        )

    def run(choices):
        def body(states, row):
            states, actions = jax.vmap(step)(states, row)
            return states, (actions, jax.vmap(look)(states))

        return jax.lax.scan(body, new_games(rules, choices.shape[1]), choices)[1]

    return jax.jit(run)


@functools.cache
def replayer(rules):
    """jitted: actions i32[MOVES, B] -> legal masks, boards and scores."""

    def run(actions):
        def body(states, row):
            states = jax.vmap(lambda s, a: go.play(rules, s, a))(states, row)
            legal = jax.vmap(lambda s: go.legal_actions(rules, s))(states)
            stones = jax.vmap(lambda s: go.stones(rules, s))(states)
            score = jax.vmap(lambda s: scoring.area_score(rules, s))(states)
            return states, (legal, stones, score)

        return jax.lax.scan(body, new_games(rules, actions.shape[1]), actions)[1]

    return jax.jit(run)


choices = st.integers(0, 2**32 - 1).map(
    lambda seed: np.random.RandomState(seed).rand(MOVES, 8).astype(np.float32)
)


@pytest.mark.parametrize("rules", RULES)
@settings(max_examples=15, deadline=None)
@given(choices)
def test_every_chain_has_a_liberty_and_stones_are_conserved(rules, row):
    actions, (_, stones, _, atari) = jax.tree.map(np.asarray, player(rules)(row))
    before = np.zeros_like(stones[0])
    for t in range(MOVES):
        for b in range(row.shape[1]):
            _check_chains(stones[t, b], atari[t, b].reshape(5, 5))
            _check_conserved(rules, before[b], stones[t, b], actions[t, b])
        before = stones[t]


def _check_conserved(rules, before, after, action):
    """A pass changes nothing; a play adds a stone and removes opposing stones, or only its own."""
    changed = after != before
    if action == rules.pass_action:
        assert not changed.any()
        return
    added, removed = changed & (before == 0), changed & (before != 0)
    assert (after[removed] == 0).all()
    if added.any():
        assert np.argwhere(added).tolist() == [list(divmod(int(action), rules.size))]
        assert (before[removed] == -after[added]).all()
    else:  # suicide, or an action after the end
        assert rules.suicide or not changed.any()
        assert len(set(before[removed].tolist())) <= 1


def _check_chains(stones, atari):
    for colour in (1, -1):
        todo = {tuple(p) for p in np.argwhere(stones == colour)}
        while todo:
            chain, liberties, frontier = set(), set(), [todo.pop()]
            while frontier:
                row, col = frontier.pop()
                chain.add((row, col))
                for p in ((row - 1, col), (row + 1, col), (row, col - 1), (row, col + 1)):
                    if not (0 <= p[0] < 5 and 0 <= p[1] < 5):
                        continue
                    if stones[p] == 0:
                        liberties.add(p)
                    elif p in todo:
                        todo.remove(p)
                        frontier.append(p)
            assert liberties
            assert all(atari[p] == (len(liberties) == 1) for p in chain)


@pytest.mark.parametrize("rules", RULES)
@settings(max_examples=10, deadline=None)
@given(choices)
def test_the_rules_are_symmetric(rules, row):
    actions, (legal, stones, score, _) = jax.tree.map(
        np.asarray, player(rules)(row[:, :1].repeat(8, 1))
    )
    turned = np.stack([symmetry.inverses(5)[k][actions[:, k]] for k in range(8)], axis=1)
    legal_turned, stones_turned, score_turned = jax.tree.map(np.asarray, replayer(rules)(turned))
    for k in range(8):
        table = symmetry.permutations(5)[k]
        np.testing.assert_array_equal(legal_turned[:, k], legal[:, k][:, table])
        flat = stones[:, k].reshape(MOVES, 25)
        np.testing.assert_array_equal(stones_turned[:, k].reshape(MOVES, 25), flat[:, table[:-1]])
    np.testing.assert_array_equal(score_turned, score)


@pytest.mark.parametrize("rules", RULES)
@settings(max_examples=10, deadline=None)
@given(choices)
def test_a_game_does_not_depend_on_its_batch(rules, row):
    actions, seen = jax.tree.map(np.asarray, player(rules)(row))
    order = np.array([3, 0, 0, 7, 1, 3, 2, 5])
    again_actions, again = jax.tree.map(np.asarray, player(rules)(row[:, order]))
    np.testing.assert_array_equal(again_actions, actions[:, order])
    for got, want in zip(again, seen, strict=True):
        np.testing.assert_array_equal(got, want[:, order])


def test_symmetries_are_eight_different_maps_and_undo_themselves():
    for size in (2, 5, 9):
        tables, inverses = symmetry.permutations(size), symmetry.inverses(size)
        assert len({tuple(table) for table in tables}) == 8
        for table, inverse in zip(tables, inverses, strict=True):
            np.testing.assert_array_equal(table[inverse], np.arange(size**2 + 1))
    planes = jnp.arange(50.0).reshape(5, 5, 2)
    mirrored = symmetry.map_planes(planes, jnp.int32(4))
    np.testing.assert_array_equal(mirrored, planes[:, ::-1])
    np.testing.assert_array_equal(symmetry.map_planes(planes, jnp.int32(1)), np.rot90(planes))
    values = jnp.arange(26.0)
    moved = symmetry.map_actions(5, values, jnp.int32(3))
    where = int(symmetry.map_action(5, jnp.int32(7), jnp.int32(3)))
    assert float(moved[where]) == 7.0
    assert float(moved[25]) == 25.0
