"""Mutated array files: each is either read, or refused with a ValueError that names it."""

from __future__ import annotations

import collections
import hashlib
import json
import pathlib
import re
import struct
import zipfile

import jax
import numpy as np
import pytest

from gozero.nets import network, weights
from gozero.nets.network import NetworkConfig
from gozero.play import shards
from gozero.playouts.policies.softmax import strengths
from gozero.runs import arrays
from gozero.td import weights as shape_weights
from tests.train import worker_runs
from train.plan import make_plan

SEED = 29
OLD = pathlib.Path(__file__).parents[1] / "runs" / "data"
MANY = 10_500
SOME = 220


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """{name: (path, its bytes, a function that reads it)}."""
    folder = tmp_path_factory.mktemp("arrays")
    shape = NetworkConfig(1, 2, pool_every=1, auxiliary=True, board_size=5)
    like = network.shapes(shape)
    params = jax.tree.map(lambda x: np.full(x.shape, 0.5, x.dtype), like)
    expected = network.by_name(like)
    read_weights = lambda path: arrays.read(path, "weights", lambda *_: expected)[0]
    kinds = {
        "a.safetensors": read_weights,
        "b.npz": read_weights,
        "strengths.npz": lambda path: strengths.load(path)[0]._asdict(),
        "shapes.npz": lambda path: shape_weights.read(path).weights,
    }
    for name in ("a.safetensors", "b.npz"):
        weights.save(folder / name, params, shape, 5, steps=7)
    for name in ("strengths.npz", "shapes.npz", "shapes.json"):
        (folder / name).write_bytes((OLD / name).read_bytes())
    config = worker_runs.config_in(folder / "run")
    shard, _, _ = worker_runs.write_shard(config, "a", 0, 20)
    rules_record = shards.rules_of(make_plan(config).rules)
    kinds["run/shards/a-000000.npz"] = lambda path: shards.read(path, rules_record).rows
    assert (folder / "run/shards/a-000000.npz") == shard
    return {n: (folder / n, (folder / n).read_bytes(), read) for n, read in kinds.items()}


# --- mutations of the bytes -----------------------------------------------------------


def flips(rng, data):
    for at in rng.integers(0, len(data), rng.integers(1, 6)):
        data[at] ^= 1 << int(rng.integers(8))


def cut(rng, data):
    del data[int(rng.integers(len(data))) :]


def doubled(rng, data):
    begin, end = sorted(rng.integers(0, len(data), 2).tolist())
    data[end:end] = data[begin:end]


def removed(rng, data):
    begin = int(rng.integers(len(data)))
    del data[begin : begin + int(rng.integers(1, 64))]


def numbers(rng, data):
    """Overwrite a word somewhere with a value that programs trip over."""
    size = int(rng.choice([1, 2, 4, 8]))
    at = int(rng.integers(max(1, min(len(data), 2000) - size)))
    value = int(rng.choice([0, 1, 255, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**62]))
    data[at : at + size] = (value % 256**size).to_bytes(size, "little")


TEXTS = (b"-1", b"1e999", b"null", b"{}", b"[[]]", b"9" * 300, b"true", b'"x"', b"[" * 3000)
TEXTS += (b"NaN", b"'<U9'", b"'|O'", b"'<f16'", b"(((((", b"1L", b"\xff\xfe", b"0x10", b"2**99")


def texts(rng, data):
    """Replace a number, a name or a bracket of a header."""
    matches = list(re.finditer(rb"\d+|\"[^\"]{1,20}\"|'[^']{1,20}'|[\[\](){}]", bytes(data[:4000])))
    if not matches:
        return numbers(rng, data)
    one = matches[int(rng.integers(len(matches)))]
    data[one.start() : one.end()] = TEXTS[int(rng.integers(len(TEXTS)))]


def headers(rng, data):
    """Change a value in a safetensors header, and set its length right."""
    length = int.from_bytes(data[:8], "little")
    try:
        header = json.loads(data[8 : 8 + length])
    except (ValueError, RecursionError):  # broken by an earlier mutation
        return numbers(rng, data)
    name = str(rng.choice(sorted(header)))  # an array, or the metadata
    value = [None, [], {}, -1, 2**63, "F32", "gozero", [0, 2**62], 1.5, True][rng.integers(10)]
    part = str(rng.choice(["dtype", "shape", "data_offsets", "gozero"]))
    whole = rng.random() < 0.3 or type(header[name]) is not dict
    header[name] = value if whole else {**header[name], part: value}
    text = json.dumps(header).encode()
    data[: 8 + length] = struct.pack("<Q", len(text)) + text


