"""Softmax playouts beside the plain reference: weights, choices, whole games."""

import functools
import zlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from gozero.compile import mode
from gozero.go import bitboard as bb
from gozero.go import rules as go
from gozero.go import symmetry
from gozero.playouts import engine, playable
from gozero.playouts.policies import atari_lanes
from gozero.playouts.policies.softmax import neighbourhoods, softmax, strengths
from gozero.runs import arrays
from tests.playouts.positions import SETTLED, allowed, game_of, random_games
from tests.playouts.positions import positions_in_atari as positions_of
from tests.reference import softmax_policy as reference
from tests.reference.go import BLACK, WHITE, ReferenceGame

LANES = 4096
FEATURES = {
    "contiguity": [4.0, 1.5],
    "capture": [6.0, 2.0],
    "extension": [3.0, 0.5],
    "line": [2.0, 1.0, 3.0, 1.5, 0.5],
    "distance": [2.0, 1.0, 0.5, 3.0, 1.0, 1.5, 1.0, 2.0, 1.0, 0.5, 1.0, 1.5, 1.0, 0.5],
    "self_atari": [0.25],
}
BEFORE_THE_TRY = {kind: x for kind, x in FEATURES.items() if kind != "self_atari"}
"""A self-atari is found only when the move is tried."""
SCALE = 16  # makes all weights whole numbers


def weight_of(shape: reference.Shape) -> int:
    """A weight from 1 to 8 that has nothing to do with how codes and classes are numbered."""
    return 1 + zlib.crc32(" ".join(shape).encode()) % 8


def policy_for(weigh) -> softmax.Softmax:
    """The policy whose shapes weigh what a function of canonical shapes says."""
    diagrams = [reference.shape_of(int(code)) for code in neighbourhoods.class_codes()]
    by_class = np.array([weigh(reference.canonical(lines)) for lines in diagrams], np.float32)
    with_none = {kind: [1.0, *x] for kind, x in BEFORE_THE_TRY.items()}
    with_none["line"] = FEATURES["line"]  # each point has one
    by_kind = [np.array(x, np.float32) for x in with_none.values()]
    accepted = np.uint32(FEATURES["self_atari"][0] * 2**32)
    return softmax.Softmax(SCALE * by_class[neighbourhoods.classes()], *by_kind, accepted)


POLICY = policy_for(weight_of)


@functools.cache
def playing(size: int):
    """Jitted (policy, positions, key) -> Playouts."""
    return jax.jit(lambda policy, *args: softmax.softmax_playouts(go.Rules(size), *args, policy))


# --- weights --------------------------------------------------------------------------


@functools.cache
def weighing(size: int):
    def weigh(policy, positions, previous):
        now = atari_lanes.situation(go.Rules(size), positions, previous)
        return softmax.weights(policy, bb.layout(size), now).reshape(size * size, -1).T

    return jax.jit(weigh)


def previous_of(games, seed):
    """An opponent's stone in each game as the move before, for some none."""
    rng = np.random.default_rng(seed)
    previous = []
    for game in games:
        stones = [p for p, colour in enumerate(game.board) if colour == -game.to_play]
        previous.append(int(rng.choice([-1, *stones])))
    return np.array(previous, np.int32)


@pytest.mark.parametrize("size", [2, 5, 9, pytest.param(19, marks=pytest.mark.slow)])
def test_weights_match_the_reference(size):
    games = random_games(size, 12, seed=size)
    previous = previous_of(games, size)
    actual = np.asarray(weighing(size)(POLICY, positions_of(games), previous))
    for game, before, weights in zip(games, previous, actual, strict=True):
        if game.passes >= 2:
            continue
        before = None if before < 0 else int(before)
        expected = reference.weights(game, before, weight_of, BEFORE_THE_TRY)
        expected.pop(size * size, None)  # a pass
        assert {p: w / SCALE for p, w in enumerate(weights.tolist()) if w} == expected


