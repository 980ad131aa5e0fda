"""The Gumbel rules: by hand, against their formulas at every node, and against mctx."""

from __future__ import annotations

import contextlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.hashing import mix
from gozero.search import reuse
from gozero.search.config import SearchConfig
from gozero.search.edges import Edges
from gozero.search.game import Evaluation, Evaluator, Game
from gozero.search.prior_counts import with_heuristic
from gozero.search.rules import gumbel
from gozero.search.rules.gumbel import GumbelInterior, GumbelRoot
from gozero.search.search import search
from tests.compile.forms import form_of
from tests.reference import gumbel as plain_gumbel
from tests.reference import mcts
from tests.search import gumbel_search, random_tree
from tests.search.comparing import compare_searches
from tests.search.gumbel_search import samples

INF = float("inf")


def test_sequential_halving_by_hand():
    # 16 actions and 32 simulations: four phases of 8, so 16 once, 8 once, 4 twice.
    expected = [0] * 16 + [1] * 8 + [2] * 4 + [3] * 4
    assert gumbel.considered_visits(16, 32).tolist() == expected
    # Three actions: two phases; 8 // (2 * 3) = 1 each, then 8 // (2 * 2) = 2 each for two, again.
    assert gumbel.considered_visits(3, 8).tolist() == [0, 0, 0, 1, 1, 2, 2, 3]
    assert gumbel.considered_visits(16, 5).tolist() == [0] * 5
    assert gumbel.considered_visits(1, 4).tolist() == [0, 1, 2, 3]
    assert gumbel.considered_visits(0, 2).tolist() == [0, 1]
    for count, simulations in [(2, 9), (5, 40), (7, 100), (16, 200), (12, 13)]:
        actual = gumbel.considered_visits(count, simulations).tolist()
        assert actual == plain_gumbel.turns(count, simulations)


def node() -> Edges:
    """Two actions visited, two not, one illegal."""
    return Edges(
        prior=jnp.array([0.4, 0.3, 0.2, 0.1, -INF]),
        visits=jnp.array([3, 0, 5, 0, 0]),
        q=jnp.array([0.2, 0.0, -0.4, 0.0, 0.0]),
        value=jnp.float32(-0.1),
        total=jnp.int32(8),
        raw_value=jnp.float32(0.1),
    )


def test_completed_q_and_improved_policy_by_hand():
    edges = jax.tree.map(np.asarray, node())
    # q_P = (.4 * .2 - .2 * .4) / .6 = 0; v_mix = (.1 + 8 * 0) / 9.
    mixed = 0.1 / 9
    completed = np.asarray(jax.jit(gumbel.completed_q)(edges))
    np.testing.assert_allclose(completed[:4], [0.2, mixed, -0.4, mixed], rtol=1e-5)
    # (50 + 5) * 0.1 = 5.5 on [-.4, .2].
    middle = 5.5 * (mixed + 0.4) / 0.6
    sigma = jax.jit(gumbel.sigma)(edges, 0.1, 50.0)
    np.testing.assert_allclose(
        np.asarray(sigma)[:4], [5.5, middle, 0, middle], rtol=1e-5, atol=1e-5
    )
    weight = np.array([0.4, 0.3, 0.2, 0.1, 0]) * np.exp([5.5, middle, 0, middle, 0])
    improved = weight / weight.sum()
    target = jax.jit(GumbelRoot().policy_target)(edges)
    np.testing.assert_allclose(target, improved, rtol=1e-5)
    # The interior rule gets the same from the visited actions and the best unvisited one.
    some = np.array([0, 2, 1])
    seen = edges._replace(prior=edges.prior[some], visits=edges.visits[some], q=edges.q[some])
    result = jax.jit(GumbelInterior().improved_policy)(seen)
    np.testing.assert_allclose(result, improved[some], rtol=1e-5)
    behind = improved[some] - np.array([3, 5, 0]) / 9
    np.testing.assert_allclose(jax.jit(GumbelInterior())(seen), behind, rtol=1e-5, atol=1e-6)