def members(rng, data):
    """Change a field of a zip member's directory entry: method, flags, sizes, offset."""
    places = [found.start() for found in re.finditer(b"PK\x01\x02", bytes(data))]
    if not places:
        return numbers(rng, data)
    at = places[int(rng.integers(len(places)))]
    field, size = [(8, 2), (10, 2), (16, 4), (20, 4), (24, 4), (28, 2), (30, 2), (42, 4)][
        rng.integers(8)
    ]
    value = int(rng.choice([0, 1, 12, 14, 93, 97, 99, 2**16 - 1, 2**31, 2**32 - 1]))
    data[at + field : at + field + size] = (value % 256**size).to_bytes(size, "little")


def ends(rng, data):
    """Change a zip's end record: the number of members, the directory's offset and size."""
    at = len(data) - 22 + int(rng.choice([4, 8, 10, 12, 16, 20]))
    data[at : at + 2] = bytes(rng.integers(0, 256, 2).tolist())


def random_bytes(rng, data):
    data[:] = rng.bytes(int(rng.integers(300)))
    if rng.random() < 0.5:
        data[:4] = b"PK\x03\x04"


CHANGES = (flips, cut, doubled, removed, numbers, texts, members, ends, random_bytes)


def mutated(rng, data, name):
    data = bytearray(data)
    of_this = CHANGES if name.endswith(".npz") else (*CHANGES, headers, headers, headers)
    for _ in range(int(rng.integers(1, 3))):
        of_this[int(rng.integers(len(of_this)))](rng, data)
        if len(data) < 64:
            break
    return bytes(data)


def attack(files, count):
    """Counts of how often each file was refused and read."""
    rng, counts = np.random.default_rng(SEED), collections.Counter()
    for turn in range(count):
        name = sorted(files)[turn % len(files)]
        path, whole, read = files[name]
        data = mutated(rng, whole, name)
        path.write_bytes(data)
        if name == "b.npz" and turn % 2:  # as an attacker would who can write both files
            beside = path.with_suffix(".json")
            about = json.loads(beside.read_text()) | {"sha256": hashlib.sha256(data).hexdigest()}
            beside.write_text(json.dumps(about))
        message = complaint(read, path)
        counts[name, "refused" if message else "read"] += 1
        assert message is None or (str(path) in message and len(message) < 900), (turn, message)
        path.write_bytes(whole)
    return counts


def complaint(read, path):
    """The message of the ValueError, or None; any other error fails the test."""
    try:
        read(path)
    except ValueError as error:
        return str(error)


def check(counts, files):
    """Of each kind of file, more than 70% of the mutations were refused."""
    for name in files:
        assert counts[name, "refused"] > 0.7 * (counts[name, "refused"] + counts[name, "read"])


def test_some_mutated_files(files):
    check(attack(files, SOME), files)


@pytest.mark.slow
def test_many_mutated_files(files):
    counts = attack(files, MANY)
    print(dict(counts))
    check(counts, files)


VALUES = (None, "", [], {}, -1, 0, 2**63, 2**80, 1.5, True, [[]], "x" * 200, {"a": 1}, [1, 2, 3])


def test_any_description_of_weights(tmp_path):
    """With any value changed, it is that network, or an error in one line that names the file."""
    shape = NetworkConfig(1, 2, board_size=5)
    params = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), network.shapes(shape))
    path = weights.save(tmp_path / "a.safetensors", params, shape)
    held, about = arrays.read(path, "weights")
    for name in sorted(about.keys() - {"sha256", "digest", "format"}):
        for value in VALUES:
            arrays.write(path, "weights", held, about | {name: value})
            message = complaint(weights.load, path)
            assert message is None or str(path) in message


def test_any_description_of_shapes(tmp_path):
    path = tmp_path / "a.safetensors"
    for name in ("size", "largest", "anywhere"):
        for value in VALUES:
            about = {"size": 3, "largest": 2, "anywhere": True, name: value}
            arrays.write(path, "local-shapes", {"weights": np.zeros(3, np.float16)}, about)
            with pytest.raises(ValueError, match="local shapes") as error:
                shape_weights.read(path)
            assert str(path) in str(error.value)


def test_compression_methods_unknown_to_python(files):
    path, whole, read = files["strengths.npz"]
    for method in (1, 12, 14, 93, 99):
        data = bytearray(whole)
        for found in re.finditer(b"PK\x01\x02", whole):
            data[found.start() + 10 : found.start() + 12] = struct.pack("<H", method)
        path.write_bytes(data)
        with pytest.raises(ValueError, match=f"has compression method {method}"):
            read(path)
    path.write_bytes(whole)
    assert zipfile.is_zipfile(path)
