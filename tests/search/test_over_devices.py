"""An ensemble's trees divided among three devices, in a separate process that has three."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from gozero.compile import mode
from gozero.play.player_config import num_tree_devices
from gozero.search.config import Ensemble
from tests import several_devices


@pytest.mark.thorough
def test_trees_on_three_devices_are_those_of_one():
    line = several_devices.last_line("tests.search.over_devices_check", count=3)
    assert line == "the trees are those of one device"


@pytest.mark.thorough
@pytest.mark.parametrize("cores_as_devices", [{}, {"JAX_NUM_CPU_DEVICES": "2"}])
def test_trees_are_divided_among_devices(cores_as_devices):
    """Three moves, each from the trees of the one before, the last with an analysis."""
    flags = "--size", "5", "--search", "uct", "--simulations", "160", "--trees", "16"
    lines = ["genmove b", "play w a1", "genmove b", "lz-genmove_analyze w 1", "quit"]
    done = subprocess.run(
        [sys.executable, "-m", "gozero.apps.cli", "gtp", "--evaluator", "playout", *flags],
        env=os.environ | {"JAX_PLATFORMS": "cpu"} | cores_as_devices,
        input="\n".join(lines),
        text=True,
        capture_output=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    num_devices = num_tree_devices(16, 2 if cores_as_devices else mode.cores())
    assert (f", on {num_devices} devices" in done.stderr) == (num_devices > 1)
    lines = [line for line in done.stdout.splitlines() if line]
    assert any(line.startswith("info move ") for line in lines), done.stderr
    answers = [line for line in lines if not line.startswith("info move ")]
    answer = re.compile(r"=|= ?([A-E][1-5]|pass)|play ([A-E][1-5]|pass)")
    assert len(answers) == 6  # the analysis has an empty one first
    assert all(answer.fullmatch(line) for line in answers), answers


def test_trees_are_divided_if_a_device_gets_eight():
    assert [num_tree_devices(24, n) for n in (1, 2, 3, 4, 9)] == [1, 2, 3, 3, 3]
    numbers = [num_tree_devices(n, 4) for n in (1, 8, 15, 16, 17, 28, 36)]
    assert numbers == [1, 1, 1, 2, 1, 2, 4]


def test_devices_have_equal_numbers_of_trees():
    assert Ensemble(6, devices=3).own_trees == 2
    with pytest.raises(ValueError, match=r"devices: 4 does not divide the 6 trees"):
        Ensemble(6, devices=4)
    with pytest.raises(ValueError, match=r"devices: 0"):
        Ensemble(6, devices=0)
