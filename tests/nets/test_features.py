"""Every plane of every feature set against the plain reference, also in search and in rows."""

from __future__ import annotations

import functools
import random

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.compile import mode
from gozero.go import rules as go
from gozero.go import symmetry
from gozero.nets import features
from gozero.nets.features import FEATURES, FULL_GLOBALS, FULL_PLANES
from gozero.search.game import Ancestors
from tests.go.ladder_readers import plain_reader
from tests.go.stepping import new_games
from tests.reference import benson
from tests.reference.go import BLACK, WHITE, ReferenceGame

RULES = go.Rules(size=5)
MOVES, GAMES = 40, 5
WITHIN_FULL = {"compact", "full-no-ladders"}  # their planes are a subset of the full set's


def except_for(thorough):
    return [pytest.param(x, marks=[pytest.mark.thorough] * (x in thorough)) for x in FEATURES]


def reference_planes(game: ReferenceGame) -> np.ndarray:
    """f32[22, points] by the table of planes, as one set of points per plane."""
    size, own = game.size, game.to_play
    board, history = game.board, game.history
    colour = lambda p: board[p]
    points = range(size * size)
    liberties = [len(game.chain(board, p)[1]) if board[p] else 0 for p in points]
    planes = {
        0: set(points),
        1: {p for p in points if colour(p) == own},
        2: {p for p in points if colour(p) == -own},
        **{2 + k: {p for p in points if liberties[p] == k} for k in (1, 2, 3)},
        6: {p for p in points if game.board_after(p) and not game.is_legal(p)},
    }
    for k in range(1, 6):
        if len(history) > k:
            after, before = history[-k], history[-k - 1]
            planes[8 + k] = {p for p in points if after[p] and not before[p]}
    for k in range(3):
        if len(history) > k:
            to_play = own if k % 2 == 0 else -own
            reader = plain_reader(size)
            previous = list(history[-2]) if k == 0 and len(history) > 1 else None
            laddered, captures = reader.read(list(history[-1 - k]), to_play, previous)
            planes[14 + k] = laddered
            if k == 0:
                planes[17] = captures
    for k, whose in enumerate((own, -own)):
        game.board = list(board)
        stones, territory = benson.pass_alive(game, whose)
        planes[18 + k] = stones | territory
    out = np.zeros((len(FULL_PLANES), size * size), np.float32)
    for k, found in planes.items():
        out[k, list(found)] = 1
    return out


@functools.cache
def observer(name, rules=RULES):
    observe = lambda state: FEATURES[name].observe(rules, state, state.position)
    return jax.jit(jax.vmap(observe))


@functools.cache
def observer_in_a_tree(name):
    return jax.jit(jax.vmap(functools.partial(FEATURES[name].observe, RULES)))


@functools.cache
def player(rules=RULES):
    return jax.jit(jax.vmap(lambda s, a: go.play(rules, s, a)))


def random_games(rules, count, moves, seed):
    """Yields (states, games, actions) after each random move."""
    rng = random.Random(seed)
    states = new_games(rules, count, 6.5)
    games = [ReferenceGame(rules.size, rules.ko) for _ in range(count)]
    for _ in range(moves):
        actions = []
        for game in games:
            legal = [p for p, allowed in enumerate(game.legal()[:-1]) if allowed]
            good = [p for p in legal if not game.is_eye(p, game.to_play)] or legal
            passes = not good or (rng.random() < 0.05 and not game.passes)
            actions.append(rules.pass_action if passes else rng.choice(good))
            game.play(actions[-1])
        states = player(rules)(states, jnp.asarray(actions))
        yield states, games, actions


