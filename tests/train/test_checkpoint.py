"""Checkpoints on disk: round trips, and everything that can be wrong with one."""

from __future__ import annotations

import errno
import json
import logging
import os
import random
import resource
import shutil
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from train import checkpoint

STATE = {
    "numbers": jnp.arange(6, dtype=jnp.float16).reshape(2, 3),
    "none": None,
    "empty": jnp.zeros((4, 0), jnp.uint32),
    "keys": jax.random.split(jax.random.key(3), 2),
    "step": (jnp.int32(7), jnp.bool_(True)),
}


def like(state):
    return jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), state
    )


@pytest.fixture
def saved(tmp_path):
    return checkpoint.save(tmp_path, 12, STATE, {"games": 5})


def test_checkpoints_round_trip(saved):
    state, about = checkpoint.restore(saved, like(STATE))
    assert about == {"games": 5}
    assert saved.path.name == "000012"
    assert jax.tree.structure(state) == jax.tree.structure(STATE)
    for one, other in zip(jax.tree.leaves(state), jax.tree.leaves(STATE), strict=True):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        if jnp.issubdtype(one.dtype, jax.dtypes.prng_key):
            one, other = map(jax.random.key_data, (one, other))
        np.testing.assert_array_equal(one, other)


def test_a_checkpoint_has_the_state_at_its_begin(tmp_path, monkeypatch):
    save, deleted = checkpoint.save, threading.Event()
    monkeypatch.setattr(checkpoint, "save", lambda *what: deleted.wait(60) and save(*what))
    state = jax.tree.map(jnp.copy, STATE)
    about = {"games": 5, "sources": [[1, "a"]]}
    written = checkpoint.begin(tmp_path, 12, state, about)
    about["sources"].append([2, "b"])
    jax.tree.map(lambda array: array.delete(), state)
    assert not written.done()
    deleted.set()
    found, about = checkpoint.restore(written.result(60), like(STATE))
    assert about == {"games": 5, "sources": [[1, "a"]]}
    assert jax.tree.all(jax.tree.map(lambda one, other: (one == other).all(), found, STATE))


def test_arrays_missing_in_earlier_versions_are_zeros(saved, monkeypatch):
    expected = like(STATE | {"since": jnp.ones((2, 3))})
    with pytest.raises(ValueError, match=r"\['since'\] is missing"):
        checkpoint.restore(saved, expected)
    monkeypatch.setattr(checkpoint, "_ADDED_LATER", {"['since']"})
    state, _ = checkpoint.restore(saved, expected)
    np.testing.assert_array_equal(state.pop("since"), np.zeros((2, 3), np.float32))
    assert state.keys() == STATE.keys()


def test_everything_is_synced_before_the_rename(tmp_path, monkeypatch):
    synced, fsync = set(), os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (synced.add(os.fstat(file).st_ino), fsync(file)))
    place = checkpoint.save(tmp_path / "checkpoints", 12, STATE, {}).path
    for path in (tmp_path, tmp_path / "checkpoints", place, *place.rglob("*")):
        assert path.stat().st_ino in synced, path


def test_the_newest_are_kept_in_order(tmp_path):
    (tmp_path / ".000009.part").mkdir(parents=True)
    (tmp_path / "000011").mkdir()  # incomplete
    for iteration in (2, 10, 4):
        checkpoint.save(tmp_path, iteration, STATE, {})
    assert [one.iteration for one in checkpoint.saved_in(tmp_path)] == [10, 4]


def test_folders_of_other_names_are_ignored(saved):
    for name in ("000040-backup", "40", "000041.damaged"):
        shutil.copytree(saved.path, saved.path.with_name(name))
    assert checkpoint.saved_in(saved.path.parent) == [saved]
    longer = shutil.copytree(saved.path, saved.path.with_name("1000000"))
    assert checkpoint.saved_in(saved.path.parent) == [(longer, 1000000), saved]


def test_leftovers_of_kills_are_deleted(saved):
    for name in (".000013.part", ".000014.part", "mine.part"):
        (saved.path.with_name(name) / "arrays").mkdir(parents=True)
    checkpoint.sweep(saved.path.parent)
    assert {path.name for path in saved.path.parent.iterdir()} == {"000012", "mine.part"}


def test_damaged_checkpoints_do_not_count_among_the_kept(saved):
    for _ in range(2):
        damaged = checkpoint.save(saved.path.parent, 14, STATE, {})
        checkpoint.set_aside([damaged])
    for iteration in (13, 15):
        checkpoint.save(saved.path.parent, iteration, STATE, {})
        names = {path.name for path in saved.path.parent.iterdir()}
        assert names - {"000012"} >= {f"{iteration:06d}", "000014.damaged"}
    assert [one.iteration for one in checkpoint.saved_in(saved.path.parent)] == [15, 13]


