"""A resumed run equals one that was never stopped, bit for bit."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.apps import runtime
from gozero.nets import network, weights
from gozero.nets.network import NetworkConfig
from gozero.play import devices
from gozero.play.rows import policy_shares
from gozero.runs import arrays as array_files
from gozero.runs import files
from tests.nets import katago_files
from tests.train import tiny
from tests.train.tiny import untimed
from train import checkpoint, folder, matches, run, steps
from train.loop import Loop
from train.mirror import Mirror
from train.plan import make_plan

ROOT = pathlib.Path(__file__).parents[2]


def arrays(state):
    """The leaves as NumPy arrays; of keys, their data."""
    is_key = lambda x: jnp.issubdtype(x.dtype, jax.dtypes.prng_key)
    return [np.asarray(jax.random.key_data(x) if is_key(x) else x) for x in jax.tree.leaves(state)]


def assert_same(state, expected):
    for one, other in zip(arrays(state), expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.fixture(scope="module")
def whole():
    """(arrays, metrics, replay buffer) of an uninterrupted run of four iterations."""
    mesh = devices.mesh_of(1)
    plan = make_plan(tiny.config())
    loop = Loop(plan, mesh, steps.begin(plan, mesh))
    numbers = [untimed(loop.iterate()) for _ in range(4)]
    assert loop.steps > 4
    assert loop.games > 4
    return arrays(loop.state), numbers, loop.state.playing.buffer


def test_replayed_rows_are_valid(whole):
    """The policy targets are distributions over legal actions, and all numbers are finite."""
    buffer, count = whole[2], whole[1][-1]["added"]
    assert (buffer.size.tolist(), buffer.added.tolist()) == ([count], [count])
    rows = jax.tree.map(lambda x: np.asarray(x[0, :count]), buffer.rows)
    target = policy_shares(np, rows.policy_target)
    np.testing.assert_allclose(target.sum(axis=1), 1, atol=1e-6)
    assert (rows.policy_target.max(axis=1) == 255).all()
    assert not target[np.unpackbits(rows.legal, axis=1, count=10) == 0].any()
    assert set(np.unique(rows.outcome)) == {-1, 1}
    assert set(np.unique(rows.komi)) == {8.5, 9.5}
    for leaf in jax.tree.leaves(rows):
        assert np.isfinite(leaf).all()


def test_playing_ahead_changes_nothing(whole):
    mesh = devices.mesh_of(1)
    plan = make_plan(tiny.config())
    loop = Loop(plan, mesh, steps.begin(plan, mesh))
    numbers, ahead = [], []
    for goes_on in (True, True, False, False):
        numbers.append(untimed(loop.iterate(lambda goes_on=goes_on: goes_on)))
        ahead.append(loop.is_ahead)
    assert ahead == [True, True, False, False]
    assert numbers == whole[1]
    assert_same(loop.state, whole[0])


MEMORY = pytest.param("memory://", 2, marks=pytest.mark.slow)


@pytest.mark.parametrize(("place", "last"), [("", 2), ("", 3), MEMORY])
def test_sigterm_saves_and_the_same_command_resumes(
    place, last, whole, tmp_path, monkeypatch, capsys
):
    """A SIGTERM during the second iteration, or once the third's games have begun."""
    config = tiny.config(pathlib.Path(f"{place}{tmp_path}/run"), checkpoint_every=last + 1)
    iterate = Loop.iterate

    def interrupted(loop, goes_on):
        if (last, loop.iteration) == (2, 1):
            os.kill(os.getpid(), signal.SIGTERM)
        numbers = iterate(loop, goes_on)
        if (last, loop.iteration) == (3, 2):
            os.kill(os.getpid(), signal.SIGTERM)
        return numbers

    monkeypatch.setattr(Loop, "iterate", interrupted)
    assert run.run(config) == runtime.TERMINATED
    assert f"{last} of 4 iterations" in capsys.readouterr().out
    with Mirror(config):
        saved = checkpoint.saved_in(config.folder / "checkpoints")
        assert [one.iteration for one in saved] == [last]

    monkeypatch.setattr(Loop, "iterate", iterate)
    assert run.run(config) == 0
    assert f"resuming after iteration {last}" in capsys.readouterr().err
    with Mirror(config):
        lines = folder.read_lines(config.folder / "metrics.jsonl")
        loop = begun(config)
    assert [untimed(line) for line in lines] == whole[1]
    assert loop.iteration == 4
    assert_same(loop.state, whole[0])
    keys = {entry.key for entry in config.shared.list("")}
    assert keys >= {
        *("config.json", "manifest.json", "weights.safetensors", "weights/000004.safetensors")
    }


