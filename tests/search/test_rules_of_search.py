"""The small parts of the search, each against its formula worked by hand."""

from __future__ import annotations

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.limits import VALUE_ONE
from gozero.search import backup, choose, move_choice, proofs, root, rows, values
from gozero.search import tree as trees
from gozero.search.config import SearchConfig
from gozero.search.edges import Edges, best_edge, tie_break
from gozero.search.rules.forced import ForcedPlayouts, num_forced, pruned_visits
from gozero.search.rules.katago import KataGoPuct, deviation, lower_bound
from gozero.search.rules.puct import Puct, puct
from gozero.search.rules.ucb1 import Ucb1, ucb1
from tests.reference import mcts

INF = float("inf")


def one_node() -> Edges:
    """Two actions visited, one not, one illegal."""
    return Edges(
        prior=jnp.array([0.5, 0.3, 0.2, -INF]),
        visits=jnp.array([3, 0, 5, 0]),
        q=jnp.array([0.2, 0.0, -0.4, 0.0]),
        value=jnp.float32(-0.1),
        total=jnp.int32(8),
    )


def test_puct_by_hand():
    edges = one_node()
    # c sqrt(1 + 8) = 6: 0.2 + 6 * .5 / 4, 6 * .3 / 1, -0.4 + 6 * .2 / 6
    scores = puct(edges, 2.0)
    np.testing.assert_allclose(scores, [0.95, 1.8, -0.2, -INF], rtol=1e-6)
    np.testing.assert_array_equal(Puct(2.0)(edges), scores)
    assert puct(edges, 0.0)[3] == -INF
    # Unvisited actions: V - r sqrt(.5 + .2) instead of 0; or a loss.
    reduced = puct(edges, 2.0, first_play="parent", reduction=0.25)
    np.testing.assert_allclose(reduced, [0.95, 1.7 - 0.25 * 0.7**0.5, -0.2, -INF], rtol=1e-6)
    lost = puct(edges, 2.0, first_play="loss")
    np.testing.assert_allclose(lost, [0.95, 0.8, -0.2, -INF], rtol=1e-6)
    # c = 1 + log((1 + 8 + 3) / 3) = 1 + 2 log 2
    growing = puct(edges, 1.0, c_base=3.0)
    c = 1 + 2 * np.log(2)
    expected = [0.2 + 3 * c * 0.5 / 4, 3 * c * 0.3, -0.4 + 3 * c * 0.2 / 6, -INF]
    np.testing.assert_allclose(growing, expected, rtol=1e-6)


def test_katagos_puct_by_hand():
    edges = one_node()._replace(raw_value=jnp.float32(0.3))
    # n = 8, c = 1 + .5 log((8 + 4) / 4); p = .5 + .2, p^2 = .49.
    root = (1 + 0.5 * np.log(3)) * 8.01**0.5
    first = 0.49 * -0.1 + 0.51 * 0.3 - 0.2 * 0.7**0.5
    scores = KataGoPuct(1.0, 0.5, 4.0, 0.2, spread=0.0)(edges)
    expected = [0.2 + root * 0.5 / 4, first + root * 0.3, -0.4 + root * 0.2 / 6, -INF]
    np.testing.assert_allclose(scores, expected, rtol=1e-6)
    # Nothing visited: the node's own evaluation plus sqrt(.01) P, so the highest prior wins.
    blank = edges._replace(visits=jnp.zeros(4, jnp.int32), total=jnp.int32(0))
    blank_scores = KataGoPuct(spread=0.0)(blank)
    np.testing.assert_allclose(blank_scores, [0.35, 0.33, 0.32, -INF], rtol=1e-6)
    # Nine values with squares .09, 3 (.01 + .04) and 5 (.02 + .16), and two more of .01 + .16,
    # less the square of the mean, .01: sqrt((1.14 + .34) / 10 - .01).
    spread = edges._replace(variance=jnp.array([0.01, 0.0, 0.02, 0.0]))
    seen = 0.138**0.5
    np.testing.assert_allclose(deviation(spread), seen, rtol=1e-6)
    assert deviation(spread._replace(visits=blank.visits, total=blank.total)) == np.float32(0.4)
    wider = KataGoPuct(1.0, 0.5, 4.0, 0.2, spread=0.85)(spread)
    more = 0.85 * (seen / 0.4 - 1) * root
    expected = [more * 0.5 / 4, more * 0.3, more * 0.2 / 6]
    np.testing.assert_allclose((wider - scores)[:3], expected, rtol=1e-5)


