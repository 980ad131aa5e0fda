"""Targets by name, the error where a compiler is missing, and programs for this CPU."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from gozero.compile import ahead, estimate, mode


@pytest.mark.parametrize(
    ("name", "chip", "topology", "num_devices"),
    [
        ("v5e", "v5e", "", 1),
        ("v5e:4x4", "v5e", "4x4", 16),
        ("v5litepod-1", "v5e", "", 1),
        ("v5litepod-64", "v5e", "8x8", 64),
        ("v6e-8", "v6e", "2x4", 8),
        ("v5p-8", "v5p", "2x2x1", 4),
        ("v5p-128", "v5p", "4x4x4", 64),
        ("h100", "h100", "", 1),
        ("h100:1x8", "h100", "1x8", 8),
    ],
)
def test_targets_by_name(name, chip, topology, num_devices):
    target = ahead.target(name)
    assert (target.chip, target.topology, target.num_devices) == (chip, topology, num_devices)
    assert target.platform == ("gpu" if chip == "h100" else "tpu")


@pytest.mark.parametrize("name", ["v4", "v5litepod-3", "v5p-2", "v5e:4", "a100", ""])
def test_other_names_are_refused(name):
    message = f"target {name}: expected one of v5e, v6e, v5p, h100, cpu"
    with pytest.raises(ValueError, match=message):
        ahead.target(name)


@pytest.mark.parametrize(("name", "extra"), [("v5e", "tpu-ahead"), ("h100", "gpu-ahead")])
def test_a_missing_compiler_is_named_with_its_extra(monkeypatch, name, extra):
    monkeypatch.setattr(ahead.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ahead.MissingCompiler, match=f"pip install 'gozero.{extra}.'"):
        ahead.compile(ahead.target(name), jnp.sin, jnp.ones(3))


def test_a_program_for_this_cpu():
    target = ahead.target("cpu")
    shapes = jax.ShapeDtypeStruct((8, 128), jnp.float32)

    @jax.jit
    def double(x):
        return x * (2 if mode.backend() == "cpu" else 3)

    compiled = ahead.compile(target, double, shapes)
    assert (compiled.argument_bytes, compiled.output_bytes) == (4096, 4096)
    assert compiled.temp_bytes >= 0
    seconds = (compiled.trace_seconds, compiled.compile_seconds, compiled.compile_cpu_seconds)
    assert min(seconds) > 0
    assert estimate.read(compiled.text, "cpu").kernels >= 1
    np.testing.assert_array_equal(compiled.program(np.ones((8, 128), np.float32)), 2)


def test_tracing_sees_the_targets_platform():
    """A function that was not compiled before sees the target's platform when traced."""
    seen = []

    def asks(x):
        seen.append(mode.backend())
        return x

    ahead.compile(ahead.target("cpu"), asks, jnp.ones(3))
    assert seen == ["cpu"]


def test_chips_by_their_jax_device_kind():
    kinds = ("TPU v5 lite", "TPU v6 lite", "TPU v5", "NVIDIA H100 80GB HBM3", "NVIDIA H200", "cpu")
    by_kind = {
        kind: [name for name, c in ahead.CHIPS.items() if c.is_called(kind)] for kind in kinds
    }
    names = (["v5e"], ["v6e"], ["v5p"], ["h100"], ["h100"], ["cpu"])
    assert by_kind == dict(zip(kinds, names, strict=True))
    assert not any(chip.is_called("") for chip in ahead.CHIPS.values())


def test_placed_shapes_have_their_sharding():
    target = ahead.target("cpu")
    mesh = target.mesh("device")
    where = NamedSharding(mesh, PartitionSpec("device"))
    tree = {"a": jnp.ones((4, 2)), "b": jax.ShapeDtypeStruct((8,), jnp.int32)}
    placed = ahead.place(tree, where)
    assert {name: x.shape for name, x in placed.items()} == {"a": (4, 2), "b": (8,)}
    assert all(x.sharding == where for x in placed.values())
    each = ahead.place(tree, {"a": where, "b": NamedSharding(mesh, PartitionSpec())})
    assert each["b"].sharding.spec == PartitionSpec()
    compiled = ahead.compile(target, jax.jit(lambda tree: tree["a"].sum()), placed)
    assert compiled.argument_bytes == 8 * 4
