"""Several hosts: their flags, what they agree on, and that together they are one run."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import pathlib
import random
import signal
import socket
import subprocess
import sys
import time

import jax
import numpy as np
import pytest
from jax.sharding import AbstractMesh, AxisType, SingleDeviceSharding

from gozero.nets import network, weights
from gozero.play import shards
from tests.train import hosts_check, hosts_reader_check, tiny, worker_runs
from train import checkpoint, folder, hosts, quarantine, steps
from train.plan import make_plan

ROOT = pathlib.Path(__file__).parents[2]
EVALUATED = ("--evaluate-every", "1", "--evaluate-games", "2", "--evaluate-simulations", "2")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"coordinator": "here"}, "--coordinator here: expected HOST:PORT or auto"),
        ({"coordinator": "here:1"}, "--coordinator here:1: needs --processes and --process"),
        ({"processes": 2, "process": 0}, "need --coordinator HOST:PORT"),
        ({"coordinator": "auto", "process": 0}, "need --coordinator HOST:PORT"),
        ({"coordinator": "here:1", "processes": 2, "process": 2}, "from 0 to below the 2 of"),
        ({"coordinator": "here:1", "processes": 2, "process": -1}, "--process -1"),
    ],
)
def test_bad_flags_are_refused(flags, message):
    with pytest.raises(ValueError, match=message):
        tiny.config(**flags)


def test_the_process_number_does_not_distinguish_runs(tmp_path):
    config = tiny.config(tmp_path / "run", coordinator="here:1", processes=2, process=0)
    assert not tiny.claim(config)
    assert tiny.claim(tiny.config(config.folder, coordinator="there:2", processes=4, process=3))


def test_a_single_host_needs_no_agreement():
    assert hosts.is_first()
    assert hosts.greatest(3) == 3
    assert hosts.broadcast_from_first([5, 2, 0]) == [5, 2, 0]
    assert hosts.run_on_each(lambda: "done") == "done"
    with pytest.raises(OSError, match="full"):
        hosts.run_on_first(full_disk)


def full_disk():
    raise OSError("full")


def test_a_failure_on_another_host_is_raised_here(monkeypatch):
    monkeypatch.setattr(hosts, "greatest", lambda number: max(number, 3))
    with pytest.raises(hosts.OtherHostFailed, match="process 2 failed"):
        hosts.run_on_each(lambda: "done")
    with pytest.raises(OSError, match="full"):
        hosts.run_on_each(full_disk)


def test_an_unshared_folder_is_refused(tmp_path):
    file = tmp_path / "config.json"
    with pytest.raises(ValueError, match="give a folder that all hosts share"):
        hosts.check_shared(file, patience_s=0)
    file.touch()
    hosts.check_shared(file, patience_s=0)


def test_broadcasts_are_not_truncated(monkeypatch):
    facts = {"--komi": [7.0, 8.5], "--weights": None, "--out": "Läufe", "--rate": 1e-4}
    assert hosts.broadcast_from_first(facts) == facts
    monkeypatch.setattr(
        hosts, "greatest", lambda number: number + 9
    )  # another host's message is longer
    assert hosts.broadcast_from_first(facts) == facts


def test_a_host_with_other_flags_is_refused_by_name(tmp_path, monkeypatch):
    broadcast = []
    monkeypatch.setattr(
        hosts, "broadcast_from_first", lambda facts: broadcast.append(facts) or facts
    )
    own = tiny.config(tmp_path / "a", coordinator="here:1", processes=2, process=0)
    hosts.check_flags(own)
    assert broadcast[0].keys() > {"--batch", "--learning-rate", "--weights", "--processes"}
    monkeypatch.setattr(hosts, "broadcast_from_first", lambda _: broadcast[0])
    own = dataclasses.replace(own, out=tmp_path / "b", coordinator="there:1", process=1)
    hosts.check_flags(own)
    wrong = r"^--batch is 16 here, and 8 at process 0; give the same value at every host$"
    with pytest.raises(ValueError, match=wrong):
        hosts.check_flags(dataclasses.replace(own, batch=16))
    monkeypatch.setattr(hosts, "broadcast_from_first", lambda _: {"SHA": "1f"})
    with pytest.raises(ValueError, match=r"^SHA is None here, and 1f at process 0"):
        hosts.check_same({"SHA": None})


@pytest.mark.thorough
def test_each_process_reads_its_share_of_the_shards(tmp_path, as_here):
    """Together they read each shard once, including a damaged one and later ones."""
    config = worker_runs.config_in(tmp_path / "run", **{"capacity": 300, "surprise": 0.5})
    sizes = [30, 1, 47, 200, 9, 64, 3, 120, 5, 18, 77]
    for number, size in enumerate(sizes):
        worker_runs.write_shard(config, "a", number, size)
    bad, later = worker_runs.write_shard(config, "bad", 0, 9)[0], config.folder / "later"
    bad.write_bytes(bad.read_bytes()[:-100])
    later.mkdir()
    for number in range(6, len(sizes)):
        (path := bad.with_name(f"a-{number:06d}.npz")).rename(later / path.name)
    reports = reading(as_here, config.folder)
    known = [one["known"] for one in reports]
    assert known[0] == known[1]
    assert (known[0]["read"], known[0]["skipped"], known[0]["rows"]) == (11, 1, sum(sizes))
    assert known[0]["host_state"]["done"] == {"a": [[0, 10]], "bad": [[0, 0]]}

    opened = [set(one["opened"]) for one in reports]
    assert not opened[0] & opened[1]
    assert sorted(opened[0] | opened[1]) == sorted(f"shards/{p.name}" for p in bad.parent.iterdir())
    assert sum(len(one["opened"]) for one in reports) == 12  # none twice
    dealt = [size for size, _ in known[0]["dealt"]]
    largest = max(path.stat().st_size for path in bad.parent.iterdir())
    assert abs(dealt[0] - dealt[1]) <= largest
    check_rings(config, reports)


def reading(env, out):
    """The JSON output of each of two processes that read a run's shards."""
    env = env | {
        "XLA_FLAGS": f"{env.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2"
    }
    place = a_free_port()
    command = ("tests.train.hosts_reader_check", out, place)
    done = finish([start(env, process, module=command) for process in ("0", "1")])
    assert [one.returncode for one in done] == [0, 0], done[0].stderr + done[1].stderr
    return [json.loads(one.stdout.splitlines()[-1]) for one in done]


