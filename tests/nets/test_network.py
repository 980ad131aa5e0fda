"""The compact features, the network, and weights on disk."""

from __future__ import annotations

import dataclasses
import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.compile import mode, winograd
from gozero.go import rules as go
from gozero.nets import features, network, weights
from gozero.nets.network import NetworkConfig
from gozero.runs import arrays

CONFIG = NetworkConfig(blocks=2, channels=6)
KEY = jax.random.key(0)


def plane(planes, name):
    return np.asarray(planes[..., features.COMPACT_PLANES.index(name)])


def test_features_are_from_the_view_of_the_player_to_move():
    rules = go.Rules(size=3)
    state = go.init(rules, 5.0)
    for action in (0, 1, 9):  # Black A3, White B3 puts it in atari, Black passes: White to move
        state = go.play(rules, state, action)
    planes = features.FEATURES["compact"].observe(rules, state, state.position)
    assert planes.shape == (3, 3, len(features.COMPACT_PLANES))
    assert np.argwhere(plane(planes, "own stones")).tolist() == [[0, 1]]
    assert np.argwhere(plane(planes, "opponent's stones")).tolist() == [[0, 0]]
    assert plane(planes, "own stones in atari").sum() == 0
    assert np.argwhere(plane(planes, "opponent's stones in atari")).tolist() == [[0, 0]]
    assert (plane(planes, "White to play") == 1).all()
    assert (plane(planes, "the opponent has just passed") == 1).all()
    komi = plane(planes, "points that komi gives the player to move, / 20")
    np.testing.assert_allclose(komi, 0.25)
    assert (plane(planes, "the board (all ones)") == 1).all()
    with mode.target("gpu"):
        observe = jax.jit(lambda state: features.FEATURES["compact"].observe(rules, *state))
        np.testing.assert_array_equal(observe((state, state.position)), planes)


@pytest.mark.parametrize("size", [3, 9])
def test_one_network_fits_every_size(size):
    params = network.init(CONFIG, jax.random.key(0))
    planes = jax.random.normal(jax.random.key(1), (4, size, size, len(features.COMPACT_PLANES)))
    output = network.apply(CONFIG, params, planes)
    assert output.policy_logits.shape == (4, size * size + 1)
    assert output.value.shape == (4,)
    assert bool((jnp.abs(output.value) <= 1).all())


def test_parameters_are_a_plain_tree_and_depend_on_the_key():
    first, again = (network.init(CONFIG, jax.random.key(0)) for _ in range(2))
    other = network.init(CONFIG, jax.random.key(1))
    assert jax.tree.structure(first) == jax.tree.structure(network.shapes(CONFIG))
    jax.tree.map(np.testing.assert_array_equal, first, again)
    assert not np.array_equal(first["stem"]["kernel"], other["stem"]["kernel"])


def test_blocks_start_as_the_identity():
    deep = network.init(NetworkConfig(blocks=3, channels=6), jax.random.key(0))
    shallow = {k: v for k, v in deep.items() if k != "block_2" and k != "block_1"}
    planes = jax.random.normal(jax.random.key(1), (2, 5, 5, len(features.COMPACT_PLANES)))
    a = network.apply(NetworkConfig(blocks=3, channels=6), deep, planes)
    b = network.apply(NetworkConfig(blocks=1, channels=6), shallow, planes)
    np.testing.assert_allclose(a.value, b.value, rtol=1e-5)


@pytest.fixture(params=arrays.SUFFIXES)
def saved(tmp_path, request):
    params = network.init(CONFIG, jax.random.key(0))
    return weights.save(tmp_path / f"w{request.param}", params, CONFIG, size=5, steps=7), params


def test_weights_round_trip(saved):
    path, params = saved
    config, loaded, about = weights.load(path, 5)
    assert config == CONFIG
    assert about["steps"] == 7
    jax.tree.map(np.testing.assert_array_equal, loaded, params)


