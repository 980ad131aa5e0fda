"""Minorisation-maximisation against a plain reference, and recovery of known strengths."""

import functools
import typing

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.apps import sgf
from gozero.apps.sgf import GameRecord
from gozero.go import bitboard as bb
from gozero.go import rules as go
from gozero.playouts.policies.softmax import neighbourhoods, strengths
from tests.playouts.positions import allowed
from tests.reference import mm as reference
from tests.reference import softmax_policy
from tests.reference.go import ReferenceGame
from train.classical import balancing, mm
from train.classical import choices as choice
from train.classical import mm_fit as fit
from train.classical.mm import MmConfig

SIZE = 5
LAY = bb.layout(SIZE)


def random_choices(count, seed, logs) -> choice.Choices:
    """Boards of random stones, with a move on each drawn from these log strengths."""
    rng = np.random.default_rng(seed)
    boards = rng.choice(3, (count, SIZE * SIZE), p=[0.6, 0.2, 0.2])
    boards[:, 7] = 0

    def words(mask):
        return jax.jit(jax.vmap(lambda x: bb.pack(LAY, x)))(mask)

    blank = choice.Choices(
        own=words(boards == 1),
        opponent=words(boards == 2),
        in_atari=words(rng.random(boards.shape) < 0.3),
        endangered=words((rng.random(boards.shape) < 0.02) & (boards == 1)),
        may=words(boards == 0),
        self_atari=words((rng.random(boards.shape) < 0.2) & (boards == 0)),
        previous=jnp.asarray(rng.integers(-1, SIZE * SIZE, count), jnp.int32),
        played=jnp.zeros(count, jnp.int32),
    )
    result = features(blank)
    chances = np.array(jax.nn.softmax(choice.log_strengths(logs, result), axis=0), np.float64)
    ends = np.cumsum(chances / chances.sum(axis=0), axis=0)
    played = (rng.random(count) > ends).sum(axis=0)
    return blank.replace(played=jnp.asarray(played, jnp.int32))


features = jax.jit(functools.partial(choice.features, LAY))


@functools.cache
def truth() -> strengths.Strengths:
    rng = np.random.default_rng(7)
    shape = np.exp(rng.normal(0, 1, 1107)).astype(np.float32)
    distance = np.ones(14, np.float32)
    distance[:5] = [2.5, 2.0, 0.5, 1.5, 0.7]
    factors = ([6.0, 2.5], [4.0, 2.0], [3.0, 0.5], [0.2])
    factors = (np.array(x, np.float32) for x in factors)
    return strengths.Strengths(shape, *factors, distance=distance)


@functools.cache
def learnt(count: int):
    """(choices, [(strengths, quality) after each update]); lines are left out, as shapes at the
    edge tell them, so that no strength of theirs would be the only one."""
    played = random_choices(count, seed=count, logs=jax.tree.map(np.log, truth()))
    groups = [group for group in fit.GROUPS if group != "line"]
    return played, list(fit.fit(LAY, played, 8, groups))


@pytest.mark.thorough
def test_the_objective_never_falls():
    _, steps = learnt(12_288)
    objective = [quality.objective for _, quality in steps]
    gains = np.diff(objective)
    assert np.all(gains > -1e-9 * abs(objective[0]))
    assert gains.sum() > 3000


@pytest.mark.thorough
def test_known_strengths_are_recovered():
    played, steps = learnt(12_288)
    found, quality = steps[-1]
    error = {k: np.log(x / getattr(truth(), k)) for k, x in found._asdict().items()}
    for kind in ("capture", "extension", "self_atari"):
        assert np.abs(error[kind]).max() < 0.15, kind
    # Each point has one of these where there is a last move, so they are fixed up to a factor.
    from_last = np.concatenate([error["contiguity"], error["distance"][:5]])
    assert np.ptp(from_last) < 0.3
    every = np.asarray(features(played).shape)
    won = np.bincount(every[np.asarray(played.played), np.arange(12_288)], minlength=1107)
    often = won >= 40
    assert often.sum() > 30
    known, again = np.log(truth().shape[often]), np.log(found.shape[often])
    error = again - known
    error -= np.average(error, weights=won[often])  # strengths are fixed up to one factor
    deviations = error * np.sqrt(information(played, every)[often])
    assert np.sqrt(np.mean(deviations**2)) < 1.3
    assert np.std(known) > 0.7 > 3 * np.std(error)
    other = random_choices(12_288, seed=1, logs=jax.tree.map(np.log, truth()))
    exact, fresh = (fit.measure(LAY, other, x) for x in (truth(), found))
    flat = fit.measure(LAY, other, strengths.uniform())
    assert flat.log_likelihood + 0.3 < fresh.log_likelihood < exact.log_likelihood + 0.01
    assert flat.top_1 + 0.1 < fresh.top_1
    assert abs(quality.log_likelihood - fresh.log_likelihood) < 0.1


