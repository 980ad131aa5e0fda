"""Settings of the whole suite: strict JAX, a persistent compilation cache, quick compiles."""

import gc
import itertools
import os
import pathlib

import pytest

from tests import hlo

CACHE = pathlib.Path(__file__).parent.parent / ".jax_cache"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(CACHE))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
os.environ.setdefault("JAX_NUMPY_RANK_PROMOTION", "raise")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # see gozero.apps.runtime.prepare

PLAIN = f"--{hlo.EMITTERS}=false" if hlo.KNOWN else ""
"""Use XLA's older fusion emitters, which compile in little more than half the time. Programs whose
HLO is read, whole playouts (`hlo.AS_USERS_FUSE`) and programs that tests start use the default."""

QUICK = {"not slow", "not slow and not thorough", "thorough and not slow"}
"""The `-m` expressions that are compiled quickly: those without slow tests."""

_FLAGS = pytest.StashKey[str]()

gc.set_threshold(200_000, 50, 100)  # JAX allocates many small objects: saves a twelfth of the time


LONGEST = "tests/train/", "tests/test_invariants.py"


def pytest_collection_modifyitems(items):
    """Run the longest files first, so that no worker waits for another at the end."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))


def pytest_configure(config):
    """Compile with little optimisation, as most of the suite's time is compilation.

    This excludes slow tests, and programs that tests start unless a test asks for it: XLA reads its
    flags once, when the first backend starts, and afterwards they are restored. A user's own flags
    take precedence.
    """
    if config.option.markexpr not in QUICK or _only_hands_out_tests(config):
        return
    config.stash[_FLAGS] = hlo.xla_flags(hlo.QUICK, PLAIN)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XLA_FLAGS", config.stash[_FLAGS])
        import jax

        jax.devices()
    _lower_in_shared_contexts()


def _lower_in_shared_contexts():
    """Lower 64 programs in a row in one MLIR context; the programs are the same.

    JAX makes a context for each program and loads every dialect into it: 5 ms and 1 MiB.
    """
    from jax._src.interpreters import mlir

    if not hasattr(mlir, "make_ir_context"):  # internal: other versions of JAX may lack it
        return
    make, number, shared = mlir.make_ir_context, itertools.count(), {}

    def context():
        block = next(number) // 64
        if block not in shared:
            shared.clear()
            shared[block] = make()
        return shared[block]

    mlir.make_ir_context = context


@pytest.fixture
def as_here(pytestconfig):
    """The environment for a subprocess that must compile as the tests do, bit for bit."""
    flags = pytestconfig.stash.get(_FLAGS, None)
    return os.environ | ({} if flags is None else {"XLA_FLAGS": flags})


def _only_hands_out_tests(config):
    return bool(config.getoption("numprocesses", None)) and not hasattr(config, "workerinput")
