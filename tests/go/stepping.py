"""Step the library's rules, the plain reference and sgfmill's board side by side."""

from __future__ import annotations

import functools
import random
from collections import Counter

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
    """jitted (states [B], actions [B], colours [B] or None) -> (states, a view of each).

    A colour is the player to move after the action; None leaves it to the rules.
    """

    def view(state):
        return {
            "legal": go.legal_actions(rules, state),
            "stones": go.stones(rules, state).reshape(-1),
            "atari": bb.unpack(rules.layout, state.position.atari),
            "score": scoring.area_score(rules, state),
            "to_play": state.to_play,
            "ended": state.ended,
        }

    def step(state, action, colour):
        state = go.play(rules, state, action)
        if colour is not None:
            state = go.with_to_play(state, colour)
        return state, view(state)

    return jax.jit(lambda states, actions, colours=None: jax.vmap(step)(states, actions, colours))


@functools.cache
def mask_of(rules: go.Rules):
    """jitted (states [B]) -> their legal actions, bool[B, A]."""
    return jax.jit(jax.vmap(lambda state: go.legal_actions(rules, state)))


def new_games(rules: go.Rules, count: int, komi: float = 0.0) -> go.GameState:
    with jax.ensure_compile_time_eval():
        one = jax.tree.map(np.asarray, go.init(rules, komi))
    return jax.tree.map(lambda x: jnp.asarray(np.broadcast_to(x, (count, *x.shape))), one)


def compare_random_games(
    rules: go.Rules,
    num_games: int,
    num_moves: int,
    seed: int,
    extra_turns: float = 0.0,
    every: int = 1,
) -> Counter:
    """Compares every `every`-th position of random games; returns counts of captures, bans etc.

    A player keeps the turn with probability `extra_turns`, as GTP allows.
    """
    size = rules.size
    rng = random.Random(seed)
    step = stepper(rules)
    states = new_games(rules, num_games)
    games = [ReferenceGame(size, rules.ko, rules.suicide) for _ in range(num_games)]
    mills = [boards.Board(size) for _ in range(num_games)]
    counts = Counter()
    for move in range(num_moves):
        actions = [_random_action(rng, game) for game in games]
        playing = [game.passes < 2 for game in games]
        for game, mill, action in zip(games, mills, actions, strict=True):
            if game.passes < 2:
                counts.update(_play_plain(game, mill, action))
                if extra_turns and game.passes < 2 and rng.random() < extra_turns:
                    game.give_turn(-game.to_play)
        colours = [0 if game.to_play == BLACK else 1 for game in games] if extra_turns else None
        colours = colours and jnp.array(colours, jnp.int32)
        states, views = step(states, jnp.array(actions, jnp.int32), colours)
        views = {name: np.asarray(x) for name, x in views.items()}
        for i in np.flatnonzero(playing) if move % every == 0 else ():
            legal = games[i].legal()
            _compare(games[i], mills[i], legal, {name: x[i] for name, x in views.items()})
            counts.update(_bans(games[i], legal), positions=1)
        if not any(playing):
            break
    return counts


def _play_plain(game: ReferenceGame, mill: boards.Board, action: int) -> Counter:
    """Play on the reference and on sgfmill's board; count captures and suicides."""
    mover, before = game.to_play, list(game.board)
    _play_sgfmill(mill, game.size, mover, action)
    game.play(action)
    return Counter(
        captures=game.board.count(-mover) < before.count(-mover),
        suicides=game.board.count(mover) < before.count(mover),
    )


def _random_action(rng: random.Random, game: ReferenceGame) -> int:
    """A legal point, uniformly at random, or occasionally a pass."""
    points = list(range(game.size**2))
    rng.shuffle(points)
    if game.passes < 2 and rng.random() > 0.02:
        point = game.first_legal(points)
        if point is not None:
            return point
    return game.size**2


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


def _bans(game: ReferenceGame, legal: list[bool]) -> Counter:
    """The number of points that superko bans and simple ko does not, and of suicides among them;
    and of points that simple ko bans too."""
    if game.ko_rule == "simple" or game.passes >= 2:
        return Counter()
    ko_rule, game.ko_rule = game.ko_rule, "simple"
    banned = [p for p, is_legal in enumerate(game.legal()) if is_legal and not legal[p]]
    game.ko_rule = ko_rule
    stones = game.board.count(game.to_play)
    suicides = sum(game.board_after(p).count(game.to_play) < stones for p in banned)
    before = game.history[-2] if len(game.history) > 1 else game.board
    taken = [p for p, stone in enumerate(before) if stone and not game.board[p]]
    kos = sum(game.board_after(p) == list(before) for p in taken)
    return Counter(bans=len(banned), suicide_bans=suicides, kos=kos)


def in_chunks(function, chunk, *arguments):
    """function(*arguments) of a batch, in chunks of one size so that it compiles once."""
    count = len(jax.tree.leaves(arguments)[0])
    padded = jax.tree.map(lambda x: np.concatenate([x, x[:1].repeat(-count % chunk, 0)]), arguments)
    parts = [
        jax.tree.map(np.asarray, function(*jax.tree.map(lambda x, i=i: x[i : i + chunk], padded)))
        for i in range(0, count, chunk)
    ]
    return jax.tree.map(lambda *x: np.concatenate(x)[:count], *parts)
