"""Checkpoints of a run's whole state, each written completely or not at all.

    checkpoints/000040/arrays/      the arrays, written by Orbax
    checkpoints/000040/about.json   version, iteration, every array's shape, every file's hash,
                                    and the SHA-256 of all that

A checkpoint is written under a temporary name that begins with a dot, and renamed once all of it is
on disk: a kill or a power cut at any moment leaves the previous one. The newest few are kept. One
that cannot be read is skipped, and renamed to 000040.damaged.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import logging
import os
import pathlib
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np

from gozero.play.rows import PolicyDtype
from gozero.runs.files import sync, sync_tree
from train import hosts

FORMAT = "gozero-run-3"
KEPT = 2

_BEFORE = "gozero-run-2"  # its record has no checksum
_KEYS = {"format": str, "iteration": int, "about": dict, "arrays": dict, "files": dict}
_NAME = re.compile(r"[0-9]{6,}")
_NEWER = {".playing.games.predicted"}
"""Arrays that checkpoints of earlier versions lack; a run resumed from one has zeros there."""


class Saved(NamedTuple):
    """A checkpoint on disk."""

    path: pathlib.Path
    iteration: int


def found(folder: pathlib.Path) -> list[Saved]:
    """The complete checkpoints of a run, the newest first."""
    paths = [path.parent for path in folder.glob("*/about.json")]
    saved = [Saved(path, int(path.name)) for path in paths if _NAME.fullmatch(path.name)]
    return sorted(saved, key=lambda one: -one.iteration)


def found_by_all(folder: pathlib.Path) -> list[Saved]:
    """`found`, as the first of a run's processes sees it."""
    iterations = hosts.said_by_first([one.iteration for one in found(folder)])
    return [Saved(folder / f"{iteration:06d}", iteration) for iteration in iterations]


def sweep(folder: pathlib.Path) -> None:
    """Remove partial checkpoints, left by kills in the middle of a save."""
    for path in folder.glob(".[0-9]*.part"):
        shutil.rmtree(path, ignore_errors=True)


def set_aside(saved: Sequence[Saved]) -> None:
    """Rename checkpoints that cannot be resumed from, so that they no longer count."""
    for one in saved:
        aside = one.path.with_name(f"{one.path.name}.damaged")
        shutil.rmtree(aside, ignore_errors=True)
        with contextlib.suppress(OSError):  # then it is skipped again next time
            one.path.rename(aside)
            print(f"{one.path}: set aside as {aside.name}", file=sys.stderr)


def save(folder: pathlib.Path, iteration: int, state: Any, about: dict) -> Saved:
    """Write a checkpoint, and delete all but the newest few.

    Called by every process of a run, on a folder that all of them see.

    Args:
      folder: of the checkpoints.
      iteration: iterations done.
      state: a pytree of arrays and PRNG keys.
      about: anything else to store, as JSON.

    Raises:
      OSError: it cannot be written; what was there before is still there.
    """
    place, partial = folder / f"{iteration:06d}", folder / f".{iteration:06d}.part"
    named = _named(state)
    try:
        hosts.at_first(lambda: _make_empty(partial))
        hosts.at_each(lambda: _write_arrays(partial / "arrays", named))
        hosts.at_first(lambda: _describe(partial, iteration, _shapes(named), about))
        hosts.at_first(lambda: _put_in_place(partial, place))
    except Exception as error:  # on a full disk Orbax raises exceptions of many kinds
        shutil.rmtree(partial, ignore_errors=True)
        raise OSError(f"checkpoint {place}: cannot be written ({_why(error)})") from error
    for old in found(folder)[KEPT:] if hosts.is_first() else ():
        shutil.rmtree(old.path, ignore_errors=True)
    return Saved(place, iteration)


def begin(folder: pathlib.Path, iteration: int, state: Any, about: dict) -> Future[Saved]:
    """`save` a copy in the host's memory, in a thread: the state itself may be donated at once.

    In a run of several processes it is done when this returns, because all of them take part.
    """
    if jax.process_count() == 1:
        state = jax.tree.map(lambda leaf: np.array(_plain(leaf)), state)
    writer = ThreadPoolExecutor(1, "checkpoint")
    written = writer.submit(save, folder, iteration, state, about)
    writer.shutdown(wait=jax.process_count() > 1)
    return written


def lanes_of(saved: Saved) -> tuple[int, int]:
    """(the number of devices of a checkpoint, the games in play on each).

    Raises:
      ValueError: it is damaged, or not of a run.
    """
    shape = _saved_shape(_read_about(saved.path)["arrays"].get(".playing.lanes.game", ""))
    if len(shape) != 2:
        raise ValueError(f"checkpoint {saved.path}: of no games in play")
    return shape[0], shape[1]


