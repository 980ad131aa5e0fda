"""Self-play against its games replayed on the plain references of Go and Connect Four."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.games.connect_four import connect_four_game
from gozero.games.go import go_game
from gozero.games.rollouts import rollout_evaluator
from gozero.go import bitboard as bb
from gozero.go.rules import Rules
from gozero.play import resignation, searches, selfplay
from gozero.play.evaluators import make_evaluator
from gozero.play.openings import Openings
from gozero.play.resignation import ResignConfig
from gozero.play.selfplay_config import PlayoutCap, SelfPlayConfig
from gozero.search.config import Ensemble, SearchConfig
from gozero.search.game import Heuristic
from gozero.search.move_choice import Temperature
from gozero.search.rules.forced import ForcedPlayouts
from gozero.search.rules.gumbel import GumbelRoot
from gozero.search.search import SearchResult
from tests.go.boards import unpack
from tests.reference.connect_four import ConnectFour
from tests.reference.go import ReferenceGame
from tests.search.evaluators import hash_evaluate, observe_position

RULES = Rules(size=4, max_moves=20)
KOMI = 1.5
EVALUATOR = make_evaluator(RULES, "playout")
GAME = go_game(RULES)
OPENING_MOVES = 6
CONFIG = selfplay.SelfPlayConfig(
    game=GAME,
    batch=3,
    search=searches.puct_search(GAME, EVALUATOR, num_simulations=8),
    komi=KOMI,
    num_games=7,
    temperature=Temperature(moves=OPENING_MOVES),
    stagger=0,
)


@functools.cache
def play_moves():
    return selfplay.make_play_moves(CONFIG, EVALUATOR, num_moves=10)


@functools.cache
def games(seed=5):
    """({game number: its rows} with all games finished, the number of moves that did not count)."""
    return played(CONFIG, play_moves(), seed)


def played(config, play, seed):
    lanes, found, idle = selfplay.start(config, seed), {}, 0
    for _ in range(20):
        lanes, rows = play(None, lanes)
        rows = jax.tree.map(np.asarray, rows)
        for t, lane in np.ndindex(rows.game.shape):
            row = jax.tree.map(lambda x, t=t, lane=lane: x[t, lane], rows)
            idle += int(row.game == selfplay.NO_GAME)
            if row.game != selfplay.NO_GAME:
                found.setdefault(int(row.game), []).append(row)
        if sum(bool(rows[-1].ended) for rows in found.values()) == config.num_games:
            return found, idle
    raise AssertionError("the games did not end")


def test_the_noise_of_selfplay_scales_with_the_number_of_points():
    """0.03 on 19x19: 10.83 / 81 on 9x9, without the pass; 10.83 / 7 in Connect Four."""
    for game, alpha in ((go_game(Rules(size=9)), 0.133704), (connect_four_game(), 1.547143)):
        search = searches.puct_search(game, EVALUATOR, num_simulations=8)
        assert search.dirichlet_fraction == 0.25
        assert search.dirichlet_alpha == pytest.approx(alpha, abs=1e-6)


def test_every_game_is_played_once_and_to_its_end():
    found, idle = games()
    assert sorted(found) == list(range(7))
    for rows in found.values():
        assert [bool(row.ended) for row in rows] == [False] * (len(rows) - 1) + [True]
    assert idle > 0  # seven games in three lanes: lanes also play games that do not count


def stones_of(position):
    """The stones: +1 Black, -1 White, 0 empty."""
    black, white = (unpack(RULES.layout, board) for board in (position.black, position.white))
    return black.astype(int) - white


@pytest.mark.parametrize("number", range(7))
def test_rows_match_the_reference(number):
    rows = games()[0][number]
    game = ReferenceGame(4)
    for i, row in enumerate(rows):
        position = row.position
        np.testing.assert_array_equal(stones_of(position), game.board)
        np.testing.assert_array_equal(row.legal, game.legal())
        assert position.ply == i
        assert position.to_play == (0 if game.to_play == 1 else 1)
        assert row.policy_target.sum() == pytest.approx(1.0, abs=1e-6)
        assert (row.policy_target[~row.legal] == 0).all()
        assert row.legal[row.action]
        assert bool(row.ok)
        game.play(int(row.action))
    last = rows[-1]
    assert game.passes >= 2 or len(rows) == RULES.move_limit
    assert bool(last.truncated) == (game.passes < 2)
    assert last.score == game.area() - KOMI


def test_a_new_game_starts_from_an_empty_board():
    for rows in games()[0].values():
        first = rows[0].position
        assert first.ply == first.passes == first.to_play == 0
        assert first.ko == bb.NO_POINT
        assert not np.any(first.black) | np.any(first.white) | np.any(first.atari)
        assert rows[0].legal.all()


def test_after_the_opening_the_most_visited_move_is_played():
    for rows in games()[0].values():
        for row in rows[OPENING_MOVES:]:
            assert row.policy_target[row.action] == row.policy_target.max()


def test_same_seed_same_games_other_seed_others():
    def moves(seed):
        _, rows = play_moves()(None, selfplay.start(CONFIG, seed))
        return np.asarray(rows.action)

    np.testing.assert_array_equal(moves(1), moves(1))
    assert (moves(1) != moves(2)).any()


def test_a_lane_keeps_its_past_after_a_reset():
    """A reset changes the length only: the old game's boards stay in the array, unused."""
    lanes, _ = play_moves()(None, selfplay.start(CONFIG, 5))
    while not (np.asarray(lanes.game) >= CONFIG.batch).any():
        lanes, _ = play_moves()(None, lanes)
    lane = int(np.argmax(np.asarray(lanes.game) >= CONFIG.batch))
    ply = int(lanes.states.position.ply[lane])
    beyond = np.asarray(lanes.states.past.boards[lane, ply + 1 :])
    assert not np.asarray(lanes.states.past.boards[lane, 0]).any()
    assert ply >= RULES.move_limit - 1 or beyond.any()