@pytest.mark.parametrize("size", [2, 5, 9])
def test_logits_are_logarithms_of_the_references_weights(size):
    """Some weights are below 1 with this scale, and count as 1 like all that is not played."""
    weak = POLICY._replace(shape=POLICY.shape / (4 * SCALE))
    games = random_games(size, 12, seed=size)
    previous, positions = previous_of(games, size), positions_of(games)
    of_all = jax.jit(lambda logs, *args: softmax.logits(logs, go.Rules(size), *args))
    actual = of_all(softmax.log_strengths(weak), positions, previous)
    for game, before, found in zip(games, previous, np.asarray(actual), strict=True):
        if game.passes >= 2:
            continue
        before = None if before < 0 else int(before)
        expected = np.zeros(size * size + 1)
        for p, weight in reference.weights(game, before, weight_of, BEFORE_THE_TRY).items():
            expected[p] = 0.0 if p == size * size else max(0.0, np.log(weight / 4))
        np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("size", [5, pytest.param(9, marks=pytest.mark.slow)])
def test_weights_are_equivariant_and_colour_blind(size):
    games = random_games(size, 12, seed=size)
    positions, previous = positions_of(games), previous_of(games, size)
    weigh = functools.partial(weighing(size), POLICY)
    legal = [[p in allowed(game) for p in range(size * size)] for game in games]
    result = np.asarray(weigh(positions, previous))
    assert np.all((result > 0) == legal)
    swapped = weigh(positions_of([reference.swapped(game) for game in games]), previous)
    np.testing.assert_array_equal(swapped, result)
    for come_from in symmetry.permutations(size)[:, :-1]:
        moved = []
        for game in games:
            turned = reference.swapped(reference.swapped(game))
            turned.board = np.array(game.board)[come_from].tolist()
            turned.history = [tuple(np.array(board)[come_from]) for board in game.history]
            moved.append(turned)
        points = np.where(previous < 0, previous, np.argsort(come_from)[previous])
        there = weigh(positions_of(moved), points.astype(np.int32))
        np.testing.assert_array_equal(np.asarray(there)[:, np.argsort(come_from)], result)


def test_weights_keep_the_ratios_and_their_sum_fits():
    rng = np.random.default_rng(0)
    shape = np.exp(rng.normal(0, 1.5, 1107)).astype(np.float32)
    factors = [np.array(x, np.float32) for x in ([7, 100], [30, 0.5], [0.25, 11], [0.06])]
    line, distance = np.float32([1, 5, 0.1, 2, 3]), np.linspace(0.2, 9, 14, dtype=np.float32)
    learned = strengths.Strengths(shape, *factors, line=line, distance=distance)
    for size in (2, 9, 19, 25):
        policy = softmax.softmax_policy(learned, size)
        largest = [float(np.max(np.asarray(x, np.float64))) for x in policy[:6]]
        assert size * size * np.prod(largest) < 0.51 * 2**32
        exact = shape.astype(np.float64)[neighbourhoods.classes()]
        np.testing.assert_allclose(
            np.asarray(policy.shape) / exact, policy.shape[0] / exact[0], 1e-5
        )
        for found, given in zip(policy[1:4], factors[:3], strict=True):
            np.testing.assert_array_equal(found, [1, *given])
        np.testing.assert_array_equal(policy.line, line)
        np.testing.assert_array_equal(policy.distance, [1, *distance])
        assert int(policy.self_atari) == pytest.approx(0.06 * 2**32, rel=1e-5)
    for given in (1e-9, 1.0, 3.0):
        policy = softmax.softmax_policy(learned._replace(self_atari=jnp.array([given])), 9)
        if given < 1:
            assert int(policy.self_atari) == 2**22  # one of 1,024 is accepted
        else:
            assert int(policy.self_atari) == 2**32 - 1  # always accepted