@pytest.mark.thorough
def test_sigterm_stops_a_match_of_the_gate_which_is_played_on_resuming(tmp_path, monkeypatch):
    def play(terms, first, second, numbers, progress):
        if stops and stops.pop(0):
            os.kill(os.getpid(), signal.SIGTERM)
        progress(1, terms.games)
        return terms

    stops: list = []  # whether to stop each of the next matches
    won = {"won": 3, "drawn": 0, "lost": 1, "score": 0.75}
    monkeypatch.setattr(matches, "play", play)
    monkeypatch.setattr(matches, "line_of", lambda *_: won)
    own, config = (tiny.config(tmp_path / name, gate=0.55, gate_every=2) for name in ("own", "run"))
    assert run.run(own) == 0
    for iteration, turns in ((2, [True]), (2, [True]), (4, [False, True])):
        stops[:] = turns
        assert run.run(config) == runtime.TERMINATED  # also after the last iteration
        last = folder.read_lines(config.folder / folder.METRICS)[-1]
        assert (last["iteration"], "gate" in last) == (iteration, False)
        assert begun(config).gate_due
    assert run.run(config) == 0
    lines, expected = (folder.read_lines(one.folder / folder.METRICS) for one in (config, own))
    assert [*map(untimed, lines)] == [*map(untimed, expected)]
    for name in ("000002", "000004"):
        written, wanted = (
            weights.load(folder.weights_file(one.folder, name))[1] for one in (config, own)
        )
        assert_same(written, arrays(wanted))
    loop = begun(config)
    assert loop.play_missed_gate()["gate_passed"]
    assert_same(loop.state, arrays(begun(own).state))


def test_a_run_continues_while_a_checkpoint_is_written(tmp_path, monkeypatch):
    """The second iteration's is written until the third is done, with the second's weights."""
    config = tiny.config(tmp_path / "run", checkpoint_every=1)
    iterate, save, third = Loop.iterate, checkpoint.save, threading.Event()
    held = {}

    def iterates(loop, goes_on):
        numbers = iterate(loop, goes_on)
        held[loop.iteration] = jax.device_get(loop.state.play_params)
        if loop.iteration == 3:
            third.set()
        return numbers

    def saves(where, iteration, *rest):
        assert iteration != 2 or third.wait(60)
        return save(where, iteration, *rest)

    monkeypatch.setattr(Loop, "iterate", iterates)
    monkeypatch.setattr(checkpoint, "save", saves)
    assert run.run(config) == 0
    saved = checkpoint.saved_in(config.folder / "checkpoints")
    assert [one.iteration for one in saved] == [4, 3]
    like = tiny.placed(make_plan(config), devices.mesh_of(1))
    for one in saved:
        state, about = checkpoint.restore(one, like)
        assert about["iteration"] == one.iteration
        jax.tree.map(np.testing.assert_array_equal, state.play_params, held[one.iteration])
    for iteration, params in held.items():
        file = folder.weights_file(config.folder, f"{iteration:06d}")
        _, written, about = weights.load(file)
        assert about["iteration"] == iteration
        jax.tree.map(np.testing.assert_array_equal, written, params)


def test_the_averaged_parameters_play_and_are_written(tmp_path, monkeypatch):
    config = tiny.config(tmp_path / "run")
    get_play, played = Loop._play, []

    def watched(loop, simulations):
        def play(params, playing):
            state = loop.state.learner
            played.append([arrays(tree) for tree in (params, state.ema, state.params)])
            return get_play(loop, simulations)(params, playing)

        return play

    monkeypatch.setattr(Loop, "_play", watched)
    assert run.run(config) == 0
    assert len(played) == 4
    for params, ema, _ in played:
        assert_same(params, ema)
    learner = begun(config).state.learner
    written = weights.load(config.folder / folder.NEWEST, 3)[1]
    assert_same(written, arrays(learner.ema))
    for ema, params in (played[-1][1:], (arrays(written), arrays(learner.params))):
        assert any((one != other).any() for one, other in zip(ema, params, strict=True))


