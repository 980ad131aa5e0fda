"""Backup values other than means, and proven results: batched search against the plain one."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.limits import VALUE_ONE
from gozero.search import backup, proofs, root
from gozero.search import tree as trees
from gozero.search.config import Amaf, SearchConfig
from gozero.search.edges import Edges
from gozero.search.rules import prove_first
from gozero.search.rules.forced import ForcedPlayouts
from gozero.search.rules.gumbel import GumbelRoot
from gozero.search.rules.operators import MixBackup, max_backup
from gozero.search.rules.puct import Puct
from gozero.search.rules.rave import MinimumMse, Rave
from gozero.search.rules.ucb1 import Ucb1
from gozero.search.tree import OptionalArrays
from tests.hlo import AS_USERS_FUSE, moves_in_loops
from tests.reference import mcts
from tests.search import random_tree
from tests.search.comparing import compare_searches
from tests.search.evaluators import hash_evaluate

LOSS, DRAW, WIN = proofs.LOSS, proofs.DRAW, proofs.WIN
NUM_TREES, MAX_DEPTH = 5, 20
EVALUATE = hash_evaluate(random_tree.NUM_ACTIONS, 1.5, 0.6)
ENDS = (1.0, 0.0, 0.0, -1.0, 0.5, 1.0, 1.0, 0.0)
"""The possible results of the game, most of which prove something."""


def ends(code):
    """(over, index into `ENDS`): two positions in eleven are terminal."""
    return (code >> 5) % 11 < 2, (code >> 9) % 8


def outcome(position):
    over, which = ends(position.code)
    return over, jnp.array(ENDS)[which]


def legal(position):
    """Most positions have at most two actions; otherwise few would be lost."""
    is_wide = position.code % 8 == 0
    return random_tree.legal(position) & (is_wide | (jnp.arange(12) < 2))


GAME = random_tree.GAME._replace(outcome=outcome, legal=legal)


LEGAL = jax.jit(legal)


class Plain(random_tree.Plain):
    def evaluate(self, code):
        position = random_tree.Position(np.uint32(code))
        evaluated = self.evaluated(np.array([code], np.uint32), LEGAL(position)[None])
        prior, value, *more = jax.tree.map(lambda x: np.asarray(x)[0], evaluated)
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
    # rule, plain rule, simulations, settings
    "prove, mix": (PUCT, PLAIN_PUCT, 120, {"prove": True, "backup": MIX}),
    "prove, five leaves": (PUCT, PLAIN_PUCT, 120, {"prove": True, "leaves": 5}),
}
MORE = {
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
    "prove, mix, by widths": (PUCT, PLAIN_PUCT, 120, {"prove": True, "backup": MIX}),
    "prove, no room": (PUCT, PLAIN_PUCT, 120, {"prove": True, "capacity": 40, "expand_after": 2}),
    "prove, forced playouts": (PUCT, PLAIN_PUCT, 80, {"prove": True}),
    "prove, rave": (Rave(MinimumMse(0.25)), None, 80, {"prove": True, "amaf": Amaf()}),
}


def compiled_search(config, num_trees):
    return random_tree.compiled_search(EVALUATE, config, num_trees, GAME, AS_USERS_FUSE)


@pytest.mark.parametrize("name", MORE)
@pytest.mark.slow
def test_equal_to_the_plain_search_with_other_settings(name, monkeypatch):
    if name.endswith("by widths"):
        monkeypatch.setattr(backup, "FEW", 2)
        monkeypatch.setattr(backup, "SOME", 4)
    check_equal_to_the_plain_search(name, *MORE[name])


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * ("leaves" in name)) for name in CASES]
)
def test_equal_to_the_plain_search_at_every_node(name):
    check_equal_to_the_plain_search(name, *CASES[name])


def check_equal_to_the_plain_search(name, rule, plain_rule, simulations, settings):
    """Compare every node with the plain search; check invariant 2."""
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

    run = compiled_search(config, NUM_TREES)
    assert moves_in_loops(run.as_text(), NUM_TREES * config.num_nodes) == []
    key = jax.random.key(len(name))
    plain, root_rules = Plain(EVALUATE), [root_rule] * NUM_TREES
    found, forest = compare_searches(
        run, codes, key, config, plain, plain_rule, root_rules, **plain_settings
    )
    if config.prove:
        assert found.proven.tolist() == [nodes[0].proven for nodes in forest]
    every = {(node.proven, bool(node.children)) for nodes in forest for node in nodes}
    if config.prove:  # every result, terminal and from children; and some unproven
        assert every >= {(r, c) for r in (0, LOSS, DRAW, WIN) for c in (False, True)}
    assert (found.proven is None) == (not config.prove)


@pytest.mark.slow
def test_invariant_2_for_one_tree():
    """As without these options: only vectors [N] are copied, no array with an action axis."""
    config = SearchConfig(48, max_depth=10, select=PUCT, prove=True, backup=MIX)
    moves = moves_in_loops(compiled_search(config, 1).as_text(), config.num_nodes)
    assert [move for move in moves if f"[{config.num_nodes}]" not in move] == []
    assert len(moves) <= 2, moves


# --- by hand ----------------------------------------------------------------------------


@functools.partial(jax.jit, static_argnames=("backup_value", "proven"))
def small_tree(**arrays):
    """A root and two children by actions 0 and 1 of three: (tree, path to the first of them).

    Q is 1/2 of 3 visits, and 3/4 of one; the root's own evaluation is 0. Action 2 is illegal.
    """
    tree = trees.allocate(
        jnp.zeros((1, 1)), num_actions=3, capacity=3, optional=OptionalArrays(**arrays)
    )
    one = VALUE_ONE
    tree = tree.replace(
        children=tree.children.at[0, :2].set(jnp.array([1, 2], jnp.int16)),
        num_children=tree.num_children.at[0].set(2),
        action=jnp.array([0, 0, 1], jnp.int16),
        edge_prior=jnp.array([-jnp.inf, 0.5, 0.5]),
        visits=jnp.array([5, 3, 1]),
        value_sum=jnp.array([9 * one // 4, -3 * one // 2, -3 * one // 4]),
    )
    return tree, trees.Path(jnp.array([[0], [1]]), jnp.array([1]))


def test_operators_by_hand():
    """The mean is (0 + 3/2 + 3/4) / 5 = 9/20, the most visited child has 1/2, the best one 3/4."""
    known = {
        max_backup: 0.75,
        MixBackup(0.0): 0.5,  # robust max
        MixBackup(3.0): (3 * 0.45 + 3 * 0.5) / 6,
        MixBackup(9.0): (9 * 0.45 + 3 * 0.5) / 12,
    }
    tree, path = small_tree(backup_value=True)
    # The second child's value is stored in the tree; the first one's is backed up along the path.
    tree = tree.replace(backup_value=tree.backup_value.at[2].set(-3 * VALUE_ONE // 4))
    unknown = jnp.zeros(1, jnp.int8)

    @jax.jit
    def back_up(tree, path):  # by every operator
        found = [backup.back_up_values(tree, path, unknown, x) for x in known]
        return found, [trees.all_edges(tree, 0) for tree in found]

    for value, found, edges in zip(known.values(), *back_up(tree, path), strict=True):
        expected = np.round(np.array([value, -0.5, -0.75]) * VALUE_ONE)
        np.testing.assert_array_equal(found.backup_value, expected)
        np.testing.assert_array_equal(edges.q, [[0.5, 0.75, 0.0]])
        assert float(edges.value[0]) == pytest.approx(value, abs=1e-4)
        np.testing.assert_array_equal(found.value_sum, tree.value_sum)
    # With more simulations the value moves from the mean to the most visited child's.
    mixed = [
        float(MixBackup(8.0)(Edges(None, jnp.array([n, 1]), jnp.array([0.5, 1]), 0.1, None)))
        for n in (8, 24, 8000)
    ]
    np.testing.assert_allclose(mixed, [0.3, 0.4, 0.5], atol=1e-3)
    with pytest.raises(ValueError, match="mean_weight"):
        MixBackup(-1.0)


def test_prove_first():
    rule, prior = prove_first.ProveFirst(Ucb1(0.0)), jnp.array([0.5, 0.3, 0.2, 0.0])
    edges = Edges(prior, jnp.array([2, 1, 3, 0]), jnp.array([0, -1, -0.5, 0]), 0.0, jnp.int32(6))
    assert rule(edges).tolist() == Ucb1(0.0)(edges).tolist() == [0.5, 0.0, 0.25, np.inf]
    drawn = edges._replace(proven=jnp.array([DRAW, LOSS, 0, 0], jnp.int8))
    scores = proofs.avoid_lost(rule(drawn), drawn.proven)
    assert np.argsort(scores).tolist() == [1, 0, 2, 3]
    assert np.isfinite(scores[:3]).all()
    assert rule.rank_untried(prior).tolist() == [0.0] * 4
    assert not rule.needs.raw_value
    plain = prove_first.ProveFirst(lambda edges: jnp.where(edges.q == 0, jnp.nan, edges.q))
    padded = drawn._replace(prior=jnp.array([0.5, 0.3, 0.2, -np.inf]), q=edges.q - 1.0)
    scores = plain(padded._replace(q=padded.q.at[3].set(5.0)))  # of an illegal action
    assert np.argmax(scores) == 2
    assert scores[3] == -np.inf
    assert not np.isnan(plain(drawn)).any()


def test_proofs_by_hand():
    over, value = jnp.array([1, 1, 1, 1, 1, 0], bool), jnp.array([1, 0, -1, 0.5, jnp.nan, 1])
    assert proofs.of_result(over, value).tolist() == [WIN, DRAW, LOSS, 0, 0, 0]
    known = jnp.array([0, LOSS, DRAW, WIN], jnp.int8)
    assert proofs.opponent(known).tolist() == [0, WIN, DRAW, LOSS]
    assert proofs.value(known)[1:].tolist() == [-1, 0, 1]
    cases = {
        # results of the tried actions, whether others are untried: what this proves
        ((LOSS, WIN, 0), True): WIN,
        ((LOSS, LOSS), False): LOSS,
        ((LOSS, LOSS), True): 0,
        ((LOSS, DRAW), False): DRAW,
        ((LOSS, DRAW), True): 0,
        ((LOSS, DRAW, 0), False): 0,
        ((-1, -1), False): 0,  # no action at all
    }
    for (results, untried), proven in cases.items():
        result = proofs.of_actions(jnp.array(results, jnp.int8), jnp.bool_(untried))
        assert int(result) == proven, results


@jax.jit
def prove(tree, path, first):
    """The tree after a leaf is proven, the root's edges, and its `next` if it chose node 1."""
    result = backup.back_up_values(tree, path, first, None)
    next_ = trees.unless_proven(result, jnp.array([0]), jnp.array([1]))
    return result, trees.all_edges(result, 0), next_


