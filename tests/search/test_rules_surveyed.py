"""Rules of earlier programs, each against its formula worked by hand."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero import limits
from gozero.search import backup, proofs, values
from gozero.search import tree as trees
from gozero.search.config import Amaf, SearchConfig
from gozero.search.edges import Edges
from gozero.search.rules.estimators import Estimators
from gozero.search.rules.expert import ExpertBias
from gozero.search.rules.forced import ForcedPlayouts
from gozero.search.rules.gumbel import GumbelRoot
from gozero.search.rules.katago import KataGoPuct, KataGoRoot
from gozero.search.rules.proportional import Boltzmann, Gaussian
from gozero.search.rules.prove_first import ProveFirst
from gozero.search.rules.puct import Puct
from gozero.search.rules.rave import MinimumMse, Rave
from gozero.search.rules.selective import Pruning, Widening
from gozero.search.rules.ucb1 import Ucb1

INF = float("inf")


def one_node(**more) -> Edges:
    """Two actions visited, one not, one illegal."""
    edges = Edges(
        prior=jnp.array([0.5, 0.3, 0.2, -INF]),
        visits=jnp.array([4, 0, 9, 0]),
        q=jnp.array([0.5, 0.0, -1 / 3, 0.0]),
        value=jnp.float32(-0.1),
        total=jnp.int32(13),
        variance=jnp.array([0.75, 0.0, 8 / 9, 0.0]),
    )
    return edges._replace(**more)


def test_gaussian_by_hand():
    """Three wins of four and three of nine; each result squares to 1."""
    edges, rule = one_node(), Gaussian()
    # (4 * .75 + 4) / 5 / 4; 4 / 1 / 1; (9 * 8 / 9 + 4) / 10 / 9
    of_mean = np.array([1.4 / 4, 4.0, 1.2 / 9, 4.0])
    np.testing.assert_allclose(rule.of_mean(edges), of_mean, rtol=1e-6)
    # Behind the best Q, .5: by 0; by .6, untried at the node's value; by 5 / 6.
    untried = np.exp(-2.4 * 0.6 / np.sqrt(2 * (0.35 + 4)))
    behind = np.exp(-2.4 * (5 / 6) / np.sqrt(2 * (0.35 + 1.2 / 9)))
    expected = [1.05 / 5, untried + 0.03, (behind + 0.02) / 10, -INF]
    np.testing.assert_allclose(rule(edges), expected, rtol=1e-6)
    # After 500 visits a mean is no more certain.
    often = edges._replace(visits=jnp.array([999, 0, 9, 0]))
    np.testing.assert_allclose(rule.of_mean(often)[0], (999 * 0.75 + 4) / 1000 / 500, rtol=1e-6)
    # Before any visit the priors decide.
    blank = one_node(visits=jnp.zeros(4, jnp.int32), variance=jnp.zeros(4), total=jnp.int32(0))
    np.testing.assert_allclose(rule(blank), [1.05, 1.03, 1.02, -INF], rtol=1e-6)


def test_visits_become_proportional_to_constant_weights():
    """Visits are proportional to the weights: with 4 : 2 : 1, seventy visits are 40, 20 and 10."""
    rule = Boltzmann(1 / np.log(2) / 2)  # a step of 1 in Q doubles the weight
    edges = one_node(q=jnp.array([1.0, 0.0, -1.0, 0.0]), visits=jnp.array([1, 1, 1, 0]))
    score = jax.jit(rule)
    for _ in range(67):
        best = int(jnp.argmax(score(edges)))
        edges = edges._replace(visits=edges.visits.at[best].add(1))
    assert edges.visits.tolist() == [40, 20, 10, 0]


def test_boltzmann_by_hand():
    scores = Boltzmann(0.25)(one_node())
    expected = [0.75 / 0.25 - np.log(5), INF, (1 / 3) / 0.25 - np.log(10), -INF]
    np.testing.assert_allclose(scores, expected, rtol=1e-5)
    assert Boltzmann().rank_untried(one_node().prior).tolist() == [0, 0, 0, -INF]


def test_widening_by_hand():
    """The second action after 4 visits, the third after 4 + 6, the fourth after 4 + 6 + 9."""
    rule = Widening(Ucb1(0.5), first=4.0, growth=1.5)
    is_open = lambda **more: not np.isneginf(rule(one_node(**more))[1])
    two = jnp.array([4, 0, 9, 0])
    assert [is_open(visits=two, total=jnp.int32(n)) for n in (9, 10, 18)] == [False, True, True]
    three = jnp.array([4, 0, 9, 1])
    prior = jnp.array([0.5, 0.3, 0.1, 0.1])
    open_of_three = lambda n: is_open(visits=three, prior=prior, total=jnp.int32(n))
    assert [open_of_three(n) for n in (18, 19)] == [False, True]
    none = jnp.zeros(4, jnp.int32)
    assert not is_open(visits=none, total=jnp.int32(0)), "another one has a higher prior"
    # Visited actions score by the rule; untried ones open in the order of their priors.
    np.testing.assert_array_equal(rule(one_node())[0], Ucb1(0.5)(one_node())[0])
    np.testing.assert_array_equal(rule.rank_untried(prior), prior)
    # A lost action makes room for another.
    lost = jnp.array([proofs.LOSS, 0, 0, 0], jnp.int8)
    assert is_open(visits=two, total=jnp.int32(9), proven=lost)


def test_widening_opens_the_best_prior_first_where_it_sees_all():
    """As a root's rule: of the untried actions, which its own rule scores alike, only the best."""
    prior, none = jnp.array([0.2, 0.5, -jnp.inf, 0.3]), jnp.zeros(4, jnp.int32)
    scores = Widening(Ucb1(0.5))(one_node(visits=none, total=jnp.int32(0), prior=prior))
    assert np.isneginf(scores).tolist() == [True, False, True, True]
    scores = Widening(Ucb1(0.5), first=1.0)(
        one_node(visits=none.at[1].set(1), total=jnp.int32(1), prior=prior)
    )
    assert np.isneginf(scores).tolist() == [True, False, True, False]


