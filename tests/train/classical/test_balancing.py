"""Simulation balancing: its gradient against an enumeration of all playouts, and its descent."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.go import rules as go
from gozero.go import setup
from gozero.playouts.engine import move_cap
from gozero.playouts.policies.softmax import neighbourhoods, softmax, strengths
from tests.playouts.positions import game_of
from tests.reference import playouts as reference
from tests.reference import softmax_policy
from tests.reference.go import WHITE
from train.classical import balancing_descent as balance
from train.classical import balancing_gradient as gradient
from train.classical.balancing_gradient import Sets

RULES = go.Rules(3, ko="simple")
CAP, KOMI = 4, 0.5
DIAGRAM = "X.. .O. .X."


@functools.cache
def truth() -> strengths.Strengths:
    rng = np.random.default_rng(3)
    shape = np.exp(rng.normal(0, 1.5, 1107)).astype(np.float32)
    factors = ([3.0, 0.5], [2.0, 0.4], [0.5, 3.0], [0.4])
    return strengths.Strengths(shape, *(np.array(x, np.float32) for x in factors))


LOGS = jax.tree.map(np.log, truth())


def positions_of(diagrams, to_play):
    """Positions [P] of these diagrams, with their atari sets."""
    colours = {".": 0, "X": 1, "O": -1}
    boards = [[[colours[x] for x in row] for row in text.split()] for text in diagrams]
    start = jax.jit(jax.vmap(lambda x, mover: setup.from_stones(RULES, x, mover).position))
    return start(np.array(boards, np.int8), np.array(to_play, np.int8))


@functools.cache
def exact():
    """(V, dV / d logs) of DIAGRAM with White to play, by enumeration."""
    policy = softmax.softmax_policy(truth(), 3)
    codes = neighbourhoods.class_codes()
    names = {}
    for number, code in enumerate(codes):
        lines = softmax_policy.shape_of(int(code))
        names[softmax_policy.canonical(lines)] = number
    weigh = reference.by_features(
        lambda shape: float(policy.shape[codes[names[shape]]]),
        {kind: x.tolist() for kind, x in truth()._asdict().items() if kind != "shape"},
    )
    game = game_of(DIAGRAM, to_play=WHITE)
    value, slope = reference.expected_result(game, None, CAP, KOMI, weigh)
    ours = jax.tree.map(np.zeros_like, LOGS)
    for feature, amount in slope.items():
        if feature in names:
            ours.shape[names[feature]] = amount
        elif feature[0] in strengths.OF_PLAYOUTS:
            kind, number = feature
            getattr(ours, kind)[number] = amount
    return value, ours


@functools.cache
def sampled():
    """(mean results [K], slopes [K, parameters]) of K independent sets of playouts."""
    count = 2048
    one = positions_of([DIAGRAM], [1])
    many = jax.tree.map(lambda x: jnp.repeat(x, count, axis=0), one)

    @jax.jit
    def run(logs, key):
        games = gradient.play(RULES, logs, many, key, CAP)
        z = jnp.sign(games.score - KOMI)
        return z.mean(), gradient.weighted_psi(RULES.layout, logs, games, z / count)

    result = [run(LOGS, jax.random.key(seed)) for seed in range(24)]
    slopes = np.array([np.concatenate(slope) for _, slope in result])
    return np.array([float(mean) for mean, _ in result]), slopes


@pytest.mark.thorough
def test_the_gradient_matches_an_enumeration_of_playouts():
    value, slope = exact()
    means, slopes = sampled()
    error = means.std() / np.sqrt(len(means))
    assert abs(value) < 0.9  # otherwise there is nothing to learn
    assert abs(means.mean() - value) < 4 * error < 0.05
    expected = np.concatenate(slope)
    mean, error = slopes.mean(axis=0), slopes.std(axis=0) / np.sqrt(len(slopes))
    assert np.all(np.abs(mean - expected) < 4.5 * error + 1e-3)
    assert np.all(
        np.abs(expected[error == 0]) < 1e-12
    )  # features that never occur, or of all moves
    big = np.abs(expected) > 0.02
    assert big.sum() > 5
    assert np.all(np.abs(mean - expected)[big] < 0.3 * np.abs(expected[big]) + 0.01)


@pytest.mark.slow
def test_kept_playouts_have_the_same_mean():
    one = positions_of([DIAGRAM], [1])
    many = jax.tree.map(lambda x: jnp.repeat(x, 2**14, axis=0), one)
    run = jax.jit(lambda logs, key: gradient.values(RULES, logs, many, key, jnp.float32(KOMI), CAP))
    means, _ = sampled()
    results = np.asarray(run(LOGS, jax.random.key(1)))
    error = np.hypot(means.std() / np.sqrt(len(means)), results.std() / 2**7)
    assert abs(results.mean() - exact()[0]) < 4 * error


@pytest.mark.thorough
def test_values_come_from_playouts_of_the_policy():
    """One policy nearly always plays next to the last move, the other avoids it."""
    positions = positions_of(POSITIONS, [0] * 6)
    komi, found, compiled = jnp.full(6, KOMI), [], []
    for strength in (200.0, 0.005):
        learnt = truth()._replace(contiguity=np.full(2, strength, np.float32))
        policy = softmax.softmax_policy(learnt, 3)
        found.append(balance.search_values(RULES, positions, komi, policy, 32, jax.random.key(0)))
        compiled.append(balance._search.cache_info().misses)
    assert np.abs(found[0] - found[1]).max() > 0.05
    assert compiled[0] == compiled[1]  # another policy compiles nothing new


@pytest.mark.thorough
def test_values_are_blacks_whoever_moves():
    positions = positions_of(["X.. .O. ..X"] * 4, [0, 0, 1, 1])
    policy = softmax.softmax_policy(truth(), 3)
    komi = jnp.array([-20.0, 20.0, -20.0, 20.0])
    found = balance.search_values(RULES, positions, komi, policy, 32, jax.random.key(0))
    assert found.tolist() == [1, -1, 1, -1]


POSITIONS = [
    "... .X. ...",
    "... .O. ...",
    ".X. ... .O.",
    "X.. ..O ...",
    "XO. ... .OX",
    "... ... ...",
]


@functools.cache
def valued():
    """Positions valued by playouts of `truth`, so a policy without bias exists."""
    positions = positions_of(POSITIONS * 2, [0] * 6 + [1] * 6)
    komi = jnp.full(12, 0.5)
    several = jax.tree.map(lambda x: jnp.repeat(x, 2000, axis=0), (positions, komi))
    run = jax.jit(
        lambda logs, *args: gradient.values(RULES, logs, args[0], jax.random.key(0), args[1], 27)
    )
    results = run(LOGS, *several)
    return balance.Valued(positions, komi, results.reshape(12, -1).mean(axis=1))


@pytest.mark.slow
def test_the_squared_bias_falls():
    assert move_cap(RULES) == 27
    flat, sets = strengths.uniform(), Sets(100, 50)
    steps = list(
        balance.balance(
            RULES, flat, valued(), jax.random.key(0), 30, batch=12, rate=20.0, sets=sets
        )
    )
    before, after, best = (
        balance.measure(RULES, x, valued(), jax.random.key(1), 400)
        for x in (flat, steps[-1].strengths, truth())
    )
    assert before > 0.03
    assert after < 0.3 * before
    assert abs(best) < 0.1 * before


@pytest.mark.slow
@pytest.mark.parametrize("target", [1.0, -1.0])
def test_the_two_sets_pull_towards_the_value(target):
    one = positions_of([DIAGRAM], [1])
    value, slope = exact()

    @jax.jit
    def run(logs, target, key):
        komi = jnp.full(1, KOMI)
        return gradient.bias_gradient(
            RULES, logs, gradient.Valued(one, komi, target[None]), key, Sets(500, 4000), CAP
        )

    found, error = run(LOGS, jnp.float32(target), jax.random.key(0))
    assert error[0] == pytest.approx(target - value, abs=0.15)
    expected = -(target - value) * np.concatenate(slope)
    ours = np.concatenate(found)
    assert np.dot(ours, expected) > 0.9 * np.linalg.norm(ours) * np.linalg.norm(expected)
    assert np.linalg.norm(ours) == pytest.approx(np.linalg.norm(expected), rel=0.25)


def test_strengths_that_playouts_do_not_learn_are_refused():
    start = strengths.uniform()._replace(line=np.full(5, 2, np.float32))
    with pytest.raises(ValueError, match="start: its strengths of the line are for priors"):
        balance.check_start(start)
    balance.check_start(truth())