def test_the_move_that_katago_plays_by_hand():
    """By the bound, among actions with .15 of the most visits after pruning in hindsight."""
    edges = Edges(
        prior=jnp.array([0.5, 0.2, 0.2, 0.1, -INF]),
        visits=jnp.array([100, 30, 14, 0, 0]),
        q=jnp.array([0.3, 0.4, 0.6, 0.0, 0.0]),
        value=jnp.float32(0.35),
        total=jnp.int32(144),
        raw_value=jnp.float32(0.3),
        variance=jnp.array([0.04, 0.01, 0.0, 0.0, 0.0]),
    )
    rule = KataGoPuct(spread=0.0).at_root
    played = lambda edges: int(rule.final_action(edges, jnp.zeros(5)))
    # .3 - 5 sqrt(.04 / 100), about .2; .4 - 5 sqrt(.01 / 30), about .3; the third has too few.
    assert played(edges) == 1
    assert played(edges._replace(visits=jnp.array([100, 30, 15, 0, 0]))) == 2
    # The interval is so wide that it may not be better.
    assert played(edges._replace(variance=jnp.array([0.04, 0.1, 0.0, 0.0, 0.0]))) == 0
    # With a worse value its 30 visits are too many in hindsight, as
    # 12 (1 + .45 log(1.288)) .2 / (.3 + .066 - q) - 1 is 14 for q = .2.
    worse = edges._replace(q=jnp.array([0.3, 0.2, 0.6, 0.0, 0.0]), variance=jnp.zeros(5))
    assert played(worse) == 0
    nothing = edges._replace(visits=jnp.zeros(5, jnp.int32), total=jnp.int32(0))
    assert played(nothing) == 0


def test_katagos_choice_among_equals_is_random():
    edges = Edges(
        prior=jnp.array([0.4, 0.4, 0.2]),
        visits=jnp.array([50, 50, 2]),
        q=jnp.array([0.3, 0.3, 0.1]),
        value=jnp.float32(0.3),
        total=jnp.int32(102),
        raw_value=jnp.float32(0.3),
        variance=jnp.full(3, 0.01),
    )
    final = jax.vmap(KataGoPuct(spread=0.0).at_root.final_action, (None, 0))
    drawn = np.asarray(final(edges, jax.random.gumbel(jax.random.key(0), (200, 3))))
    assert 70 < np.sum(drawn == 0) < 130
    assert set(drawn.tolist()) == {0, 1}


def test_katagos_choice_respects_proofs():
    """A proven win is played though it has one visit, a proven loss is not though it has most."""
    edges = Edges(
        prior=jnp.array([0.6, 0.3, 0.1]),
        visits=jnp.array([100, 5, 1]),
        q=jnp.array([0.5, 0.1, 1.0]),
        value=jnp.float32(0.5),
        total=jnp.int32(106),
        raw_value=jnp.float32(0.3),
        variance=jnp.full(3, 0.01),
    )
    rule = KataGoPuct(spread=0.0)
    config = SearchConfig(106, select=rule, root_select=rule.at_root, prove=True)
    played = lambda *proven: int(
        root.final_action(
            config,
            jax.random.key(0),
            edges._replace(proven=jnp.array(proven, jnp.int8)),
            jnp.zeros(3),
        )
    )
    none, win, loss = proofs.UNKNOWN, proofs.WIN, proofs.LOSS
    assert played(none, none, none) == 0
    assert played(none, none, win) == 2
    assert played(loss, none, none) == 1
    assert played(loss, loss, loss) == 0


def test_katagos_lower_bound_by_hand():
    # One visit: the widest, (0 + 1 / 2) / 2 visits; 100: 5 sqrt((.04 + 1e-6) / 100).
    bound = lower_bound(jnp.array([1, 100]), jnp.array([0.5, 0.3]), jnp.array([0.0, 0.04]))
    np.testing.assert_allclose(bound, [0.5 - 5 * 0.25**0.5, 0.2], atol=2e-5)


