"""Uniform playouts against the plain reference: eyes, moves, whole games, known averages."""

import copy
import functools
import math
import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.compile import mode
from gozero.go import bitboard as bb
from gozero.go import rules as go
from gozero.playouts import engine, playable
from gozero.playouts.policies import uniform, whole_board, window
from tests.playouts.positions import (
    SETTLED,
    allowed,
    assert_same,
    boards,
    compiled,
    empty_boards,
    game_of,
    positions_of,
    random_games,
)
from tests.reference.go import BLACK, WHITE, ReferenceGame

# --- whole playouts -------------------------------------------------------------------


@functools.cache
def recorder(rules: go.Rules, num_advances: int):
    """A jitted (positions, key) -> (stones after each advance, [T, ...]; Played, [T, P, B])."""
    policy, cap = uniform.policy(rules.layout), engine.move_cap(rules)

    def record(positions, key):
        def one(lanes, _):
            lanes, played = policy.advance(rules, cap, (), lanes)
            return lanes, (lanes.stones(), played)

        clock = engine.init_clock(positions, key, engine.lane_ids(positions.to_play.shape[0]))
        lanes = policy.init(rules, positions, clock, True)
        return jax.lax.scan(one, lanes, length=num_advances)[1]

    return jax.jit(record)


def replay(game: ReferenceGame, actions) -> dict:
    """Play a lane's moves on the reference; returns {point: who played there, in order}."""
    players = {}
    for action in actions:
        if action == game.size**2:
            assert allowed(game) == [action]
        else:
            assert action in allowed(game)
            players.setdefault(int(action), []).append(game.to_play)
        game.play(action)
    return players


def check_against_reference(games: list[ReferenceGame], seed: int):
    """Check that the reference allows every move of every lane and gets the same results."""
    rules = go.Rules(games[0].size)
    lay, points = rules.layout, rules.num_points
    positions, key = positions_of(games), jax.random.key(seed)
    num_advances = points // 2 + 8
    stones, played = recorder(rules, num_advances)(positions, key)
    black, white = (boards(lay, board) for board in stones)
    result = compiled(rules, ends=True, first_plays=True)(positions, key)
    actions = np.asarray(playable.action_of(lay, played.move))
    own_plays = compiled(rules, first_plays="same")(positions, key).first_plays
    ends, first_plays, own_plays = (
        [boards(lay, board) for board in both]
        for both in (result.ends, result.first_plays, own_plays)
    )
    owners = engine.ownership(rules, result)
    for lane, game in enumerate(games):
        before, players, opening = game.moves, {}, []
        for advance in range(num_advances):
            moves = actions[advance, np.asarray(played.played[advance, :, lane]), lane]
            opening.extend(moves[: 1 - len(opening)])
            for point, movers in replay(game, moves).items():
                players.setdefault(point, []).extend(movers)
            board = np.array(game.board)
            np.testing.assert_array_equal(black[advance, lane], board == BLACK)
            np.testing.assert_array_equal(white[advance, lane], board == WHITE)
            if game.passes >= 2:
                break
        assert game.moves - before == result.moves[lane]
        assert (game.passes >= 2) == result.finished[lane]
        assert result.finished[lane] or result.moves[lane] == engine.move_cap(rules)
        assert game.area() == result.score[lane] == owners[lane].sum()
        assert result.first_action[lane] == (opening[0] if opening else bb.NO_POINT)
        for colour, end, masks in zip((BLACK, WHITE), ends, first_plays, strict=True):
            np.testing.assert_array_equal(end[lane], np.array(game.board) == colour)
            expected = {point for point, movers in players.items() if movers[0] == colour}
            assert set(np.flatnonzero(masks[lane])) == expected
        for colour, masks in zip((BLACK, WHITE), own_plays, strict=True):
            expected = {point for point, movers in players.items() if colour in movers}
            assert set(np.flatnonzero(masks[lane])) == expected
    return result