@pytest.mark.thorough
def test_the_full_set_matches_its_table():
    seen = np.zeros(22)
    for states, games, _ in random_games(RULES, GAMES, MOVES, seed=0):
        inputs = observer("full")(states)
        assert inputs.planes.shape == (GAMES, 5, 5, 22)
        got = np.moveaxis(np.asarray(inputs.planes), -1, 1).reshape(GAMES, 22, 25)
        for b, game in enumerate(games):
            if game.passes >= 2:
                continue
            want = reference_planes(game)
            for k, name in enumerate(FULL_PLANES):
                np.testing.assert_array_equal(got[b, k], want[k], err_msg=name)
            check_globals(game, inputs.global_inputs[b])
            seen += want.sum(axis=1)
        without = observer("full-no-ladders")(states)
        rest = [k for k in range(22) if k not in features.LADDER_PLANES]
        np.testing.assert_array_equal(without.planes[..., rest], inputs.planes[..., rest])
        assert not without.planes[..., features.LADDER_PLANES].any()
    zero = {k for k, name in enumerate(FULL_PLANES) if name.startswith("zero:")}
    assert {k for k in range(22) if not seen[k]} == zero


def check_globals(game, values):
    got = dict(zip(FULL_GLOBALS, np.asarray(values).tolist(), strict=True))
    white = game.to_play == WHITE
    assert got["White to play"] == white
    assert got["points that komi gives the player to move, / 20"] == pytest.approx(
        (1 if white else -1) * 6.5 / 20
    )
    assert got["the last move was a pass, so that another ends the game"] == bool(game.passes)
    for k in range(2, 6):
        was_pass = len(game.history) > k and game.history[-k] == game.history[-k - 1]
        assert got[f"the move {k} plies ago was a pass"] == was_pass
    assert got["positional ko"] == 1
    assert got["simple ko"] == got["suicide is allowed"] == 0
    assert got["moves played, / (2 size^2)"] == pytest.approx(game.moves / 50)


def compact_planes(game: ReferenceGame) -> np.ndarray:
    """f32[9, points] by the table of planes, at a komi of 6.5."""
    board, own, white = np.array(game.board), game.to_play, game.to_play == WHITE
    atari = np.array(game.in_atari())
    before = list(game.history[-2])
    ko = [not game.passes and game.board_after(p) == before for p in range(len(board))]
    everywhere = [1, white, game.passes > 0, (6.5 if white else -6.5) / 20]
    of_points = [board == own, board == -own, atari & (board == own), atari & (board == -own), ko]
    rows = np.broadcast_to(np.array(everywhere)[:, None], (4, len(board)))
    return np.concatenate([of_points, rows]).astype(np.float32)


def zero_planes(game: ReferenceGame) -> np.ndarray:
    """f32[17, points]: the last eight boards of each colour, and the colour to play."""
    board = np.zeros((8, game.size**2))
    past = game.history[-8:]
    board[: len(past)] = past[::-1]
    pairs = np.stack([board == game.to_play, board == -game.to_play], axis=1).reshape(16, -1)
    return np.concatenate([pairs, np.full((1, game.size**2), game.to_play == BLACK)])


@pytest.mark.parametrize(
    ("size", "count", "moves", "seed"),
    [(5, 4, 40, 5), (9, 6, 80, 5), pytest.param(19, 1, 200, 11, marks=pytest.mark.thorough)],
)
def test_compact_and_zero_planes_of_whole_games(size, count, moves, seed):
    """In the forms for a CPU and for a GPU; on 9x9 a board is several words."""
    rules = go.Rules(size=size)
    batches, compact, zero = [], [], []
    for states, games, _ in random_games(rules, count, moves, seed):
        batches.append(jax.device_get(states))
        compact += [compact_planes(game) for game in games]
        zero += [zero_planes(game) for game in games]
    states = jax.tree.map(lambda *x: np.concatenate(x), *batches)
    counts = dict(zip(features.COMPACT_PLANES, np.sum(compact, axis=(0, 2)), strict=True))
    for name in ("own stones in atari", "opponent's stones in atari", "the ko point"):
        assert counts[name] > 0
    for target in ("cpu", "gpu"):
        for name, wanted in (("compact", compact), ("zero", zero)):
            with mode.target(target):
                observe = lambda state, name=name: FEATURES[name].observe(
                    rules, state, state.position
                )
                planes = jax.jit(jax.vmap(observe))(states)
            found = np.moveaxis(np.asarray(planes), -1, 1).reshape(len(wanted), -1, size**2)
            np.testing.assert_allclose(found, wanted, atol=1e-6, err_msg=f"{name}, {target}")


