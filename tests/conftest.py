"""Settings of the whole suite: strict JAX, a compile cache that survives a run, quick compiles."""

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
"""Fusions by XLA's older emitters: compiled in little more than half the time. Programs whose HLO
is read, and whole playouts, have users' (`hlo.AS_USERS_FUSE`), as have the programs tests start."""

QUICK = {"not slow", "not slow and not thorough", "thorough and not slow"}
"""What may be asked for by `-m` that is compiled quickly: all but the long proofs."""

_FLAGS = pytest.StashKey[str]()

gc.set_threshold(200_000, 50, 100)  # JAX traces by many small objects: a twelfth of the time


LONGEST = "tests/train/", "tests/test_invariants.py"


def pytest_collection_modifyitems(items):
    """The longest files first, so that at the end neither of two workers waits for the other."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))


def pytest_configure(config):
    """Where little is computed, code is not worth optimising: most of the suite is compiling.

    Not for the long proofs, nor for the programs that tests start, unless a test asks for it: XLA
    reads its flags once, when the first backend starts, and then they are as before. A user's own
    flags win.
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
    """JAX makes an MLIR context for each program, and loads every dialect into it: 5 ms and 1 MiB.

    Here 64 programs in a row are lowered in one. The programs are the same.
    """
    from jax._src.interpreters import mlir

    if not hasattr(mlir, "make_ir_context"):  # internal: another JAX may have none
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
    """The environment of a program that is to compile as the tests do, to the last bit."""
    flags = pytestconfig.stash.get(_FLAGS, None)
    return os.environ | ({} if flags is None else {"XLA_FLAGS": flags})


def _only_hands_out_tests(config):
    return bool(config.getoption("numprocesses", None)) and not hasattr(config, "workerinput")
