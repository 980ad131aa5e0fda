"""Shards read back bit for bit or are refused; shards of earlier versions are read too."""

import contextlib
import dataclasses
import io
import json
import pathlib

import chex
import jax
import numpy as np
import pytest
import safetensors.numpy

from gozero.games.go import go_game
from gozero.games.registry import make_game, named_game
from gozero.go.rules import Rules
from gozero.play import shards
from gozero.play.rows import policy_shares, row_shapes
from gozero.play.shards import Place
from gozero.search.game import positions_of
from tests.train import worker_runs
from train import buffer as buffers
from train.plan import make_plan
from train.presets import PRESETS

COUNT = 37


@pytest.fixture
def written(tmp_path):
    """(config, path, rows, frequencies)."""
    config = worker_runs.config_in(tmp_path / "run")
    return config, *worker_runs.write_shard(config, "a-b.c", 12, COUNT, start=5)


def read(config, path):
    plan = make_plan(config)
    return shards.read(path, shards.rules_of(plan.rules))


def contents(path):
    with np.load(io.BytesIO(path.read_bytes())) as archive:
        return {name: archive[name] for name in archive.files}


def rewrite(path, arrays, *, header=None, sign=True):
    """Change a shard's arrays and its header."""
    if header:
        about = json.loads(arrays["about"].tobytes()) | header
        arrays["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    if sign:
        unsigned = {name: array for name, array in arrays.items() if name != "sha256"}
        arrays["sha256"] = shards._digest(unsigned)
    with path.open("wb") as file:
        np.savez(file, **arrays)


def test_rows_round_trip_bit_for_bit(written):
    config, path, rows, frequency = written
    assert path.name == "a-b.c-000012.npz"
    shard = read(config, path)
    assert shard.about == ("a-b.c", 12, 5, 7, 3, COUNT)
    ring = jax.eval_shape(
        lambda: buffers.start(make_plan(config).play.game, make_plan(config).buffer)
    )
    leaves = jax.tree_util.tree_leaves_with_path
    assert jax.tree.structure(shard.rows) == jax.tree.structure(ring.rows)
    for (name, got), (_, put), (_, like) in zip(
        *map(leaves, (shard.rows, rows, ring.rows)), strict=True
    ):
        assert (got.dtype, got.shape) == (like.dtype, (COUNT, *like.shape[1:])), name
        assert got.tobytes() == put.tobytes(), name
    assert shard.frequency.tolist() == frequency.tolist()


def test_equal_rows_make_equal_files(written, tmp_path):
    config, path, _, _ = written
    again = dataclasses.replace(config, out=tmp_path / "other")
    (tmp_path / "other" / "shards").mkdir(parents=True)
    other, _, _ = worker_runs.write_shard(again, "a-b.c", 12, COUNT, start=5)
    assert contents(other)["sha256"].tolist() == contents(path)["sha256"].tolist()
    assert not list(path.parent.glob("*.part"))


def test_every_changed_byte_is_refused_or_irrelevant(written):
    config, path, rows, _ = written
    whole = path.read_bytes()
    refused = 0
    for at in range(0, len(whole), len(whole) // 150):
        data = bytearray(whole)
        data[at] ^= 0x55
        path.write_bytes(data)
        shard = None
        with contextlib.suppress(ValueError):
            shard = read(config, path)
        refused += shard is None
        if shard is not None:  # the byte did not matter: a date, say
            assert shard.rows.legal.tobytes() == rows.legal.tobytes()
            assert shard.rows.policy_target.tobytes() == rows.policy_target.tobytes()
    assert refused > 100


@pytest.mark.parametrize("left", [0, 1, 30, 0.5, 0.9, -1])
def test_a_cut_file_is_refused(written, left):
    config, path, _, _ = written
    whole = path.read_bytes()
    path.write_bytes(whole[: int(left * len(whole)) if isinstance(left, float) else left])
    with pytest.raises(ValueError, match="damaged or not a shard"):
        read(config, path)


@pytest.mark.parametrize(
    ("header", "complaint"),
    [
        ({"format": "gozero-rows-3"}, "its format is 'gozero-rows-3'; this version reads 'gozero"),
        ({"rules": {"size": 5}}, "its games have size 5; this run's have 3"),
        ({"rules": {"size": 3, "ko": "odd"}}, "its games have ko 'odd'; this run's have 'simple'"),
        ({"rules": None}, "its metadata has no valid rules"),
        ({"start": None, "games": 1.5}, "its metadata has no valid start, games"),
        ({"number": 11}, "renamed; its contents are number 11 of 'a-b.c'"),
        ({"rows": COUNT + 1}, r"expected .*\[38"),
    ],
)
def test_invalid_headers_are_refused(written, header, complaint):
    config, path, _, _ = written
    rewrite(path, contents(path), header=header)
    with pytest.raises(ValueError, match=complaint) as error:
        read(config, path)
    assert str(error.value).startswith(f"shard {path}: ")


def without(name):
    return lambda arrays: arrays.pop(name)


def spoilt(name, value):
    def spoil(arrays):
        arrays[name] = arrays[name].copy()
        arrays[name].flat[0] = value

    return spoil


def other_type(name, dtype):
    return lambda arrays: arrays.update({name: arrays[name].astype(dtype)})


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (without("komi"), "array 'komi' is missing, expected float32"),
        (without("frequency"), "array 'frequency' is missing"),
        (lambda arrays: arrays.update(more=np.zeros(COUNT)), "array 'more' is float64"),
        (
            other_type("policy_target", np.float64),
            "array 'policy_target' is float64.*, exp.* uint8",
        ),
        (spoilt("komi", np.nan), "array 'komi' has numbers that are not finite"),
        (spoilt("root_value", np.inf), "array 'root_value' has numbers that are not finite"),
        (
            lambda arrays: arrays.update(policy_target=arrays["policy_target"] // 2),
            "policy_target of row 0 is not a probability distribution",
        ),
        (spoilt("outcome", -2), "outcome of row 0 is not -1, 0 or 1"),
        (spoilt("frequency", 64 * 64 + 1), "it has a frequency above 64"),
    ],
)
def test_invalid_rows_are_refused(written, change, complaint):
    config, path, _, _ = written
    arrays = contents(path)
    change(arrays)
    rewrite(path, arrays)
    with pytest.raises(ValueError, match=complaint):
        read(config, path)


def test_changed_contents_do_not_fit_the_hash(written):
    config, path, _, _ = written
    arrays = contents(path)
    spoilt("root_value", 0.125)(arrays)
    rewrite(path, arrays, sign=False)
    with pytest.raises(ValueError, match="its contents do not match its SHA-256"):
        read(config, path)


def test_names(tmp_path):
    assert shards.path_of(tmp_path, Place(1234567, "a-1")).name == "a-1-1234567.npz"
    for place in (Place(0, "a"), Place(999999, "a-000001"), Place(1000000, "A.b_c-d")):
        assert shards.place_of(shards.path_of(tmp_path, place)) == place
    for name in ("a-00001.npz", "a-000001.npz.part", "-000001.npz", "000001.npz", "a b-000001.npz"):
        assert shards.place_of(tmp_path / name) is None
    place = Place(7, "a-1", 12)
    assert shards.key_of(place, ".zst") == "shards/00000012/a-1-000007.zst"
    for suffix in shards.SUFFIXES:
        assert shards.place_of(shards.key_of(place, suffix)) == place
        assert shards.place_of(str(tmp_path / shards.key_of(place, suffix))) == place


def test_a_shard_in_a_bucket_round_trips(written, tmp_path):
    pytest.importorskip("zstandard")
    config, path, rows, frequency = written
    shard, rules = read(config, path), shards.rules_of(make_plan(config).rules)
    packed = shards.pack(rules, shard.about, rows, frequency, ".zst")
    name = "s3://bucket/run/shards/00000003/a-b.c-000012.zst"
    again = shards.read(name, rules, data=packed)
    assert again.about == shard.about
    chex.assert_trees_all_equal(again, shard)
    other = tmp_path / "b" / shards.key_of(Place(12, "a-b.c", 3), ".zst")
    other.parent.mkdir(parents=True)
    other.write_bytes(packed)
    chex.assert_trees_all_equal(shards.read_folder(tmp_path / "b")[1], shard.rows)
    for at in (len(packed) // 2, -1):
        spoilt = bytearray(packed)
        spoilt[at] ^= 1
        with pytest.raises(ValueError, match=r"shard s3://bucket/.*zst: "):
            shards.read(name, rules, data=bytes(spoilt))


def test_a_bucket_shard_of_an_earlier_version_is_read(written):
    """Earlier versions stored the rows one by one."""
    zstandard = pytest.importorskip("zstandard")
    config, path, _, _ = written
    data = zstandard.ZstdCompressor().compress(safetensors.numpy.save(contents(path)))
    name = shards.key_of(Place(12, "a-b.c", 3), ".zst")
    again = shards.read(name, shards.rules_of(make_plan(config).rules), data=data)
    chex.assert_trees_all_equal(again, read(config, path))


def test_a_decompression_bomb_is_refused(written):
    zstandard = pytest.importorskip("zstandard")
    config, _, _, _ = written
    bomb = zstandard.ZstdCompressor().compress(bytes(2**26))
    unsized = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(2**26))
    for data in (bomb, unsized, bomb[:4] + b"\xe4" + b"\xff" * 12):
        with pytest.raises(ValueError, match=r"would decompress to|damaged"):
            shards.read("a-000000.zst", shards.rules_of(make_plan(config).rules), data=data)


def test_sizes_without_a_shared_layout_are_distinguished(written):
    _, path, _, _ = written
    with pytest.raises(ValueError, match="its games have size 3; this run's have 5"):
        shards.read(path, shards.rules_of(Rules(size=5)))


def test_shards_of_any_policy_dtype_are_read_as_requested(tmp_path):
    """uint8, and floats: all are read as the requested dtype."""
    found = {}
    for number, dtype in enumerate(("uint8", "float16", "float32")):
        config = worker_runs.config_in(tmp_path / dtype, policy_dtype=dtype)
        path, rows, _ = worker_runs.write_shard(config, "a", number, COUNT)
        rules = shards.rules_of(make_plan(config).rules)
        same = shards.read(path, rules, dtype).rows
        assert same.policy_target.tobytes() == rows.policy_target.tobytes()
        for requested in ("uint8", "float16", "float32"):
            read = shards.read(path, rules, requested).rows
            assert read.policy_target.dtype == requested
            shares = policy_shares(np, read.policy_target)
            expected = policy_shares(np, rows.policy_target)
            np.testing.assert_allclose(shares, expected, atol=0.004)
            chex.assert_trees_all_equal(
                read.replace(policy_target=0), rows.replace(policy_target=0)
            )
        found[dtype] = path
    assert shards.read_folder(tmp_path / "uint8")[1].policy_target.dtype == np.uint8
    (tmp_path / "float16" / "shards" / found["uint8"].name).write_bytes(found["uint8"].read_bytes())
    _, both, _ = shards.read_folder(tmp_path / "float16")
    assert both.policy_target.dtype == np.float16
    np.testing.assert_allclose(both.policy_target.astype(np.float32).sum(axis=1), 1, atol=5e-3)


def blank(game, count):
    """Rows of new games, empty except for policies."""
    rows = jax.tree.map(lambda x: np.zeros((count, *x.shape), x.dtype), row_shapes(game))
    states = jax.vmap(game.init)(jax.random.split(jax.random.key(0), count))
    legal = np.packbits(jax.vmap(game.legal)(states), axis=1)
    rows = rows.replace(position=jax.device_get(positions_of(game, states)), legal=legal)
    rows.policy_target[:, 0] = 255
    return rows


def test_games_of_several_writers_have_distinct_numbers(tmp_path):
    rules = {"game": "hex", "size": 3}
    for worker, start in (("a", 1), ("a", 2), ("b", 1)):
        number = start - 1
        rows = blank(shards.game_of(rules), 4)
        rows = rows.replace(game=np.asarray([0, 0, 1, 1], np.int32))
        (tmp_path / "shards").mkdir(exist_ok=True)
        about = shards.About(worker, number, start, 0, 2, 4)
        path = shards.path_of(tmp_path, Place(number, worker))
        shards.write(path, rules, about, rows, np.full(4, 64))
    record, rows, _ = shards.read_folder(tmp_path)
    assert record == rules
    assert rows.game.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert rows.komi is None


def test_hex_without_a_size_has_the_default_size(tmp_path):
    """Workers once wrote null where self-play wrote 11: both are read as 11."""
    usual = {"game": "hex", "size": 11}
    assert make_plan(dataclasses.replace(PRESETS["hex"], size=None)).rules_record == usual
    assert shards.rules_of(named_game("hex")) == usual
    (tmp_path / "shards").mkdir()
    for number, rules in enumerate((usual, {"game": "hex", "size": None})):
        path = shards.path_of(tmp_path, Place(number, "a"))
        about = shards.About("a", number, 1, 0, 1, 2)
        shards.write(path, rules, about, blank(make_game("hex"), 2), np.full(2, 64))
        assert shards.read(path, usual).about == about
    assert shards.read_folder(tmp_path)[0] == usual


def test_a_folder_of_several_rules_is_refused(written):
    _, path, _, _ = written
    rules = Rules(3, "positional")
    about = shards.About("c", 0, 1, 0, 1, 2)
    other = shards.path_of(path.parent.parent, Place(0, "c"))
    shards.write(other, shards.rules_of(rules), about, blank(go_game(rules), 2), np.full(2, 64))
    with pytest.raises(
        ValueError,
        match=r"its shards have different rules: .*'simple'.* in a-b.*'positional'.* in c-",
    ):
        shards.read_folder(path.parent.parent)


def test_a_folder_of_rows_with_other_past_boards_is_refused(tmp_path):
    rules = Rules(3, "positional")
    (tmp_path / "shards").mkdir()
    for number, boards in enumerate((0, 2)):
        rows, about = blank(go_game(rules), 2), shards.About("a", number, 1, 0, 1, 2)
        rows = rows.replace(past=np.zeros((2, boards, *rows.past.shape[2:]), np.uint32))
        path = shards.path_of(tmp_path, Place(number, "a"))
        shards.write(path, shards.rules_of(rules), about, rows, np.full(2, 64))
    with pytest.raises(
        ValueError, match=r"rows of a-0.* have 0 past boards, those of a-0.* 2; keep"
    ):
        shards.read_folder(tmp_path)


EARLIER = pathlib.Path(__file__).parent / "earlier"


def test_selfplay_shards_of_version_0_1_are_read():
    """Written by version 0.1: `gozero selfplay --size 3 --games 2 --ko situational ...`."""
    record, rows, _ = shards.read_folder(EARLIER / "selfplay")
    assert record == shards.rules_of(Rules(3, "situational", max_moves=12))
    with np.load(EARLIER / "selfplay" / "shards" / "000000.npz") as held:
        arrays = dict(held)
    same = {name: getattr(rows, name) for name in ("komi", "legal", "outcome", "game", "score")}
    same |= {name: getattr(rows.position, name) for name in ("ko", "ply", "passes", "to_play")}
    for name, array in same.items():
        np.testing.assert_array_equal(array, arrays[name], name)
    for name in ("black", "white", "atari"):
        np.testing.assert_array_equal(np.stack(getattr(rows.position, name), 1), arrays[name])
    np.testing.assert_allclose(rows.policy_target, arrays["policy_target"], atol=1e-3)
    np.testing.assert_array_equal(rows.value_weight, ~arrays["truncated"])
    np.testing.assert_array_equal(rows.score_weight, ~arrays["truncated"])
    assert rows.policy_weight.all()
    assert not rows.ownership_weight.any()
    assert not rows.area.any()


def test_a_run_refuses_shards_of_an_earlier_version(tmp_path):
    path = shards.path_of(tmp_path, Place(0, "a"))
    path.parent.mkdir()
    path.write_bytes((EARLIER / "selfplay" / "shards" / "000000.npz").read_bytes())
    with pytest.raises(ValueError, match=r"written by an earlier version; .*--data"):
        shards.read(path, shards.rules_of(Rules(3)))


def test_worker_shards_of_version_0_1_are_read():
    """Written by version 0.1's worker of a run on 3x3, simple ko."""
    path = shards.path_of(EARLIER / "worker", Place(0, "a-1a2b3c4d"))
    shard = shards.read(path, shards.rules_of(Rules(3, "simple")), "float16")
    assert shard.about.rows == len(shard.frequency) == len(shard.rows.game)
    assert shard.rows.ownership_weight.any()
    record, rows, _ = shards.read_folder(EARLIER / "worker")
    assert record["ko"] == "simple"
    chex.assert_trees_all_equal(rows, shard.rows)