def information(played: choice.Choices, every: np.ndarray) -> np.ndarray:
    """f64[1107]: of the choices about each shape's log strength, the sum of p (1 - p) over them,
    with p the true probability of a move of that shape (`every`, [points, N])."""
    logs = choice.log_strengths(jax.tree.map(np.log, truth()), features(played))
    p = np.zeros((1107, every.shape[1]))
    np.add.at(p, (every, np.arange(every.shape[1])), np.asarray(jax.nn.softmax(logs, axis=0)))
    return (p * (1 - p)).sum(axis=1)


@pytest.mark.thorough
def test_updates_match_the_reference():
    played = jax.tree.map(lambda x: x[:60], learnt(12_288)[0])
    actual = features(played)
    shape, *others, may = map(np.asarray, actual)
    plain = []
    for n in range(60):
        teams = {}
        for p in np.flatnonzero(may[:, n]):
            numbers = [int(found[p, n]) for found in others]
            team = [("shape", int(shape[p, n]))]
            team += [(kind, k - 1) for kind, k in zip(fit.GROUPS[1:], numbers, strict=True) if k]
            teams[p] = tuple(team)
        plain.append((list(teams.values()), teams[int(played.played[n])]))
    expected = {("shape", k): 1.0 for k in range(1107)}
    sizes = {kind: len(x) for kind, x in strengths.uniform()._asdict().items() if kind != "shape"}
    expected |= {(kind, k): 1.0 for kind, size in sizes.items() for k in range(size)}
    for step, (ours, quality) in enumerate(fit.fit(LAY, played, 2)):
        for (group, k), value in expected.items():
            assert getattr(ours, group)[k] == pytest.approx(value, rel=1e-4)
        assert quality.objective == pytest.approx(reference.objective(plain, expected), rel=1e-5)
        expected = reference.updated(plain, expected, fit.GROUPS[step % len(fit.GROUPS)])


def test_one_choice_by_hand():
    """Three empty points, each with one shape. W is 1 + 1 for the one played, else 0 + 1."""
    board = np.ones(25, bool)
    board[[0, 12, 24]] = False
    one = choice.Choices(
        own=bb.pack(LAY, jnp.asarray(board)),
        opponent=bb.empty(LAY),
        in_atari=bb.empty(LAY),
        endangered=bb.empty(LAY),
        may=bb.pack(LAY, jnp.asarray(~board)),
        self_atari=bb.empty(LAY),
        previous=jnp.int32(-1),
        played=jnp.int32(12),
    )
    one = jax.tree.map(lambda x: jnp.asarray(x)[None], one)
    centre, corner = (
        neighbourhoods.classes()[softmax_policy.code_of(x)] for x in ("XXX X*X XXX", "### #*X #XX")
    )
    steps = list(fit.fit(LAY, one, 1))
    after = steps[1][0].shape
    # The centre: 2 / (2/2 + 1/3); the corners, which share a shape: 1 / (2/2 + 2/3).
    np.testing.assert_allclose(after[[centre, corner]], [1.5, 0.6], rtol=1e-5)
    assert steps[0][1].log_likelihood == pytest.approx(-np.log(3))
    assert steps[0][1].top_1 == pytest.approx(1 / 3)


# --- games ----------------------------------------------------------------------------


def random_record(seed) -> GameRecord:
    rng = np.random.default_rng(seed)
    game, moves = ReferenceGame(SIZE, ko="simple"), []
    while game.passes < 2 and len(moves) < 50:
        legal = [p for p in range(25) if game.is_legal(p)]  # eyes too
        action = int(rng.choice(legal)) if legal and rng.random() < 0.95 else 25
        moves.append((len(moves) % 2, action))
        game.play(action)
    return GameRecord(SIZE, 7.0, tuple(moves))


@pytest.mark.thorough
def test_a_ko_may_be_filled_after_an_unrecorded_pass():
    taken, filled = (0, 7), (0, 6)
    stones = {"black_stones": (1, 5, 11), "white_stones": (2, 8, 12, 6)}
    silent = GameRecord(SIZE, 7.0, (taken, filled), **stones)
    recorded = GameRecord(SIZE, 7.0, (taken, (1, SIZE * SIZE), filled), **stones)
    retaken = GameRecord(SIZE, 7.0, (taken, (1, 6)), **stones)
    result = choice.of_games(go.Rules(SIZE, ko="simple"), [silent, recorded, retaken])
    assert result.illegal == {2: 2}
    assert sorted(result.choices.played.tolist()) == [6, 6, 7, 7]