@pytest.mark.slow
def test_trees_are_reused_and_memory_stays_flat():
    game = go_game(dataclasses.replace(RULES, ko="simple"))  # faster to compile
    evaluator = EVALUATOR._replace(observe=observe_position, evaluate=hash_evaluate(17, 1.0, 0.2))
    search = searches.puct_search(game, evaluator, num_simulations=8, reuse_subtree=True)
    config = dataclasses.replace(CONFIG, game=game, search=search, reuse_subtree=True)
    play = selfplay.make_play_moves(config, evaluator, num_moves=10)
    lanes, finer, sizes = selfplay.start(config, 5), 0, []
    ends = np.zeros(config.batch, int)
    for _ in range(6):
        lanes, rows = play(None, lanes)
        rows = jax.tree.map(np.asarray, rows)
        assert rows.ok.all()  # every tree matched its lane's position
        assert np.take_along_axis(rows.legal, rows.action[..., None], -1).all()
        finer += int((rows.policy_target * 8 % 1 > 1e-3).any(axis=-1).sum())
        ends += rows.ended.sum(axis=0)
        sizes.append(sum(x.nbytes for x in jax.live_arrays()))
    assert finer > 50  # shares finer than a move's eight visits allow
    assert (ends > 0).all()
    assert len(set(sizes)) == 1
    assert play._cache_size() == 1
    memory = selfplay.memory(config)
    assert memory.tree == sum(x.nbytes for x in jax.tree.leaves(lanes.tree))
    assert memory.total == 3 * memory.tree


def test_the_memory_counts_a_heuristics_counts():
    config = dataclasses.replace(
        CONFIG, search=CONFIG.search.for_reuse, reuse_subtree=True, prior_counts=True
    )
    tree = jax.eval_shape(lambda: selfplay.start(config, 0)).tree
    assert tree.prior_counts is not None
    sizes = (x.size * x.dtype.itemsize for x in jax.tree.leaves(tree))
    assert selfplay.memory(config).tree == sum(sizes)


def a_search_that_finds(best_by_visits, best_by_target, action):
    """A fake `search`: all is legal; `best_by_visits` has most visits, `best_by_target` the largest
    policy target, and `action` is to be played."""

    def search(game, evaluator, key, states, config, tree, keep_tree):
        assert tree is None
        assert not keep_tree
        ones = jnp.ones((CONFIG.batch, 17), jnp.int32)
        return SearchResult(
            action=ones[:, 0] * action,
            visits=ones.at[:, best_by_visits].set(50),
            q=ones * 0.0,
            policy_target=(ones / 20).at[:, best_by_target].set(0.2),
            value=ones[:, 0] * 0.0,
            ok=ones[:, 0] > 0,
            tree=None,
            prior=ones * 0.0,
            raw_value=ones[:, 0] * 0.0,
        )

    return search


