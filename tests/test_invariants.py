"""The invariants of the hot path (CONTRIBUTING.md), each as a test."""

from __future__ import annotations

import functools

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.compile import mode
from gozero.games.go import go_game
from gozero.go import pass_alive, symmetry
from gozero.go import rules as go
from gozero.limits import MAX_VISITS, MOST_VISITS, VALUE_ONE
from gozero.nets import network
from gozero.nets.features import FEATURES
from gozero.nets.network import NetworkConfig
from gozero.play import arena, searches, selfplay
from gozero.play.evaluators import make_evaluator
from gozero.play.player import Turn, search_player
from gozero.playouts.policies.mogo.playouts import mogo_playouts
from gozero.search import tree as trees
from gozero.search.config import Amaf, SearchConfig
from gozero.search.game import Evaluator
from gozero.search.rules.rave import Rave
from gozero.search.search import search
from gozero.td import td_search
from gozero.td.shapes import Shapes
from gozero.td.td import TdConfig
from tests import priors
from tests.go.stepping import new_games
from tests.hlo import AS_USERS_FUSE, AS_USERS_HAVE_IT, moves_in_loops
from tests.search import gumbel_search, random_tree
from tests.search.evaluators import hash_evaluate, observe_position
from tests.train import batches
from train import learner
from train.optimizer import OptimizerConfig

BATCH, SIMULATIONS = 8, 24
CAPACITY, DEPTH = 31, 20  # so that B * N rows are not also B * D path entries


@functools.cache
def compiled_go_search(batch=BATCH):
    """(compiled search of Go with positional superko, the number of rows of its arrays)."""
    rules = go.Rules(size=5)
    game = go_game(rules, observe_position)
    config = SearchConfig(SIMULATIONS, capacity=CAPACITY, max_depth=DEPTH, dirichlet_fraction=0.25)
    evaluate = hash_evaluate(rules.num_actions)

    def run(states, key):
        return search(game, Evaluator(evaluate), key, states, config)

    run = jax.jit(run, compiler_options=AS_USERS_HAVE_IT)
    compiled = run.lower(new_games(rules, batch), jax.random.key(0)).compile()
    return compiled, batch * config.num_nodes


def primitives(jaxpr) -> set[str]:
    """Names of all primitives in a jaxpr, including those inside loops and calls."""
    found = set()
    for equation in jaxpr.eqns:
        found.add(equation.primitive.name)
        for inner in jax.tree.leaves(list(equation.params.values()), is_leaf=_has_equations):
            if _has_equations(inner):
                found |= primitives(getattr(inner, "jaxpr", inner))
    return found


def _has_equations(x):
    return hasattr(x, "eqns") or hasattr(getattr(x, "jaxpr", None), "eqns")


@pytest.mark.parametrize("size", [9, 19])
def test_invariant_1_a_board_is_words_and_rules_gather_nothing(size):
    rules = go.Rules(size=size, ko="simple")
    state = go.init(rules)
    lay = rules.layout
    for board in (state.position.black, state.position.white, state.position.atari):
        assert isinstance(board, tuple)
        assert [(word.shape, word.dtype) for word in board] == [((), np.uint32)] * lay.num_words

    def step(state, action):
        state = go.play(rules, state, action)
        return state, go.legal_actions(rules, state)

    states = new_games(rules, 4)
    jaxpr = jax.make_jaxpr(jax.vmap(step))(states, jnp.zeros(4, jnp.int32))
    used = primitives(jaxpr.jaxpr)
    assert "while" in used  # the walk does enter calls and loops
    assert not {name for name in used if "gather" in name or "scatter" in name or "sort" in name}


def test_invariant_2_no_tree_sized_copy_or_select_inside_a_loop():
    compiled, num_rows = compiled_go_search()
    assert moves_in_loops(compiled.as_text(), num_rows) == []


@pytest.mark.slow
def test_invariant_2_for_one_tree():  # and of a tree to go on from: tests/search/test_reuse.py
    """With one tree XLA copies two vectors [N] per step, but no array with an action axis."""
    compiled, num_rows = compiled_go_search(batch=1)
    moves = moves_in_loops(compiled.as_text(), num_rows)
    assert [move for move in moves if f"[{num_rows}]" not in move] == []


