"""Plain trees of one position that exchange statistics: the oracle of `gozero.search.ensemble`.

Each node keeps its own tree's statistics and those of the other trees apart; the latter are
recounted at each exchange.
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
    """`mcts.search` with one tree per tie seed; `plan` is (every, depth, share).

    It continues from the nodes of a `forest`, if there is one. Returns the nodes of each tree.
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
    """Exchange statistics between the trees; returns the number of places that were exchanged."""
    roots = [nodes[0] for nodes in forest]
    least = F32(share) * F32(sum(own(root)[0] for root in roots))
    shared = level = [roots]
    for _ in range(depth):
        level = [group for above in level for group in below(above) if weight(group) >= least]
        shared = shared + level
    for group in shared:
        share_statistics([node for node in group if node])
    return len(shared)


def below(group):
    """The children of a group of nodes, grouped by action; None where a tree has none."""
    actions = sorted({action for node in group if node for action in node.children})
    return [[node and node.children.get(action) for node in group] for action in actions]


def weight(group):
    return F32(sum(own(node)[0] for node in group if node))


def own(node):
    """(visits, value sum) from the node's own tree."""
    return node.evaluated + node.visits.sum(), node.own_sum + node.value_sum.sum()


def own_amaf(node):
    """i64[2, A]: the own tree's AMAF visits and sums of each action, without a heuristic's."""
    return np.stack([node.amaf_visits, node.amaf_sum]) - node.other_amaf - node.believed


def share_statistics(group):
    found, amaf = [own(node) for node in group], [own_amaf(node) for node in group]
    for i, node in enumerate(group):
        others = [found[j] for j in range(len(group)) if j != i]
        node.other_visits, node.other_sum = np.sum([(0, 0), *others], axis=0)
        node.other_amaf = sum(amaf) - amaf[i]
        node.amaf_visits, node.amaf_sum = node.believed + sum(amaf)
