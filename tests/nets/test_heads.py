"""Pooled blocks, heads, bf16, and weights of earlier versions: the network against NumPy's."""

from __future__ import annotations

import hashlib
import io
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.go import rules as go
from gozero.nets import features, network, weights
from gozero.nets.network import NetworkConfig
from gozero.play.networks import network_evaluator
from gozero.runs import arrays
from tests.reference import network as reference

CONFIG = NetworkConfig(blocks=3, channels=9, pool_every=2, auxiliary=True)


def waves(config):
    """Parameters from a formula, so that no layer is zero or equals another."""
    leaves, tree = jax.tree.flatten(network.shapes(config))
    ends = np.cumsum([int(np.prod(leaf.shape)) for leaf in leaves])
    filled = []
    for leaf, end in zip(leaves, ends, strict=True):
        begin = end - int(np.prod(leaf.shape))
        values = 0.4 * np.sin(1.7 * np.arange(begin, end) + begin)
        filled.append(values.reshape(leaf.shape).astype(np.float32))
    return jax.tree.unflatten(tree, filled)


def some_planes(count, size):
    flat = np.sin(np.arange(count * size * size * len(features.COMPACT_PLANES), dtype=np.float32))
    return flat.reshape(count, size, size, len(features.COMPACT_PLANES))


apply = jax.jit(network.apply, static_argnums=0)
init = jax.jit(network.init, static_argnums=0)


@pytest.mark.parametrize("size", [3, 5])
def test_the_network_equals_numpys(size):
    """The same parameters on boards of two sizes, against NumPy."""
    params, planes = waves(CONFIG), some_planes(2, size)
    output = apply(CONFIG, params, planes)
    assert output.ownership.shape == (2, size * size)
    assert output.score.shape == (2,)
    for i in range(2):
        for name, expected in reference.forward(params, planes[i]).items():
            actual = getattr(output, name)[i]
            np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4, err_msg=name)


def test_pooling_carries_information_across_the_board():
    """Only pooling carries information further than three convolutions reach."""
    planes = some_planes(1, 9)
    changed = planes.copy()
    changed[0, 0, 0, 0] += 5
    far = (0, 8 * 9 + 8)

    def difference(pool_every):
        config = NetworkConfig(blocks=1, channels=4, pool_every=pool_every)
        before, after = (apply(config, waves(config), x).policy_logits for x in (planes, changed))
        return abs(float(after[far] - before[far]))

    assert difference(0) == 0
    assert difference(1) > 1e-4


def test_pooled_blocks_start_as_the_identity_too():
    params = init(CONFIG, jax.random.key(0))
    planes = some_planes(2, 5)
    shallow = {name: layer for name, layer in params.items() if not name.startswith("block_")}
    expected = reference.forward(shallow, planes[0])
    output = apply(CONFIG, params, planes)
    np.testing.assert_allclose(output.value[0], expected["value"], rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(output.score, 0)


def test_new_heads_do_not_change_other_parameters():
    plain = init(NetworkConfig(blocks=1, channels=4), jax.random.key(1))
    more = init(NetworkConfig(blocks=1, channels=4, auxiliary=True), jax.random.key(1))
    assert set(more) - set(plain) == {"owners", "score"}
    jax.tree.map(np.testing.assert_array_equal, plain, {name: more[name] for name in plain})
    assert apply(NetworkConfig(1, 4), plain, some_planes(2, 3)).ownership is None


def test_bf16_is_close_to_f32():
    wide = NetworkConfig(blocks=2, channels=16, pool_every=2, auxiliary=True)
    narrow = NetworkConfig(**{**vars(wide), "dtype": "bfloat16"})
    params = jax.tree.map(lambda x: x / 3, waves(wide))
    assert jax.tree.map(jnp.shape, network.shapes(narrow)) == jax.tree.map(jnp.shape, params)
    exact, rough = (apply(config, params, some_planes(3, 5)) for config in (wide, narrow))
    for a, b in zip(exact, rough, strict=True):
        assert a.dtype == b.dtype == jnp.float32
        spread = float(jnp.abs(a).max())
        np.testing.assert_allclose(a, b, atol=0.03 * spread)
    assert any(np.any(a != b) for a, b in zip(exact, rough, strict=True))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"pool_every": -1}, "pool_every: -1 is not a whole number of at least 0"),
        ({"pool_every": 1, "channels": 1}, "channels: 1 is not at least 2"),
        ({"dtype": "float16"}, "dtype: 'float16' is not one of float32, bfloat16"),
    ],
)
def test_bad_shapes(change, complaint):
    with pytest.raises(ValueError, match=complaint):
        NetworkConfig(**change)


