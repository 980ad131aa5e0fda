"""A search in chunks, one that stops early, and one within a budget that the host checks."""

from __future__ import annotations

import dataclasses
import functools
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.games.go import go_game
from gozero.go.rules import Rules
from gozero.play.player_config import PlayerConfig
from gozero.play.setups import make_setup
from gozero.search import reuse, root
from gozero.search.by_step import SeparatePrograms
from gozero.search.config import Ensemble, SearchConfig
from gozero.search.game import Evaluator
from gozero.search.rules.puct import Puct
from gozero.search.runner import Budget, Runner
from tests.hlo import moves_in_loops
from tests.search import random_tree
from tests.search.evaluators import hash_evaluate

BATCH = 4
EVALUATE = hash_evaluate(random_tree.NUM_ACTIONS, 1.0, 0.3)
CONFIG = SearchConfig(num_simulations=48, leaves=2, select=Puct(1.0), dirichlet_fraction=0.2)
EARLY = dataclasses.replace(CONFIG, early_stop=True)
SMALL = dataclasses.replace(EARLY, capacity=59)  # R equals no other size here: see invariant 2
CODES = jnp.arange(1, BATCH + 1, dtype=jnp.uint32) * np.uint32(7919)


@functools.cache
def searcher(config, batch=BATCH):
    """(codes u32[B], key) -> SearchResult, compiled."""

    return random_tree.compiled_search(EVALUATE, config, batch)


@functools.cache
def compiled_runner(config):
    return Runner(random_tree.GAME, Evaluator(EVALUATE), config)


def runner(config, chunk=5, clock=time.monotonic):
    """The config's cached runner, with this chunk size and clock."""
    run = compiled_runner(config)
    run.chunk, run.clock = chunk, clock
    return run


def assert_same(one, other, but=()):
    for name in set(one._fields) - {"tree", *but}:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    if "tree" not in but:
        jax.tree.map(np.testing.assert_array_equal, one.tree, other.tree)


def assert_close(one, other):
    """Equal, but floats only up to rounding, which differs between programs."""
    for a, b in zip(*map(jax.tree.leaves, (one, other)), strict=True):
        rtol = 1e-6 if jnp.issubdtype(a.dtype, jnp.floating) else 0
        np.testing.assert_allclose(a, b, rtol)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "config",
    [
        EARLY,
        pytest.param(dataclasses.replace(CONFIG, leaves=1), marks=pytest.mark.thorough),
        pytest.param(dataclasses.replace(CONFIG, prove=True), marks=pytest.mark.thorough),
    ],
)
def test_separate_programs_equal_a_whole_search(config):
    run = Runner(random_tree.GAME, Evaluator(EVALUATE), config, chunk=5, programs=SeparatePrograms)
    key = jax.random.key(3)
    positions = random_tree.Position(CODES)
    whole = searcher(config)(CODES, key)
    assert_close(run.search(key, positions), whole)
    looks = []
    look = lambda running, is_over: looks.append((int(running.steps), is_over)) or False
    assert_close(run.search(key, positions, look=look), whole)
    steps = int(whole.simulations[0]) // config.leaves
    assert looks == [*((i, False) for i in range(5, steps, 5)), (steps, True)]


@pytest.mark.thorough
def test_separate_programs_observe_the_ancestors():
    def observe(code, position, ancestors):
        seen = jnp.where(
            jnp.arange(len(ancestors.positions.code)) < ancestors.length,
            ancestors.positions.code,
            0,
        )
        return position.code ^ jnp.sum(seen)

    evaluator, config = Evaluator(EVALUATE, observe=observe), SearchConfig(12, select=Puct(1.0))
    assert_close(
        *(
            Runner(random_tree.GAME, evaluator, config, programs=kind).search(
                jax.random.key(3), random_tree.Position(CODES)
            )
            for kind in (SeparatePrograms, None)
        )
    )


