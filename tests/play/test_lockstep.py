"""Games searched in one batch: independent, compiled once, with a tree kept per lane."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.go import rules as go
from gozero.play import devices, setups
from gozero.play.lockstep import LockstepPlayer
from gozero.play.player import random_player, search_player
from gozero.play.player_config import PlayerConfig
from gozero.play.setups import Setup
from gozero.search.config import Ensemble, SearchConfig
from gozero.search.game import Evaluator
from gozero.search.rules.puct import Puct
from tests.search.evaluators import hash_evaluate, observe_position

RULES = go.Rules(3, "simple", max_moves=400)  # quick to compile
SIMULATIONS = 40


def evaluated_by_hashes(*_, **settings) -> Setup:
    """A replacement for `make_setup`."""
    evaluate = hash_evaluate(RULES.num_actions, 1.0, 0.2)
    evaluator = Evaluator(evaluate, None, observe_position, Puct())
    return Setup(evaluator, SearchConfig(SIMULATIONS, **settings))


def make(reuse_subtree: bool = True, **settings) -> LockstepPlayer:
    setup = evaluated_by_hashes(**settings)
    player = search_player(RULES, setup.evaluator, setup.search, reuse_subtree=reuse_subtree)
    return LockstepPlayer(RULES, player, 3, jax.random.key(1))


def after(*actions: int) -> go.GameState:
    state = go.init(RULES)
    for action in actions:
        state = go.play(RULES, state, jnp.int32(action))
    return state


def lane_of(tree, lane: int):
    """The rows of one tree: a lane's, if each lane has one tree."""
    rows = slice(lane * tree.capacity, (lane + 1) * tree.capacity)
    pick = lambda x: x[lane] if x.shape[0] == tree.num_trees else x[rows]
    return jax.tree.map(lambda x: np.asarray(pick(x)), tree)


@pytest.fixture(scope="module")
def player():
    player = make()
    player.compile()
    return player


def test_lanes_are_independent_and_idle_ones_keep_their_trees(player):
    games = {0: after(4), 1: after(0), 2: after(4, 0, 8)}
    player.num_choices = 0
    all_, whole = player.choose(games, player.new_memory())
    player.num_choices = 0
    some, tree = player.choose({0: games[0], 2: games[2]}, player.new_memory())
    for lane in (0, 2):
        assert some.ok[lane]
        assert some.action[lane] == all_.action[lane]
        jax.tree.map(np.testing.assert_array_equal, lane_of(tree, lane), lane_of(whole, lane))
    assert list(np.asarray(tree.size)) == [SIMULATIONS + 1, 0, SIMULATIONS + 1]

    # Only lane 2 continues, with the move that it found and a reply.
    before = lane_of(tree, 0), lane_of(tree, 2)
    first = int(some.action[2])
    tried = before[1].parent == 0
    grandchild = next(
        (int(before[1].action[node]), int(before[1].visits[node]))
        for node in np.flatnonzero(before[1].parent == _child(before[1], first))
    )
    state = go.play(RULES, go.play(RULES, games[2], jnp.int32(first)), jnp.int32(grandchild[0]))
    moves, tree = player.choose({2: state}, tree, {2: [first, grandchild[0]]})
    assert tried.any()
    assert moves.ok[2]
    jax.tree.map(np.testing.assert_array_equal, lane_of(tree, 0), before[0])
    assert int(lane_of(tree, 2).visits[0]) == grandchild[1] + SIMULATIONS

    # A game without the moves since then starts a new tree.
    _, tree = player.choose({2: state}, tree)
    assert int(lane_of(tree, 2).visits[0]) == SIMULATIONS + 1


