"""Evaluations shared by transpositions: the same trees, node by node, for fewer evaluations."""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.compile import ahead
from gozero.hashing import mix
from gozero.search import reuse, transpositions
from gozero.search import tree as trees
from gozero.search.config import Amaf, SearchConfig, Transpositions
from gozero.search.evaluate import checked
from gozero.search.game import Evaluator, Game, Heuristic, history_of
from gozero.search.memory import memory_of
from gozero.search.rules.forced import ForcedPlayouts
from gozero.search.rules.gumbel import GumbelInterior, GumbelRoot
from gozero.search.rules.puct import Puct
from gozero.search.rules.ucb1 import Ucb1
from gozero.search.search import search
from tests.hlo import AS_USERS_FUSE, moves_in_loops
from tests.reference import gumbel as plain_gumbel
from tests.reference import mcts
from tests.search.comparing import compare_trees, known
from tests.search.evaluators import hash_evaluate
from tests.search.gumbel_search import samples

# --- a game of sets: players take numbers in turn, and it ends when six are taken --------
# The number after the one just taken is illegal, so legality depends on the path, as with superko.

NUMBERS, TAKEN = 9, 6
_ACTIONS = np.arange(NUMBERS, dtype=np.uint32)


class Set(NamedTuple):
    taken: jax.Array  # u32[]: one bit per number
    last: jax.Array  # u32[]


def play(position: Set, action: jax.Array) -> Set:
    action = action.astype(jnp.uint32)
    return Set(position.taken | (jnp.uint32(1) << action), action)


def outcome(position: Set):
    over = jax.lax.population_count(position.taken) >= TAKEN
    return over, jnp.where(mix(position.taken) % 2 == 0, 1.0, -1.0)


def legal(position: Set):
    free = (position.taken >> _ACTIONS) & 1 == 0
    free &= (position.last + 1) % NUMBERS != _ACTIONS
    return free & ~outcome(position)[0]


def init(key) -> Set:
    del key
    return Set(jnp.uint32(0), jnp.uint32(NUMBERS - 1))


GAME = Game(NUMBERS, init, play, legal, outcome, observe=lambda p: p.taken, max_moves=TAKEN)
HASH_EVALUATE = hash_evaluate(NUMBERS, 1.0, 0.6)
ROOTS = Set(np.array([0, 1, 0, 0b1010, 0b111111], np.uint32), np.array([8, 0, 3, 3, 5], np.uint32))
BATCH, SIMULATIONS, CAPACITY = 5, 150, 307


class Params(NamedTuple):
    """The evaluator's parameters."""

    luck: float = 0.0  # the weight of a random value, one per call
    nan_set: int = 2**32 - 1  # the set whose value is nan


def evaluate(params, key, sets):
    evaluation = HASH_EVALUATE(None, None, sets)
    value = evaluation.value + params.luck * jax.random.uniform(key, (), minval=-1.0)
    return evaluation._replace(value=jnp.where(sets == params.nan_set, jnp.nan, value))


class Searcher:
    """(roots, key, params=Params(), tree=None) -> SearchResult, compiled once.

    With `goes_on` the search always gets trees, empty ones by default.
    """

    def __init__(self, goes_on=False, **settings):
        self.config = SearchConfig(SIMULATIONS, **{"capacity": CAPACITY, **settings})

        def run(roots, key, params, tree=None):
            return search(GAME, Evaluator(evaluate, params), key, roots, self.config, tree)

        self.blank = (reuse.empty(ROOTS, NUMBERS, self.config),) if goes_on else ()
        arguments = ROOTS, jax.random.key(0), _as_arrays(Params()), *self.blank
        self.run = jax.jit(run, compiler_options=AS_USERS_FUSE).lower(*arguments).compile()

    def __call__(self, roots, key, params=Params(), tree=None):  # noqa: B008 (a constant)
        trees = self.blank if tree is None else (tree,)
        return jax.tree.map(np.asarray, self.run(roots, key, _as_arrays(params), *trees))


def _as_arrays(params):
    return Params(np.float32(params.luck), np.uint32(params.nan_set))


@functools.cache
def shared(leaves=1):
    return Searcher(goes_on=True, transpositions=True, select=Puct(1.5), leaves=leaves)