def test_ucb1_by_hand():
    edges = one_node()
    bonus = lambda n: 1.5 * np.sqrt(np.log(8) / n)
    scores = Ucb1(1.5)(edges)
    np.testing.assert_allclose(scores, [0.6 + bonus(3), INF, 0.3 + bonus(5), -INF], rtol=1e-6)
    assert Ucb1(1.5).rank_untried(edges.prior).tolist() == [0, 0, 0, -INF]
    np.testing.assert_array_equal(Puct().rank_untried(edges.prior), edges.prior)
    urgent = Ucb1(1.5, first_play=1.1)(edges)
    np.testing.assert_allclose(urgent, [0.6 + bonus(3), 1.1, 0.3 + bonus(5), -INF], rtol=1e-6)
    # Before the first visit: no log 0.
    blank = edges._replace(visits=jnp.zeros(4, jnp.int32), total=jnp.int32(0))
    assert ucb1(blank, 1.0).tolist() == [INF, INF, INF, -INF]


def test_ucb1_tuned_by_hand():
    edges = one_node()._replace(
        visits=jnp.array([1000, 0, 1000, 0]),
        q=jnp.array([0.8, 0.0, 0.0, 0.0]),
        total=jnp.int32(2000),
    )
    # log 2000 / 1000 = 0.0076009; sqrt(2 x 0.0076009) = 0.123296. At Q = 0.9 the variance is at
    # most 0.09 + 0.123296 = 0.213296; at Q = 0.5 it would be 0.373296, more than 1/4.
    first = 0.9 + 2 * np.sqrt(0.0076009 * 0.213296)
    second = 0.5 + 2 * np.sqrt(0.0076009 * 0.25)
    scores = Ucb1(2.0, first_play=1.1, tuned=True)(edges)
    np.testing.assert_allclose(scores, [first, 1.1, second, -INF], rtol=1e-5)


def test_forced_playouts_by_hand():
    edges = Edges(
        prior=jnp.array([0.5, 0.36, 0.045, 0.095, -INF]),
        visits=jnp.array([30, 10, 6, 4, 0]),
        q=jnp.array([0.3, 0.1, -0.9, 0.29, 0.0]),
        value=jnp.float32(0.0),
        total=jnp.int32(50),
    )
    # sqrt(2 P 50): 7.07, 6, 2.12, 3.08.
    rule = ForcedPlayouts(Puct(1.0), k=2.0)
    score = jax.jit(rule)
    expected = num_forced(edges, 2.0)
    np.testing.assert_allclose(expected, np.sqrt([50, 36, 4.5, 9.5, 0]), rtol=1e-6)
    assert not np.isposinf(score(edges)).any()
    fewer = edges._replace(visits=jnp.array([38, 5, 6, 1, 0]))
    assert np.isposinf(score(fewer)).tolist() == [False, True, False, True, False]
    # The bar is .3 + sqrt(51) / 2 / 31 = .41518. To stay below it with n visits needs
    #   action 1: .1 + 2.5709 / (1 + n), n > 7.16: 8 of 10 (6 of them forced)
    #   action 2: -.9 + .32136 / (1 + n), none: 6 - 2 forced = 4
    #   action 3: .29 + .67843 / (1 + n), n > 4.4: all 4.
    pruned = jax.jit(pruned_visits, static_argnums=1)
    assert pruned(edges, rule).tolist() == [30, 8, 4, 4, 0]
    # They are the policy target: shares of 46 visits.
    target = jax.jit(root.policy_target, static_argnums=0)
    learnt = target(SearchConfig(root_select=rule), edges)
    np.testing.assert_allclose(learnt, np.array([30, 8, 4, 4, 0]) / 46, rtol=1e-6)
    # A single remaining visit is pruned too; the best action's visits stay.
    few = edges._replace(visits=jnp.array([30, 10, 2, 1, 0]), total=jnp.int32(43))
    assert np.asarray(pruned(few, rule))[[2, 0]].tolist() == [0, 30]