def edit(path, **changes):
    """Rewrite a file with the same arrays and a changed description."""
    found, about = arrays.read(path, "weights")
    arrays.write(path, "weights", found, about | changes)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:500]), "damaged"),
        (lambda path: path.unlink(), "there is no file"),
        (lambda path: edit(path, size=None), "lacks size"),
        (lambda path: edit(path, planes=3), "3 input planes"),
        (lambda path: edit(path, features="other"), "features: 'other' is not one of"),
        (lambda path: edit(path, channels=8), "array .* is .*6.*, expected .*8"),
        (lambda path: edit(path, blocks=0), "blocks: 0"),
        (lambda path: edit(path, blocks=3000), "2 blocks, but its description says 3000"),
        (lambda path: edit(path, blocks=True), "lacks blocks"),
    ],
)
def test_bad_weights(saved, damage, says):
    path, _ = saved
    damage(path)
    with pytest.raises(ValueError, match=says) as raised:
        weights.load(path, 5)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda path: path.unlink(), "there is no file"),
        (lambda path: path.write_text("{"), "damaged"),
        (lambda path: path.write_text("[]"), "damaged"),
        (lambda path: path.write_text(path.read_text().replace("-weights-", "-x-")), "format"),
    ],
)
def test_a_bad_description_beside_weights_of_earlier_versions(tmp_path, damage, says):
    params = network.init(CONFIG, jax.random.key(0))
    path = weights.save(tmp_path / "w.npz", params, CONFIG, size=5)
    damage(path.with_suffix(".json"))
    with pytest.raises(ValueError, match=says):
        weights.load(path, 5)


def test_weights_of_another_size(saved):
    with pytest.raises(ValueError, match=r"made for 5x5, not for 9x9; .* or --size 5"):
        weights.load(saved[0], 9)


def test_weights_with_nan(tmp_path, monkeypatch):
    params = jax.tree.map(lambda x: x * jnp.nan, network.init(CONFIG, jax.random.key(0)))
    with monkeypatch.context() as patch:  # as an earlier version, which saved them
        patch.setattr(arrays, "check_finite", lambda arrays: None)
        path = weights.save(tmp_path / "w.safetensors", params, CONFIG, size=5)
    with pytest.raises(ValueError, match="not finite"):
        weights.load(path, 5)


def test_the_file_name_needs_a_known_suffix(tmp_path):
    with pytest.raises(ValueError, match=r"not a \.safetensors"):
        weights.load(tmp_path / "w.json", 5)


def seen(features_name, size, batch):
    """Random numbers in the shapes of observations."""
    rules = go.Rules(size=size)
    states = jax.eval_shape(lambda: jax.vmap(lambda _: go.init(rules))(jnp.arange(batch)))
    observe = jax.vmap(features.FEATURES[features_name].observe, in_axes=(None, 0, 0))
    shapes = jax.eval_shape(functools.partial(observe, rules), states, states.position)
    return jax.tree.map(lambda x: jax.random.normal(jax.random.key(2), x.shape, x.dtype), shapes)


