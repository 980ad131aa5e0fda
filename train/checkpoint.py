"""Checkpoints of a run's complete state; each is written completely or not at all.

    checkpoints/000040/arrays/      the arrays, written by Orbax
    checkpoints/000040/about.json   version, iteration, every array's shape, every file's hash,
                                    and the SHA-256 of all of these

A checkpoint is written under a temporary name that begins with a dot, and renamed once all of it is
on disk, so a kill or a power cut at any moment leaves the previous one intact. The newest few are
kept. A checkpoint that cannot be read is skipped, and renamed to 000040.damaged.
"""

from __future__ import annotations

import contextlib
import copy
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

from gozero.apps import runtime
from gozero.play.rows import PolicyDtype
from gozero.runs.files import sync, sync_tree
from train import hosts

FORMAT = "gozero-run-3"
KEPT = 2

_PREVIOUS_FORMAT = "gozero-run-2"  # its record has no checksum
_KEYS = {"format": str, "iteration": int, "about": dict, "arrays": dict, "files": dict}
_NAME = re.compile(r"[0-9]{6,}")
_ADDED_LATER = {".playing.games.predicted"}
"""Arrays that checkpoints of earlier versions lack; a run resumed from one has zeros there."""


class Checkpoint(NamedTuple):
    """A checkpoint on disk."""

    path: pathlib.Path
    iteration: int


def saved_in(folder: pathlib.Path) -> list[Checkpoint]:
    """The complete checkpoints of a run, the newest first."""
    paths = [path.parent for path in folder.glob("*/about.json")]
    saved = [Checkpoint(path, int(path.name)) for path in paths if _NAME.fullmatch(path.name)]
    return sorted(saved, key=lambda one: -one.iteration)


def saved_on_first_host(folder: pathlib.Path) -> list[Checkpoint]:
    """The result of `saved_in` on the first host, on every host."""
    iterations = hosts.broadcast_from_first([one.iteration for one in saved_in(folder)])
    return [Checkpoint(folder / f"{iteration:06d}", iteration) for iteration in iterations]


def sweep(folder: pathlib.Path) -> None:
    """Remove partial checkpoints, left by kills in the middle of a save."""
    for path in folder.glob(".[0-9]*.part"):
        shutil.rmtree(path, ignore_errors=True)


def set_aside(saved: Sequence[Checkpoint]) -> None:
    """Rename checkpoints that cannot be resumed from, so that they no longer count."""
    for one in saved:
        aside = one.path.with_name(f"{one.path.name}.damaged")
        shutil.rmtree(aside, ignore_errors=True)
        with contextlib.suppress(OSError):  # it is then skipped again next time
            one.path.rename(aside)
            print(f"checkpoint {one.path}: renamed to {aside.name}", file=sys.stderr)


def save(folder: pathlib.Path, iteration: int, state: Any, about: dict) -> Checkpoint:
    """Write a checkpoint, and delete all but the newest few.

    Called by every process of a run, on a folder that all of them see.

    Args:
      folder: of the checkpoints.
      iteration: iterations done.
      state: a pytree of arrays and PRNG keys.
      about: anything else to store, as JSON.

    Raises:
      OSError: it cannot be written; earlier checkpoints are unchanged.
    """
    path, partial = folder / f"{iteration:06d}", folder / f".{iteration:06d}.part"
    arrays = _arrays_by_name(state)
    try:
        hosts.run_on_first(lambda: _make_empty(partial))
        hosts.run_on_each(lambda: _write_arrays(partial / "arrays", arrays))
        hosts.run_on_first(lambda: _write_about(partial, iteration, _shapes(arrays), about))
        hosts.run_on_first(lambda: _put_in_place(partial, path))
    except Exception as error:  # on a full disk Orbax raises exceptions of many kinds
        shutil.rmtree(partial, ignore_errors=True)
        raise OSError(f"checkpoint {path} cannot be written ({_one_line(error)})") from error
    for old in saved_in(folder)[KEPT:] if hosts.is_first() else ():
        # Under a name that `sweep` removes, if it is not deleted to the end.
        doomed = old.path.with_name(f".{old.path.name}.part")
        with contextlib.suppress(OSError):
            old.path.rename(doomed)
        shutil.rmtree(doomed, ignore_errors=True)
    return Checkpoint(path, iteration)


def begin(folder: pathlib.Path, iteration: int, state: Any, about: dict) -> Future[Checkpoint]:
    """`save` a copy in the host's memory, in a thread: the state itself may be donated at once, and
    `about` changed.

    In a run of several processes the checkpoint is complete when this returns, because all of them
    take part.
    """
    about = copy.deepcopy(about)  # the learner goes on counting in it
    if jax.process_count() == 1:
        state = jax.tree.map(lambda leaf: np.array(_plain(leaf)), state)
    writer = ThreadPoolExecutor(1, "checkpoint")
    future = writer.submit(save, folder, iteration, state, about)
    writer.shutdown(wait=jax.process_count() > 1)
    return future


