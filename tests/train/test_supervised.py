"""`python -m train`: losses fall, weights load, and bad input gives one line and status 2."""

import contextlib
import errno
import gc
import io
import json
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

import jax
import numpy as np
import pytest

from gozero.go.rules import Rules
from gozero.nets import network, weights
from tests.attack.selfplay_runs import FullDisk
from train import optimizer
from train import supervised as command

ROOT = pathlib.Path(__file__).parents[2]
SMALL = ["--blocks", "1", "--channels", "8", "--batch-size", "32"]


@pytest.fixture(scope="module")
def trained(folder, tmp_path_factory):
    """(stdout, stderr, the weights file) of one real run."""
    out = tmp_path_factory.mktemp("out") / "new" / "w.safetensors"
    argv = ["--data", folder, "--steps", 200, *SMALL, "--learning-rate", 0.01, "--out", out]
    with (
        contextlib.redirect_stdout(io.StringIO()) as output,
        contextlib.redirect_stderr(io.StringIO()) as messages,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(sys, "argv", ["train", *map(str, argv)])
        assert command.main() == 0, messages.getvalue()
    return output.getvalue(), messages.getvalue(), out


def run_program(argv):
    return subprocess.run(
        [sys.executable, "-m", "train", *map(str, argv)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.slow  # the same in its own process
def test_a_run_of_the_program(folder, tmp_path):
    argv = ["--data", folder, "--steps", 2, *SMALL, "--out", tmp_path / "w.safetensors"]
    done = run_program(argv)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("2 steps: ")
    assert "2/2 steps" in done.stderr
    assert weights.load(tmp_path / "w.safetensors", 5)[0] == network.NetworkConfig(1, 8)


def test_losses_fall_and_are_recorded(trained):
    output, messages, out = trained
    about = weights.load(out)[2]
    before, after = about["losses_before"], about["losses"]
    floor = before["target_entropy"]
    assert after["policy"] - floor < 0.2 * (before["policy"] - floor)
    assert after["value"] < 0.9 * before["value"]
    assert after["holdout_policy"] < before["holdout_policy"]
    assert about["steps"] == 200
    assert about["seed"] == 0
    assert about["command"][:2] == ["python -m train", "--data"]
    assert re.fullmatch(
        r"200 steps: policy \S+ -> \S+ \(floor \S+\), value \S+ -> \S+; held out: policy .*; "
        rf"[\d,]+ positions/s; weights in {re.escape(str(out))}\n",
        output,
    )
    assert "200/200 steps" in messages
    lines = out.with_suffix(".metrics.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["step"] == 200


def test_weights_read_back_give_the_same_outputs(trained, tmp_path):
    *_, out = trained
    shape, params, _ = weights.load(out, 5)
    assert shape == network.NetworkConfig(1, 8)
    again = weights.save(tmp_path / "again.safetensors", params, shape, 5)
    planes = jax.random.normal(jax.random.key(0), (3, 5, 5, 9))
    outputs = [network.apply(shape, weights.load(path, 5)[1], planes) for path in (out, again)]
    jax.tree.map(np.testing.assert_array_equal, *outputs)
    assert np.isfinite(outputs[0].value).all()


@pytest.mark.parametrize(
    "larger", [(), pytest.param(("--blocks", "2", "--channels", "9"), marks=pytest.mark.thorough)]
)
def test_training_continues_from_weights(folder, trained, tmp_path, larger):
    """A larger network begins as the smaller one computes."""
    *_, old = trained
    argv = ["--data", str(folder), "--steps", "2", "--batch-size", "32", "--weights", str(old)]
    argv += larger
    assert command.main([*argv, "--out", str(tmp_path / "next.safetensors")]) == 0
    first, then = (weights.load(path)[2] for path in (old, tmp_path / "next.safetensors"))
    assert then["losses_before"] == pytest.approx(first["losses"], rel=1e-3)
    assert (then["blocks"], then["channels"]) == ((2, 9) if larger else (1, 8))


def test_training_continues_on_rows_of_simple_ko(tmp_path):
    """They have past boards, although the rules by which they were played keep none."""
    shape, path = network.NetworkConfig(1, 4, "full"), tmp_path / "w.safetensors"
    weights.save(path, network.init(shape, jax.random.key(0)), shape, 5)
    config = command.SupervisedConfig(data=tmp_path, out=tmp_path / "x", weights=path)
    assert command._initial(config, Rules(5, "simple"))[0] == shape


WRITES = 10
"""Writes of a run of two steps: the metrics file, created and written twice; the weights, created
and written twice; and three folders, which already exist."""
FOLDERS, CLAIM, METRICS = (1, 5, 8), 2, (3, 4)


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize(
    "n", [pytest.param(n, marks=[pytest.mark.slow] * (n != 3)) for n in range(1, WRITES + 1)]
)
def test_a_full_disk_is_one_line(folder, tmp_path, capsys, n, alone):
    """Full from the n-th write on, or at that one only: the weights are saved if there is room."""
    out = tmp_path / "w.safetensors"
    argv = ["--data", str(folder), "--steps", "2", *SMALL, "--out", str(out)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "INTERVAL_S", 0.0)
        patch.setattr(command.tempfile, "gettempdir", lambda: str(tmp_path))
        disk = FullDisk(patch.setattr, n, alone)
        try:
            status = command.main(argv)
        except SystemExit as stop:
            status = stop.code
    stderr_lines = capsys.readouterr().err.splitlines()
    assert not list(tmp_path.glob("*.part"))
    if alone and n in FOLDERS:
        assert (status, disk.count) == (0, WRITES)
        return
    assert status == (2 if n <= CLAIM else 1)
    disk_errors = [line for line in stderr_lines if "No space left on device" in line]
    assert disk_errors == stderr_lines[-1:]
    if alone and n in METRICS:
        assert weights.load(out)[2]["steps"] == 1 + METRICS.index(n)
        assert "w.metrics.jsonl" in disk_errors[0]
        assert disk_errors[0].endswith(f"stopped after step {1 + METRICS.index(n)}")


def test_weights_that_cannot_be_written_are_kept_elsewhere(folder, tmp_path, monkeypatch, capsys):
    out, write = tmp_path / "w.safetensors", command._write
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setattr(command.tempfile, "gettempdir", lambda: str(tmp_path / "elsewhere"))

    def full(*args):
        if args[-1] == out:
            raise OSError(errno.ENOSPC, "No space left on device", str(out))
        write(*args)

    monkeypatch.setattr(command, "_write", full)
    with pytest.raises(SystemExit) as stop:
        command.main(["--data", str(folder), "--steps", "2", *SMALL, "--out", str(out)])
    assert stop.value.code == 1
    [kept] = (tmp_path / "elsewhere").iterdir()
    assert capsys.readouterr().err.splitlines()[-1].endswith(f"the weights are in {kept}")
    assert weights.load(kept, 5)[2]["steps"] == 2


def test_a_nan_stops_and_keeps_the_last_good_weights(folder, tmp_path, capsys):
    out = tmp_path / "w.safetensors"
    argv = ["--data", str(folder), "--steps", "50", *SMALL, "--learning-rate", "1e30"]
    with pytest.raises(SystemExit) as stop:
        command.main([*argv, "--out", str(out)])
    assert stop.value.code == 1
    assert "nan or infinite loss after step" in capsys.readouterr().err.splitlines()[-1]
    _, params, about = weights.load(out, 5)  # refuses what is not finite
    assert about["steps"] < 50
    assert np.isfinite(about["losses"]["policy"])
    assert len(jax.tree.leaves(params)) > 0


@pytest.mark.parametrize(("rate", "kept"), [("1e-2", "ema"), ("1e30", "good")])
def test_the_average_is_saved_or_the_last_good_weights(folder, tmp_path, monkeypatch, rate, kept):
    saves, save = [], command._save
    monkeypatch.setattr(command, "_save", lambda *args: (saves.append(args), save(*args)))
    out = tmp_path / "w.safetensors"
    argv = ["--data", str(folder), "--steps", "6", *SMALL, "--learning-rate", rate]
    with contextlib.suppress(SystemExit):
        command.main([*argv, "--out", str(out)])
    assert [args[2] is args[1].ema for args in saves] == [True, kept == "ema"]
    state = saves[-1][1]
    assert int(state.step) == 6 if kept == "ema" else int(state.step) < 6
    jax.tree.map(np.testing.assert_array_equal, weights.load(out, 5)[1], getattr(state, kept))


@pytest.mark.parametrize("steps", [1, 2, 1000])
def test_the_learning_rate_falls(folder, tmp_path, steps):
    out = tmp_path / "w.safetensors"
    job = command._prepare(command.SupervisedConfig(folder, steps, out=out))
    config = command._learner_config(job).optimizer
    rates = [float(optimizer.learning_rate(config, step)) for step in range(steps)]
    assert max(rates) == pytest.approx(config.learning_rate, rel=0.02)
    assert rates[-1] == pytest.approx(config.learning_rate * (0.01 if steps > 1 else 1), rel=0.02)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (["--data", "nowhere"], "data nowhere: no such folder"),
        (["--data", "{tmp}"], "data {tmp}: it has no shards/"),
        (["--steps", "0"], "--steps 0: expected at least 1"),
        (["--steps", "many"], "--steps many: expected a whole number"),
        (["--batch-size", "0"], "--batch-size 0: expected at least 1"),
        (["--learning-rate", "0"], "--learning-rate 0.0: expected above 0"),
        (["--learning-rate", "nan"], "--learning-rate nan: expected a finite number above 0"),
        (["--weight-decay", "-1"], "--weight-decay -1.0: expected at least 0"),
        (["--holdout-fraction", "1"], "--holdout-fraction 1.0: expected from 0 to below 1"),
        (["--channels", "0"], "--channels 0: expected at least 1"),
        (["--lr", "1"], "unknown flag --lr; did you mean --learning-rate?"),
        (["--out", "{file}/w.safetensors"], "--out {file}/w.safetensors: cannot be written"),
        (["--out", "{file}"], "--out {file}: not a .safetensors file"),
        (["--out", "{old}"], "{old} already exists"),
        (
            ["--weights", "{old}", "--channels", "7"],
            "--channels 7: the network in {old} has 8; omit --channels",
        ),
        (["--weights", "{tmp}/none.safetensors"], "there is no file"),
        (["--weights", "{larger}"], "made for 7x7, not for 5x5"),
    ],
)
def test_bad_input(folder, trained, tmp_path, capsys, change, complaint):
    names = {"tmp": tmp_path, "old": trained[-1], "file": tmp_path / "file"}
    names["file"].write_text("not a folder")
    names["larger"] = tmp_path / "larger.safetensors"
    if "{larger}" in change:
        shape = network.NetworkConfig(1, 8)
        weights.save(names["larger"], network.init(shape, jax.random.key(0)), shape, 7)
    before = snapshot(tmp_path, folder, trained[-1].parent)
    argv = ["--data", str(folder), *SMALL[4:], "--out", str(tmp_path / "w.safetensors")]
    argv += [argument.format(**names) for argument in change]
    with pytest.raises(SystemExit) as stop:
        command.main(argv)
    output = capsys.readouterr()
    assert (stop.value.code, output.out, output.err.count("\n")) == (2, "", 1)
    assert output.err.startswith("python -m train: ")
    assert complaint.format(**names) in output.err
    assert snapshot(tmp_path, folder, trained[-1].parent) == before


def snapshot(*folders):
    return {p: p.read_bytes() for folder in folders for p in folder.rglob("*") if p.is_file()}


def copied(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "copy")
    return tmp_path / "copy", sorted((tmp_path / "copy" / "shards").iterdir())[1]


def damaged(shard):
    """The shard with some bytes in the middle of an array overwritten."""
    with zipfile.ZipFile(shard) as archive:
        start = archive.getinfo("policy_target.npy").header_offset + 200
    data = bytearray(shard.read_bytes())
    data[start : start + 100] = b"\xff" * 100
    return data


def cut(shard):
    return shard.read_bytes()[:-300]


def encrypted(shard):
    """The shard with the encryption bit set in a member's header."""
    data = bytearray(shard.read_bytes())
    data[data.index(b"PK\1\2") + 8] |= 1
    return data


@pytest.mark.parametrize("damage", [damaged, cut, encrypted])
def test_a_damaged_shard(folder, tmp_path, capsys, damage):
    gc.freeze()  # collecting what other tests allocated takes seconds
    copy, shard = copied(folder, tmp_path)
    shard.write_bytes(damage(shard))
    with pytest.raises(SystemExit) as stop:
        command.main(["--data", str(copy)])
    assert stop.value.code == 2
    line = capsys.readouterr().err
    assert line.startswith(f"python -m train: shard {shard}: damaged or not a shard")
    assert line.count("\n") == 1
    assert not list(copy.glob("weights*"))
    del stop
    gc.collect()  # a file left open warns here, not in another test
    gc.unfreeze()


def test_a_wrong_command_has_no_traceback():
    done = run_program(["--data", "nowhere"])
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("python -m train: data nowhere: ")
    assert "Traceback" not in done.stderr


def test_help(capsys):
    with pytest.raises(SystemExit) as stop:
        command.main(["--help"])
    assert not stop.value.code
    assert "--learning-rate" in capsys.readouterr().out