@pytest.mark.thorough
@pytest.mark.parametrize("batch", [pytest.param(2, marks=pytest.mark.slow), 1])
def test_invariant_2_for_dense_selection_and_several_leaves(batch):
    config = SearchConfig(48, leaves=4, max_depth=20, select=Rave(), amaf=Amaf())
    evaluate = random_tree.with_more(hash_evaluate(random_tree.NUM_ACTIONS), True, True)

    text = random_tree.compiled_search(evaluate, config, batch, options=AS_USERS_FUSE).as_text()
    assert moves_in_loops(text, batch * config.num_nodes) == []


@pytest.mark.thorough
@pytest.mark.parametrize("batch", [pytest.param(BATCH, marks=pytest.mark.slow), 1])
def test_invariant_2_for_a_root_with_a_rule_of_its_own(batch):
    num_rows = batch * gumbel_search.CONFIG.num_nodes
    assert moves_in_loops(gumbel_search.compiled(batch).as_text(), num_rows) == []


@pytest.mark.thorough
def test_invariant_2_for_one_tree_of_many_simulations():
    """Its sums are two words; copying them made 200,000 simulations take twenty times as long."""
    config = SearchConfig(MAX_VISITS + 1, capacity=CAPACITY, max_depth=DEPTH)
    assert config.wide
    evaluate = hash_evaluate(random_tree.NUM_ACTIONS)

    text = random_tree.compiled_search(evaluate, config, 1, options=AS_USERS_FUSE).as_text()
    assert moves_in_loops(text, config.num_nodes) == []


def test_invariant_2_is_a_test_that_can_fail():
    """A loop that carries a tree under a batched predicate fails the same check."""
    tree = jnp.zeros((BATCH, 3), jnp.int32)

    def walk(row, steps):
        def body(carry):
            i, row = carry
            return i + 1, row.at[i % 3].add(i)

        return jax.lax.while_loop(lambda carry: carry[0] < steps, body, (0, row))[1]

    compiled = jax.jit(jax.vmap(walk), compiler_options=AS_USERS_FUSE)
    compiled = compiled.lower(tree, jnp.arange(BATCH)).compile()
    assert moves_in_loops(compiled.as_text(), BATCH)


@pytest.mark.parametrize(("size", "limit"), [(9, 64), (13, 128), (19, 288)])
def test_invariant_3_nodes_hold_compact_positions(size, limit):
    rules = go.Rules(size=size)
    positions = new_games(rules, BATCH).position
    tree = jax.eval_shape(lambda x: trees.allocate(x, rules.num_actions, 10), positions)
    per_node = sum(int(np.prod(x.shape[1:])) * x.dtype.itemsize for x in tree.positions)
    assert per_node <= limit
    edges = rules.num_actions * (4 + 2)
    total = trees.memory_bytes(positions, rules.num_actions, 10)
    assert total == BATCH * (10 * (edges + per_node + 31) + 4)


def test_invariant_5_sums_are_integers_and_add_up():
    compiled, _ = compiled_go_search()
    rules = go.Rules(size=5)
    states = new_games(rules, BATCH)
    result = compiled(states, jax.random.key(3))
    assert result.tree.value_sum.dtype == jnp.int32
    assert result.tree.value.dtype == jnp.int32
    # Every value backed up is one of the nodes' values, so the sums add up exactly.
    by_tree = lambda x: np.asarray(x).reshape(BATCH, CAPACITY, *x.shape[1:])
    tree = jax.tree.map(by_tree, result.tree.replace(size=result.tree.visits))
    for b in range(BATCH):
        for node in range(int(result.tree.size[b])):
            children = tree.children[b, node, : tree.num_children[b, node]]
            if not tree.over[b, node]:
                below = tree.value_sum[b, children].sum()
                assert tree.value_sum[b, node] == tree.value[b, node] - below
                assert tree.visits[b, node] == 1 + tree.visits[b, children].sum()
            else:
                assert tree.value_sum[b, node] == tree.value[b, node] * tree.visits[b, node]


def test_invariant_5_a_game_does_not_depend_on_its_batch():
    rules = go.Rules(size=5)
    few = 1  # compiled already for invariant 2
    all_games = compiled_go_search()[0](new_games(rules, BATCH), jax.random.key(3))
    some = compiled_go_search(few)[0](new_games(rules, few), jax.random.key(3))
    assert_begins_with(all_games, some, few)