@pytest.mark.parametrize("name", except_for(WITHIN_FULL | {"full"}))
@pytest.mark.parametrize("cut", [*(pytest.param(n, marks=pytest.mark.slow) for n in (0, 2)), 9])
def test_a_search_observes_what_the_game_would(name, cut):
    """The same position, its last moves in the game's past or among its ancestors in a tree."""
    steps = list(random_games(RULES, 6, 12, seed=2))
    root, last = steps[11 - cut][0], steps[-1][0]
    earlier = [states.position for states, _, _ in steps[11 - cut : 11]]
    room = [last.position] * (12 - cut)  # beyond the length: ignored
    stack = lambda *x: jnp.stack(x, axis=1)
    ancestors = Ancestors(jax.tree.map(stack, *earlier, *room), jnp.full(6, cut))
    got = observer_in_a_tree(name)(root, last.position, ancestors)
    jax.tree.map(np.testing.assert_array_equal, got, observer(name)(last))


@pytest.mark.parametrize("name", except_for({*WITHIN_FULL, "full"}))
def test_planes_turn_with_the_board(name):
    """In a game's eight images, planes are images of its planes, and global inputs are equal."""
    turned = new_games(RULES, 8, 6.5)
    for t, (states, _, actions) in enumerate(random_games(RULES, 1, 30, seed=3)):
        images = symmetry.map_action(5, jnp.full(8, actions[0]), jnp.arange(8))
        turned = player()(turned, images)
        if t % 5:
            continue
        nine = observer(name)(jax.tree.map(lambda *x: jnp.concatenate(x), states, turned))
        one, eight = (jax.tree.map(lambda x, s=s: x[s], nine) for s in (np.s_[:1], np.s_[1:]))
        if isinstance(one, features.Inputs):
            np.testing.assert_array_equal(eight.global_inputs, one.global_inputs.repeat(8, 0))
            one, eight = one.planes, eight.planes
        for k in range(8):
            moved = symmetry.map_planes(one[0], jnp.int32(k))
            np.testing.assert_array_equal(eight[k], moved)


@pytest.mark.thorough
def test_situational_superko_is_an_input():
    rules = go.Rules(3, "situational")
    state = go.init(rules)
    found = FEATURES["full-no-ladders"].observe(rules, state, state.position).global_inputs
    by_name = dict(zip(FULL_GLOBALS, found.tolist(), strict=True))
    assert [by_name[f"{ko} ko"] for ko in ("simple", "positional", "situational")] == [0, 0, 1]


def test_under_simple_ko_only_the_tree_gives_the_past():
    rules = go.Rules(size=5, ko="simple")
    steps = list(random_games(rules, 2, 6, seed=4))
    seen = jax.vmap(lambda s: FEATURES["full"].extract(rules, s, s.position))(steps[-1][0])
    assert seen.known.tolist() == [0, 0]
    assert not seen.past.any()


def test_the_tables():
    for name, found in FEATURES.items():
        assert found.num_planes == len(set(found.planes)), name
    assert FEATURES["full"].num_planes == 22
    assert FEATURES["zero"].num_planes == 17
    with pytest.raises(ValueError, match="not one of compact, full"):
        features.feature_set("none")


@pytest.mark.parametrize("is_new", [pytest.param(False, marks=pytest.mark.thorough), True])
def test_planes_of_a_single_game_of_constants_compile(is_new):
    """XLA aborted the process, because past boards that are unknown are constants, as is a game
    that begins in the same program."""
    rules = go.Rules(3, "simple")
    observe = features.feature_set("full-no-ladders").observe
    begin = lambda: jax.vmap(lambda komi: go.init(rules, komi))(jnp.ones(1))
    see = jax.vmap(lambda state: observe(rules, state, state.position))
    expected = see(begin())
    planes = jax.jit(lambda: see(begin()))() if is_new else jax.jit(see)(begin())
    chex.assert_trees_all_equal(planes, expected)
