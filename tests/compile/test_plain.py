"""A share of the suite's exact tests with GOZERO_COMPILE=plain: the results are the same."""

import os
import pathlib
import subprocess
import sys

import pytest

from gozero.compile import mode

ROOT = pathlib.Path(__file__).parent.parent.parent
EXACT = {
    "rules": "tests/go/test_random_games.py -k 3-positional-True-30-120",
    "search": "tests/search/test_exact.py",
    "playouts": "tests/playouts/test_engine.py -k references[5-16]",
}


@pytest.mark.parametrize("what", EXACT)
def test_compiled_plainly_the_exact_tests_hold(what):
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *EXACT[what].split()]
    run = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, mode.VARIABLE: "plain"},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-1000:]
