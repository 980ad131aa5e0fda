"""Batches as large as a search is for."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

from gozero.search.amaf import Amaf
from gozero.search.config import SearchConfig
from gozero.search.rave import Rave
from gozero.search.search import search
from tests.search import tictactoe

TOO_MANY = 3277  # times (9 actions + 1) is beyond `fusion.MAX_REDUCED`: no kernel of its own


def compiled(num_trees, **rules):
    """A search compiled for so many boards; none is run."""

    def run(key, roots):
        contexts = jnp.zeros(num_trees)
        config = SearchConfig(num_simulations=2, **rules)
        return search(tictactoe.GAME, tictactoe.even, None, key, contexts, roots, config).action

    cells = jax.ShapeDtypeStruct((num_trees, 9), bool)
    return jax.jit(run).lower(jax.random.key(0), tictactoe.Board(cells, cells)).compile()


def test_a_large_batch_compiles():
    """The same limit is a batch of 395 on 9x9 Go, and of 91 on 19x19."""
    compiled(TOO_MANY)


@pytest.mark.slow
def test_a_large_batch_in_full_rows_compiles():
    """A chunk of nodes has all actions, and one entry more, to choose from."""
    compiled(TOO_MANY * 2, select=Rave(), amaf=Amaf())
