"""Batches as large as a search is for."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

from gozero.search.config import SearchConfig
from gozero.search.search import search
from tests.search import tictactoe

TOO_MANY = 3277  # times (9 actions + 1) is beyond 2^15; 3276 trees compile


def compiled(num_trees):
    """A search compiled for so many boards; none is run."""

    def run(key, roots):
        contexts = jnp.zeros(num_trees)
        config = SearchConfig(num_simulations=2)
        return search(tictactoe.GAME, tictactoe.even, None, key, contexts, roots, config).action

    cells = jax.ShapeDtypeStruct((num_trees, 9), bool)
    return jax.jit(run).lower(jax.random.key(0), tictactoe.Board(cells, cells)).compile()


@pytest.mark.xfail(
    "jax.default_backend() == 'cpu'",
    raises=jax.errors.JaxRuntimeError,
    strict=True,
    reason="fusion.one_kernel: beyond 2^15 numbers XLA:CPU makes a maximum in `selection.choose` "
    "a call of its YNN library, for which a kernel of its own has no code",
)
def test_a_large_batch_compiles():
    """The same limit is a batch of 395 on 9x9 Go, and of 91 on 19x19."""
    compiled(TOO_MANY)
