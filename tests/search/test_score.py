"""Score utilities: KataGo's formula, and searches whose values include them."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero import limits
from gozero.games.go import go_game
from gozero.go import rules as go
from gozero.search import evaluate, reuse, root, values
from gozero.search import tree as trees
from gozero.search.by_step import Overlapped
from gozero.search.config import Amaf, Ensemble, SearchConfig
from gozero.search.game import Evaluator
from gozero.search.rules.forced import ForcedPlayouts
from gozero.search.rules.gumbel import GumbelRoot
from gozero.search.rules.katago import KataGoPuct
from gozero.search.rules.operators import max_backup
from gozero.search.rules.puct import Puct
from gozero.search.rules.selective import Pruning
from gozero.search.score import ScoreUtility, final
from gozero.search.search import search
from tests.reference import katago, mcts
from tests.search import random_tree
from tests.search.comparing import compare_searches, compare_trees, tie_seeds
from tests.search.evaluators import hash_evaluate

NUM_TREES, SIMULATIONS = 5, 120
SCORES = random_tree.with_scores(hash_evaluate(random_tree.NUM_ACTIONS, 1.5, 0.6))
SPOILT = np.uint32(106)


def all_but_one(params, key, codes):
    """Scores of all codes but `SPOILT`, whose mean is nan."""
    evaluated = SCORES(params, key, codes)
    means = jnp.where(codes == SPOILT, jnp.nan, evaluated.score[:, 0])
    return evaluated._replace(score=evaluated.score.at[:, 0].set(means))


EVALUATE = all_but_one
PLAIN = random_tree.Plain(EVALUATE)
CODES = np.random.RandomState(7).randint(1, 2**31, NUM_TREES).astype(np.uint32)


def test_the_utility_of_a_score_by_hand():
    utility = ScoreUtility(9.0)
    worth = lambda mean, stdev, center: float(
        utility(jnp.array([mean, stdev], jnp.float32), jnp.float32(center))
    )
    # 18 points are two sides, and 6.75 are three quarters of one: an arctangent of 1 gives half of
    # the most.
    assert worth(18, 0, 18 - 6.75) == pytest.approx(0.05 + 0.15, abs=1e-6)
    assert worth(0, 0, 6.75) == pytest.approx(-0.15, abs=1e-6)
    assert worth(0, 20, 0) == pytest.approx(0, abs=1e-7)
    assert worth(-1e6, 0, 0) == pytest.approx(-utility.most, abs=1e-4)
    # An uncertain score is worth less: about half the time 0, half the time 36 points.
    assert 0 < worth(18, 18, 0) < worth(18, 0, 0)
    assert worth(-18, 18, 3) == pytest.approx(-worth(18, 18, -3), abs=1e-6)
    # An integer score has a deviation of half a point.
    np.testing.assert_array_equal(final(jnp.array([3.0, -2.5])), [[3, 0.5], [-2.5, 0]])


def test_the_center_by_hand():
    """Four fifths of the root's expected score, but at most three quarters of a side from it."""
    center = ScoreUtility(8.0).center(jnp.array([10.0, -5.0, 100.0, -100.0]))
    np.testing.assert_allclose(center, [8.0, -4.0, 94.0, -94.0])


def test_utilities_below_the_root():
    """The center changes sign on every second ply; a nan score has utility 0."""
    utility, none = ScoreUtility(9.0, static=0.0), jnp.zeros(3)
    evaluated = evaluate.Evaluated(*[none] * 7)

    def found(mean):
        plies, center = jnp.array([2, 3, 0]), jnp.full(3, 5.0)
        scored = evaluated._replace(score=jnp.stack([jnp.array(mean), none], axis=-1))
        return evaluate.with_utility(scored, utility, center, plies).utility.tolist()

    assert found([5.0, -5.0, np.nan]) == [0, 0, 0]
    half = round(0.15 * limits.VALUE_ONE)
    assert found([11.75, 1.75, -1.75]) == [half, half, -half]
    assert evaluate.with_utility(evaluated, None, None, none).utility is None