@pytest.mark.parametrize("minutes", [0.0, None])
def test_a_signal_does_not_interrupt_the_last_save(tmp_path, monkeypatch, capsys, minutes):
    """A first signal once --minutes are over, or a second one after the one that ended the run."""
    config = tiny.config(tmp_path / "run", minutes=minutes, checkpoint_every=3)
    iterate, save = Loop.iterate, checkpoint.save
    end = run._Session._end
    terminate = lambda: os.kill(os.getpid(), signal.SIGTERM)

    def iterates(loop, goes_on):
        if minutes is None:
            terminate()
        return iterate(loop, goes_on)

    def not_at_once(session, *rest):
        return end(session, *rest) if session.loop.iteration else run.End.NOT_YET

    def saves(*what):
        terminate()
        return save(*what)

    monkeypatch.setattr(Loop, "iterate", iterates)
    monkeypatch.setattr(run._Session, "_end", not_at_once)
    monkeypatch.setattr(checkpoint, "save", saves)
    assert run.run(config) == (runtime.TERMINATED if minutes is None else 0)
    assert "1 of 4 iterations" in capsys.readouterr().out
    assert [one.iteration for one in checkpoint.saved_in(config.folder / "checkpoints")] == [1]


@pytest.mark.thorough
def test_weights_missing_for_a_checkpoint_are_written_on_resuming(tmp_path, capsys):
    config = tiny.config(tmp_path / "run", iterations=2)
    mesh = devices.mesh_of(1)
    plan = make_plan(config)
    tiny.claim(config)
    state = steps.begin(plan, mesh)
    checkpoint.save(config.folder / "checkpoints", 2, state, tiny.host_state(2))
    (config.folder / "checkpoints" / ".000004.part").mkdir()
    assert run.run(config) == 0
    assert "2 of 2 iterations" in capsys.readouterr().out
    assert not (config.folder / "checkpoints" / ".000004.part").exists()
    newest = config.folder / folder.NEWEST
    for text in ("", "{}"):
        newest.write_text(text)
        assert run.run(config) == 0
        assert f"weights {newest}: damaged" in capsys.readouterr().err
    params = state.learner.ema
    assert folder.has_weights(config.folder, 2, params)
    assert not folder.has_weights(config.folder, 1, params)
    other = jax.tree.map(lambda x: x + 1, params)
    assert not folder.has_weights(config.folder, 2, other)


def test_ctrl_c_has_its_own_exit_status(tmp_path, monkeypatch):
    monkeypatch.setattr(
        Loop, "iterate", lambda loop, *_: os.kill(os.getpid(), signal.SIGINT) or {"iteration": 0}
    )
    monkeypatch.setattr("train.display.Display.add", lambda *_: None)
    assert run.run(tiny.config(tmp_path / "run")) == 130


def test_a_full_disk_for_the_metrics_ends_the_run_with_a_message(tmp_path, monkeypatch, capsys):
    def full(number):
        raise OSError(errno.ENOSPC, "No space left on device")

    def iterate(loop, *_):
        monkeypatch.setattr(files.os, "fsync", full)
        return {"iteration": 0}

    monkeypatch.setattr(Loop, "iterate", iterate)
    with pytest.raises(SystemExit) as stop:
        run.run(tiny.config(tmp_path / "run"))
    assert stop.value.code == 1
    last_line = capsys.readouterr().err.splitlines()[-1]
    assert f"No space left on device: '{tmp_path / 'run' / 'metrics.jsonl'}'" in last_line


def test_a_full_disk_for_the_weights_is_reported_and_keeps_the_checkpoint(
    tmp_path, monkeypatch, capsys
):
    config = tiny.config(tmp_path / "run")
    session = run._Session(make_plan(config), begun(config))
    session.loop.iteration = 2
    file = config.folder / "weights" / "000002.safetensors"
    write_whole = array_files.write_whole

    def full(path, *rest, **more):
        if path == file:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        write_whole(path, *rest, **more)

    monkeypatch.setattr(array_files, "write_whole", full)
    with pytest.raises(SystemExit) as stop:
        session.save()
    assert stop.value.code == 1
    last_line = capsys.readouterr().err.splitlines()[-1]
    assert f"No space left on device: '{file}'" in last_line
    assert "the checkpoint of iteration 2 is kept" in last_line
    assert begun(config).iteration == 2


