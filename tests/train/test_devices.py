"""A run on four devices of one host equals one on a single device, except where its games are."""

from __future__ import annotations

import pytest

from tests import several_devices


def checked(as_here, module, *arguments):
    """The last line that a program on four devices prints."""
    return several_devices.last_line(f"tests.train.{module}", *arguments, environment=as_here)


@pytest.mark.thorough
def test_four_devices_share_a_run(tmp_path, as_here):
    assert checked(as_here, "devices_check", tmp_path / "run") == "all is as on one device"


@pytest.mark.slow
def test_each_device_of_a_worker_plays_like_a_separate_worker(as_here):
    assert checked(as_here, "worker_devices_check") == "all is as of four workers"
