"""Values that are no means, and proven results: the batched search and the plain one."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.search import proofs
from gozero.search.amaf import Amaf
from gozero.search.config import SearchConfig
from gozero.search.operators import MixBackup, max_backup
from gozero.search.rave import MinimumMse, Rave
from gozero.search.search import search
from gozero.search.selection import ForcedPlayouts, Puct, Ucb1
from tests.reference import mcts
from tests.search import random_tree
from tests.search.comparing import compare_trees
from tests.search.judges import hash_evaluate

LOSS, DRAW, WIN = proofs.LOSS, proofs.DRAW, proofs.WIN
NUM_TREES, MAX_DEPTH = 5, 20
EVALUATE = hash_evaluate(random_tree.NUM_ACTIONS, 1.5, 0.6)
ENDS = (1.0, 0.0, 0.0, -1.0, 0.5, 0.0, 1.0, -0.25)
"""What the game may end in, of which most prove something."""


def ends(code):
    """(over, which of `ENDS`): two positions in nine are the end."""
    return (code >> 5) % 9 < 2, (code >> 9) % 8


def result(context, position):
    del context
    over, which = ends(position.code)
    return over, jnp.array(ENDS)[which]


def legal(context, position, trail):
    """Of most positions no more than three actions: else few are lost."""
    is_wide = position.code % 8 == 0
    return random_tree.legal(context, position, trail) & (is_wide | (jnp.arange(12) < 3))


GAME = random_tree.GAME._replace(result=result, legal=legal)


LEGAL = jax.jit(legal)


class Plain(random_tree.Plain):
    def judge(self, code):
        position = random_tree.Position(np.uint32(code))
        judged = self.judged(np.array([code], np.uint32), LEGAL(None, position, None)[None])
        prior, value, *more = jax.tree.map(lambda x: np.asarray(x)[0], judged)
        over, which = ends(code)
        return prior, ENDS[which] if over else float(value), over, *more


def plain_max(mean, visits, values):
    return max(values)


def plain_mix(mean, visits, values):
    best = int(np.argmax(visits))
    share = np.float32(visits[best]) / np.float32(8 + visits[best])
    return mean + share * (values[best] - mean)


PUCT, PLAIN_PUCT = Puct(1.5), mcts.Puct(1.5)
MIX = MixBackup(8.0)
CASES = {
    # rule, its plain one, simulations, settings
    "max": (PUCT, PLAIN_PUCT, 80, {"backup": max_backup}),
    "mix": (PUCT, PLAIN_PUCT, 80, {"backup": MIX}),
    "mix, first play as the parent": (
        Puct(1.5, first_play="parent"),
        mcts.Puct(1.5, first_play="parent"),
        80,
        {"backup": MIX},
    ),
    "prove": (PUCT, PLAIN_PUCT, 120, {"prove": True}),
    "prove, ucb1": (Ucb1(0.7), mcts.Ucb1(0.7), 120, {"prove": True}),
    "prove, mix": (PUCT, PLAIN_PUCT, 120, {"prove": True, "backup": MIX}),
    "prove, five leaves": (PUCT, PLAIN_PUCT, 120, {"prove": True, "leaves": 5}),
    "prove, no room": (PUCT, PLAIN_PUCT, 120, {"prove": True, "capacity": 40, "expand_after": 2}),
    "prove, forced playouts": (PUCT, PLAIN_PUCT, 80, {"prove": True}),
    "prove, rave": (Rave(MinimumMse(0.25)), None, 80, {"prove": True, "amaf": Amaf()}),
}


@pytest.mark.parametrize("name", CASES)
def test_equal_to_the_plain_search_at_every_node(name):
    rule, plain_rule, simulations, settings = CASES[name]
    codes = np.random.RandomState(1).randint(1, 2**31, 400).astype(np.uint32)
    codes = codes[~ends(codes)[0]][:NUM_TREES]
    plain_settings, root_rule = dict(settings), None
    if plain_settings.pop("amaf", None):
        beta = lambda n, amaf, total, mu: amaf / max(n + amaf + n * amaf * 0.25, 1)
        plain_rule, plain_settings["amaf"] = mcts.Rave(beta), "either"
    if "leaves" in settings:
        plain_settings["virtual_loss"] = 3
    if "backup" in settings:
        plain_settings["backup"] = plain_mix if settings["backup"] is MIX else plain_max
    if name.endswith("forced playouts"):
        root_rule = mcts.Forced(plain_rule, 3.0)
        settings = {**settings, "root_select": ForcedPlayouts(rule, 3.0)}
    config = SearchConfig(simulations, max_depth=MAX_DEPTH, select=rule, **settings)

    @jax.jit
    def run(codes, key):
        roots = random_tree.Position(codes)
        return search(GAME, EVALUATE, None, key, jnp.zeros(len(codes)), roots, config)

    key = jax.random.key(len(name))
    found = run(codes, key)
    salts = np.asarray(jax.random.bits(jax.random.split(key, 4)[2], (NUM_TREES,), jnp.uint32))
    plain = Plain(EVALUATE)
    every = set()
    for b in range(NUM_TREES):
        nodes = mcts.search(
            int(codes[b]),
            plain.play,
            plain.judge,
            simulations,
            MAX_DEPTH,
            plain_rule,
            int(salts[b]),
            root_rule,
            **plain_settings,
        )
        compare_trees(found.tree, b, nodes)
        np.testing.assert_array_equal(found.visits[b], nodes[0].visits)
        every |= {(node.proven, bool(node.children)) for node in nodes}
        if config.prove:
            assert int(found.proven[b]) == nodes[0].proven
    if config.prove:  # of each kind, at ends of games and by children; and some that are open
        assert every >= {(r, c) for r in (0, LOSS, DRAW, WIN) for c in (False, True)}
    assert (found.proven is None) == (not config.prove)
    assert bool(found.ok.all())
