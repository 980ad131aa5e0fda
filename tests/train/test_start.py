"""Runs that begin from a trained network."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding

from gozero.games.connect_four import connect_four_game
from gozero.go import symmetry
from gozero.nets import network, weights
from gozero.play import devices
from gozero.runs import folder as folders
from tests.nets import katago_files
from tests.train import tiny
from train import checkpoint, evaluate, folder, hosts, learner, memory, run, steps
from train.folder import TrainFolder
from train.loop import Loop
from train.plan import make_plan, teacher_of


@pytest.fixture
def given(tmp_path):
    """(the path of weights made for 5x5, their params)."""
    shape = make_plan(tiny.config()).learner.network
    params = network.init(shape, jax.random.key(7))
    return weights.save(tmp_path / "given.npz", params, shape, 5), params


@pytest.mark.thorough
def test_a_run_begins_from_weights_of_another_size(given, tmp_path):
    path, params = given
    config = tiny.config(tmp_path / "run", weights=path)
    plan, mesh = make_plan(config), devices.mesh_of(1)
    found, sha256 = run.initial_params(plan)
    assert sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    state = run.begin(plan, mesh, found).state
    for own in (state.learner.params, state.learner.ema):
        jax.tree.map(np.testing.assert_array_equal, own, params)
    random = run.begin(plan, mesh).state.learner.params
    assert any(
        (one != other).any()
        for one, other in zip(jax.tree.leaves(random), jax.tree.leaves(params), strict=True)
    )

    # A run with a checkpoint does not need the file again; workers and matches do not either.
    tiny.claim(config)
    checkpoint.save(config.folder / "checkpoints", 2, state, tiny.host_state(2))
    path.unlink()
    assert run.initial_params(plan) == (None, None)
    assert folder.read_config(config.folder) == config
    with pytest.raises(ValueError, match=r"--weights was .*given\.npz and is None"):
        tiny.claim(dataclasses.replace(config, weights=None))


def test_a_run_restarts_only_from_the_same_weights(given, tmp_path, monkeypatch):
    path, params = given
    config = tiny.config(tmp_path / "run", weights=path)
    manifest = config.folder / "manifest.json"
    monkeypatch.setattr(run, "_Session", lambda *_: types.SimpleNamespace(work=lambda: 0))
    monkeypatch.setattr(run, "begin", lambda *_: None)
    assert run.run(config) == 0
    first = hashlib.sha256(path.read_bytes()).hexdigest()
    assert json.loads(manifest.read_text())["weights_sha256"] == first
    assert run.run(config) == 0  # no checkpoint yet: from the same weights

    other = jax.tree.map(lambda x: x + 1, params)
    weights.save(path, other, make_plan(config).learner.network, 5)
    second = hashlib.sha256(path.read_bytes()).hexdigest()
    with pytest.raises(ValueError, match=f"their SHA-256 was {first} and is {second}; give the"):
        run.run(config)

    # Once there is a checkpoint the file is not needed; its SHA-256 stays on record.
    saved = config.folder / "checkpoints" / "000002"
    saved.mkdir(parents=True)
    (saved / "about.json").touch()
    path.unlink()
    assert run.run(config) == 0
    assert json.loads(manifest.read_text())["weights_sha256"] == first


@pytest.mark.thorough
def test_a_larger_network_is_grown_from_weights(given, tmp_path, capsys):
    path, params = given
    config = tiny.config(tmp_path / "run", weights=path, blocks=3, channels=12)
    plan = make_plan(config)
    grown, sha256 = run.initial_params(plan)
    assert sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert "grown from 1 to 3 blocks and 8 to 12 channels" in capsys.readouterr().err
    new, old = plan.learner.network, make_plan(tiny.config()).learner.network
    planes = jax.random.bernoulli(jax.random.key(1), 0.4, (3, 5, 5, new.num_planes))
    outputs = [
        network.apply(*one, planes.astype(jnp.float32)) for one in ((old, params), (new, grown))
    ]
    np.testing.assert_allclose(*(x.policy_logits for x in outputs), atol=1e-5)
    np.testing.assert_allclose(*(x.value for x in outputs), atol=1e-5)
    state = run.begin(plan, devices.mesh_of(1), grown).state
    jax.tree.map(np.testing.assert_array_equal, state.learner.params, grown)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"channels": 4}, r"another shape; give --channels 8$"),
        ({"channels": 16, "pool_every": 0}, r"another shape; give --channels 8 --pool-every 1$"),
        ({"auxiliary": False}, r"another shape; give --auxiliary$"),
    ],
)
def test_weights_of_another_shape_are_refused(given, tmp_path, changes, message):
    config = tiny.config(tmp_path / "run", weights=given[0], **changes)
    with pytest.raises(ValueError, match=message):
        run.run(config)
    assert not config.folder.exists()


def test_weights_of_other_features_are_refused_with_advice(tmp_path):
    shape = dataclasses.replace(make_plan(tiny.config()).learner.network, features="full")
    params = network.init(shape, jax.random.key(7))
    path = weights.save(tmp_path / "full.npz", params, shape, 3)
    config = tiny.config(tmp_path / "run", weights=path)
    with pytest.raises(ValueError, match=r"another shape; give --features full$"):
        run.run(config)
    assert not config.folder.exists()


def test_missing_weights_are_refused(tmp_path):
    config = tiny.config(tmp_path / "run", weights=tmp_path / "none.npz")
    with pytest.raises(ValueError, match=r"there is no file .*none\.npz"):
        run.run(config)
    assert not config.folder.exists()


def test_a_teacher_has_any_shape_and_stays_the_same_on_resuming(tmp_path):
    """Its planes and channels differ from the student's, so simple ko must keep past boards."""
    shape = dataclasses.replace(
        make_plan(tiny.config()).learner.network, features="zero", channels=4
    )
    blank = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), network.shapes(shape))
    path = weights.save(tmp_path / "teacher.safetensors", blank, shape, 3)
    config = tiny.config(tmp_path / "run", teacher=path)
    plan = make_plan(config)
    assert plan.teacher == dataclasses.replace(shape, board_size=3)
    assert plan.rules.remember
    assert ", the teacher " in memory.check(plan)
    mesh, state = devices.mesh_of(1), types.SimpleNamespace(play_params=None)
    placed = jax.tree.leaves(Loop(plan, mesh, state)._play_params[1])
    where = NamedSharding(mesh, devices.EVERYWHERE)
    assert [(x.sharding, x.committed) for x in placed] == [(where, True)] * len(placed)
    with TrainFolder(config) as begun:
        begun.begin(folders.manifest(0), None, teacher_of(config).sha256)
    assert folder.read_config(config.folder).teacher == path
    with (
        TrainFolder(config) as again,
        pytest.raises(ValueError, match=r"--teacher .*: the run in"),
    ):
        again.begin(folders.manifest(0), None, "another")


