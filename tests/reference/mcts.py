"""Plain MCTS, one tree of Python objects: the oracle of the batched search.

Follows the formulas, not the arrays: values in
fixed point 2^-14 as the library promises, ties by the library's hash: among untried actions of
equal priors that of (salt, node, action), among equal scores that of (salt, node, child); where
the root has a rule of its own, that of (salt, root, action) among all its actions.
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
    def __init__(self, index, state, depth, judgement, max_depth):
        self.index, self.state, self.depth = index, state, depth
        self.prior, value, over = judgement  # f32[A] with -inf where illegal, float, bool
        self.value = int(np.round(np.clip(F32(value), -1, 1) * F32(ONE)))
        self.closed = over or depth >= max_depth
        self.visits = np.zeros(len(self.prior), np.int64)
        self.value_sum = np.zeros(len(self.prior), np.int64)
        self.children = {}

    def scores(self, rule):
        q = (self.value_sum.astype(F32) / F32(ONE)) / np.maximum(self.visits, 1).astype(F32)
        mean = F32(self.value + self.value_sum.sum()) / F32(ONE) / F32(1 + self.visits.sum())
        with np.errstate(invalid="ignore", divide="ignore"):
            score = rule(self.prior, self.visits, q, mean, F32(self.value) / F32(ONE))
        score[~(self.prior >= 0)] = -np.inf
        return score

    def best_of_all(self, rule, salt):
        score = self.scores(rule)
        ties = np.flatnonzero(score == score.max())
        return int(max(ties, key=lambda a: tie_break(salt, self.index, int(a))))

    def best_action(self, rule, salt):
        score = self.scores(rule)
        # Of the actions without visits only the first in order is thought of.
        prior = np.where(self.visits > 0, -np.inf, self.prior)
        rank = np.where(prior >= 0, 0.0, -np.inf) if rule.random_order else prior
        ties = np.flatnonzero(rank == rank.max())
        untried = int(max(ties, key=lambda a: tie_break(salt, self.index, int(a))))
        choices = {action: child.index for action, child in self.children.items()}
        if prior[untried] >= 0:
            choices[untried] = -1
        best = max(score[action] for action in choices)
        ties = [action for action in choices if score[action] == best]
        return max(ties, key=lambda a: tie_break(salt, self.index, choices[a]))


class Puct:
    """Q + c P sqrt(1 + sum N) / (1 + N)."""

    random_order = False

    def __init__(self, c, c_base=None, first_play="zero", reduction=0.0):
        self.c, self.c_base, self.first_play, self.reduction = c, c_base, first_play, reduction

    def __call__(self, prior, visits, q, mean, raw):
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

    def __call__(self, prior, visits, q, mean, raw):
        wanted = np.sqrt(F32(self.k) * np.maximum(prior, 0) * F32(visits.sum()))
        forced = (visits > 0) & (visits.astype(F32) < wanted)
        return np.where(forced, F32(np.inf), self.rule(prior, visits, q, mean, raw))


class Ucb1:
    """(1 + Q) / 2 + c sqrt(log sum N / N); what has no visit first, in random order."""

    random_order = True

    def __init__(self, c):
        self.c = c

    def __call__(self, prior, visits, q, mean, raw):
        total = F32(max(visits.sum(), 1))
        bonus = F32(self.c) * np.sqrt(np.log(total) / np.maximum(visits, 1).astype(F32))
        return np.where(visits > 0, (F32(1) + q) / F32(2) + bonus, F32(np.inf))


def search(root_state, play, judge, num_simulations, max_depth, rule, salt, root_rule=None):
    """Run one search; `judge(state)` gives (prior, value, over), `play` returns a new state."""
    nodes = [Node(0, root_state, 0, judge(root_state), max_depth)]
    for _ in range(num_simulations):
        node, path = nodes[0], []
        while not node.closed:
            if root_rule and not path:
                action = node.best_of_all(root_rule, salt)
            else:
                action = node.best_action(rule, salt)
            path.append((node, action))
            if action not in node.children:
                child = play(node.state, action)
                new = Node(len(nodes), child, node.depth + 1, judge(child), max_depth)
                node.children[action] = new
                nodes.append(new)
                node = new
                break
            node = node.children[action]
        value = node.value
        for parent, action in reversed(path):
            value = -value
            parent.visits[action] += 1
            parent.value_sum[action] += value
    return nodes
