"""Reuse of an earlier tree, against a plain search that does the same."""

from __future__ import annotations

import dataclasses
import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gozero
from gozero.hashing import mix
from gozero.limits import MAX_VISITS
from gozero.search import reuse, rows
from gozero.search import search as searching
from gozero.search import tree as trees
from gozero.search.config import Amaf, SearchConfig
from gozero.search.game import Evaluation, Evaluator
from gozero.search.rules.puct import Puct
from gozero.search.rules.rave import Rave
from gozero.search.search import search
from gozero.search.tree import OptionalArrays
from tests.hlo import AS_USERS_FUSE, moves_in_loops
from tests.reference import mcts
from tests.search import random_tree
from tests.search.comparing import compare_trees

NUM_TREES, SIMULATIONS = 5, 60
CODES = np.random.RandomState(3).randint(1, 2**31, NUM_TREES).astype(np.uint32)
RULE, PLAIN_RULE = Puct(1.5), mcts.Puct(1.5)


def evaluate(params, key, codes):
    """Values and priors from hashes; almost no two priors are equal, so there are no ties.

    `params` is f32[]: the weight of a value drawn from the key.
    """
    action = jnp.arange(random_tree.NUM_ACTIONS, dtype=jnp.uint32)[None] * np.uint32(0x27D4EB2D)
    logits = mix(codes[:, None] ^ (action + np.uint32(99))).astype(jnp.float32) / 2**30
    value = mix(codes ^ np.uint32(0xABCDEF)).astype(jnp.float32) * (2 / 2**32) - 1
    if params is not None:
        value = value + params * jax.random.uniform(key, value.shape, minval=-1.0)
    return Evaluation(logits, value * 0.5)


PLAIN = random_tree.Plain(evaluate)


class Searcher:
    """(tree, codes, key, luck=0) -> SearchResult, compiled once: other shapes are refused."""

    def __init__(self, **settings):
        self.config = SearchConfig(num_simulations=SIMULATIONS, select=RULE, **settings)

    @functools.cached_property
    def compiled(self):
        def run(tree, codes, key, luck):
            roots = random_tree.Position(codes)
            evaluator = Evaluator(evaluate, luck)
            return search(random_tree.GAME, evaluator, key, roots, self.config, tree)

        arguments = (empty(self.config), CODES, jax.random.key(0), np.float32(0))
        return jax.jit(run, compiler_options=AS_USERS_FUSE).lower(*arguments).compile()

    def __call__(self, tree, codes, key, luck=0.0):
        return self.compiled(tree, codes, key, np.float32(luck))


def empty(config):
    return reuse.empty(random_tree.Position(CODES), random_tree.NUM_ACTIONS, config)


REROOT = jax.jit(reuse.reroot)
EDGES = jax.jit(trees.all_edges)
PRUNE = jax.jit(reuse.prune, static_argnums=1)
SHALLOW = Searcher(capacity=7 * SIMULATIONS, max_depth=4)
SMALL = Searcher(capacity=23)  # R equals no other size in the search: see invariant 2
RUN_NOISY = Searcher(capacity=2 * SIMULATIONS + 1, dirichlet_fraction=0.5, dirichlet_alpha=0.03)
NOISY = RUN_NOISY.config


def host(x):
    return jax.tree.map(np.asarray, x)


def plain_search(b, nodes, code, key, max_depth=64, capacity=None):
    tie_seeds = np.asarray(jax.random.bits(jax.random.split(key, 4)[2], (NUM_TREES,), jnp.uint32))
    return mcts.search(
        int(code),
        PLAIN.play,
        PLAIN.evaluate,
        SIMULATIONS,
        max_depth,
        PLAIN_RULE,
        int(tie_seeds[b]),
        nodes=nodes,
        capacity=capacity,
    )


def with_garbage(tree):
    """The tree with garbage in the priors and lists of children that are not in use."""
    tree = host(tree)
    node = np.arange(tree.num_rows).reshape(tree.num_trees, tree.capacity)
    beyond = (node - node[:, :1] >= tree.size[:, None]).reshape(-1, 1)
    is_child = np.arange(tree.num_actions) < np.where(beyond, 0, tree.num_children[:, None])
    return tree.replace(
        prior=np.where(beyond, np.float32(np.nan), tree.prior),
        children=np.where(is_child, tree.children, tree.capacity - 1).astype(tree.children.dtype),
    )


