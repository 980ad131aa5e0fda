"""The memory that a search takes, known before it is allocated."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax

from gozero.search import tree as trees
from gozero.search.config import SearchConfig


class Memory(NamedTuple):
    """Bytes; the evaluator's and the paths' are not among them."""

    tree: int  # the trees of all games
    reroot_copy: int  # what they are compacted into, when trees are reused; else 0
    per_game: int  # of both, for one game
    total: int  # of both

    def __str__(self) -> str:
        copy = ", the copy to re-root included" if self.reroot_copy else ""
        return f"{self.total / 2**20:,.1f} MiB, {self.per_game / 2**10:,.1f} KiB a game{copy}"


def memory(roots: Any, num_actions: int, config: SearchConfig, reuse: bool = False) -> Memory:
    """What the trees of a search take.

    Args:
      roots: positions with a leading axis [B], or their shapes (``jax.eval_shape``).
      num_actions: A.
      config: the search's settings; with reuse those are `SearchConfig.roomy`, most likely.
      reuse: trees are re-rooted from move to move: while that is done there are two of each.
    """
    num_trees = jax.tree.leaves(roots)[0].shape[0]
    tree = trees.memory_bytes(roots, num_actions, config.num_nodes)
    total = tree * 2 if reuse else tree
    return Memory(tree, total - tree, -(-total // num_trees), total)