def check_rings(config, reports):
    """Each row of each shard is in exactly one ring, with its shard's number; the two rings of a
    process hold equally many rows, give or take one."""
    plan, expected = make_plan(config), []
    for number, name, _ in reports[0]["known"]["sources"]:
        shard = shards.read(config.folder / "shards" / name, plan.rules_record)
        rows = shard.rows.replace(game=np.full_like(shard.rows.game, -number))
        leaves = jax.tree.leaves((rows, shard.frequency.astype(np.int32)))
        expected += [
            hosts_reader_check.digest([x[i] for x in leaves]) for i in range(shard.about.rows)
        ]
    found = [row for one in reports for ring in one["rings"].values() for row in ring]
    assert sorted(found) == sorted(expected)
    for one in reports:
        counts = [len(ring) for ring in one["rings"].values()]
        assert len(counts) == 2
        assert max(counts) - min(counts) <= 1


@pytest.mark.slow
def test_two_processes_are_one_run(tmp_path, as_here):
    """One gets SIGTERM and both stop, before an evaluation; they resume, make up for it, and end
    with the same state as one process with two devices."""
    whole, shared = tmp_path / "whole", tmp_path / "shared"
    check_one_run(as_here, whole, shared, 4, *EVALUATED)

    first, second = pair(as_here, "--out", shared, "--seed", "1")
    assert (first.returncode, second.returncode) == (2, 2)
    assert "--seed was 0 and is 1" in first.stderr
    assert "process 0 failed" in second.stderr

    first, second = pair(as_here, "--out", shared, last=("--iterations", "9"))
    assert (first.returncode, second.returncode) == (2, 2)
    assert "process 1 failed" in first.stderr
    assert "--iterations is 9 here, and 4 at process 0; give the same value" in second.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("processes", "killed", "slurm"), [(2, 1, False), (4, 0, True)])