def known_of(config):
    """An empty `Known` for the plain search."""
    return known(config, lambda state: seen(*state))


def seen(taken, last):
    taken, last = (np.array([x], np.uint32) for x in (taken, last))
    return Set(taken, last), taken


FIVE = 5
"""Leaves per step."""
AT_ONCE = {"leaves": FIVE, "virtual_loss": 3}


@jax.jit
def _evaluated(sets, may, params):
    evaluation = evaluate(params, jax.random.key(0), sets)
    return jax.vmap(checked)(may, evaluation._replace(played=None))


class Plain:
    """The same game for the plain search; a state is (taken, last)."""

    def __init__(self, params=Params()):  # noqa: B008
        self.params = _as_arrays(params)

    def play(self, state, action):
        return state[0] | 1 << action, action

    def evaluate(self, state):
        taken, last = state
        over = taken.bit_count() >= TAKEN
        may = [not (taken >> a & 1 or (last + 1) % NUMBERS == a or over) for a in range(NUMBERS)]
        prior, value, _ = _evaluated(np.array([taken], np.uint32), np.array([may]), self.params)
        exact = 1.0 if mcts.mix(taken) % 2 == 0 else -1.0
        return np.asarray(prior)[0], exact if over else float(value[0]), over

    def search(self, roots, b, key, rule, nodes=None, max_depth=64, **settings):
        tie_seeds = np.asarray(jax.random.bits(jax.random.split(key, 4)[2], (BATCH,), jnp.uint32))
        root = int(roots.taken[b]), int(roots.last[b])
        return mcts.search(
            root,
            self.play,
            self.evaluate,
            SIMULATIONS,
            max_depth,
            rule,
            int(tie_seeds[b]),
            nodes=nodes,
            **settings,
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "rule", "plain_settings"),
    [
        ({"leaves": 6, "virtual_loss": 1}, mcts.Puct(1.5), {}),
        ({"leaves": 30, "capacity": 40}, mcts.Puct(1.5), {"capacity": 40}),
        ({"leaves": 10, "capacity": 9, "select": Ucb1(0.7)}, mcts.Ucb1(0.7), {"capacity": 9}),
        ({"leaves": 75, "expand_after": 3, "max_depth": 4}, mcts.Puct(1.5), {"expand_after": 3}),
        ({"leaves": 150}, mcts.Puct(1.5), {}),
    ],
    ids=["one visit", "full", "full at once", "late", "all in one step"],
)
def test_many_leaves_are_equal_to_the_plain_search(settings, rule, plain_settings):
    """Most leaves of a step share a position, or a node, with others of the step."""
    settings = {"select": Puct(1.5), "virtual_loss": 3, **settings}
    run = Searcher(transpositions=Transpositions(rounds=1), **settings)
    key = jax.random.key(7)
    result, once = run(ROOTS, key), 0
    for b in range(BATCH):
        table = known_of(run.config)
        at_once = {name: settings[name] for name in ("leaves", "virtual_loss")}
        options = {"known": table, "max_depth": run.config.max_depth, **at_once, **plain_settings}
        nodes = Plain().search(ROOTS, b, key, rule, **options)
        compare_trees(result.tree, b, nodes)
        np.testing.assert_array_equal(result.visits[b], nodes[0].visits)
        assert result.evaluations[b] == table.evaluations
        once += table.evaluations < SIMULATIONS
    assert result.ok.all()
    assert once == BATCH


@pytest.mark.slow
def test_leaves_with_gumbels_root_are_equal_to_the_plain_search():
    considered, key = 5, jax.random.key(8)
    run = Searcher(
        transpositions=True,
        select=Puct(1.5),
        root_select=GumbelRoot(max_considered=considered),
        leaves=FIVE,
        virtual_loss=1,
    )
    result, gumbel = run(ROOTS, key), np.asarray(samples(key, BATCH, NUMBERS))
    for b in range(BATCH):
        options = {"leaves": FIVE, "virtual_loss": 1, "known": known_of(run.config)}
        options["root_rule"] = plain_gumbel.Root(gumbel[b], considered, SIMULATIONS)
        nodes = Plain().search(ROOTS, b, key, mcts.Puct(1.5), **options)
        compare_trees(result.tree, b, nodes)
        np.testing.assert_array_equal(result.visits[b], nodes[0].visits)
        assert result.evaluations[b] == options["known"].evaluations


