"""The folder of a run: its settings, the results of each iteration, and resuming.

config.json      every flag
manifest.json    versions, device, command, commit; of the last start; the SHA-256 of --weights
run.lock         held while the run is trained
metrics.jsonl    one object per iteration
matches.jsonl    one object per match of an evaluation
tensorboard/     the metrics for TensorBoard, with --tensorboard
checkpoints/     everything that the run resumes from
weights/         the network that plays, one file per evaluation or checkpoint; 000000 is the first
weights.safetensors  the newest of them
newest.json      the version of the weights that workers play with; see `train.exchange`
newest/          those weights
shards/          what workers have played
"""

from __future__ import annotations

import dataclasses
import math
import pathlib
import sys
from typing import Any

from gozero.nets import weights
from gozero.runs import arrays, files, settings, store
from gozero.runs import folder as folders
from gozero.runs.folder import RunFolder
from train import checkpoint
from train.config import EARLIER_PUCT, MAY_CHANGE, PUCT, TrainConfig
from train.plan import Plan

METRICS, MATCHES = "metrics.jsonl", "matches.jsonl"
LOCK, NEWEST = "run.lock", "weights.safetensors"
KIND = "training run"
_MOST_BYTES = 2**20
"""The largest size of config.json, and of a line of records."""

_TIMES = dict.fromkeys(("playing_s", "learning_s", "evaluation_s", "gate_s"), float)
_GAMES = dict.fromkeys(("won", "drawn", "lost"), int)
_MATCH = {"iteration": int, "opponent": str, "simulations": int, **_GAMES}
_TYPES: dict[str, dict[str, type]] = {
    METRICS: {"iteration": int, "simulations": int, "elo": float, **_TIMES}
    | dict.fromkeys(("before", "gate"), list),
    MATCHES: _MATCH,
}
"""The types of the values that are used in calculations, in the lines of each file."""

_OTHER_TYPES = {"iteration": int, "points": list, **_GAMES}
_REQUIRED = {METRICS: {"iteration"}, MATCHES: _MATCH.keys()}


class TrainFolder(RunFolder):
    """The folder of a new or resumed run, locked so that no other process can train the run.

    Raises:
      ValueError: as `RunFolder`; nothing has been changed then.
    """

    def __init__(self, config: TrainConfig):
        self._config, flags = config, config.plain
        check = lambda before: _check_same_flags(config, before, flags)
        busy = "is being trained by another process; wait until it ends, or name a new folder"
        super().__init__(config.folder, KIND, check, LOCK, busy)
        with self.opening():
            self._check_not_lost()
            self.write_config(flags)

    def _check_not_lost(self) -> None:
        """Refuse to start over where checkpoints must have been lost: where there are weights after
        the first, or metrics of more iterations than precede the first checkpoint.

        Raises:
          ValueError: checkpoints are missing; the message says what can be done.
        """
        if self.before is None or checkpoint.saved_in(self.path / "checkpoints"):
            return
        lines = _read(self.path / METRICS, [])
        last = max((line["iteration"] for line in lines), default=0)
        later = [path for path in weights_files(self.path) if path.stem.strip("0")]
        every: Any = self.before.get("checkpoint_every")
        if later or not _has_type(every, int) or last > every:
            raise ValueError(
                f"--out {self.path}: metrics of {last} iterations but no checkpoint to resume; "
                f"{recovery_options(self.path)}"
            )

    def begin(self, facts: dict, weights: str | None, teacher: str | None = None) -> None:
        """Record the facts of this start, and the networks that the run began with, if any.

        Args:
          facts: for the manifest.
          weights: the SHA-256 of the weights to begin from; None if none are needed.
          teacher: the SHA-256 of the teacher's weights; None without a teacher.

        Raises:
          ValueError: the run began with other weights.
        """
        digests = {}
        for name, digest in {"weights": weights, "teacher": teacher}.items():
            before = self.manifest.get(f"{name}_sha256")
            if before and digest not in (None, before):
                flag = f"--{name} {getattr(self._config, name)}"
                raise ValueError(
                    f"{flag}: the run in {self.path} began from other weights: their SHA-256 was "
                    f"{before} and is {digest}; give the same weights, or name a new folder"
                )
            digests |= {f"{name}_sha256": digest or before} if digest or before else {}
        self.write_manifest(facts | digests)


def _check_same_flags(config: TrainConfig, before: dict, flags: dict) -> None:
    if "preset" not in before:
        raise ValueError(folders.not_of(config.folder, KIND))
    defaults = TrainConfig().plain  # of flags that earlier versions did not have
    if _has_earlier_puct(before):
        defaults |= EARLIER_PUCT
    may_differ = MAY_CHANGE | settings.without_effect(config)
    if config.gate is not None:  # its matches decide which network plays
        may_differ -= {"evaluate_simulations"}
    folders.must_agree(config.folder, KIND, defaults | before, flags, may_differ)


