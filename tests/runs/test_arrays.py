"""Arrays in files: round trips, and files that are damaged, foreign or old."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pathlib
import pickle
import struct
import tracemalloc
import zipfile

import jax
import numpy as np
import pytest
import safetensors
import safetensors.numpy

from gozero.nets import network, weights
from gozero.nets.network import NetworkConfig
from gozero.playouts.policies.softmax import strengths
from gozero.runs import arrays
from gozero.td import shapes
from gozero.td import weights as shape_weights

OLD = pathlib.Path(__file__).parent / "data"
"""Files that version 0.1 wrote; see `test_files_of_earlier_versions_are_read`."""

HELD = {
    "a/b": np.arange(6, dtype=np.float32).reshape(2, 3),
    "turned": np.arange(6, dtype=np.int16).reshape(2, 3).T,
    "none": np.zeros((0, 4), np.float16),
    "one": np.float32(2.5),
    "flags": np.array([True, False]),
}


@pytest.mark.parametrize("suffix", arrays.SUFFIXES)
def test_arrays_round_trip(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    arrays.write(path, "weights", HELD, {"blocks": 2, "sizes": [5, 7], "sha256": "of another"})
    found, about = arrays.read(path, "weights")
    assert found.keys() == HELD.keys()
    for name, array in HELD.items():
        np.testing.assert_array_equal(found[name], array)
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
    assert (about["blocks"], about["sizes"]) == (2, [5, 7])
    assert about["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    others = [] if suffix == ".safetensors" else ["a.json"]
    assert sorted(p.name for p in tmp_path.iterdir()) == [*others, path.name]


def test_others_can_read_the_file(tmp_path):
    arrays.write(tmp_path / "a.safetensors", "weights", HELD, {"blocks": 2})
    with safetensors.safe_open(tmp_path / "a.safetensors", framework="numpy") as file:
        assert sorted(file.keys()) == sorted(HELD)
        header = file.metadata()
    assert list(header) == ["gozero"]
    assert (
        json.loads(header["gozero"]).items() >= {"format": "gozero-weights-1", "blocks": 2}.items()
    )


def foreign(path):
    path.write_bytes(safetensors.numpy.save({"a": np.zeros(3, np.float32)}))


def flipped(path):
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))


def renamed(path):
    """Rename an array in the file, to a name of the same length."""
    path.write_bytes(path.read_bytes().replace(b'"a/b"', b'"a/c"'))


def huge_header(path):
    path.write_bytes(struct.pack("<Q", 2**60) + path.read_bytes()[8:])


def deep_header(path):
    text = json.dumps("[" * 100_000)
    header = f'{{"__metadata__":{{"gozero":{text}}}}}'.encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header)


def objects(path):
    np.savez(path.with_suffix(".npz"), a=np.array([{}], object), allow_pickle=True)
    path.write_bytes(path.with_suffix(".npz").read_bytes())


def test_columns_in_a_file():
    """All the first bytes come first, then all the second ones; reading restores the arrays."""
    held = {
        "bytes": np.array([[1, 2, 3], [4, 5, 6]], np.uint8),
        "words": np.array([0x0201, 0x0403, 0x0605], "<u2"),
        "blocks": np.arange(24, dtype=np.float32).reshape(2, 3, 4),
        "none": np.zeros((0, 3), np.int32),
        "flags": np.array([True, False]),
    }
    data = arrays.by_columns(held)
    plain = safetensors.numpy.load(data)
    assert plain["bytes"].tobytes() == bytes([1, 4, 2, 5, 3, 6])
    assert plain["words"].tobytes() == bytes([1, 3, 5, 2, 4, 6])
    with arrays.ArrayFile(pathlib.Path("x"), data=data) as file:
        result = file.unpack(held)
    for name, array in held.items():
        assert result[name].dtype == array.dtype
        np.testing.assert_array_equal(result[name], array)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda path: path.unlink(), "there is no file"),
        (lambda path: path.write_bytes(b""), "damaged or not weights"),
        (lambda path: path.write_bytes(path.read_bytes()[:-3]), "damaged or not weights"),
        (lambda path: path.write_bytes(path.read_bytes()[:30]), "damaged or not weights"),
        (lambda path: path.write_bytes(pickle.dumps({"a": 1})), "damaged or not weights"),
        (lambda path: path.write_bytes(b"PK\x03\x04 nonsense"), "damaged or not weights"),
        (foreign, "damaged or not weights"),
        (flipped, "its arrays do not match the digest in its header"),
        (renamed, "its arrays do not match the digest in its header"),
        (huge_header, "damaged or not weights"),
        (deep_header, "damaged or not weights"),
        (objects, "array 'a' is not of plain numbers .objects are not read"),
        (lambda path: arrays.write(path, "strengths", HELD, {}), "'gozero-strengths-1'; expected"),
    ],
)
def test_unreadable_files_give_one_clear_error(tmp_path, damage, says):
    path = tmp_path / "a.safetensors"
    arrays.write(path, "weights", HELD, {})
    damage(path)
    with pytest.raises(ValueError, match=says) as raised:
        arrays.read(path, "weights")
    assert str(path) in str(raised.value)
    assert len(str(raised.value)) < 600


@pytest.mark.parametrize("suffix", arrays.SUFFIXES)
def test_only_regular_files_are_read(tmp_path, suffix):
    """The FIFO has no writer, so opening it to read would block."""
    real, path = tmp_path / f"real{suffix}", tmp_path / f"a{suffix}"
    arrays.write(real, "weights", HELD, {})
    for make, says in (
        (lambda: path.symlink_to(real), "is a link, which is not followed"),
        (lambda: path.symlink_to("/dev/zero"), "is a link, which is not followed"),
        (lambda: os.mkfifo(path), "is not a regular file"),
        (lambda: path.mkdir(), "is not a regular file"),
        (lambda: huge(path), f"has {2**33:,} bytes; expected at most"),
    ):
        make()
        with pytest.raises(ValueError, match=says):
            arrays.read(path, "weights")
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    with pytest.raises(ValueError, match="is not a regular file"):
        arrays.describe(pathlib.Path("/dev/zero"), "weights")


def huge(path):
    with path.open("wb") as file:
        file.truncate(2**33)


def test_sizes_are_checked_before_unpacking(tmp_path):
    """A zip of 64 kB that holds 64 MB, where less is expected, or as much."""
    path, count = tmp_path / "a.npz", 2**24
    header = io.BytesIO()
    about = {"descr": "<f4", "fortran_order": False, "shape": (count,)}
    np.lib.format.write_array_header_1_0(header, about)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", header.getvalue() + bytes(4 * count))
    description = {
        "format": "gozero-weights-1",
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
    }
    path.with_suffix(".json").write_text(json.dumps(description))
    tracemalloc.start()
    try:
        for like, says in (
            ((3,), r"array 'a' is float32\[16777216\], expected float32\[3\]"),
            ((count,), "bytes would unpack to 67108864"),
        ):
            with pytest.raises(ValueError, match=says):
                arrays.read(
                    path, "weights", lambda *_, like=like: {"a": jax.ShapeDtypeStruct(like, "f4")}
                )
        assert tracemalloc.get_traced_memory()[1] < 2**22
    finally:
        tracemalloc.stop()


def test_objects_are_not_written(tmp_path):
    with pytest.raises((ValueError, TypeError, safetensors.SafetensorError)):
        arrays.write(tmp_path / "a.safetensors", "weights", {"a": np.array([{}], object)}, {})
    assert list(tmp_path.iterdir()) == []


def test_unexpected_arrays_are_refused():
    like = {"a": np.zeros((2, 3), np.float32)}
    arrays.check({"a": np.ones((2, 3), np.float32)}, like, "these")
    for given, says in (
        ({}, "these: array 'a' is missing, expected float32\\[2, 3\\]"),
        ({"a": np.zeros((3, 2), np.float32)}, "'a' is float32\\[3, 2\\], expected"),
        ({"a": np.zeros((2, 3), np.float16)}, "'a' is float16\\[2, 3\\], expected"),
        ({**like, "b": np.zeros(1)}, "'b' is float64\\[1\\], expected missing"),
        ({"a": np.full((2, 3), np.nan, np.float32)}, "'a' has numbers that are not finite"),
    ):
        with pytest.raises(ValueError, match=says):
            arrays.check(given, like, "these")


def test_the_suffix_decides_the_kind_of_file():
    for name in ("a.safetensors", "b.npz"):
        assert arrays.check_name(name) == pathlib.Path(name)
    with pytest.raises(ValueError, match=r"--out a.txt: not a \.safetensors file"):
        arrays.check_name("a.txt", "--out")


# --- files of earlier versions --------------------------------------------------------


def test_files_of_earlier_versions_are_read():
    """Weights and local shapes made by a formula, and strengths as they were shipped."""
    config, params, about = weights.load(OLD / "weights.npz", 5)
    assert config == NetworkConfig(1, 2, pool_every=1, auxiliary=True)
    assert about["steps"] == 7
    for leaf in jax.tree.leaves(params):
        expected = np.linspace(-1, 1, leaf.size, dtype=np.float32).reshape(leaf.shape)
        np.testing.assert_array_equal(leaf, expected)
    assert jax.tree.structure(params) == jax.tree.structure(network.shapes(config))

    learnt = shape_weights.read(OLD / "shapes.npz")
    assert learnt.shapes == shapes.Shapes(3, largest=2)
    expected = np.linspace(0, 1, len(learnt.weights), dtype=np.float16)
    np.testing.assert_array_equal(learnt.weights, expected)

    old, about = strengths.load(OLD / "strengths.npz")
    now, converted = strengths.load("mm_9")
    jax.tree.map(np.testing.assert_array_equal, old, now)
    assert about["command"] == converted["command"]
    assert about["sha256"] == converted["sha256"]  # so that an earlier match can be resumed


def test_the_sha256_before_a_conversion_is_one(tmp_path):
    path = tmp_path / "a.safetensors"
    for claimed in (5, "", "x" * 64, "ab" * 31, ["ab" * 32]):
        arrays.write(path, "weights", HELD, {"npz_sha256": claimed})
        with pytest.raises(ValueError, match=r"its npz_sha256 is .* 64 hexadecimal"):
            arrays.read(path, "weights")
    arrays.write(path, "weights", HELD, {"npz_sha256": "ab" * 32})
    assert arrays.read(path, "weights")[1]["sha256"] == "ab" * 32


def test_an_old_name_finds_the_converted_file(tmp_path):
    arrays.write(tmp_path / "a.safetensors", "weights", HELD, {})
    assert arrays.read(tmp_path / "a.npz", "weights")[0].keys() == HELD.keys()
    with pytest.raises(ValueError, match=r"there is no file .*b\.npz"):
        arrays.read(tmp_path / "b.npz", "weights")