def test_weights_files_store_the_whole_shape(tmp_path):
    config = NetworkConfig(2, 4, pool_every=2, auxiliary=True, dtype="bfloat16")
    path = weights.save(tmp_path / "w.safetensors", waves(config), config, size=5)
    found, loaded, _ = weights.load(path, 5)
    assert found == config
    jax.tree.map(np.testing.assert_array_equal, loaded, waves(config))
    held, about = arrays.read(path, "weights")
    for change, complaint in (
        (
            {"pool_every": 0},
            r"'block_1/bias/bias' is float32\[3\], expected missing",
        ),
        ({"auxiliary": 1}, "lacks auxiliary"),
        ({"dtype": None}, "lacks dtype"),
        ({"dtype": "int4"}, "dtype: 'int4' is not one of"),
    ):
        arrays.write(path, "weights", held, about | change)
        with pytest.raises(ValueError, match=complaint):
            weights.load(path, 5)


OLD_LOGITS = [-0.29919964, 0.13434343, 0.66747254, 0.43696523, -0.31832558]
OLD_LOGITS += [1.84664357, 0.73333019, -0.09931590, 0.93638128, 1.39142561]
OLD_VALUES = [0.75877529, 0.68242824]


def test_weights_of_earlier_versions_give_the_same_outputs(tmp_path):
    """A file as version 0 wrote it, and that version's outputs."""
    config = NetworkConfig(1, 4)
    buffer = io.BytesIO()
    leaves = jax.tree_util.tree_flatten_with_path(waves(config))[0]
    np.savez(buffer, **{"/".join(str(key.key) for key in path): leaf for path, leaf in leaves})
    (tmp_path / "old.npz").write_bytes(buffer.getvalue())
    about = {"format": "gozero-weights-1", "size": 3, "blocks": 1, "channels": 4, "planes": 9}
    about["sha256"] = hashlib.sha256(buffer.getvalue()).hexdigest()
    (tmp_path / "old.json").write_text(json.dumps(about))

    found, params, _ = weights.load(tmp_path / "old.npz", 3)
    assert found == config
    assert sorted(params) == [
        "block_0", "pass_move", "points", "stem", "value", "value_hidden",
    ]  # fmt: skip
    output = apply(found, params, some_planes(2, 3))
    np.testing.assert_allclose(output.policy_logits[0], OLD_LOGITS, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(output.value, OLD_VALUES, rtol=1e-5)


def test_a_search_does_not_compute_auxiliary_heads():
    """The evaluator of a network with auxiliary heads has no more products than one without."""
    rules, config = go.Rules(size=3), NetworkConfig(1, 4, auxiliary=True)
    evaluator = network_evaluator(rules, config)
    assert evaluator.about["auxiliary"]

    def products(function, *arguments):
        text = jax.jit(function).lower(*arguments).compile().as_text()
        return text.count(" convolution(") + text.count(" dot(")

    inputs = (evaluator.params, jax.random.key(0), some_planes(2, 3))
    plain = network_evaluator(rules, NetworkConfig(1, 4))
    everything = products(lambda params, _, planes: network.apply(config, params, planes), *inputs)
    evaluated = products(evaluator.evaluate, *inputs)
    assert evaluated == products(plain.evaluate, plain.params, *inputs[1:]) == everything - 2
