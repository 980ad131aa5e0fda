"""Step the library's rules, the plain reference and sgfmill's board side by side."""

from __future__ import annotations

import functools
import random

import jax
import jax.numpy as jnp
import numpy as np
from sgfmill import boards

from gozero.go import bitboard as bb
from gozero.go import rules as go
from gozero.go import scoring
from tests.reference.go import BLACK, ReferenceGame

NO_LIMIT = 2000


@functools.cache
def stepper(rules: go.Rules):
    """jitted (states [B], actions [B]) -> (states, what each of them looks like)."""

    def view(state):
        return {
            "legal": go.legal_actions(rules, state),
            "stones": go.stones(rules, state).reshape(-1),
            "atari": bb.unpack(rules.layout, state.position.atari),
            "score": scoring.area_score(rules, state),
            "to_play": state.to_play,
            "ended": state.ended,
        }

    def step(state, action):
        state = go.play(rules, state, action)
        return state, view(state)

    return jax.jit(jax.vmap(step))


def new_games(rules: go.Rules, count: int, komi: float = 0.0) -> go.GameState:
    return jax.vmap(lambda _: go.init(rules, komi))(jnp.arange(count))


def compare_random_games(rules: go.Rules, num_games: int, num_moves: int, seed: int) -> dict:
    """Random games, every position compared. Returns counts: positions, superko bans, captures."""
    size, pass_action = rules.size, rules.pass_action
    rng = random.Random(seed)
    step = stepper(rules)
    states = new_games(rules, num_games)
    games = [ReferenceGame(size, rules.ko) for _ in range(num_games)]
    mills = [boards.Board(size) for _ in range(num_games)]
    legal = [game.legal() for game in games]
    counts = {"positions": 0, "bans": 0, "captures": 0}
    for _ in range(num_moves):
        actions = [_random_action(rng, mask) for mask in legal]
        states, views = step(states, jnp.array(actions, jnp.int32))
        views = {name: np.asarray(x) for name, x in views.items()}
        for i, (game, mill, action) in enumerate(zip(games, mills, actions, strict=True)):
            if game.passes >= 2:
                continue
            before = sum(map(abs, game.board))
            _play_sgfmill(mill, size, game.to_play, action)
            game.play(action)
            legal[i] = game.legal()
            view = {name: x[i] for name, x in views.items()}
            _compare(game, mill, legal[i], view)
            counts["positions"] += 1
            counts["bans"] += _num_banned(game, legal[i])
            counts["captures"] += sum(map(abs, game.board)) < before + (action != pass_action)
        if all(game.passes >= 2 for game in games):
            break
    return counts


def _random_action(rng, legal):
    points = [p for p, allowed in enumerate(legal[:-1]) if allowed]
    return rng.choice(points) if points and rng.random() > 0.02 else len(legal) - 1


def _play_sgfmill(mill, size, colour, action):
    if action < size * size:
        row, col = divmod(action, size)
        mill.play(size - 1 - row, col, "b" if colour == BLACK else "w")


def _compare(game, mill, legal, view):
    np.testing.assert_array_equal(view["stones"], game.board)
    np.testing.assert_array_equal(view["legal"], legal)
    np.testing.assert_array_equal(view["atari"], game.in_atari())
    assert view["score"] == game.area() == mill.area_score()
    assert view["to_play"] == (0 if game.to_play == BLACK else 1)
    assert view["ended"] == (game.passes >= 2)
    names = {"b": 1, "w": -1, None: 0}
    size = game.size
    on_mill = [names[mill.get(size - 1 - p // size, p % size)] for p in range(size * size)]
    assert on_mill == game.board


def _num_banned(game, legal):
    """Points that superko bans and simple ko does not."""
    if game.ko_rule == "simple" or game.passes >= 2:
        return 0
    game.ko_rule = "simple"
    simple = sum(game.legal())
    game.ko_rule = "positional"
    return simple - sum(legal)