@pytest.mark.parametrize("inner", [ForcedPlayouts(), KataGoRoot(), GumbelRoot()])
@pytest.mark.parametrize("outer", [Widening, Pruning, ProveFirst])
def test_rules_that_decide_at_the_root_are_not_wrapped(outer, inner):
    with pytest.raises(ValueError, match=r"rule: .* also chooses the move or the policy target"):
        outer(inner)


@pytest.mark.parametrize("inner", [KataGoPuct(), Ucb1(1.0)])
def test_forced_playouts_are_those_of_puct(inner):
    with pytest.raises(ValueError, match=r"rule: .* is not a Puct"):
        ForcedPlayouts(inner)


def test_widening_with_many_visits():
    rule = Widening(Puct(), first=1e9)
    assert np.isneginf(rule(one_node(total=jnp.int32(10**9 - 1)))[1])


def test_pruning_by_hand():
    """The intervals .5 -+ r .433 and -1/3 -+ r .3143 are disjoint up to r = 1.115."""
    for r, expected in ((1.11, [False, False, True, False]), (1.12, [False] * 4)):
        assert Pruning(Puct(), r, least=4).pruned(one_node()).tolist() == expected
        scores, plain = Pruning(Puct(), r, least=4)(one_node()), Puct()(one_node())
        np.testing.assert_array_equal(scores, jnp.where(jnp.array(expected), -INF, plain))
    # Actions with too few visits are neither pruned nor prune others.
    assert not Pruning(Puct(), 1.0, least=5).pruned(one_node()).any()
    assert not Pruning(Puct(), 1.0, least=10).pruned(one_node()).any()
    assert Pruning(Boltzmann()).rank_untried(one_node().prior).tolist() == [0, 0, 0, -INF]


def test_estimators_by_hand():
    """Weights 4 and 4 / (1 + 1); only 8 / (1 + 8); no statistics; an illegal action."""
    edges = one_node(
        visits=jnp.array([4, 0, 0, 0]),
        amaf_visits=jnp.array([4, 0, 0, 9]),
        amaf_q=jnp.array([-0.5, 0.0, 0.0, 1.0]),
        above_visits=jnp.array([0, 8, 0, 9]),
        above_q=jnp.array([0.0, 0.25, 0.0, 1.0]),
    )
    rule = Estimators(bias=0.25, above_bias=0.5, first_play=1.5)
    mixed = (4 * 0.5 - 2 * 0.5) / 6  # 4 / (1 + 1) for the second
    np.testing.assert_allclose(rule(edges), [(1 + mixed) / 2, 0.625, 1.5, -INF], rtol=1e-6)
    np.testing.assert_allclose(
        rule.evaluation(edges), [(1 + mixed) / 2, 0.625, -INF, -INF], rtol=1e-6
    )
    # The root has no node above: Eq. 47.
    root = edges._replace(above_visits=None, above_q=None)
    expected = Rave(MinimumMse(0.25), first_play=1.5)(root)
    np.testing.assert_allclose(rule(root), expected, rtol=1e-6)