def as_begun(config: TrainConfig) -> TrainConfig:
    """The config with the constants of PUCT as numbers where no flag gives them: those that the run
    in its folder began with, if there is one.

    Raises:
      ValueError: the folder's config.json cannot be read.
    """
    return _with_puct(config, folders.read_config(config.folder, KIND))


def _with_puct(config: TrainConfig, before: dict | None) -> TrainConfig:
    if config.root != "puct":
        return config
    constants = EARLIER_PUCT if before and _has_earlier_puct(before) else PUCT
    stored = {name: (before or {}).get(name) for name in constants}
    constants = constants | {name: x for name, x in stored.items() if x is not None}
    unset = [name for name in constants if getattr(config, name) is None]
    return dataclasses.replace(config, **{name: constants[name] for name in unset})


def _has_earlier_puct(before: dict) -> bool:
    """Whether a config.json is of a run that searches by `EARLIER_PUCT`."""
    return before.get("root") == "puct" and "c_puct" not in before


def read_config(out: pathlib.Path) -> TrainConfig:
    """The flags of the run in a folder or bucket, even if it has been moved.

    Raises:
      ValueError: there is no run, or it is of another version.
    """
    shared = store.at(out)
    try:
        plain = files.parse_json(shared.get(folders.CONFIG, _MOST_BYTES))
    except FileNotFoundError:
        plain = None
    except (OSError, ValueError) as error:
        raise ValueError(
            f"--out {shared.name}: {folders.CONFIG} cannot be read: {error}"
        ) from error
    if not isinstance(plain, dict) or "preset" not in plain:
        raise ValueError(f"--out {shared.name}: there is no training run there")
    unknown = sorted(plain.keys() - {field.name for field in dataclasses.fields(TrainConfig)})
    if unknown:
        raise ValueError(f"--out {shared.name}: a run of another version, with --{unknown[0]}")
    paths = {name: plain.get(name) for name in ("weights", "teacher")}
    try:
        parsed = {"out": out, "komi": tuple(plain["komi"])}
        parsed |= {name: path and pathlib.Path(path) for name, path in paths.items()}
        return _with_puct(TrainConfig(**plain | parsed), plain)
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"--out {shared.name}: {folders.CONFIG} is not of a training run ({error!r})"
        ) from error


def recovery_options(folder: pathlib.Path) -> str:
    """What can be done with a run whose checkpoints are lost."""
    return (
        "restore its checkpoints; or name a new folder, and give --weights "
        f"{folder / NEWEST} to begin from its network; or move the contents of this folder "
        "elsewhere, to start over in it"
    )


def cut_lines(path: pathlib.Path, iteration: float = math.inf) -> list[dict]:
    """Remove records of later iterations, and a line torn by a kill, from a file that need not
    exist; returns the remaining records. Damaged lines are moved to a file beside it."""
    damaged: list[files.Damaged] = []
    records = [one for one in _read(path, damaged) if one.get("iteration", 0) <= iteration]
    if damaged:
        aside = path.with_name(f"{path.name}.damaged")
        with aside.open("ab") as file:
            file.writelines(one.line + b"\n" for one in damaged)
        files.sync(aside)
        print(f"{_summary(damaged)}, moved to {aside.name}", file=sys.stderr)
    if path.exists():
        files.write_lines(path, records)
    return records


def add_to_last_line(path: pathlib.Path, numbers: dict) -> None:
    """Add to the last record of a file, which has at least one. The others are not read, unless the
    last one already has some of these keys."""
    last = last_line(path)
    if last and last.keys().isdisjoint(numbers):
        files.extend_last_line(path, numbers)
    else:
        *before, last = read_lines(path)
        files.write_lines(path, [*before, last | numbers])


def last_line(path: pathlib.Path) -> dict:
    """The record in the last line of a file, without reading the others; {} if there is none or it
    is damaged."""
    lines = files.tail(path, _MOST_BYTES).split(b"\n")[:-1] if path.exists() else []
    try:
        return _checked(files.parse_json(lines[-1]), path.name)
    except (ValueError, IndexError):
        return {}


def read_lines(path: pathlib.Path) -> list[dict]:
    """The records of a file; damaged lines are reported and skipped."""
    damaged: list[files.Damaged] = []
    records = _read(path, damaged)
    if damaged:
        print(f"{_summary(damaged)}, skipped", file=sys.stderr)
    return records