@pytest.mark.parametrize(
    ("size", "count"),
    [
        (2, 40),
        pytest.param(5, 16, marks=pytest.mark.thorough),
        pytest.param(9, 6, marks=pytest.mark.thorough),
        pytest.param(16, 3, marks=pytest.mark.slow),
    ],
)
def test_every_move_of_a_playout_is_the_references(size, count):
    empty = [ReferenceGame(size, ko="simple") for _ in range(count // 2)]
    games = empty + random_games(size, count - len(empty), seed=size)
    check_against_reference(games, seed=size)


@pytest.mark.slow
@pytest.mark.parametrize("size", [*range(3, 26)])
def test_every_move_of_a_playout_is_the_references_at_all_sizes(size):
    check_against_reference(random_games(size, 3, seed=size), seed=size)


def test_cycling_playouts_are_truncated_at_the_cap():
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


@pytest.mark.parametrize(
    "lanes", [*(pytest.param(n, marks=pytest.mark.thorough) for n in (1, 3)), 13]
)  # 13 are padded to 16 on a CPU
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
        assert_same(*(jax.tree.map(lambda x: x[:lanes], both) for both in (result, whole)))


@pytest.mark.parametrize(
    "lanes",
    [
        pytest.param(1, marks=pytest.mark.slow),
        5,
        *(pytest.param(n, marks=pytest.mark.thorough) for n in (16, 40)),
    ],
)
def test_results_do_not_depend_on_the_number_of_lanes(lanes):
    rules, key = go.Rules(5), jax.random.key(7)
    positions = positions_of(random_games(5, 16, seed=1) + [game_of(SETTLED, passes=2)] * 3)
    at_once = compiled(rules, ends=True, first_plays=True)(positions, key)
    assert_same(compiled(rules, ends=True, first_plays=True, lanes=lanes)(positions, key), at_once)


def test_the_width_of_a_block(monkeypatch):
    width = lambda count, lanes=None: engine._block_width(whole_board.UNIFORM, lanes, count)
    monkeypatch.setattr(engine.mode, "backend", lambda: "cpu")
    assert [width(n) for n in (1, 8, 12, 20, 24, 50, 64)] == [1, 8, 16, 20, 32, 64, 64]
    assert [width(n) for n in (257, 600)] == [144, 208]  # two blocks and three
    assert [width(50, lanes) for lanes in (1, 20, 50, 60, 100)] == [1, 20, 50, 60, 64]
    monkeypatch.setattr(engine.mode, "backend", lambda: "tpu")
    assert [width(n) for n in (12, 50, 600)] == [12, 50, 600]


def test_the_last_lanes_of_a_block_finish_in_smaller_blocks():
    rules, key = go.Rules(5), jax.random.key(7)
    positions = empty_boards(rules, 80)
    at_once = compiled(rules, ends=True, first_plays=True)(positions, key)
    assert len(set(at_once.moves.tolist())) > 10  # some playouts end long before others
    assert_same(compiled(rules, ends=True, first_plays=True, lanes=16)(positions, key), at_once)


def test_parts_of_a_batch_with_ids_equal_the_batch():
    rules, key = go.Rules(5), jax.random.key(7)
    positions = empty_boards(rules, 16)
    whole = compiled(rules)(positions, key)
    run = jax.jit(lambda positions, ids: uniform.uniform_playouts(rules, positions, key, ids=ids))
    for part in (slice(0, 8), slice(8, 16)):
        ids = jnp.arange(16, dtype=jnp.uint32)[part]
        assert_same(
            run(jax.tree.map(lambda x, part=part: x[part], positions), ids),
            jax.tree.map(lambda x, part=part: x[part], whole),
        )


def check_policies_agree(size: int, count: int, flood_sweeps: int = window.FLOOD_SWEEPS):
    rules, key = go.Rules(size), jax.random.key(size)
    games = random_games(size, count // 2, seed=size)
    positions = positions_of(games + [ReferenceGame(size, ko="simple")] * (count - len(games)))
    run = functools.partial(uniform.uniform_playouts, rules, ends=True, first_plays=True)
    results = []
    for fits in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(window, "FLOOD_SWEEPS", flood_sweeps)
            patch.setattr(window, "fits", lambda lay, fits=fits: fits)
            results.append(jax.jit(lambda *args: run(*args))(positions, key))
    assert_same(*results)


def captures(size: int, count: int, seed: int):
    """(games before a play that captures, as boards with `ko_point`, and the plays), with the
    games after them."""
    rng, before, plays, after = random.Random(seed), [], [], []
    for _ in range(count):
        game = ReferenceGame(size, ko="simple")
        for _ in range(2 * size * size):
            empty = [p for p in range(size * size) if not game.board[p]]
            play = game.first_legal(rng.sample(empty, len(empty)))
            if play is None:
                break
            old = copy.copy(game)
            old.history = game.history[-2:]
            game.play(play)
            if sum(map(bool, game.board)) <= sum(map(bool, old.board)):
                before.append(old)
                plays.append(play)
                after.append(copy.copy(game))
                after[-1].history = game.history[-2:]
    return before, plays, after


@pytest.mark.thorough
def test_a_capture_in_a_window_takes_the_stones_and_makes_a_ko(monkeypatch):
    """On 16x16, where a row of the board is a word; each lane tries the play of its game."""
    rules, cap = go.Rules(16), engine.move_cap(go.Rules(16))
    before, plays, after = captures(16, 2, seed=4)
    moves = jax.vmap(functools.partial(playable.packed_point, rules.layout))(jnp.array(plays))
    monkeypatch.setattr(engine, "random_bits", lambda clock: moves)
    monkeypatch.setattr(playable, "pick", lambda lay, candidates, random: random)

    @jax.jit
    def tried(positions):
        clock = engine.init_clock(positions, jax.random.key(0), engine.lane_ids(len(plays)))
        return window.try_in_window(rules, cap, window.init(rules, positions, clock, False))

    lanes, played = tried(positions_of(before))
    decided = np.flatnonzero(played.played)
    assert len(decided) > len(plays) / 2
    expected = positions_of(after)
    black, white = (boards(rules.layout, board) for board in lanes.stones())
    for i in decided:
        np.testing.assert_array_equal(black[i].astype(int) - white[i], after[i].board)
    kos = jax.vmap(functools.partial(playable.packed_point, rules.layout))(jnp.array(expected.ko))
    np.testing.assert_array_equal(lanes.ko[decided], kos[decided])
    movers = {(before[i].to_play, bool(kos[i])) for i in decided}
    assert movers == {(BLACK, False), (BLACK, True), (WHITE, False), (WHITE, True)}


@pytest.mark.slow
def test_both_policies_play_the_same_games():
    check_policies_agree(16, 60, flood_sweeps=1)  # so that many floods need more sweeps


@pytest.mark.slow
@pytest.mark.parametrize("size", [17, 19, 25])
def test_both_policies_play_the_same_games_at_all_sizes(size):
    check_policies_agree(size, 400)


@pytest.mark.parametrize("size", [5, pytest.param(16, marks=pytest.mark.slow)])
def test_a_truncated_playout_stops_at_its_cap_and_is_scored_as_it_stands(size):
    rules, key = go.Rules(size), jax.random.key(1)
    positions = positions_of([game_of(SETTLED)] * 2 if size == 5 else random_games(size, 4, 1))
    cut = compiled(rules, max_moves=7, ends=True)(positions, key)
    assert np.all(cut.moves <= 7)
    np.testing.assert_array_equal(cut.finished, cut.moves < 7)
    assert size == 5 or not np.any(cut.finished)
    for lane, score in enumerate(cut.score):
        game = ReferenceGame(size)
        black, white = (boards(rules.layout, board)[lane] for board in cut.ends)
        game.board = (black.astype(int) - white).tolist()
        assert game.area() == score


def test_outcomes_are_signs_or_values_of_truncated_playouts():
    playouts = engine.Playouts(
        score=jnp.array([3, 7, 9, 25]),
        moves=jnp.array([9, 9, 9, 9]),
        finished=jnp.array([True, True, True, False]),
        first_action=jnp.zeros(4, jnp.int32),
    )
    komi = jnp.full(4, 7.0)
    assert engine.outcomes(playouts, komi).tolist() == [-1, 0, 1, 1]
    valued = engine.outcomes(playouts, komi, lambda playouts, komi: jnp.full(4, 0.25))
    assert valued.tolist() == [-1, 0, 1, 0.25]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lanes": 0}, "lanes: 0"),
        ({"max_moves": -1}, "max_moves: -1"),
        ({"first_plays": "own"}, "first_plays: 'own' is neither a bool nor one of either, same"),
        ({"ids": jnp.arange(3)}, r"ids: shape \(3,\); expected a number for each .* shape \(2,\)"),
    ],
)
def test_bad_options_are_refused(options, message):
    rules = go.Rules(5)
    with pytest.raises(ValueError, match=message):
        uniform.uniform_playouts(rules, empty_boards(rules, 2), jax.random.key(0), **options)


def test_positions_of_another_size_are_refused():
    positions = empty_boards(go.Rules(3), 2)
    with pytest.raises(ValueError, match=r"boards have \d words, those of 9x9 \d; give the rules"):
        uniform.uniform_playouts(go.Rules(9), positions, jax.random.key(0))


def test_one_position_without_a_batch_is_refused():
    rules = go.Rules(5)
    with pytest.raises(ValueError, match="batch"):
        uniform.uniform_playouts(rules, go.empty_position(rules), jax.random.key(0))


def test_ownership_needs_the_ends():
    rules = go.Rules(5)
    playouts = compiled(rules)(empty_boards(rules, 2), jax.random.key(0))
    with pytest.raises(ValueError, match="ends=True"):
        engine.ownership(rules, playouts)


def test_keys_and_lanes_differ():
    rules = go.Rules(5)
    positions = empty_boards(rules, 500)
    one, other = (compiled(rules)(positions, jax.random.key(seed)) for seed in (0, 1))
    correlation = np.corrcoef(one.moves, other.moves)[0, 1]
    assert abs(correlation) < 0.15
    neighbours = np.corrcoef(one.moves[:-1], one.moves[1:])[0, 1]
    assert abs(neighbours) < 0.15


# --- known averages -------------------------------------------------------------------


def check_averages(size, games, playouts, moves, black_wins, key):
    """Check averages to three standard errors of libEGO's over `games` games at komi 6.5."""
    rules = go.Rules(size)
    result = compiled(rules, lanes=512)(empty_boards(rules, playouts), key)
    two_samples = math.sqrt(1 / games + 1 / playouts)
    assert np.all(result.finished)
    assert abs(result.moves.mean() - moves) < 3 * result.moves.std() * two_samples
    spread = math.sqrt(black_wins * (1 - black_wins))
    assert abs((result.score > 6.5).mean() - black_wins) < 3 * spread * two_samples


@pytest.mark.slow
def test_averages_from_the_empty_9x9_board():
    check_averages(9, 10_000, 20_000, 110.9, 0.444, jax.random.key(0))


@pytest.mark.slow
def test_averages_from_the_empty_19x19_board():
    check_averages(19, 1_000, 2_000, 454.6, 0.476, jax.random.key(0))


# --- the program ----------------------------------------------------------------------


def exported(rules, platforms):
    shape = jax.eval_shape(lambda: empty_boards(rules, 4))
    key = jax.eval_shape(lambda: jax.random.key(0))
    with mode.every_platform():
        return jax.export.export(compiled(rules), platforms=platforms)(shape, key)


def test_exports_for_each_platform_with_barriers_on_the_cpu_only():
    def counts(platform):
        program = exported(go.Rules(9), [platform]).mlir_module()
        return program.count("stablehlo.case"), program.count("xla_cpu_small_call")

    barriers, marks = counts("cpu")
    assert counts("cuda") == counts("tpu")
    assert barriers > counts("tpu")[0]
    assert marks > counts("tpu")[1] == 0


@pytest.mark.parametrize("size", [5, pytest.param(16, marks=pytest.mark.thorough)])
def test_exports_for_all_platforms_at_once(size):
    assert exported(go.Rules(size), ["cpu", "cuda", "tpu"]).platforms == ("cpu", "cuda", "tpu")


def test_compiled_plainly_playouts_are_the_same(monkeypatch):
    rules, key = go.Rules(5), jax.random.key(3)
    positions = positions_of(random_games(5, 8, seed=3))
    optimized = compiled(rules)(positions, key)
    monkeypatch.setenv(mode.VARIABLE, "plain")
    plain = jax.jit(lambda *args: uniform.uniform_playouts(rules, *args))(positions, key)
    assert_same(plain, optimized)


@pytest.mark.parametrize("size", [9, 16])
def test_a_step_gathers_nothing(size):
    rules = go.Rules(size)
    policy, cap = uniform.policy(rules.layout), engine.move_cap(rules)

    def try_once(lanes):
        if policy is window.UNIFORM:
            return window.try_in_window(rules, cap, lanes)
        return whole_board.step(whole_board._choose, rules, cap, (), lanes)

    def start():
        clock = engine.init_clock(empty_boards(rules, 4), jax.random.key(0), engine.lane_ids(4))
        return policy.init(rules, empty_boards(rules, 4), clock, False)

    step = jax.jit(try_once)
    program = step.lower(jax.eval_shape(start)).as_text()
    assert "gather" not in program
    assert "dynamic_slice" not in program
    assert "while" not in program
