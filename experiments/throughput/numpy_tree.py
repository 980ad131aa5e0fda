"""The peer of a single tree: PUCT on flat NumPy arrays, as a careful hand would write it."""

from __future__ import annotations

import math

import numpy as np


class NumpyTree:
    """One tree; nodes in the order they were added, a row of A edges each.

    The judgement is a stub: each new node has the next row of a table of priors, and a value.
    """

    def __init__(self, num_actions: int, capacity: int, priors, values, c_puct: float = 1.5):
        self.prior = np.zeros((capacity, num_actions), np.float32)
        self.visits = np.zeros((capacity, num_actions), np.int32)
        self.value_sum = np.zeros((capacity, num_actions), np.float32)
        self.child = np.full((capacity, num_actions), -1, np.int32)
        self.total = np.zeros(capacity, np.int32)
        self.priors, self.values, self.c_puct = priors, values, c_puct
        self.size, self.edges = 0, 0
        self._add()

    @property
    def nbytes(self) -> int:
        arrays = (self.prior, self.visits, self.value_sum, self.child, self.total)
        return sum(x.nbytes for x in arrays)

    def _add(self) -> int:
        node = self.size
        self.prior[node] = self.priors[node % len(self.priors)]
        self.size += 1
        return node

    def simulate(self) -> None:
        node, path = 0, []
        while True:
            visits = self.visits[node]
            bonus = self.c_puct * math.sqrt(1 + self.total[node])
            score = self.value_sum[node] / np.maximum(visits, 1)
            score += bonus * self.prior[node] / (1 + visits)
            action = int(score.argmax())
            path.append((node, action))
            child = self.child[node, action]
            if child < 0:
                break
            node = child
        new = self._add()
        self.child[path[-1]] = new
        value = self.values[new % len(self.values)]
        for node, action in reversed(path):
            value = -value
            self.visits[node, action] += 1
            self.value_sum[node, action] += value
            self.total[node] += 1
        self.edges += len(path)
