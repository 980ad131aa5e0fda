"""MoGo's playouts beside the plain reference: every move, rule by rule, and whole playouts."""

import collections
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from gozero.go import bitboard as bb
from gozero.go import rules as go
from gozero.playouts import engine, playable
from gozero.playouts.policies import atari_lanes
from gozero.playouts.policies.mogo import move_rules
from gozero.playouts.policies.mogo import playouts as mogo
from tests.hlo import AS_USERS_FUSE
from tests.playouts.positions import (
    SETTLED,
    assert_same,
    boards,
    game_of,
    ko_point,
    last_move,
    positions_in_atari,
    random_games,
)
from tests.reference import mogo as reference
from tests.reference.go import BLACK, WHITE, ReferenceGame

SIZE, STEPS = 5, 110  # of what the default suite compiles


@functools.cache
def compiled(rules: go.Rules, **options):
    """`mogo_playouts` jitted, once for each set of options."""

    def run(positions, last, key):
        return mogo.mogo_playouts(rules, positions, key, last=last, **options)

    return jax.jit(run, compiler_options=AS_USERS_FUSE)


@functools.cache
def stepper(rules: go.Rules, steps: int, config=mogo.PLAIN):
    """A jitted (positions, last, key) -> what each of so many iterations did, [T, ..., B]."""

    def record(positions, last, key):
        clock = engine.init_clock(positions, key, engine.lane_ids(last.shape[0]))
        lanes = atari_lanes.init(rules, positions, clock, False, last)

        def one(lanes, _):
            lanes, answered = mogo.step(config, rules, engine.move_cap(rules), (), lanes)
            return lanes, (answered, lanes.now[:6])

        return jax.lax.scan(one, lanes, length=steps)[1]

    return jax.jit(record)


def words_of(board):
    """u32[T, W, B] -> W words u32[T, B]."""
    return tuple(jnp.moveaxis(board, 1, 0))


class Watched:
    """One lane beside the reference: checks what it does, and keeps what it chose from."""

    def __init__(self, game: ReferenceGame, config: mogo.MogoConfig):
        self.game, self.last, self.config = game, last_move(game), config
        self.rules, self.ranks = collections.Counter(), []
        self.rejects = 0
        self._ask()

    def _ask(self):
        last = None if self.last in (bb.NO_POINT, self.game.size**2) else self.last
        self.rule, self.moves = reference.choices(self.game, last, self.config.nakade)

    def played(self, action: int, rule: int):
        if rule == reference.FILL:  # instead of any move
            assert (self.config.diversity > 0, self.rule) == (True, reference.ANY)
            self.rule, self.moves = rule, reference.open_points(self.game)
        assert (rule, action in self.moves) == (self.rule, True)
        if len(self.moves) > 1:
            rank = sorted(self.moves).index(action)
            self.ranks.append(((rank + 0.5) / len(self.moves) - 0.5) * np.sqrt(12))
            self.ranks[-1] /= np.sqrt(1 - len(self.moves) ** -2)  # of variance 1
        self.rules[rule] += 1
        self.game.play(action)
        self.last = action
        if self.game.passes < 2:
            self._ask()

    def seen(self, own, opponent, atari, ko, endangered, rejected):
        game = self.game
        board = np.array(game.board)
        np.testing.assert_array_equal(own, board == game.to_play)
        np.testing.assert_array_equal(opponent, board == -game.to_play)
        np.testing.assert_array_equal(atari, game.in_atari())
        assert np.flatnonzero(ko).tolist() == [p for p in [ko_point(game)] if p >= 0]
        points = self.last not in (bb.NO_POINT, game.size**2)
        expected = reference.endangered_by(game, self.last) if points else set()
        assert set(np.flatnonzero(endangered)) == expected
        assert not np.any(rejected)

    def rejected(self, rejected):
        """Only what saves nothing is rejected, and only while something is to be saved."""
        saves = self.moves if self.rule == reference.SAVE else set()
        result = set(np.flatnonzero(rejected))
        assert not result & saves
        self.rejects += len(result)