@pytest.mark.parametrize(
    ("first", "second", "untried", "proven"),
    # Results of the two children and of the root, each for its player to move.
    [(LOSS, 0, -1, WIN), (WIN, WIN, -1, LOSS), (DRAW, WIN, -1, DRAW), (DRAW, WIN, 0.1, 0)],
)
def test_a_proof_is_backed_up(first, second, untried, proven):
    tree, path = small_tree(proven=True)
    tree = tree.replace(
        proven=tree.proven.at[2].set(second), prior=tree.prior.at[0, 2].set(untried)
    )
    found, edges, next_ = prove(tree, path, jnp.array([first], jnp.int8))
    assert found.proven.tolist() == [proven, first, second]
    exact = {0: 0.75, WIN: -1, DRAW: 0, LOSS: 1}
    assert edges.q[0, :2].tolist() == [exact[first], exact[second]]
    assert edges.proven[0].tolist() == [4 - first, 4 - second if second else 0, 0]
    assert next_.tolist() == [trees.NO_NODE if proven else 1]


@pytest.mark.parametrize(
    ("results", "visits", "played"),
    [
        ((0, WIN, 0), (8, 1, 3), 1),
        ((LOSS, DRAW, 0), (8, 1, 3), 2),
        ((LOSS, DRAW, LOSS), (8, 1, 3), 1),
        ((LOSS, LOSS, 0), (8, 1, 0), 2),  # untried: it may be better
        ((LOSS, LOSS, LOSS), (1, 8, 3), 1),
    ],
)
@pytest.mark.parametrize("final_move", ["visits", "value", "bound"])
def test_final_moves_with_proofs(results, visits, played, final_move):
    keys = jax.random.split(jax.random.key(0), 3)
    result, visits = jnp.array(results, jnp.int8), jnp.array(visits)
    assert final_actions(final_move, keys, result, visits).tolist() == [played] * 3


