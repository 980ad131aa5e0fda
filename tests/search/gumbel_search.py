"""One compiled search with the Gumbel rules, shared by the tests that inspect it."""

from __future__ import annotations

import functools

import jax

from gozero.search import root
from gozero.search.config import SearchConfig
from gozero.search.rules.gumbel import GumbelInterior, GumbelRoot
from tests.hlo import AS_USERS_HAVE_IT
from tests.search import random_tree
from tests.search.evaluators import hash_evaluate

CONFIG = SearchConfig(
    num_simulations=60,
    capacity=71,  # not 61, so that B * N rows are not also B * D path entries
    select=GumbelInterior(max_visit_init=20.0),
    root_select=GumbelRoot(max_considered=6),
)
EVALUATE = hash_evaluate(random_tree.NUM_ACTIONS, 1.5, 0.6)


@functools.cache
def compiled(batch):
    """(codes u32[B] of the roots, key) -> SearchResult."""

    return random_tree.compiled_search(EVALUATE, CONFIG, batch, options=AS_USERS_HAVE_IT)


@functools.partial(jax.jit, static_argnums=(1, 2))
def samples(key, num_trees, num_actions):
    """The Gumbel samples of a search with this key."""
    noise_key = jax.random.split(key, 4)[0]
    return root.gumbel(jax.random.split(noise_key)[1], num_trees, num_actions)
