"""Settings of the whole suite: strict JAX, a compile cache that survives a run, quick compiles."""

import os
import pathlib

import pytest

CACHE = pathlib.Path(__file__).parent.parent / ".jax_cache"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(CACHE))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
os.environ.setdefault("JAX_NUMPY_RANK_PROMOTION", "raise")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # see gozero.apps.runtime.prepare

QUICK = "--xla_backend_optimization_level=0"
"""XLA's own passes, and so the HLO that tests read, stay the same; LLVM works half as long."""
_QUICK = pytest.StashKey[bool]()


def pytest_configure(config):
    """Where little is computed, code is not worth optimising: most of the suite is compiling.

    Not for the long proofs, nor for the programs that tests start: XLA reads its flags once, when
    the first backend starts, and then they are as before. A user's own flags win.
    """
    if config.option.markexpr != "not slow" or _only_hands_out_tests(config):
        return
    config.stash[_QUICK] = True
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XLA_FLAGS", _quick_flags())
        import jax

        jax.devices()


def _quick_flags():
    return f"{QUICK} {os.environ.get('XLA_FLAGS', '')}".strip()


@pytest.fixture
def as_here(pytestconfig):
    """The environment of a program that is to compile as the tests do, to the last bit."""
    quick = pytestconfig.stash.get(_QUICK, False)
    return os.environ | ({"XLA_FLAGS": _quick_flags()} if quick else {})


def _only_hands_out_tests(config):
    return bool(config.getoption("numprocesses", None)) and not hasattr(config, "workerinput")
