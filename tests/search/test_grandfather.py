"""New nodes start with the statistics of the node two plies above."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.limits import VALUE_ONE
from gozero.search import tree as trees
from gozero.search.config import Amaf, Grandfather, SearchConfig
from gozero.search.prior_counts import values_above as known
from gozero.search.rules.operators import max_backup
from gozero.search.rules.rave import MinimumMse, Rave
from gozero.search.rules.ucb1 import Ucb1
from gozero.search.tree import OptionalArrays, Path
from tests.reference import mcts
from tests.search import random_tree
from tests.search.comparing import compare_with_and_without
from tests.search.evaluators import hash_evaluate

EVALUATE = hash_evaluate(random_tree.NUM_ACTIONS, 1.5, 0.6)
SIMULATIONS = 120
PLAIN_BETA = lambda n, amaf, total, mu: amaf / max(n + amaf + n * amaf * 0.25, 1)


def test_grandfather_statistics_by_hand():
    """The path 0 -> 1, and a node that would be added below 1: its grandfather is the root.

    The root's action 0 was tried: its child lost 3 of 4, so the root's player won 3 of 4. Actions
    1, 3 and 4 were only played later; action 1 won 2 of 4. Action 2 has no statistics, and action 3
    is illegal at the new node.
    """
    blank = trees.allocate(jnp.zeros((2, 1), jnp.int32), 5, 3, OptionalArrays(amaf=True))
    tree = blank.replace(
        children=blank.children.at[0, 0].set(1),
        num_children=blank.num_children.at[0].set(1),
        visits=blank.visits.at[:2].set(jnp.array([5, 4])),
        value_sum=blank.value_sum.at[:2].set(jnp.array([3, -2]) * VALUE_ONE),
        amaf=trees.Counts(
            blank.amaf.visits.at[0].set(jnp.array([9, 4, 0, 4, 4])),
            blank.amaf.sums.at[0].set(jnp.array([-9, 0, 0, 4, -2]) * VALUE_ONE),
        ),
    )
    # The other tree's path ends at its root: the new node would have no grandfather.
    path = Path(jnp.array([[0, 0], [1, -1], [-1, -1]]), jnp.array([1, 0]))
    result = jax.jit(known)(tree, path)
    assert result.is_known.tolist() == [[True, True, False, True, True], [False] * 5]
    assert result.value[0].tolist() == [0.5, 0.0, 0.0, 1.0, -0.5]
    assert result.is_sound.tolist() == [True, True]
    legal = jnp.array([[True, True, True, False, True]] * 2)
    heuristic = result.heuristic(2, 7, legal)
    assert heuristic.visits.tolist() == [[2, 2, 0, 0, 2], [0] * 5]
    assert heuristic.amaf_visits.tolist() == [[7, 7, 0, 0, 7], [0] * 5]


CASES = {
    # rule, all-moves-as-first, playouts, heuristic, grandfather, config
    "rave": (Rave(MinimumMse(0.25)), Amaf(), True, True, (0, 5), {}),
    "ucb1": (Ucb1(0.5), None, False, False, (3, 0), {}),
    "both counts, proofs": (
        *(Rave(MinimumMse(0.25)), Amaf("same"), True, True, (2, 5)),
        {"prove": True},
    ),
    "by ancestors, too": (Rave(MinimumMse(0.25)), Amaf(ancestor=6), True, False, (1, 5), {}),
    # (Not 60 nodes, as a path has 60 levels.)
    "a full tree": (Rave(MinimumMse(0.25)), Amaf(), True, False, (0, 9), {"capacity": 70}),
    "one tree": (Rave(MinimumMse(0.25)), Amaf(), True, False, (4, 4), {}),
}


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name", [pytest.param(x, marks=[pytest.mark.slow] * (x != "rave")) for x in CASES]
)
def test_equal_to_the_plain_search_at_every_node(name):
    rule, amaf, playouts, heuristic, counts, options = CASES[name]
    num_trees = 1 if name == "one tree" else 5
    codes = np.random.RandomState(len(name)).randint(1, 2**31, num_trees).astype(np.uint32)
    evaluate = random_tree.with_more(EVALUATE, playouts, heuristic)
    config = SearchConfig(
        SIMULATIONS, select=rule, amaf=amaf, grandfather=Grandfather(*counts), **options
    )
    key = jax.random.key(len(name))
    plain_rule = mcts.HeuristicUcb1(0.5) if amaf is None else mcts.Rave(PLAIN_BETA)
    settings = {"amaf": amaf and amaf.first, "ancestor": amaf and amaf.ancestor, **options}
    arguments = evaluate, codes, key, config, plain_rule
    compare_with_and_without("grandfather", *arguments, grandfather=counts, **settings)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Grandfather(-1), "^visits: "),
        (lambda: Grandfather(1, 0.5), "^amaf_visits: "),
        (lambda: Grandfather(), "both are 0"),
        (lambda: SearchConfig(grandfather=50), "^grandfather: 50 "),
        (lambda: SearchConfig(grandfather=Grandfather(amaf_visits=5)), "^amaf: "),
        (lambda: SearchConfig(leaves=4, grandfather=Grandfather(5)), "^leaves: 4 "),
        (lambda: SearchConfig(transpositions=True, grandfather=Grandfather(5)), "transpositions"),
        (lambda: SearchConfig(backup=max_backup, grandfather=Grandfather(5)), "backup"),
    ],
)
def test_conflicting_settings_are_refused(make, says):
    with pytest.raises(ValueError, match=says):
        make()