def test_a_failed_upload_does_not_count_as_a_checkpoint(tmp_path, monkeypatch, capsys):
    config = tiny.config(tmp_path / "run")
    session = run._Session(make_plan(config), begun(config))
    session.loop.iteration = 2

    def fails(iteration):
        raise OSError("no connection")

    monkeypatch.setattr(session.mirror, "commit", fails)
    with pytest.raises(SystemExit) as stop:
        session.save()
    assert stop.value.code == 1
    last_line = capsys.readouterr().err.splitlines()[-1]
    assert "no connection; the checkpoint of iteration 0 is kept, if there is one" in last_line


EVERY_OPTION = {
    "root": "puct",
    "leaves": 2,
    "reuse_subtree": True,
    "forced_playouts": 2.0,
    "root_temperature": 1.1,
    "root_value": "policy",
    "transpositions": True,
    "features": "zero",
    "temperature": 0.8,
    "cheap_simulations": 2,
    "full_share": 0.75,
    "gate": 0.5,
    "gate_every": 1,
    "gate_games": 4,
    "evaluate_simulations": 2,
}


def numbered(shape):
    """An array (or keys) of this shape and dtype, with different entries."""
    if jnp.issubdtype(shape.dtype, jax.dtypes.prng_key):
        data = jax.eval_shape(jax.random.key_data, shape)
        return jax.random.wrap_key_data(numbered(data))
    return jnp.asarray((np.arange(shape.size) % 101).reshape(shape.shape), shape.dtype)


def test_a_checkpoint_holds_reused_trees_and_past_boards(tmp_path):
    plan, mesh = make_plan(tiny.config(**EVERY_OPTION)), devices.mesh_of(1)
    shapes = jax.eval_shape(lambda: steps.begin(plan, mesh))
    assert shapes.playing.lanes.tree.capacity == 9  # room for the kept subtree and four simulations
    assert shapes.playing.buffer.rows.past.shape == (1, 500, 7, 2, 1)
    assert jax.tree.structure(shapes.player) == jax.tree.structure(shapes.learner.ema)
    state = jax.tree.map(numbered, shapes)
    saved = checkpoint.save(tmp_path, 1, state, {})
    like = jax.tree.map(
        lambda x, where: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=where),
        shapes,
        steps.shardings(shapes, mesh),
    )
    assert_same(checkpoint.restore(saved, like)[0], arrays(state))


GUMBEL_OPTIONS = {
    "leaves": 2,
    "transpositions": True,
    "first_simulations": 2,
    "symmetries": "random",
}
KILLED = {
    "puct-full-no-ladders-teacher": EVERY_OPTION | {"features": "full-no-ladders", "teacher": True},
    "gumbel-play-bf16": GUMBEL_OPTIONS | {"play_dtype": "bfloat16"},
    "gumbel-bf16-start": GUMBEL_OPTIONS
    | {"symmetries": "all", "dtype": "bfloat16", "weights": True, "opening_searched": True},
    "puct-int8-katago": {
        "root": "puct",
        "symmetries": "random",
        "c_puct": 2.0,
        "play_dtype": "int8",
        "teacher": "katago",
    },
    "puct-zero": EVERY_OPTION,
    "puct-full-teacher": EVERY_OPTION | {"features": "full", "teacher": True},
    "gumbel-full-situational": GUMBEL_OPTIONS | {"features": "full", "ko": "situational"},
    "gumbel-teacher": GUMBEL_OPTIONS
    | {"teacher": True, "teacher_symmetries": "all", "gate": 0.5, "gate_every": 2},
}


def given_network(folder, name, kind):
    """The file of a tiny teacher of other planes than the run's, of a KataGo network as the
    teacher, or of weights from which a run of more channels starts."""
    if kind == "katago":
        path = folder / "teacher.bin.gz"
        path.write_bytes(katago_files.data(katago_files.model(8), packed=True))
        return path
    own = {"features": "zero"} if name == "teacher" else {"pool_every": 1, "auxiliary": True}
    shape = NetworkConfig(blocks=1, channels=4, **own)
    params = network.init(shape, jax.random.key(1))
    return weights.save(folder / f"{name}.safetensors", params, shape, 3)