@pytest.mark.slow
def test_invariant_5_a_root_with_a_rule_of_its_own_does_not_depend_on_its_batch():
    codes = jnp.arange(1, BATCH + 1, dtype=jnp.uint32) * np.uint32(7919)
    all_games = gumbel_search.compiled(BATCH)(codes, jax.random.key(3))
    some = gumbel_search.compiled(1)(codes[:1], jax.random.key(3))
    assert_begins_with(all_games, some, 1)


def assert_begins_with(all_games, some, few):
    """Equal bit for bit, priors as `priors.assert_equal` allows."""
    for name in ("action", "visits", "q", "policy_target", "value", "ok"):
        np.testing.assert_array_equal(getattr(all_games, name)[:few], getattr(some, name))
    whole = jax.tree.leaves(all_games.tree)
    for array, part in zip(whole, jax.tree.leaves(some.tree), strict=True):
        is_prior = jnp.issubdtype(array.dtype, jnp.floating)
        equal = priors.assert_equal if is_prior else np.testing.assert_array_equal
        equal(array[: len(part)], part)


def test_invariant_5_the_visit_limit_is_stated_and_checked():
    most = MAX_VISITS
    # A node's sum has its own evaluation and one value per visit: one more than the visits.
    assert (most + 1) * VALUE_ONE < 2**31 <= (most + 2) * VALUE_ONE

    @jax.jit
    def edges_of_a_full_tree(total):
        tree = trees.allocate(jnp.zeros((1, 1)), num_actions=2, capacity=2)
        full = tree.replace(
            children=tree.children.at[0, 0].set(1),
            num_children=tree.num_children.at[0].set(1),
            action=tree.action.at[1].set(1),
            visits=total,
            value_sum=total * VALUE_ONE * jnp.array([1, -1]),
        )
        return trees.all_edges(full, 0)

    edges = edges_of_a_full_tree(np.array([most + 1, most], np.int32))
    assert edges.value.tolist() == [1.0]
    assert edges.q.tolist() == [[0.0, 1.0]]
    assert not SearchConfig(num_simulations=MAX_VISITS).wide
    assert SearchConfig(num_simulations=MAX_VISITS + 1).wide
    with pytest.raises(ValueError, match="fixed-point"):
        SearchConfig(num_simulations=MOST_VISITS + 1)


@pytest.mark.parametrize(("ko", "suicide"), [("positional", False), ("situational", True)])
def test_invariant_7_rules_lower_for_every_platform(ko, suicide):
    rules = go.Rules(size=5, ko=ko, suicide=suicide)

    def step(states, actions):
        states = jax.vmap(lambda s, a: go.play(rules, s, a))(states, actions)
        return states, jax.vmap(lambda s: go.legal_actions(rules, s))(states)

    assert_lowers(step, new_games(rules, 2), jnp.zeros(2, jnp.int32))


@pytest.mark.parametrize("name", [pytest.param("full", marks=pytest.mark.slow), "zero"])
def test_invariant_7_features_lower_for_every_platform(name):
    rules = go.Rules(size=5)
    observe = lambda state: FEATURES[name].observe(rules, state, state.position)
    assert_lowers(jax.vmap(observe), new_games(rules, 2))


def test_invariant_7_pass_alive_and_symmetries_lower_for_every_platform():
    rules = go.Rules(size=5)

    def area(states, planes, k):
        one = lambda p: pass_alive.pass_alive(rules.layout, p.black, p.white)
        return jax.vmap(one)(states.position), jax.vmap(symmetry.map_planes)(planes, k)

    assert_lowers(area, new_games(rules, 2), jnp.zeros((2, 5, 5, 3)), jnp.zeros(2, jnp.int32))


@pytest.mark.parametrize("size", [4, pytest.param(19, marks=pytest.mark.slow)])
def test_invariant_7_mogo_playouts_lower_for_every_platform(size):
    rules = go.Rules(size)

    def playouts(positions, last, bits):
        return mogo_playouts(rules, positions, jax.random.wrap_key_data(bits), last=last)

    positions = new_games(rules, 4).position
    assert_lowers(
        playouts, positions, jnp.zeros(4, jnp.int32), jax.random.key_data(jax.random.key(0))
    )