@pytest.mark.thorough  # to compile
@pytest.mark.parametrize("first_action", [False, True])
def test_separate_programs_for_playouts_equal_a_whole_search(first_action):
    rules = Rules(3)
    flags = {"search": "rave", "simulations": 24, "leaves": 8, "heuristic": "mogo"}
    setup = make_setup(rules, PlayerConfig(**flags, nakade=True, first_action=first_action))
    states = jax.vmap(go_game(rules).init)(jax.random.split(jax.random.key(0), 2))
    result = [
        Runner(go_game(rules), setup.evaluator, setup.search, programs=kind).search(
            jax.random.key(3), states
        )
        for kind in (SeparatePrograms, None)
    ]
    assert_same(*result)


@pytest.mark.parametrize(
    ("config", "text"),
    [
        (dataclasses.replace(CONFIG, capacity=30, prune=True), "^prune"),
        (dataclasses.replace(CONFIG, leaves=1, transpositions=True), "^transpositions"),
        (dataclasses.replace(CONFIG, ensemble=Ensemble(2)), "^ensemble"),
    ],
)
def test_separate_programs_refuse_unsupported_settings(config, text):
    with pytest.raises(ValueError, match=text):
        Runner(random_tree.GAME, Evaluator(EVALUATE), config, programs=SeparatePrograms)


@pytest.mark.thorough
@pytest.mark.parametrize("chunk", [pytest.param(5, marks=pytest.mark.slow), 24])
def test_chunks_equal_a_whole_search(chunk):
    run, key = runner(CONFIG, chunk), jax.random.key(3)
    whole = searcher(CONFIG)(CODES, key)
    within = Budget(seconds=1e6)
    assert_same(run.search(key, random_tree.Position(CODES), within), whole)
    assert whole.simulations.tolist() == [48] * BATCH


@pytest.mark.thorough
def test_a_budget_of_visits():
    run, key = runner(CONFIG), jax.random.key(3)
    search = lambda **limits: run.search(key, random_tree.Position(CODES), Budget(**limits))
    few, in_chunks = search(visits=21), search(visits=21, seconds=1e6)
    assert_same(few, in_chunks)
    open_ = ~np.asarray(few.tree.over).reshape(BATCH, -1)[:, 0]
    assert few.visits.sum(axis=1).tolist() == (20 * open_).tolist()
    assert few.simulations.tolist() == [20] * BATCH
    assert search(visits=1).simulations.tolist() == [2] * BATCH
    assert_same(search(visits=10**6), searcher(CONFIG)(CODES, key))


@pytest.mark.slow
def test_an_early_stop_saves_simulations_and_plays_the_same():
    """A single tree that stops early, against the same tree in a batch of four that do not."""
    spared = 0
    for seed in range(60):
        codes, key = mixed(seed), jax.random.key(seed)
        whole, early = searcher(CONFIG)(codes, key), searcher(EARLY, 1)(codes[:1], key)
        assert int(early.action[0]) == int(whole.action[0])
        if bool(early.tree.over[0]):
            assert int(early.simulations[0]) == 0
            continue
        done = int(early.simulations[0])
        assert int(early.visits.sum()) == done
        spared += 48 - done
        if done < 48:
            assert lead(early.visits)[0] > 48 - done
            # One step earlier this does not hold.
            limit = Budget(visits=done - 2)
            before = runner(CONFIG).search(key, random_tree.Position(codes), limit)
            assert lead(before.visits)[0] <= 50 - done
    assert spared > 300


@pytest.mark.slow
def test_several_trees_stop_when_all_are_decided():
    spared, run = 0, runner(SMALL)
    for seed in range(60):
        codes, key = mixed(seed), jax.random.key(seed)
        whole = searcher(CONFIG)(codes, key)
        early = run.search(key, random_tree.Position(codes), Budget(seconds=1e6))
        np.testing.assert_array_equal(early.action, whole.action)
        done = int(early.simulations[0])
        assert early.simulations.tolist() == [done] * BATCH
        spared += 48 - done
        over = np.asarray(early.tree.over).reshape(BATCH, -1)[:, 0]
        assert done == 48 or ((lead(early.visits) > 48 - done) | over).all()
    assert spared > 100


def mixed(seed):
    rng = np.random.default_rng(seed)
    return jnp.array(rng.integers(2**32, size=BATCH, dtype=np.uint32))