def test_weights_are_rounded_and_none_is_ruled_out():
    """Most shapes weigh almost nothing; the strongest fill the 32 bits together."""
    rng = np.random.default_rng(1)
    shape = np.where(rng.random(1107) < 0.5, 1e-12, 10 ** rng.uniform(-9, 0, 1107))
    factors = [np.array(x, np.float32) for x in ([7, 100], [30, 0.5], [0.25, 11], [0.06])]
    policy = softmax.softmax_policy(strengths.Strengths(shape.astype(np.float32), *factors), 5)
    games = random_games(5, 12, seed=3)
    previous = previous_of(games, 3)
    actual = np.asarray(weighing(5)(policy, positions_of(games), previous)).astype(np.uint64)
    assert actual.sum(axis=1).max() < 2**32
    by_shape = {}
    for code in neighbourhoods.class_codes():
        lines = reference.canonical(reference.shape_of(int(code)))
        by_shape[lines] = float(policy.shape[int(code)])
    factor = {kind: x.tolist() for kind, x in zip(BEFORE_THE_TRY, factors[:3], strict=False)}
    num_least = 0
    for game, before, weights in zip(games, previous, actual, strict=True):
        before = None if before < 0 else int(before)
        exact = reference.weights(game, before, by_shape.__getitem__, factor)
        exact.pop(25, None)
        for p, weight in exact.items():
            assert weights[p] == pytest.approx(max(1.0, weight), rel=1e-6, abs=0.5001)
            num_least += weight < 0.5
    assert num_least > 20


def test_scaled_is_exact():
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 2**32, (2, 5000), np.uint32)
    a[:4], b[:4] = 2**32 - 1, [2**32 - 1, 0, 1, 2**16]
    expected = [int(x) * int(y) >> 32 for x, y in zip(a, b, strict=True)]
    assert softmax._scaled(a, b).tolist() == expected


# --- choices --------------------------------------------------------------------------

FIRST_MOVES = [
    game_of("..... ..... ..... ..... ....."),
    game_of(".O.X. OO.XX ..X.. .OX.X .O.X."),  # suicide in the corner, an eye, a capture
    game_of(".XO.. X.XO. .XO.. ..... .....", to_play=WHITE, ko=(1, 1)),
    game_of("..X.. .XOO. X.XO. .X... O...X", to_play=WHITE),
]


def chi_square(counts, weights) -> float:
    """The p-value of counts of actions, by weights {action: weight}; 0 for one that has none."""
    if counts.sum() != sum(counts[a] for a in weights):
        return 0.0
    expected = np.array([float(w) for w in weights.values()])
    observed = np.array([counts[a] for a in weights])
    return stats.chisquare(observed, expected / expected.sum() * observed.sum()).pvalue


def first_actions(policy, games):
    """i32[games, lanes]: first actions of playouts from each of the games."""
    each = LANES // len(games)
    positions = jax.tree.map(lambda x: jnp.repeat(x, each, axis=0), positions_of(games))
    first = playing(5)(policy, positions, jax.random.key(3)).first_action
    return np.asarray(first).reshape(len(games), each)


@pytest.mark.thorough
@pytest.mark.parametrize("weigh", [weight_of, lambda shape: 5])
def test_first_moves_have_the_references_frequencies(weigh):
    actions = first_actions(policy_for(weigh), FIRST_MOVES)
    for game, first in zip(FIRST_MOVES, actions, strict=True):
        expected = reference.weights(game, None, weigh, FEATURES)
        assert len(expected) > 8
        assert chi_square(np.bincount(first, minlength=26), expected) > 1e-3


def test_other_strengths_do_not_recompile():
    run = playing(5)
    first_actions(POLICY, FIRST_MOVES)
    before = run._cache_size()
    first_actions(policy_for(lambda shape: 3), FIRST_MOVES)
    assert run._cache_size() == before


@pytest.mark.parametrize(
    "used",
    [
        *(pytest.param(x, marks=pytest.mark.thorough) for x in ((), ("capture", "line"))),
        ("extension", "distance", "self_atari"),
    ],
)
def test_neutral_features_are_left_out_and_the_games_are_the_same(used):
    rng = np.random.default_rng(2)
    given = strengths.uniform()._replace(
        shape=np.exp(rng.normal(0, 1, 1107)).astype(np.float32),
        **{name: np.array(FEATURES[name], np.float32) for name in used},
    )
    without = softmax.softmax_policy(given, 5)
    with_all = softmax.softmax_policy(jax.tree.map(jnp.asarray, given), 5)
    left_out = {name for name, x in without._asdict().items() if x is None}
    assert left_out == set(FEATURES) - {"contiguity"} - set(used)
    assert all(x is not None for x in with_all)
    positions = positions_of(random_games(5, 11, seed=2))
    results = [playing(5)(policy, positions, jax.random.key(1)) for policy in (without, with_all)]
    jax.tree.map(np.testing.assert_array_equal, *results)
    assert int(results[0].moves.max()) > 10


