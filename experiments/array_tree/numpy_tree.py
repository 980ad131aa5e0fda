"""PUCT on flat NumPy arrays, carefully written: the baseline for one tree of ours."""

from __future__ import annotations

import math

import numpy as np

VIRTUAL_LOSS = 3


class NumpyTree:
    """One tree; its nodes are in the order in which they were added, with A edges each.

    The evaluator is a stub: evaluation n takes row n of a table of priors, and value n.
    """

    def __init__(self, num_actions: int, capacity: int, priors, values, c_puct: float = 1.5):
        self.prior = np.zeros((capacity, num_actions), np.float32)
        self.visits = np.zeros((capacity, num_actions), np.int32)
        self.value_sum = np.zeros((capacity, num_actions), np.float32)
        self.child = np.full((capacity, num_actions), -1, np.int32)
        self.total = np.zeros(capacity, np.int32)  # evaluations plus visits of its edges
        self.evaluated = np.zeros(capacity, bool)
        self.priors, self.values, self.c_puct = priors, values, c_puct
        self.size, self.edges, self.evaluations = 1, 0, 0
        self._evaluate(0)

    @property
    def nbytes(self) -> int:
        arrays = (self.prior, self.visits, self.value_sum, self.child, self.total, self.evaluated)
        return sum(x.nbytes for x in arrays)

    def step(self, leaves: int = 1) -> None:
        """Selects `leaves` leaves, spread by virtual losses, then evaluates and backs them up."""
        if leaves == 1:
            return self._back_up(*self._find())
        pending = []
        for _ in range(leaves):
            leaf, path = self._find()
            for edge in path:
                self._add(edge, VIRTUAL_LOSS, -VIRTUAL_LOSS)
            pending.append((leaf, path))
        for leaf, path in pending:
            for edge in path:
                self._add(edge, -VIRTUAL_LOSS, VIRTUAL_LOSS)
            self._back_up(leaf, path)

    def _find(self) -> tuple[int, list[tuple[int, int]]]:
        """Selects a node to evaluate; returns it and the edges of its path."""
        node, path = 0, []
        while self.evaluated[node]:
            visits = self.visits[node]
            bonus = self.c_puct * math.sqrt(self.total[node])
            score = self.value_sum[node] / np.maximum(visits, 1)
            score += bonus * self.prior[node] / (1 + visits)
            action = int(score.argmax())
            path.append((node, action))
            node = self.child[node, action]
            if node < 0:
                node = self.child[path[-1]] = self.size
                self.size += 1
        return node, path

    def _evaluate(self, node: int) -> float:
        row = self.evaluations % len(self.priors)
        self.evaluations += 1
        self.total[node] += 1
        if not self.evaluated[node]:
            self.prior[node], self.evaluated[node] = self.priors[row], True
        return self.values[row]

    def _back_up(self, leaf: int, path: list[tuple[int, int]]) -> None:
        value = self._evaluate(leaf)
        for edge in reversed(path):
            value = -value
            self._add(edge, 1, value)
        self.edges += len(path)

    def _add(self, edge: tuple[int, int], visits: int, value: float) -> None:
        self.visits[edge] += visits
        self.value_sum[edge] += value
        self.total[edge[0]] += visits