def test_choices_of_games_match_the_reference():
    records = [random_record(seed) for seed in range(6)]
    setup = GameRecord(SIZE, 7.0, ((1, 7),), black_stones=(6, 12, 8), white_stones=(2,))
    illegal = GameRecord(SIZE, 7.0, ((0, 3), (1, 3)))
    result = choice.of_games(go.Rules(SIZE, ko="simple"), [*records, setup, illegal])
    assert result.illegal == {7: 2}
    seen = features(result.choices)
    n = 0
    order = np.argsort(result.game, kind="stable")
    for number, record in enumerate(records):
        game, previous = ReferenceGame(SIZE, ko="simple"), None
        for ply, (_, action) in enumerate(record.moves, start=1):
            if action in (may := allowed(game)) and action != 25:
                at = order[n]
                assert (result.game[at], result.number[at]) == (number, ply)
                assert result.choices.played[at] == action
                assert np.flatnonzero(seen.may[:, at]).tolist() == may
                for p in may:
                    code = int(neighbourhoods.class_codes()[seen.shape[p, at]])
                    lines = softmax_policy.shape_of(code)
                    at_p = softmax_policy.shape_at(game, p)
                    assert softmax_policy.canonical(lines) == at_p
                    found = softmax_policy.features_at(game, previous, p)
                    for kind in fit.GROUPS[1:]:
                        assert getattr(seen, kind)[p, at] == 1 + found.get(kind, -1), kind
                n += 1
            previous = None if action == 25 else action
            game.play(action)
    assert n == len(order) - 1
    assert result.game[order[n]] == 6
    assert result.choices.played[order[n]] == 7


# --- the command ----------------------------------------------------------------------


def test_the_command_writes_strengths_and_reports_their_quality(tmp_path, capsys):
    for number in range(20):
        sgf.write(tmp_path / f"{number}.sgf", random_record(number))
    (tmp_path / "bad.sgf").write_text("(;GM[1]SZ[5];B[zz])")
    game = sgf.to_sgf(random_record(20))
    (tmp_path / "two.sgf").write_text(game + game)
    out = tmp_path / "strengths.safetensors"
    flags = ["--sgf", str(tmp_path), "--out", str(out), "--size", "5", "--iterations", "2"]
    assert fit.main(flags) == 0
    captured = capsys.readouterr()
    assert "skipped: sgf" in captured.err
    assert "held out log-likelihood" in captured.err
    assert "10 updates; held out log-likelihood" in captured.out
    found, about = strengths.load(out)
    assert found.shape.std() > 0
    assert about["games"] == 22
    assert about["command"] == [mm.PROG, *flags]
    assert about["held_out"]["log_likelihood"] < 0
    assert np.all(found.line == 1)
    assert np.all(found.distance == 1)
    with pytest.raises(SystemExit):
        fit.main(flags)
    assert "already exists" in capsys.readouterr().err


def test_the_features_of_priors_are_learnt_if_named(tmp_path):
    for number in range(4):
        sgf.write(tmp_path / f"{number}.sgf", random_record(number))
    out = tmp_path / "priors.safetensors"
    flags = ["--sgf", str(tmp_path), "--out", str(out), "--size", "5", "--iterations", "1"]
    assert fit.main([*flags, "--features", "line", "distance"]) == 0
    found, _ = strengths.load(out)
    assert np.all(found.shape == 1)
    assert len(np.unique(found.line)) == 4  # 5x5 has three lines; the others keep 1
    assert len(np.unique(found.distance)) > 4


def test_learning_begins_at_the_first_move_given(tmp_path, capsys):
    sgf.write(tmp_path / "a.sgf", GameRecord(SIZE, 7.0, ((0, 6), (1, 7), (0, 12))))
    out = tmp_path / "strengths.safetensors"
    flags = ["--sgf", str(tmp_path), "--out", str(out), "--size", "5", "--iterations", "1"]
    assert fit.main([*flags, "--first-move", "3"]) == 0
    assert strengths.load(out)[1]["choices"] == 1
    out.unlink()
    with pytest.raises(SystemExit, match="2"):
        fit.main([*flags, "--first-move", "4"])
    assert "--first-move 4: the last choice in the games of" in capsys.readouterr().err


def test_the_features_are_those_of_strengths():
    assert typing.get_args(balancing.Feature) == strengths.OF_PLAYOUTS
    assert typing.get_args(mm.Feature) == strengths.Strengths._fields
    assert MmConfig.__dataclass_fields__["features"].default == strengths.OF_PLAYOUTS


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--sgf", "nowhere", "--out", "a.safetensors"], "there is no *.sgf file"),
        (["--sgf", ".", "--out", "a.txt"], "not a .safetensors"),
        (["--sgf", ".", "--out", "a.safetensors", "--iterations", "0"], "at least 1"),
        (["--sgf", ".", "--out", "a.safetensors", "--holdout-fraction", "1"], "below 1"),
    ],
)
def test_bad_flags_are_one_line_and_status_2(flags, message, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="2"):
        fit.main(flags)
    assert message in capsys.readouterr().err
