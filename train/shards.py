"""Shards of workers: whole games' rows on disk, as the replay ring holds them.

    shards/NAME-ID-000000.npz    what the worker NAME wrote first; ID is drawn with its records

A shard is one .npz: each array of `train.replay.Rows` that has bytes, in the ring's own dtypes;
`frequency`, u16, in the ring's parts of 1; `about`, JSON; and a SHA-256 of it all. What it says of
itself: the rules, the worker and which of its starts wrote it, its number, the iteration of the
weights that played, how many games and rows there are.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import io
import json
import pathlib
import re
from typing import Any, NamedTuple

import jax
import numpy as np

from gozero.games.go import go_game
from gozero.go.rules import Rules
from gozero.runs.files import write_whole
from train import buffer as buffers
from train.buffer import BufferConfig
from train.replay import Rows

FORMAT = "gozero-rows-1"
FOLDER = "shards"

_PATH = re.compile(r"(?P<worker>[A-Za-z0-9][A-Za-z0-9_.-]*)-(?P<number>\d{6,})\.npz")
_TYPES = {"worker": str, "number": int, "start": int}
_TYPES |= {"iteration": int, "games": int, "rows": int}


class About(NamedTuple):
    """What a shard says of itself."""

    worker: str  # the name of who wrote it, and the id of its records
    number: int  # of that worker's shards
    start: int  # which of its starts, from 1: each numbers its games anew
    iteration: int  # of the newest weights that played: long games may have begun with older ones
    games: int
    rows: int


class Shard(NamedTuple):
    """What is read of one."""

    about: About
    rows: Rows  # [n], NumPy
    frequency: np.ndarray  # u16[n], in parts of `buffer.FREQUENCY_UNIT`


class Place(NamedTuple):
    """Which shard it is."""

    number: int
    worker: str


def path_of(folder: pathlib.Path, place: Place) -> pathlib.Path:
    """Where a shard of a run lies."""
    return folder / FOLDER / f"{place.worker}-{place.number:06d}.npz"


def place_of(path: pathlib.Path) -> Place | None:
    """Which shard a file is by its name; None: by its name it is none."""
    found = _PATH.fullmatch(path.name)
    return Place(int(found["number"]), found["worker"]) if found else None


def check_name(name: str) -> None:
    """Refuse a worker's name of which no file name can be made.

    Raises:
      ValueError: it is none.
    """
    if not _PATH.fullmatch(f"{name}-000000.npz"):
        raise ValueError(
            f"--name {name!r}: expected letters, digits, '.', '_' and '-', the first of them a "
            "letter or a digit"
        )


def write(
    path: pathlib.Path, rules: Rules, about: About, rows: Rows, frequency: np.ndarray
) -> None:
    """Write one shard, whole or not at all; it is then on the disk.

    Args:
      path: `path_of` it.
      rules: of the games.
      about: what else is said of it.
      rows: [n], NumPy.
      frequency: [n], in parts of `buffer.FREQUENCY_UNIT`.

    Raises:
      OSError: it cannot be written.
    """
    said = {"format": FORMAT, "rules": dataclasses.asdict(rules), **about._asdict()}
    arrays = _named(rows) | {
        "frequency": np.asarray(frequency, np.uint16),
        "about": np.frombuffer(json.dumps(said).encode(), np.uint8),
    }
    data = io.BytesIO()
    named: dict[str, Any] = {**arrays, "sha256": _digest(arrays)}
    np.savez_compressed(data, **named)
    write_whole(path, data.getvalue(), durable=True)


def read(path: pathlib.Path, rules: Rules, config: BufferConfig) -> Shard:
    """Read one shard, for a ring of these rules and settings.

    Raises:
      OSError: it cannot be read now.
      ValueError: a file that is no shard, damaged, of another version, of other rules, or with
        rows that cannot be learnt from; says which.
    """
    data = path.read_bytes()
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        said = json.loads(arrays["about"].tobytes())
        version = said["format"]
    except Exception as error:  # a damaged archive raises all there is
        raise ValueError(f"shard {path}: damaged or not a worker's shard ({error!r})") from error
    if version != FORMAT:
        raise ValueError(f"shard {path}: of format {version!r}; this version reads {FORMAT!r}")
    digest = arrays.pop("sha256", None)
    if digest is None or not np.array_equal(digest, _digest(arrays)):
        raise ValueError(f"shard {path}: damaged; its contents are not those of its SHA-256")
    about = _about(path, said, rules)
    if place_of(path) != (about.number, about.worker):
        raise ValueError(f"shard {path}: it is number {about.number} of {about.worker!r}, renamed")
    shapes = row_shapes(rules, config)
    del arrays["about"]
    _check_arrays(path, arrays, shapes, about.rows)
    frequency = arrays.pop("frequency")
    _check_numbers(path, arrays, frequency)
    return Shard(about, _rows(arrays, shapes, about.rows), frequency)


@functools.cache
def row_shapes(rules: Rules, config: BufferConfig) -> Rows:
    """One row of the ring, as a tree of `jax.ShapeDtypeStruct`."""
    ring = jax.eval_shape(lambda: buffers.start(go_game(rules), config)).rows
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), ring)


def _name(path: Any) -> str:
    return jax.tree_util.keystr(path).lstrip(".")


def _named(rows: Rows) -> dict[str, np.ndarray]:
    """{name: array} of what has bytes."""
    leaves = jax.tree_util.tree_leaves_with_path(rows)
    return {_name(path): np.asarray(leaf) for path, leaf in leaves if 0 not in leaf.shape[1:]}


def _rows(arrays: dict[str, np.ndarray], shapes: Rows, count: int) -> Rows:
    def one(path, shape):
        return arrays.get(_name(path), np.zeros((count, *shape.shape), shape.dtype))

    return jax.tree_util.tree_map_with_path(one, shapes)


def _digest(arrays: dict[str, np.ndarray]) -> np.ndarray:
    """u8[32]: of names, types, shapes and bytes."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return np.frombuffer(digest.digest(), np.uint8)


