"""Whether programs are compiled with the tricks of this package, and for which platform.

``GOZERO_COMPILE=plain`` has the whole library compile without every trick that only makes a program
faster: games, trees and playouts are the same. Tests run a share of the suite so, and whoever
suspects a compiler of an error finds out with it. It is read while a program is traced, so set it
before the first call; a program that is already compiled stays as it is.

Imports no JAX by itself: commands ask before they do.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

VARIABLE = "GOZERO_COMPILE"


def plain() -> bool:
    """Whether to leave out what only makes programs faster. Static: asked while tracing.

    Raises:
      ValueError: GOZERO_COMPILE is neither "plain" nor "" nor unset.
    """
    value = os.environ.get(VARIABLE, "")
    if value not in ("", "plain"):
        raise ValueError(f"{VARIABLE}={value}: expected plain, or nothing")
    return value == "plain"


def backend() -> str:
    """The platform for which programs are compiled: "cpu", "gpu", "tpu". Starts JAX's backend."""
    import jax

    return jax.default_backend()


def by_platform(*args: Any, cpu: Callable, default: Callable) -> Any:
    """``default(*args)``, or on a CPU ``cpu(*args)``: two ways to the same result.

    A program that is exported for several platforms has both.
    """
    if plain():
        return default(*args)
    from jax import lax

    return lax.platform_dependent(*args, cpu=cpu, default=default)