@pytest.mark.parametrize(
    ("root_rule", "played"), [(GumbelRoot(), 5), (ForcedPlayouts(), 4), (None, 3)]
)
def test_the_root_rules_action_is_played(monkeypatch, root_rule, played):
    """Or that of most visits; with forced visits, of most visits without these."""
    monkeypatch.setattr(selfplay, "search", a_search_that_finds(3, 4, action=5))
    search = SearchConfig(2, root_select=root_rule)
    game = go_game(dataclasses.replace(RULES, ko="simple"))
    config = dataclasses.replace(CONFIG, game=game, search=search, temperature=Temperature(moves=0))
    lanes, rows = selfplay.make_play_moves(config, EVALUATOR, 1)(None, selfplay.start(config, 1))
    assert rows.action.tolist() == [[played] * 3]
    assert not (lanes.states.position.to_play != 1).any()


@pytest.mark.thorough
def test_trees_are_reused_with_a_heuristic_whose_values_count():
    def evaluate(params, key, observations):
        evaluation = EVALUATOR.evaluate(params, key, observations)
        value = jnp.zeros_like(evaluation.prior_logits)
        return evaluation._replace(heuristic=Heuristic(value, value.astype(jnp.int32) + 5))

    config = dataclasses.replace(CONFIG, search=SearchConfig(2).for_reuse, reuse_subtree=True)
    evaluator = EVALUATOR._replace(evaluate=evaluate)
    with pytest.raises(ValueError, match=r"prior_counts=True, an argument of .* SelfPlayConfig"):
        selfplay.make_play_moves(config, evaluator, 1)(None, selfplay.start(config, 1))
    config = dataclasses.replace(config, prior_counts=True)
    _, rows = selfplay.make_play_moves(config, evaluator, 1)(None, selfplay.start(config, 1))
    assert rows.ok.all()


def test_the_temperatures_schedule():
    halves = Temperature(1.0, 0.1, halflife=4)
    assert dataclasses.replace(CONFIG, temperature=halves).schedule == halves
    unsaid = dataclasses.replace(CONFIG, temperature=None)
    assert unsaid.schedule == Temperature(1.0, 0.0, 6)  # 30 on 19x19
    assert dataclasses.replace(unsaid, game=go_game(Rules(19))).schedule == Temperature()
    gumbel = dataclasses.replace(unsaid, search=SearchConfig(root_select=GumbelRoot()))
    assert gumbel.schedule.moves == 0
    four = SelfPlayConfig(connect_four_game(), 2, SearchConfig())
    assert four.schedule.moves == 10


@pytest.mark.parametrize(
    ("field", "value"),
    [("num_games", 0), ("batch", 0), ("komi", 0.3), ("batch", 2**30)],
)
def test_bad_settings(field, value):
    with pytest.raises(ValueError, match=field):
        dataclasses.replace(CONFIG, **{field: value})


def test_rows_need_whole_searches():
    with_search = functools.partial(dataclasses.replace, CONFIG)
    with pytest.raises(ValueError, match="search: early_stop"):
        with_search(search=SearchConfig(early_stop=True))
    with pytest.raises(ValueError, match="search: prove"):
        with_search(search=SearchConfig(prove=True))
    with pytest.raises(ValueError, match="search: prune"):
        with_search(search=SearchConfig(8, capacity=4, prune=True))
    with_search(search=SearchConfig(8, prune=True))  # has room for all
    with pytest.raises(ValueError, match=r"^tree: .*GumbelRoot"):
        with_search(search=SearchConfig(root_select=GumbelRoot()), reuse_subtree=True)
    with pytest.raises(ValueError, match="reuse_subtree: the search has room for its own nodes"):
        with_search(search=SearchConfig(8), reuse_subtree=True)
    cap = PlayoutCap(SearchConfig(8))
    with pytest.raises(ValueError, match="reuse_subtree: searches with 9, 17 nodes"):
        with_search(search=SearchConfig(8).for_reuse, reuse_subtree=True, cap=cap)
    cap = PlayoutCap(SearchConfig(8, root_select=GumbelRoot()).for_reuse)
    with pytest.raises(ValueError, match=r"^tree: .*GumbelRoot"):
        with_search(search=SearchConfig(8).for_reuse, reuse_subtree=True, cap=cap)
    with pytest.raises(ValueError, match="an ensemble has several"):
        with_search(search=SearchConfig(ensemble=Ensemble(2)))


@pytest.mark.thorough
def test_games_are_numbered_in_order_up_to_the_limit():
    lanes = selfplay.start(CONFIG, 0)
    assert lanes.game.tolist() == [0, 1, 2]
    assert int(lanes.next_game) == 3
    two = dataclasses.replace(FOUR, num_games=2)
    play = selfplay.make_play_moves(two, FOUR_EVALUATOR, 1)
    _, rows = play(None, selfplay.start(two, 0))
    assert rows.game.tolist() == [[0, 1, selfplay.NO_GAME]]