def lanes_of(saved: Checkpoint) -> tuple[int, int]:
    """(the number of devices that a checkpoint was saved on, the number of games in play on each).

    Raises:
      ValueError: it is damaged, or is not a checkpoint of a run.
    """
    shape = _saved_shape(_read_about(saved.path)["arrays"].get(".playing.lanes.game", ""))
    if len(shape) != 2:
        raise ValueError(f"checkpoint {saved.path} contains no games in play")
    return shape[0], shape[1]


def policies_of(saved: Checkpoint) -> str:
    """The dtype of the policy targets in a checkpoint's replay.

    Raises:
      ValueError: it is damaged.
    """
    description = _read_about(saved.path)["arrays"].get(".playing.buffer.rows.policy_target", "")
    dtype = description.partition("[")[0]
    if dtype not in get_args(PolicyDtype):
        raise ValueError(f"checkpoint {saved.path} contains no replay")
    return dtype


def unsharded_like(saved: Checkpoint, like: Any, name: str) -> Any:
    """The argument `like` of `restore` for a part of the state, to read it as NumPy arrays.

    The shapes, and the dtype of policy targets, are those of the checkpoint; there are no
    shardings.

    Args:
      saved: the checkpoint.
      like: the shapes and dtypes of that part in this run.
      name: the path of that part in the state, such as ".playing".

    Raises:
      ValueError: it is damaged.
    """
    saved_shapes, policy_dtype = _read_about(saved.path)["arrays"], policies_of(saved)

    def one(path, leaf):
        array_name = name + jax.tree_util.keystr(path)
        shape = _saved_shape(saved_shapes.get(array_name, "")) or leaf.shape
        dtype = policy_dtype if array_name.endswith(".policy_target") else leaf.dtype
        # The data of PRNG keys has one more axis.
        return jax.ShapeDtypeStruct(shape[: leaf.ndim], dtype)

    return jax.tree_util.tree_map_with_path(one, like)


def restore(saved: Checkpoint, like: Any) -> tuple[Any, dict]:
    """Read a checkpoint.

    Args:
      saved: which.
      like: the shapes, dtypes and shardings of the state to restore, a tree of
        `jax.ShapeDtypeStruct`, with the keys' own dtype. An array without a sharding is restored
        whole, as a NumPy array.

    Returns:
      (the state, the `about` that `save` was given).

    Raises:
      ValueError: it is damaged, cannot be read, has another format, or its arrays differ from
        `like`; the message names the first that does.
    """
    expected = _arrays_by_name(like)
    about = hosts.run_on_each(lambda: _read_and_check(saved.path, _shapes(expected)))
    expected = {name: leaf for name, leaf in expected.items() if name in about["arrays"]}
    arrays = hosts.run_on_each(lambda: _read_arrays(saved.path / "arrays", expected))
    return _tree_like(like, arrays), about["about"]


def _arrays_by_name(state: Any) -> dict[str, Any]:
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


def _tree_like(like: Any, arrays: dict[str, Any]) -> Any:
    """A tree of the structure of `like`, with the arrays of a checkpoint."""

    def one(path, shape):
        name = jax.tree_util.keystr(path)
        if name not in arrays:  # empty, or one of `_ADDED_LATER`
            zeros = np.zeros(shape.shape, shape.dtype)
            return (
                zeros
                if shape.sharding is None
                else jax.make_array_from_callback(
                    shape.shape, shape.sharding, lambda index: zeros[index]
                )
            )
        if jnp.issubdtype(shape.dtype, jax.dtypes.prng_key):
            return jax.random.wrap_key_data(arrays[name])
        return arrays[name]

    return jax.tree_util.tree_map_with_path(one, like)


def _shapes(named: dict[str, Any]) -> dict[str, str]:
    return {name: f"{leaf.dtype}{list(leaf.shape)}" for name, leaf in named.items()}


def _saved_shape(description: str) -> tuple[int, ...]:
    """The shape of an array in the form of `_shapes`; () for an empty string."""
    return tuple(map(int, re.findall(r"\d+", description.partition("[")[2])))


def _write_arrays(path: pathlib.Path, named: dict[str, Any]) -> None:
    import orbax.checkpoint as ocp

    with _silenced_loggers(), ocp.Checkpointer(ocp.StandardCheckpointHandler()) as writer:
        writer.save(path.absolute(), args=ocp.args.StandardSave(named))


@contextlib.contextmanager
def _silenced_loggers() -> Iterator[None]:
    """Disable loggers meanwhile; after an error, which ends the program, they stay disabled.

    On a full disk Orbax's threads log a traceback for each array, some as late as Python's exit.
    """
    loggers = [logging.getLogger(name) for name in ("absl", "asyncio")]
    were_disabled, hook = [logger.disabled for logger in loggers], sys.unraisablehook
    for logger in loggers:
        logger.disabled = True
    sys.unraisablehook = lambda _: None
    yield
    sys.unraisablehook = hook
    for logger, disabled in zip(loggers, were_disabled, strict=True):
        logger.disabled = disabled


