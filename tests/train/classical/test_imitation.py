"""`python -m train.classical.imitation`: its loss, its gradient, how it resumes, bad input."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.go import rules as go
from gozero.nets import network
from gozero.nets import weights as net_weights
from gozero.nets.network import NetworkConfig
from gozero.play.networks import network_evaluator
from gozero.td import local_shape
from gozero.td import shapes as local
from gozero.td import weights as shape_weights
from gozero.td.shapes import Shapes
from tests.go.boards import parse, positions_of, random_boards
from tests.reference.go import BLACK, WHITE, ReferenceGame
from train.classical import imitation_training as command
from train.classical.imitation import ImitationFlags
from train.classical.imitation_training import Targets

RULES = go.Rules(size=5, ko="simple")
SHAPES = Shapes(5)
SHARING = local.sharing(SHAPES)
NETWORK = NetworkConfig(blocks=1, channels=8)
SMALL = ["--games", "16", "--seed", "3"]


@pytest.fixture
def options(tmp_path):
    return ImitationFlags(tmp_path / "net.safetensors", tmp_path / "out.safetensors")


@pytest.fixture
def teacher(tmp_path):
    """The file of a network with random weights, whose policy differs much from uniform."""
    params = network.init(NETWORK, jax.random.key(2))
    params = jax.tree.map(lambda x: 3.0 * x, params)
    return net_weights.save(tmp_path / "net.safetensors", params, NETWORK, size=5)


def random_weights(seed: int) -> jax.Array:
    return jax.random.normal(jax.random.key(seed), (SHARING.num_weights + 1,)).at[0].set(0.0)


def test_without_weights_the_loss_is_by_hand(options):
    """25 moves are equal; the network prefers one, with 24 times the odds of each other."""
    positions = positions_of(5, [[0] * 25] * 2, [BLACK, WHITE])
    policy = jnp.zeros((2, 26)).at[0, 12].set(math.log(24))
    targets = Targets(positions, policy, jnp.array([0.5, 1.0]))
    weights = jnp.zeros(SHARING.num_weights + 1)
    total, stats = command.loss(
        RULES, SHAPES, options, weights, jnp.asarray(SHARING.weight_index), targets
    )
    divergence = math.log(25) - (0.5 * math.log(2) + 0.5 * math.log(48))
    assert float(stats.divergence) == pytest.approx(divergence / 2, rel=1e-5)
    assert float(stats.value_loss) == pytest.approx(math.log(2), rel=1e-5)
    assert float(total) == pytest.approx(0.2 * divergence / 2 + 0.2 * math.log(2), rel=1e-5)


@pytest.mark.thorough
def test_the_loss_is_that_of_a_plain_reference(options):
    boards = random_boards(5, 12, seed=4)
    colours = [BLACK, WHITE] * 6
    positions = jax.tree.map(jnp.asarray, positions_of(5, boards, colours))
    policy = np.asarray(jax.random.normal(jax.random.key(1), (12, 26)))
    wins = np.linspace(0, 1, 12)
    weights = random_weights(5)
    table = local_shape.table(SHAPES, weights)
    logits = np.asarray(local_shape.action_logits(RULES, SHAPES, table, positions), np.float64)
    divergence, value_loss = [], []
    for board, colour, row, target, win in zip(boards, colours, logits, policy, wins, strict=True):
        moves = [p for p in range(25) if keeps_all_stones(board, colour, p)]
        scores = np.array([row[p] * (1 if colour == BLACK else -1) / 0.2 for p in moves])
        wanted = np.array([target[p] for p in moves], np.float64)
        own, theirs = log_softmax(scores), log_softmax(wanted)
        divergence.append(float(np.sum(np.exp(theirs) * (theirs - own))) if moves else 0.0)
        chance = 1 / (1 + math.exp(-row[25]))
        value_loss.append(-win * math.log(chance) - (1 - win) * math.log(1 - chance))
    targets = Targets(positions, jnp.asarray(policy), jnp.asarray(wins))
    total, stats = command.loss(
        RULES, SHAPES, options, weights, jnp.asarray(SHARING.weight_index), targets
    )
    assert float(stats.divergence) == pytest.approx(np.mean(divergence), rel=1e-3)
    assert float(stats.value_loss) == pytest.approx(np.mean(value_loss), rel=1e-3)
    expected = 0.2 * np.mean(divergence) + 0.2 * np.mean(value_loss)
    assert float(total) == pytest.approx(expected, rel=1e-3)


def keeps_all_stones(board, colour, point) -> bool:
    """Whether a move is legal, fills no own eye, and removes no stones."""
    game = ReferenceGame(5, "simple")
    game.board, game.to_play = list(board), colour
    if board[point] or game.is_eye(point, colour) or not game.is_legal(point):
        return False
    game.play(point)
    return sum(map(bool, game.board)) == sum(map(bool, board)) + 1


def log_softmax(x):
    if not x.size:
        return x
    return x - x.max() - math.log(np.sum(np.exp(x - x.max())))


def test_the_gradient_is_the_loss_s_slope(options):
    """Along random directions; the moves that capture do not hide in it."""
    board = parse("XXO.. OOX.. .OX.. .O... .....")
    targets = Targets(
        positions_of(5, [board], [BLACK]), 2.0 * jnp.arange(26.0)[None] % 7, jnp.array([0.8])
    )
    loss = jax.jit(
        lambda weights: command.loss(
            RULES, SHAPES, options, weights, jnp.asarray(SHARING.weight_index), targets
        )[0]
    )
    weights = 0.1 * random_weights(6)
    gradient = jax.grad(loss)(weights)
    for seed in range(3):
        direction = random_weights(seed + 7)
        slope = (loss(weights + 1e-2 * direction) - loss(weights - 1e-2 * direction)) / 2e-2
        assert float(slope) == pytest.approx(float(gradient @ direction), rel=0.03, abs=1e-3)


@pytest.mark.thorough
def test_it_comes_to_agree_with_the_network_and_resumes_bit_for_bit(tmp_path, teacher):
    """A hundred steps in one run, and in two of fifty, of which the first is stopped."""
    out = tmp_path / "whole.safetensors"
    argv = ["--teacher", str(teacher), *SMALL, "--steps", "100", "--rate", "0.05"]
    assert command.main([*argv, "--out", str(out)]) == 0
    learnt = shape_weights.read(out)
    assert learnt.about["steps"] == 100

    again = ImitationFlags(
        teacher, tmp_path / "again.safetensors", games=16, seed=3, steps=100, rate=0.05
    )
    config, params, about = net_weights.load(teacher)
    made_with = f"{again.same}, teacher {about['sha256']}"
    evaluator = network_evaluator(RULES, config, params)
    run = command.make_run(again, RULES, SHAPES, evaluator)
    state = command.begin(again, made_with, RULES, SHAPES)
    state = run(evaluator.params, state, jax.random.key(again.seed))
    assert int(state.taken) == 50
    command.checkpoints.save(again.checkpoint, made_with, state)
    assert command.main([*argv, "--out", str(again.out), "--resume"]) == 0
    resumed = shape_weights.read(again.out)
    np.testing.assert_array_equal(resumed.weights, learnt.weights)
    assert resumed.about["divergence"] == learnt.about["divergence"]
    assert learnt.about["divergence"] < 0.95 * float(state.stats.divergence)

    # Once more, when it is done: nothing changes. With another network it does not resume.
    assert command.main([*argv, "--out", str(again.out), "--resume"]) == 0
    assert shape_weights.read(again.out).about["divergence"] == learnt.about["divergence"]
    net_weights.save(teacher, network.init(NETWORK, jax.random.key(9)), NETWORK, size=5)
    with pytest.raises(SystemExit) as stop:
        command.main([*argv, "--out", str(again.out), "--resume"])
    assert stop.value.code == 2


@pytest.mark.thorough
def test_games_restart_when_they_are_over_and_some_that_are_decided(options):
    """Ended by passes; one move old and undecided; and many that are decided."""
    fresh = jax.tree.map(lambda x: jnp.broadcast_to(x, (1000, *jnp.shape(x))), go.init(RULES, 7.0))
    play = jax.vmap(lambda state, action: go.play(RULES, state, action))
    games = play(fresh, jnp.full(1000, 25).at[1:].set(12))
    games = play(games, jnp.full(1000, 25).at[1:].set(3))
    value = jnp.full(1000, -0.99).at[:2].set(0.0)
    after = command._restart(jax.random.key(0), games, fresh, value).position.ply
    assert after[0] == 0
    assert after[1] == 2
    assert 0.05 < float(jnp.mean(after[2:] == 0)) < 0.15


@pytest.mark.thorough
def test_a_network_that_sees_past_boards_teaches_too(tmp_path):
    config = NetworkConfig(blocks=1, channels=8, features="zero")
    path = tmp_path / "zero.safetensors"
    net_weights.save(path, network.init(config, jax.random.key(0)), config, size=5)
    out = tmp_path / "out.safetensors"
    argv = ["--teacher", str(path), *SMALL, "--steps", "2", "--out", str(out)]
    assert command.main(argv) == 0
    assert shape_weights.read(out).about["moved"] > 0


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--teacher", "no.safetensors"], "no.safetensors: there is no file"),
        (["--teacher", "net.safetensors", "--resume"], "--resume: there is no"),
        (["--teacher", "net.safetensors", "--games", "0"], "--games 0: expected at least 1"),
        (["--teacher", "net.safetensors", "--temperature", "0"], "--temperature 0"),
        (["--teacher", "net.safetensors", "--komi", "1001"], "--komi 1001.0: expected"),
        ([], "--teacher is missing"),
    ],
)
def test_bad_input_is_one_line(argv, message, capsys, teacher, monkeypatch):
    monkeypatch.chdir(teacher.parent)
    with pytest.raises(SystemExit) as stop:
        command.main([*argv, "--out", "w.safetensors"])
    assert stop.value.code == 2
    stderr = capsys.readouterr().err
    assert message in stderr
    assert stderr.count("\n") == 1
    assert [path.name for path in teacher.parent.iterdir()] == [teacher.name]


def test_a_killed_run_is_not_overwritten(options, teacher):
    options.checkpoint.write_bytes(b"of the killed run")
    with pytest.raises(SystemExit) as stop:
        command.main(["--teacher", str(teacher), "--out", str(options.out)])
    assert stop.value.code == 2
    assert options.checkpoint.read_bytes() == b"of the killed run"


def test_a_network_of_another_game_is_refused(tmp_path, capsys):
    config = NetworkConfig(blocks=1, channels=8, observation=(6, 7, 2), num_actions=7)
    path = tmp_path / "other.safetensors"
    net_weights.save(path, network.init(config, jax.random.key(0)), config)
    with pytest.raises(SystemExit) as stop:
        command.main(["--teacher", str(path), "--out", str(tmp_path / "w.safetensors")])
    assert stop.value.code == 2
    assert "is not a Go network for one board size" in capsys.readouterr().err
