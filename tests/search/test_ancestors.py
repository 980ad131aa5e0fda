"""Nodes with few visits use their ancestors' all-moves-as-first statistics."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.limits import VALUE_ONE
from gozero.search import reuse, select
from gozero.search import tree as trees
from gozero.search.config import Amaf, SearchConfig
from gozero.search.game import Heuristic
from gozero.search.rules.forced import ForcedPlayouts
from gozero.search.rules.puct import Puct
from gozero.search.rules.rave import AmafOnly, HandSelected, MinimumMse, Rave
from gozero.search.tree import NO_NODE, OptionalArrays
from tests.reference import mcts
from tests.search import random_tree
from tests.search.comparing import compare_trees, compare_with_and_without, tie_seeds
from tests.search.evaluators import hash_evaluate

EVALUATE = hash_evaluate(random_tree.NUM_ACTIONS, 1.5, 0.6)
SIMULATIONS = 120
ALL, EVEN, HAND = AmafOnly(), MinimumMse(0.25), HandSelected(20.0)
PLAIN_BETA = {
    ALL: lambda n, amaf, total, mu: 1,
    EVEN: lambda n, amaf, total, mu: amaf / max(n + amaf + n * amaf * 0.25, 1),
    HAND: lambda n, amaf, total, mu: np.sqrt(20 / (3 * total + 20)),
}


def test_which_statistics_are_used_by_hand():
    """Four trees, each the path 0 -> 1 -> 2 -> 3 by actions 0, 1, 2, with different visits.

    The cached choices are 0 -> 1 -> 2, and at node 2 to try action 0, as its own statistics say.
    The root's statistics prefer action 2, which leads to node 3. Of the actions legal at node 3,
    node 1's statistics prefer action 3, and its own action 1.
    """
    config = SearchConfig(7, select=Rave(AmafOnly()), amaf=Amaf(ancestor=5))
    blank = trees.allocate(jnp.zeros((4, 1), jnp.int32), 4, 8, OptionalArrays(amaf=True))
    legal = np.array([[1, 1, 1, 1], [0, 1, 0, 1], [1, 0, 1, 1], [0, 1, 0, 1]], bool)
    tried = np.array([0, 1, 2, -1])  # the action of each node to the next
    values = np.array([[2, 1, 9, 3], [9, 0, 9, 3], [9, 8, 1, 0], [9, 3, 9, 2]])
    visits = np.array([[20, 9, 4, 2], [20, 9, 5, 2], [20, 4, 3, 2], [4, 3, 2, 1]])
    left = legal & (np.arange(4)[None] != tried[:, None])

    def put(x, of_nodes):
        whole = np.array(x).reshape(4, 8, *x.shape[1:])
        whole[:, :4] = of_nodes
        return jnp.array(whole.reshape(x.shape))

    tree = blank.replace(
        prior=put(blank.prior, np.where(left, 0.25, -np.inf)),
        children=put(blank.children, tried[:, None] + 1),
        num_children=put(blank.num_children, [1, 1, 1, 0]),
        next=put(blank.next, [1, 2, NO_NODE, NO_NODE]),
        untried=put(blank.untried, [3, 3, 0, 1]),
        action=put(blank.action, [0, 0, 1, 2]),
        edge_prior=put(blank.edge_prior, [-np.inf, 0.25, 0.25, 0.25]),
        visits=put(blank.visits, visits),
        size=jnp.full(4, 4),
        amaf=trees.Counts(
            put(blank.amaf.visits, np.ones((4, 4))),
            put(blank.amaf.sums, values * (VALUE_ONE // 10)),
        ),
    )
    leaf = jax.jit(functools.partial(select.find_leaf, config=config))(
        tree, tie_seeds=jnp.arange(4, dtype=jnp.uint32)
    )
    # Few visits: nodes 2 and 3; node 3 alone in the second tree; in the third node 1 too, so that
    # node 3 uses its own; in the fourth all nodes, so that the cached choices are followed.
    assert leaf.path.length.tolist() == [3, 2, 3, 2]
    assert leaf.path.nodes[:4].T.tolist() == [
        [0, 1, 2, 3],
        [0, 1, 2, NO_NODE],
        [0, 1, 2, 3],
        [0, 1, 2, NO_NODE],
    ]
    assert leaf.action.tolist() == [3, 0, 1, 0]
    assert leaf.grows.all()
    assert (leaf.other_priors[0] >= 0).tolist() == [False, True, False, False]


CASES = {
    # rule, colours that count, playouts, heuristic, ancestor, config
    "a full tree, a depth limit": (
        *(Rave(EVEN), "either", True, True, 8),
        {"capacity": 90, "max_depth": 7},
    ),
    "uct-rave, same colour": (Rave(EVEN, c=0.3), "same", True, False, 5, {}),
    "four leaves": (Rave(EVEN), "either", True, True, 10, {"leaves": 4, "virtual_loss": 2}),
    "more virtual losses than visits": (
        *(Rave(HAND, first_play=0.4), "either", True, False, 10),
        {"leaves": 6, "virtual_loss": 5},
    ),
    "proofs": (Rave(EVEN), "either", True, False, 10, {"prove": True}),
    "several visits before a node": (Rave(EVEN), "either", True, False, 8, {"expand_after": 3}),
    "no playouts": (Rave(ALL), "either", False, False, 4, {}),
    "a root with a rule of its own": (
        *(Rave(EVEN), "either", True, False, 10),
        {"root_select": ForcedPlayouts(Puct(1.0), 3.0)},
    ),
    "one tree": (Rave(EVEN), "either", True, False, 10, {}),
}


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name", [pytest.param(x, marks=[pytest.mark.slow] * (i > 0)) for i, x in enumerate(CASES)]
)
def test_equal_to_the_plain_search_at_every_node(name):
    rule, first, playouts, heuristic, ancestor, options = CASES[name]
    num_trees = 1 if name == "one tree" else 5
    codes = np.random.RandomState(len(name)).randint(1, 2**31, num_trees).astype(np.uint32)
    evaluate = random_tree.with_more(EVALUATE, playouts, heuristic)
    config = SearchConfig(SIMULATIONS, select=rule, amaf=Amaf(first, ancestor), **options)
    key = jax.random.key(len(name))
    of_config = "max_depth", "root_select"  # not settings of the plain search
    settings = {k: v for k, v in options.items() if k not in of_config}
    settings |= {"amaf": first, "ancestor": ancestor}
    root_rule = mcts.Forced(mcts.Puct(1.0), 3.0)
    root_rules = [root_rule] * num_trees if "root_select" in options else None
    plain_rule = mcts.Rave(PLAIN_BETA[rule.schedule], rule.c, rule.first_play)
    arguments = evaluate, codes, key, config, plain_rule, root_rules
    forest = compare_with_and_without("ancestor", *arguments, **settings)
    nodes = [node for tree in forest for node in tree if node.depth > 1 and node.children]
    few = sum(node.num_visits() < ancestor for node in nodes)
    # Nodes that use an ancestor's statistics, and their own.
    assert min(few, len(nodes) - few) > 5


@pytest.mark.slow
def test_equal_to_the_plain_search_with_a_reused_tree():
    """The new root's ancestors are gone, but the nodes keep their earlier choices."""

    def evaluate(params, key, codes):
        # The heuristic differs from action to action, so that there are no ties, which the two
        # searches might break differently.
        evaluated = random_tree.with_more(EVALUATE, True, True)(params, key, codes)
        heuristic, none = evaluated.heuristic, jnp.zeros_like(evaluated.heuristic.visits)
        return evaluated._replace(
            heuristic=Heuristic(heuristic.value, none, heuristic.amaf_value, none + 3)
        )

    num_trees, ancestor = 5, 8
    codes = np.random.RandomState(1).randint(1, 2**31, num_trees).astype(np.uint32)
    rule, amaf = Rave(EVEN), Amaf(ancestor=ancestor)
    config = SearchConfig(SIMULATIONS, capacity=3 * SIMULATIONS, select=rule, amaf=amaf)

    run = jax.jit(random_tree.search_of(evaluate, config))
    tree = reuse.empty(random_tree.Position(codes), random_tree.NUM_ACTIONS, config, True)
    plain, nodes, kept = random_tree.Plain(evaluate), [None] * num_trees, 0
    for move in range(3):
        key = jax.random.key(move)
        result = run(codes, key, tree)
        tree = reuse.reroot(result.tree, result.action)
        for b, tie_seed in enumerate(tie_seeds(key, num_trees)):
            nodes[b] = mcts.search(
                *(int(codes[b]), plain.play, plain.evaluate, SIMULATIONS, config.max_depth),
                *(mcts.Rave(PLAIN_BETA[EVEN]), int(tie_seed)),
                amaf="either",
                ancestor=ancestor,
                nodes=nodes[b],
            )
            compare_trees(result.tree, b, nodes[b])
            nodes[b] = mcts.reroot(nodes[b], int(result.action[b]))
            codes[b] = plain.play(int(codes[b]), int(result.action[b]))
            kept += len(nodes[b])
    assert kept > 3 * num_trees * 20


def test_a_wrong_number_is_refused():
    for bad in (0, -1, 2.5):
        with pytest.raises(ValueError, match=r"^ancestor: "):
            Amaf(ancestor=bad)
    first = {"first": "either", "ancestor": None, "legal_only": False}
    assert dataclasses.asdict(Amaf()) == first
