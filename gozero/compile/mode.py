"""Whether programs are compiled with the tricks of this package, or plainly.

``GOZERO_COMPILE=plain`` has the whole library compile without every trick that only makes a program
faster: results are the same, bit for bit. Tests run a share of the suite so, and who suspects a
compiler of an error finds out with it. It is read while a program is traced, so set it before the
first call; a program that is already compiled stays as it is.
"""

from __future__ import annotations

import os

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
