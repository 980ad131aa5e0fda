"""What a run and its workers exchange, through the run's folder or bucket (`gozero.runs.store`).

    config.json                        every flag of the run
    newest.json                        the version of the weights to play with, their SHA-256, and
                                       the run's iterations so far, by which workers see it is alive
    newest/00000007.safetensors        these weights, and a few earlier versions
    shards/00000007/NAME-000000.npz    what a worker played with them, see `gozero.play.shards`

The run writes the first three, and workers write the shards. Versions only increase, even if the
run goes back to an earlier iteration, so shards more than a few versions old are no longer read.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import pathlib
from typing import NamedTuple

from gozero.runs import files
from gozero.runs.store import Store

NEWEST = "newest.json"
KEPT = 8
"""The number of versions before the newest whose weights are kept and whose shards are read."""
EVERY_S = 15.0
"""The least number of seconds between versions: workers need time to write what they played with
the previous one."""
ALIVE_S = 60.0
"""The least number of seconds between records of the run's iterations."""

_MOST_BYTES = 2**12


class Newest(NamedTuple):
    """The weights to play with."""

    version: int  # from 1; 0: there are none
    iteration: int  # after which they were written; -1: none
    sha256: str  # of their file
    done: int = -1  # iterations that the run has done so far; -1: not recorded

    @property
    def key(self) -> str:
        """The key of their file in the store."""
        return f"newest/{self.version:08d}.safetensors"


def newest(shared: Store) -> Newest:
    """The weights that a run published most recently.

    Raises:
      ValueError: the record is damaged.
      OSError: it cannot be read now.
    """
    try:
        record = files.parse_json(shared.get(NEWEST, _MOST_BYTES))
        fields = record["version"], record["iteration"], record["sha256"], record.get("done", -1)
        weights = Newest(*fields)  # earlier versions did not record the last one
        types = [type(one) for one in weights]
        if types != [int, int, str, int] or not 0 < weights.version < 10**8:
            raise ValueError(f"an invalid version, {weights.version!r}")
    except FileNotFoundError:
        return Newest(0, -1, "")
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{shared.name}/{NEWEST} is damaged ({error!r})") from error
    return weights


def publish(shared: Store, path: pathlib.Path, iteration: int) -> Newest:
    """Publish weights for workers as the next version, unless they already are the newest.

    Args:
      shared: the run's store.
      path: of the weights.
      iteration: after which they were written.

    Raises:
      OSError: they cannot be written.
    """
    data = path.read_bytes()
    sha256 = hashlib.sha256(data).hexdigest()
    with contextlib.suppress(ValueError):  # a damaged record is overwritten
        before = newest(shared)
        if (before.iteration, before.sha256) == (iteration, sha256):
            return before
    keys = [pathlib.PurePath(entry.key).stem for entry in shared.list("newest")]
    version = max((int(key) for key in keys if key.isdigit()), default=0) + 1
    published = Newest(version, iteration, sha256, iteration)
    while not shared.create(published.key, data):  # another process has just published
        published = published._replace(version=published.version + 1)
    _put(shared, published)
    for old in keys[:-KEPT]:
        shared.delete(f"newest/{old}.safetensors")
    return published


def record_iterations(shared: Store, done: int) -> None:
    """Record the run's iterations so far, for workers; if that fails now, a later call does it."""
    with contextlib.suppress(OSError, ValueError):
        before = newest(shared)
        if before.version:
            _put(shared, before._replace(done=done))


def _put(shared: Store, weights: Newest) -> None:
    shared.put(NEWEST, (json.dumps(weights._asdict()) + "\n").encode())