@pytest.mark.parametrize("side", [9.0, 19.0])
def test_near_the_table_that_katago_reads(side):
    """Its table is piecewise linear, at most 0.0003 off the curve."""
    random, utility = np.random.RandomState(0), ScoreUtility(side)
    scores = np.stack([random.normal(0, side, 200), random.exponential(side, 200)], axis=-1)
    center = random.normal(0, side / 2, 200)
    ours = utility(jnp.asarray(scores, jnp.float32), jnp.asarray(center, jnp.float32))
    expected = [
        0.1 * katago.expected_score_value(mean, stdev, 0, 2.0, side)
        + 0.3 * katago.expected_score_value(mean, stdev, middle, 0.75, side)
        for (mean, stdev), middle in zip(scores, center, strict=True)
    ]
    np.testing.assert_allclose(ours, expected, atol=1e-4)


def test_points_of_a_finished_game_of_go():
    """Black owns the whole 3x3 board, less komi 2.5; White is to move after two passes. An
    unfinished game has no points."""
    rules = go.Rules(3)
    state = go.init(rules, komi=2.5)
    passed = functools.partial(go.play, rules, action=jnp.int32(rules.pass_action))
    ended = passed(passed(go.play(rules, state, jnp.int32(4))))
    scored = go_game(rules).history.scored
    over, value, points = scored(ended, ended.position)
    assert (bool(over), float(value), float(points)) == (True, -1.0, -6.5)
    assert not scored(state, state.position)[0]


UTILITY = random_tree.UTILITY
KATAGO = (
    KataGoPuct(1.0, 0.45, 50.0, 0.2, spread=0.85, score=UTILITY),
    mcts.KataGoPuct(1.0, 0.45, 50.0, 0.2, 0.85),
)
FORMS = {
    "katago's": (*KATAGO, {}),
    "five leaves": (*KATAGO, {"leaves": 5, "virtual_loss": 3}),
    "puct, pruned": (Puct(1.5, score=UTILITY), mcts.Puct(1.5), {"capacity": 70, "prune": True}),
    "a full tree": (*KATAGO, {"capacity": 70}),
}


@functools.cache
def searcher(name):
    rule, _, settings = FORMS[name]
    config = SearchConfig(SIMULATIONS, select=rule, **settings)
    return random_tree.compiled_search(EVALUATE, config, NUM_TREES, random_tree.SCORED)


def form(name):
    thorough = name != "katago's"
    return pytest.param(name, marks=pytest.mark.thorough if thorough else ())


@pytest.mark.parametrize("name", list(map(form, FORMS)))
def test_equal_to_the_plain_search_at_every_node(name):
    rule, plain_rule, settings = FORMS[name]
    config = SearchConfig(SIMULATIONS, select=rule, **settings)
    options = {**settings, "utility": random_tree.PLAIN_UTILITY}
    key = jax.random.key(2)
    result, forest = compare_searches(
        searcher(name), CODES, key, config, PLAIN, plain_rule, **options
    )
    for b, nodes in enumerate(forest):
        # The reported values are results without utilities.
        sums = nodes[0].own_sum + nodes[0].value_sum.sum()
        assert result.value[b] == np.float32(sums / limits.VALUE_ONE / nodes[0].num_visits())
        assert (np.abs(result.q[b]) <= 1).all()
    assert any(nodes[0].utility_sum.any() for nodes in forest)
    assert any(node.over for nodes in forest for node in nodes)