def check_against_reference(
    games: list[ReferenceGame], steps: int, seed: int, config=mogo.PLAIN
) -> list[Watched]:
    """Every move of every lane is one that the reference chooses from, by the same rule."""
    rules = go.Rules(games[0].size)
    last = jnp.array([last_move(game) for game in games])
    positions = positions_in_atari(games)
    answered, seen = stepper(rules, steps, config)(positions, last, jax.random.key(seed))
    actions = np.asarray(playable.action_of(rules.layout, answered.move))
    played, rule = np.asarray(answered.played), np.asarray(answered.rule)
    seen = [boards(rules.layout, words_of(board)) for board in seen]
    watched = [Watched(game, config) for game in games]
    for lane, one in enumerate(watched):
        for t in range(steps):
            if one.game.passes >= 2:
                break
            if played[t, lane]:
                one.played(int(actions[t, lane]), int(rule[t, lane]))
                one.seen(*(board[t, lane] for board in seen))
            else:
                one.rejected(seen[-1][t, lane])
    return watched


def check_ranks_and_rules(watched: list[Watched]):
    """Check that all rules occurred and choices were uniform, by mean and spread of ranks."""
    rules = sum((one.rules for one in watched), collections.Counter())
    assert set(rules) == {1, 2, 3, 4}
    ranks = np.concatenate([one.ranks for one in watched])
    assert abs(ranks.mean()) < 3.5 / np.sqrt(len(ranks))
    assert abs(ranks.var() - 1) < 3.5 * 0.9 / np.sqrt(len(ranks))
    print(dict(rules), "rejects", sum(one.rejects for one in watched), "ranks", ranks.mean())


def games_to_watch(size: int, count: int, seed: int) -> list[ReferenceGame]:
    empty = [ReferenceGame(size, ko="simple") for _ in range(count // 2)]
    return empty + random_games(size, count - len(empty), seed)


def test_every_move_matches_the_reference():
    check_ranks_and_rules(check_against_reference(games_to_watch(SIZE, 60, 1), STEPS, seed=1))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "count", "steps"),
    [
        (2, 60, 30),
        (3, 60, 40),
        (4, 60, 80),
        (7, 80, 120),
        (9, 60, 200),
        (11, 12, 280),
        (13, 16, 400),
        (16, 4, 500),
        (19, 8, 700),
    ],
)
def test_every_move_matches_the_reference_at_more_sizes(size, count, steps):
    watched = check_against_reference(games_to_watch(size, count, size), steps, seed=size)
    if size > 4:
        check_ranks_and_rules(watched)


# --- whole playouts -------------------------------------------------------------------


def batch(size: int, count: int, seed: int):
    games = games_to_watch(size, count, seed)
    return positions_in_atari(games), jnp.array([last_move(game) for game in games])


@pytest.mark.thorough
def test_whole_playouts_equal_their_steps():
    rules, key = go.Rules(SIZE), jax.random.key(1)
    positions, last = batch(SIZE, 60, seed=1)
    answered, seen = stepper(rules, STEPS)(positions, last, key)
    result = compiled(rules, ends=True, first_plays=True)(positions, last, key)
    own, opponent = (boards(rules.layout, words_of(board)) for board in seen[:2])
    actions = np.asarray(playable.action_of(rules.layout, answered.move))
    played = np.asarray(answered.played)
    whole = (result.moves > 0) & (result.moves == played.sum(axis=0)) & result.finished
    assert whole.sum() > 50
    own_plays = compiled(rules, first_plays="same")(positions, last, key).first_plays
    ends, firsts, own_plays = (
        [boards(rules.layout, board) for board in both]
        for both in (result.ends, result.first_plays, own_plays)
    )
    for lane in np.flatnonzero(whole):
        moves = actions[played[:, lane], lane]
        assert moves[0] == result.first_action[lane]
        movers = (np.arange(len(moves)) + positions.to_play[lane]) % 2
        black_is_next = (positions.to_play[lane] + len(moves)) % 2 == 0
        black, white = (own, opponent) if black_is_next else (opponent, own)
        np.testing.assert_array_equal(ends[0][lane], black[-1, lane])
        np.testing.assert_array_equal(ends[1][lane], white[-1, lane])
        game = ReferenceGame(SIZE)
        game.board = (black[-1, lane].astype(int) - white[-1, lane]).tolist()
        assert game.area() == result.score[lane]
        first = {}
        for move, mover in zip(moves, movers, strict=True):
            if move < SIZE**2:
                first.setdefault(int(move), int(mover))
        for colour in (0, 1):
            expected = {point for point, mover in first.items() if mover == colour}
            assert set(np.flatnonzero(firsts[colour][lane])) == expected
            expected = set(moves[(movers == colour) & (moves < SIZE**2)].tolist())
            assert set(np.flatnonzero(own_plays[colour][lane])) == expected


