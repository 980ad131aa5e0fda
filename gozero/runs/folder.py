"""The folder of a long command: one process at a time, the same settings, resumable after a kill.

config.json     the settings, as JSON
manifest.json   what ran, for each session: versions, device, command, commit
*.jsonl         the results, see `gozero.runs.files`
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import importlib.metadata
import os
import pathlib
import platform
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator
from typing import IO, Any

import gozero
from gozero.runs import files, store

CONFIG, MANIFEST = "config.json", "manifest.json"
PROBE = ".probe"


class RunFolder:
    """The folder of a run, new or to be resumed; no other process can use it until it is closed.

    The settings are read before the lock is taken, so that a refused command leaves no file behind,
    and again after. A context manager.

    Attributes:
      path: the folder.
      before: the previous config.json; None in a new folder.
      manifest: the previous manifest.json; {} in a new folder.

    Args:
      path: the folder: new, empty, or that of an earlier run.
      kind: the kind of run, for messages: ``match``.
      must_agree: ``must_agree(config)`` raises a ValueError if config.json belongs to another
        run; see the function `must_agree`.
      lock: the name of the file to lock, which may be a file of records.
      busy: the message if another process uses the folder.

    Raises:
      ValueError: the folder contains something else or a run with other settings, another process
        uses it, or it cannot be read or written.
    """

    def __init__(
        self,
        path: pathlib.Path,
        kind: str,
        must_agree: Callable[[dict], None],
        lock: str,
        busy: str = "is being written by another process",
    ):
        self.path, self._kind, self._must_agree = path, kind, must_agree
        self._lock_path, self._busy = path / lock, f"out: {path} {busy}"
        if self._read_config() is None:
            claim(path, leftover_files(path, lock))
        try:
            self._lock()
        except OSError as error:
            raise ValueError(_cannot_write(path, error)) from error
        with self.opening():
            self.before = self._read_config()  # it may have changed before the lock was taken
            self.manifest = self._read_manifest()

    def _lock(self) -> None:
        precaution = f"nothing else writes to {self.path}"
        self._locked = lock_file(self._lock_path, self._busy, precaution)

    def _read_config(self) -> dict | None:
        config = read_config(self.path, self._kind)
        try:
            if config is not None:
                self._must_agree(config)
        except RecursionError as error:
            raise ValueError(not_of(self.path / CONFIG, self._kind)) from error
        return config

    def _read_manifest(self) -> dict:
        path = self.path / MANIFEST
        if not (self.before and path.exists()):
            return {}
        facts = _read_object(path, self._kind)
        if not _is_manifest(facts):
            raise ValueError(not_of(path, self._kind))
        return facts

    def write_config(self, settings: Any) -> None:
        """Write the settings, after all checks have passed."""
        files.write_json(self.path / CONFIG, settings, durable=True)

    @contextlib.contextmanager
    def opening(self) -> Iterator[None]:
        """A context for other reads and writes while the folder is opened: any error closes it.

        Raises:
          ValueError: instead of an OSError.
        """
        try:
            yield
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                raise ValueError(_cannot_write(self.path, error)) from error
            raise

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """A context in which OSErrors name the folder."""
        try:
            yield
        except OSError as error:
            raise OSError(_cannot_write(self.path, error)) from error

    def write_manifest(self, facts: dict) -> None:
        """Write the manifest of the run.

        Raises:
          OSError: it cannot be written (a full disk, for example); the error names the folder.
        """
        with self.writing():
            files.write_json(self.path / MANIFEST, facts, durable=True)

    def close(self) -> None:
        """Unlock the folder for other processes."""
        self._locked.close()

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_config(folder: pathlib.Path, kind: str) -> dict | None:
    """The config.json of a run; None if the folder has none.

    Raises:
      ValueError: it cannot be read, or is not a JSON object.
    """
    path = folder / CONFIG
    try:
        if not path.exists():
            return None
    except OSError as error:  # exists() raises for a name that is too long
        raise ValueError(f"out: {folder} cannot be read ({error.strerror})") from error
    return _read_object(path, kind)


def _read_object(path: pathlib.Path, kind: str) -> dict:
    try:
        value = files.parse_json(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ValueError(f"out: {path} cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(not_of(path, kind))
    return value


def _is_manifest(facts: dict) -> bool:
    """Whether the parts of a manifest that runs read back have the types that they wrote."""
    sessions, sides = facts.get("sessions", []), facts.get("evaluators", {})
    return (
        isinstance(facts.get("session", 0), int)
        and isinstance(sessions, list)
        and all(
            isinstance(entry, dict) and isinstance(entry.get("done"), int) for entry in sessions
        )
        and isinstance(sides, dict)
        and all(isinstance(entry, dict) for entry in sides.values())
    )


def not_of(path: pathlib.Path, kind: str) -> str:
    """The message for a file that does not belong to this kind of run."""
    return f"out: {path} does not belong to a {kind}; name a new folder"


def differences(
    before: dict,
    requested: dict,
    may_differ: Collection[str] = (),
    called: Callable[[str], str] = lambda name: f"--{name.replace('_', '-')}",
) -> list[str]:
    """``--komi was 7.0 and is 5.0`` for each setting that differs, in order of their names.

    Args:
      before, requested: settings; those of a nested dict are named like ``player.search``.
      may_differ: the names of settings that may differ.
      called: maps a setting's name to its name in the text.
    """
    old, new = flat(before), flat(requested)
    return [
        f"{called(key)} was {old.get(key)} and is {new.get(key)}"
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key) and key not in may_differ
    ]


def flat(settings: dict, prefix: str = "") -> dict:
    """{"player.search": ...} from {"player": {"search": ...}}."""
    plain = {}
    for name, value in settings.items():
        nested = isinstance(value, dict)
        plain |= flat(value, f"{prefix}{name}.") if nested else {prefix + name: value}
    return plain


def must_agree(
    path: pathlib.Path, kind: str, before: dict, requested: dict, may_differ: Collection[str] = ()
) -> None:
    """Refuse to resume a run that has other settings.

    Raises:
      ValueError: settings differ; the message names each, what it was and what it is.
    """
    changes = differences(before, requested, may_differ)
    if changes:
        raise ValueError(
            f"out: {path} contains a {kind} with other flags: {'; '.join(changes)}; give the same "
            "flags to resume it, or name a new folder"
        )


def lock_file(path: pathlib.Path, busy: str, precaution: str) -> IO[bytes]:
    """Lock a file, creating it if needed, until the returned file is closed or the process ends.

    Args:
      path: the file.
      busy: the message if another process holds the lock.
      precaution: what the user must ensure if the file system cannot lock; only printed.

    Raises:
      ValueError: another process holds the lock.
      OSError: it cannot be created.
    """
    file = path.open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.close()
        raise ValueError(busy) from error
    except OSError as error:
        reason = f"cannot be locked ({error.strerror})"
        print(f"{path}: {reason}; make sure that {precaution}", file=sys.stderr)
    return file


def claim(path: pathlib.Path, allowed: Collection[str] = ()) -> None:
    """Create the folder of a run, which must be new or empty.

    Args:
      path: the folder.
      allowed: names of files that it may contain.

    Raises:
      ValueError: it is not empty, is a file, a URL, or cannot be written.
    """
    if store.is_url(path):
        raise ValueError(
            f"out: {path} is a URL; only python -m train writes to buckets, so give a folder"
        )
    try:
        parents = [folder.parent for folder in (path, *path.parents) if not folder.exists()]
        path.mkdir(parents=True, exist_ok=True)
        for parent in parents:
            files.sync(parent)
        if any(file.name not in {PROBE, *allowed} for file in path.iterdir()):
            raise ValueError(
                f"out: {path} is not empty, and nothing is overwritten; name a new folder"
            )
        probe = path / PROBE
        probe.touch()
        probe.unlink(missing_ok=True)
    except OSError as error:
        raise ValueError(_cannot_write(path, error)) from error


def leftover_files(path: pathlib.Path, lock: str) -> set[str]:
    """Files that a run killed at its start may leave behind: the lock, a partial config.json."""
    leftovers = {lock, files.part_of(path / CONFIG).name}
    return leftovers if files.is_empty(path / lock) else set()


def _cannot_write(path: pathlib.Path, error: OSError) -> str:
    return f"out: {path} cannot be written ({error.strerror})"


@contextlib.contextmanager
def removed_if_empty(path: pathlib.Path) -> Iterator[None]:
    """Remove the folder at the end if it is empty and did not exist before."""
    is_new = not os.path.exists(path)
    try:
        yield
    finally:
        if is_new and os.path.isdir(path) and not any(path.iterdir()):
            path.rmdir()


def manifest(seed: int) -> dict:
    """The facts that identify a run: versions, device, command, commit."""
    import jax

    device = jax.devices()[0]
    versions = {
        name: importlib.metadata.version(name) for name in ("jax", "jaxlib", "flax", "numpy")
    }
    return {
        "gozero": gozero.__version__,
        "command": [pathlib.Path(sys.argv[0]).name, *sys.argv[1:]],
        "seed": seed,
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        **versions,
        "platform": platform.platform(),
        "device": device.device_kind,
        "backend": device.platform,
        "num_devices": jax.device_count(),
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
        **commit(),
    }


def commit() -> dict:
    """The git commit of a checkout, and whether it had changes; {} for an installed wheel."""
    root = pathlib.Path(gozero.__file__).parent.parent
    if not (root / ".git").exists():
        return {}

    def git(*args):
        # Without optional locks, which a timeout would leave behind.
        command = ["git", "--no-optional-locks", *args]
        result = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=10)
        return result.stdout.strip()

    try:
        commit, dirty = git("rev-parse", "HEAD"), bool(git("status", "--porcelain"))
    except (OSError, subprocess.SubprocessError):
        return {}
    return {"git_commit": commit, "git_dirty": dirty} if commit else {}


_OF_SESSION = ("started", "command", "gozero", "git_commit", "git_dirty", "jax", "device")


def with_sessions(facts: dict, before: dict, done: int) -> dict:
    """The manifest of a resumed run, with all its sessions.

    Args:
      facts: the new session's manifest.
      before: the earlier manifest, or {}.
      done: the number of results before the new session.

    Returns:
      The facts, with ``sessions``: what ran in each, and the number of results before it (`done`).
      Earlier sessions that produced no result are not listed.
    """
    earlier = before.get("sessions", [{**_session(before), "done": 0}] if before else [])
    with_results = [session for session in earlier if session["done"] < done]
    return {**facts, "sessions": [*with_results, {**_session(facts), "done": done}]}


def _session(facts: dict) -> dict:
    return {name: facts[name] for name in _OF_SESSION if name in facts}
