"""``python -m train --data DIR``: learn from the shards of self-play in a folder.

It writes weights.safetensors, which ``gozero selfplay --weights`` reads, and the losses during
training to weights.metrics.jsonl. The weights are the moving average of the learner's.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import os
import pathlib
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gozero.apps import flags, runtime
from gozero.go.rules import Rules
from gozero.limits import FeaturesName
from gozero.nets import growth, network, weights
from gozero.nets.features import feature_set
from gozero.nets.network import NetworkConfig
from gozero.play.networks import network_evaluator
from gozero.play.rows import Rows, policy_shares
from gozero.runs import arrays, files, settings
from gozero.runs.progress import Progress
from gozero.runs.settings import same_as, setting
from gozero.search.game import Game
from train import buffer as buffers
from train import initial, learner, losses, replay
from train.learner import LearnerConfig, Metrics
from train.optimizer import OptimizerConfig

PROG = "python -m train"
SAMPLE_ROWS = 2048  # the most rows on which losses are measured, before and after training
PARTS = ("policy", "value")
INTERVAL_S = 2.0  # reading losses waits for the device, so they are read only this often


@dataclasses.dataclass(frozen=True)
class SupervisedConfig:
    """Train a policy and value network on the shards in a folder, of self-play or of workers."""

    data: pathlib.Path = setting()
    """The folder that self-play or workers wrote to, with shards/*.npz in it."""

    steps: int = setting(1000, least=1)
    """Optimizer steps; by the last, the learning rate has fallen to 1% along a half cosine."""

    weights: pathlib.Path | None = setting(None, unset="random weights")
    """Weights to start from; --blocks and --channels may make the network larger."""

    out: pathlib.Path | None = setting(None, unset="weights.safetensors in the folder of --data")
    """Where the new weights go, a .safetensors file that does not exist yet."""

    batch_size: int = setting(256, least=1)
    """Rows in a step, drawn from all of the data, by the sampling frequencies of a run with
    --surprise."""

    learning_rate: float = same_as(OptimizerConfig, "learning_rate", least=None, above=0)
    weight_decay: float = same_as(OptimizerConfig, "weight_decay")
    blocks: int | None = setting(None, least=1, unset="2, or those of --weights")
    """Residual blocks of a new network."""

    channels: int | None = setting(None, least=1, unset="32, or those of --weights")
    """Channels of a new network."""

    features: FeaturesName | None = setting(None, unset="compact, or those of --weights")
    """Input planes of a new network."""

    holdout_fraction: float = setting(0.1, least=0, below=1)
    """The share of the games that is never trained on, only measured."""

    seed: int = settings.seed_setting()
    """The seed of the random weights, the rows drawn and their symmetries."""

    EXAMPLES = (
        "python -m train --data runs/selfplay --steps 1000",
        "python -m train --data runs/selfplay --blocks 6 --channels 64 --out NET.safetensors",
    )

    def __post_init__(self):
        settings.check(self)

    @property
    def out_file(self) -> pathlib.Path:
        return self.data / "weights.safetensors" if self.out is None else self.out

    @property
    def metrics_file(self) -> pathlib.Path:
        """One JSON object per line: step, losses, positions/s."""
        return self.out_file.with_suffix(".metrics.jsonl")

    @property
    def warmup_steps(self) -> int:
        return min(100, 1 + self.steps // 10)


class SupervisedJob(NamedTuple):
    """The data and weights that the flags name, read and checked."""

    flags: SupervisedConfig
    rules: Rules | Game  # of Go, or another game
    rows: Rows
    frequency: np.ndarray  # u16[n]: how often each of them is drawn, relative to the others
    holdout: Rows | None
    network: NetworkConfig
    params: dict


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit status: 0, 1 if training stopped at a nan or a full disk, 2 for bad input,
    130 for Ctrl-C."""
    config = flags.parse(SupervisedConfig, argv, prog=PROG)
    with flags.exit_on_error(PROG):
        job = _prepare(config)
        try:
            return _train(job)
        finally:
            if files.is_empty(config.metrics_file):  # nothing was learnt
                config.metrics_file.unlink()


def _prepare(config: SupervisedConfig) -> SupervisedJob:
    """Read all inputs, and create the output last, so that bad input leaves no files behind.

    Raises:
      ValueError: invalid data, weights or flags.
    """
    _check_new(config.out_file, config.metrics_file)
    rules, rows, frequency, holdout = replay.load(config.data, config.holdout_fraction, config.seed)
    shape, params = _initial(config, rules)
    past_boards = feature_set(shape.features).past_boards
    rows = replay.with_past(rows, past_boards)
    holdout = None if holdout is None else replay.with_past(holdout, past_boards)
    try:
        config.out_file.parent.mkdir(parents=True, exist_ok=True)
        config.metrics_file.touch(exist_ok=False)
    except OSError as error:
        raise ValueError(
            f"--out {config.out_file}: cannot be written ({error.strerror})"
        ) from error
    return SupervisedJob(config, rules, rows, frequency, holdout, shape, params)


def _check_new(out: pathlib.Path, metrics: pathlib.Path) -> None:
    arrays.check_name(out, "--out")
    for path in (out, metrics):
        if path.exists():
            raise ValueError(f"--out {out}: {path} already exists; name a new file with --out")


def _initial(config: SupervisedConfig, rules: Rules | Game) -> tuple[NetworkConfig, dict]:
    """The network to train: random, or from --weights."""
    of_game = isinstance(rules, Game)
    if of_game and config.features is not None:
        raise ValueError(
            f"--features {config.features}: these are planes of Go, and the data is of another game"
        )
    names = ("blocks", "channels") if of_game else ("blocks", "channels", "features")
    overrides = {name: getattr(config, name) for name in names if getattr(config, name) is not None}
    if config.weights is None:
        shape = network.of_game(rules, **overrides) if of_game else NetworkConfig(**overrides)
        return shape, network.init(shape, jax.random.key(config.seed))
    shape, params, _ = weights.load_own(config.weights, _size(rules))
    # Refuses a network for another game. The rows have past boards, under simple ko too.
    network_evaluator(rules.remembering if isinstance(rules, Rules) else rules, shape, params)
    larger = dataclasses.replace(shape, **overrides)

    def complaint(differ: Sequence[str]) -> str:
        grows = lambda n: n in growth.GROWING and getattr(larger, n) >= getattr(shape, n)
        name = next(name for name in differ if not grows(name))
        value, own_value = getattr(larger, name), getattr(shape, name)
        return f"--{name} {value}: the network in {config.weights} has {own_value}; omit --{name}"

    return larger, initial.grown(config.weights, shape, params, larger, config.seed, complaint)


def _train(job: SupervisedJob) -> int:
    config = job.flags
    measure = _measurer(job)
    before = measure(job.params)
    learner_config = _learner_config(job)
    num_steps = learner.steps_per_call(config.steps)
    state = learner.start(learner_config, job.params, jax.random.key(config.seed + 1))
    ring, rows = buffers.of_rows(job.rows, job.frequency)
    take = functools.partial(
        learner.take_steps, job.rules, learner_config, ring, config.batch_size, num_steps
    )
    step = jax.jit(take, donate_argnums=0)
    with runtime.StopRequest() as stop, Report(config) as report:
        report.phase("compiling, about 20 s the first time")
        step = step.lower(state, rows).compile()  # ahead of time, so that rates count steps only
        report.start()
        for steps_taken in range(num_steps, config.steps + 1, num_steps):
            state, metrics = step(state, rows)
            if report.is_due(steps_taken):  # reading waits for the device
                if not state.ok:
                    break
                report.count(steps_taken, metrics)
            if stop.requested or report.failed:
                break
    params = state.ema
    _save(job, state, params, before, {})  # at once: the losses can be measured later
    after = measure(params)
    finite = bool(state.ok) and all(map(math.isfinite, after.values()))
    if not finite:
        params = state.good
        after = measure(params)
    _save(job, state, params, before, after)
    print(_summary(job, int(state.step), before, after, report.positions_per_s))
    if not finite:
        message = (
            f"nan or infinite loss after step {int(state.step)}; the last good weights are kept"
        )
        flags.fail(PROG, f"{message}; try a lower --learning-rate", status=1)
    if report.failed:
        flags.fail(PROG, f"{report.failed}; stopped after step {int(state.step)}", status=1)
    return 130 if stop.requested else 0


class Report(Progress):
    """Displays progress and losses; every INTERVAL_S it also writes them as a line of the metrics.

    Attributes:
      positions_per_s: the rate since `start`.
      failed: the error of a line that could not be written, on a full disk, say; training then
        saves and ends.
    """

    def __init__(self, config: SupervisedConfig):
        super().__init__("train", config.steps, "steps")
        self.batch_size, self.metrics = config.batch_size, config.metrics_file
        self.positions_per_s = 0.0
        self.failed: OSError | None = None

    def start(self) -> None:
        """Start the clock, just before the first step."""
        self.phase("learning")
        self.begun = self.last = time.perf_counter()

    def is_due(self, steps: int) -> bool:
        """Whether to report now that `steps` have been taken."""
        return steps == self.total or time.perf_counter() - self.last >= INTERVAL_S

    def count(self, steps: int, metrics: Metrics) -> None:
        """Report the number of steps taken, and the metrics of the last ones."""
        measured = metrics.losses._asdict() | {"gradient_norm": metrics.gradient_norm}
        measured = {name: round(float(measured[name]), 6) for name in (*PARTS, "gradient_norm")}
        self.last = time.perf_counter()  # after the losses: reading them waits for the steps
        seconds = self.last - self.begun
        self.positions_per_s = steps * self.batch_size / seconds
        numbers = {
            "step": steps,
            **measured,
            "seconds": round(seconds, 3),
            "steps_per_s": round(steps / seconds, 2),
            "positions_per_s": round(self.positions_per_s, 1),
        }
        try:
            files.add_line(self.metrics, numbers, durable=False)
        except OSError as error:
            self.failed = error
            files.cut_torn_line(self.metrics)
        cells = {"steps/s": f"{numbers['steps_per_s']:.1f}"}
        self.show(steps, cells | {name: f"{measured[name]:.4f}" for name in PARTS})


def _learner_config(job: SupervisedJob) -> LearnerConfig:
    config = job.flags
    optimizer = OptimizerConfig(
        config.learning_rate,
        config.weight_decay,
        config.warmup_steps,
        total_steps=max(config.steps, config.warmup_steps + 1),
    )
    return LearnerConfig(job.network, optimizer)


def _measurer(job: SupervisedJob) -> Callable[[dict], dict[str, float]]:
    """A function that measures the losses of parameters, always on the same evenly spaced rows and
    without symmetries."""
    evaluate = learner.make_evaluate(job.rules, _learner_config(job))
    samples = {"": job.rows} | ({"holdout_": job.holdout} if job.holdout is not None else {})
    for prefix, rows in samples.items():
        count = rows.num_rows
        spread = np.linspace(0, count - 1, min(count, SAMPLE_ROWS)).astype(int)
        samples[prefix] = rows.take(spread)

    def measure(params):
        numbers = {}
        for prefix, sample in samples.items():
            parts = evaluate(params, sample)
            targets = policy_shares(jnp, jnp.asarray(sample.policy_target))
            entropy = jax.vmap(losses.entropy)(targets).mean()
            values = {"policy": parts.policy, "value": parts.value, "target_entropy": entropy}
            numbers |= {prefix + name: float(x) for name, x in values.items()}
        return numbers

    return measure


def _save(
    job: SupervisedJob, state: learner.TrainState, params: dict, before: dict, after: dict
) -> None:
    """Save the weights. If they cannot be written to --out, on a full disk, say, keep them in the
    temporary folder, unless earlier ones are there, and exit with status 1."""
    out = job.flags.out_file
    save = functools.partial(_write, job, state, params, before, after)
    try:
        save(out)
    except OSError as error:
        if out.exists():
            flags.fail(PROG, f"{error}; {out} has the weights, without their losses", status=1)
        kept = pathlib.Path(tempfile.gettempdir()) / f"gozero-{os.getpid()}-{out.name}"
        try:
            save(kept)
        except OSError:
            flags.fail(PROG, f"{error}; nor can {kept}: the weights are lost", status=1)
        flags.fail(PROG, f"{error}; the weights are in {kept}", status=1)


def _write(
    job: SupervisedJob,
    state: learner.TrainState,
    params: dict,
    before: dict,
    after: dict,
    path: pathlib.Path,
) -> None:
    config = job.flags
    weights.save(
        path,
        params,
        job.network,
        _size(job.rules),
        command=[PROG, *sys.argv[1:]],
        steps=int(state.step),
        seed=config.seed,
        batch_size=config.batch_size,
        learning_rate=config.learning_rate,
        from_weights=config.weights and str(config.weights),
        data=str(config.data),
        losses_before=before,
        losses=after,
    )


def _size(rules: Rules | Game) -> int | None:
    return rules.size if isinstance(rules, Rules) else None


def _summary(job: SupervisedJob, steps: int, before: dict, after: dict, rate: float) -> str:
    changes = [f"{name} {before[name]:.4f} -> {after[name]:.4f}" for name in PARTS]
    line = f"{steps} steps: {changes[0]} (floor {after['target_entropy']:.4f}), {changes[1]}"
    if job.holdout is not None:
        holdout_changes = [
            f"{before['holdout_' + n]:.4f} -> {after['holdout_' + n]:.4f}" for n in PARTS
        ]
        line += f"; held out: policy {holdout_changes[0]}, value {holdout_changes[1]}"
    return f"{line}; {rate:,.0f} positions/s; weights in {job.flags.out_file}"
