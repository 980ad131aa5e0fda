"""Evaluations shared by transpositions: the same trees, node by node, for fewer evaluations."""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.hashing import mix
from gozero.search import reuse, transpositions
from gozero.search import tree as trees
from gozero.search.amaf import Amaf
from gozero.search.config import SearchConfig
from gozero.search.game import Evaluation, Game, Heuristic
from gozero.search.judging import checked
from gozero.search.search import search
from gozero.search.selection import ForcedPlayouts, Puct, Ucb1
from gozero.search.transpositions import Transpositions
from tests.hlo import moves_in_loops
from tests.reference import mcts
from tests.search.comparing import compare_trees
from tests.search.judges import hash_evaluate

# --- a game of sets: players take numbers in turn, and it ends when six are taken --------
# What is legal depends on the path, as under superko: not the number after the one just taken.

NUMBERS, TAKEN = 9, 6
_ACTIONS = np.arange(NUMBERS, dtype=np.uint32)


class Set(NamedTuple):
    taken: jax.Array  # u32[]: a bit each
    last: jax.Array  # u32[]


def play(position: Set, action: jax.Array) -> Set:
    action = action.astype(jnp.uint32)
    return Set(position.taken | (jnp.uint32(1) << action), action)


def result(context, position: Set):
    del context
    over = jax.lax.population_count(position.taken) >= TAKEN
    return over, jnp.where(mix(position.taken) % 2 == 0, 1.0, -1.0)


def legal(context, position: Set, trail):
    del trail
    free = (position.taken >> _ACTIONS) & 1 == 0
    free &= (position.last + 1) % NUMBERS != _ACTIONS
    return free & ~result(context, position)[0]


def observe(context, position: Set, trail):
    del context, trail
    return position.taken


GAME = Game(NUMBERS, play, lambda p: jnp.stack([p.taken, p.last]), legal, result, observe)
EVALUATE = hash_evaluate(NUMBERS, 1.0, 0.6)
ROOTS = Set(np.array([0, 1, 0, 0b1010, 0b111111], np.uint32), np.array([8, 0, 3, 3, 5], np.uint32))
BATCH, SIMULATIONS = 5, 150


class Searcher:
    """(roots, key[, tree]) -> SearchResult, compiled once."""

    def __init__(self, evaluate=EVALUATE, going_on=False, **settings):
        self.config = SearchConfig(SIMULATIONS, **settings)

        def run(roots, key, tree=None):
            contexts = jnp.zeros(BATCH)
            return search(GAME, evaluate, None, key, contexts, roots, self.config, tree)

        blank = (reuse.empty(ROOTS, NUMBERS, self.config),) if going_on else ()
        self.run = jax.jit(run).lower(ROOTS, jax.random.key(0), *blank).compile()

    def __call__(self, *arguments):
        return jax.tree.map(np.asarray, self.run(*arguments))


SHARED = functools.cache(lambda: Searcher(transpositions=True, dirichlet_fraction=0.25))


def assert_same_trees(result, plain):
    """Every array of every node, and what the search says."""
    for field in dataclasses.fields(plain.tree):
        if field.name not in ("capacity", "codec", "shared"):
            jax.tree.map(
                functools.partial(np.testing.assert_array_equal, err_msg=field.name),
                getattr(result.tree, field.name),
                getattr(plain.tree, field.name),
            )
    for name in ("action", "visits", "q", "policy_target", "value", "ok"):
        np.testing.assert_array_equal(getattr(result, name), getattr(plain, name), name)


