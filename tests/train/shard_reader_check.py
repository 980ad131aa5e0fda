"""Run by test_shard_reader.py in its own process, with four devices."""

import pathlib
import tempfile

import jax

from tests.train.test_shard_reader import Run, check_dealing
from train import shard_reader

if __name__ == "__main__":
    assert jax.device_count() == 4
    shard_reader.CHUNK, shard_reader.SWEEP_S = 32, 0
    with tempfile.TemporaryDirectory() as path:
        check_dealing(Run(pathlib.Path(path) / "run", 4))
    print("all rows are where they belong")