def open_sets(nodes):
    return {node.state[0] for node in nodes if not node.over}


@pytest.mark.parametrize(
    ("leaves", "plain_settings"),
    [
        pytest.param(1, {}, marks=pytest.mark.thorough),
        pytest.param(FIVE, AT_ONCE, id="leaves", marks=pytest.mark.thorough),
    ],
)
def test_equal_to_the_plain_search_move_by_move_and_each_set_evaluated_once(leaves, plain_settings):
    """A set's legal actions, and so its priors, differ from node to node."""
    run, roots, plain = shared(leaves), ROOTS, Plain()
    tree, nodes, spent = None, [[]] * BATCH, []
    asked_for = [set() for _ in range(BATCH)]
    reroot = jax.jit(reuse.reroot)
    for move in range(3):
        key = jax.random.key(move)
        result = run(roots, key, tree=tree)
        assert result.ok.all()
        action = np.where(result.visits.sum(axis=1) > 0, result.action, -1)
        action[move] = -1  # starts a new tree
        tree = reroot(result.tree, action)
        spent.append(result.evaluations)
        for b in range(BATCH):
            table = known_of(run.config)
            settings = {**plain_settings, "known": table}
            nodes[b] = plain.search(roots, b, key, mcts.Puct(1.5), nodes[b], **settings)
            compare_trees(result.tree, b, nodes[b])
            np.testing.assert_array_equal(result.visits[b], nodes[b][0].visits)
            # The root's own evaluation is not counted.
            assert result.evaluations[b] == len(open_sets(nodes[b][1:]) - asked_for[b])
            assert result.evaluations[b] == table.evaluations
            nodes[b] = mcts.reroot(nodes[b], action[b])
            asked_for[b] = open_sets(nodes[b])
            if nodes[b]:
                compare_trees(tree, b, nodes[b])
            assert tree.size[b] == len(nodes[b])
        moved = jax.vmap(play)(roots, jnp.maximum(jnp.asarray(action), 0))
        roots = jax.tree.map(lambda x, y, a=action: np.where(a >= 0, x, y), moved, roots)
    spent = np.array(spent)
    assert (spent[:, :4] > 0).any(axis=0).all()
    assert (spent[0] < 0.85 * SIMULATIONS).all()
    assert (spent[1:] < 0.5 * SIMULATIONS).sum() >= 6
    assert (spent[:, 4] == 0).all()  # it is over


@pytest.mark.slow
def test_a_key_may_depend_on_the_ancestors():
    """Also in a game without a history, where nothing else uses them."""

    def by_grandparent(context, position, ancestors):
        taken = ancestors.positions.taken[jnp.maximum(ancestors.length - 2, 0)]
        return jnp.stack([position.taken, position.last * 1000 + taken])

    config = SearchConfig(40, transpositions=Transpositions(by_grandparent))
    seeing = GAME._replace(history=history_of(GAME)._replace(sees_ancestors=True))
    evaluator = Evaluator(HASH_EVALUATE)
    run = lambda game: jax.jit(lambda key: search(game, evaluator, key, ROOTS, config))
    found, wanted = (run(game)(jax.random.key(0)) for game in (GAME, seeing))
    np.testing.assert_array_equal(found.evaluations, wanted.evaluations)
    np.testing.assert_array_equal(found.visits, wanted.visits)


@pytest.mark.slow
@pytest.mark.parametrize("at_once", [{}, AT_ONCE], ids=["one leaf", "leaves"])
def test_equal_to_the_plain_search_with_unusual_settings(monkeypatch, at_once):
    """Full trees, leaves that are not expanded, a key by position, buckets that forget."""
    monkeypatch.setattr(trees, "num_slots", lambda capacity: 8)
    by_position = lambda context, position, ancestors: jnp.stack([position.taken, position.last])
    run = Searcher(
        transpositions=Transpositions(by_position, rounds=2),
        select=Ucb1(0.7),
        max_depth=3,
        expand_after=2,
        capacity=60,
        **at_once,
    )
    key, rule = jax.random.key(5), mcts.Ucb1(0.7)
    result = run(ROOTS, key)
    for b in range(BATCH):
        table = known_of(run.config)
        nodes = Plain().search(
            ROOTS,
            b,
            key,
            rule,
            max_depth=3,
            expand_after=2,
            capacity=60,
            known=table,
            **at_once,
        )
        assert result.evaluations[b] == table.evaluations
        compare_trees(result.tree, b, nodes)
        np.testing.assert_array_equal(result.visits[b], nodes[0].visits)
        actual = {node.state for node in nodes[1:] if not node.over}
        assert len(actual) <= result.evaluations[b] < SIMULATIONS  # forgotten, evaluated again
    assert result.ok.all()
    assert result.tree.size.max() == 60


