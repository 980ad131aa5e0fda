"""GOZERO_COMPILE: its values and errors; and the platform that programs are traced for."""

import subprocess
import sys

import jax
import jax.export
import jax.numpy as jnp
import pytest
from jax import lax

from gozero.compile import mode


@pytest.mark.parametrize(("value", "expected"), [("", False), ("plain", True)])
def test_plain_is_set_by_the_environment(monkeypatch, value, expected):
    monkeypatch.setenv(mode.VARIABLE, value)
    assert mode.plain() is expected


def test_without_the_variable_programs_are_not_plain(monkeypatch):
    monkeypatch.delenv(mode.VARIABLE, raising=False)
    assert not mode.plain()


def test_unknown_values_are_refused(monkeypatch):
    monkeypatch.setenv(mode.VARIABLE, "fast")
    with pytest.raises(ValueError, match="GOZERO_COMPILE=fast: expected plain"):
        mode.plain()


def test_kernels_are_plain_only_inside(monkeypatch):
    monkeypatch.delenv(mode.VARIABLE, raising=False)
    with mode.in_kernel():
        assert mode.plain()
    assert not mode.plain()


def test_a_target_sets_the_backend_only_inside():
    here = mode.backend()
    with mode.target("tpu"):
        assert mode.backend() == "tpu"
        with mode.target("gpu"):
            assert mode.backend() == "gpu"
        assert mode.backend() == "tpu"
    assert mode.backend() == here
    with jax.default_device(jax.devices("cpu")[0]):
        assert mode.backend() == "cpu"
    for name in ("tpu", "gpu"):
        with jax.default_device(name):  # data goes there, so programs do
            assert mode.backend() == name


def test_unknown_platforms_are_refused():
    with pytest.raises(ValueError, match="platform 'cuda': expected one of cpu, gpu, tpu"):
        mode.target("cuda").__enter__()


def test_traces_are_cached_per_target():
    """Not even for a function, or a loop body, inside another."""
    worth = {"tpu": 1, "gpu": 2}

    @jax.jit
    def inner(x):
        return x + worth.get(mode.backend(), 3)

    @jax.jit
    def outer(x):
        return lax.scan(lambda x, _: (inner(x), None), x, length=10)[0]

    zero = jnp.int32(0)
    for platform in ("tpu", "gpu", "tpu"):
        with mode.target(platform):
            assert outer(zero) == 10 * worth[platform]
    with mode.target("cpu"):
        assert outer(zero) == 30


def test_fast_compile_applies_only_inside(monkeypatch):
    monkeypatch.delenv(mode.VARIABLE, raising=False)
    assert not mode.prefers_fast_compile()
    with mode.fast_compile():
        assert mode.prefers_fast_compile()
        with mode.in_kernel():  # kernels have the plain form
            assert not mode.prefers_fast_compile()
        monkeypatch.setenv(mode.VARIABLE, "plain")
        assert not mode.prefers_fast_compile()
    monkeypatch.delenv(mode.VARIABLE)
    assert not mode.prefers_fast_compile()


needs_separate_traces = pytest.mark.skipif(
    not mode.can_separate_traces(), reason="this JAX keeps what it traced by shapes alone"
)


@needs_separate_traces
def test_traces_are_cached_per_fast_compile(monkeypatch):
    """Nor is a trace for one target used for another."""
    monkeypatch.delenv(mode.VARIABLE, raising=False)

    @jax.jit
    def form(x):
        return x + 10 * mode.prefers_fast_compile() + (mode.backend() == "tpu")

    @jax.jit
    def outer(x):
        often = form(x)
        with mode.fast_compile():
            return jnp.stack([often, form(x)])

    for platform, more in (("tpu", 1), ("gpu", 0), ("tpu", 1)):
        with mode.target(platform):
            assert outer(jnp.int32(0)).tolist() == [more, 10 + more]


@needs_separate_traces
def test_a_program_is_traced_once_though_its_first_trace_enters_a_context():
    program = """
import jax
import gozero.search.search
from gozero.compile import mode

@jax.jit
def double(x):
    print("traced")
    with mode.fast_compile():
        return x + x

double(1), double(2)
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["traced"]


def which_form(x):
    return mode.by_platform(
        x,
        default=lambda x: x + 1,
        cpu=lambda x: x + 2,
        tpu=lambda x: x + 3,
        cuda=lambda x: x + 4,
    )


def test_only_the_form_of_the_one_platform_is_traced(monkeypatch):
    """Another platform's form is not traced, so its errors do not show on a CPU-only JAX."""
    monkeypatch.delenv(mode.VARIABLE, raising=False)
    added = lambda: str(jax.make_jaxpr(which_form)(0)).split(":i32[] = add a ")[1:]
    assert [text.split(":")[0] for text in added()] == ["2"]
    for platform, number in (("tpu", "3"), ("gpu", "4"), ("cpu", "2")):
        with mode.target(platform):
            assert [text.split(":")[0] for text in added()] == [number]


def test_exports_for_every_platform_have_all_forms(monkeypatch):
    monkeypatch.delenv(mode.VARIABLE, raising=False)
    ways = jax.jit(which_form)
    assert ways(jnp.int32(0)) == 2
    with mode.every_platform():
        exported = jax.export.export(ways, platforms=("cpu", "cuda", "tpu"))(jnp.int32(0))
        assert mode.backend() == jax.default_backend()
        assert exported.call(jnp.int32(0)) == 2
    text = str(exported.mlir_module())
    assert all(f"dense<{number}>" in text for number in (2, 3, 4))
