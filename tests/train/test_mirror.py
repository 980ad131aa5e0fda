"""A run in a bucket: what is uploaded and downloaded, and which of two processes ends."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

from gozero.runs import store
from gozero.runs.folder import lock_file
from tests.train import tiny
from train.folder import LOCK
from train.mirror import Mirror

pytest.importorskip("obstore")


@pytest.fixture
def config(tmp_path):
    return tiny.config(pathlib.Path(f"memory://{tmp_path}/run"))


class Machine:
    """A machine that trains the run, with its own local folder."""

    def __init__(self, config, folder):
        self.folder, self.config = folder, config
        self.mirror = Mirror(config)
        self.mirror.folder = folder

    def start(self):
        self.mirror.__enter__()
        return self

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def save(self, iteration, who="a"):
        name = f"checkpoints/{iteration:06d}"
        self.write(f"{name}/arrays/d/0", f"{who} {iteration}")
        self.write(f"{name}/about.json", f"{who} {iteration}")
        self.mirror.commit(iteration)

    def forget(self, iteration):
        for path in sorted((self.folder / f"checkpoints/{iteration:06d}").rglob("*"))[::-1]:
            path.unlink() if path.is_file() else path.rmdir()

    def names(self):
        return sorted(str(p.relative_to(self.folder)) for p in self.folder.rglob("*.*"))


@pytest.fixture
def machine(config, tmp_path):
    return lambda name: Machine(config, tmp_path / name).start()


def keys(config):
    return [entry.key for entry in config.shared.list("")]


def test_another_machine_resumes_from_the_newest_checkpoint(config, machine):
    first = machine("a")
    first.write("config.json", "{}")
    first.write("run.lock", "")
    for iteration in (10, 20, 30):
        first.forget(iteration - 20)
        first.save(iteration)
        first.write("metrics.jsonl", str(iteration))
        first.mirror.push()
    config.shared.create("shards/00000001/a-000000.zst", b"")
    config.shared.put("checkpoints/000040/arrays/d/0", b"of a kill")
    of = lambda n: [f"checkpoints/{n:06d}/{name}" for name in ("about.json", "arrays/d/0")]
    there = lambda n: [
        *(x.replace(f"{n:06d}", f"{n:06d}/{first.mirror._id}") for x in of(n)),
        f"checkpoints/{n:06d}/whole",
    ]
    assert keys(config) == [
        *(*there(20), *there(30), of(40)[1], "config.json", "metrics.jsonl"),
        "shards/00000001/a-000000.zst",
    ]
    second = machine("b")
    assert second.names() == [of(20)[0], of(30)[0], "config.json", "metrics.jsonl"]
    assert (second.folder / of(30)[1]).read_text() == "a 30"
    assert (second.folder / "metrics.jsonl").read_text() == "30"
    second.save(40, "b")
    assert machine("c").names()[:3] == [of(n)[0] for n in (20, 30, 40)]


def test_a_second_trainer_ends_without_overwriting(config, machine):
    first = machine("a")
    first.save(10)
    second = machine("b")
    second.save(20, "b")
    for iteration in (20, 30):
        with pytest.raises(ValueError, match=r"another process is training .* of iteration 20$"):
            first.save(iteration)
    second.save(30, "b")
    third = machine("c")
    for name in ("about.json", "arrays/d/0"):
        assert (third.folder / "checkpoints/000020" / name).read_text() == "b 20"


def test_a_trainer_that_missed_many_checkpoints_ends_too(config, machine):
    first = machine("a")
    first.save(10)
    second = machine("b")
    for iteration in (20, 30, 40):
        second.forget(iteration - 20)
        second.save(iteration, "b")
    with pytest.raises(ValueError, match=r"of iteration 40$"):
        first.save(20)


def test_a_second_trainer_overwrites_no_records(config, machine):
    """It has begun before the first one saved, and brings its copy of the records to its start."""
    first = machine("a")
    first.save(10)
    second = machine("b")
    first.write("metrics.jsonl", "up to 20")
    first.save(20)
    second.write("metrics.jsonl", "up to 10")
    with pytest.raises(ValueError, match=r"another process is training .* of iteration 20$"):
        second.mirror.push()
    assert config.shared.get("metrics.jsonl", 99) == b"up to 20"


def test_renamed_files_leave_the_bucket(config, machine):
    first = machine("a")
    first.write("weights/000020.safetensors", "")
    first.save(10)
    path = first.folder / "weights/000020.safetensors"
    path.rename(path.with_name("later-000020.safetensors"))
    first.mirror.forget([path])
    first.mirror.push()
    assert [key for key in keys(config) if key.startswith("weights")] == [
        "weights/later-000020.safetensors"
    ]


def test_a_damaged_checkpoint_is_written_again(config, machine):
    first = machine("a")
    for iteration in (10, 20):
        first.save(iteration)
    second = machine("b")
    second.forget(20)
    second.mirror.drop_after(10)
    assert not [key for key in keys(config) if key.startswith("checkpoints/000020")]
    second.save(20, "b")
    assert (machine("c").folder / "checkpoints/000020/about.json").read_text() == "b 20"


def test_concurrent_writes_keep_the_first_checkpoint(config, machine, monkeypatch):
    first, second = machine("a"), machine("b")
    monkeypatch.setattr(second.mirror, "push", lambda: first.save(10))
    with pytest.raises(ValueError, match=r"of iteration 10$"):
        second.save(10, "b")
    third = machine("c")
    for name in ("about.json", "arrays/d/0"):
        assert (third.folder / "checkpoints/000010" / name).read_text() == "a 10"


def test_a_checkpoint_that_is_not_in_the_bucket_is_kept(config, machine, monkeypatch, capsys):
    first = machine("a")
    first.save(10)

    def fails(*_):
        raise OSError("no connection")

    monkeypatch.setattr(type(config.shared), "create", fails)
    with pytest.raises(OSError, match="no connection"):
        first.save(20)
    first.mirror.__exit__(OSError, None, None)
    kept = first.folder.with_name(f"a-{first.mirror._id}")
    assert capsys.readouterr().err.endswith(f"the run's local folder is kept: {kept}\n")
    assert (kept / "checkpoints/000020/about.json").read_text() == "a 20"
    assert not first.folder.exists()


@pytest.mark.parametrize("error", [None, OSError])
def test_the_folder_is_deleted_once_all_is_in_the_bucket(machine, error):
    first = machine("a")
    first.save(10)
    first.mirror.__exit__(error, None, None)
    assert list(first.folder.parent.iterdir()) == []


def test_folders_of_killed_processes_are_deleted(config, tmp_path):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    lead = f"gozero-0123-{ended.pid}"
    names = (lead, f"{lead}-89abcdef", f"gozero-4567-{ended.pid}", f"gozero-0123-{os.getppid()}")
    for name in (*names, f"gozero-0123-{2**70}"):
        (tmp_path / name).mkdir()
    machine = Machine(config, tmp_path / f"gozero-0123-{os.getpid()}")
    with lock_file(tmp_path / lead / LOCK, "", ""):
        machine.mirror._sweep()
        assert (tmp_path / lead).exists(), "a process in another container has this number"
    machine.start()
    assert {path.name for path in tmp_path.iterdir()} == {*names[1:], f"gozero-0123-{2**70}"}


def test_a_run_in_a_folder_has_no_mirror(tmp_path):
    config = tiny.config(tmp_path / "run")
    tiny.claim(config)
    with Mirror(config) as mirror:
        mirror.drop_after(0)
        mirror.commit(10)
        mirror.push()
    assert {path.name for path in config.folder.iterdir()} == {"config.json", "run.lock"}


def test_the_folder_of_a_run(tmp_path, config):
    assert tiny.config(pathlib.Path("file:///x/y")).folder == pathlib.Path("/x/y")
    assert tiny.config(pathlib.Path("x/y")).folder == pathlib.Path("x/y")
    other = tiny.config(pathlib.Path("memory:///other"))
    assert other.folder != config.folder == tiny.config(config.out).folder
    assert config.plain["out"] == f"memory://{tmp_path}/run"
    assert isinstance(config.shared, store.Bucket)
    with pytest.raises(ValueError, match="a run on several hosts needs a folder that they share"):
        tiny.config(config.out, coordinator="auto")