@pytest.mark.thorough
@pytest.mark.parametrize("leaves", [1, FIVE])
def test_a_tree_does_not_depend_on_the_others(leaves):
    key = jax.random.key(1)
    result = shared(leaves)(ROOTS, key)
    codes = ROOTS.taken.copy()
    codes[[0, 2, 4]] = [0b111000, 0b111111, 0]
    other = shared(leaves)(ROOTS._replace(taken=codes), key)
    for b in (1, 3):
        np.testing.assert_array_equal(result.visits[b], other.visits[b])
        np.testing.assert_array_equal(result.evaluations[b], other.evaluations[b])
        rows = slice(b * CAPACITY, (b + 1) * CAPACITY)
        for name in ("visits", "value_sum", "prior", "next", "shared"):
            here, there = (
                [x[rows] for x in jax.tree.leaves(getattr(r.tree, name))] for r in (result, other)
            )
            jax.tree.map(np.testing.assert_array_equal, here, there)


@pytest.mark.slow
def test_random_evaluations_are_shared_and_calls_are_fewer():
    """Each call draws one value for its whole batch, so there are as many values as calls."""
    flat = Params(luck=1.0, nan_set=2**32 - 1)
    result = shared()(ROOTS, jax.random.key(0), params=flat)
    tree = result.tree
    taken = tree.positions[0][:, 0]
    own = np.asarray(HASH_EVALUATE(None, None, np.arange(2**NUMBERS, dtype=np.uint32)).value)
    draws = set()
    for b in range(BATCH):
        values = {}
        for row in range(b * CAPACITY + 1, b * CAPACITY + tree.size[b]):
            if not tree.over[row]:
                values.setdefault(int(taken[row]), set()).add(float(tree.shared.evaluation[row, 9]))
        assert all(len(drawn) == 1 for drawn in values.values())
        assert len(values) == result.evaluations[b]
        draws |= {round(values[taken].pop() - float(own[taken]), 4) for taken in values}
    # Each tree has a leaf for most calls, as there are several rounds between two of them.
    assert result.evaluations.max() <= len(draws) < 1.2 * result.evaluations.max()
    assert len(draws) < 0.9 * SIMULATIONS


@pytest.mark.parametrize(
    "at_once",
    [
        pytest.param({}, id="one leaf", marks=pytest.mark.thorough),
        pytest.param(AT_ONCE, id="leaves"),
    ],
)
def test_a_nan_evaluation_is_shared(at_once):
    params = Params(nan_set=0b1011)
    run = shared(at_once.get("leaves", 1))
    result = run(ROOTS, jax.random.key(2), params=params)
    for b in range(BATCH):
        settings = {**at_once, "known": known_of(run.config)}
        nodes = Plain(params).search(ROOTS, b, jax.random.key(2), mcts.Puct(1.5), **settings)
        compare_trees(result.tree, b, nodes)
        assert result.ok[b] == (0b1011 not in open_sets(nodes))
    assert result.ok.any()
    assert not result.ok.all()


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"dirichlet_fraction": 0.25},
        {"root_select": ForcedPlayouts(Puct(1.5), 2.0)},
        {"root_select": GumbelRoot(), "select": GumbelInterior()},
        {"select": Puct(1.0, c_base=20.0, first_play="parent"), "capacity": 40},
    ],
    ids=["noise", "forced", "gumbel", "full"],
)
def test_equal_to_the_search_without(settings):
    """Every array of every node, including those that a descent follows."""
    key = jax.random.key(3)
    result, plain = (
        Searcher(transpositions=x, **{"select": Puct(1.5), **settings})(ROOTS, key)
        for x in (True, False)
    )
    for field in dataclasses.fields(plain.tree):
        if field.name not in ("capacity", "codec", "shared"):
            here, there = (jax.tree.leaves(getattr(r.tree, field.name)) for r in (result, plain))
            jax.tree.map(np.testing.assert_array_equal, here, there)
    for name in ("action", "visits", "q", "policy_target", "value", "ok"):
        np.testing.assert_array_equal(getattr(result, name), getattr(plain, name), name)
    assert plain.evaluations is None