@functools.partial(jax.jit, static_argnums=0)
def final_actions(final_move, keys, result, visits):
    """The action played with each key, of three; unproven ones are worth 1/4."""
    q = jnp.where(result > 0, proofs.value(result), 0.25)
    prior, total = jnp.array([0.5, 0.3, 0.2]), jnp.int32(12)
    edges = Edges(prior, visits, q, jnp.float32(0), total, proven=result)
    config = SearchConfig(prove=True, final_move=final_move)
    return jax.vmap(lambda key: root.final_action(config, key, edges, jnp.zeros(3)))(keys)


@pytest.mark.parametrize(
    ("field", "settings"),
    [
        ("backup", {"backup": 1.0}),
        ("backup", {"backup": max_backup, "leaves": 4}),
        ("backup", {"backup": max_backup, "amaf": Amaf()}),
        ("prove", {"prove": True, "root_select": GumbelRoot()}),
    ],
)
def test_conflicting_settings_are_refused(field, settings):
    with pytest.raises(ValueError, match=field):
        SearchConfig(**settings)


def test_unused_features_take_no_memory():
    codes = random_tree.Position(jnp.zeros(3, jnp.uint32))
    size = lambda **more: trees.memory_bytes(codes, 12, 101, OptionalArrays(**more))
    assert size(backup_value=True) - size() == 3 * 101 * 4
    assert size(proven=True) - size() == 3 * 101
    assert trees.allocate(codes, 12, 101).backup_value is None
