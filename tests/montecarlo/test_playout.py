"""Uniform playouts beside the plain reference: eyes, choices, whole games, known averages."""

import functools
import math
import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from gozero.go import bitboard as bb
from gozero.go import fusion
from gozero.go import rules as go
from gozero.montecarlo import playout, policies
from tests.reference.go import BLACK, EMPTY, WHITE, ReferenceGame

COLOURS = {"X": BLACK, "O": WHITE}


# --- positions ------------------------------------------------------------------------


def game_of(diagram: str, to_play=BLACK, passes=0, ko=None) -> ReferenceGame:
    """A reference game on a text diagram; `ko` is the (row, col) that may not be played."""
    rows = diagram.split()
    game = ReferenceGame(len(rows), ko="simple")
    game.board = [COLOURS.get(point, EMPTY) for row in rows for point in row]
    game.to_play, game.passes = to_play, passes
    game.history = [tuple(game.board)]
    if ko is not None:
        game.history.insert(0, tuple(game.board_after(ko[0] * game.size + ko[1])))
    return game


def ko_point(game: ReferenceGame) -> int:
    """The empty point where a play would recreate the board two plies back."""
    if len(game.history) < 2:
        return bb.NO_POINT
    for point in range(game.size**2):
        after = game.board_after(point)
        if after is not None and tuple(after) == game.history[-2]:
            return point
    return bb.NO_POINT


def positions_of(games: list[ReferenceGame]) -> go.Position:
    """Positions [B]. Playouts do not look at `atari`: it is left empty."""
    lay = bb.layout(games[0].size)
    boards = np.array([game.board for game in games])

    def fields(board, ko, passes, to_play):
        return go.Position(
            black=bb.pack(lay, board == BLACK),
            white=bb.pack(lay, board == WHITE),
            atari=bb.empty(lay),
            ko=ko,
            ply=jnp.int16(0),
            passes=passes,
            to_play=to_play,
        )

    return jax.vmap(fields)(
        boards,
        np.array([ko_point(game) for game in games], np.int16),
        np.array([game.passes for game in games], np.int8),
        np.array([game.to_play == WHITE for game in games], np.int8),
    )


def random_games(size: int, count: int, seed: int) -> list[ReferenceGame]:
    """Games broken off anywhere, with passes, filled eyes, kos and either colour to play."""
    rng, games = random.Random(seed), []
    for _ in range(count):
        game = ReferenceGame(size, ko="simple")
        for _ in range(rng.randrange(2 * size * size)):
            legal = [p for p in range(size * size) if game.board[p] == EMPTY and game.is_legal(p)]
            game.play(rng.choice(legal) if legal and rng.random() < 0.95 else size * size)
            if game.passes and rng.random() < 0.8:
                game.passes = 0  # most games go on
        games.append(game)
    return games


def empty_boards(rules: go.Rules, count: int) -> go.Position:
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (count,)), go.empty_position(rules))


def boards(lay: bb.Layout, stones: bb.Board) -> np.ndarray:
    """Words [...] -> bool[..., points]."""
    lanes = jnp.stack(stones, -1)
    flat = jax.vmap(lambda words: bb.unpack(lay, tuple(words)))(lanes.reshape(-1, lay.num_words))
    return np.asarray(flat).reshape(*lanes.shape[:-1], -1)


@functools.cache
def compiled(rules: go.Rules):
    return jax.jit(functools.partial(playout.uniform_playouts, rules))


# --- what may be played ---------------------------------------------------------------


@pytest.mark.parametrize("size", [2, 5, 9, 13, 19])
def test_eyes_are_those_of_the_reference(size):
    rng = np.random.default_rng(size)
    games = [ReferenceGame(size) for _ in range(30)]
    for game in games:  # nearly all own stones, or there would be no eyes
        points = rng.choice([BLACK, WHITE, EMPTY], size * size, p=[0.75, 0.08, 0.17])
        game.board = points.tolist()
    positions = positions_of(games)
    lay = bb.layout(size)
    found = jax.vmap(functools.partial(policies.eyes, lay))(positions.black, positions.white)
    expected = [[game.is_eye(p, BLACK) for p in range(size * size)] for game in games]
    np.testing.assert_array_equal(boards(lay, found), expected)
    assert np.any(expected)


@pytest.mark.parametrize("size", [2, 5, 9])
def test_only_suicides_are_hopeless(size):
    games = random_games(size, 20, seed=size)
    lay = bb.layout(size)
    positions = positions_of(games)
    found = boards(
        lay, jax.vmap(functools.partial(policies.hopeless, lay))(positions.black, positions.white)
    )
    for game, points in zip(games, found, strict=True):
        game.to_play = BLACK
        for p in np.flatnonzero(points):
            assert game.board[p] == EMPTY
            assert game.board_after(p) is None
    assert size == 2 or np.any(found)


def allowed(game: ReferenceGame) -> list[int]:
    """The actions a uniform playout chooses from."""
    points = range(game.size**2)
    plays = [p for p in points if game.is_legal(p) and not game.is_eye(p, game.to_play)]
    return plays or [game.size**2]