@pytest.mark.thorough
def test_continuing_from_an_earlier_tree():
    """Old nodes keep their utilities; new ones use the new root's center."""
    config = SearchConfig(60, capacity=121, select=KATAGO[0])
    empty = reuse.empty(random_tree.Position(CODES), random_tree.NUM_ACTIONS, config)

    @jax.jit
    def run(tree, codes, key):
        return search(
            *(random_tree.SCORED, Evaluator(EVALUATE), key, random_tree.Position(codes)),
            *(config, tree),
        )

    first = run(empty, CODES, jax.random.key(0))
    codes = [PLAIN.play(int(code), int(a)) for code, a in zip(CODES, first.action, strict=True)]
    codes, key = np.array(codes, np.uint32), jax.random.key(1)
    second = run(jax.jit(reuse.reroot)(first.tree, first.action), codes, key)
    plain = functools.partial(
        mcts.search, rule=KATAGO[1], utility=random_tree.PLAIN_UTILITY, max_depth=64
    )
    for b in range(NUM_TREES):
        game = PLAIN.play, PLAIN.evaluate
        seeds = [int(tie_seeds(jax.random.key(i), NUM_TREES)[b]) for i in (0, 1)]
        nodes = plain(int(CODES[b]), *game, 60, tie_seed=seeds[0])
        compare_trees(first.tree, b, nodes)
        nodes = mcts.reroot(nodes, int(first.action[b]))
        nodes = plain(int(codes[b]), *game, 60, tie_seed=seeds[1], nodes=nodes)
        compare_trees(second.tree, b, nodes)


@pytest.mark.thorough
def test_a_root_plays_by_utilities_and_reports_results():
    """One ply of an even game: the move with the most points is played."""
    config = SearchConfig(
        60,
        max_depth=1,
        select=KATAGO[0],
        root_select=KataGoPuct(c_puct=20.0, score=UTILITY).at_root,
    )
    even = lambda params, key, codes: EVALUATE(params, key, codes)._replace(
        value=jnp.zeros(codes.shape), prior_logits=jnp.zeros((codes.size, random_tree.NUM_ACTIONS))
    )
    open_ = next(
        code
        for code in range(32, 1000)
        if not any(PLAIN.evaluate(PLAIN.play(code, a))[2] for a in range(random_tree.NUM_ACTIONS))
    )
    codes = np.array([open_], np.uint32)
    result = random_tree.compiled_search(even, config, 1, random_tree.SCORED)(
        codes, jax.random.key(0)
    )
    legal = np.flatnonzero(result.visits[0] > 0)
    scores = [PLAIN.evaluate(PLAIN.play(open_, int(a)))[5].sum() for a in legal]
    assert result.action[0] == legal[np.argmin(scores)]
    assert not result.q.any()
    assert result.value[0] == 0
    seen = jax.jit(root.evaluated_edges)(result.tree)
    assert np.ptp(np.asarray(seen.q)[0, legal]) > 0.05
    assert jax.jit(lambda tree: trees.all_edges(tree, 0))(result.tree).variance is None


def test_a_score_that_is_not_finite_is_told():
    codes = CODES.copy()
    codes[0] = SPOILT
    result = searcher("katago's")(codes, jax.random.key(0))
    assert result.ok.tolist() == [False, True, True, True, True]


@pytest.mark.parametrize(
    "rule",
    [
        ForcedPlayouts(Puct(1.0, score=UTILITY), 8.0),
        pytest.param(GumbelRoot(4, rescale=False), marks=pytest.mark.thorough),
    ],
    ids=["forced playouts", "gumbel"],
)
def test_a_target_is_made_from_the_values_that_the_rule_saw(rule):
    """With scores that outweigh the results, as many forced visits go as by values with utility."""
    config = SearchConfig(128, select=Puct(1.0, score=UTILITY), root_select=rule)
    run = random_tree.compiled_search(EVALUATE, config, 4, random_tree.SCORED)
    result = run(CODES[:4], jax.random.key(1))
    seen = jax.jit(root.evaluated_edges)(result.tree)
    target = jax.jit(jax.vmap(rule.policy_target))
    expected = target(seen)
    np.testing.assert_allclose(result.policy_target, expected, rtol=1e-6)
    bare = target(jax.jit(lambda tree: trees.all_edges(tree, 0))(result.tree))
    assert not np.allclose(result.policy_target, bare)


