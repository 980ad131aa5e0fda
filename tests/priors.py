"""Comparing priors of two compiled programs."""

from __future__ import annotations

import numpy as np
from jaxlib import version

OF_BATCH = version.__version_info__ < (0, 8)
"""With jaxlib 0.7 XLA:CPU sums a softmax in an order that depends on the batch."""


def assert_equal(actual, expected):
    """Equal bit for bit; within 4 ulp where the order of a softmax depends on the batch."""
    if OF_BATCH:
        np.testing.assert_array_max_ulp(np.asarray(actual), np.asarray(expected), maxulp=4)
    else:
        np.testing.assert_array_equal(actual, expected)
