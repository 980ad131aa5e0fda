"""Long searches: wide sums, pruning of full trees, groups evaluated in turn."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gozero.limits import MAX_VISITS, MOST_VISITS, VALUE_ONE
from gozero.search import tree as trees
from gozero.search import values
from gozero.search.by_step import Overlapped
from gozero.search.config import Amaf, Ensemble, SearchConfig
from gozero.search.memory import optional_arrays
from gozero.search.rules.gumbel import GumbelInterior, GumbelRoot
from gozero.search.rules.operators import max_backup
from gozero.search.rules.puct import Puct
from gozero.search.rules.rave import Rave
from gozero.search.values import Wide
from tests.hlo import AS_USERS_FUSE, moves_in_loops
from tests.reference import gumbel as plain_gumbel
from tests.reference import mcts
from tests.search import random_tree
from tests.search.comparing import compare_searches, compare_trees, tie_seeds
from tests.search.gumbel_search import samples
from tests.search.test_ancestors import EVALUATE, EVEN, PLAIN_BETA

CODES = np.random.RandomState(7).randint(1, 2**31, 5).astype(np.uint32)
RAVE, PLAIN_RAVE = Rave(EVEN), mcts.Rave(PLAIN_BETA[EVEN])


class WideConfig(SearchConfig):
    """A search of any length with wide sums."""

    wide = property(lambda self: True)


def wide_of(whole):
    whole = np.asarray(whole, np.int64)
    low = whole.astype(np.uint32).view(np.int32)
    return Wide(jnp.asarray(low), jnp.asarray(((whole - low) >> 32).astype(np.int16)))


ADD, SUBTRACT, MEAN = jax.jit(values.plus), jax.jit(values.minus), jax.jit(values.mean)
WHOLE = st.integers(-MOST_VISITS * VALUE_ONE, MOST_VISITS * VALUE_ONE)
I32 = st.integers(-(2**31), 2**31 - 1)
EDGES = [2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**32, 0, -1, 2**44 - 1]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(WHOLE, I32), min_size=8, max_size=8))
def test_wide_sums_are_whole_numbers(pairs):
    pairs = [*pairs, *((edge, amount) for edge in EDGES for amount in (1, -1, 2**31 - 1, -(2**31)))]
    sums, amounts = (list(x) for x in zip(*pairs, strict=True))
    amount = np.array(amounts, np.int32)
    added, left = ADD(wide_of(sums), amount), SUBTRACT(amount, wide_of(sums))
    assert values.to_int64(added).tolist() == [s + a for s, a in pairs]
    assert values.to_int64(left).tolist() == [a - s for s, a in pairs]
    assert added.high.dtype == jnp.int16
    expected = np.array(sums, np.float64) / VALUE_ONE / 7
    np.testing.assert_allclose(MEAN(wide_of(sums), np.full(len(sums), 7)), expected, rtol=3e-7)


def test_a_mean_is_equal_in_both_forms():
    sums = np.random.RandomState(0).randint(-(2**31), 2**31, 500).astype(np.int32)
    visits = np.arange(500, dtype=np.int32)
    np.testing.assert_array_equal(MEAN(wide_of(sums), visits), MEAN(sums, visits))


def test_the_settings_choose_the_form_and_refuse_conflicts():
    assert not SearchConfig(MAX_VISITS).wide
    assert SearchConfig(MAX_VISITS + 1).wide
    assert SearchConfig(MAX_VISITS - 10, leaves=2, virtual_loss=10, capacity=9).wide
    assert optional_arrays(SearchConfig(10**6)).wide
    with pytest.raises(ValueError, match="num_simulations"):
        SearchConfig(MOST_VISITS + 1)
    with pytest.raises(ValueError, match=r"^num_simulations: 131071 .* at most 65534"):
        SearchConfig(MAX_VISITS + 1, ensemble=Ensemble(2))
    few = dict(capacity=9, prune=True)
    SearchConfig(8, **few | {"capacity": None}, prove=True)  # without a capacity there is room
    with pytest.raises(ValueError, match="prune"):
        SearchConfig(9, prove=True, **few)
    with pytest.raises(ValueError, match="no room for the 6 leaves"):
        SearchConfig(12, leaves=6, **few)


def test_counts_and_virtual_losses_fit_narrow_sums():
    """Values of heuristics, and of virtual losses, are never in wide sums."""
    assert SearchConfig(200_000).counts_left == MAX_VISITS
    assert SearchConfig(1000).counts_left == MAX_VISITS - 1000
    with pytest.raises(ValueError, match=r"^virtual_loss: 131072 .*; use at most 32767$"):
        SearchConfig(1000, leaves=2, virtual_loss=131_072)


def test_a_search_below_the_limit_has_narrow_sums():
    roots = random_tree.Position(CODES)
    bytes_of = lambda config: trees.memory_bytes(roots, 12, 50, optional_arrays(config))
    narrow = bytes_of(SearchConfig(49, amaf=Amaf(), select=RAVE))
    assert bytes_of(WideConfig(49, amaf=Amaf(), select=RAVE)) == narrow + 5 * 50 * 2 * (1 + 12)


@pytest.fixture(scope="module")
def grown():
    """(a short MC-RAVE search with wide sums, the search that continues its trees, plain game)."""
    evaluate = random_tree.with_more(EVALUATE, True, False)
    config = WideConfig(30, capacity=70, select=RAVE, amaf=Amaf(), max_depth=5)

    run = random_tree.search_of(evaluate, config)
    first = jax.jit(run)(CODES, jax.random.key(1))
    on = jax.jit(run, compiler_options=AS_USERS_FUSE)
    on = on.lower(CODES, jax.random.key(2), first.tree).compile()
    assert moves_in_loops(on.as_text(), first.tree.num_rows) == []  # invariant 2
    return first, on, random_tree.Plain(evaluate)


@pytest.mark.thorough
def test_carries_match_the_plain_search(grown):
    """Trees that already have the visits of a long search, with sums just within an i32."""
    first, on, plain = grown
    tree, key = jax.tree.map(np.asarray, first.tree), jax.random.key(1)
    visits, sums = tree.visits.copy(), values.to_int64(tree.value_sum)
    amaf_visits, amaf_sums = tree.amaf.visits.copy(), values.to_int64(tree.amaf.sums)
    forest, more, near = [], MAX_VISITS, MAX_VISITS * VALUE_ONE + VALUE_ONE // 2
    for b, seed in enumerate(tie_seeds(key, len(CODES))):
        args = int(CODES[b]), plain.play, plain.evaluate, 30, 5, PLAIN_RAVE, int(seed)
        nodes = mcts.search(*args, amaf="either")
        row, sign = b * tree.capacity, 1 - 2 * (b % 2)
        nodes[0].evaluated += more
        nodes[0].own_sum += sign * near
        visits[row], sums[row] = visits[row] + more, sums[row] + sign * near
        for action in np.flatnonzero(nodes[0].amaf_visits):
            nodes[0].amaf_visits[action] += more
            nodes[0].amaf_sum[action] += sign * near
        amaf_visits[row], amaf_sums[row] = nodes[0].amaf_visits, nodes[0].amaf_sum
        child = next((c for c in nodes[0].children.values() if not c.over), None)
        if child:
            action = next(a for a, c in nodes[0].children.items() if c is child)
            child.evaluated += more
            child.own_sum -= sign * near
            nodes[0].visits[action] += more
            nodes[0].value_sum[action] += sign * near
            visits[row + child.index] += more
            sums[row + child.index] -= sign * near
            visits[row] += more
            sums[row] += sign * near
        forest.append(nodes)
    tree = tree.replace(
        visits=visits,
        value_sum=wide_of(sums),
        amaf=trees.Counts(amaf_visits, wide_of(amaf_sums)),
    )
    result = on(CODES, key, tree)  # with the same key, for ties
    for b, seed in enumerate(tie_seeds(key, len(CODES))):
        args = int(CODES[b]), plain.play, plain.evaluate, 30, 5, PLAIN_RAVE, int(seed)
        nodes = mcts.search(*args, amaf="either", nodes=forest[b])
        compare_trees(result.tree, b, nodes)
    wide = result.tree.value_sum.high, result.tree.amaf.sums.high
    assert all((np.asarray(high) != 0).sum() >= 5 for high in wide)


PRUNED = {
    # select, plain rule, settings
    "puct": (Puct(1.5), mcts.Puct(1.5), {}),
    "rave": (RAVE, PLAIN_RAVE, {"amaf": Amaf()}),
    "four leaves": (Puct(1.5), mcts.Puct(1.5), {"leaves": 4, "virtual_loss": 2}),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", PRUNED)
def test_a_pruned_search_equals_the_plain_one(name):
    select, rule, options = PRUNED[name]
    config = SearchConfig(240, capacity=41, prune=True, max_depth=9, select=select, **options)
    evaluate = random_tree.with_more(EVALUATE, True, False) if config.amaf else EVALUATE
    run = random_tree.compiled_search(evaluate, config, 5, options=AS_USERS_FUSE)
    options = {**options, **({"amaf": "either"} if config.amaf else {})}
    result, forest = compare_searches(
        *(run, CODES, jax.random.key(4), config, random_tree.Plain(evaluate), rule),
        **(options | {"capacity": 41, "prune": True}),
    )
    lost = [node for nodes in forest for node in nodes if node.evaluated > 1 and not node.over]
    assert len(lost) > 10  # nodes that keep the statistics of pruned children
    assert (np.asarray(result.tree.size) <= 41).all()
    np.testing.assert_array_equal(np.asarray(result.tree.visits).reshape(5, 41)[:, 0], 241)


@pytest.mark.thorough
def test_operators_with_wide_sums_equal_the_plain_search():
    config = WideConfig(240, max_depth=9, select=Puct(1.5), backup=max_backup)
    run = random_tree.compiled_search(EVALUATE, config, 5, options=AS_USERS_FUSE)
    result, _ = compare_searches(
        *(run, CODES, jax.random.key(4), config, random_tree.Plain(EVALUATE), mcts.Puct(1.5)),
        backup=lambda mean, visits, values: max(values),
    )
    assert isinstance(result.tree.value_sum, Wide)


class Won(random_tree.Plain):
    """An endless game that one player wins: the player to move where the code is even."""

    def play(self, code, action):
        return super().play(code, action) & ~1 | (~code & 1)

    def evaluate(self, code):
        prior, value, _, *more = super().evaluate(code)
        return prior, value, False, *more


PAST = 140_000  # simulations whose sum exceeds an i32, if one player wins them all
PAST_LIMIT = {
    # settings, the plain search's
    "pruned": ({"capacity": 60, "prune": True}, {"capacity": 60, "prune": True}),
    "gumbel": ({"select": GumbelInterior(), "root_select": GumbelRoot(max_considered=6)}, {}),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["pruned", pytest.param("gumbel", marks=pytest.mark.slow)])
def test_a_search_past_the_limit_equals_the_plain_one(name):
    """140,000 simulations, all won by one player: the sum exceeds an i32."""

    def evaluate(params, key, codes):
        evaluated = EVALUATE(params, key, codes)
        return evaluated._replace(value=jnp.where(codes % 2 == 0, 1.0, -1.0))

    def play(position, action):
        code = random_tree.play(position, action).code
        return random_tree.Position(code & ~np.uint32(1) | (~position.code & np.uint32(1)))

    game = random_tree.GAME._replace(
        play=play, outcome=lambda p: (jnp.bool_(False), jnp.float32(0))
    )
    options, plain_options = PAST_LIMIT[name]
    config = SearchConfig(PAST, **{"max_depth": 4, "select": Puct(1.5), **options})
    assert config.wide
    run, key = random_tree.compiled_search(evaluate, config, 1, game), jax.random.key(0)
    rule, roots = mcts.Puct(1.5), None
    if name == "gumbel":
        (drawn,) = np.asarray(samples(key, 1, random_tree.NUM_ACTIONS))
        rule, roots = plain_gumbel.Interior(), [plain_gumbel.Root(drawn, 6, PAST)]
    result, _ = compare_searches(
        *(run, np.array([2], np.uint32), key, config, Won(evaluate), rule, roots), **plain_options
    )
    assert values.to_int64(result.tree.value_sum)[0] == (PAST + 1) * VALUE_ONE
    assert result.value.tolist() == [1.0]


@pytest.mark.thorough  # to compile
def test_a_search_by_turns_equals_the_search_of_each_group():
    config = SearchConfig(num_simulations=12, select=Puct(1.5), max_depth=6)
    codes = np.arange(1, 9, dtype=np.uint32) * np.uint32(7919)
    hashed = jax.jit(lambda codes: EVALUATE(None, None, codes))
    calls, fails_after = [], [1000]

    def evaluate(codes):
        calls.append(len(codes))
        if len(calls) > fails_after[0]:
            raise ConnectionError("the server is gone")
        return jax.tree.map(np.asarray, hashed(codes))

    by_turns = Overlapped(random_tree.GAME, evaluate, config, groups=2)
    key = jax.random.key(3)
    actual = by_turns.search(key, random_tree.Position(codes))
    assert calls == [4] * 2 * 13
    without = by_turns.search(key, random_tree.Position(codes), keep_tree=False)
    alone = random_tree.compiled_search(EVALUATE, config, 4)
    for g in range(2):
        result = alone(codes[4 * g :][:4], jax.random.fold_in(key, g))
        names = "action", "visits", "q", "value", "ok", "simulations"
        for name, ours in itertools.product(names, (actual, without)):
            part = np.asarray(getattr(ours, name))[4 * g :][:4]
            np.testing.assert_array_equal(part, getattr(result, name), name)
        rows = slice(g * result.tree.num_rows, (g + 1) * result.tree.num_rows)
        np.testing.assert_array_equal(actual.tree.value_sum[rows], result.tree.value_sum)
    assert without.tree is None

    calls.clear()
    fails_after[0] = 5
    with pytest.raises(ConnectionError, match="gone"):
        by_turns.search(key, random_tree.Position(codes))
    assert len(calls) <= 7  # the other group stops too


def test_a_search_by_turns_refuses_unsupported_settings():
    config = SearchConfig(num_simulations=12)
    games = random_tree.Position(np.arange(8, dtype=np.uint32))
    with pytest.raises(ValueError, match="3 groups"):
        Overlapped(random_tree.GAME, EVALUATE, config, groups=3).search(jax.random.key(3), games)
    by_turns = Overlapped(random_tree.GAME, EVALUATE, config, groups=2)
    with pytest.raises(ValueError, match=r"states: their leading axes are \[\(\)\]"):
        by_turns.search(jax.random.key(3), random_tree.Position(np.uint32(1)))
    with pytest.raises(ValueError, match=r"^early_stop"):
        Overlapped(random_tree.GAME, EVALUATE, SearchConfig(early_stop=True))
