"""What a run and its workers exchange, through the run's folder or bucket (`gozero.runs.store`).

    config.json                        every flag of the run
    newest.json                        the version of the weights to play with, and their SHA-256
    newest/00000007.safetensors        these weights, and a few versions before
    shards/00000007/NAME-000000.npz    what a worker played with them, see `gozero.play.shards`

The run writes the first three, workers the shards. A version is published once and never goes
back, not even where the run goes back to an earlier iteration: so what is older than a few
versions is not read any more.
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
"""Versions before the newest whose shards are still read, and whose weights are kept."""
EVERY_S = 15.0
"""Seconds from one version to the next, at least: workers then have the time to write what they
played with the one before."""

_MOST_BYTES = 2**12


class Newest(NamedTuple):
    """The weights to play with."""

    version: int  # from 1; 0: there are none
    iteration: int  # after which they were written; -1: none
    sha256: str  # of their file

    @property
    def key(self) -> str:
        """Of their file."""
        return f"newest/{self.version:08d}.safetensors"


def newest(shared: Store) -> Newest:
    """The weights that a run has published last.

    Raises:
      ValueError: the record is damaged.
      OSError: it cannot be read now.
    """
    try:
        said = files.parse_json(shared.get(NEWEST, _MOST_BYTES))
        found = Newest(said["version"], said["iteration"], said["sha256"])
        if [type(one) for one in found] != [int, int, str] or not 0 < found.version < 10**8:
            raise ValueError(f"a version {found.version!r}")
    except FileNotFoundError:
        return Newest(0, -1, "")
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{shared.name}/{NEWEST}: damaged ({error!r})") from error
    return found


def publish(shared: Store, path: pathlib.Path, iteration: int) -> Newest:
    """Have workers play with weights, as the next version; those of now stay as they are.

    Args:
      shared: of the run.
      path: of the weights.
      iteration: after which they were written.

    Raises:
      OSError: they cannot be written.
    """
    data = path.read_bytes()
    sha256 = hashlib.sha256(data).hexdigest()
    with contextlib.suppress(ValueError):  # damaged: written again
        before = newest(shared)
        if (before.iteration, before.sha256) == (iteration, sha256):
            return before
    keys = [pathlib.PurePath(entry.key).stem for entry in shared.list("newest")]
    version = max((int(key) for key in keys if key.isdigit()), default=0) + 1
    said = Newest(version, iteration, sha256)
    while not shared.create(said.key, data):  # another process has just published
        said = said._replace(version=said.version + 1)
    shared.put(NEWEST, (json.dumps(said._asdict()) + "\n").encode())
    for old in keys[:-KEPT]:
        shared.delete(f"newest/{old}.safetensors")
    return said