@pytest.mark.parametrize(
    "features_name", ["compact", pytest.param("full", marks=pytest.mark.thorough)]
)
def test_evaluation_in_slices_is_equal(features_name, monkeypatch):
    config = NetworkConfig(blocks=1, channels=6, features=features_name)
    inputs = seen(features_name, size=3, batch=384)
    params = network.init(config, jax.random.key(0))
    monkeypatch.setattr(network, "_SLICE_BYTES", 130 * 9 * 6 * 4)
    in_slices = functools.partial(network.apply_in_slices, config)
    assert "scan" in str(jax.make_jaxpr(in_slices)(params, inputs))

    whole = jax.jit(functools.partial(network.apply, config))(params, inputs)
    sliced = jax.jit(in_slices)(params, inputs)

    np.testing.assert_allclose(whole.policy_logits, sliced.policy_logits, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(whole.value, sliced.value, rtol=1e-5, atol=1e-6)
    assert whole.score is sliced.score is None


@pytest.fixture
def by_tiles(monkeypatch):
    """Has every network evaluated as wide ones are on a CPU."""
    monkeypatch.delenv(mode.VARIABLE, raising=False)
    monkeypatch.setattr(winograd, "_FEWEST_CHANNELS", 1)
    monkeypatch.setattr(winograd, "_FEWEST_TILES", 1)
    monkeypatch.setattr(winograd, "_SLICE_BYTES", 2**14)
    monkeypatch.setattr(winograd, "_SLICE_BYTES_OF_A_CORE", 2**14)


OTHER_GAME = {"observation": (6, 7, 2), "num_actions": 7}


@pytest.mark.parametrize(
    "shape",
    [
        pytest.param(
            {"features": "full", "pool_every": 2, "auxiliary": True}, marks=pytest.mark.thorough
        ),
        OTHER_GAME,
        pytest.param({"features": "compact"}, marks=pytest.mark.thorough),
        pytest.param({"features": "zero", "pool_every": 1}, marks=pytest.mark.thorough),
    ],
)
def test_winograd_gives_the_same_outputs(shape, by_tiles):
    """To 3e-5 for logits up to 6, in slices; outputs do not depend on a position's place in the
    batch."""
    config = NetworkConfig(blocks=2, channels=8, **shape)
    inputs = jax.random.normal(jax.random.key(2), (32, *(config.observation or ())))
    if config.observation is None:
        inputs = seen(config.features, size=5, batch=32)
    params = network.init(config, jax.random.key(0))
    params = jax.tree.map(lambda x: x + jax.random.normal(jax.random.key(1), x.shape) / 8, params)
    plainly = jax.jit(functools.partial(network.apply, config))
    on_cpu = functools.partial(network.apply_on_cpu, config)
    with mode.target("cpu"):
        assert "scan" in str(jax.make_jaxpr(on_cpu)(params, inputs))
        on_cpu = jax.jit(on_cpu)
        expected, found = plainly(params, inputs), on_cpu(params, inputs)
        turned = jax.tree.map(lambda x: jnp.roll(x, 5, axis=0), inputs)
        again = on_cpu(params, turned)
        prepared = network.prepared(config, params, jax.tree.leaves(inputs)[0].shape[1:3])
        by_prepared, plain_again = on_cpu(prepared, inputs), plainly(prepared, inputs)
    close = functools.partial(np.testing.assert_allclose, rtol=3e-5, atol=3e-5)
    jax.tree.map(close, found, expected)
    jax.tree.map(close, by_prepared, found)
    jax.tree.map(np.testing.assert_array_equal, plain_again, expected)
    back = jax.tree.map(lambda x: jnp.roll(x, -5, axis=0), again)
    jax.tree.map(np.testing.assert_array_equal, found, back)


@pytest.mark.parametrize(
    ("count", "channels", "is_prepared", "num_convolutions"),
    [(64, 64, False, 1), (64, 16, False, 4), (8, 64, False, 4), (2, 64, True, 1), (8, 32, True, 4)],
)
def test_narrow_networks_and_few_positions_without_prepared_kernels_are_evaluated_by_convolutions(
    count, channels, is_prepared, num_convolutions, monkeypatch
):
    """The policy head is a convolution of 1x1 in every form."""
    monkeypatch.delenv(mode.VARIABLE, raising=False)
    config = NetworkConfig(blocks=1, channels=channels)
    with mode.target("cpu"):
        params = network.init(config, jax.random.key(0))
        params = network.prepared(config, params, (5, 5)) if is_prepared else params
        planes = jnp.zeros((count, 5, 5, config.num_planes))
        text = str(jax.make_jaxpr(functools.partial(network.apply_on_cpu, config))(params, planes))
    assert text.count("conv_general_dilated[") == num_convolutions


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-6), ("bfloat16", 2e-2)])
def test_a_tpus_loop_over_blocks_for_roots_is_equal(dtype, tolerance):
    config = NetworkConfig(blocks=6, channels=4, dtype=dtype)
    params = network.init(config, jax.random.key(0))
    params = jax.tree.map(lambda x: x + jax.random.normal(jax.random.key(1), x.shape) / 8, params)
    planes = jax.random.normal(jax.random.key(2), (2, 3, 3, config.num_planes))
    repeated = functools.partial(network.apply, config)
    with mode.target("tpu"):
        one_by_one = jax.jit(repeated)(params, planes)
        roots = jax.jit(mode.fast_compile()(repeated))
        assert "scan" in str(jax.make_jaxpr(roots)(params, planes))
        by_loop = roots(params, planes)
    for field in ("policy_logits", "value"):
        one, other = getattr(one_by_one, field), getattr(by_loop, field)
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("multiplies", [pytest.param(False, marks=pytest.mark.thorough), True])
def test_a_cpu_computes_a_bf16_network_in_f32_but_for_products(multiplies, monkeypatch):
    monkeypatch.delenv(mode.VARIABLE, raising=False)
    monkeypatch.setattr(mode, "multiplies_bf16", lambda: multiplies)
    wide, narrow = (NetworkConfig(2, 32, dtype=dtype) for dtype in ("float32", "bfloat16"))
    params = network.init(wide, jax.random.key(0))
    params = jax.tree.map(lambda x: x + jax.random.normal(jax.random.key(1), x.shape) / 32, params)
    planes = jax.random.normal(jax.random.key(2), (16, 9, 9, wide.num_planes))

    def evaluate(config, prepare):
        evaluate = jax.jit(functools.partial(network.apply_on_cpu, config))
        return evaluate(network.prepared(config, params, (9, 9)) if prepare else params, planes)

    for prepare, is_exact in ((True, not multiplies), (False, True)):  # by plain convolutions
        exact, output = (evaluate(config, prepare).policy_logits for config in (wide, narrow))
        difference = float(jnp.abs(output - exact).max() / jnp.abs(exact).max())
        assert difference == 0 if is_exact else 1e-4 < difference < 0.05