@pytest.mark.parametrize("leaves", [pytest.param(1, marks=pytest.mark.thorough), FIVE])
def test_invariant_2_no_tree_sized_copy_or_select_inside_a_loop(leaves):
    text = shared(leaves).run.as_text()
    for size in (CAPACITY, trees.num_slots(CAPACITY)):
        assert moves_in_loops(text, BATCH * size) == []


@pytest.mark.slow
@pytest.mark.parametrize("leaves", [1, 4])
def test_invariant_2_for_one_tree(leaves):
    """As in tests/test_invariants.py: vectors [N] may be copied."""
    config = SearchConfig(24, 31, leaves, transpositions=True, select=Puct(1.5))

    def run(roots, key):
        params = _as_arrays(Params())
        return search(GAME, Evaluator(evaluate, params), key, roots, config)

    roots = Set(*jnp.zeros((2, 1), jnp.uint32))
    text = jax.jit(run).lower(roots, jax.random.key(0)).compile().as_text()
    assert [move for move in moves_in_loops(text, 31) if "[31]" not in move] == []
    assert moves_in_loops(text, trees.num_slots(31)) == []


@pytest.mark.slow
@pytest.mark.parametrize("target", ["v5e", "h100"])
def test_leaves_compile_for_accelerators(target):
    """libtpu of jax 0.10.1 crashed where both halves of the keys were compared at once."""
    config = SearchConfig(SIMULATIONS, leaves=FIVE, transpositions=True, select=Puct(1.5))

    def run(roots, key, params):
        return search(GAME, Evaluator(evaluate, params), key, roots, config)

    arguments = ROOTS, jax.random.key(0), _as_arrays(Params())
    shapes = jax.eval_shape(lambda: arguments)
    try:
        compiled = ahead.compile(ahead.target(target), run, *shapes)
    except ahead.MissingCompiler as error:
        pytest.skip(str(error))
    assert compiled.text


@pytest.mark.parametrize(
    ("field", "settings"),
    [
        ("transpositions", {"transpositions": 3}),
        ("amaf", {"transpositions": Transpositions(), "amaf": Amaf()}),
    ],
)
def test_conflicting_settings_are_refused(field, settings):
    with pytest.raises(ValueError, match=rf"^{field}: "):
        SearchConfig(**settings)


def test_invalid_arguments_are_refused():
    with pytest.raises(ValueError, match=r"^key: "):
        Transpositions(key=3)  # pyright: ignore
    with pytest.raises(ValueError, match=r"^rounds: "):
        Transpositions(rounds=0)

    def with_heuristic(params, key, observations):
        none = jnp.zeros((len(observations), NUMBERS))
        heuristic = Heuristic(none, none.astype(jnp.int32))
        return HASH_EVALUATE(params, key, observations)._replace(heuristic=heuristic)

    arguments = (GAME, Evaluator(with_heuristic), jax.random.key(0), ROOTS)
    with pytest.raises(ValueError, match=r"^transpositions: "):
        jax.eval_shape(lambda: search(*arguments, SearchConfig(transpositions=True)))
    blank = reuse.empty(ROOTS, NUMBERS, SearchConfig())
    arguments = (GAME, Evaluator(HASH_EVALUATE), *arguments[2:])
    with pytest.raises(ValueError, match="tree: its transpositions is False"):
        search(*arguments, SearchConfig(transpositions=True), blank)


def test_memory_is_predicted():
    config = SearchConfig(50, transpositions=True)
    blank = reuse.empty(ROOTS, NUMBERS, config)
    slots = transpositions.table(blank)
    taken = sum(x.nbytes for x in jax.tree.leaves((blank, slots)))
    assert memory_of(ROOTS, NUMBERS, config).total == taken