def _read_arrays(path: pathlib.Path, named: dict[str, Any]) -> dict[str, Any]:
    import orbax.checkpoint as ocp

    # Arrays without a sharding are restored as NumPy arrays.
    unsharded = lambda leaf: np.broadcast_to(np.zeros((), leaf.dtype), leaf.shape)
    named = {n: unsharded(leaf) if leaf.sharding is None else leaf for n, leaf in named.items()}
    with ocp.Checkpointer(ocp.StandardCheckpointHandler()) as reader:
        try:
            return reader.restore(path.absolute(), args=ocp.args.StandardRestore(named))
        except Exception as error:
            if isinstance(error, RuntimeError) and runtime.is_out_of_memory(error):
                raise  # says nothing of the checkpoint
            raise ValueError(f"checkpoint {path.parent}: {_one_line(error)}") from error


def _make_empty(path: pathlib.Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)


def _write_about(path: pathlib.Path, iteration: int, shapes: dict[str, str], about: dict) -> None:
    record = {
        "format": FORMAT,
        "iteration": iteration,
        "about": about,
        "arrays": shapes,
        "files": _hashes(path / "arrays"),
    }
    (path / "about.json").write_bytes(_encoded(record))


def _encoded(record: dict) -> bytes:
    """The bytes of about.json: a record and, last, its own SHA-256."""
    digest = hashlib.sha256(json.dumps(record).encode()).hexdigest()
    return (json.dumps(record | {"sha256": digest}, indent=1) + "\n").encode()


def _put_in_place(partial: pathlib.Path, path: pathlib.Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
    sync_tree(partial)
    partial.rename(path)
    for folder in (path.parent, path.parent.parent):
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


def _read_and_check(path: pathlib.Path, expected: dict[str, str]) -> dict:
    """A checkpoint's record, after checking its files against it and its arrays against those
    expected."""
    about = _read_about(path)
    _check_files(path, about["files"])
    _check_arrays(path, about["arrays"], expected)
    return about


def _read_about(path: pathlib.Path) -> dict:
    """The record of a checkpoint, if it is what `save` wrote, byte for byte."""
    try:
        data = (path / "about.json").read_bytes()
        record = json.loads(data)
        version = record["format"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"checkpoint {path}: about.json is damaged ({error})") from error
    if version not in (FORMAT, _PREVIOUS_FORMAT):
        raise ValueError(f"checkpoint {path} has format {version!r}; this version reads {FORMAT!r}")
    sha256 = record.pop("sha256", None) if version == FORMAT else None
    if version == FORMAT and _encoded(record) != data:
        raise ValueError(f"checkpoint {path}: about.json is damaged (its SHA-256 is not {sha256})")
    _check_record(path, record)
    return record


def _check_record(path: pathlib.Path, record: dict) -> None:
    """Check the keys of a record, and that its iteration is the one in the path."""
    kinds = {name: type(value) for name, value in record.items()}
    wrong = sorted(name for name in kinds.keys() | _KEYS if kinds.get(name) is not _KEYS.get(name))
    if wrong:
        what = "lacks" if wrong[0] not in kinds else "has an unknown key or a wrong type at"
        raise ValueError(f"checkpoint {path}: about.json is damaged ({what} {wrong[0]!r})")
    if record["iteration"] != int(path.name):
        raise ValueError(f"checkpoint {path}: about.json states iteration {record['iteration']}")


def _check_files(path: pathlib.Path, hashes: dict[str, str]) -> None:
    try:
        actual = _hashes(path / "arrays")
    except OSError as error:
        raise ValueError(f"checkpoint {path}: its files cannot be read ({error})") from error
    wrong = sorted(name for name, digest in hashes.items() if actual.get(name) != digest)
    if wrong:
        what = "is damaged" if wrong[0] in actual else "is missing"
        raise ValueError(f"checkpoint {path}: its file {wrong[0]} {what}")


def _check_arrays(path: pathlib.Path, saved: dict[str, str], expected: dict[str, str]) -> None:
    saved = {name: expected[name] for name in _ADDED_LATER & expected.keys()} | saved
    names = saved.keys() | expected.keys()
    wrong = sorted(name for name in names if saved.get(name) != expected.get(name))
    if wrong:
        name = wrong[0]
        raise ValueError(
            f"checkpoint {path} is of another network or other games: {name} is "
            f"{saved.get(name, 'missing')} in it, and {expected.get(name, 'missing')} in this run; "
            "give the flags that it was made with, or name a new folder"
        )


def _one_line(error: BaseException) -> str:
    """The message of an error in one line; for a full disk only "No space left on device"."""
    full = os.strerror(errno.ENOSPC)
    text = str(error).strip() or type(error).__name__
    return full if full in text else text.splitlines()[0]