def test_expert_bias_by_hand():
    """0.2 P / log(2 + N), and 3 P / (1 + N~): over 2, 10 and 1; an illegal action."""
    edges = one_node(
        prior=jnp.array([0.2, 0.4, 0.1, -INF]),
        visits=jnp.array([0, 8, 0, 0]),
        q=jnp.array([0.0, 0.5, 0.0, 0.0]),
        amaf_visits=jnp.array([1, 9, 0, 9]),
        amaf_q=jnp.array([-1.0, 0.5, 0.0, 1.0]),
    )
    rule = ExpertBias(Rave(), bonus=0.2, visits=3.0)
    log2, log10 = 0.6931472, 2.3025851
    expected = [
        0.0 + 0.2 * (0.2 / log2 + 3 / 2),
        0.75 + 0.4 * (0.2 / log10 + 3 / 10),
        2.0 + 0.1 * (0.2 / log2 + 3 / 1),
        -INF,
    ]
    np.testing.assert_allclose(rule(edges), expected, rtol=1e-6)
    np.testing.assert_array_equal(rule.evaluation(edges), Rave().evaluation(edges))
    with pytest.raises(ValueError, match=r"^bonus, visits: both are 0"):
        ExpertBias(bonus=0.0, visits=0.0)


def test_estimators_cannot_be_combined_with_ancestors():
    with pytest.raises(
        ValueError, match=r"^select: Estimators.* cannot be combined with amaf=.*ancestor"
    ):
        SearchConfig(10, select=Estimators(), amaf=Amaf(ancestor=5))


@pytest.mark.parametrize(
    ("rule", "field", "value"),
    [
        (Gaussian, "prior_variance", 0.0),
        (Gaussian, "floor", -0.1),
        (Gaussian, "settled", 0),
        (Boltzmann, "temperature", 0.0),
        (Estimators, "above_bias", 1.5),
        (ExpertBias, "bonus", -0.1),
        (ExpertBias, "visits", -1.0),
        (Widening, "first", 0.0),
        (Widening, "growth", 1.0),
        (Pruning, "deviations", 0.0),
        (Pruning, "least", 0),
    ],
)
def test_bad_rules(rule, field, value):
    with pytest.raises(ValueError, match=f"^{field}: "):
        rule(**{field: value})


def test_squares_are_rounded_once_each_and_summed_exactly():
    one = limits.VALUE_ONE
    assert values.squared(jnp.array([one, -one, one // 2, 3, 90, 91])).tolist() == (
        [one, one, one // 4, 0, 0, 1]  # 90^2 = 8,100 and 91^2 = 8,281; one half is 8,192
    )
    # The values 1 and 0; 1 and -1; none.
    sums, squares = jnp.array([one, 0, 0]), jnp.array([one, 2 * one, 0])
    assert values.variance(sums, squares, jnp.array([2, 2, 0])).tolist() == [0.25, 1.0, 0.0]


def test_backup_of_squares_by_hand():
    """A root, its child and a new node; a value of one half, then a virtual loss of two."""
    tree = trees.allocate(
        jnp.zeros((1, 1), jnp.int32),
        num_actions=2,
        capacity=3,
        optional=trees.OptionalArrays(squares=True),
    )
    path = trees.Path(nodes=jnp.array([[0], [1], [2]]), length=jnp.array([2]))
    one = limits.VALUE_ONE
    once = jax.jit(backup.back_up)(tree, path, jnp.array([one // 2]))
    assert once.squares.tolist() == [one // 4] * 3
    lost = backup.add_virtual_losses(once, path, 2)
    assert lost.squares.tolist() == [one // 4, one // 4 + 2 * one, one // 4 + 2 * one]
    assert backup.add_virtual_losses(lost, path, -2).squares.tolist() == once.squares.tolist()