def test_root_scores_and_final_action_by_hand():
    edges = node()
    g = np.array([0.0, 0.5, 9.0, 2.0, 50.0], np.float32)
    middle = 5.5 * (0.1 / 9 + 0.4) / 0.6
    expected = 0.5 * g[:4] + np.log([0.4, 0.3, 0.2, 0.1]) + [5.5, middle, 0, middle]
    rule = GumbelRoot(max_considered=3, scale=0.5)
    score = jax.jit(rule.score_root, static_argnums=2)
    # After 8 of 9 simulations, 5 and 3, it is the turn of the action that has 3.
    assert gumbel.considered_visits(3, 9)[8] == 3
    scores = np.asarray(score(edges, g, 9))
    assert scores.tolist()[1:] == [-INF] * 4
    assert scores[0] == pytest.approx(expected[0], rel=1e-5)
    # After 8 of 8 no action has the 3 visits whose turn it is: any may be visited.
    assert gumbel.considered_visits(3, 8)[7] == 3
    four = edges._replace(visits=jnp.array([4, 0, 4, 0, 0]))
    assert np.isfinite(score(four, g, 8)).tolist() == [True] * 4 + [False]
    # The most visited action is played whatever the others' scores; among equals the best.
    final = jax.jit(rule.final_action)
    assert int(final(edges, np.zeros(5, np.float32))) == 2
    assert int(final(four, np.zeros(5, np.float32))) == 0
    assert int(final(four, g * 4)) == 2
    # Without visits, a sample of the policy.
    blank = edges._replace(visits=jnp.zeros(5, jnp.int32), total=jnp.int32(0), q=jnp.zeros(5))
    assert int(final(blank, g)) == 2
    target = jax.jit(rule.policy_target)(blank)
    np.testing.assert_allclose(target, [0.4, 0.3, 0.2, 0.1, 0], rtol=1e-5)


def test_equal_finalists_are_chosen_at_random():
    edges = node()._replace(visits=jnp.array([4, 4, 4, 0, 0]), q=jnp.array([0.4, 0.4, 0.1, 0, 0]))
    edges = edges._replace(prior=jnp.array([0.3, 0.3, 0.3, 0.1, -INF]))
    final = jax.jit(jax.vmap(GumbelRoot(max_considered=3, scale=0.0).final_action, (None, 0)))
    drawn = np.asarray(final(edges, jax.random.gumbel(jax.random.key(0), (200, 5))))
    assert 70 < np.sum(drawn == 0) < 130
    assert set(drawn.tolist()) == {0, 1}


def test_equal_values_stay_equal():
    """If every value is the node's own, no rounding error is amplified by the rescaling."""
    rng = np.random.RandomState(0)
    prior = rng.dirichlet(np.ones(12)).astype(np.float32)
    visits = rng.randint(0, 4, 12).astype(np.int32)
    value = np.float32(0.3)
    edges = Edges(
        prior, visits, np.where(visits > 0, value, np.float32(0)), value, visits.sum(), value
    )
    np.testing.assert_array_equal(jax.jit(gumbel.sigma)(edges, 0.1, 50.0), 0.0)
    # A position without a legal action gives no nan.
    none = edges._replace(prior=np.full(12, -INF, np.float32))
    assert jax.jit(GumbelRoot().policy_target)(none).tolist() == [0.0] * 12
    interior = jax.jit(GumbelInterior())
    assert interior(none).tolist() == [-INF] * 12
    # A prior too small for f32 is still legal.
    small = edges._replace(prior=np.where(np.arange(12) == 3, np.float32(0), prior))
    assert np.isfinite(interior(small)).all()
    with pytest.raises(ValueError, match=r"^raw_value: "):
        gumbel.mixed_value(edges._replace(raw_value=None))


def test_values_without_rescaling():
    """By hand: v_mix = 0.2 + 3/4 (0.3 * 0.2 - 0.2 * 0.2) / 0.5 = 0.23; (50 + 2) * q."""
    prior = np.array([0.3, 0.2, 0.5], np.float32)
    visits = np.array([2, 1, 0], np.int32)
    q = np.array([0.4, 0.0, 0.0], np.float32)
    edges = Edges(prior, visits, q, np.float32(0.2), visits.sum(), np.float32(0.2))
    plain = jax.jit(lambda edges: gumbel.sigma(edges, 1.0, 50.0, rescale=False))(edges)
    np.testing.assert_allclose(plain, [52 * 0.4, 0, 52 * 0.23], rtol=1e-6)
    target = jax.jit(GumbelRoot(value_scale=0.1, rescale=False).policy_target)(edges)
    weight = prior * np.exp([5.2 * 0.4, 0, 5.2 * 0.23])
    np.testing.assert_allclose(target, weight / weight.sum(), rtol=1e-5)


