"""Local-shape weights on disk, and those that ship with the package."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.go import bitboard as bb
from gozero.runs import arrays
from gozero.td import local_shape, shapes
from gozero.td import weights as shape_weights
from gozero.td.shapes import Shapes

SHAPES = Shapes(3, largest=2)


@pytest.fixture
def saved(tmp_path):
    weights = np.linspace(0, 1, shapes.sharing(SHAPES).num_weights + 1, dtype=np.float32)
    path = tmp_path / "w.safetensors"
    shape_weights.save(path, SHAPES, weights, command=["made", "here"])
    return path, weights


def test_weights_round_trip(saved):
    path, weights = saved
    learnt = shape_weights.read(path)
    assert learnt.shapes == SHAPES
    assert learnt.about["command"] == ["made", "here"]
    assert learnt.weights.dtype == np.float32
    np.testing.assert_allclose(learnt.weights, weights, atol=1e-3)


def test_missing_damaged_and_wrong_files_are_refused(saved, tmp_path):
    path, weights = saved
    with pytest.raises(ValueError, match="there is no file"):
        shape_weights.read(tmp_path / "nothing.npz")
    with pytest.raises(ValueError, match="expected 30 numbers"):
        shape_weights.save(path, Shapes(3, 2, anywhere=False), weights)
    with pytest.raises(ValueError, match="not finite"):
        shape_weights.save(path, SHAPES, np.full_like(weights, np.inf))
    found, about = arrays.read(path, "local-shapes")
    arrays.write(path, "weights", found, about)
    with pytest.raises(ValueError, match="its format is 'gozero-weights-1'"):
        shape_weights.read(path)
    for change, says in (
        ({"largest": 3}, r"'weights' is float16\[\d+\], expected float16"),
        ({"largest": 4}, "gives no valid shapes .largest: 4"),
        ({"size": None}, "gives no valid shapes"),
    ):
        arrays.write(path, "local-shapes", found, about | change)
        with pytest.raises(ValueError, match=says):
            shape_weights.read(path)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ValueError, match="damaged or not local shapes"):
        shape_weights.read(path)


def test_sizes_without_packaged_weights():
    with pytest.raises(ValueError, match="no weights for 3x3 come with the package"):
        shape_weights.load(3)


def test_the_weights_of_9x9_are_plausible():
    learnt = shape_weights.load(9)
    assert learnt.shapes == Shapes(9)
    assert np.count_nonzero(learnt.weights) > 50_000
    files = shape_weights.shipped().values()
    assert sum(path.stat().st_size for path in files) < 2**20
    lay, table = bb.layout(9), local_shape.table(learnt.shapes, learnt.weights)

    def value(stones):  # {point: colour}
        masks = [jnp.array([stones.get(p) == c for p in range(81)]) for c in "XO"]
        active = local_shape.entries(learnt.shapes, *(bb.pack(lay, mask) for mask in masks))
        return float(jax.nn.sigmoid(local_shape.logit(table, active)))

    assert value({}) == 0.5
    assert value({40: "X"}) > value({0: "X"})  # the centre is better than the corner
    assert value({p: "X" for p in (39, 40, 41)}) > value({39: "X", 40: "X", 41: "O"}) > 0.5
    assert value({0: "X", 1: "O", 9: "O"}) < 0.5
