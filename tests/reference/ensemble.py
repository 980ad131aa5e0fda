"""Several plain trees of one position that exchange: the oracle of `gozero.search.ensemble`.

What a tree has found itself and what the others have is kept apart at each node, and the latter is
counted anew at each exchange.
"""

from __future__ import annotations

import numpy as np

from tests.reference import mcts

F32 = np.float32


def search(
    root_state,
    play,
    evaluate,
    num_simulations,
    max_depth,
    rule,
    tie_seeds,
    plan,
    forest=None,
    **options,
):
    """`mcts.search` of as many trees as there are tie_seeds; `plan`: every, depth and share.

    It goes on from the nodes of a `forest`, if there is one. Returns the nodes of each tree.
    """
    every, depth, share = plan
    forest = forest or [[] for _ in tie_seeds]
    for start in range(0, num_simulations, every):
        if start:
            exchange(forest, depth, share)
        count = min(every, num_simulations - start)
        forest = [
            mcts.search(
                root_state, play, evaluate, count, max_depth, rule, tie_seed, nodes=nodes, **options
            )
            for tie_seed, nodes in zip(tie_seeds, forest, strict=True)
        ]
    return forest


def exchange(forest, depth, share):
    """How many nodes are exchanged: of all trees, those at one place together are one."""
    roots = [nodes[0] for nodes in forest]
    least = F32(share) * F32(sum(own(root)[0] for root in roots))
    shared = level = [roots]
    for _ in range(depth):
        level = [group for above in level for group in below(above) if weight(group) >= least]
        shared = shared + level
    for group in shared:
        tell_each_other([node for node in group if node])
    return len(shared)


def below(group):
    """The children of the nodes at one place, by their actions; None where a tree has none."""
    actions = sorted({action for node in group if node for action in node.children})
    return [[node and node.children.get(action) for node in group] for action in actions]


def weight(group):
    return F32(sum(own(node)[0] for node in group if node))


def own(node):
    """(visits, value sum) that the node's own tree has found."""
    return node.evaluated + node.visits.sum(), node.own_sum + node.value_sum.sum()


def own_amaf(node):
    """[2, A]: of actions, without what a heuristic believed."""
    return np.stack([node.amaf_visits, node.amaf_sum]) - node.other_amaf - node.believed


def tell_each_other(group):
    found, amaf = [own(node) for node in group], [own_amaf(node) for node in group]
    for i, node in enumerate(group):
        others = [found[j] for j in range(len(group)) if j != i]
        node.other_visits, node.other_sum = np.sum([(0, 0), *others], axis=0)
        node.other_amaf = sum(amaf) - amaf[i]
        node.amaf_visits, node.amaf_sum = node.believed + sum(amaf)