def test_a_gang_resumes_after_losing_any_process(processes, killed, slurm, tmp_path, as_here):
    """When a process gets SIGTERM or is killed, the others end too; the same command then reaches,
    bit for bit, the end of an uninterrupted gang. Slurm or flags give the process numbers."""
    whole, shared = tmp_path / "whole", tmp_path / "shared"
    env = as_here | {"DEVICES": str(processes)}
    gang = functools.partial(slurm_gang if slurm else flags_gang, processes)
    done = gang(env | {"UNSTOPPED": "1"}, "--out", whole)
    assert [one.returncode for one in done] == [0] * processes, done[0].stderr

    stopped = gang(env, "--out", shared)
    assert [one.returncode for one in stopped] == [143] * processes, stopped[0].stderr
    assert "1 of 4 iterations" in stopped[0].stdout
    began = time.monotonic()
    lost = gang(env | {"KILLED": str(killed)}, "--out", shared)
    print(f"ended after {time.monotonic() - began:.0f} s: {[one.returncode for one in lost]}")
    assert lost[killed].returncode == -signal.SIGKILL
    assert all(one.returncode for one in lost)
    assert [one.iteration for one in checkpoint.saved_in(shared / "checkpoints")] == [2, 1]
    done = gang(env, "--out", shared)
    assert [one.returncode for one in done] == [0] * processes, done[0].stderr
    assert "4 of 4 iterations" in done[0].stdout
    check_same(whole, shared, 4, processes)


@pytest.mark.slow
def test_a_run_of_one_process_resumes_as_a_gang_of_two(tmp_path, as_here):
    """On twice as many devices, with the games and replay divided between the processes."""
    env, out = as_here | {"UNSTOPPED": "1"}, tmp_path / "run"
    (alone,) = finish([start(env | {"DEVICES": "1"}, "--out", out, "--iterations", "2")])
    assert alone.returncode == 0, alone.stderr
    before = newest(out, 2, 1)
    both = flags_gang(2, env, "--out", out, "--iterations", "2")  # loads it, and has nothing to do
    assert [one.returncode for one in both] == [0, 0], both[0].stderr + both[1].stderr
    assert "devices: 2, before 1;" in both[0].stderr
    both = flags_gang(2, env, "--out", out)
    assert [one.returncode for one in both] == [0, 0], both[0].stderr + both[1].stderr
    assert "4 of 4 iterations" in both[0].stdout
    lines = folder.read_lines(out / "metrics.jsonl")
    rows, steps = ([line[name] for line in lines] for name in ("added", "steps"))
    assert rows[1] == before.playing.buffer.added.sum() < rows[2] < rows[3]
    assert steps[1] < steps[3]


def flags_gang(processes, env, *arguments):
    several = ("--coordinator", a_free_port(), "--processes", str(processes), "--process")
    return finish([start(env, *arguments, *several, str(i)) for i in range(processes)])


def slurm_gang(processes, env, *arguments):
    """Start processes as `srun` does: the coordinator's port follows from the job's number."""
    env = env | {"SLURM_JOB_ID": str(random.randrange(2**20)), "SLURM_STEP_NODELIST": "localhost"}
    env |= {"SLURM_NTASKS": str(processes), "SLURM_STEP_NUM_TASKS": str(processes)}
    launched = [env | {"SLURM_PROCID": str(i), "SLURM_LOCALID": str(i)} for i in range(processes)]
    return finish([start(one, *arguments, "--coordinator", "auto") for one in launched])


@pytest.mark.slow
def test_two_processes_with_shards_and_weights_resume_bit_for_bit(tmp_path, as_here):
    config = tiny.config(tmp_path / "whole", devices=hosts_check.DEVICES)
    shape = make_plan(config).learner.network
    params = network.init(shape, jax.random.key(7))
    weights_path = weights.save(tmp_path / "given.npz", params, shape, 5)
    config = dataclasses.replace(config, iterations=2, workers=True, weights=weights_path)
    folders = tmp_path / "whole", tmp_path / "shared"
    for path in folders:
        own = dataclasses.replace(config, out=path)
        tiny.claim(own)
        (path / "shards").mkdir()
        for number, count in enumerate((30, 1, 47)):
            worker_runs.write_shard(own, "a", number, count)
    flags = ("--iterations", "2", "--workers", "--weights", str(weights_path))
    lines = check_one_run(as_here, *folders, 2, *flags, processes=2)
    assert [(line["shards_read"], line["shards_rows"]) for line in lines] == [(3, 78)] * 2
    found = [json.loads((path / "manifest.json").read_text()) for path in folders]
    sha256 = hashlib.sha256(weights_path.read_bytes()).hexdigest()
    assert [one["weights_sha256"] for one in found] == [sha256] * 2