def policies_of(saved: Saved) -> str:
    """The dtype of the policy targets in a checkpoint's replay.

    Raises:
      ValueError: it is damaged.
    """
    said = _read_about(saved.path)["arrays"].get(".playing.buffer.rows.policy_target", "")
    dtype = said.partition("[")[0]
    if dtype not in get_args(PolicyDtype):
        raise ValueError(f"checkpoint {saved.path}: of no replay")
    return dtype


def on_the_host(saved: Saved, like: Any, name: str) -> Any:
    """A part of `restore`'s `like`, named by its place there, with the shapes and the dtype of
    policy targets of a checkpoint; without shardings, so that it is restored as NumPy arrays.

    Raises:
      ValueError: it is damaged.
    """
    have, policies = _read_about(saved.path)["arrays"], policies_of(saved)

    def one(path, leaf):
        own = name + jax.tree_util.keystr(path)
        shape = _saved_shape(have.get(own, "")) or leaf.shape
        dtype = policies if own.endswith(".policy_target") else leaf.dtype
        return jax.ShapeDtypeStruct(shape[: leaf.ndim], dtype)  # the data of keys has one axis more

    return jax.tree_util.tree_map_with_path(one, like)


def restore(saved: Saved, like: Any) -> tuple[Any, dict]:
    """Read a checkpoint.

    Args:
      saved: which.
      like: the shapes, dtypes and shardings of the state to restore, a tree of
        `jax.ShapeDtypeStruct`, with the keys' own dtype. An array without a sharding is restored
        whole, as a NumPy array.

    Returns:
      (the state, the `about` that `save` was given).

    Raises:
      ValueError: it is damaged, cannot be read, is of another version, or has other arrays than
        those asked for; says which.
    """
    asked = _named(like)
    about = hosts.at_each(lambda: _checked(saved.path, _shapes(asked)))
    asked = {name: leaf for name, leaf in asked.items() if name in about["arrays"]}
    arrays = hosts.at_each(lambda: _read_arrays(saved.path / "arrays", asked))
    return _like(like, arrays), about["about"]


def _named(state: Any) -> dict[str, Any]:
    """{name: array} of all arrays that are not empty; PRNG keys as their data."""
    leaves = jax.tree_util.tree_leaves_with_path(state)
    plain = {jax.tree_util.keystr(path): _plain(leaf) for path, leaf in leaves}
    return {name: leaf for name, leaf in plain.items() if leaf.size}


def _plain(leaf: Any) -> Any:
    if not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return leaf
    if isinstance(leaf, jax.ShapeDtypeStruct):
        data = jax.eval_shape(jax.random.key_data, leaf)
        return jax.ShapeDtypeStruct(data.shape, data.dtype, sharding=leaf.sharding)
    return jax.random.key_data(leaf)


def _like(like: Any, arrays: dict[str, Any]) -> Any:
    """A tree of the structure of `like`, with the arrays of a checkpoint."""

    def one(path, shape):
        name = jax.tree_util.keystr(path)
        if name not in arrays:  # empty, or one of `_NEWER`
            nothing = np.zeros(shape.shape, shape.dtype)
            return (
                nothing
                if shape.sharding is None
                else jax.make_array_from_callback(
                    shape.shape, shape.sharding, lambda index: nothing[index]
                )
            )
        if jnp.issubdtype(shape.dtype, jax.dtypes.prng_key):
            return jax.random.wrap_key_data(arrays[name])
        return arrays[name]

    return jax.tree_util.tree_map_with_path(one, like)


def _shapes(named: dict[str, Any]) -> dict[str, str]:
    return {name: f"{leaf.dtype}{list(leaf.shape)}" for name, leaf in named.items()}


def _saved_shape(said: str) -> tuple[int, ...]:
    """The shape of an array in the form of `_shapes`; () for an empty string."""
    return tuple(map(int, re.findall(r"\d+", said.partition("[")[2])))


def _write_arrays(path: pathlib.Path, named: dict[str, Any]) -> None:
    import orbax.checkpoint as ocp

    with _hushed(), ocp.Checkpointer(ocp.StandardCheckpointHandler()) as writer:
        writer.save(path.absolute(), args=ocp.args.StandardSave(named))


@contextlib.contextmanager
def _hushed() -> Iterator[None]:
    """Silence loggers until this is done, and for good after an error, which ends the program: on a
    full disk Orbax's threads also log a traceback for each array, some as late as Python's exit."""
    loggers = [logging.getLogger(name) for name in ("absl", "asyncio")]
    before, hook = [logger.disabled for logger in loggers], sys.unraisablehook
    for logger in loggers:
        logger.disabled = True
    sys.unraisablehook = lambda _: None
    yield
    sys.unraisablehook = hook
    for logger, disabled in zip(loggers, before, strict=True):
        logger.disabled = disabled