def test_hosts_compare_the_files_of_weights_and_teacher(given, tmp_path, monkeypatch):
    """Before anything of a run is compiled."""
    sha256, compared = hashlib.sha256(given[0].read_bytes()).hexdigest(), []
    monkeypatch.setattr(hosts, "check_same", compared.append)
    monkeypatch.setattr(run, "TrainFolder", None)  # no further
    with pytest.raises(TypeError, match="NoneType"):
        run.run(tiny.config(tmp_path / "run", size=5, teacher=given[0]))
    assert compared[-1] == {"the SHA-256 of --weights": None, "the SHA-256 of --teacher": sha256}


@pytest.mark.thorough
def test_a_katago_network_teaches_a_run_and_is_rated_with_it(tmp_path, capsys):
    """Under simple ko and in two komis, from the run's first iteration to its table of ratings."""
    path = tmp_path / "tiny.bin.gz"
    path.write_bytes(katago_files.data(katago_files.model(8), packed=True))
    config = tiny.config(tmp_path / "run", teacher=path, outcome_share=0.0, iterations=2)
    assert run.run(config) == 0
    manifest = json.loads((config.folder / "manifest.json").read_text())
    assert manifest["teacher_sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    lines = folder.read_lines(config.folder / folder.METRICS)
    assert [line["iteration"] for line in lines] == [1, 2]
    assert lines[-1]["steps"] > 0
    small = ("--games", "2", "--simulations", "2", "--openings", "2")
    assert evaluate.main(["--out", str(config.folder), *small, "--against", str(path)]) == 0
    assert f"| {path} |" in capsys.readouterr().out


@pytest.mark.thorough
@pytest.mark.parametrize("symmetries", ["one", "all"])
def test_rows_have_the_teachers_targets(symmetries, tmp_path):
    """The rows in the ring have the teacher's policy and value, as evaluated from each row; or the
    means of its probabilities and values over the eight images of a row, each made by the
    learner."""
    shape = dataclasses.replace(make_plan(tiny.config()).learner.network, features="zero")
    params = jax.jit(network.init, static_argnums=0)(shape, jax.random.key(7))
    path = weights.save(tmp_path / "teacher.safetensors", params, shape, 3)
    config = tiny.config(teacher=path, features="zero", teacher_symmetries=symmetries)
    plan, mesh = make_plan(config), devices.mesh_of(1)
    loop = Loop(plan, mesh, steps.begin(plan, mesh))
    loop.iterate()
    ring = jax.tree.map(lambda x: x[0], loop.state.playing.buffer)
    rows = ring.rows.take(jnp.arange(int(ring.size)))
    of_image = lambda k: _evaluated(plan, params, rows, k)
    images = [of_image(k) for k in range(1 if symmetries == "one" else 8)]
    of_images, values = zip(*images, strict=True)
    policy = np.mean([jax.nn.softmax(jnp.asarray(logits)) for logits in of_images], axis=0)
    value = np.mean(values, axis=0)
    unmoved = jnp.zeros(rows.num_rows, jnp.int32)
    _, targets = learner.batch_of(plan.rules, plan.learner, rows, unmoved)
    policy = np.where(targets.legal, policy, 0)
    policy /= policy.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(rows.root_value, value, atol=1e-5)
    np.testing.assert_allclose(targets.policy_target, policy, atol=4e-3)


def _evaluated(plan, params, rows, k):
    """(the logits of the rows' own actions, the values), of image k as the learner makes it."""
    image = jnp.full(rows.num_rows, k)
    inputs, _ = learner.batch_of(plan.rules, plan.learner, rows, image)
    output = network.apply(plan.teacher, params, inputs)
    sources = np.asarray(symmetry.map_actions(3, jnp.arange(10), k))
    logits = np.zeros_like(output.policy_logits)
    logits[:, sources] = output.policy_logits
    return logits, output.value


def test_a_teacher_of_katago_teaches_its_plain_policy(tmp_path):
    path = tmp_path / "teacher.bin"
    path.write_bytes(katago_files.data(katago_files.model(12, [katago_files.ORDINARY])))
    teacher = make_plan(tiny.config(teacher=path)).teacher_evaluator
    assert (teacher.about["optimism"], teacher.about["root_optimism"]) == (1.0, 0.0)


@pytest.mark.parametrize("game", ["go", "connect4", "hex"])
def test_searches_evaluate_in_the_symmetries_of_the_flag(game):
    of_go = {} if game == "go" else {"game": game, "size": None, "komi": (), "auxiliary": False}
    about = lambda **flags: make_plan(tiny.config(**of_go, **flags)).evaluator.about
    assert "symmetries" not in about()
    assert [about(symmetries=name)["symmetries"] for name in ("random", "all")] == ["random", "all"]


@pytest.mark.parametrize("flag", ["symmetries", "teacher_symmetries"])
def test_a_game_without_symmetries_is_evaluated_as_it_stands(flag, monkeypatch):
    game = connect_four_game()._replace(symmetries=None)
    monkeypatch.setattr("train.plan.rules_of", lambda config: game)
    config = tiny.config(game="connect4", size=None, komi=(), auxiliary=False, **{flag: "all"})
    message = f"--{flag.replace('_', '-')} all: connect4 has no symmetries; expected one"
    with pytest.raises(ValueError, match=message):
        make_plan(config)


def test_the_teachers_symmetries_need_a_teacher(capsys):
    with pytest.raises(SystemExit):
        run.parse(["--preset", "3x3", "--teacher-symmetries", "all"])
    assert "--teacher-symmetries all: only with --teacher" in capsys.readouterr().err
