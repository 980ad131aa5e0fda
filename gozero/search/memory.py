"""Which optional arrays a search's trees have, and their memory, without allocating it."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax

from gozero.search import tree as trees
from gozero.search.config import SearchConfig
from gozero.search.game import Game, check_is_game, positions_of
from gozero.search.tree import OptionalArrays


def optional_arrays(config: SearchConfig, prior_counts: bool = False) -> OptionalArrays:
    """The optional arrays of a search's trees; `prior_counts`: the evaluator has a heuristic whose
    values count as visits."""
    if config.grandfather is not None:
        prior_counts |= config.grandfather.visits > 0
    return OptionalArrays(
        amaf=config.amaf is not None,
        squares=config.keeps_squares,
        scores=config.score_utility is not None,
        prior_counts=prior_counts,
        shared=config.sharing is not None,
        backup_value=config.backup is not None,
        proven=config.prove,
        last_sync=config.ensemble is not None,
        wide=config.wide,
    )


class Memory(NamedTuple):
    """Memory in bytes, without the evaluator's and that of the paths."""

    tree: int  # the trees of all games
    reroot_copy: int  # the copy that re-rooting makes when trees are reused; else 0
    prune_copy: int  # the copy that pruning makes then; else 0
    per_game: int  # the total for one game
    total: int  # the trees, both copies, and the tables of transpositions

    def __str__(self) -> str:
        copies = ", copies to re-root and prune included" if self.reroot_copy else ""
        return f"{self.total / 2**20:,.1f} MiB, {self.per_game / 2**10:,.1f} KiB a game{copies}"


def memory_of(
    roots: Any,
    num_actions: int,
    config: SearchConfig,
    reuse: bool = False,
    prior_counts: bool = False,
) -> Memory:
    """The memory that the trees of a search take.

    Args:
      roots: positions with a leading axis [B], or their shapes (``jax.eval_shape``). With
        `SearchConfig.ensemble`, each has several trees.
      num_actions: A.
      config: the search's settings; with reuse, usually `SearchConfig.for_reuse`.
      reuse: whether trees are re-rooted from move to move. If moves follow each other in one
        compiled loop, as in self-play, XLA allocates all three at once; if each move is a separate
        call to which the trees are donated (``donate_argnums``), there are at most two.
      prior_counts: whether the evaluator has a heuristic whose values count as visits.
    """
    num_games = jax.tree.leaves(roots)[0].shape[0]
    if config.ensemble is not None:
        roots = jax.eval_shape(config.ensemble.copies, roots)
    num_trees = jax.tree.leaves(roots)[0].shape[0]
    optional = optional_arrays(config, prior_counts)
    tree = trees.memory_bytes(roots, num_actions, config.num_nodes, optional)
    copy = tree if reuse else 0
    slots = 4 * num_trees * trees.num_slots(config.num_nodes) if optional.shared else 0
    total = tree + 2 * copy + slots
    return Memory(tree, copy, copy, -(-total // num_games), total)


def search_memory(
    game: Game, states: Any, config: SearchConfig, reuse: bool = False, prior_counts: bool = False
) -> Memory:
    """The memory that the trees of a search take.

    Args:
      game: the game.
      states: its states with a leading axis [B], or their shapes (``jax.eval_shape``).
      config, reuse, prior_counts: as for `memory_of`.

    Returns:
      A `Memory`: bytes for a game and in total; ``str()`` of it is a sentence.

    Raises:
      TypeError: not a `Game`.
    """
    check_is_game(game)
    roots = jax.eval_shape(lambda states: positions_of(game, states), states)
    return memory_of(roots, game.num_actions, config, reuse, prior_counts)
