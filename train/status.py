"""``python -m train status --out DIR``: how a run and its workers are."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any

from gozero.apps import flags
from gozero.play import shards
from gozero.runs import files, store
from gozero.runs.settings import setting
from gozero.runs.store import Store
from train import exchange, folder

PROG = "python -m train status"
_OF_A_LINE = {
    "iteration": "iteration",
    "elo": "Elo",
    "games": "games of its own",
    "games_per_s": "games of its own a second",
    "shards_read": "shards read",
    "shards_late": "shards that came too late",
    "shards_skipped": "shards passed over",
    "shards_rows": "rows read",
    "updates_dropped": "updates dropped",
}
_MOST_BYTES = 2**32


@dataclasses.dataclass(frozen=True)
class StatusConfig:
    """Say how a run is: its newest numbers, the weights that workers play with, and who plays."""

    out: pathlib.Path = setting()
    """The run's folder, or the URL of its bucket: s3://, gs://, az://."""

    EXAMPLES = (
        "python -m train status --out runs/zero-9x9-gpu",
        "python -m train status --out s3://bucket/zero-9x9-gpu",
    )


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status: 0, 1 if it cannot be read now, 2 for bad input."""
    config = flags.parse(StatusConfig, argv, prog=PROG)
    with flags.failing(PROG):
        for name, value in status(config.out).items():
            print(f"{name:36}{value:,}")
    return 0


def status(out: pathlib.Path) -> dict[str, Any]:
    """What there is to say, by its name in words.

    Raises:
      ValueError: no run is there.
      OSError: it cannot be read now.
    """
    folder.read_config(out)
    shared = store.at(out)
    newest = exchange.newest(shared)
    line = _newest_line(shared)
    said = {words: line[name] for name, words in _OF_A_LINE.items() if line.get(name) is not None}
    if not newest.version:
        return said
    return said | _of_workers(shared, newest)


def _newest_line(shared: Store) -> dict[str, Any]:
    """The last line of metrics.jsonl, with the newest Elo."""
    try:
        data = shared.get(folder.METRICS, _MOST_BYTES)
    except FileNotFoundError:
        return {}
    found: dict[str, Any] = {}
    for line in data.split(b"\n")[:-1]:
        try:
            found |= dict(files.parse_json(line))
        except (ValueError, TypeError):
            continue
    return found


def _of_workers(shared: Store, newest: exchange.Newest) -> dict[str, Any]:
    """By the shards of the newest version and the one before."""
    after = f"{shards.FOLDER}/{max(0, newest.version - 1):08d}"
    entries = [(shards.place_of(key), size) for key, size in shared.list(shards.FOLDER, after)]
    found = [(place, size) for place, size in entries if place is not None and place.version]
    return {
        "version of the weights": newest.version,
        "weights of iteration": newest.iteration,
        "workers since the version before": len({place.worker for place, _ in found}),
        "shards of them": len(found),
        "bytes of them": sum(size for _, size in found),
    }
