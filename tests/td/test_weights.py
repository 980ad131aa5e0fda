"""Weights of local shapes on disk, and those that come with the package."""

from __future__ import annotations

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.go import bitboard as bb
from gozero.td import local_shape, shapes
from gozero.td import weights as shape_weights
from gozero.td.shapes import Shapes

SHAPES = Shapes(3, largest=2)


@pytest.fixture
def saved(tmp_path):
    weights = np.linspace(0, 1, shapes.sharing(SHAPES).num_weights + 1, dtype=np.float32)
    path = tmp_path / "w.npz"
    shape_weights.save(path, SHAPES, weights, command=["made", "here"])
    return path, weights


def test_weights_come_back(saved):
    path, weights = saved
    learnt = shape_weights.read(path)
    assert learnt.shapes == SHAPES
    assert learnt.about["command"] == ["made", "here"]
    assert learnt.weights.dtype == np.float32
    np.testing.assert_allclose(learnt.weights, weights, atol=1e-3)


def test_what_is_missing_damaged_or_wrong_is_refused(saved, tmp_path):
    path, weights = saved
    with pytest.raises(ValueError, match="missing or damaged"):
        shape_weights.read(tmp_path / "nothing.npz")
    with pytest.raises(ValueError, match="expected 30 numbers"):
        shape_weights.save(path, Shapes(3, 2, anywhere=False), weights)
    with pytest.raises(ValueError, match="not finite"):
        shape_weights.save(path, SHAPES, np.full_like(weights, np.inf))
    beside = path.with_suffix(".json")
    about = json.loads(beside.read_text())
    beside.write_text(json.dumps({**about, "format": "other"}))
    with pytest.raises(ValueError, match="does not say format"):
        shape_weights.read(path)
    beside.write_text(json.dumps({**about, "largest": 3}))
    with pytest.raises(ValueError, match="numbers, not those of"):
        shape_weights.read(path)
    beside.write_text(json.dumps(about))
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ValueError, match="not those that its"):
        shape_weights.read(path)


def test_there_are_none_for_some_sizes():
    with pytest.raises(ValueError, match="no weights for 3x3 come with the package"):
        shape_weights.load(3)


def test_the_weights_of_9x9_know_a_little_go():
    learnt = shape_weights.load(9)
    assert learnt.shapes == Shapes(9)
    assert np.count_nonzero(learnt.weights) > 50_000
    files = [p for p in shape_weights._DATA.iterdir() if p.suffix == ".npz"]
    assert sum(path.stat().st_size for path in files) < 2**20
    lay, table = bb.layout(9), local_shape.table(learnt.shapes, learnt.weights)

    def value(stones):  # {point: colour}
        masks = [jnp.array([stones.get(p) == c for p in range(81)]) for c in "XO"]
        active = local_shape.entries(learnt.shapes, *(bb.pack(lay, mask) for mask in masks))
        return float(jax.nn.sigmoid(local_shape.logit(table, active)))

    assert value({}) == 0.5
    assert value({40: "X"}) > value({0: "X"})  # the centre before the corner
    assert value({p: "X" for p in (39, 40, 41)}) > value({39: "X", 40: "X", 41: "O"}) > 0.5
    assert value({0: "X", 1: "O", 9: "O"}) < 0.5