CASES = {
    "puct with noise": dict(dirichlet_fraction=0.25),
    "ucb1, a depth limit and several visits to grow": dict(
        select=Ucb1(0.7), max_depth=4, expand_after=3, rounds=2
    ),
    "a full tree, a rule at the root, buckets that forget": dict(
        capacity=40, root_select=ForcedPlayouts(Puct(1.0), 2.0), rounds=1, slots=4
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_equal_to_the_search_without(name, monkeypatch):
    settings = dict(CASES[name])
    if "slots" in settings:
        few = settings.pop("slots")
        monkeypatch.setattr(transpositions, "num_slots", lambda capacity: few)
    sharing = Transpositions(rounds=settings.pop("rounds", 8))
    key = jax.random.key(3)
    if name == "puct with noise":
        result = SHARED()(ROOTS, key)
    else:
        result = Searcher(transpositions=sharing, **settings)(ROOTS, key)
    plain = Searcher(**settings)(ROOTS, key)
    assert_same_trees(result, plain)
    assert plain.evaluations is None
    visits = result.tree.visits.reshape(BATCH, -1)[:, 0]
    np.testing.assert_array_equal(visits, SIMULATIONS + 1)
    assert (result.evaluations > 0).tolist() == [True] * 4 + [False]  # the last is over
    assert (result.evaluations < (0.9 if "few" in name else 0.6) * SIMULATIONS).all()
    assert result.ok.all()


def plain_judge(code):
    """What the plain search's node is made of; `code` is (taken, last)."""
    taken, last = code
    over = bin(taken).count("1") >= TAKEN
    may = [not (taken >> a & 1 or (last + 1) % NUMBERS == a or over) for a in range(NUMBERS)]
    prior, value = _judged(np.array([taken], np.uint32), np.array([may]))
    exact = 1.0 if mcts.mix(taken) % 2 == 0 else -1.0
    return np.asarray(prior)[0], exact if over else float(value[0]), over


@jax.jit
def _judged(seen, may):
    prior, value, _ = jax.vmap(checked)(may, EVALUATE(None, None, seen)._replace(first_play=None))
    return prior, value


def test_equal_to_the_plain_search_and_evaluated_once():
    key = jax.random.key(5)
    run = Searcher(transpositions=True, select=Puct(1.5))
    result = run(ROOTS, key)
    salts = np.asarray(jax.random.bits(jax.random.split(key, 4)[2], (BATCH,), jnp.uint32))
    for b in range(BATCH):
        nodes = mcts.search(
            (int(ROOTS.taken[b]), int(ROOTS.last[b])),
            lambda code, a: (code[0] | 1 << a, a),
            plain_judge,
            SIMULATIONS,
            64,
            mcts.Puct(1.5),
            int(salts[b]),
        )
        compare_trees(result.tree, b, nodes)
        # Every set is evaluated once, the root's not counted.
        open_sets = {node.state[0] for node in nodes[1:] if not node.over}
        assert result.evaluations[b] == len(open_sets)
    assert (result.evaluations[:4] < SIMULATIONS / 2).all()


def test_a_tree_does_not_feel_the_others():
    alone, key = SHARED()(ROOTS, jax.random.key(1)), jax.random.key(1)
    codes = ROOTS.taken.copy()
    codes[[0, 2, 4]] = [0b111000, 0b111111, 0]
    other = SHARED()(ROOTS._replace(taken=codes), key)
    for b in (1, 3):
        np.testing.assert_array_equal(alone.visits[b], other.visits[b])
        np.testing.assert_array_equal(alone.evaluations[b], other.evaluations[b])
        by_tree = lambda x: x.reshape(BATCH, -1)[b]
        for name in ("visits", "value_sum", "prior", "next", "shared"):
            jax.tree.map(
                lambda x, y, by_tree=by_tree: np.testing.assert_array_equal(by_tree(x), by_tree(y)),
                getattr(alone.tree, name),
                getattr(other.tree, name),
            )


def test_what_an_evaluator_draws_is_shared_and_it_is_called_less_often():
    calls = []

    def draws(params, key, observations):
        jax.debug.callback(lambda: calls.append(1))
        value = jax.random.uniform(key, observations.shape, minval=-1.0)
        return Evaluation(jnp.zeros((len(observations), NUMBERS)), value)

    run = Searcher(draws, transpositions=True)
    result = run(ROOTS, jax.random.key(0))
    jax.effects_barrier()
    assert max(result.evaluations) <= len(calls) - 1 < 0.7 * SIMULATIONS
    tree = result.tree
    codes = trees.read_positions(tree, jnp.arange(tree.num_rows))
    for b in range(BATCH):
        values = {}
        for node in range(1, tree.size[b]):
            row = b * tree.capacity + node
            if not tree.over[row]:
                values.setdefault(int(codes.taken[row]), set()).add(int(tree.value[row]))
        assert all(len(found) == 1 for found in values.values())
        assert len(values) == result.evaluations[b]


def test_a_tree_that_is_reused_remembers():
    settings = dict(capacity=2 * SIMULATIONS + 1, select=Puct(1.5))
    run, plain = (Searcher(going_on=True, transpositions=x, **settings) for x in (True, False))
    roots = ROOTS
    trees_ = [reuse.empty(roots, NUMBERS, x.config) for x in (run, plain)]
    reroot, spent = jax.jit(reuse.reroot), []
    for move in range(3):
        key = jax.random.key(move)
        result, expected = run(roots, key, trees_[0]), plain(roots, key, trees_[1])
        assert_same_trees(result, expected)
        assert result.ok.all()
        spent.append(result.evaluations)
        action = result.action.copy()
        action[move] = -1  # planted anew
        trees_ = [reroot(x.tree, action) for x in (result, expected)]
        going_on = np.asarray(trees_[0].size) > 0
        moved = jax.vmap(play)(roots, jnp.maximum(jnp.asarray(action), 0))
        roots = jax.tree.map(lambda new, old: np.where(going_on, new, old), moved, roots)
    assert (np.array(spent) < 0.6 * SIMULATIONS).all()
    assert spent[1][3] < 20  # nearly all sets are known
    with pytest.raises(ValueError, match="tree: its transpositions is False"):
        Searcher.__init__(run, going_on=True, transpositions=False, **settings)
        search(GAME, EVALUATE, None, jax.random.key(0), jnp.zeros(BATCH), ROOTS,
               SearchConfig(SIMULATIONS, transpositions=True, **settings), trees_[1])  # fmt: skip


def test_a_key_of_ones_own():
    """By the position, and not by what is seen: here that is finer."""
    by_position = Transpositions(key=lambda context, position, trail: GAME.key(position))
    key = jax.random.key(3)
    run = Searcher(transpositions=by_position, dirichlet_fraction=0.25)
    result, coarse = run(ROOTS, key), SHARED()(ROOTS, key)
    assert_same_trees(result, coarse)
    assert (result.evaluations[:4] > coarse.evaluations[:4]).all()
    assert (result.evaluations < SIMULATIONS).all()


def test_a_sick_evaluation_is_shared_as_it_is():
    def sick(params, key, observations):
        evaluation = EVALUATE(params, key, observations)
        is_sick = observations == 0b1011
        return evaluation._replace(value=jnp.where(is_sick, jnp.nan, evaluation.value))

    run, plain = (Searcher(sick, transpositions=x, max_depth=3) for x in (True, False))
    result, expected = run(ROOTS, jax.random.key(0)), plain(ROOTS, jax.random.key(0))
    assert_same_trees(result, expected)
    assert not result.ok.all()
    assert result.ok.any()


@pytest.mark.parametrize("batch", [8, 1])
def test_law_2_no_tree_sized_copy_or_select_inside_a_loop(batch):
    config = SearchConfig(24, capacity=31, transpositions=True)

    def run(roots, key):
        return search(GAME, EVALUATE, None, key, jnp.zeros(batch), roots, config)

    roots = Set(*jnp.zeros((2, batch), jnp.uint32))
    text = jax.jit(run).lower(roots, jax.random.key(0)).compile().as_text()
    moves = moves_in_loops(text, batch * 31)
    if batch == 1:  # as in tests/test_laws.py
        moves = [move for move in moves if "[31]" not in move]
    assert moves == []
    assert moves_in_loops(text, batch * transpositions.num_slots(31)) == []


def test_a_hash_is_of_every_bit():
    rng = np.random.RandomState(0)
    observation = {
        "bool": rng.rand(3, 4) < 0.5,
        "i8": rng.randint(-100, 100, 5).astype(np.int8),
        "u16": rng.randint(0, 2**16, 5).astype(np.uint16),
        "f32": rng.normal(size=(2, 3)).astype(np.float32),
        "bf16": jnp.asarray(rng.normal(size=4), jnp.bfloat16),
        "scalar": np.int32(7),
        "none": np.zeros(0, np.float32),
    }
    hash_of = jax.jit(transpositions.hash_of)
    seen = {tuple(np.asarray(hash_of(observation)).tolist())}
    count = 1
    for name, x in observation.items():
        flat = np.asarray(x).reshape(-1)
        bits = flat.view(np.uint8)
        for place in range(bits.size):
            changed = bits.copy()
            changed[place] ^= 1
            other = changed.view(flat.dtype).reshape(np.shape(x))
            seen.add(tuple(np.asarray(hash_of({**observation, name: other})).tolist()))
            count += 1
    assert len(seen) == count > 60
    # Planes of a board, all with two stones of four: sparse and alike.
    planes = np.zeros((81 * 80, 2, 81), bool)
    pairs = [(a, b) for a in range(81) for b in range(81) if a != b]
    for i, (a, b) in enumerate(pairs):
        planes[i, 0, a] = planes[i, 1, b] = True
    hashes = np.asarray(jax.vmap(transpositions.hash_of)(planes))
    assert len({tuple(h) for h in hashes.tolist()}) == len(pairs)
    for half in hashes.T:  # each 32 bits as a random function's: 5 pairs alike expected
        assert len(pairs) - len(set(half.tolist())) < 25
        counts = np.bincount(half & 63, minlength=64)
        assert ((counts - len(pairs) / 64) ** 2 / (len(pairs) / 64)).sum() < 110  # p = 0.0002
    with pytest.raises(ValueError, match="give a key"):
        transpositions.hash_of(np.zeros(2, np.complex64))


def test_a_table_of_many_nodes_finds_each_or_one_alike():
    capacity, used = 64, np.array([64, 40])
    tree = trees.allocate(jnp.zeros((2, 1), jnp.int32), 2, capacity, shared=True)
    keys = np.random.RandomState(1).randint(0, 2**32, (128, 2), np.uint64).astype(np.uint32)
    keys[5] = keys[3]
    keys[7] = 0  # not evaluated
    tree = tree.replace(size=jnp.array(used), shared=tree.shared._replace(key=jnp.array(keys)))
    slots = jax.jit(transpositions.table_of)(tree)
    find = jax.jit(transpositions.look_up)
    found = np.stack(
        [find(tree, slots, keys[[n, n + 64]]).node for n in range(64)], axis=1
    )  # [tree, n]
    expected = np.where(np.arange(64)[None] < used[:, None], np.arange(64), -1)
    expected[0, [5, 7]] = 3, -1
    forgotten = found != expected
    assert (found[forgotten] == -1).all()
    assert forgotten.sum() <= 3
    assert transpositions.num_slots(64) == 128
    assert transpositions.num_slots(65) == 256


@pytest.mark.parametrize(
    ("field", "settings"),
    [
        ("transpositions", {"transpositions": 3}),
        ("leaves", {"transpositions": True, "leaves": 2}),
        ("amaf", {"transpositions": Transpositions(), "amaf": Amaf()}),
    ],
)
def test_what_is_refused(field, settings):
    with pytest.raises(ValueError, match=f"^{field}: "):
        SearchConfig(**settings)


def test_what_else_is_refused():
    with pytest.raises(ValueError, match="^key: "):
        Transpositions(key=3)  # pyright: ignore
    with pytest.raises(ValueError, match="^rounds: "):
        Transpositions(rounds=0)

    def believes(params, key, observations):
        none = jnp.zeros((len(observations), NUMBERS))
        heuristic = Heuristic(none, none.astype(jnp.int32))
        return EVALUATE(params, key, observations)._replace(heuristic=heuristic)

    with pytest.raises(ValueError, match="^transpositions: "):
        Searcher(believes, transpositions=True)


def test_memory_is_known_beforehand():
    config = SearchConfig(50, transpositions=True)
    blank = reuse.empty(ROOTS, NUMBERS, config)
    from gozero.search.footprint import memory

    slots = transpositions.table(blank)
    taken = sum(x.nbytes for x in jax.tree.leaves((blank, slots)))
    assert memory(ROOTS, NUMBERS, config).total == taken