@pytest.mark.parametrize(
    ("rule", "field", "value"),
    [
        (GumbelRoot, "max_considered", 0),
        (GumbelRoot, "max_considered", 2.0),
        (GumbelRoot, "scale", -1.0),
        (GumbelRoot, "value_scale", -0.1),
        (GumbelRoot, "max_visit_init", float("nan")),
        (GumbelInterior, "value_scale", -0.1),
        (GumbelInterior, "max_visit_init", -1.0),
        (SearchConfig, "select", GumbelRoot()),
        (SearchConfig, "root_select", 3),
    ],
)
def test_bad_settings(rule, field, value):
    with pytest.raises(ValueError, match=f"^{field}: "):
        rule(**{field: value})


@pytest.mark.thorough
@pytest.mark.parametrize("platform", ["cpu", "cuda"])
def test_a_full_tree_without_the_actions_that_are_next(platform, monkeypatch):
    """The root would consider eight actions, but there is room for four; when only others would be
    next, the one of these with the fewest visits is."""
    config = SearchConfig(40, capacity=5, root_select=GumbelRoot(8), select=GumbelInterior())
    with form_of(platform, monkeypatch) if platform == "cuda" else contextlib.nullcontext():
        result = random_tree.compiled_search(gumbel_search.EVALUATE, config, 3)(
            jnp.array([106, 107, 128], jnp.uint32), jax.random.key(2)
        )
    for visits in np.asarray(result.visits):
        assert visits.sum() == 40
        assert sorted(visits)[-5] == 0 < 2 <= sorted(visits)[-4]


def test_virtual_losses_and_heuristics_are_refused():
    with pytest.raises(ValueError, match=r"^virtual_loss: 3 .*GumbelRoot.* use virtual_loss=1"):
        SearchConfig(leaves=4, root_select=GumbelRoot())
    even = lambda params, key, codes: jnp.zeros((codes.shape[0], random_tree.NUM_ACTIONS))
    evaluate = with_heuristic(gumbel_search.EVALUATE, even, visits=5)
    config = SearchConfig(4, root_select=GumbelRoot())
    with pytest.raises(ValueError, match=r"^root_select: GumbelRoot.* heuristic"):
        random_tree.compiled_search(evaluate, config, 1)
    roots = random_tree.Position(jnp.zeros(1, jnp.uint32))
    tree = reuse.empty(roots, random_tree.NUM_ACTIONS, config)
    with pytest.raises(ValueError, match=r"^tree: .*GumbelRoot.* give no tree"):
        jax.eval_shape(
            lambda tree: search(
                *(random_tree.GAME, Evaluator(gumbel_search.EVALUATE), jax.random.key(0)),
                *(roots, config, tree),
            ),
            tree,
        )


def test_equal_to_the_plain_search_at_every_node():
    num_trees, config = 8, gumbel_search.CONFIG
    sims, considered = config.num_simulations, config.root_select.max_considered
    codes = np.random.RandomState(1).randint(1, 2**31, num_trees).astype(np.uint32)
    key = jax.random.key(5)
    drawn = np.asarray(samples(key, num_trees, random_tree.NUM_ACTIONS))
    roots = [plain_gumbel.Root(each, considered, sims) for each in drawn]
    result, forest = compare_searches(
        gumbel_search.compiled(num_trees),
        codes,
        key,
        config,
        random_tree.Plain(gumbel_search.EVALUATE),
        plain_gumbel.Interior(max_visit_init=20.0),
        roots,
    )
    open_roots = 0
    for b, (plain_root, nodes) in enumerate(zip(roots, forest, strict=True)):
        root = nodes[0]
        raw = root.value / mcts.ONE
        q = root.value_sum / mcts.ONE / np.maximum(root.visits, 1)
        assert result.action[b] == plain_root.final_action(root.prior, root.visits, q, raw)
        value = plain_gumbel.sigma(root.prior, root.visits, q, raw, 0.1, 50.0)
        improved = plain_gumbel.improved_policy(root.prior, value)
        np.testing.assert_allclose(result.policy_target[b], improved, atol=1e-5)
        if not root.over:
            open_roots += 1
            legal = int((root.prior >= 0).sum())
            assert (root.visits > 0).sum() == min(considered, legal)
    assert open_roots >= 4