@pytest.mark.thorough
@pytest.mark.parametrize("options", KILLED.values(), ids=KILLED)
def test_a_kill_with_every_option_is_replayed_identically(options, tmp_path, as_here):
    """kill -9 during an iteration: what follows the last checkpoint is replayed identically."""
    kinds = {name: options[name] for name in ("teacher", "weights") if name in options}
    options = options | {name: str(given_network(tmp_path, name, kinds[name])) for name in kinds}
    mesh, plan = devices.mesh_of(1), make_plan(tiny.config(tmp_path / "whole", **options))
    loop = Loop(plan, mesh, steps.begin(plan, mesh, run.initial_params(plan)[0]))
    numbers = [untimed(loop.iterate()) for _ in range(4)]
    assert loop.games > 4
    assert loop.steps > 2
    config = tiny.config(tmp_path / "run", **options)
    code = (
        "import os, pathlib, signal, sys\n"
        "from tests.train import tiny\n"
        "from train import run\n"
        "from train.loop import Loop\n"
        "iterate = Loop.iterate\n"
        "def killed(loop, *args):\n"
        "    if loop.iteration == 3: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return iterate(loop, *args)\n"
        "Loop.iterate = killed\n"
        f"run.run(tiny.config(pathlib.Path(sys.argv[1]), **{options!r}))\n"
    )
    command = [sys.executable, "-c", code, str(config.folder)]
    done = subprocess.run(command, cwd=ROOT, env=as_here, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    again = begun(config)
    assert again.iteration == 2
    assert [untimed(again.iterate()) for _ in range(2)] == numbers[2:]
    assert_same(again.state, arrays(loop.state))


def killed_in_a_save(config, as_here):
    """Run, in a subprocess that kills itself in the middle of its last save."""
    code = (
        "import os, pathlib, signal, sys\n"
        "from tests.train import tiny\n"
        "from train import checkpoint, run\n"
        "describe = checkpoint._write_about\n"
        "def killed(path, iteration, *rest):\n"
        "    if iteration == 4: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    describe(path, iteration, *rest)\n"
        "checkpoint._write_about = killed\n"
        "run.run(tiny.config(pathlib.Path(sys.argv[1])))\n"
    )
    command = [sys.executable, "-c", code, str(config.folder)]
    done = subprocess.run(command, cwd=ROOT, env=as_here, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr


def copied_in_a_save(config, monkeypatch):
    """Copy what is on the disk at that moment, which is what a kill leaves."""
    own, describe = tiny.config(config.folder.with_name("own")), checkpoint._write_about

    def copied(path, iteration, *rest):
        if iteration == 4:
            shutil.copytree(own.folder, config.folder)
        describe(path, iteration, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "_write_about", copied)
        assert run.run(own) == 0


@pytest.mark.thorough
@pytest.mark.parametrize("kill", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_kill_during_a_save_resumes_from_the_previous_checkpoint(
    kill, whole, tmp_path, as_here, monkeypatch
):
    config = tiny.config(tmp_path / "run")
    if kill:
        killed_in_a_save(config, as_here)
    else:
        copied_in_a_save(config, monkeypatch)
    assert (config.folder / "checkpoints" / ".000004.part" / "arrays").is_dir()

    loop = begun(config)
    assert loop.iteration == 2
    numbers = [untimed(loop.iterate()) for _ in range(2)]
    assert numbers == whole[1][2:]
    assert_same(loop.state, whole[0])
    assert loop.host_state["games"] == numbers[-1]["games"]


def begun(config):
    mesh = devices.mesh_of(1)
    return run.begin(make_plan(config), mesh)


def test_a_damaged_checkpoint_is_reported_and_the_previous_one_used(tmp_path, capsys):
    config = tiny.config(tmp_path / "run")
    mesh = devices.mesh_of(1)
    plan = make_plan(config)
    state = steps.begin(plan, mesh)
    for iteration in (2, 4):
        checkpoint.save(config.folder / "checkpoints", iteration, state, tiny.host_state(iteration))
    newest, older = checkpoint.saved_in(config.folder / "checkpoints")
    file = max((newest.path / "arrays").rglob("*"), key=lambda path: path.stat().st_size)
    file.write_bytes(file.read_bytes()[:-1])
    assert run.begin(plan, mesh).iteration == 2
    assert f"{newest.path}: its file" in capsys.readouterr().err
    assert newest.path.with_name("000004.damaged").is_dir()
    assert checkpoint.saved_in(config.folder / "checkpoints") == [older]

    (older.path / "about.json").write_text("{")
    with pytest.raises(ValueError, match="is damaged"):
        run.begin(plan, mesh)


@pytest.mark.thorough
def test_weights_without_a_checkpoint_are_set_aside(tmp_path):
    """Iteration 4 left weights but no checkpoint; the run resumes after 2 and ends at 3."""
    config = tiny.config(tmp_path / "run", iterations=2, checkpoint_every=1)
    assert run.run(config) == 0
    kept = config.folder / "weights"
    assert sorted(path.stem for path in kept.glob("*.safetensors")) == [
        "000000",
        "000001",
        "000002",
    ]
    for name in ("000004.safetensors", "000005.npz", "000005.json"):
        (kept / name).write_bytes((kept / "000002.safetensors").read_bytes())
    assert run.run(dataclasses.replace(config, iterations=3)) == 0
    assert max(path.stem for path in kept.glob("[0-9]*")) == "000003"
    assert {"later-000004.safetensors", "later-000005.npz", "later-000005.json"} < {
        path.name for path in kept.iterdir()
    }


def test_weights_set_aside_twice_are_both_kept(tmp_path):
    (tmp_path / "weights").mkdir()
    path = tmp_path / "weights/000020.safetensors"
    for times in range(3):
        path.write_text(str(times))
        assert folder.set_later_weights_aside(tmp_path, 10) == [path]
    kept = {one.name: one.read_text() for one in (tmp_path / "weights").iterdir()}
    assert kept == {f"later{n}-000020.safetensors": str(i) for i, n in enumerate(("", 2, 3))}


def spoil(loop):
    """Make the loop's next loss nan."""
    learner = loop.state.learner
    params = jax.tree.map(lambda x: x * jnp.nan, learner.params)
    loop.state = loop.state.replace(learner=learner.replace(params=params))


@pytest.mark.thorough
def test_a_checkpoint_with_a_nan_loss_is_set_aside(tmp_path, monkeypatch, capsys):
    config = tiny.config(tmp_path / "run", iterations=6)
    iterate = Loop.iterate

    def spoilt(loop, *how):
        numbers = iterate(loop, *how)
        if loop.iteration == 4:  # the checkpoint is bad, which only the next loss shows
            spoil(loop)
        return numbers

    monkeypatch.setattr(Loop, "iterate", spoilt)
    with pytest.raises(SystemExit):
        run.run(config)
    *_, aside, last_line = capsys.readouterr().err.splitlines()
    assert "renamed to 000004.damaged" in aside
    assert "nan or infinite loss in iteration 5" in last_line
    assert "the checkpoint of iteration 2 is kept" in last_line
    assert begun(config).iteration == 2


def test_a_nan_stops_the_run_and_keeps_the_last_checkpoint(tmp_path, monkeypatch, capsys):
    config = tiny.config(tmp_path / "run")
    iterate = Loop.iterate

    def spoilt(loop, *how):
        if loop.iteration == 3:
            spoil(loop)
        return iterate(loop, *how)

    monkeypatch.setattr(Loop, "iterate", spoilt)
    with pytest.raises(SystemExit) as stop:
        run.run(config)
    assert stop.value.code == 1
    last_line = capsys.readouterr().err.splitlines()[-1]
    assert "nan or infinite loss in iteration 4" in last_line
    assert "the checkpoint of iteration 2 is kept" in last_line
    tiny.claim(dataclasses.replace(config, learning_rate=1e-4))  # as the message advises
    assert begun(config).iteration == 2


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """The folder of a finished run."""
    config = tiny.config(tmp_path_factory.mktemp("done") / "run")
    assert run.run(config) == 0
    return config.folder


@pytest.fixture
def copied(done, tmp_path):
    """The config of a copy of that run."""
    return tiny.config(shutil.copytree(done, tmp_path / "copy"))


@pytest.mark.thorough
def test_weights_of_a_finished_run_are_verified_and_written_again(copied, capsys):
    newest, numbered, first = (
        copied.folder / name
        for name in (folder.NEWEST, "weights/000004.safetensors", "weights/000000.safetensors")
    )
    right, old = newest.read_bytes(), first.read_bytes()
    network, params, _ = weights.load(first)
    other = weights.save(copied.folder / "other.safetensors", params, network, 3, iteration=4)
    for path, wrong in [(newest, None), (newest, b""), (newest, old), (numbered, b"")] + [
        (path, other.read_bytes()) for path in (newest, numbered)
    ]:
        path.unlink()
        if wrong is not None:
            path.write_bytes(wrong)
        assert run.run(copied) == 0
        messages = [
            line for line in capsys.readouterr().err.splitlines() if "writing them again" in line
        ]
        assert [f"weights {path}" in line for line in messages] == [True]
        assert newest.read_bytes() == numbered.read_bytes() == right


def test_metrics_without_a_checkpoint_are_not_overwritten(copied):
    """Later weights, or the number of lines, tell it from a kill before the first checkpoint."""
    metrics = copied.folder / folder.METRICS
    text = metrics.read_text()
    for gone in ("checkpoints", "weights"):
        shutil.rmtree(copied.folder / gone)
        with pytest.raises(ValueError, match="metrics of 4 iterations but no checkpoint to resume"):
            run.run(copied)
        assert metrics.read_text() == text


def test_a_run_killed_before_the_first_checkpoint_restarts(copied):
    metrics = copied.folder / folder.METRICS
    lines = folder.read_lines(metrics)
    files.write_lines(metrics, lines[:2])
    shutil.rmtree(copied.folder / "checkpoints")
    (copied.folder / "weights" / "000004.safetensors").unlink()
    (copied.folder / "weights" / "000002.safetensors").unlink()
    assert run.run(copied) == 0
    assert [*map(untimed, folder.read_lines(metrics))] == [*map(untimed, lines)]


def test_without_a_readable_checkpoint_the_options_are_explained(copied):
    for one in checkpoint.saved_in(copied.folder / "checkpoints"):
        (one.path / "about.json").write_bytes(b"")
    newest = copied.folder / folder.NEWEST
    ways = f"about.json is damaged .*; restore its checkpoints; .* --weights {newest} to begin"
    with pytest.raises(ValueError, match=ways):
        run.run(copied)
    elsewhere = make_plan(tiny.config(copied.folder / "new", weights=newest))
    assert_same(run.initial_params(elsewhere)[0], arrays(weights.load(newest)[1]))


@pytest.mark.parametrize("name", ["iteration", "workers", "done"])
def test_a_record_without_checksum_and_a_key_is_refused(copied, capsys, name):
    newest, _ = checkpoint.saved_in(copied.folder / "checkpoints")
    path = newest.path / "about.json"
    record = json.loads(path.read_text()) | {"format": "gozero-run-2"}
    del record["sha256"]
    path.write_text(json.dumps(record))
    assert begun(copied).iteration == 4  # as earlier versions wrote it
    holder = record["about"]["workers"] if name == "done" else record["about"]
    holder["x" + name] = holder.pop(name)
    path.write_text(json.dumps(record))
    assert begun(copied).iteration == 2
    assert "000004: about.json is damaged" in capsys.readouterr().err


def test_damaged_lines_are_reported_and_kept(copied, capsys):
    path = copied.folder / folder.METRICS
    whole = path.read_bytes()
    odd = [b"\xff", b"12", b"null", b"{}", b'{"iteration": "2"}', b"[" * 100_000]
    damaged = b"".join(line + b"\n" for line in odd)
    path.write_bytes(damaged + whole + b'{"iteration": 5')
    assert run.run(copied) == 0
    messages = [line for line in capsys.readouterr().err.splitlines() if "damaged" in line]
    assert len(messages) == 1
    assert f"{path}, line 1 is damaged: " in messages[0]
    assert "6 damaged lines in all, moved to metrics.jsonl.damaged" in messages[0]
    assert path.read_bytes() == whole
    assert path.with_name("metrics.jsonl.damaged").read_bytes() == damaged


@pytest.mark.parametrize("name", ["config.json", "manifest.json"])
@pytest.mark.parametrize("text", ["12", "[" * 100_000, '{"a":' * 985 + "1" + "}" * 985])
def test_invalid_settings_files_are_one_line(copied, name, text):
    path = copied.folder / name
    path.write_text(text)
    with pytest.raises(
        ValueError, match=rf"{name} (cannot be read|is not of|does not belong to)"
    ) as error:
        run.run(copied)
    assert "\n" not in str(error.value)
    assert path.read_text() == text