def test_of_equally_visited_actions_the_better_one_keeps_its_forced_playouts():
    edges = Edges(
        prior=jnp.array([0.2, 0.4, 0.3, 0.1]),
        visits=jnp.array([5, 5, 2, 4]),
        q=jnp.array([-0.1, 0.2, 0.0, 0.1]),
        value=jnp.float32(0.0),
        total=jnp.int32(16),
    )
    rule = ForcedPlayouts(Puct(1.0), k=2.0)
    pruned = pruned_visits(edges, rule)
    # The bar is .2 + .4 x sqrt(17) / 6 = .475; below the other's, .037, none would be pruned.
    assert pruned.tolist()[1] == 5
    assert pruned.tolist() != edges.visits.tolist()
    for order in itertools.permutations(range(4)):
        of = np.array(order)
        renumbered = edges._replace(**{n: getattr(edges, n)[of] for n in ("prior", "visits", "q")})
        assert pruned_visits(renumbered, rule).tolist() == pruned[of].tolist()


def test_softened_priors():
    prior = jnp.array([0.64, 0.36, 0.0, -INF])
    softened = root.soften(prior, 2.0)
    np.testing.assert_allclose(softened, [0.8 / 1.4, 0.6 / 1.4, 0.0, -INF], rtol=1e-6)
    np.testing.assert_allclose(root.soften(prior, 1.0), prior, rtol=1e-6)


@pytest.mark.parametrize(
    ("rule", "field", "value"),
    [
        (Puct, "c_puct", -1.0),
        (Puct, "c_base", 0.0),
        (Puct, "first_play", "win"),
        (Puct, "reduction", 0.2),
        (Ucb1, "c", -0.1),
        (functools.partial(Ucb1, 1.0), "first_play", -0.1),
        (ForcedPlayouts, "k", 0.0),
    ],
)
def test_bad_rules(rule, field, value):
    with pytest.raises(ValueError, match=f"^{field}: "):
        rule(**{field: value})


def test_puct_first_visit_follows_the_prior():
    edges = Edges(
        jnp.array([0.1, 0.6, 0.3]),
        jnp.zeros(3, jnp.int32),
        jnp.zeros(3),
        jnp.float32(0),
        jnp.int32(0),
    )
    assert int(jnp.argmax(puct(edges, 1.5))) == 1


def test_equal_rules_are_equal_so_they_do_not_retrace():
    assert Puct(1.5) == Puct(1.5)
    assert hash(Puct(1.5)) == hash(Puct(1.5))


def test_choice_among_equals_goes_by_priority():
    priority = jnp.array([5, 9, 7, 9], jnp.uint32)
    assert int(best_edge(jnp.array([1.0, 1.0, 2.0, 2.0]), priority)) == 3
    assert int(best_edge(jnp.array([1.0, 1.0, -INF, 1.0]), priority)) == 1
    assert int(best_edge(jnp.full(4, jnp.nan), priority)) == 3


def test_tie_break_is_the_published_hash_and_fair():
    choices = jnp.array([0, 5, 3, -1])
    order = tie_break(jnp.uint32(123), jnp.int32(4), choices)
    assert order.tolist() == [mcts.tie_break(123, 4, a) for a in (0, 5, 3, -1)]
    tie_seeds = jnp.arange(4000, dtype=jnp.uint32) * np.uint32(7919)
    first = jax.vmap(lambda s: jnp.argmax(tie_break(s, jnp.int32(0), jnp.arange(5))))(tie_seeds)
    counts = np.bincount(first, minlength=5)
    assert ((counts - 800) ** 2 / 800).sum() < 18.5  # chi-square, 4 degrees, p = 0.001


def test_the_sign_flips_at_odd_distances():
    value = jnp.array([3, 3, 3, -4])
    assert values.opponent(value, jnp.array([0, 1, 2, 3])).tolist() == [3, -3, 3, 4]


