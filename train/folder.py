"""The folder of a run: what was asked, what came of each iteration, and going on.

config.json      every flag
manifest.json    versions, device, command, commit; of the last start; the SHA-256 of --weights
run.lock         held while it is trained
metrics.jsonl    one object an iteration
matches.jsonl    one object a match of an evaluation
checkpoints/     all that the run goes on from
weights/         the network that played, one file an evaluation or a checkpoint; 000000 began
weights.npz      the newest of them
shards/          what workers have played
workers/         how often each of them began, and what it has written
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import pathlib
import sys
from collections.abc import Iterator

from gozero.nets import weights
from gozero.runs import files
from gozero.runs import folder as folders
from gozero.runs.files import write_whole
from train import lock
from train.config import MAY_CHANGE, TrainConfig
from train.plan import Plan

METRICS, LOCK = "metrics.jsonl", "run.lock"


@contextlib.contextmanager
def held(config: TrainConfig) -> Iterator[None]:
    """`claim` a run's folder, and keep other processes from training the run meanwhile.

    Raises:
      ValueError: as `claim`, or another process trains it; nothing was changed.
    """
    _check(config)  # first, to leave no lock in a folder that is not a run's
    folder = config.folder
    taken = f"--out {folder}: another process trains this run; let it end, or name a new folder"
    with lock.take(folder / LOCK, taken, "no other process trains this run"):
        claim(config)
        yield


def claim(config: TrainConfig) -> bool:
    """Make a run's folder, or find it made by the same flags.

    Returns:
      Whether there is a run to go on with.

    Raises:
      ValueError: a folder that holds something else, or a run with other flags.
    """
    goes_on = _check(config)
    files.write_json(config.folder / "config.json", config.plain)
    return goes_on


def _check(config: TrainConfig) -> bool:
    """As `claim`, but for what is written."""
    path = config.folder / "config.json"
    before = _read(path) if path.exists() else None
    if before is None:
        folders.claim(config.folder, but=(LOCK,))
    else:
        _must_agree(config.folder, before, config.plain)
    return before is not None


def _read(path: pathlib.Path) -> dict:
    try:
        config = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ValueError(f"--out {path.parent}: {path.name} cannot be read ({error})") from error
    if not isinstance(config, dict) or "preset" not in config:
        raise ValueError(f"--out {path.parent}: not a run of self-play learning; name a new folder")
    return config


def read_config(folder: pathlib.Path) -> TrainConfig:
    """The flags of the run in a folder, wherever that lies now.

    Raises:
      ValueError: there is none, or one of another version.
    """
    plain = _read(folder / "config.json")
    odd = sorted(plain.keys() - {field.name for field in dataclasses.fields(TrainConfig)})
    if odd:
        raise ValueError(f"--out {folder}: a run of another version, with --{odd[0]}")
    path = plain.get("weights")
    try:
        komi = tuple(plain["komi"])
        exact = {"out": folder, "komi": komi, "weights": path and pathlib.Path(path)}
        return TrainConfig(**plain | exact)
    except (KeyError, TypeError) as error:
        raise ValueError(f"--out {folder}: config.json is not of a run ({error!r})") from error


def _must_agree(folder: pathlib.Path, before: dict, asked: dict) -> None:
    differ = [
        f"--{name.replace('_', '-')} was {before.get(name)} and is {asked.get(name)}"
        for name in sorted(before.keys() | asked.keys())
        if before.get(name) != asked.get(name) and name not in MAY_CHANGE
    ]
    if differ:
        raise ValueError(
            f"--out {folder} holds a run with other flags: {'; '.join(differ)}; give the same "
            "flags to go on with it, or a new folder"
        )


def check_weights(config: TrainConfig, sha256: str | None) -> None:
    """Refuse to begin a run again from weights of other contents.

    Args:
      config: of the run.
      sha256: of the file that it is to begin from; None: it needs none.

    Raises:
      ValueError: the run began from others.
    """
    before = sha256 and _weights_sha256(config.folder)
    if before and sha256 != before:
        raise ValueError(
            f"--weights {config.weights}: not what the run in {config.folder} began from: its "
            f"SHA-256 was {before} and is {sha256}; give the same weights, or a new folder"
        )


def write_manifest(config: TrainConfig, manifest: dict, sha256: str | None) -> None:
    """What runs in this start, and the SHA-256 of the weights that the run began from, if any."""
    if sha256 := sha256 or _weights_sha256(config.folder):
        manifest = manifest | {"weights_sha256": sha256}
    files.write_json(config.folder / "manifest.json", manifest)


def _weights_sha256(folder: pathlib.Path) -> str | None:
    """As the manifest has it; None: of none, or of an earlier version."""
    path = folder / "manifest.json"
    try:
        return json.loads(path.read_text()).get("weights_sha256")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, AttributeError) as error:
        print(f"{path}: cannot be read ({error!r}); it is written anew", file=sys.stderr)
        return None


def cut_lines(path: pathlib.Path, iteration: float = math.inf) -> list[dict]:
    """Cut off what a file of lines, if it is there, has of later iterations, and a line that a kill
    has torn; what is left."""
    kept = [line for line in read_lines(path) if line.get("iteration", 0) <= iteration]
    if path.exists():
        _write_lines(path, kept)
    return kept


def add_to_last_line(path: pathlib.Path, numbers: dict) -> None:
    """More of the last object of a file of lines, which has one."""
    *before, last = read_lines(path)
    _write_lines(path, [*before, last | numbers])


def _write_lines(path: pathlib.Path, lines: list[dict]) -> None:
    write_whole(path, "".join(json.dumps(line) + "\n" for line in lines).encode(), durable=True)


def read_lines(path: pathlib.Path) -> list[dict]:
    """The objects of a file of lines; one that a kill has torn is left out."""
    if not path.exists():
        return []
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            lines.append(json.loads(line))
        except ValueError:
            continue
    return lines


def add_line(path: pathlib.Path, numbers: dict) -> None:
    """One object more, which is then on the disk.

    Raises:
      OSError: it is not, a full disk say.
    """
    try:
        with path.open("ab") as file:
            file.write((json.dumps(numbers) + "\n").encode())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise OSError(f"{path}: cannot be written ({error})") from error


def has_weights(folder: pathlib.Path, iteration: int) -> bool:
    """Whether the network of an iteration is there, and is the newest."""
    newest = folder / "weights.json"  # written last
    if not (folder / "weights" / f"{iteration:06d}.json").exists() or not newest.exists():
        return False
    try:
        return json.loads(newest.read_text())["iteration"] == iteration
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"{newest}: cannot be read ({error!r}); it is written anew", file=sys.stderr)
        return False


def set_later_weights_aside(folder: pathlib.Path, iteration: int) -> None:
    """Rename the networks of later iterations, of a future that is gone: none is taken for the
    newest, and none is lost."""
    for path in (folder / "weights").glob("[0-9]*.*"):
        number = path.name.partition(".")[0]
        if number.isdigit() and int(number) > iteration:
            path.replace(path.with_name(f"later-{path.name}"))


def write_weights(plan: Plan, params: dict, iteration: int, command: list[str]) -> pathlib.Path:
    """The network of an iteration, and as the newest."""
    folder = plan.config.folder
    about = {
        "command": command,
        "preset": plan.config.preset,
        "iteration": iteration,
        "komi": list(plan.config.komi),
        "seed": plan.config.seed,
    }
    paths = (folder / "weights" / f"{iteration:06d}.npz", folder / "weights.npz")
    for path in paths:
        weights.save(path, params, plan.learner.network, plan.rules.size, **about)
    return paths[0]