def check_consistent(tree):
    """Check the invariants of any tree, however it was made; rows without a node are blank, except
    their priors and children."""
    tree = host(tree)
    blank = host(reuse.empty(random_tree.Position(CODES), tree.num_actions, SearchConfig(9)))
    for b in range(tree.num_trees):
        size, first = int(tree.size[b]), b * tree.capacity
        for field in dataclasses.fields(tree):
            if field.name not in ("size", "capacity", "codec", "prior", "children"):
                for x, empty_row in zip(
                    jax.tree.leaves(getattr(tree, field.name)),
                    jax.tree.leaves(getattr(blank, field.name)),
                    strict=True,
                ):
                    beyond = x[first + size : first + tree.capacity]
                    np.testing.assert_array_equal(
                        beyond, np.broadcast_to(empty_row[0], beyond.shape), field.name
                    )
        seen = []
        for node in range(size):
            row = first + node
            children = tree.children[row, : tree.num_children[row]]
            assert (children > node).all()
            assert (tree.parent[first + children] == node).all()
            seen += children.tolist()
            actions = tree.action[first + children]
            assert len(set(actions.tolist())) == len(actions)
            assert np.isneginf(tree.prior[row, actions]).all()
            whole = np.append(tree.prior[row], tree.edge_prior[first + children])
            assert whole[whole >= 0].sum() == pytest.approx(1, abs=1e-5)
            assert tree.untried_prior[row] == tree.prior[row].max()
            if tree.untried_prior[row] >= 0:
                assert tree.prior[row, tree.untried[row]] == tree.untried_prior[row]
            assert tree.next[row] in [trees.NO_NODE, *children]
            assert tree.visits[row] > tree.visits[first + children].sum()
        assert sorted(seen) == list(range(1, size))


def test_equal_to_the_plain_search_move_by_move():
    """Nodes at the depth limit are expanded once the root is nearer."""
    tree, codes, max_depth = empty(SHALLOW.config), CODES.copy(), SHALLOW.config.max_depth
    nodes = [None] * NUM_TREES
    kept, at_limit = [], []
    for move in range(5):
        key = jax.random.key(move)
        result = SHALLOW(tree, codes, key)
        assert bool(result.ok.all())
        action = np.where(result.visits.sum(axis=1) > 0, result.action, -1)
        if move == 2:
            action[1] = -1  # this lane starts another game here
        tree = with_garbage(REROOT(result.tree, action))
        check_consistent(tree)
        for b in range(NUM_TREES):
            nodes[b] = plain_search(b, nodes[b], codes[b], key, max_depth)
            compare_trees(result.tree, b, nodes[b])
            np.testing.assert_array_equal(result.visits[b], nodes[b][0].visits)
            codes[b] = PLAIN.play(int(codes[b]), int(action[b]) % 2**32)
            at_limit.append(
                [n for n in nodes[b] if n.depth == max_depth and n.evaluated > 1 and not n.over]
            )
            nodes[b] = mcts.reroot(nodes[b], action[b])
            kept.append(len(nodes[b]))
            if nodes[b]:
                compare_trees(tree, b, nodes[b])
            assert int(tree.size[b]) == len(nodes[b])
    assert np.mean(kept) > SIMULATIONS / 4
    assert sum(bool(n.children) for some in at_limit for n in some) > 3  # expanded after all