def _read_arrays(path: pathlib.Path, named: dict[str, Any]) -> dict[str, Any]:
    import orbax.checkpoint as ocp

    whole = lambda leaf: np.broadcast_to(np.zeros((), leaf.dtype), leaf.shape)  # as NumPy's
    named = {n: whole(leaf) if leaf.sharding is None else leaf for n, leaf in named.items()}
    with ocp.Checkpointer(ocp.StandardCheckpointHandler()) as reader:
        try:
            return reader.restore(path.absolute(), args=ocp.args.StandardRestore(named))
        except Exception as error:
            raise ValueError(f"checkpoint {path.parent}: {_why(error)}") from error


def _make_empty(path: pathlib.Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)


def _describe(path: pathlib.Path, iteration: int, shapes: dict[str, str], about: dict) -> None:
    description = {
        "format": FORMAT,
        "iteration": iteration,
        "about": about,
        "arrays": shapes,
        "files": _hashes(path / "arrays"),
    }
    (path / "about.json").write_bytes(_encoded(description))


def _encoded(record: dict) -> bytes:
    """The bytes of about.json: a record and, last, its own SHA-256."""
    digest = hashlib.sha256(json.dumps(record).encode()).hexdigest()
    return (json.dumps(record | {"sha256": digest}, indent=1) + "\n").encode()


def _put_in_place(partial: pathlib.Path, place: pathlib.Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    sync_tree(partial)
    partial.rename(place)
    for folder in (place.parent, place.parent.parent):
        sync(folder)


def _hashes(path: pathlib.Path) -> dict[str, str]:
    """{file: SHA-256} of all files in a folder."""
    hashes = {}
    for file in sorted(path.rglob("*")):
        if file.is_file():
            with file.open("rb") as opened:
                digest = hashlib.file_digest(opened, "sha256")
            hashes[str(file.relative_to(path))] = digest.hexdigest()
    return hashes


def _checked(path: pathlib.Path, asked: dict[str, str]) -> dict:
    """A checkpoint's record, if its files are what the record says and what is asked for."""
    about = _read_about(path)
    _check_files(path, about["files"])
    _check_arrays(path, about["arrays"], asked)
    return about


def _read_about(path: pathlib.Path) -> dict:
    """The record of a checkpoint, if it is what `save` wrote, byte for byte."""
    try:
        data = (path / "about.json").read_bytes()
        record = json.loads(data)
        version = record["format"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"checkpoint {path}: about.json is damaged ({error})") from error
    if version not in (FORMAT, _BEFORE):
        raise ValueError(f"checkpoint {path}: of format {version!r}; this version reads {FORMAT!r}")
    said = record.pop("sha256", None) if version == FORMAT else None
    if version == FORMAT and _encoded(record) != data:
        raise ValueError(f"checkpoint {path}: about.json is damaged (its SHA-256 is not {said})")
    _check_record(path, record)
    return record


def _check_record(path: pathlib.Path, record: dict) -> None:
    """Check the keys of a record, and that it is of this iteration."""
    kinds = {name: type(value) for name, value in record.items()}
    odd = sorted(name for name in kinds.keys() | _KEYS if kinds.get(name) is not _KEYS.get(name))
    if odd:
        what = "lacks" if odd[0] not in kinds else "has an unknown or odd"
        raise ValueError(f"checkpoint {path}: about.json is damaged ({what} {odd[0]!r})")
    if record["iteration"] != int(path.name):
        raise ValueError(f"checkpoint {path}: about.json is of iteration {record['iteration']}")


def _check_files(path: pathlib.Path, hashes: dict[str, str]) -> None:
    try:
        there = _hashes(path / "arrays")
    except OSError as error:
        raise ValueError(f"checkpoint {path}: its files cannot be read ({error})") from error
    odd = sorted(name for name, digest in hashes.items() if there.get(name) != digest)
    if odd:
        what = "is damaged" if odd[0] in there else "is missing"
        raise ValueError(f"checkpoint {path}: its file {odd[0]} {what}")


def _check_arrays(path: pathlib.Path, have: dict[str, str], asked: dict[str, str]) -> None:
    have = {name: asked[name] for name in _NEWER & asked.keys()} | have
    odd = sorted(name for name in have.keys() | asked.keys() if have.get(name) != asked.get(name))
    if odd:
        name = odd[0]
        raise ValueError(
            f"checkpoint {path}: of another network or other games: {name} is "
            f"{have.get(name, 'missing')}, and {asked.get(name, 'not there')} in this run; give "
            "the flags that it was made with, or a new folder"
        )


def _why(error: BaseException) -> str:
    """An error in one line; for a full disk only that."""
    full = os.strerror(errno.ENOSPC)
    text = str(error).strip() or type(error).__name__
    return full if full in text else text.splitlines()[0]