@pytest.mark.slow
def test_two_processes_continue_without_a_poisonous_shard(tmp_path, as_here):
    """In two shards every second row is bad; these shards are removed whole."""
    folders = tmp_path / "whole", tmp_path / "shared"
    config = tiny.config(devices=hosts_check.DEVICES, iterations=3, workers=True)
    for path in folders:
        own = dataclasses.replace(config, out=path)
        tiny.claim(own)
        (path / "shards").mkdir()
        worker_runs.write_shard(own, "a", 0, 40)
        for number in (1, 2):
            spoil(worker_runs.write_shard(own, "bad", number, 40), own, slice(number % 2, None, 2))
    env, flags = as_here | {"UNCHECKED": "1"}, ("--iterations", "3", "--workers")
    lines = check_one_run(env, *folders, 3, *flags, processes=2)
    assert lines[-1]["updates_dropped"] > 0
    assert lines[-1]["steps"] > 0
    for path in folders:
        game = np.asarray(newest(path, 3).playing.buffer.rows.game)
        assert game.shape[0] == hosts_check.DEVICES
        assert [(game == number).sum() for number in (-1, -2, -3)] == [40, 0, 0]
        assert (game == quarantine.GONE).sum() == 80


def spoil(shard, config, some):
    """Give some rows of a shard a score that no game has."""
    path, rows, frequency = shard
    header = shards.rules_of(make_plan(config, hosts_check.DEVICES).rules)
    about = shards.read(path, header).about
    rows.score[some], rows.score_weight[some] = 1e38, 1
    shards.write(path, header, about, rows, frequency)


def check_one_run(env, whole, shared, iterations, *flags, processes=1):
    """An uninterrupted run equals one by two processes that stop after an iteration; returns the
    metrics. The former has one process with two devices, or two processes: which process reads
    a shard depends on their number."""
    both = f"{env.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2"
    if processes == 1:
        alone = finish([start(env | {"XLA_FLAGS": both.strip()}, *flags, "--out", whole)])
    else:
        alone = pair(env | {"UNSTOPPED": "1"}, *flags, "--out", whole)
    assert [one.returncode for one in alone] == [0] * processes, alone[0].stderr

    for done in (1, iterations):
        first, second = pair(env, *flags, "--out", shared)
        status = 143 if done < iterations else 0
        assert {first.returncode, second.returncode} == {status}, first.stderr + second.stderr
        assert f"{done} of {iterations} iterations" in first.stdout
        assert "iterations" not in second.stdout
    return check_same(whole, shared, iterations)


def check_same(whole, shared, iterations, processes=hosts_check.DEVICES):
    """Two runs are the same, bit for bit; returns their metrics."""
    lines = [folder.read_lines(path / "metrics.jsonl") for path in (whole, shared)]
    assert [tiny.untimed(line) for line in lines[0]] == [tiny.untimed(line) for line in lines[1]]
    states = [newest(path, iterations, processes) for path in (whole, shared)]
    for one, other in zip(*map(jax.tree.leaves, states), strict=True):
        np.testing.assert_array_equal(one, other)
    return lines[0]


def start(env, *arguments, module=("tests.train.hosts_check",)):
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-m", *module, *arguments],
        cwd=ROOT,
        env=env | {"JAX_PLATFORMS": "cpu"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def pair(env, *arguments, last=()):
    """Run two processes with a device each, on this machine; `last`: the second's extra flags."""
    several = ("--coordinator", a_free_port(), "--processes", "2", "--process")
    more = [(*several, "0"), (*several, "1", *last)]
    return finish([start(env, *arguments, *flags) for flags in more])


def a_free_port():
    with socket.socket() as free:
        free.bind(("localhost", 0))
        return f"localhost:{free.getsockname()[1]}"


def finish(programs):
    """The processes' output, once all are done; none outlives the test."""
    done = []
    try:
        for program in programs:
            out, err = program.communicate()
            done.append(subprocess.CompletedProcess(program.args, program.returncode, out, err))
    finally:
        for program in programs:
            program.kill()
    return done


def newest(path, iteration, devices=hosts_check.DEVICES):
    """The arrays of the newest checkpoint, unsharded, on this device."""
    plan = make_plan(tiny.config(path, devices=devices), devices)
    mesh = AbstractMesh((plan.num_devices,), (steps.AXIS,), axis_types=(AxisType.Auto,))
    here = SingleDeviceSharding(jax.devices()[0])
    like = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=here), tiny.placed(plan, mesh)
    )
    saved = checkpoint.saved_in(path / "checkpoints")[0]
    assert saved.iteration == iteration
    state = checkpoint.restore(saved, like)[0]
    is_key = lambda x: jax.numpy.issubdtype(x.dtype, jax.dtypes.prng_key)
    return jax.tree.map(lambda x: jax.random.key_data(x) if is_key(x) else x, state)
