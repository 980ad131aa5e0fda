"""``python -m train --data DIR``: learn from the shards of self-play in a folder.

Writes weights.npz and weights.json, which ``gozero selfplay --weights`` reads, and the
losses on the way to weights.metrics.jsonl.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import pathlib
import sys
from collections.abc import Callable, Sequence
from typing import IO, Literal, NamedTuple

import jax
import numpy as np

from gozero.apps import flags, runtime
from gozero.apps.flags import check_seed
from gozero.go.rules import Rules
from gozero.nets import network, weights
from gozero.nets.features import feature_set
from gozero.nets.network import NetworkConfig
from train import buffer as buffers
from train import learner, losses, replay
from train.learner import LearnerConfig
from train.optimizer import OptimizerConfig
from train.replay import Rows
from train.report import Report

PROG = "python -m train"
SAMPLE_ROWS = 2048  # at most so many rows are measured before and after
PARTS = ("policy", "value")


@dataclasses.dataclass(frozen=True)
class SupervisedConfig:
    """Train the policy and value network on the games of a self-play folder."""

    data: pathlib.Path
    """The folder that self-play wrote, with shards/*.npz in it."""

    steps: int = 1000
    """Optimizer steps."""

    weights: pathlib.Path | None = None
    """Weights to go on from, a .npz with its .json beside it; without them, random ones."""

    out: pathlib.Path | None = None
    """Where the new weights go, a .npz that is not there yet; DIR/weights.npz without it."""

    batch_size: int = 256
    """Rows a step, drawn from all of the data."""

    learning_rate: float = 2e-3
    """AdamW's step size, after a short linear warm-up."""

    weight_decay: float = 1e-4
    """AdamW's decay of all kernels; biases are left alone."""

    blocks: int | None = None
    """Residual blocks of a new network, 2 without it; --weights bring their own."""

    channels: int | None = None
    """Channels of a new network, 32 without it; --weights bring their own."""

    features: Literal["compact", "full", "full-no-ladders", "zero"] | None = None
    """Planes of a new network, compact without it; --weights bring their own."""

    holdout_fraction: float = 0.1
    """Share of the games that is never trained on, only measured."""

    seed: int = 0
    """Of the random weights, the rows drawn and their symmetries."""

    def __post_init__(self):
        check_seed(self.seed)
        for name in ("steps", "batch_size", "blocks", "channels"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"--{name.replace('_', '-')} {value}: expected at least 1")
        if not 0 < self.learning_rate < math.inf:
            raise ValueError(f"--learning-rate {self.learning_rate}: expected a number above 0")
        if not 0 <= self.weight_decay < math.inf:
            raise ValueError(f"--weight-decay {self.weight_decay}: expected 0 or more")
        if not 0 <= self.holdout_fraction < 1:
            raise ValueError(
                f"--holdout-fraction {self.holdout_fraction}: expected from 0 to below 1"
            )

    @property
    def out_file(self) -> pathlib.Path:
        return self.data / "weights.npz" if self.out is None else self.out

    @property
    def metrics_file(self) -> pathlib.Path:
        """One JSON object a line: step, losses, positions/s."""
        return self.out_file.with_suffix(".metrics.jsonl")

    @property
    def warmup_steps(self) -> int:
        return min(100, 1 + self.steps // 10)


class Job(NamedTuple):
    """All that the flags named, read and checked."""

    flags: SupervisedConfig
    rules: Rules
    rows: Rows
    held: Rows | None
    network: NetworkConfig
    params: dict
    metrics: IO[str]


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status: 0, 1 if training stopped at a nan, 2 for bad input, 130 for Ctrl-C."""
    config = flags.parse(SupervisedConfig, argv, prog=PROG)
    try:
        job = _prepare(config)
    except ValueError as error:
        flags.fail(PROG, error)
    try:
        with job.metrics:
            return _train(job)
    finally:
        if not config.metrics_file.stat().st_size:  # nothing was learnt: leave no trace
            config.metrics_file.unlink()


def _prepare(config: SupervisedConfig) -> Job:
    """Read everything, and claim the output last: bad input leaves nothing behind.

    Raises:
      ValueError: says what was wrong, and what would be right.
    """
    _check_new(config.out_file, config.metrics_file)
    size, rows, held = replay.load(config.data, config.holdout_fraction, config.seed)
    shape, params = _initial(config, size)
    rules = replay.rules_of(config.data, size)
    history = feature_set(shape.features).history
    rows = replay.with_past(rows, history)
    held = None if held is None else replay.with_past(held, history)
    try:
        config.out_file.parent.mkdir(parents=True, exist_ok=True)
        metrics = config.metrics_file.open("x")
    except OSError as error:
        raise ValueError(
            f"--out {config.out_file}: cannot be written ({error.strerror})"
        ) from error
    return Job(config, rules, rows, held, shape, params, metrics)


def _check_new(out: pathlib.Path, metrics: pathlib.Path) -> None:
    if out.suffix != ".npz":
        raise ValueError(f"--out {out}: not a .npz file; its .json will lie beside it")
    for path in (out, out.with_suffix(".json"), metrics):
        if path.exists():
            raise ValueError(f"--out {out}: {path} is there already; name a new file with --out")


def _initial(config: SupervisedConfig, size: int) -> tuple[NetworkConfig, dict]:
    """The network to train: random, or from --weights."""
    if config.weights is None:
        default = NetworkConfig()
        shape = NetworkConfig(
            config.blocks or default.blocks,
            config.channels or default.channels,
            config.features or default.features,
        )
        return shape, network.init(shape, jax.random.key(config.seed))
    shape, params, _ = weights.load(config.weights, size)
    for name in ("blocks", "channels", "features"):
        asked, found = getattr(config, name), getattr(shape, name)
        if asked not in (None, found):
            raise ValueError(f"--{name} {asked}: {config.weights} has {found}; leave --{name} out")
    return shape, params


def _train(job: Job) -> int:
    config = job.flags
    measure = _measurer(job)
    before = measure(job.params)
    how = _learner_config(job)
    num_steps = learner.steps_per_call(config.steps)
    state = learner.start(how, job.params, jax.random.key(config.seed + 1))
    ring, rows = buffers.of_rows(job.rows)
    take = functools.partial(learner.take_steps, job.rules, how, ring, config.batch_size, num_steps)
    step = jax.jit(take, donate_argnums=0)
    step = step.lower(state, rows).compile()  # ahead of time: rates count steps only

    report = Report(config.steps, config.batch_size, job.metrics)
    with runtime.StopRequest() as stop, report:
        for taken in range(num_steps, config.steps + 1, num_steps):
            state, metrics = step(state, rows)
            report.count(taken, metrics)
            if stop.requested or not state.ok:
                break
    _save(job, state, before, {})  # first of all: what is measured now can be measured again
    after = measure(state.params)
    finite = bool(state.ok) and all(map(math.isfinite, after.values()))
    if not finite:
        state = state.replace(params=state.good)
        after = measure(state.params)
    _save(job, state, before, after)
    print(_summary(job, int(state.step), before, after, report.positions_per_s))
    if not finite:
        message = f"nan or infinite loss after step {int(state.step)}; kept the last good weights"
        flags.fail(PROG, f"{message}; try a lower --learning-rate", status=1)
    return 130 if stop.requested else 0


def _learner_config(job: Job) -> LearnerConfig:
    config = job.flags
    how = OptimizerConfig(config.learning_rate, config.weight_decay, config.warmup_steps)
    return LearnerConfig(job.network, how)


def _measurer(job: Job) -> Callable[[dict], dict[str, float]]:
    """Losses of parameters on the same rows every time, evenly spread, as they lie."""
    evaluate = learner.make_evaluate(job.rules, _learner_config(job))
    samples = {"": job.rows} | ({"holdout_": job.held} if job.held is not None else {})
    for prefix, rows in samples.items():
        count = replay.num_rows(rows)
        spread = np.linspace(0, count - 1, min(count, SAMPLE_ROWS)).astype(int)
        samples[prefix] = replay.take(rows, spread)

    def measure(params):
        numbers = {}
        for prefix, sample in samples.items():
            parts = evaluate(params, sample)
            floor = jax.vmap(losses.entropy)(sample.policy_target).mean()
            named = {"policy": parts.policy, "value": parts.value, "target_entropy": floor}
            numbers |= {prefix + name: float(x) for name, x in named.items()}
        return numbers

    return measure


def _save(job: Job, state: learner.TrainState, before: dict, after: dict) -> None:
    config = job.flags
    weights.save(
        config.out_file,
        state.params,
        job.network,
        job.rules.size,
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


def _summary(job: Job, steps: int, before: dict, after: dict, rate: float) -> str:
    fell = [f"{name} {before[name]:.4f} -> {after[name]:.4f}" for name in PARTS]
    line = f"{steps} steps: {fell[0]} (floor {after['target_entropy']:.4f}), {fell[1]}"
    if job.held is not None:
        held = [f"{before['holdout_' + n]:.4f} -> {after['holdout_' + n]:.4f}" for n in PARTS]
        line += f"; held out: policy {held[0]}, value {held[1]}"
    return f"{line}; {rate:,.0f} positions/s; weights in {job.flags.out_file}"