@pytest.mark.slow
def test_a_full_tree_equals_the_plain_one():
    run, config = SMALL, SMALL.config
    result = run(empty(config), CODES, jax.random.key(1))
    for b in range(NUM_TREES):
        nodes = plain_search(b, None, CODES[b], jax.random.key(1), capacity=23)
        compare_trees(result.tree, b, nodes)
        np.testing.assert_array_equal(result.visits[b], nodes[0].visits)
    full = np.asarray(result.tree.size) == 23
    assert full.sum() >= 3
    # Leaves are evaluated anew: with random values no leaf's sum is a multiple of its first one.
    drawn = host(run(empty(config), CODES, jax.random.key(1), 1.0).tree)
    leaf = (drawn.visits > 2) & (drawn.num_children == 0) & ~drawn.over
    assert leaf.sum() > 3
    assert (drawn.value_sum != drawn.value * drawn.visits)[leaf].all()
    # Nodes closed by a full tree reopen after a move; a search on a full tree frees half the room.
    moved = REROOT(result.tree, result.action)
    check_consistent(moved)
    again = run(result.tree, CODES, jax.random.key(2))
    assert (np.asarray(again.visits.sum(axis=1))[full] > SIMULATIONS).all()
    assert again.ok.all()
    assert (np.asarray(again.tree.size)[full] == 23).all()


@pytest.mark.slow
def test_noise_is_new_in_every_search_and_not_accumulated():
    tree, codes = empty(NOISY), CODES.copy()
    noises = []
    for move in range(3):
        result = RUN_NOISY(tree, codes, jax.random.key(move))
        clean = np.stack([PLAIN.evaluate(int(code))[0] for code in codes])
        prior = np.asarray(EDGES(result.tree, 0).prior)
        legal = clean >= 0
        assert ((prior >= 0) == legal).all()
        # Half of it is the clean prior. Noise applied twice would fall below that half somewhere,
        # as with so small an alpha most of the noise is at one action.
        noise = 2 * (prior[legal] - 0.5 * clean[legal])
        assert noise.min() > -1e-6
        assert noise.sum() == pytest.approx(NUM_TREES, abs=1e-4)
        assert np.median(noise) < 0.05
        noises.append(noise if move < 2 else None)
        if move == 0:
            tree = result.tree  # the same roots again
        else:
            tree = REROOT(result.tree, result.action)
            codes = np.array(
                [PLAIN.play(int(c), int(a)) for c, a in zip(codes, result.action, strict=True)],
                np.uint32,
            )
            for b in np.flatnonzero(tree.size):
                prior = PLAIN.evaluate(int(codes[b]))[0]
                np.testing.assert_array_equal(EDGES(tree, 0).prior[b], prior)
    assert np.abs(noises[0] - noises[1]).max() > 0.1


@pytest.mark.thorough
def test_pruning_keeps_the_most_visited():
    tree = RUN_NOISY(empty(NOISY), CODES, jax.random.key(5)).tree
    most = 17
    old, pruned = host(tree), host(PRUNE(tree, most))
    check_consistent(pruned)
    lost = 0
    for b in range(NUM_TREES):
        first, size = b * tree.capacity, int(old.size[b])
        order = sorted(range(size), key=lambda n: (-old.visits[first + n], n))
        kept = first + np.array(sorted(order[:most]))
        rows = slice(first, first + len(kept))
        assert pruned.size[b] == len(kept)
        for name in ("visits", "value_sum", "value", "action", "over", "edge_prior"):
            np.testing.assert_array_equal(getattr(pruned, name)[rows], getattr(old, name)[kept])
        lost += int((pruned.num_children[rows] < old.num_children[kept]).sum())
    assert lost > 5
    same = host(PRUNE(tree, tree.capacity))
    jax.tree.map(np.testing.assert_array_equal, same, old)
    result = RUN_NOISY(pruned, CODES, jax.random.key(6))
    assert result.ok.all()
    check_consistent(result.tree)


@pytest.mark.thorough
def test_a_search_prunes_for_its_new_nodes():
    """A full tree keeps only as many nodes as leave room for the new ones."""
    result = RUN_NOISY(empty(NOISY), CODES, jax.random.key(5))
    for move in range(3):
        before = result
        result = RUN_NOISY(result.tree, CODES, jax.random.key(6 + move))
        check_consistent(result.tree)
        growing = np.asarray(before.visits.sum(axis=1)) > 0
        more = np.asarray(result.visits.sum(axis=1) - before.visits.sum(axis=1))
        assert (more[growing] > 0).all()
    assert int(result.tree.size.max()) > 2 * SIMULATIONS - 5  # terminal leaves add no node
    spent = np.asarray(result.tree.visits).reshape(NUM_TREES, -1)[:, 0]
    np.testing.assert_array_equal(spent, 1 + 4 * SIMULATIONS)