def lead(visits):
    second, first = np.sort(np.asarray(visits), axis=1)[:, -2:].T
    return first - second


@pytest.mark.slow  # to compile
def test_a_reused_tree_may_be_decided_before_the_search():
    """Each search, here of one position, puts the root's best action further ahead."""
    codes = [mixed(seed)[:1] for seed in range(60)]
    ahead = [lead(searcher(EARLY, 1)(code, jax.random.key(0)).visits)[0] for code in codes]
    roots = random_tree.Position(jnp.tile(codes[int(np.argmax(ahead))], BATCH))
    run, key, done = runner(SMALL), jax.random.key(1), []
    tree = jax.jit(lambda: reuse.empty(roots, random_tree.NUM_ACTIONS, SMALL))()
    for _ in range(8):
        result = run.search(key, roots, tree=tree)
        tree = result.tree
        done.append(int(result.simulations[0]))
        assert bool(result.ok.all())
    assert done[0] > done[1] > done[2] > 0  # each stops as soon as it can
    assert done[-1] == 0


def test_decided_by_hand():
    result = runner(CONFIG).search(jax.random.key(3), random_tree.Position(CODES))
    tree, ahead = result.tree, lead(result.visits)
    over = np.asarray(tree.over).reshape(BATCH, -1)[:, 0]
    decided = jax.jit(root.decided)
    for left in (0, 5, int(ahead.max()) - 1, int(ahead.max())):
        np.testing.assert_array_equal(decided(tree, left), (ahead > left) | over)


class Clock:
    """A clock that advances by `tick` at every look."""

    def __init__(self, tick):
        self.now, self.tick, self.looks = 0.0, tick, 0

    def __call__(self):
        self.looks += 1
        self.now += self.tick
        return self.now


def test_time_limits_are_kept_and_one_chunk_is_done():
    clock = Clock(0.0)
    run, key = runner(CONFIG, 5, clock), jax.random.key(2)
    roots = random_tree.Position(CODES)
    search = lambda seconds: run.search(key, roots, Budget(None, seconds))
    simulations = lambda seconds: int(search(seconds).simulations[0])
    assert simulations(0.0) == 48  # the clock stands still
    clock.tick = 1.0
    # A chunk is ten simulations and takes 1 s, and starting one takes 1 s: k chunks take 2k s.
    for seconds, expected in [(0.0, 10), (2.9, 10), (3.0, 20), (4.9, 20), (5.0, 30), (99.0, 48)]:
        start = clock.now
        assert simulations(seconds) == expected
        assert clock.now - start <= seconds + 3.0
    assert (
        run._programs.advance.jitted._cache_size() == run._programs.begin.jitted._cache_size() == 1
    )


@pytest.mark.slow
def test_invariant_2_holds_for_chunks():
    run, key, roots = runner(SMALL), jax.random.key(0), random_tree.Position(CODES)
    running = jax.eval_shape(run._programs.begin, None, key, roots, None)
    count = jnp.int32(0)
    text = (
        run._programs.advance.jitted.lower(running, None, roots, count, count).compile().as_text()
    )
    assert moves_in_loops(text, BATCH * SMALL.num_nodes) == []


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SearchConfig(early_stop=True, temperature=0.5), "early_stop: .*temperature=0.5"),
        (lambda: SearchConfig(early_stop=True, prove=True), "early_stop: .*prove"),
        (lambda: SearchConfig(early_stop=True, transpositions=True), "early_stop: .*trans"),
        (lambda: Budget(visits=0), "visits: 0"),
        (lambda: Budget(visits=1.5), "visits: 1.5"),  # type: ignore
        (lambda: Budget(seconds=-1.0), "seconds: -1.0"),
        (lambda: Budget(seconds=float("nan")), "seconds: nan"),
        (lambda: Budget(seconds=float("inf")), "seconds: inf"),
        (lambda: Runner(random_tree.GAME, Evaluator(EVALUATE), CONFIG, 0), "chunk: 0"),
    ],
)
def test_bad_settings(make, message):
    with pytest.raises(ValueError, match=message):
        make()
