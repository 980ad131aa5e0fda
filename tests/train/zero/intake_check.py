"""Run by test_intake.py in a process of its own, with four devices."""

import pathlib
import tempfile

import jax

from tests.train.zero.test_intake import Run, check_dealing
from train.zero import intake

if __name__ == "__main__":
    assert jax.device_count() == 4
    intake.CHUNK = 32
    with tempfile.TemporaryDirectory() as path:
        check_dealing(Run(pathlib.Path(path) / "run", 4))
    print("all rows are where they belong")