def _about(path: pathlib.Path, said: dict, rules: Rules) -> About:
    wrong = [name for name, kind in _TYPES.items() if type(said.get(name)) is not kind]
    if wrong or not isinstance(said.get("rules"), dict):
        raise ValueError(f"shard {path}: it does not say its {', '.join(wrong or ['rules'])}")
    asked = dataclasses.asdict(rules)
    odd = [name for name in asked if said["rules"].get(name) != asked[name]]
    if odd:
        name = odd[0]
        raise ValueError(
            f"shard {path}: of games with {name} {said['rules'].get(name)!r}; this run's have "
            f"{asked[name]!r}"
        )
    return About(**{name: said[name] for name in _TYPES})


def _check_arrays(
    path: pathlib.Path, arrays: dict[str, np.ndarray], shapes: Rows, count: int
) -> None:
    leaves = jax.tree_util.tree_leaves_with_path(shapes)
    asked = {_name(at): (x.dtype, x.shape) for at, x in leaves if 0 not in x.shape}
    asked["frequency"] = (np.dtype(np.uint16), ())
    for name in sorted(asked.keys() | arrays.keys()):
        if name not in asked or name not in arrays:
            what = "unknown" if name in arrays else "missing"
            raise ValueError(f"shard {path}: its array {name} is {what}")
        dtype, shape = asked[name]
        have = arrays[name]
        if (have.dtype, have.shape) != (dtype, (count, *shape)):
            raise ValueError(
                f"shard {path}: {name} is {have.dtype}{list(have.shape)}, and has to be "
                f"{dtype}{[count, *shape]}"
            )


def _check_numbers(
    path: pathlib.Path, arrays: dict[str, np.ndarray], frequency: np.ndarray
) -> None:
    """Refuse what would make a loss infinite."""
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(f"shard {path}: a number of {name} is not finite")
    target = arrays["policy_target"].astype(np.float32)
    if not (np.all(target >= 0) and np.allclose(target.sum(axis=1), 1, atol=1e-2)):
        raise ValueError(f"shard {path}: a policy_target is not a probability distribution")
    for name in ("outcome", "root_value"):
        if np.any(np.abs(arrays[name]) > 1 + 1e-3):
            raise ValueError(f"shard {path}: of {name} some are not in [-1, 1]")
    if np.any(frequency > buffers.MAX_FREQUENCY * buffers.FREQUENCY_UNIT):
        raise ValueError(f"shard {path}: a frequency is more than {buffers.MAX_FREQUENCY}")