def test_a_pass_only_without_other_moves():
    games = [game_of(SETTLED, BLACK, 0), game_of(SETTLED, WHITE, 1)] * 2
    assert np.all(first_actions(POLICY, games) == 25)


# --- whole playouts -------------------------------------------------------------------


REPLAYED = 40  # lanes; in the others the first two moves are looked at


@functools.cache
def recorded():
    """(games, actions [T, B], played [T, B], positions [B]): what softmax lanes play.

    Lanes beyond those of the games start from the empty board.
    """
    rules, advances = go.Rules(5), 20
    games = [ReferenceGame(5, ko="simple") for _ in range(REPLAYED // 2)]
    games += random_games(5, REPLAYED - len(games), seed=5)
    one_each = positions_of([*games, FIRST_MOVES[0]])
    positions = jax.tree.map(
        lambda x: jnp.concatenate([x, jnp.repeat(x[-1:], LANES - len(x), axis=0)]), one_each
    )

    def run(policy, positions, key):
        clock = engine.init_clock(positions, key, engine.lane_ids(LANES))
        last = jnp.full(LANES, bb.NO_POINT)
        play, cap = softmax.as_policy(policy), engine.move_cap(rules)
        lanes = play.init(rules, positions, clock, False, last)
        one = lambda lanes, _: play.advance(rules, cap, play.params, lanes)
        played = jax.lax.scan(one, lanes, length=advances)[1]
        actions = playable.action_of(rules.layout, played.move)
        return actions.reshape(-1, LANES), played.played.reshape(-1, LANES)

    actions, played = map(np.asarray, jax.jit(run)(POLICY, positions, jax.random.key(5)))
    return games, actions, played, positions


def test_every_move_is_allowed_and_has_the_references_frequency():
    """Replays whole games on the reference, with the log-probability that it gives each move.

    The log-probabilities of the moves sum to what the entropies say, within four deviations.
    The results of whole playouts, in blocks, are those of the lanes that stood in one row.
    """
    games, actions, played, positions = recorded()
    ended = playing(5)(POLICY, positions, jax.random.key(5))
    surprise = expected = variance = 0.0
    for lane, game in enumerate(games):
        before, previous = game.moves, None
        for action in actions[played[:, lane], lane]:
            weights = reference.weights(game, previous, weight_of, FEATURES)
            assert action in weights
            assert set(weights) == set(allowed(game))
            p = np.array(list(weights.values())) / sum(weights.values())
            surprise -= np.log(weights[action] / sum(weights.values()))
            entropy = -np.sum(p * np.log(p))
            expected += entropy
            variance += np.sum(p * np.log(p) ** 2) - entropy**2
            previous = None if action == 25 else int(action)
            game.play(action)
        assert game.passes >= 2
        assert ended.moves[lane] == game.moves - before
        assert ended.score[lane] == game.area()
    assert abs(surprise - expected) < 4 * np.sqrt(variance)
    assert np.sqrt(variance) < 0.05 * expected  # it can fail


def test_a_second_move_depends_on_the_first():
    _, actions, played, _ = recorded()
    first, second = actions[:2, REPLAYED:]
    assert np.all(played[:2, REPLAYED:][:, first == 12])  # no second move is a self-atari
    game = ReferenceGame(5, ko="simple")
    game.play(12)
    counts = np.bincount(second[first == 12], minlength=26)
    assert counts.sum() > 100
    assert chi_square(counts, reference.weights(game, 12, weight_of, FEATURES)) > 1e-3
    assert chi_square(counts, reference.weights(game, None, weight_of, FEATURES)) < 1e-6


@pytest.mark.slow
def test_a_policy_may_be_a_constant_of_the_program():
    """XLA once aborted the process here."""
    positions = positions_of([ReferenceGame(3, ko="simple")] * 300)
    shape = np.linspace(0.1, 9, 1107, dtype=np.float32)
    factors = [np.array(x, np.float32) for x in ([2, 3], [4, 5], [6, 7], [0.5])]
    values = strengths.Strengths(shape, *factors)

    def run(values, positions):
        policy, key = softmax.softmax_policy(values, 3), jax.random.key(0)
        return softmax.softmax_playouts(go.Rules(3), positions, key, policy, lanes=100)

    constant = jax.jit(functools.partial(run, values))(positions)
    jax.tree.map(np.testing.assert_array_equal, constant, jax.jit(run)(values, positions))


def test_it_exports_for_all_platforms():
    positions = jax.eval_shape(lambda: positions_of(FIRST_MOVES))
    shape = jax.eval_shape(lambda: (jax.tree.map(jnp.asarray, POLICY), jax.random.key(1)))
    export = jax.export.export(playing(5), platforms=["cpu", "cuda", "tpu"])
    with mode.every_platform():
        exported = export(shape[0], positions, shape[1])
    assert exported.platforms == ("cpu", "cuda", "tpu")


# --- files ----------------------------------------------------------------------------


def test_strengths_round_trip(tmp_path):
    shape = np.linspace(0.1, 9, 1107, dtype=np.float32)
    by_kind = [2, 3], [4, 5], [6, 7], [0.5], [1, 2, 3, 4, 5], range(1, 15)
    saved = strengths.Strengths(shape, *(np.array(x, np.float32) for x in by_kind))
    strengths.save(tmp_path / "a.safetensors", saved, command="x", size=9)
    found, about = strengths.load(tmp_path / "a.safetensors")
    jax.tree.map(np.testing.assert_array_equal, found, saved)
    assert about["command"] == "x"
    assert about["size"] == 9


def test_files_without_later_features_load_as_if_these_were_neutral(tmp_path):
    plain = {name: x for name, x in strengths.uniform()._asdict().items() if x.size != 1}
    earlier = {name: 2 * plain[name] for name in ("shape", "contiguity")}
    arrays.write(tmp_path / "a.safetensors", "strengths", earlier, {})
    found, _ = strengths.load(tmp_path / "a.safetensors")
    expected = strengths.uniform()._replace(**earlier)
    jax.tree.map(np.testing.assert_array_equal, found, expected)
    arrays.write(tmp_path / "b.safetensors", "strengths", plain, {})  # one of three is missing
    with pytest.raises(ValueError, match="self_atari"):
        strengths.load(tmp_path / "b.safetensors")
    of_playouts = {name: 3 * getattr(strengths.uniform(), name) for name in strengths.OF_PLAYOUTS}
    arrays.write(tmp_path / "c.safetensors", "strengths", of_playouts, {})
    found, _ = strengths.load(tmp_path / "c.safetensors")
    expected = strengths.uniform()._replace(**of_playouts)
    jax.tree.map(np.testing.assert_array_equal, found, expected)


def test_packaged_strengths_record_how_they_were_made():
    for name in strengths.SHIPPED:
        found, about = strengths.load(name)
        assert about["command"][0].startswith("python -m train.classical.")
        assert found.shape.std() > 0.1


def test_bad_strengths_are_refused(tmp_path):
    path = tmp_path / "a.safetensors"
    with pytest.raises(ValueError, match="above 0"):
        strengths.save(path, strengths.uniform()._replace(contiguity=np.array([1.0, 0.0])))
    with pytest.raises(ValueError, match="expected"):
        strengths.save(path, strengths.uniform()._replace(contiguity=np.ones(3)))
    with pytest.raises(ValueError, match=r"there is no file .* or one of mm_9, balanced_9"):
        strengths.load(path)
    path.write_bytes(b"PK\x03\x04 nonsense")
    with pytest.raises(ValueError, match="damaged or not strengths"):
        strengths.load(path)