def test_backup_by_hand():
    """Two trees: 0 - 1 - 2, where 0 has another child 3; and a root alone."""
    rule = lambda edges: edges.q + edges.prior * 1e-4

    @jax.jit
    def back_up(value):
        tree = trees.allocate(jnp.zeros((2, 1), jnp.int32), num_actions=3, capacity=4)
        tree = tree.replace(
            children=tree.children.at[0, :2].set(jnp.array([1, 3], jnp.int16)).at[1, 0].set(2),
            num_children=tree.num_children.at[:2].set(jnp.array([2, 1], jnp.int16)),
            edge_prior=tree.edge_prior.at[:4].set(jnp.array([1, 0.6, 1.0, 0.3])),
            untried_prior=tree.untried_prior.at[0].set(0.1),
            visits=tree.visits.at[:5].set(jnp.array([3, 1, 0, 1, 1])),
            value_sum=tree.value_sum.at[:5].set(jnp.array([50, -70, 0, 20, 5])),
            size=jnp.array([4, 1]),
        )
        path = trees.Path(
            nodes=jnp.array([[0, 0], [1, -1], [2, -1], [-1, -1]]), length=jnp.array([2, 0])
        )
        tie_seeds = jnp.zeros(2, jnp.uint32)
        return choose.choose_again(
            backup.back_up(tree, path, jnp.array([value, 7])), path, rule, tie_seeds
        )

    done = back_up(100)
    assert done.visits.tolist() == [4, 2, 1, 1, 2, 0, 0, 0]
    assert done.value_sum.tolist() == [150, -170, 100, 20, 12, 0, 0, 0]
    # For the root node 1 is worth 170 / 2, node 3 -20, an untried action 0.
    assert done.next.tolist()[:2] == [1, 2]
    against = back_up(-100)
    # Now node 1 is worth -15 and node 3 still -20: the root tries another action.
    assert against.next.tolist()[:2] == [trees.NO_NODE, 2]


def test_entries_by_hand():
    """A node that has tried actions 2 and 0 of four; action 3 is illegal."""

    @jax.jit
    def look():
        tree = trees.allocate(jnp.zeros((1, 1), jnp.int32), num_actions=4, capacity=5)
        rubbish_behind_two = jnp.array([1, 2, 4, 4], jnp.int16)
        tree = tree.replace(
            prior=tree.prior.at[0, 1].set(0.2),
            children=tree.children.at[0].set(rubbish_behind_two),
            num_children=tree.num_children.at[0].set(2),
            untried=tree.untried.at[0].set(1),
            untried_prior=tree.untried_prior.at[0].set(0.2),
            action=tree.action.at[:3].set(jnp.array([0, 2, 0], jnp.int16)),
            edge_prior=tree.edge_prior.at[1:3].set(jnp.array([0.5, 0.3])),
            visits=tree.visits.at[:3].set(jnp.array([7, 4, 2])),
            value_sum=tree.value_sum.at[:3].set(VALUE_ONE * jnp.array([1, -2, 1])),
        )
        entries = trees.entries(tree, jnp.array([0]), jnp.array([0]), 3)
        return entries, trees.all_edges(tree, 0)

    found, every = look()
    assert found.nodes.tolist() == [[1, 2, -1, -1]]
    assert found.edges.visits.tolist() == [[4, 2, 0, 0]]
    assert found.edges.q.tolist() == [[0.5, -0.5, 0, 0]]
    np.testing.assert_allclose(found.edges.prior, [[0.5, 0.3, -INF, 0.2]])
    np.testing.assert_allclose(found.edges.value, [1 / 7])
    assert every.visits.tolist() == [[2, 0, 4, 0]]
    assert every.q.tolist() == [[-0.5, 0, 0.5, 0]]
    np.testing.assert_allclose(every.prior, [[0.3, 0.2, 0.5, -INF]])


def test_fixed_point():
    assert values.to_fixed(jnp.array([1.0, -1.0, 0.5, 1e-5, 2.0])).tolist() == [
        16384,
        -16384,
        8192,
        0,
        16384,
    ]
    assert values.to_float(jnp.array([16384, -8192])).tolist() == [1.0, -0.5]


