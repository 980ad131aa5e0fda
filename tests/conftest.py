"""Settings of the whole suite: strict JAX, and a compile cache that survives a run."""

import os
import pathlib

CACHE = pathlib.Path(__file__).parent.parent / ".jax_cache"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(CACHE))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.3")
os.environ.setdefault("JAX_NUMPY_RANK_PROMOTION", "raise")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # see gozero.apps.runtime.prepare