@pytest.mark.parametrize(
    ("size", "channels", "batch", "slices"),
    [(9, 64, 1024, 1), (9, 64, 2048, 1), (9, 96, 4096, 4), (19, 128, 256, 1), (19, 128, 1024, 4)],
)
def test_a_slice_fits_on_the_chip(size, channels, batch, slices):
    config = NetworkConfig(2, channels, dtype="bfloat16")
    assert network.num_slices(config, batch, (size, size)) == slices


def test_a_batch_that_is_not_whole_slices_is_evaluated_at_once(monkeypatch):
    monkeypatch.setattr(network, "_SLICE_BYTES", 130 * 9 * CONFIG.channels * 4)
    planes = jnp.zeros((383, 3, 3, len(features.COMPACT_PLANES)))  # a prime number of positions
    params = network.init(CONFIG, jax.random.key(0))
    jaxpr = jax.make_jaxpr(functools.partial(network.apply_in_slices, CONFIG))(params, planes)
    assert "scan" not in str(jaxpr)


@pytest.mark.thorough
def test_parameters_in_the_dtype_of_the_trunk_are_exactly_equal():
    config = NetworkConfig(2, 8, "full", pool_every=2, auxiliary=True, dtype="bfloat16")
    params = network.init(config, jax.random.key(0))
    params = jax.tree.map(lambda x: x + jax.random.normal(jax.random.key(1), x.shape) / 8, params)
    inputs = seen("full", size=5, batch=2)
    converted = network.in_dtype(config, params)

    apply = jax.jit(functools.partial(network.apply, config))
    jax.tree.map(np.testing.assert_array_equal, apply(params, inputs), apply(converted, inputs))
    of_trunk = [converted["stem"], converted["block_0"], converted["block_1"]["first"]]
    of_heads = [converted["points"], converted["value"], converted["block_1"]["bias"]]
    assert {str(x.dtype) for x in jax.tree.leaves(of_trunk)} == {"bfloat16"}
    assert {str(x.dtype) for x in jax.tree.leaves(of_heads)} == {"float32"}
    # It converts at any depth of an evaluator's params, and a second time changes nothing.
    jax.tree.map(
        np.testing.assert_array_equal, network.in_dtype(config, (converted, 1.5))[0], converted
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda params: network.init(dataclasses.replace(CONFIG, channels=8), KEY),
            "expected float32",
        ),
        (lambda params: jax.tree.map(lambda x: x + np.nan, params), "not finite"),
        (lambda params: params | {"more": np.zeros(3, np.float32)}, "'more'"),
    ],
)
def test_parameters_that_could_not_be_loaded_are_not_saved(tmp_path, change, message):
    path = tmp_path / "w.safetensors"
    with pytest.raises(ValueError, match=f"^params: .*{message}"):
        weights.save(path, change(network.init(CONFIG, KEY)), CONFIG, size=5)
    assert not path.exists()


def test_prepared_parameters_are_saved_as_they_were(tmp_path):
    config = NetworkConfig(blocks=1, channels=32)
    params = network.init(config, KEY)
    prepared = network.prepared(config, params, (9, 9))
    assert network.IN_TILES in prepared
    path = weights.save(tmp_path / "w.safetensors", prepared, config, size=9)
    chex.assert_trees_all_equal(weights.load(path)[1], params)
    assert weights.digest(prepared) == weights.digest(params)