SETTLED = "X.XO. .XXOO XXXO. XXXOO XXXO."  # nothing but eyes of two living chains

FIRST_MOVES = {
    "an empty board": game_of("..... ..... ..... ..... ....."),
    "suicide in the corner, an eye, a capture": game_of(
        """
        .O.X.
        OO.XX
        ..X..
        .OX.X
        .O.X.
        """
    ),
    "a ko that may not be taken back": game_of(
        """
        .XO..
        X.XO.
        .XO..
        .....
        .....
        """,
        to_play=WHITE,
        ko=(1, 1),
    ),
    "long chains that decide only after several iterations": game_of(
        """
        .OOOOOOOO
        OOXXXXXXO
        XXXOOOOXO
        .OOOXXOXO
        XXXOX.OXO
        X.XOXOOXO
        XXXOXXXXO
        XOOOOOOOO
        X.XOXO.O.
        """,
        to_play=BLACK,
    ),
    "nothing but eyes": game_of(SETTLED, to_play=WHITE),
}


@pytest.mark.parametrize("name", FIRST_MOVES)
def test_first_action_is_uniform_over_what_is_allowed(name):
    game, lanes = FIRST_MOVES[name], 6000
    rules = go.Rules(game.size)
    positions = jax.tree.map(lambda x: jnp.repeat(x, lanes, axis=0), positions_of([game]))
    first = compiled(rules)(positions, jax.random.key(1)).first_action
    counts = np.bincount(first, minlength=rules.num_actions)
    actions = allowed(game)
    assert set(np.flatnonzero(counts)) == set(actions)
    assert len(actions) == 1 or stats.chisquare(counts[actions]).pvalue > 1e-3


# --- whole playouts -------------------------------------------------------------------


@functools.cache
def recorder(rules: go.Rules, iterations: int):
    """A jitted (positions, key) -> (Lanes, Played) after each iteration, [T, B]."""

    def record(positions, key):
        def one(lanes, iteration):
            lanes, played = playout.step(rules, lanes, iteration)
            return lanes, (lanes, played)

        lanes = playout.start(rules, positions, key)
        return jax.lax.scan(one, lanes, jnp.arange(iterations, dtype=jnp.uint32))[1]

    return jax.jit(record)


def replay(game: ReferenceGame, actions, own, banned) -> None:
    """Plays one lane's moves on the reference; all arguments but the game have one row a move."""
    for action, own_stones, ban in zip(actions, own, banned, strict=True):
        if action == game.size**2:
            assert allowed(game) == [action]
        else:
            assert game.is_legal(action)
            assert not game.is_eye(action, game.to_play)
        game.play(action)
        np.testing.assert_array_equal(own_stones, np.array(game.board) == game.to_play)
        assert np.flatnonzero(ban).tolist() == [p for p in [ko_point(game)] if p >= 0]


def check_against_reference(games: list[ReferenceGame], seed: int):
    rules = go.Rules(games[0].size)
    lay, points = rules.layout, rules.num_points
    positions, key = positions_of(games), jax.random.key(seed)
    lanes, played = recorder(rules, 8 * points + 32)(positions, key)
    result = compiled(rules)(positions, key)
    actions = np.asarray(policies.spot_action(lay, played.spot))
    own, banned = boards(lay, lanes.own), boards(lay, lanes.banned)
    for lane, game in enumerate(games):
        before = game.moves
        moments = np.flatnonzero(played.played[:, lane])
        replay(game, actions[moments, lane], own[moments, lane], banned[moments, lane])
        assert game.moves - before == result.moves[lane]
        assert (game.passes >= 2) == result.finished[lane]
        assert result.finished[lane] or result.moves[lane] == playout.move_cap(rules)
        assert game.area() == result.score[lane]
        expected_first = actions[moments[0], lane] if len(moments) else bb.NO_POINT
        assert expected_first == result.first_action[lane]
    return result


