"""Plain MCTS, one tree of Python objects: the oracle of the batched search.

Follows the formulas, not the arrays: PUCT with c sqrt(1 + sum N) P / (1 + N), values in
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
    def __init__(self, index, state, depth, judgement, max_depth):
        self.index, self.state, self.depth = index, state, depth
        self.prior, value, over = judgement  # f32[A] with -inf where illegal, float, bool
        self.value = int(np.round(np.clip(F32(value), -1, 1) * F32(ONE)))
        self.closed = over or depth >= max_depth
        self.visits = np.zeros(len(self.prior), np.int64)
        self.value_sum = np.zeros(len(self.prior), np.int64)
        self.children = {}

    def best_action(self, c_puct, salt, parent_fpu):
        q = (self.value_sum.astype(F32) / F32(ONE)) / np.maximum(self.visits, 1).astype(F32)
        if parent_fpu:  # an unvisited action is as good as the node
            mean = F32(self.value + self.value_sum.sum()) / F32(ONE) / F32(1 + self.visits.sum())
            q = np.where(self.visits > 0, q, mean)
        explore = F32(c_puct) * np.sqrt(F32(1) + F32(self.visits.sum()))
        with np.errstate(invalid="ignore"):
            score = q + explore * self.prior / (F32(1) + self.visits.astype(F32))
        score[~(self.prior >= 0)] = -np.inf
        # A rule that ranks actions without visits by their priors needs the best of those only.
        prior = np.where(self.visits > 0, -np.inf, self.prior)
        ties = np.flatnonzero(prior == prior.max())
        untried = int(max(ties, key=lambda a: tie_break(salt, self.index, int(a))))
        choices = {action: child.index for action, child in self.children.items()}
        if prior[untried] >= 0:
            choices[untried] = -1
        best = max(score[action] for action in choices)
        ties = [action for action in choices if score[action] == best]
        return max(ties, key=lambda a: tie_break(salt, self.index, choices[a]))


def search(root_state, play, judge, num_simulations, max_depth, c_puct, salt, parent_fpu=False):
    """Run one search; `judge(state)` gives (prior, value, over), `play` returns a new state."""
    nodes = [Node(0, root_state, 0, judge(root_state), max_depth)]
    for _ in range(num_simulations):
        node, path = nodes[0], []
        while not node.closed:
            action = node.best_action(c_puct, salt, parent_fpu)
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