FOUR_GAME = connect_four_game(5, 4)
FOUR_EVALUATOR = rollout_evaluator(FOUR_GAME)
FOUR = SelfPlayConfig(
    FOUR_GAME,
    batch=3,
    search=SearchConfig(8).for_reuse,
    num_games=6,
    reuse_subtree=True,
    temperature=Temperature(moves=0),
    openings=Openings(1, 2, last_only=True),
    resign=ResignConfig(0.5, 8),
    stagger=0,
)


@pytest.mark.thorough
def test_each_call_calibrates_the_threshold_of_resignation():
    config = dataclasses.replace(FOUR, resign=ResignConfig(1.0, 64))
    lanes = selfplay.start(config, 1)
    records = lanes.resignation.records
    assert records.winner_lowest.shape == (64,)
    lowest = np.where(np.arange(64) < 40, np.float32(-0.8), np.float32(np.inf))
    known = records.replace(
        winner_lowest=jnp.where(lowest < 0, 1.0, jnp.inf), loser_lowest=jnp.asarray(lowest)
    )
    lanes = lanes.replace(resignation=lanes.resignation.replace(records=known))
    assert float(lanes.resignation.threshold) == resignation.NEVER
    lanes, _ = selfplay.make_play_moves(config, FOUR_EVALUATOR, 1)(None, lanes)
    assert float(lanes.resignation.threshold) == -0.5


@pytest.mark.thorough
def test_any_game_is_played():
    """Connect Four on 5x4, with every feature of self-play, against the plain reference."""
    play = selfplay.make_play_moves(FOUR, FOUR_EVALUATOR, 10)
    found, idle = played(FOUR, play, 1)
    assert sorted(found) == list(range(6))
    assert idle > 0
    drawn = []
    for rows in found.values():
        plain = ConnectFour(5, 4)
        opening = sum(not row.counts for row in rows)
        for i, row in enumerate(rows):
            assert row.ply == i
            assert row.legal.tolist() == plain.legal()
            assert row.counts == (i >= opening)
            if i == opening - 1:
                drawn.append(_best(row))
            elif not row.resigned:
                assert _best(row)
            assert row.komi is row.score is row.area is row.truncated is None
            if row.resigned:
                plain.winner, plain.over = -plain.to_play, True
            else:
                assert row.legal[row.action]
                plain.play(int(row.action))
            assert row.ended == plain.over
        assert row.outcome == plain.winner
        assert opening in (1, 2)
    assert not all(drawn)


def _best(row) -> bool:
    """Whether the action played is among the most visited."""
    return row.policy_target[row.action] == row.policy_target.max()


def test_lanes_start_at_different_plies():
    lanes = selfplay.start(dataclasses.replace(FOUR, batch=32, stagger=None), 3)
    stones = sum(jax.lax.population_count(word) for words in lanes.states for word in words)
    np.testing.assert_array_equal(stones, lanes.ply)
    assert len(set(lanes.ply.tolist())) > 5


def test_komi_needs_a_game_with_points():
    with pytest.raises(ValueError, match="komi: 7; this game has no points"):
        dataclasses.replace(FOUR, komi=7.0)
    with pytest.raises(ValueError, match="komi: empty"):
        dataclasses.replace(CONFIG, komi=())


@pytest.mark.thorough
def test_the_root_value_may_be_the_policys():
    """With PUCT the target is the visits, so only the root's own evaluation is not in it."""
    plain = SelfPlayConfig(FOUR_GAME, batch=3, search=SearchConfig(8), stagger=0)
    lanes, moves = selfplay.start(plain, seed=3), {}
    for kind in ("mean", "policy"):
        config = dataclasses.replace(plain, root_value=kind)
        one = jax.jit(functools.partial(selfplay.move, config, FOUR_EVALUATOR))
        moves[kind] = one(FOUR_EVALUATOR.params, lanes)[1]
    count, raw = plain.search.num_simulations, moves["mean"].raw_value
    expected = ((count + 1) * moves["mean"].root_value - raw) / count
    np.testing.assert_allclose(moves["policy"].root_value, expected, atol=1e-3)
    assert np.abs(moves["policy"].root_value - moves["mean"].root_value).max() > 0.02
    with pytest.raises(ValueError, match="root_value: 'best' is not one of mean, policy"):
        dataclasses.replace(CONFIG, root_value="best")