@pytest.mark.thorough
@pytest.mark.parametrize("lanes", [16, pytest.param(1, marks=pytest.mark.slow)])
def test_results_do_not_depend_on_lanes_or_neighbours(lanes):
    rules, key = go.Rules(SIZE), jax.random.key(1)
    positions, last = batch(SIZE, 60, seed=1)
    whole = compiled(rules, ends=True, first_plays=True)(positions, last, key)
    part = jax.tree.map(lambda x: x[7:30], (positions, last))
    run = jax.jit(
        lambda p, last, ids: mogo.mogo_playouts(
            rules, p, key, last=last, lanes=lanes, ids=ids, ends=True, first_plays=True
        )
    )
    few = run(*part, jnp.arange(7, 30, dtype=jnp.uint32))
    assert_same(few, jax.tree.map(lambda x: x[7:30], whole))


def test_bad_last_moves_are_refused():
    rules = go.Rules(SIZE)
    positions, last = batch(SIZE, 4, seed=1)
    with pytest.raises(ValueError, match=r"last: shape \(3,\); expected .* shape \(4,\)"):
        mogo.mogo_playouts(rules, positions, jax.random.key(0), last=last[:3])


# --- golden cases: a position, its last move, and the moves to choose from --------------


class Case:
    """A diagram in which `last` is what the opponent played last and `*` marks the choices."""

    def __init__(self, diagram: str, rule: int, last: tuple | None = None, to_play=BLACK, ko=None):
        self.game = game_of(diagram.replace("*", "."), to_play, ko=ko)
        rows = diagram.split()
        points = [(i, j) for i in range(len(rows)) for j in range(len(rows))]
        self.moves = {i * len(rows) + j for i, j in points if rows[i][j] == "*"}
        self.rule = rule
        self.last = bb.NO_POINT if last is None else last[0] * len(rows) + last[1]


CASES = {
    "save: the chain has more liberties after it": Case(
        """
        ..O..
        .OXO.
        ..*..
        .....
        .....
        """,
        move_rules.SAVE,
        last=(1, 1),
    ),
    "save: to extend, or to capture": Case(
        """
        .XO*.
        .OXO.
        ..*..
        .....
        .....
        """,
        move_rules.SAVE,
        last=(1, 1),
    ),
    "save: to capture, as to extend gives but one liberty": Case(
        """
        .*OX.
        .OXOX
        .O.OX
        .....
        .....
        """,
        move_rules.SAVE,
        last=(1, 1),
    ),
    "capture: which would save nothing, and nothing else does": Case(
        """
        X.O..
        OO...
        .....
        ....X
        ...*O
        """,
        move_rules.CAPTURE,
        last=(1, 0),
    ),
    "pattern: two hane and a sagari": Case(
        """
        .....
        *X*..
        .O*..
        .....
        .....
        """,
        move_rules.PATTERN,
        last=(2, 1),
    ),
    "capture: no last move is known": Case(
        """
        .....
        .X...
        .OO.X
        ...XO
        ....*
        """,
        move_rules.CAPTURE,
    ),
    "any: a ko is not to be taken back": Case(
        """
        .XO**
        X.XO*
        *XO**
        *****
        *****
        """,
        move_rules.ANY,
        to_play=WHITE,
        ko=(1, 1),
    ),
    "any: the last move, as said, holds no stone of the opponent": Case(
        """
        *****
        *X***
        *****
        *****
        *****
        """,
        move_rules.ANY,
        last=(1, 1),
    ),
    "any: nothing but eyes, so a pass": Case(SETTLED, move_rules.ANY, to_play=WHITE),
}


@pytest.mark.parametrize("name", CASES)
def test_the_first_action_is_uniform_over_the_first_applicable_rule(name):
    case, lanes = CASES[name], 4000
    rules = go.Rules(SIZE)
    one = (positions_in_atari([case.game]), jnp.array([case.last]))
    positions, last = jax.tree.map(lambda x: jnp.repeat(x, lanes, axis=0), one)
    first = compiled(rules, max_moves=1)(positions, last, jax.random.key(1)).first_action
    counts = np.bincount(first, minlength=rules.num_actions)
    actions = sorted(case.moves) or [rules.pass_action]
    assert np.flatnonzero(counts).tolist() == actions
    assert len(actions) == 1 or stats.chisquare(counts[actions]).pvalue > 1e-3


@pytest.mark.parametrize("name", CASES)
def test_the_reference_on_golden_cases(name):
    case = CASES[name]
    holds_theirs = case.last >= 0 and case.game.board[case.last] == -case.game.to_play
    last = case.last if holds_theirs else None
    expected = case.moves or {SIZE**2}
    assert reference.choices(case.game, last) == (case.rule, expected)