@pytest.mark.thorough  # to compile
@pytest.mark.parametrize("rule", [KataGoPuct(score=UTILITY), Puct()], ids=["used", "not used"])
def test_scores_of_a_search_by_turns(rule):
    config = SearchConfig(12, select=rule, max_depth=6)
    hashed = jax.jit(lambda codes: EVALUATE(None, None, codes))
    evaluate = lambda codes: jax.tree.map(np.asarray, hashed(codes))
    key, codes = jax.random.key(3), CODES[:4]
    by_turns = Overlapped(random_tree.SCORED, evaluate, config, groups=2)
    actual = by_turns.search(key, random_tree.Position(codes))
    alone = random_tree.compiled_search(EVALUATE, config, 2, random_tree.SCORED)
    for g in range(2):
        group = slice(2 * g, 2 * g + 2)
        result = alone(codes[group], jax.random.fold_in(key, g))
        for name in ("action", "visits", "q", "value"):
            np.testing.assert_array_equal(getattr(actual, name)[group], getattr(result, name), name)
    if config.score_utility is not None:
        without = lambda codes: evaluate(codes)._replace(score=None)
        with pytest.raises(ValueError, match="evaluate: it returns no score"):
            Overlapped(random_tree.SCORED, without, config, groups=2).search(
                key, random_tree.Position(codes)
            )


def test_conflicting_settings_are_refused():
    scored = KataGoPuct(score=UTILITY)
    for settings, words in (
        ({"transpositions": True}, "transpositions"),
        ({"backup": max_backup}, "backup"),
        ({"prove": True}, "prove"),
        ({"amaf": Amaf()}, "amaf"),
        ({"ensemble": Ensemble(2)}, "ensemble"),
    ):
        with pytest.raises(ValueError, match=words):
            SearchConfig(64, select=scored, **settings)
    with pytest.raises(ValueError, match="static, dynamic"):
        ScoreUtility(9.0, static=0.6, dynamic=0.6)
    with pytest.raises(ValueError, match="side"):
        ScoreUtility(0.0)
    config = SearchConfig(4, select=scored)
    silent = lambda params, key, codes: EVALUATE(params, key, codes)._replace(score=None)
    with pytest.raises(ValueError, match="the evaluator returns none"):
        random_tree.compiled_search(silent, config, 2, random_tree.SCORED)
    result = EVALUATE(None, None, jnp.arange(2, dtype=jnp.uint32))
    with pytest.raises(ValueError, match="score has shape"):
        evaluate.check_evaluation(result._replace(score=result.value), result.prior_logits.shape)


def test_squares_fit_their_words():
    """Values up to 1.4 have squares up to 2, so sums are wide from a quarter of the visits on."""
    narrow = limits.MAX_VISITS // 4
    assert not SearchConfig(narrow - 1, select=KataGoPuct(score=UTILITY)).wide
    assert SearchConfig(narrow + 1, select=KataGoPuct(score=UTILITY)).wide
    assert not SearchConfig(narrow + 1, select=KataGoPuct()).wide
    one = values.Wide(jnp.array([2**31 - 5, -7]), jnp.array([0, 3], jnp.int16))
    other = values.Wide(jnp.array([10, 2]), jnp.array([0, -3], jnp.int16))
    assert values.to_int64(values.added(one, other)).tolist() == [2**31 + 5, -5]


def test_a_wrapped_rule_uses_scores_too():
    scored = KataGoPuct(score=UTILITY)
    assert SearchConfig(8, select=scored.at_root).score_utility == UTILITY
    assert SearchConfig(8, select=Pruning(scored)).score_utility == UTILITY
    assert SearchConfig(8, select=Puct(), root_select=GumbelRoot()).score_utility is None