def test_a_tree_of_another_position_is_reported_and_isolated():
    tree = SHALLOW(empty(SHALLOW.config), CODES, jax.random.key(0)).tree
    codes = CODES.copy()
    right = SHALLOW(tree, codes, jax.random.key(1))
    codes[2] += 8
    wrong = SHALLOW(tree, codes, jax.random.key(1))
    assert wrong.ok.tolist() == [True, True, False, True, True]
    others = np.arange(NUM_TREES) != 2
    for name in ("visits", "q", "value", "policy_target"):
        np.testing.assert_array_equal(
            np.asarray(getattr(wrong, name))[others], np.asarray(getattr(right, name))[others]
        )
    new = SHALLOW(
        empty(SHALLOW.config), codes, jax.random.key(1)
    )  # the new tree that it gets instead
    np.testing.assert_array_equal(wrong.visits[2], new.visits[2])
    check_consistent(wrong.tree)


def test_visits_that_could_overflow_sums_are_dropped():
    tree = host(SHALLOW(empty(SHALLOW.config), CODES, jax.random.key(0)).tree)
    roots = np.arange(NUM_TREES) * tree.capacity
    most = MAX_VISITS - SIMULATIONS + 1
    visits = tree.visits.copy()
    visits[roots] = [*[most] * 2, *[most + 1] * 3]
    result = SHALLOW(tree.replace(visits=visits), CODES, jax.random.key(1))
    after = np.asarray(result.tree.visits)[roots]
    expected = MAX_VISITS + 1
    assert after.tolist() == [expected, expected, *[SIMULATIONS + 1] * 3]
    assert result.ok.all()


def test_prior_counts_count_towards_the_visit_limit():
    """By hand: the limit counts 31 new simulations, prior counts and AMAF visits of an action."""
    roots = random_tree.Position(CODES)
    optional = OptionalArrays(amaf=True, prior_counts=True)
    config = SearchConfig(31, capacity=4)
    tree = host(trees.allocate(roots, random_tree.NUM_ACTIONS, 4, optional))
    at_root = np.arange(NUM_TREES) * 4
    stored = zip(tree.positions, rows.encode(tree.codec, roots), strict=True)
    positions = tuple(rows.write(jnp.asarray(x), at_root, own) for x, own in stored)
    left = MAX_VISITS - 31
    guess, amaf, visits = (
        tree.prior_counts.visits.copy(),
        tree.amaf.visits.copy(),
        tree.visits.copy(),
    )
    visits[at_root] = left - 100 + 1
    guess.reshape(NUM_TREES, 4, -1)[:, 1, 2] = [100, 101, 100, 100, 101]
    amaf.reshape(NUM_TREES, 4, -1)[:, 1, 3] = [left, left, left + 1, 0, left + 1]
    size = np.array([2, 2, 2, 2, 1], np.int32)  # in the last tree node 1 is not in use
    tree = tree.replace(
        size=size,
        positions=positions,
        visits=visits,
        prior_counts=tree.prior_counts._replace(visits=guess),
        amaf=tree.amaf._replace(visits=amaf),
    )
    tree, _ = jax.jit(lambda tree: reuse.fit(tree, roots, config))(tree)
    assert (tree.size > 0).tolist() == [True, False, False, True, True]


