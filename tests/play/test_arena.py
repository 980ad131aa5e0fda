"""Matches on the device, replayed on the plain reference."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.games.registry import make_game
from gozero.games.rollouts import rollout_evaluator
from gozero.go import rules as go
from gozero.go import scoring
from gozero.play import arena, openings, player
from gozero.play.evaluators import playout_evaluator
from gozero.play.player import Choice, Player, policy_player, random_player
from gozero.search.config import Ensemble, SearchConfig
from gozero.search.game import NO_ACTION, Evaluation, Game
from tests.reference.go import BLACK, WHITE, ReferenceGame
from tests.search.evaluators import hash_evaluate, observe_position

RULES = go.Rules(size=5, max_moves=44)
SIMPLE = go.Rules(size=5, max_moves=44, ko="simple")  # its search compiles in half the time
GAMES, SIMULATIONS = 16, 64  # the same for all matches here, so that shapes are shared
KOMI = np.tile([0.5, 3.0, -2.0, 5.5], GAMES // 4)
PASS = RULES.pass_action
EVALUATOR = playout_evaluator(RULES)
RANDOM = random_player(RULES)
LOWEST = policy_player(lambda params, key, turn: jnp.argmax(turn.legal, axis=1))
HIGHEST = policy_player(
    lambda params, key, turn: PASS - 1 - jnp.argmax(turn.legal[:, -2::-1], axis=1)
)
"""Play the first and the last legal point; HIGHEST names a point even if none is legal."""


def play(first=RANDOM, second=RANDOM, seed=0, rules=RULES, **more):
    more = {"num_games": GAMES, "komi": KOMI} | more
    return arena.play_match(rules, first, second, jax.random.key(seed), **more)


def by_area():
    """An evaluator by the current area score, which compiles faster than playouts."""

    def observe(state, position, ancestors):
        ahead = scoring.area_difference(SIMPLE, position) - state.komi
        return jnp.where(position.to_play == 0, ahead, -ahead)

    def evaluate(params, key, ahead):
        return Evaluation(jnp.zeros((ahead.shape[0], SIMPLE.num_actions)), jnp.tanh(ahead / 5))

    return EVALUATOR._replace(observe=observe, evaluate=evaluate)


@functools.cache
def searched():
    config = SearchConfig(SIMULATIONS, select=EVALUATOR.select)
    return play(player.search_player(SIMPLE, by_area(), config), seed=3, rules=SIMPLE)


@functools.cache
def random_games():
    return play(seed=1)


def replay(match, number, ko="positional"):
    """The reference's game after a game's moves, all of them checked to be legal."""
    game = ReferenceGame(5, ko)
    for colour, action in match.moves(number):
        assert game.passes < 2
        assert game.to_play == (BLACK, WHITE)[colour]
        assert game.is_legal(action)
        game.play(action)
    return game


@pytest.mark.parametrize(
    ("match", "ko"),
    [
        pytest.param(searched, "simple", marks=pytest.mark.thorough),
        (random_games, "positional"),
    ],
)
def test_games_match_the_reference(match, ko):
    match = match()
    ends = set()
    for number in range(GAMES):
        game = replay(match, number, ko)
        assert match.plies[number] == game.moves == len(match.moves(number))
        assert (game.moves == RULES.move_limit) | (game.passes == 2)
        assert match.truncated[number] == (game.passes < 2)
        assert match.score[number] == game.area() - KOMI[number]
        for_first = match.score[number] * (1 if match.first_colour[number] == 0 else -1)
        assert match.outcome[number] == np.sign(for_first)
        ends.add(bool(match.truncated[number]))
    assert match.ok.all()
    assert match.actions.dtype == np.int16
    assert len(match.actions) == match.plies.max()
    assert match.start.komi.tolist() == KOMI.tolist()
    assert match is searched() or ends == {False, True}


def test_a_search_beats_random_play():
    summary = searched().summary()
    assert summary.total.wins >= GAMES - 3
    assert summary.as_black.games == summary.as_white.games == GAMES // 2
    assert summary.interval[0] > 0.5


@pytest.mark.slow
def test_a_search_with_playouts_beats_random_play():
    config = SearchConfig(SIMULATIONS, select=EVALUATOR.select)
    match = play(player.search_player(RULES, EVALUATOR, config), seed=3)
    assert match.summary().total.wins >= GAMES - 1
    assert match.ok.all()


def test_draws_are_real():
    passing = policy_player(lambda params, key, turn: jnp.full(GAMES // 2, PASS))
    match = play(passing, passing, openings=0, komi=np.tile([0.0, 1.0, -1.0, 0.5], GAMES // 4))
    assert match.outcome.tolist() == [0, 1, 1, 1] * (GAMES // 4)  # White has games 1, 3, 5 ...
    assert match.points[:2].tolist() == [0.5, 1.0]
    assert match.summary().total.draws == GAMES // 4
    assert match.actions.tolist() == [[PASS] * GAMES] * 2


def test_same_key_same_games_other_key_others():
    again, other = play(seed=1), play(seed=2)
    for name in ("actions", "score", "plies", "first_colour"):
        np.testing.assert_array_equal(getattr(again, name), getattr(random_games(), name))
    assert (again.actions[:20] != other.actions[:20]).any(axis=0).all()


def test_pairs_share_an_opening_and_swap_colours():
    match = random_games()
    assert match.opening_plies == 2
    opening = match.actions[:2]
    np.testing.assert_array_equal(opening[:, 0::2], opening[:, 1::2])
    assert len(set(map(tuple, opening.T.tolist()))) > GAMES // 4
    assert (match.actions[2:12, 0::2] != match.actions[2:12, 1::2]).any(axis=0).all()
    assert match.first_colour.tolist() == [0, 1] * (GAMES // 2)
    odd = play(seed=1, openings=3)  # then White moves first after the opening
    assert odd.first_colour.tolist() == [1, 0] * (GAMES // 2)
    np.testing.assert_array_equal(odd.actions[:2], opening)
    # The openings depend on the key, not on the players.
    np.testing.assert_array_equal(play(LOWEST, HIGHEST, seed=1).actions[:2], opening)


def test_players_have_their_reported_colours():
    """Two players whose moves always differ."""
    match = play(LOWEST, HIGHEST, seed=4)
    for number in range(4):
        game = ReferenceGame(5)
        for ply, (colour, action) in enumerate(match.moves(number)):
            points = np.flatnonzero(game.legal()[:-1])
            if ply >= match.opening_plies and len(points):
                of_first = colour == match.first_colour[number]
                assert action == (points[0] if of_first else points[-1])
            game.play(action)
        assert ply > 20


def test_deterministic_players_swapped_play_the_same_games():
    one, other = play(LOWEST, HIGHEST, seed=4, komi=1.0), play(HIGHEST, LOWEST, seed=4, komi=1.0)
    swap = np.arange(GAMES) ^ 1
    np.testing.assert_array_equal(one.actions, other.actions[:, swap])
    np.testing.assert_array_equal(one.score, other.score[swap])
    np.testing.assert_array_equal(one.outcome, -other.outcome[swap])


def test_given_openings():
    """Either colour to move, a finished game, and a different komi for each opening."""
    base = play(LOWEST, HIGHEST, seed=4)
    replayed = [jax.tree.map(lambda x: x[0], base.start)] * (GAMES // 2)
    step = jax.jit(lambda state, action: go.play(RULES, state, action))
    plies = [0, 1, 2, 3, 5, 8, 44, 20]
    for i, count in enumerate(plies):
        for action in base.actions[:count, 0]:
            replayed[i] = step(replayed[i], jnp.int32(action))
    states = jax.tree.map(lambda *x: jnp.stack(x), *replayed)
    states = states.replace(komi=jnp.arange(GAMES // 2) / 2)
    over = np.repeat(np.asarray(jax.vmap(lambda s: s.ended)(states)), 2)
    assert over.tolist() == [False] * 12 + [True] * 2 + [False] * 2
    match = play(LOWEST, HIGHEST, num_games=None, komi=None, openings=states)
    assert match.opening_plies == 0
    assert match.first_colour[0::2].tolist() == [count % 2 for count in plies]
    assert (match.first_colour[1::2] == 1 - match.first_colour[0::2]).all()
    assert match.start.komi.tolist() == np.repeat(np.arange(8) / 2, 2).tolist()
    assert (match.actions[:, over] == NO_ACTION).all()
    assert match.ok.all()
    for number, count in enumerate(np.repeat(plies, 2)):
        game = ReferenceGame(5)
        before = base.actions[:count, 0]
        for action in [*before, *(action for _, action in match.moves(number))]:
            assert game.is_legal(action)
            game.play(action)
        assert match.score[number] == game.area() - number // 2 / 2
        assert match.plies[number] == game.moves


def test_illegal_actions_become_passes():
    wrong = jnp.array([-1, PASS + 1, 0, 2**30, PASS, PASS, PASS, PASS], jnp.int32)
    fixed = policy_player(lambda params, key, turn: wrong)
    match = play(fixed, LOWEST, openings=0, komi=0.5)
    assert match.ok[0::2].tolist() == [False, False, False, False, True, True, True, True]
    assert match.ok[1::2].tolist() == [False, False, False, False, True, True, True, True]
    for number in range(GAMES):
        game = replay(match, number)
        assert game.area() - 0.5 == match.score[number]
    # In game 4 point 0 was legal once; then LOWEST has 1, and so on.
    assert match.actions[:4, 4].tolist() == [0, 1, PASS, 2]
    assert match.actions[:4, 5].tolist() == [0, PASS, 1, PASS]


def test_an_invalid_choice_is_reported():
    def choose(params, key, turn, memory):
        bad = (turn.states.position.ply >= 9) & (jnp.arange(GAMES // 2) == 3)
        return Choice(jnp.argmax(turn.legal, axis=1), ~bad, memory)

    match = play(Player(choose), HIGHEST)
    assert np.flatnonzero(~match.ok).tolist() == [6, 7]


def test_resignation_loses_and_ends_the_game():
    """The first player resigns game 6 at ply 8 and game 7 at ply 9, whatever the score. In games 4
    and 5 its choices to resign are not ok, so they do not count."""

    def choose(params, key, turn, memory):
        late, pair = turn.states.position.ply >= 8, jnp.arange(GAMES // 2)
        action, resigns = jnp.argmax(turn.legal, axis=1), late & ((pair == 2) | (pair == 3))
        action = jnp.where(resigns & (pair == 3), -1, action)  # without a move to play
        return Choice(action, ~(late & (pair == 2)), memory, resigns)

    match = play(Player(choose), HIGHEST)
    usual = play(LOWEST, HIGHEST)
    gone_on = np.ones(GAMES, bool)
    gone_on[6:8] = False
    for name in ("outcome", "score", "plies", "truncated", "resigned"):
        found, expected = getattr(match, name), getattr(usual, name)
        np.testing.assert_array_equal(found[gone_on], expected[gone_on])
    assert (usual.resigned == arena.NO_ONE).all()
    assert match.resigned[6:8].tolist() == match.first_colour[6:8].tolist() == [0, 1]
    assert match.outcome[6:8].tolist() == [-1, -1]
    assert match.plies[6:8].tolist() == [8, 9]
    np.testing.assert_array_equal(match.actions[:8, 6], usual.actions[:8, 6])
    assert (match.actions[8:, 6] == NO_ACTION).all()
    assert np.flatnonzero(~match.ok).tolist() == [4, 5]


def test_players_have_separate_memory_and_see_recent_moves():
    """A player that remembers its turns: what it is told must match what it saw."""

    def begin(params, states):
        return jnp.zeros((3, GAMES // 2), jnp.int32).at[1:].set(NO_ACTION)

    def choose(params, key, turn, memory):
        turns, before, last = memory
        told_right = (turns == 0) | (turn.recent[0] == last) | turn.states.ended
        first = jnp.where(turns == 0, turn.recent[0] == NO_ACTION, True)
        on_time = (turns == (turn.states.position.ply - 2) // 2) | turn.states.ended
        action = jnp.where(turn.legal[:, 7], 7, jnp.argmax(turn.legal, axis=1)).astype(jnp.int32)
        memory = jnp.stack([turns + 1, before, action])
        return Choice(action, told_right & first & on_time, memory)

    assert play(Player(choose, None, begin), RANDOM).ok.all()
    assert play(RANDOM, Player(choose, None, begin)).ok.all()


def test_players_that_differ_by_parameters_share_a_program():
    def policy(params, key, turn):
        after = jnp.argmax(jnp.roll(turn.legal, -params, axis=1), axis=1)
        return (after + params) % RULES.num_actions

    one = policy_player(policy, jnp.int32(3))
    before = arena.choose_actions._cache_size()
    match = play(one, one._replace(params=jnp.int32(11)), openings=0)
    assert match.actions[0].tolist() == [3, 11] * (GAMES // 2)
    assert match.actions[1].tolist() == [11, 3] * (GAMES // 2)
    assert arena.choose_actions._cache_size() == before + 1


def test_progress_is_reported():
    reports = []
    match = play(seed=1, progress=lambda ply, num_open: reports.append((ply, num_open)))
    plies, num_open = zip(*reports, strict=True)
    assert list(plies) == list(range(1, len(reports) + 1))
    lengths = match.plies - match.opening_plies
    assert list(num_open) == [(lengths > ply).sum() for ply in plies]
    assert num_open[-1] == 0


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"num_games": 5}, "num_games: 5"),
        ({"num_games": 0}, "num_games: 0"),
        ({"num_games": None}, "num_games: None"),
        ({"openings": -1}, "openings: -1"),
        ({"openings": 44}, "openings: 44"),
        ({"openings": go.init(RULES)}, r"openings: states of shape \(\)"),
        ({"komi": 0.3}, "komi: 0.3"),
        ({"komi": [0.5, 1.0]}, r"komi: shape \(2,\)"),
    ],
)
def test_bad_settings(more, named):
    with pytest.raises(ValueError, match=named):
        play(**more)


def test_a_threshold_to_resign_at_is_below_even():
    with pytest.raises(ValueError, match=r"resign: 0.5 is not in .-1, 0."):
        player.search_player(RULES, EVALUATOR, SearchConfig(), resign=0.5)


def test_openings_are_for_pairs():
    states = jax.tree.map(lambda x: jnp.stack([x] * 3), go.init(RULES))
    with pytest.raises(ValueError, match="num_games: 16, but 3 openings are for 6"):
        play(openings=states)


@pytest.mark.slow
@pytest.mark.parametrize("trees", [1, 2])
def test_trees_are_reused(trees):
    """A root starts with the visits that it had two plies ago as a grandchild."""
    evaluator = EVALUATOR._replace(
        observe=observe_position, evaluate=hash_evaluate(RULES.num_actions, 1.0, 0.2)
    )
    ensemble = Ensemble(trees, every=None) if trees > 1 else None
    config = SearchConfig(SIMULATIONS, ensemble=ensemble)
    searching = player.search_player(RULES, evaluator, config, reuse_subtree=True)
    seen = []

    def choose(params, key, turn, memory):
        choice = searching.choose(params, key, turn, memory)
        tree = choice.memory
        by_tree = [x.reshape(tree.num_trees, -1) for x in (tree.parent, tree.action, tree.visits)]
        first_of_game = [x[::trees] for x in (*by_tree, tree.size)]
        observed = (*first_of_game, turn.recent, turn.states.ended)
        jax.debug.callback(
            lambda *x: seen.append(list(map(np.asarray, x))), *observed, ordered=True
        )
        return choice

    watched = Player(choose, searching.params, searching.begin)
    match = play(watched, watched)
    jax.effects_barrier()
    assert match.ok.all()  # every tree matched its game's position
    gone_on = 0
    for i, (_, _, visits, _, recent, ended) in enumerate(seen):
        for lane in np.flatnonzero(~ended):
            before = visits_below(seen[i - 4], lane, recent[:, lane]) if i >= 4 else 0
            assert visits[lane, 0] == SIMULATIONS + max(before, 1)
            gone_on += before > 1
    assert gone_on > 100


def visits_below(seen, lane, actions):
    """The visits of the node that two actions lead to; 0 if there is none."""
    parent, action, visits, size, *_ = (x[lane] if len(x) == GAMES // 2 else x for x in seen)
    node = 0
    for wanted in actions:
        actual = np.flatnonzero((parent[:size] == node) & (action[:size] == wanted))
        if not len(actual):
            return 0
        node = actual[actual > 0][0]
    return visits[node]


@functools.cache
def connect_four():
    game = make_game("connect4")
    evaluator = rollout_evaluator(game)
    config = SearchConfig(16, select=evaluator.select)
    return game, player.search_player(game, evaluator, config, reuse_subtree=True)


def replayed(game, actions):
    """(the state after legal actions, its value for the player to move, or None)."""
    state = game.init(jax.random.key(0))
    for action in actions:
        assert not game.outcome(state)[0]
        assert game.legal(state)[action]
        state = game.play(state, jnp.int32(action))
    over, value = game.outcome(state)
    return state, int(value) if over else None


@pytest.mark.thorough
def test_any_game_is_played():
    game, searching = connect_four()
    match = arena.play_match(game, searching, player.random_player(game), jax.random.key(3), 8)
    assert match.ok.all()
    assert match.first_colour.tolist() == [0, 1] * 4
    assert match.summary().total.wins >= 7
    for number in range(8):
        moves = match.moves(number)
        assert [colour for colour, _ in moves] == [ply % 2 for ply in range(len(moves))]
        _, value = replayed(game, [action for _, action in moves])
        mover = len(moves) % 2
        for_first = value if mover == match.first_colour[number] else -value
        assert match.outcome[number] == for_first
        assert match.score[number] == (value if mover == 0 else -value)
        assert match.plies[number] == len(moves)
    np.testing.assert_array_equal(match.actions[:2, 0::2], match.actions[:2, 1::2])
    with pytest.raises(ValueError, match=r"komi: 7.0; this game has no points"):
        arena.play_match(game, searching, searching, jax.random.key(0), 8, komi=7.0)


def test_a_game_that_does_not_end_is_reported():
    endless = Game(
        num_actions=2,
        init=lambda key: jnp.int32(0),
        play=lambda state, action: state + 1,
        legal=lambda state: jnp.ones(2, bool),
        outcome=lambda state: (state < 0, jnp.float32(0)),
        observe=lambda state: state,
        max_moves=5,
    )
    mover = player.random_player(endless)
    with pytest.raises(ValueError, match="game: one lasts longer than its max_moves, 5; its"):
        arena.play_match(endless, mover, mover, jax.random.key(0), 2)
    longest = endless._replace(outcome=lambda state: (state >= 5, jnp.float32(0)))
    start = lambda numbers: np.zeros(len(numbers), np.int32)
    games = arena.play_games(
        longest, (mover, mover), jax.random.key(0), [*range(12)], lambda number: 0, 1, start, None
    )
    assert [len(one.actions) for one in games] == [5] * 12  # in turn, of exactly as many moves
    none = arena.play_games(
        longest, (mover, mover), jax.random.key(0), [], lambda number: 0, 1, start
    )
    assert list(none) == []


@pytest.mark.thorough
def test_a_lane_starts_the_next_game_with_fresh_memory():
    """Nine games, begun by either player, in two lanes of each batch."""
    game, searching = connect_four()
    start = lambda numbers: jax.tree.map(
        lambda x: np.stack([x] * len(numbers)), jax.device_get(game.init(jax.random.key(0)))
    )
    begins = {0: 0, 1: 1, 3: 0, 4: 0, 5: 0, 6: 1, 7: 0, 8: 0, 11: 0}
    reports = []

    def play():
        players = searching, player.random_player(game)
        key, progress = jax.random.key(4), lambda ply, num_open: reports.append((ply, num_open))
        games = arena.play_games(game, players, key, [*begins], begins.get, 2, start, progress)
        return {one.number: one for one in games}

    played = play()
    assert sorted(played) == sorted(begins)
    won = 0
    for number, one in played.items():
        _, value = replayed(game, one.actions)
        assert one.outcome == (value if len(one.actions) % 2 == 0 else -value)
        assert one.ok
        assert min(one.seconds) > 0
        won += one.outcome * (1 if begins[number] == 0 else -1)
    assert won > 4
    assert [ply for ply, _ in reports] == list(range(1, len(reports) + 1))
    assert reports[-1][1] == 0
    assert len(reports) > max(len(one.actions) for one in played.values())
    again = play()
    assert {n: one.actions for n, one in again.items()} == {
        n: one.actions for n, one in played.items()
    }


@pytest.mark.thorough
def test_an_opening_may_end_a_game():
    game, _ = connect_four()
    chance = player.random_player(game)
    match = arena.play_match(game, chance, chance, jax.random.key(5), 16, openings=24)
    lengths = [len(match.moves(number)) for number in range(16)]
    assert min(lengths) < 24 < max(lengths)
    for number in range(16):
        _, value = replayed(game, [action for _, action in match.moves(number)])
        for_first = value if lengths[number] % 2 == match.first_colour[number] else -value
        assert (match.outcome[number], match.plies[number]) == (for_first, lengths[number])
    assert match.ok.all()


class Coded(NamedTuple):
    """A state of Connect Four whose `to_play` is +1 or -1, after a random first move."""

    board: Any
    to_play: jax.Array


@functools.cache
def coded_game():
    game = make_game("connect4")

    def init(key):
        action = jax.random.randint(key, (), 0, game.num_actions)
        return Coded(game.play(game.init(key), action), jnp.int8(1))

    return game._replace(
        init=init,
        play=lambda state, action: Coded(game.play(state.board, action), -state.to_play),
        legal=lambda state: game.legal(state.board),
        outcome=lambda state: game.outcome(state.board),
        observe=lambda state: game.observe(state.board),
        symmetries=None,
    )


@pytest.mark.thorough
def test_pairs_have_random_starts_and_states_of_any_code():
    chance = player.random_player(coded_game())
    match = arena.play_match(coded_game(), chance, chance, jax.random.key(5), 16, openings=1)
    leaves = jax.tree.leaves(match.start)
    starts = [b"".join(x[n].tobytes() for x in leaves) for n in range(16)]
    assert starts[0::2] == starts[1::2]
    assert len(set(starts)) > 2
    assert match.first_colour.tolist() == [1, 0] * 8  # after one ply, the second moves
    assert [colour for colour, _ in match.moves(3)][:4] == [0, 1, 0, 1]
    assert match.ok.all()


@pytest.mark.thorough
def test_distinct_openings_are_of_one_start():
    drawn = openings.distinct(coded_game(), 2, jax.random.key(1), 64)
    game = coded_game()
    state = game.init(jax.random.key(0))
    reached = set()
    for actions in drawn:
        now = state
        for action in actions:
            assert bool(game.legal(now)[action])
            now = game.play(now, action)
        reached.add(b"".join(np.asarray(x).tobytes() for x in jax.tree.leaves(now)))
    assert len(reached) == len(drawn) > 8
    chex.assert_trees_all_equal(jax.tree.map(lambda x: x[-1], openings.after(game, drawn)), now)
