"""Games searched in one batch: each as if it were alone, compiled once, trees kept by lane."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.go import rules as go
from gozero.players.evaluators import Evaluator
from gozero.players.lockstep import LockstepPlayer
from gozero.players.setups import Setup
from gozero.search.config import SearchConfig
from gozero.search.selection import Puct
from tests.search.judges import hash_evaluate, observe_position

RULES = go.Rules(3, "simple", max_moves=400)  # quick to compile
SIMULATIONS = 40


def judged_by_hashes(*_) -> Setup:
    """In the place of `make_setup`."""
    evaluate = hash_evaluate(RULES.num_actions, 1.0, 0.2)
    judge = Evaluator(observe_position, evaluate, None, Puct(), {})
    return Setup(judge, SearchConfig(SIMULATIONS))


def make(reuse_subtree: bool = True) -> LockstepPlayer:
    return LockstepPlayer(RULES, judged_by_hashes(), 3, jax.random.key(1), reuse_subtree)


def after(*actions: int) -> go.GameState:
    state = go.init(RULES)
    for action in actions:
        state = go.play(RULES, state, jnp.int32(action))
    return state


def lane_of(tree, lane: int):
    """The rows of a lane's tree."""
    rows = slice(lane * tree.capacity, (lane + 1) * tree.capacity)
    pick = lambda x: x[lane] if x.shape[0] == tree.num_trees else x[rows]
    return jax.tree.map(lambda x: np.asarray(pick(x)), tree)


@pytest.fixture(scope="module")
def player():
    player = make()
    player.compile()
    return player


def test_lanes_do_not_disturb_each_other_and_idle_ones_keep_their_trees(player):
    games = {0: after(4), 1: after(0), 2: after(4, 0, 8)}
    player.num_searches = 0
    all_, _ = player.choose(games, player.new_trees())
    player.num_searches = 0
    some, tree = player.choose({0: games[0], 2: games[2]}, player.new_trees())
    for lane in (0, 2):
        assert some.ok[lane]
        assert (some.action[lane], some.value[lane]) == (all_.action[lane], all_.value[lane])
    assert list(np.asarray(tree.size)) == [SIMULATIONS + 1, 0, SIMULATIONS + 1]

    # Lane 2 alone goes on: by what it found, and an answer.
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

    # A game that is not told to go on begins anew.
    _, tree = player.choose({2: state}, tree)
    assert int(lane_of(tree, 2).visits[0]) == SIMULATIONS + 1


def _child(tree, action: int) -> int:
    """The root's child by an action."""
    return int(np.flatnonzero((tree.parent == 0) & (tree.action == action))[0])


def test_searches_draw_anew(player):
    assert player.num_searches > 0
    before = player.num_searches
    player.choose({0: after()}, player.new_trees())
    assert player.num_searches == before + 1


def test_trees_have_room_for_what_a_heuristic_believes():
    setup = judged_by_hashes()._replace(guesses=True)
    player = LockstepPlayer(RULES, setup, 3, jax.random.key(1), reuse_subtree=True)
    assert jax.eval_shape(player.new_trees).guess is not None
    assert jax.eval_shape(make().new_trees).guess is None
    assert player.memory().total > make().memory().total


def test_without_reuse_there_are_no_trees():
    player = make(reuse_subtree=False)
    assert player.new_trees() is None
    assert player.config.num_nodes == SIMULATIONS + 1
    assert make().config.num_nodes == 2 * SIMULATIONS + 1
    with pytest.raises(ValueError, match="lanes: 0"):
        LockstepPlayer(RULES, Setup(None, SearchConfig()), 0, jax.random.key(0))