def test_a_read_error_counts_as_damage(saved, monkeypatch):
    def broken(file, digest):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(checkpoint.hashlib, "file_digest", broken)
    with pytest.raises(
        ValueError, match=r"000012: its files cannot be read \(.*Input/output error"
    ):
        checkpoint.restore(saved, like(STATE))


def test_a_device_out_of_memory_is_not_damage(saved, monkeypatch):
    import orbax.checkpoint as ocp

    def restore(reader, path, args):
        raise RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 1 bytes")

    monkeypatch.setattr(ocp.Checkpointer, "restore", restore)
    with pytest.raises(RuntimeError, match="RESOURCE_EXHAUSTED"):
        checkpoint.restore(saved, like(STATE))


def test_a_full_disk_keeps_earlier_checkpoints(saved, monkeypatch):
    def write(path, named):
        path.mkdir()
        (path / "half").write_bytes(b"x")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoint, "_write_arrays", write)
    with pytest.raises(OSError, match=r"000013 cannot be written \(.*No space left on device"):
        checkpoint.save(saved.path.parent, 13, STATE, {})
    assert [path.name for path in saved.path.parent.iterdir()] == ["000012"]
    checkpoint.restore(saved, like(STATE))


@pytest.fixture
def loud(monkeypatch):
    """Restores after the test what `checkpoint` silences for good after an error."""
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    for name in ("absl", "asyncio"):
        monkeypatch.setattr(logging.getLogger(name), "disabled", False)


def test_a_write_error_is_reported_once(saved, loud, capfd, caplog):
    """Orbax's threads would log a traceback for each array."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (600, limits[1]))
    try:
        with pytest.raises(OSError, match="000013 cannot be written") as error:
            checkpoint.save(saved.path.parent, 13, STATE, {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "\n" not in str(error.value)
    assert capfd.readouterr().err == ""
    assert not caplog.records
    checkpoint.save(saved.path.parent, 13, STATE, {})


def test_any_flipped_bit_of_the_record_is_found(saved):
    path = saved.path / "about.json"
    data, draw = path.read_bytes(), random.Random(29)
    for bit in draw.sample(range(8 * len(data)), 300):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        with pytest.raises(ValueError, match=r"about\.json is damaged|this version reads"):
            checkpoint.restore(saved, like(STATE))
    path.write_bytes(data)
    checkpoint.restore(saved, like(STATE))


def without_checksum(saved, **changes):
    """Rewrite a record as earlier versions wrote it."""
    path = saved.path / "about.json"
    record = json.loads(path.read_text()) | {"format": "gozero-run-2"} | changes
    del record["sha256"]
    path.write_text(json.dumps({name: value for name, value in record.items() if value != ()}))


def test_a_record_of_an_earlier_version_is_read(saved):
    without_checksum(saved)
    assert checkpoint.restore(saved, like(STATE))[1] == {"games": 5}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"more": 1}, "has an unknown key or a wrong type at 'more'"),
        ({"files": ()}, "lacks 'files'"),
        ({"files": []}, "has an unknown key or a wrong type at 'files'"),
        ({"iteration": 13}, "states iteration 13"),
    ],
)
def test_a_record_of_an_earlier_version_with_other_keys_is_refused(saved, changes, message):
    without_checksum(saved, **changes)
    with pytest.raises(ValueError, match=message):
        checkpoint.restore(saved, like(STATE))


def damaged(saved):
    file = next(path for path in (saved.path / "arrays").rglob("*") if path.is_file())
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(bytes(data))


def missing(saved):
    next(path for path in (saved.path / "arrays").rglob("*") if path.is_file()).unlink()


def edited(**changes):
    def edit(saved):
        path = saved.path / "about.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return edit


def cut(saved):
    path = saved.path / "about.json"
    path.write_text(path.read_text()[:-20])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (damaged, r"its file .* is damaged"),
        (missing, r"its file .* is missing"),
        (edited(format="gozero-run-0"), "has format 'gozero-run-0'; this version reads"),
        (cut, "about.json is damaged"),
        (edited(arrays={}), "about.json is damaged"),
    ],
)
def test_damage_is_described(saved, damage, message):
    damage(saved)
    with pytest.raises(ValueError, match=message) as error:
        checkpoint.restore(saved, like(STATE))
    assert str(saved.path) in str(error.value)


def test_another_network_is_named(saved):
    other = {**STATE, "numbers": jnp.zeros((2, 4), jnp.float16)}
    with pytest.raises(
        ValueError, match=r"\['numbers'\] is float16\[2, 3\] in it, and float16\[2, 4\]"
    ):
        checkpoint.restore(saved, like(other))
