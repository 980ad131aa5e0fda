"""One tree's leaves evaluated by four devices, in a separate process that has four."""

from __future__ import annotations

import pytest

from tests import several_devices


@pytest.mark.slow
def test_four_devices_equal_one():
    assert several_devices.last_line("tests.search.spread_check") == "all is as on one device"
