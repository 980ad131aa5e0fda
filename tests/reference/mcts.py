"""Plain MCTS, one tree of Python objects: the oracle of the batched search.

Follows the formulas, not the arrays: values in
fixed point 2^-14 as the library promises, ties by the library's hash: among untried actions of
equal priors that of (salt, node, action), among equal scores that of (salt, node, child).
"""

from __future__ import annotations

import numpy as np

F32 = np.float32
ONE = 2**14


def mix(x: int) -> int:
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & 0xFFFFFFFF
    x = ((x ^ (x >> 15)) * 0x846CA68B) & 0xFFFFFFFF
    return x ^ (x >> 16)


def tie_break(salt: int, node: int, choice: int) -> int:
    seed = mix((salt + node * 0x9E3779B9) & 0xFFFFFFFF)
    return mix(seed ^ (choice * 0x85EBCA6B & 0xFFFFFFFF))


class Node:
    """A position; its children's statistics by action, and what ended at the node itself."""

    def __init__(self, index, state, depth, judgement):
        self.index, self.state, self.depth = index, state, depth
        self.prior, value, self.over = judgement  # f32[A] with -inf where illegal, float, bool
        self.value = fixed(value)
        self.own_visits, self.own_sum = 1, self.value
        self.tries_no_more = False  # of a full tree: evaluated again, it keeps to its children
        self.visits = np.zeros(len(self.prior), np.int64)
        self.value_sum = np.zeros(len(self.prior), np.int64)
        self.children = {}

    def best_action(self, rule, salt):
        q = (self.value_sum.astype(F32) / F32(ONE)) / np.maximum(self.visits, 1).astype(F32)
        total, num = self.own_sum + self.value_sum.sum(), self.own_visits + self.visits.sum()
        mean = F32(total) / F32(ONE) / F32(num)
        with np.errstate(invalid="ignore", divide="ignore"):
            score = rule(self.prior, self.visits, q, mean)
        score[~(self.prior >= 0)] = -np.inf
        # Of the actions without visits only the first in order is thought of.
        prior = np.where(self.visits > 0, -np.inf, self.prior)
        rank = np.where(prior >= 0, 0.0, -np.inf) if rule.random_order else prior
        ties = np.flatnonzero(rank == rank.max())
        untried = int(max(ties, key=lambda a: tie_break(salt, self.index, int(a))))
        choices = {action: child.index for action, child in self.children.items()}
        if prior[untried] >= 0 and not (self.tries_no_more and choices):
            choices[untried] = -1
        best = max(score[action] for action in choices)
        ties = [action for action in choices if score[action] == best]
        return max(ties, key=lambda a: tie_break(salt, self.index, choices[a]))


def fixed(value):
    return int(np.round(np.clip(F32(value), -1, 1) * F32(ONE)))


class Puct:
    """Q + c P sqrt(1 + sum N) / (1 + N)."""

    random_order = False

    def __init__(self, c, c_base=None, first_play="zero", reduction=0.0):
        self.c, self.c_base, self.first_play, self.reduction = c, c_base, first_play, reduction

    def __call__(self, prior, visits, q, mean):
        total = F32(visits.sum())
        c = F32(self.c)
        if self.c_base is not None:
            c = c + np.log((F32(1) + total + F32(self.c_base)) / F32(self.c_base))
        visited = visits > 0
        first = {
            "zero": F32(0),
            "loss": F32(-1),
            "parent": mean - F32(self.reduction) * np.sqrt(prior[visited].sum(dtype=F32)),
        }[self.first_play]
        q = np.where(visited, q, first)
        return q + c * np.sqrt(F32(1) + total) * prior / (F32(1) + visits.astype(F32))


class Forced:
    """What has a visit has sqrt(k P sum N) of them, before `rule` is asked."""

    random_order = False

    def __init__(self, rule, k):
        self.rule, self.k = rule, k

    def __call__(self, prior, visits, q, mean):
        wanted = np.sqrt(F32(self.k) * np.maximum(prior, 0) * F32(visits.sum()))
        forced = (visits > 0) & (visits.astype(F32) < wanted)
        return np.where(forced, F32(np.inf), self.rule(prior, visits, q, mean))


class Ucb1:
    """(1 + Q) / 2 + c sqrt(log sum N / N); what has no visit first, in random order."""

    random_order = True

    def __init__(self, c):
        self.c = c

    def __call__(self, prior, visits, q, mean):
        total = F32(max(visits.sum(), 1))
        bonus = F32(self.c) * np.sqrt(np.log(total) / np.maximum(visits, 1).astype(F32))
        return np.where(visits > 0, (F32(1) + q) / F32(2) + bonus, F32(np.inf))


def search(
    root_state,
    play,
    judge,
    num_simulations,
    max_depth,
    rule,
    salt,
    root_rule=None,
    nodes=None,
    capacity=None,
):
    """Run one search; `judge(state)` gives (prior, value, over), `play` returns a new state.

    It goes on from `nodes`, if there are any. In a tree of `capacity` nodes it adds none.
    """
    nodes = nodes or [Node(0, root_state, 0, judge(root_state))]
    for _ in range(num_simulations):
        node, path, value = nodes[0], [], None
        while value is None:
            if node.over or node.depth >= max_depth:
                value = node.value
                break
            here = root_rule if root_rule and not path else rule
            action = node.best_action(here, salt)
            if action in node.children:
                path.append((node, action))
                node = node.children[action]
            elif len(nodes) == capacity:
                value, node.tries_no_more = fixed(judge(node.state)[1]), True
            else:
                path.append((node, action))
                child = play(node.state, action)
                node = Node(len(nodes), child, node.depth + 1, judge(child))
                path[-1][0].children[action] = node
                nodes.append(node)
                break
        if value is not None:  # it ends at a node that was there before
            node.own_visits += 1
            node.own_sum += value
        else:
            value = node.value
        for parent, action in reversed(path):
            value = -value
            parent.visits[action] += 1
            parent.value_sum[action] += value
    return nodes


def reroot(nodes, action):
    """The nodes below the root's child by an action, in their order; [] if there is none."""
    root = nodes[0].children.get(action)
    if root is None:
        return []
    kept, todo = [], [root]
    while todo:
        node = todo.pop()
        kept.append(node)
        todo += node.children.values()
    kept.sort(key=lambda node: node.index)
    above = root.depth
    for index, node in enumerate(kept):
        node.index, node.depth, node.tries_no_more = index, node.depth - above, False
    return kept
