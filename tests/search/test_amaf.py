"""All moves as first: which actions a simulation counts for, by hand."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.search import backup, reuse, rows
from gozero.search import tree as trees
from gozero.search.config import Amaf, Grandfather, SearchConfig
from gozero.search.edges import Edges
from gozero.search.game import Evaluation, Evaluator
from gozero.search.prior_counts import with_heuristic
from gozero.search.rules import rave
from gozero.search.rules.forced import ForcedPlayouts
from gozero.search.rules.gumbel import GumbelInterior
from gozero.search.rules.prove_first import ProveFirst
from gozero.search.rules.puct import Puct
from gozero.search.rules.rave import AmafOnly, HandSelected, MinimumMse, Rave
from gozero.search.search import search
from gozero.search.tree import OptionalArrays, Path
from tests.search import random_tree
from tests.search.evaluators import hash_evaluate

INF = float("inf")


def test_sets_of_actions_are_words():
    chosen = np.random.RandomState(0).rand(3, 2, 82) < 0.3
    words = rows.pack(jnp.array(chosen))
    assert words.shape == (3, 2, rows.num_words(82)) == (3, 2, 3)
    np.testing.assert_array_equal(rows.unpack(words, 82), chosen)
    assert int(words[0, 0, 1]) == sum(1 << k for k in range(32) if chosen[0, 0, 32 + k])


def path_tree(actions):
    """One tree that is a single path, and the path through it."""
    length, num_actions = len(actions), 6
    tree = trees.allocate(
        jnp.zeros((1, 1), jnp.int32), num_actions, length + 1, OptionalArrays(amaf=True)
    )
    tree = tree.replace(action=tree.action.at[1:].set(jnp.array(actions, jnp.int16)))
    nodes = jnp.arange(length + 1, dtype=jnp.int32)[:, None]
    return tree, Path(nodes, jnp.array([length]))


@pytest.mark.parametrize("first", ["either", "same"])
def test_first_plays_count_from_each_node_on(first):
    # Black 0, White 1, Black 1 (White's stone is gone), White 2; then Black is to move.
    tree, path = path_tree([0, 1, 1, 2])
    # The playout: Black plays 3 first, White 4; and White plays 0.
    played = jnp.array([[[0, 0, 0, 1, 0, 0], [1, 0, 0, 0, 1, 0]]], bool)
    words = backup.amaf_counted(tree, path, played, first)
    counted = [np.flatnonzero(rows.unpack(words[level, 0], 6)).tolist() for level in range(5)]
    either = [
        [0, 3],  # Black at the root: 0, and 3; White was first at 1
        [0, 1, 2, 4],  # White: 1, 2, 4, and 0, as Black's 0 came before this node
        [1, 3],  # Black: 1, 3
        [0, 2, 4],  # White: 2, 0, 4
        [3],  # Black, where the path ends
    ]
    same = [[0, 1, 3], [0, 1, 2, 4], [1, 3], [0, 2, 4], [3]]
    assert counted == (either if first == "either" else same)


def four() -> Edges:
    """Actions tried and played later; only tried; only played later; neither; and illegal."""
    return Edges(
        prior=jnp.array([0.25, 0.25, 0.25, 0.25, -INF]),
        visits=jnp.array([4, 2, 0, 0, 0]),
        q=jnp.array([0.5, -0.5, 0.0, 0.0, 0.0]),
        value=jnp.float32(0.2),
        total=jnp.int32(6),
        amaf_visits=jnp.array([8, 0, 2, 0, 3]),
        amaf_q=jnp.array([-0.25, 0.0, 0.75, 0.0, 1.0]),
    )


def test_schedules_by_hand():
    edges = four()
    # k / (3 * 6 + k) = 6 / 24
    np.testing.assert_allclose(HandSelected(6.0)(edges), [0.5] * 5, rtol=1e-6)
    # ... by the action's own visits: 6 / (3 * 4 + 6), 6 / (3 * 2 + 6), and 1
    own = np.sqrt([6 / 18, 6 / 12, 1, 1, 1])
    np.testing.assert_allclose(HandSelected(6.0, per_action=True)(edges), own, rtol=1e-6)
    # b = 1/4: 8 / (4 + 8 + 4 * 32 / 16) = 8 / 20
    np.testing.assert_allclose(MinimumMse(0.25)(edges)[:4], [0.4, 0, 1, 0], rtol=1e-6)
    # mu = 0.375: 8 / (12 + 32 / 16 / (0.375 * 0.625))
    uneven = MinimumMse(0.25, mean="amaf")(edges)
    np.testing.assert_allclose(uneven[0], 8 / (12 + 2 / (0.375 * 0.625)), rtol=1e-6)
    assert AmafOnly()(edges).tolist() == [1.0] * 5
    # The mixture solves beta = 8 / (12 + 32 / 16 / (mu (1 - mu))), mu = .75 - .375 beta.
    beta = MinimumMse(0.25, mean="mixture")(edges)[0]
    mu = 0.75 - 0.375 * beta
    np.testing.assert_allclose(beta, 8 / (12 + 2 / (mu * (1 - mu))), rtol=1e-4)


def test_rave_by_hand():
    edges = four()
    # Values as probabilities: the mean of .75 and .375; .25; .875; no statistics.
    scores = Rave(HandSelected(6.0), first_play=0.55)(edges)
    np.testing.assert_allclose(scores, [0.5625, 0.25, 0.875, 0.55, -INF], rtol=1e-6)
    bonus = lambda n: 0.3 * np.sqrt(np.log(6) / (1 + n))
    uct = Rave(HandSelected(6.0), c=0.3, first_play=0.55)(edges)
    expected = np.add([0.5625, 0.25, 0.875, 0.55], [bonus(4), bonus(2), bonus(0), bonus(0)])
    np.testing.assert_allclose(uct[:4], expected, rtol=1e-6)
    # An initial Q of 1.1 has half of the weight for an action that was only played later.
    initial = Rave(HandSelected(6.0), first_play=0.55, initial=1.1)(edges)
    np.testing.assert_allclose(initial, [0.5625, 0.25, (1.1 + 0.875) / 2, 0.55, -INF], rtol=1e-6)
    # A plain bonus is infinite before the first visit; the mixtures order untried actions.
    plain = Rave(HandSelected(6.0), c=0.3, first_play=0.55, bonus="plain")(edges)
    bonus = lambda n: 0.3 * np.sqrt(np.log(6) / n)
    np.testing.assert_allclose(plain[:2], [0.5625 + bonus(4), 0.25 + bonus(2)], rtol=1e-6)
    assert plain[2] > plain[3] > 100
    worth = Rave(HandSelected(6.0), c=0.3, bonus="plain").evaluation(edges)
    np.testing.assert_allclose(worth, [0.5625, 0.25, 0.875, -INF, -INF], rtol=1e-6)
    with pytest.raises(ValueError, match=r"^bonus: 'plain'"):
        Rave(bonus="plain")
    with pytest.raises(ValueError, match=r"^amaf: "):
        Rave()(edges._replace(amaf_visits=None))


def test_a_bias_is_learned_from_well_visited_actions():
    # Only the first action has four visits of both kinds: ((-.25 - .5) / 2)^2.
    square, count = rave.learnt_bias(four(), least=4)
    assert (float(square), int(count)) == (0.375**2, 1)
    assert rave.learnt_bias(four(), least=5)[1] == 0
    # mu = 0.375, and four of the eight simulations are the same.
    error = rave.sampling_error(four(), least=4)
    np.testing.assert_allclose(error, 0.375 * 0.625 * (1 / 4 - 1 / 8), rtol=1e-6)
    assert rave.sampling_error(four(), least=5) == 0


def test_a_heuristic_beside_an_evaluator():
    even = lambda params, key, seen: Evaluation(jnp.zeros((2, 3)), jnp.zeros(2))
    value = lambda params, key, seen: seen[:, None] * jnp.array([[1.0, 0.5, -1.0]])
    both = with_heuristic(even, value, visits=2, amaf_visits=lambda p, k, seen: jnp.ones((2, 3)))
    heuristic = both(None, jax.random.key(0), jnp.array([0.5, 1.0])).heuristic
    assert (
        heuristic.value.tolist()
        == heuristic.amaf_value.tolist()
        == [[0.5, 0.25, -0.5], [1, 0.5, -1]]
    )
    assert heuristic.visits.tolist() == [[2] * 3] * 2
    assert heuristic.amaf_visits.tolist() == [[1.0] * 3] * 2
    only = with_heuristic(even, value, amaf_visits=5)(None, jax.random.key(0), jnp.ones(2))
    assert only.heuristic.visits is None
    for bad in ({"visits": -1}, {"amaf_visits": -2}, {}):
        with pytest.raises(ValueError, match="visits"):
            with_heuristic(even, value, **bad)


LESS = Puct(first_play="parent", reduction=0.2)


@pytest.mark.parametrize(
    "rule", [LESS, GumbelInterior(), ProveFirst(LESS), ForcedPlayouts(LESS)], ids=repr
)
def test_rules_that_need_siblings_are_refused(rule):
    with pytest.raises(ValueError, match=r"^select: .*amaf=.* siblings"):
        SearchConfig(4, select=rule, amaf=Amaf())
    with pytest.raises(ValueError, match=r"^select: .*grandfather=.* siblings"):
        SearchConfig(4, select=rule, grandfather=Grandfather(5))
    evaluate = hash_evaluate(random_tree.NUM_ACTIONS)
    evaluate_heuristic = random_tree.with_more(evaluate, playouts=False, heuristic=True)
    with pytest.raises(ValueError, match=r"^select: .*heuristic.* siblings"):
        shape_of(evaluate_heuristic, SearchConfig(4, select=rule))


def test_a_tree_without_prior_counts_is_refused_for_a_heuristic():
    evaluate, config = hash_evaluate(random_tree.NUM_ACTIONS), SearchConfig(4)
    evaluate_heuristic = random_tree.with_more(evaluate, playouts=False, heuristic=True)
    for prior_counts in (False, True):
        tree = reuse.empty(ROOTS, random_tree.NUM_ACTIONS, config, prior_counts)
        if prior_counts:
            assert shape_of(evaluate_heuristic, config, tree).tree.prior_counts is not None
            continue
        with pytest.raises(ValueError, match=r"^tree: .* visits .* prior_counts=True"):
            shape_of(evaluate_heuristic, config, tree)


ROOTS = random_tree.Position(jnp.ones(1, jnp.uint32))


def shape_of(evaluate, config, tree=None):
    """The shapes of a search's result."""
    arguments = random_tree.GAME, Evaluator(evaluate), jax.random.key(0), ROOTS, config
    return jax.eval_shape(lambda tree: search(*arguments, tree), tree)


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: Amaf("last"), "first"),
        (lambda: HandSelected(0.0), "k"),
        (lambda: MinimumMse(-0.1), "bias"),
        (lambda: Rave(c=-1.0), "c"),
        (lambda: SearchConfig(select=Rave()), "amaf"),
    ],
)
def test_bad_settings(make, field):
    with pytest.raises(ValueError, match=f"^{field}: "):
        make()
