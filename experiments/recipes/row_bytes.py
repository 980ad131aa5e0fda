"""Bytes per row in the replay buffer and in a shard, by the dtype of the policy target.

    python -m experiments.recipes.row_bytes [--rows 6000] [--out DIR]

The rows are self-play by the networks that come with the library and with experiments/solved_5x5.
"""

from __future__ import annotations

import dataclasses
import io
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import safetensors.numpy
import zstandard

from experiments import command
from experiments.output import write_csv
from experiments.recipes import readme
from experiments.recipes.config import RowBytesConfig
from gozero.apps import flags
from gozero.nets import weights
from gozero.play import shards
from gozero.play.devices import mesh_of
from gozero.play.rows import FREQUENCY_UNIT, Rows, with_policies
from gozero.play.shards import About
from gozero.runs import files
from gozero.runs import folder as folders
from train import worker
from train.config import Root
from train.plan import make_plan
from train.presets import PRESETS

PROG = "python -m experiments.recipes.row_bytes"
ROOT = pathlib.Path(__file__).parents[2]
NETWORKS = {
    5: ("5x5", "experiments/solved_5x5/results/5x5.safetensors"),
    7: ("7x7", "gozero/play/data/7x7.safetensors"),
    9: ("9x9-cpu", "gozero/play/data/9x9.safetensors"),
}
"""{board size: (preset, network)}."""


@dataclasses.dataclass(frozen=True)
class Row:
    """Bytes per row of one board and root."""

    board: str
    root: str
    rows: int
    replay_float16: float
    replay_uint8: float
    npz_float16: float
    """Bytes of a shard in a folder, divided by its rows."""
    npz_uint8: float
    zst_float16: float
    """Likewise of a shard in a bucket, in the old format: row by row, with exact values."""
    zst_uint8: float
    """Likewise, in the current format, by columns."""


def play_rows(size: int, root: Root, count: int, seed: int) -> tuple[dict, Rows]:
    """(the rules as recorded in shards, at least `count` rows of self-play)."""
    preset, path = NETWORKS[size]
    shape, params, _ = weights.load_own(ROOT / path, size)
    names = ("blocks", "channels", "features", "auxiliary", "pool_every")
    network = {name: getattr(shape, name) for name in names}
    config = dataclasses.replace(
        PRESETS[preset], batch=32, moves=20, root=root, policy_dtype="float32", **network
    )
    plan = worker.plan_of(config)
    player = worker.SelfPlay(plan, seed, 0, mesh_of(1))
    parts: list[Rows] = []
    while sum(part.num_rows for part in parts) < count:
        parts.append(player.play(params, config.iterations - 1)[0])
    return make_plan(config).rules_record, jax.tree.map(lambda *x: np.concatenate(x), *parts)


def measure(config: RowBytesConfig) -> Iterator[Row]:
    """Yields the rows of the table as they are measured."""
    for size in config.sizes:
        for root in ("gumbel", "puct"):
            rules_record, rows = play_rows(size, root, config.rows, config.seed)
            sizes: dict[str, Any] = {}
            for dtype in ("float16", "uint8"):
                stored, count = with_policies(rows, dtype), rows.num_rows
                stored = worker.rounded(stored) if dtype == "uint8" else stored
                about = About("worker", 0, 1, 0, len(np.unique(rows.game)), count)
                frequency = np.full(count, FREQUENCY_UNIT, np.uint16)
                replay_bytes = sum(leaf.nbytes for leaf in jax.tree.leaves(stored))
                sizes[f"replay_{dtype}"] = replay_bytes / count
                for kind in ("npz", "zst"):
                    pack = _by_rows if (kind, dtype) == ("zst", "float16") else shards.pack
                    data = pack(rules_record, about, stored, frequency, f".{kind}")
                    sizes[f"{kind}_{dtype}"] = len(data) / count
            yield Row(f"{size}x{size}", root, rows.num_rows, **sizes)


def _by_rows(rules_record: dict, about: About, rows: Rows, frequency: np.ndarray, _: str) -> bytes:
    """A shard in the old bucket format, before columns."""
    shard = shards.pack(rules_record, about, rows, frequency)
    with np.load(io.BytesIO(shard)) as archive:
        return zstandard.compress(safetensors.numpy.save(dict(archive)))


def main() -> int:
    config = command.parse(RowBytesConfig, prog=PROG)
    with folders.removed_if_empty(config.out), flags.exit_on_error(PROG):
        folders.claim(config.out)
        rows = list(measure(config))
        write_csv(Row, rows, config.out / "row_bytes.csv", digits=4)
        files.write_json(config.out / "manifest.json", folders.manifest(config.seed))
    print(readme.row_bytes(config.out / "row_bytes.csv"))
    command.print_results(config.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
