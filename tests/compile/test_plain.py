"""Some of the suite's exact tests with GOZERO_COMPILE=plain: the results are the same."""

import os
import pathlib
import subprocess
import sys

import pytest

from gozero.compile import mode

ROOT = pathlib.Path(__file__).parent.parent.parent
EXACT = [
    "tests/go/test_random_games.py::test_random_games_agree_with_reference_and_sgfmill"
    "[3-positional-True-30-120]",
    "tests/search/test_exact.py",
    "tests/playouts/test_engine.py::test_every_move_of_a_playout_is_the_references[2-40]",
]
"""Tests of the rules, of searches and of playouts."""


@pytest.mark.thorough
def test_exact_tests_pass_with_plain_compilation():
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *EXACT],
        cwd=ROOT,
        env={**os.environ, mode.VARIABLE: "plain"},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-1000:]