def test_dirichlet_is_over_the_legal_actions():
    legal = jnp.array([True, False, True, True])
    draw = jax.jit(jax.vmap(root.dirichlet, (0, None, None)))
    samples = np.asarray(draw(jax.random.split(jax.random.key(0), 3000), legal, 0.3))
    np.testing.assert_allclose(samples.sum(axis=1), 1.0, rtol=1e-5)
    assert (samples[:, 1] == 0).all()
    np.testing.assert_allclose(samples.mean(axis=0), [1 / 3, 0, 1 / 3, 1 / 3], atol=0.025)
    # Var of a symmetric Dirichlet of k parts: (k - 1) / (k^2 (k alpha + 1)) = 2 / (9 * 1.9)
    np.testing.assert_allclose(samples[:, 0].var(), 2 / (9 * 1.9), rtol=0.1)
    tiny = draw(jax.random.split(jax.random.key(1), 1), jnp.ones(361, bool), 0.03)
    assert np.isfinite(tiny).all()


def test_noise_keeps_illegal_actions_illegal():
    prior = jnp.array([0.7, -INF, 0.3])
    add = jax.jit(root.add_dirichlet)
    noisy = np.asarray(add(jax.random.key(0), prior, 0.5, 0.25))
    assert noisy[1] == -INF
    assert float(noisy[0] + noisy[2]) == pytest.approx(1.0, abs=1e-6)
    assert float(noisy[0]) >= 0.75 * 0.7 - 1e-6
    np.testing.assert_allclose(add(jax.random.key(0), prior, 0.5, 0.0), prior)
    assert root.board_alpha(361) == pytest.approx(0.03)
    assert root.board_alpha(81) == pytest.approx(0.1337, abs=1e-4)


def draw(visits, prior, temperature, count=4000):
    keys = jax.random.split(jax.random.key(2), count)
    actions = BY_VISITS(keys, jnp.array(visits), jnp.array(prior), jnp.float32(temperature))
    return np.bincount(actions, minlength=len(visits)) / count


BY_VISITS = jax.jit(jax.vmap(move_choice.by_visits, (0, None, None, None)))


def test_moves_are_drawn_by_visits_and_temperature():
    prior = [0.25, 0.25, 0.25, 0.25]
    np.testing.assert_allclose(draw([10, 30, 0, 60], prior, 1.0), [0.1, 0.3, 0, 0.6], atol=0.03)
    squares = np.array([100, 900, 0, 3600]) / 4600
    np.testing.assert_allclose(draw([10, 30, 0, 60], prior, 0.5), squares, atol=0.03)
    assert draw([10, 30, 0, 60], prior, 0.0).tolist() == [0, 0, 0, 1]
    np.testing.assert_allclose(draw([5, 30, 0, 30], prior, 0.0), [0, 0.5, 0, 0.5], atol=0.03)


def test_without_visits_the_prior_is_used():
    np.testing.assert_allclose(draw([0, 0, 0], [0.5, -INF, 0.5], 1.0), [0.5, 0, 0.5], atol=0.03)


def test_visit_policy():
    prior = jnp.array([0.5, -INF, 0.5])
    np.testing.assert_allclose(
        move_choice.visit_policy(jnp.array([1, 0, 3]), prior), [0.25, 0, 0.75]
    )
    np.testing.assert_allclose(move_choice.visit_policy(jnp.zeros(3, int), prior), [0.5, 0, 0.5])


def test_rows_outside_are_dropped():
    array = jnp.zeros((4, 2), jnp.int32)
    written = rows.write(array, jnp.array([1, 4]), jnp.ones((2, 2)))
    assert written.tolist() == [[0, 0], [1, 1], [0, 0], [0, 0]]
    added = rows.add(jnp.zeros(4, jnp.int32), jnp.array([2, 9]), jnp.array([3, 1]))
    assert added.tolist() == [0, 0, 3, 0]


def test_positions_round_trip_through_rows():
    positions = {
        "a": jnp.arange(6, dtype=jnp.uint32).reshape(3, 2),
        "b": (jnp.arange(3, dtype=jnp.int8), jnp.array([True, False, True])),
        "c": jnp.arange(12, dtype=jnp.uint32).reshape(3, 2, 2),
        "empty": jnp.zeros((3, 0), jnp.int8),
    }
    codec = rows.codec_of(positions)
    encoded = rows.encode(codec, positions)
    assert {x.shape for x in encoded} == {(3, 1), (3, 6)}
    jax.tree.map(np.testing.assert_array_equal, rows.decode(codec, encoded), positions)
