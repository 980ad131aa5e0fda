"""Well-formed shards with a number that no game can produce: each is refused and named."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest

from gozero.play import shards
from tests.train import worker_runs
from train.plan import make_plan

SEED = 29
ROWS = 40
NOT_FINITE = (np.nan, np.inf, -np.inf)
HUGE = (3e38, -3e38, 1e38, 1e30)


def put(name, *values):
    """A change that sets one number of an array to one of `values`."""

    def spoil(rng, held):
        array = held[name]
        array.flat[rng.integers(array.size)] = rng.choice(np.asarray(values, array.dtype))

    return name, spoil


def flipped(name, of):
    """A change that flips one bit of a board; `of(held, row)` gives the bits to choose from."""

    def spoil(rng, held):
        row = rng.integers(ROWS)
        bits = of(held, row)
        held[name][row] ^= np.uint32(1 << int(rng.choice(np.flatnonzero(bits))))

    return name, spoil


def bits_of(word):
    return np.array([(int(word) >> i) & 1 for i in range(32)], bool)


FULL = bits_of(0b0111_0111_0111)  # the points of a 3x3 board in its word


def a_stone(held, row):
    """The bits of all stones, or of all points if the board is empty."""
    stones = bits_of(held["position.black[0]"][row] | held["position.white[0]"][row])
    return stones if stones.any() else FULL


def legal_bit(rng, held):
    held["legal"][rng.integers(ROWS)] ^= np.packbits(np.arange(16) == rng.integers(16))


def policy_of_illegal(rng, held):
    legal = np.unpackbits(held["legal"], axis=1, count=10)
    row = int(rng.choice(np.flatnonzero(~legal.all(axis=1))))
    whole = 255 if held["policy_target"].dtype == np.uint8 else 1
    chosen = np.arange(10) == rng.choice(np.flatnonzero(legal[row] == 0))
    held["policy_target"][row] = whole * chosen


def policy_without_255(rng, held):
    held["policy_target"][rng.integers(ROWS)] //= rng.choice(np.array([2, 255], np.uint8))


def policy_below_0(rng, held):
    row = held["policy_target"][rng.integers(ROWS)]
    row[:] = [2, -1, *[0] * 8]


def policy_of_another_sum(rng, held):
    held["policy_target"][rng.integers(ROWS)] *= np.float16(rng.choice([0, 0.5, 2, 1000]))


def both_own(rng, held):
    held["area"][rng.integers(ROWS), :, 0] |= np.uint32(2)


def off_board(rng, held):
    held["area"][rng.integers(ROWS), rng.integers(2), 0] ^= np.uint32(
        1 << int(rng.choice(np.flatnonzero(~FULL)))
    )


def other_turn(rng, held):
    held["position.to_play"][rng.integers(ROWS)] ^= 1


def another_ply(rng, held):
    held["position.ply"][rng.integers(ROWS)] ^= 1


def lost_for_won(rng, held):
    row = rng.choice(np.flatnonzero(held["outcome"]))
    held["outcome"][row] *= -1


def dtype_of(rng, held):
    name = rng.choice(sorted(held))
    kinds = {"f": ("f4", "f8", "f2", "i4"), "i": ("f4", "i8", "u4"), "u": ("f4", "i8", "i2")}
    others = [k for k in kinds[held[name].dtype.kind] if np.dtype(k) != held[name].dtype]
    held[name] = held[name].astype(rng.choice(others))


def shape_of(rng, held):
    name = rng.choice(sorted(held))
    change = [lambda x: x[:-1], lambda x: x[..., None], lambda x: x[0], lambda x: x.T[None]]
    held[name] = change[rng.integers(len(change))](held[name])


def another_name(rng, held):
    name = rng.choice(sorted(held))
    held[f"{name}{rng.choice(['', '_', '[0]', '/..'])}x"] = held.pop(name)


WEIGHTS = ("policy_weight", "value_weight", "score_weight", "ownership_weight")
CHANGES = (
    put("score", *HUGE, *NOT_FINITE, 0.25, 500),
    put("komi", *HUGE, *NOT_FINITE, 7.25, 1000.5, -1e6, 1e-40),
    put("outcome", *HUGE, *NOT_FINITE, 2, 0.5, -1.001),
    put("root_value", *HUGE, *NOT_FINITE, 1.01, -2),
    *(put(name, *NOT_FINITE, 2, -1, 0.5, 65504) for name in WEIGHTS),
    put("game", -1, -(2**31)),
    put("known", 1, -1, 2**31 - 1),
    put("frequency", 64 * 64 + 1, 65535),
    put("position.ko", 9, 9999, -2, -(2**15)),
    put("position.ply", -1, 18, 2**15 - 1),
    put("position.passes", 2, -1, 127),
    put("position.to_play", 2, -1, 127),
    flipped("position.black[0]", lambda held, row: bits_of(held["position.white[0]"][row]) | ~FULL),
    flipped("position.white[0]", lambda held, row: bits_of(held["position.black[0]"][row]) | ~FULL),
    flipped("position.atari[0]", a_stone),
    flipped("position.atari[0]", lambda held, row: ~FULL),
    ("legal", legal_bit),
    ("policy_target", policy_of_illegal),
    ("area", both_own),
    ("area", off_board),
    ("position", other_turn),
    ("position", another_ply),
    ("outcome", lost_for_won),
    ("array", dtype_of),
    ("array", shape_of),
    ("array", another_name),
)
OF_POLICIES = {
    "uint8": (("policy_target", policy_without_255),),
    "float16": (
        put("policy_target", *NOT_FINITE, 2, -1, 65504),
        ("policy_target", policy_below_0),
        ("policy_target", policy_of_another_sum),
    ),
}


@pytest.fixture(scope="module", params=OF_POLICIES)
def shard(request, tmp_path_factory):
    """(the rules, a shard's path, its arrays)."""
    place = tmp_path_factory.mktemp("hostile") / "run"
    config = worker_runs.config_in(place, policy_dtype=request.param)
    path, _, _ = worker_runs.write_shard(config, "bad", 0, ROWS)
    with np.load(io.BytesIO(path.read_bytes())) as archive:
        held = {name: archive[name] for name in archive.files}
    return shards.rules_of(make_plan(config).rules), path, held


def write(path, arrays):
    """Write a shard as a worker would, with the right SHA-256."""
    data = io.BytesIO()
    np.savez(data, **arrays, sha256=shards._digest(arrays))
    path.write_bytes(data.getvalue())


def attack(shard, count):
    """Read `count` shards with one change each: every one is refused, with its path and field."""
    rules, path, held = shard
    rng = np.random.default_rng(SEED)
    changes = CHANGES + OF_POLICIES[held["policy_target"].dtype.name]
    assert shards.read(path, rules).about.rows == ROWS
    for turn in range(count):
        arrays = {name: array.copy() for name, array in held.items()}
        about = arrays.pop("about")
        del arrays["sha256"]
        names, spoil = changes[turn % len(changes)]
        spoil(rng, arrays)
        arrays["about"] = about
        write(path, arrays)
        with pytest.raises(ValueError, match="shard") as error:
            shards.read(path, rules)
        message = str(error.value)
        assert message.startswith(f"shard {path}: ")
        assert names.partition("[")[0].partition(".")[0] in message, (names, message)
        assert len(message) < 600


def test_each_invalid_number_is_refused(shard):
    attack(shard, 2 * len(CHANGES))


@pytest.mark.slow
def test_each_invalid_number_of_many_shards_is_refused(shard):
    attack(shard, 1200)


SAID = (None, "", [], {}, -1, 2**63, 2**80, 1.5, "x" * 300, True, [[]], {"size": 3}, "1e999")


def header_with(held, name, value):
    header = json.loads(held["about"].tobytes()) | {name: value}
    return np.frombuffer(json.dumps(header).encode(), np.uint8)


def test_invalid_metadata_is_refused(shard):
    rules, path, held = shard
    for name in ("format", "rules", "worker", "number", "rows"):
        for value in SAID:
            arrays = {**held, "about": header_with(held, name, value)}
            del arrays["sha256"]
            write(path, arrays)
            with pytest.raises(ValueError, match="shard") as error:
                shards.read(path, rules)
            assert str(error.value).startswith(f"shard {path}: ")