@pytest.mark.parametrize(("size", "count"), [(2, 40), (5, 16), (9, 6)])
def test_every_move_of_a_playout_is_the_references(size, count):
    empty = [ReferenceGame(size, ko="simple") for _ in range(count // 2)]
    games = empty + random_games(size, count - len(empty), seed=size)
    check_against_reference(games, seed=size)


@pytest.mark.slow
@pytest.mark.parametrize("size", [3, 4, 6, 7, 8, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19])
def test_every_move_of_a_playout_is_the_references_at_all_sizes(size):
    check_against_reference(random_games(size, 3, seed=size), seed=size)


def test_playouts_that_cycle_are_cut_at_the_cap():
    rules = go.Rules(2)  # simple ko stops few of the cycles on 2x2
    result = compiled(rules)(empty_boards(rules, 200), jax.random.key(0))
    cut = ~np.asarray(result.finished)
    assert 0 < cut.sum() < 200
    assert np.all(result.moves[cut] == 12)
    assert np.all(result.moves[~cut] <= 12)


def test_an_ended_position_is_scored_as_it_stands():
    seki = """
        .XO..
        XXOOO
        OO.XX
        OO.X.
        .OXX.
    """
    games = [game_of(seki, to_play, passes=2) for to_play in (BLACK, WHITE)]
    result = compiled(go.Rules(5))(positions_of(games), jax.random.key(0))
    assert np.all(result.finished)
    assert result.moves.tolist() == [0, 0]
    assert result.first_action.tolist() == [bb.NO_POINT] * 2
    assert result.score.tolist() == [games[0].area()] * 2


def test_a_pass_before_the_playout_counts():
    games = [game_of(SETTLED, BLACK, passes) for passes in (0, 1)]
    result = compiled(go.Rules(5))(positions_of(games), jax.random.key(0))
    assert result.first_action.tolist() == [25, 25]
    assert result.moves.tolist() == [2, 1]
    assert np.all(result.finished)
    assert result.score.tolist() == [15 - 10] * 2


@pytest.mark.parametrize("lanes", [1, 3])
def test_a_lane_does_not_depend_on_the_others(lanes):
    rules, key = go.Rules(5), jax.random.key(7)
    positions = positions_of(random_games(5, 16, seed=1))
    others = positions_of(random_games(5, 16, seed=2))
    whole = compiled(rules)(positions, key)
    few = compiled(rules)(jax.tree.map(lambda x: x[:lanes], positions), key)
    mixed = compiled(rules)(
        jax.tree.map(lambda x, y: jnp.concatenate([x[:lanes], y[lanes:]]), positions, others), key
    )
    for result in (few, mixed):
        for ours, theirs in zip(result, whole, strict=True):
            np.testing.assert_array_equal(ours[:lanes], theirs[:lanes])


def test_keys_and_lanes_differ():
    rules = go.Rules(5)
    positions = empty_boards(rules, 500)
    one, other = (compiled(rules)(positions, jax.random.key(seed)) for seed in (0, 1))
    correlation = np.corrcoef(one.moves, other.moves)[0, 1]
    assert abs(correlation) < 0.15
    neighbours = np.corrcoef(one.moves[:-1], one.moves[1:])[0, 1]
    assert abs(neighbours) < 0.15


# --- known averages -------------------------------------------------------------------


def check_averages(size, games, lanes, moves, black_wins, key):
    """Within three standard errors of libEGO's averages over `games` games at komi 6.5."""
    rules = go.Rules(size)
    result = compiled(rules)(empty_boards(rules, lanes), key)
    two_samples = math.sqrt(1 / games + 1 / lanes)
    assert np.all(result.finished)
    assert abs(result.moves.mean() - moves) < 3 * result.moves.std() * two_samples
    spread = math.sqrt(black_wins * (1 - black_wins))
    assert abs((result.score > 6.5).mean() - black_wins) < 3 * spread * two_samples


def test_averages_from_the_empty_9x9_board():
    check_averages(9, 10_000, 20_000, 110.9, 0.444, jax.random.key(0))


@pytest.mark.slow
def test_averages_from_the_empty_19x19_board():
    check_averages(19, 1_000, 2_000, 454.6, 0.476, jax.random.key(0))


# --- the program ----------------------------------------------------------------------


def exported(rules, platforms):
    shape = jax.eval_shape(lambda: empty_boards(rules, 4))
    key = jax.eval_shape(lambda: jax.random.key(0))
    return jax.export.export(compiled(rules), platforms=platforms)(shape, key)


@pytest.mark.parametrize("platform", ["cpu", "cuda", "tpu"])
def test_exports_for_each_platform_with_walls_on_the_cpu_only(platform):
    program = exported(go.Rules(9), [platform]).mlir_module()
    never = f"dense<{2**32 - 1}>"  # the iteration that the walls look for
    assert (never in program) == (platform == "cpu")


def test_exports_for_all_platforms_at_once():
    assert exported(go.Rules(5), ["cpu", "cuda", "tpu"]).platforms == ("cpu", "cuda", "tpu")


def test_walls_change_nothing(monkeypatch):
    rules, key = go.Rules(5), jax.random.key(3)
    positions = positions_of(random_games(5, 8, seed=3))
    walled = compiled(rules)(positions, key)
    monkeypatch.setattr(fusion, "wall", lambda stage, always, *args: stage(*args))
    plain = jax.jit(lambda *args: playout.uniform_playouts(rules, *args))(positions, key)
    jax.tree.map(np.testing.assert_array_equal, plain, walled)


def test_a_step_gathers_nothing():
    rules = go.Rules(9)
    lanes = jax.eval_shape(lambda: playout.start(rules, empty_boards(rules, 4), jax.random.key(0)))
    step = jax.jit(functools.partial(playout.step, rules))
    program = step.lower(lanes, jax.ShapeDtypeStruct((), jnp.uint32)).as_text()
    assert "gather" not in program
    assert "dynamic_slice" not in program
    assert "while" not in program