def _read(path: pathlib.Path, damaged: list[files.Damaged]) -> list[dict]:
    return files.read_lines(path, lambda line: _checked(line, path.name), damaged)


def _summary(damaged: list[files.Damaged]) -> str:
    return f"{damaged[0].message}; {len(damaged)} damaged lines in all"


def _checked(line: Any, name: str) -> dict:
    """A record of a file of this name, if it has the required keys and values of the right types.

    Raises:
      ValueError: it does not.
    """
    if not isinstance(line, dict):
        raise ValueError("it is not a JSON object")
    kinds = _TYPES.get(name, _OTHER_TYPES)
    wrong = [key for key, kind in kinds.items() if key in line and not _has_type(line[key], kind)]
    wrong += sorted(_REQUIRED.get(name, set()) - line.keys())
    if wrong:
        raise ValueError(f"its {wrong[0]!r} is {str(line.get(wrong[0], 'missing'))[:40]}")
    return line


def _has_type(value: Any, kind: type) -> bool:
    """Whether a value has a type. Lists contain numbers; numbers are finite and below 2^53."""
    if kind is list:
        return type(value) is list and all(_has_type(one, float) for one in value)
    if type(value) is not kind and (kind, type(value)) != (float, int):
        return False
    return kind is str or abs(value) < 2**53


def stem(iteration: int) -> str:
    """The name of the network of an iteration, in weights/ and in matches."""
    return f"{iteration:06d}"


def weights_file(folder: pathlib.Path, name: str) -> pathlib.Path:
    """The weights file of a network of the run; a .npz if an earlier version wrote it."""
    path = folder / "weights" / f"{name}.safetensors"
    old = path.with_suffix(".npz")
    return old if old.exists() and not path.exists() else path


def weights_files(folder: pathlib.Path) -> list[pathlib.Path]:
    """The weights files of all networks of the run, the oldest first."""
    glob = (folder / "weights").glob
    paths = [*glob("[0-9]*.safetensors"), *glob("[0-9]*.json")]  # a .json follows its npz
    names = sorted({path.stem for path in paths}, key=lambda name: (len(name), name))
    return [weights_file(folder, name) for name in names]


def has_weights(folder: pathlib.Path, iteration: int, params: dict) -> bool:
    """Whether the network of an iteration is in the folder, also as the newest; prints why not."""
    digest = weights.digest(params)
    for path in (weights_file(folder, stem(iteration)), folder / NEWEST):
        try:
            _, saved_params, about = weights.load(path)
            if (about.get("iteration"), weights.digest(saved_params)) != (iteration, digest):
                raise ValueError(f"weights {path} are not those of iteration {iteration}")
        except ValueError as error:
            if iteration or path.exists():
                print(f"{error}; writing them again", file=sys.stderr)
            return False
    return True


def set_later_weights_aside(folder: pathlib.Path, iteration: int) -> list[pathlib.Path]:
    """Rename the networks of iterations after the one resumed from, so that none of them is taken
    for the newest and none is lost; returns their former paths."""
    later = []
    for path in sorted((folder / "weights").glob("[0-9]*.*")):
        number = path.name.partition(".")[0]
        if number.isdigit() and int(number) > iteration:
            names = (f"later{times}-{path.name}" for times in ("", *range(2, 10**6)))
            free = next(name for name in names if not path.with_name(name).exists())
            later.append(path)
            path.replace(path.with_name(free))
    return later


def write_weights(plan: Plan, params: dict, iteration: int, command: list[str]) -> pathlib.Path:
    """Write the network of an iteration, also as the newest; returns the first path."""
    folder = plan.config.folder
    about = {
        "command": command,
        "preset": plan.config.preset,
        "game": plan.config.game,
        "iteration": iteration,
        "random": _is_random(plan.config, params, iteration),
        "komi": list(plan.config.komi),
        "seed": plan.config.seed,
    }
    paths = (folder / "weights" / f"{stem(iteration)}.safetensors", folder / NEWEST)
    for path in paths:
        weights.save(path, params, plan.learner.network, plan.config.size, **about)
    for old in (".npz", ".json"):  # of an earlier version: its name now means the new file
        (folder / NEWEST).with_suffix(old).unlink(missing_ok=True)
    return paths[0]


def _is_random(config: TrainConfig, params: dict, iteration: int) -> bool:
    """Whether the network that plays is still the random one that the run began with, as it is in a
    run with a gate until a newer one passes."""
    if config.weights is not None or (iteration and config.gate is None):
        return False
    if iteration == 0:
        return True
    try:
        about = arrays.describe(weights_file(config.folder, stem(0)), "weights")
    except ValueError:
        return False
    return about.get("random") is True and about.get("digest") == weights.digest(params)