def test_trees_that_do_not_fit_are_refused():
    arguments = (random_tree.GAME, Evaluator(evaluate), jax.random.key(0))
    roots = random_tree.Position(CODES)
    make = lambda roots, num_actions, capacity: jax.eval_shape(
        lambda: trees.allocate(roots, num_actions, capacity)
    )
    wide = random_tree.Position(CODES.astype(np.uint16))
    fewer = random_tree.Position(CODES[1:])
    config, capacity = NOISY, NOISY.num_nodes
    for name, tree in {
        "capacity": make(roots, random_tree.NUM_ACTIONS, capacity + 1),
        "num_actions": make(roots, random_tree.NUM_ACTIONS + 1, capacity),
        "batch": make(fewer, random_tree.NUM_ACTIONS, capacity),
        "positions": make(wide, random_tree.NUM_ACTIONS, capacity),
    }.items():
        with pytest.raises(ValueError, match=f"tree: its {name} (is|are)"):
            search(*arguments, roots, config, tree)
    with pytest.raises(ValueError, match="action: shape"):
        reuse.reroot(make(roots, 3, 4), jnp.zeros(2, jnp.int32))


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(SHALLOW, id="roomy"),
        pytest.param(SMALL, id="full", marks=pytest.mark.thorough),
    ],
)
def test_invariant_2_no_tree_sized_copy_or_select_inside_a_loop(run):
    assert moves_in_loops(run.compiled.as_text(), NUM_TREES * run.config.num_nodes) == []


@pytest.mark.thorough  # compiles for itself
def test_a_search_begins_without_a_copy_of_the_trees():
    config = SearchConfig(50, capacity=501, select=Rave(), amaf=Amaf())
    evaluator = Evaluator(evaluate, np.float32(0))
    roots = random_tree.Position(CODES[:1])
    tree = reuse.empty(roots, random_tree.NUM_ACTIONS, config)

    def begin(tree, key):
        return searching.begin(random_tree.GAME, evaluator, key, roots, config, tree)

    jitted = jax.jit(begin, donate_argnums=0, compiler_options=AS_USERS_FUSE)
    text = jitted.lower(tree, jax.random.key(0)).compile().as_text()
    entry = text[text.index("ENTRY") :]  # pruning, which is inside a conditional, may copy
    shape = rf"\[(?:1,)?501,{random_tree.NUM_ACTIONS}\]"
    assert re.search(shape, entry)
    assert re.findall(rf"\w+{shape}\S* (?:copy|select)\(", entry) == []


@pytest.mark.parametrize(("capacity", "sizes"), [(9, (9, 1)), (70_000, (70_000, 33_000))])
def test_siblings(capacity, sizes):
    """In one block of nodes, and in three of up to 32,768."""
    rng = np.random.default_rng(0)
    parent = np.full((2, capacity), trees.NO_NODE, np.int32)
    for own, size in zip(parent, sizes, strict=True):
        own[1:size] = rng.integers(0, np.minimum(np.arange(1, size), 1 + size // 4))
    found = jax.device_get(jax.jit(trees._siblings, static_argnums=1)(parent, np.dtype(np.int16)))
    assert (found.place.dtype, found.count.dtype) == (np.int16, np.int16)
    for tree, (own, size) in enumerate(zip(parent, sizes, strict=True)):
        children = [[] for _ in range(capacity)]
        places = np.zeros(capacity, np.int32)
        for node in range(1, size):
            places[node] = len(children[own[node]])
            children[own[node]].append(node)
        node = found.node[tree]
        np.testing.assert_array_equal(np.sort(node), np.arange(capacity))
        np.testing.assert_array_equal(found.parent[tree], own[node])
        np.testing.assert_array_equal(found.place[tree], places[node])
        np.testing.assert_array_equal(found.count[tree], [len(some) for some in children])


def test_memory_is_predicted():
    config = SearchConfig(num_simulations=50).for_reuse
    assert (config.num_nodes, config.num_kept) == (101, 51)
    assert config.for_reuse is config
    roots = random_tree.Position(jax.ShapeDtypeStruct((3,), jnp.uint32))
    memory = gozero.search_memory(random_tree.GAME, roots, config, reuse=True)
    tree = trees.allocate(random_tree.Position(jnp.zeros(3, jnp.uint32)), 12, 101)
    assert memory.tree == sum(x.nbytes for x in jax.tree.leaves(tree))
    assert memory.tree == memory.reroot_copy == memory.prune_copy
    assert memory.total == 3 * memory.tree == 3 * memory.per_game
    alone = gozero.search_memory(random_tree.GAME, roots, config)
    assert (alone.reroot_copy, alone.total) == (0, memory.tree)
    assert str(memory).endswith("a game, copies to re-root and prune included")
