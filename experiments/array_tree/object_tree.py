"""A tree of Python objects, as in most first versions: one node per action of a position."""

from __future__ import annotations

import math

VIRTUAL_LOSS = 3


class Node:
    """An action and the position it leads to; it has children once it has been evaluated."""

    def __init__(self, prior: float, parent: Node | None):
        self.prior, self.parent = prior, parent
        self.visits, self.value_sum = 0, 0.0  # for the parent's player to move
        self.children: dict[int, Node] = {}


class ObjectTree:
    """PUCT on nodes. The evaluator is a stub: evaluation n takes row n of `priors`, and value n."""

    def __init__(self, num_actions: int, capacity: int, priors, values, c_puct: float = 1.5):
        del capacity
        self.num_actions, self.c_puct = num_actions, c_puct
        self.priors, self.values = [row.tolist() for row in priors], values.tolist()
        self.evaluated, self.edges = 0, 0
        self.root = Node(1.0, None)
        self.root.visits = 1
        self._evaluate(self.root)

    def _evaluate(self, node: Node) -> float:
        row = self.evaluated % len(self.priors)
        self.evaluated += 1
        if not node.children:
            node.children = {a: Node(p, node) for a, p in enumerate(self.priors[row])}
        return self.values[row]

    def step(self, leaves: int = 1) -> None:
        """Selects `leaves` leaves, spread by virtual losses, then evaluates and backs them up."""
        pending = [self._find(leaves > 1) for _ in range(leaves)]
        for leaf in pending:
            value = self._evaluate(leaf)
            node = leaf
            while node is not None:
                if leaves > 1:
                    node.visits -= VIRTUAL_LOSS
                    node.value_sum += VIRTUAL_LOSS
                node.visits += 1
                node.value_sum += -value
                value = -value
                self.edges += node.parent is not None
                node = node.parent

    def _find(self, marks: bool) -> Node:
        leaf = node = self.root
        while leaf.children:
            leaf = node = self._best(leaf)
        while marks and node is not None:
            node.visits += VIRTUAL_LOSS
            node.value_sum -= VIRTUAL_LOSS
            node = node.parent
        return leaf

    def _best(self, node: Node) -> Node:
        # A node's visits are its evaluations plus its children's visits and virtual losses.
        bonus = self.c_puct * math.sqrt(node.visits)

        def score(child: Node) -> float:
            value = child.value_sum / max(child.visits, 1)
            return value + bonus * child.prior / (1 + child.visits)

        return max(node.children.values(), key=score)