class Endless:
    """A game of hashes with all actions legal and no terminal positions, and its evaluation."""

    num_actions, num_trees, simulations, considered = 12, 16, 50, 10

    @staticmethod
    def play(code, action):
        return mix(code * np.uint32(31) + action.astype(jnp.uint32))

    @classmethod
    def evaluate(cls, params, key, codes):
        """Logits that are almost never equal; values whose sums are exact in both searches."""
        del params, key
        actions = jnp.arange(cls.num_actions, dtype=jnp.uint32)[None] * np.uint32(0x27D4EB2D)
        bits = mix(codes[:, None] ^ (actions + np.uint32(12345)))
        logits = (bits >> np.uint32(8)).astype(jnp.float32) * np.float32(4 / 2**24)
        value = mix(codes ^ np.uint32(0xABCDEF)) >> np.uint32(17)
        return Evaluation(logits, value.astype(jnp.float32) / 2**14 - 1)

    @classmethod
    def game(cls):
        return Game(
            num_actions=cls.num_actions,
            init=lambda key: jax.random.bits(key),
            play=cls.play,
            legal=lambda code: jnp.ones(cls.num_actions, bool),
            outcome=lambda code: (jnp.bool_(False), jnp.float32(0)),
            observe=lambda code: code,
            max_moves=10**6,
        )


def mctx_search(mctx, monkeypatch, max_considered):
    """jitted (roots, Gumbel samples) -> visits, action, weights, value."""

    def recurrent(params, key, action, codes):
        codes = jax.vmap(Endless.play)(codes, action)
        evaluated = Endless.evaluate(None, None, codes)
        zeros = jnp.zeros(len(codes))
        return mctx.RecurrentFnOutput(
            reward=zeros,
            discount=zeros - 1,
            prior_logits=evaluated.prior_logits,
            value=evaluated.value,
        ), codes

    @jax.jit
    def run(codes, gumbels):
        evaluated = Endless.evaluate(None, None, codes)
        root = mctx.RootFnOutput(
            prior_logits=evaluated.prior_logits, value=evaluated.value, embedding=codes
        )
        with monkeypatch.context() as patch, jax.numpy_rank_promotion("allow"):
            patch.setattr(jax.random, "gumbel", lambda *args, **kwargs: gumbels)
            policy = mctx.gumbel_muzero_policy(
                None,
                jax.random.key(0),
                root,
                recurrent,
                num_simulations=Endless.simulations,
                max_num_considered_actions=max_considered,
            )
        summary = policy.search_tree.summary()
        return summary.visit_counts, policy.action, policy.action_weights, summary.value

    return run


@pytest.mark.thorough
def test_equal_to_mctx(monkeypatch):
    """The same visits, action, weights and value, from the same samples."""
    mctx = pytest.importorskip("mctx")
    codes = np.random.RandomState(3).randint(1, 2**31, Endless.num_trees).astype(np.uint32)
    key = jax.random.key(8)
    drawn = samples(key, Endless.num_trees, Endless.num_actions)
    config = SearchConfig(
        num_simulations=Endless.simulations,
        select=GumbelInterior(),
        root_select=GumbelRoot(Endless.considered, scale=0.5),
    )

    @jax.jit
    def run(codes, key):
        return search(Endless.game(), Evaluator(Endless.evaluate), key, codes, config)

    ours = run(codes, key)
    theirs = mctx_search(mctx, monkeypatch, Endless.considered)(codes, 0.5 * drawn)
    visits, action, weights, value = jax.tree.map(np.asarray, theirs)
    np.testing.assert_array_equal(ours.visits, visits)
    np.testing.assert_array_equal(ours.action, action)
    np.testing.assert_allclose(ours.policy_target, weights, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(ours.value, value, atol=1e-6)
    assert len(set(map(tuple, visits))) > Endless.num_trees / 2


def test_sequential_halving_as_in_mctx():
    halving = pytest.importorskip("mctx._src.seq_halving")
    for count in range(20):
        for simulations in (1, 2, 7, 16, 50, 333):
            theirs = halving.get_sequence_of_considered_visits(count, simulations)
            assert gumbel.considered_visits(count, simulations).tolist() == list(theirs)
