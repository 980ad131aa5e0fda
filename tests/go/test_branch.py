"""The opponent's last move as read from a position's past, in a game and in a tree."""

from __future__ import annotations

import functools
import random

import jax
import jax.numpy as jnp
import numpy as np

import gozero
from gozero.go import bitboard as bb
from gozero.go import rules as go
from gozero.go.branch import last_move
from tests.go.stepping import new_games
from tests.reference.go import BLACK, ReferenceGame

RULES = go.Rules(size=3, max_moves=100)
GAMES, DEPTH = 40, 6


@functools.cache
def compiled():
    play = jax.jit(jax.vmap(functools.partial(go.play, RULES)))
    give = jax.jit(jax.vmap(go.with_to_play))
    return play, give, jax.jit(jax.vmap(functools.partial(last_move, RULES)))


def random_action(rng: random.Random, game: ReferenceGame) -> int:
    legal = [p for p, is_legal in enumerate(game.legal()) if is_legal]
    return rng.choice(legal)


def placed(game: ReferenceGame, action: int) -> int:
    return action if action < game.size**2 else bb.NO_POINT


def test_the_last_move_of_a_game_and_of_a_tree():
    """Games, some with the turn given away, then a branch whose past is the ancestors."""
    play, give, last_of = compiled()
    rng, split = random.Random(1), 7
    states = new_games(RULES, GAMES)
    games = [ReferenceGame(3) for _ in range(GAMES)]
    ancestors = jax.tree.map(lambda x: jnp.repeat(x[:, None], DEPTH, axis=1), states.position)
    root, depth, last = states, jnp.zeros(GAMES, jnp.int32), [bb.NO_POINT] * GAMES
    for ply in range(split + DEPTH):
        result = last_of(root, states.position, ancestors, depth)
        going = [i for i, game in enumerate(games) if game.passes < 2]
        assert [result[i] for i in going] == [last[i] for i in going]
        if ply >= split:
            row = ply - split
            put = lambda all_rows, x, row=row: all_rows.at[:, row].set(x)
            ancestors, depth = jax.tree.map(put, ancestors, states.position), depth + 1
        actions = [random_action(rng, game) for game in games]
        for game, action in zip(games, actions, strict=True):
            game.play(action)
        states = play(states, jnp.array(actions))
        last = [placed(game, action) for game, action in zip(games, actions, strict=True)]
        if ply == 4:
            for i in range(0, GAMES, 2):
                if games[i].passes < 2:
                    games[i].give_turn(-games[i].to_play)
                    last[i] = bb.NO_POINT  # the player to move also moved last
            movers = [0 if game.to_play == BLACK else 1 for game in games]
            states = give(states, jnp.array(movers))
        root = states if ply < split else root
    assert len({*last}) > 5


def test_under_simple_ko_only_the_tree_gives_the_last_move():
    rules = go.Rules(size=3, ko="simple")
    root = go.play(rules, go.init(rules), 4)
    child = go.play_position(rules, root.position, 1)
    ancestors = jax.tree.map(lambda x: jnp.asarray(x)[None], root.position)
    assert last_move(rules, root, root.position) == bb.NO_POINT
    assert last_move(rules, root, child, ancestors, jnp.int32(1)) == 1


def test_a_game_from_stones_has_no_last_move():
    stones = np.zeros((3, 3), np.int8)
    stones[1, 1] = 1
    state = gozero.from_stones(RULES, stones, to_play=1)
    assert last_move(RULES, state, state.position) == bb.NO_POINT
    state = gozero.play(RULES, state, 0)
    assert last_move(RULES, state, state.position) == 0