@pytest.mark.slow
def test_several_trees_of_a_lane_continue_and_others_stay(monkeypatch):
    """Also when only some lanes are searched."""
    monkeypatch.setattr(devices, "FEWEST", 1)
    player, games = make(ensemble=Ensemble(2, every=None)), {0: after(4), 1: after(0), 2: after(8)}
    first, tree = player.choose(games, player.new_memory())
    before = [lane_of(tree, number) for number in range(2 * len(games))]
    assert [int(of.visits[0]) for of in before] == [SIMULATIONS + 1] * 6
    action = int(first.action[1])
    answer = next(
        int(before[2].action[node])
        for node in np.flatnonzero(before[2].parent == _child(before[2], action))
    )
    state = go.play(RULES, go.play(RULES, games[1], action), answer)
    moves, tree = player.choose({1: state}, tree, {1: [action, answer]})
    assert moves.ok[1]
    for number, old in enumerate(before):
        new = lane_of(tree, number)
        if number // 2 != 1:
            jax.tree.map(np.testing.assert_array_equal, new, old)
            continue
        child = _child(old, action)
        below = np.flatnonzero((old.parent == child) & (old.action == answer))
        assert int(new.visits[0]) == SIMULATIONS + (old.visits[below[0]] if below.size else 1)


def _child(tree, action: int) -> int:
    """The root's child by an action."""
    return int(np.flatnonzero((tree.parent == 0) & (tree.action == action))[0])


@pytest.mark.thorough
def test_a_smaller_batch_is_searched_if_most_lanes_are_idle(player, monkeypatch):
    games = {0: after(4), 1: after(0), 2: after(4, 0, 8)}
    searched = []
    choose = player._player.choose

    def counted(params, key, turn, memory):
        searched.append(turn.recent.shape[1])
        return choose(params, key, turn, memory)

    monkeypatch.setattr(devices, "FEWEST", 1)
    monkeypatch.setattr(player, "_player", player._player._replace(choose=counted))
    for lane in (1, 2):
        _, tree = player.choose(games, player.new_memory())
        before = [lane_of(tree, i) for i in range(3)]
        grandchild = int(np.flatnonzero(before[lane].parent > 0)[0])
        nodes = before[lane].parent[grandchild], grandchild
        path = [int(before[lane].action[node]) for node in nodes]
        state = go.play(RULES, go.play(RULES, games[lane], path[0]), path[1])
        moves, tree = player.choose({lane: state}, tree, {lane: path})
        assert moves.ok.tolist() == [i == lane for i in range(3)]
        assert go.legal_actions(RULES, state)[moves.action[lane]]
        # It reused its own tree, and the others' trees are unchanged.
        visits = before[lane].visits[grandchild] + SIMULATIONS
        assert int(lane_of(tree, lane).visits[0]) == visits
        for other in {0, 1, 2} - {lane}:
            jax.tree.map(np.testing.assert_array_equal, lane_of(tree, other), before[other])
    assert searched == [1]  # traced once for the one lane; all three were compiled before


def test_each_search_has_new_random_numbers(player):
    assert player.num_choices > 0
    before = player.num_choices
    player.choose({0: after()}, player.new_memory())
    assert player.num_choices == before + 1


def test_without_reuse_there_are_no_trees(monkeypatch):
    assert make(reuse_subtree=False).new_memory() is None
    monkeypatch.setattr(setups, "make_setup", evaluated_by_hashes)
    for reuse, nodes in ((False, SIMULATIONS + 1), (True, 2 * SIMULATIONS + 1)):
        made_player = setups.make_player(RULES, PlayerConfig(), reuse=reuse)
        assert made_player.describe_memory(3).startswith(f"3 trees of {nodes} nodes: ")


def test_a_player_without_memory_moves_in_selected_lanes():
    player = LockstepPlayer(RULES, random_player(RULES), 3, jax.random.key(1))
    moves, memory = player.choose({1: after(4)})
    assert memory is None
    assert moves.ok[1]
    assert not moves.resigns.any()
    assert moves.action[1] in set(range(9)) - {4}
    with pytest.raises(ValueError, match="lanes: 0"):
        LockstepPlayer(RULES, random_player(RULES), 0, jax.random.key(0))
