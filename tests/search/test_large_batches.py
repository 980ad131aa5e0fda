"""The largest batches that a search is meant for."""

from __future__ import annotations

import jax
import pytest

from gozero.search.config import Amaf, SearchConfig
from gozero.search.game import Evaluator
from gozero.search.rules.rave import Rave
from gozero.search.search import search
from tests.search import tictactoe

TOO_MANY = 3277  # times (9 actions + 1) exceeds `stages.MAX_REDUCED`: no kernel of its own


def traceable(num_trees, **rules):
    """A jitted search of `num_trees` boards."""

    def run(key, roots):
        config = SearchConfig(num_simulations=2, **rules)
        return search(tictactoe.GAME, Evaluator(tictactoe.even), key, roots, config).action

    return jax.jit(run)


def shapes(num_trees):
    """The arguments of such a search."""
    cells = jax.ShapeDtypeStruct((num_trees, 9), bool)
    return jax.random.key(0), tictactoe.Board(cells, cells)


def compiled(num_trees, **rules):
    """A search compiled for `num_trees` boards; it is not run."""
    return traceable(num_trees, **rules).lower(*shapes(num_trees)).compile()


@pytest.mark.parametrize(
    "num_trees", [1, 4096, *(pytest.param(n, marks=pytest.mark.thorough) for n in (3641, 8192))]
)
@pytest.mark.parametrize("rules", [{}, {"select": Rave(), "amaf": Amaf()}], ids=["cached", "dense"])
def test_every_batch_traces(num_trees, rules):
    """A chunk of nodes covers 3,640 trees at most; the batch need not be a multiple of that."""
    action = jax.eval_shape(traceable(num_trees, **rules), *shapes(num_trees))
    assert action.shape == (num_trees,)


def test_a_large_batch_compiles():
    """The same limit is reached by a batch of 395 on 9x9 Go, and of 91 on 19x19."""
    compiled(TOO_MANY)


@pytest.mark.slow
def test_a_large_batch_of_dense_selection_compiles():
    """The nodes of a chunk choose among all actions and one more entry."""
    compiled(TOO_MANY * 2, select=Rave(), amaf=Amaf())