def test_invariant_7_temporal_difference_search_lowers_for_every_platform():
    rules, chosen = go.Rules(size=3), Shapes(3, largest=2)
    config = td_search.TdSearchConfig(TdConfig(rules, chosen), simulations=4, lanes=4)
    play = td_search.player(config)

    def actions(params, bits, states):
        return play(params, jax.random.wrap_key_data(bits), states)

    bits = jax.random.key_data(jax.random.key(0))
    assert_lowers(actions, td_search.params(chosen), bits, new_games(rules, 2))


@pytest.mark.thorough
@pytest.mark.parametrize("name", [pytest.param("network", marks=pytest.mark.thorough), "playout"])
def test_invariant_7_self_play_and_its_search_lower_for_every_platform(name):
    rules = go.Rules(size=4)
    evaluator = make_evaluator(rules, name)
    reused = name == "playout"
    game = go_game(rules)
    search = searches.puct_search(game, evaluator, num_simulations=4, reuse_subtree=reused)
    config = selfplay.SelfPlayConfig(game, 2, search, komi=7.0, reuse_subtree=reused)
    run = selfplay.make_play_moves(config, evaluator, 1)
    lanes = selfplay.start(config, 0)

    def with_keys(lanes, change):
        """Replace keys, which cannot be exported, by their bits or back."""
        return lanes.replace(key=change(lanes.key), batch_key=change(lanes.batch_key))

    def moves(params, lanes):
        lanes, rows = run(params, with_keys(lanes, jax.random.wrap_key_data))
        return with_keys(lanes, jax.random.key_data), rows

    assert_lowers(moves, evaluator.params, with_keys(lanes, jax.random.key_data))


def test_invariant_7_learning_lowers_for_every_platform():
    """With every head, pooled blocks and a bf16 trunk; the key is passed as bits."""
    shape = NetworkConfig(2, 4, pool_every=2, auxiliary=True, dtype="bfloat16")
    config = learner.LearnerConfig(shape, OptimizerConfig(total_steps=1000))
    state = learner.start(
        config,
        jax.jit(network.init, static_argnums=0)(shape, jax.random.key(0)),
        jax.random.key_data(jax.random.key(1)),
    )
    update = functools.partial(learner.update, config)
    assert_lowers(update, state, *batches.batch(4))


@pytest.mark.thorough
def test_invariant_7_a_match_lowers_for_every_platform():
    rules = go.Rules(size=4, ko="simple")
    evaluator = make_evaluator(rules, "playout")._replace(
        observe=observe_position, evaluate=hash_evaluate(rules.num_actions)
    )
    config = SearchConfig(4, temperature=1.0)
    player, game = search_player(rules, evaluator, config, reuse_subtree=True), go_game(rules)

    def one_ply(params, states, bits):
        lanes = arena.MatchLanes(
            states, jnp.full((2, 2), -1), jnp.ones(2, bool), jnp.zeros(2, bool)
        )
        turn = Turn(states, arena.legal_actions(game, states), lanes.recent)
        key, memory = jax.random.wrap_key_data(bits), player.begin(params, states)
        choice = arena.choose_actions(player.choose, params, key, jnp.int32(1), turn, memory)
        moved = arena.advance(game, lanes, turn.legal, choice)
        return moved, jax.tree.leaves(choice.memory)

    assert_lowers(
        one_ply, player.params, new_games(rules, 2), jax.random.key_data(jax.random.key(0))
    )


def export(program, *arguments):
    """Lower a jitted program for every platform."""
    platforms = ("cpu", "cuda", "tpu")
    with mode.every_platform():
        exported = jax.export.export(program, platforms=platforms)(*arguments)
    assert exported.platforms == platforms
    return exported


def assert_lowers(function, *arguments):
    # Our containers cannot be serialised; their leaves can.
    leaves, treedef = jax.tree.flatten(arguments)
    flat = lambda *leaves: jax.tree.leaves(function(*jax.tree.unflatten(treedef, leaves)))
    exported = export(jax.jit(flat), *leaves)
    assert len(exported.mlir_module_serialized) > 1000
