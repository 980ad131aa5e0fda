"""Does self-play find the known result of 3x3, and do the controls fail, as they must?

    python -m experiments.solved_3x3.run [--only none] [--seeds 3] [--out DIR]

Black opens in the centre and owns the whole board, 9 points: it wins at komi 8.5, loses at 9.5.
"""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import sys
from collections.abc import Iterator, Sequence
from unittest import mock

import jax
import jax.numpy as jnp

from experiments import command, output
from experiments.solved_3x3 import plot
from experiments.solved_3x3.config import Control, Point, Solved3x3Config
from gozero.apps import flags, runtime
from gozero.games.go import go_game
from gozero.go.rules import Rules, init
from gozero.nets import network
from gozero.play import devices
from gozero.runs import files
from gozero.runs import folder as folders
from gozero.search import values
from train import steps
from train.loop import Loop
from train.plan import Plan, make_plan
from train.presets import PRESETS

PROG = "python -m experiments.solved_3x3.run"
CENTRE = 4
WON, LOST = 8.5, 9.5
"""Komi at which Black wins, and at which it loses."""


def main() -> int:
    config = command.parse(Solved3x3Config, prog=PROG)
    output.check_plots()
    with flags.exit_on_error(PROG):
        folders.claim(config.out)
        files.write_json(config.out / "manifest.json", folders.manifest(0))
    points: list[Point] = []
    for control in config.only:
        for seed in range(config.seeds):
            points += learn(control, seed, config.iterations)
            write(points, config.out)
    print(table(last(points)))
    command.print_results(config.out)
    return 0


def learn(control: Control, seed: int, iterations: int | None = None) -> list[Point]:
    """Runs the preset; returns the network's outputs after each iteration."""
    rate = {"learning_rate": 0.0} if control == "zero learning rate" else {}
    preset = PRESETS["3x3"]
    train_config = dataclasses.replace(
        preset, seed=seed, iterations=iterations or preset.iterations, devices=1, **rate
    )
    plan, mesh = make_plan(train_config), devices.mesh_of(1)
    points = []
    with _flipped_backup() if control == "flipped backup" else contextlib.nullcontext():
        make = Shuffled if control == "shuffled values" else Loop
        loop = make(plan, mesh, steps.begin(plan, mesh))
        for _ in range(train_config.iterations):
            loop.iterate()
            points.append(look(plan, loop, control, seed))
            print(_line(points[-1]), file=sys.stderr, flush=True)
    return points


@contextlib.contextmanager
def _flipped_backup() -> Iterator[None]:
    """Backs values up from the wrong player's perspective, along the whole path."""
    flipped = lambda value, plies: jnp.where(plies % 2 == 0, -value, value)
    with mock.patch.object(values, "opponent", flipped):
        yield


class Shuffled(Loop):
    """Permutes the outcomes among the replay buffer's rows before every learning phase."""

    def _learn(self, step, due):
        playing = self.state.playing
        rows, size = playing.buffer.rows, int(playing.buffer.size[0])
        order = jax.random.permutation(jax.random.key(self.iteration), size)
        outcome = rows.outcome.at[0, :size].set(rows.outcome[0, order])
        buffer = playing.buffer.replace(rows=rows.replace(outcome=outcome))
        self.state = self.state.replace(playing=playing.replace(buffer=buffer))
        return super()._learn(step, due)


def look(plan: Plan, loop: Loop, control: str, seed: int) -> Point:
    """The outputs of the averaged network, which plays, for the empty board."""
    rules = plan.rules
    assert isinstance(rules, Rules)  # those of Go
    states = jax.vmap(lambda komi: init(rules, komi))(jnp.array([WON, LOST]))
    observe = jax.vmap(go_game(rules, plan.evaluator.observe).observe)
    output = network.apply(plan.learner.network, loop.state.learner.ema, observe(states))
    prior = jax.nn.softmax(output.policy_logits[0])
    return Point(
        control,
        seed,
        loop.iteration,
        round(loop.seconds, 2),
        loop.games,
        loop.steps,
        round(float(prior[CENTRE]), 5),
        round(float(output.value[0]), 5),
        round(float(output.value[1]), 5),
    )


def _line(point: Point) -> str:
    return (
        f"{point.control}, seed {point.seed}, iteration {point.iteration}, {point.seconds:.0f} s: "
        f"centre {point.centre:.3f}, value {point.value_won:+.3f} and {point.value_lost:+.3f}"
    )


def last(points: Sequence[Point]) -> list[Point]:
    """The last point of each run."""
    return list({(point.control, point.seed): point for point in points}.values())


def write(points: Sequence[Point], out: pathlib.Path) -> None:
    """Writes curves.csv, results.csv (the last point of each run) and results.svg."""
    for name, chosen in (("curves.csv", points), ("results.csv", last(points))):
        output.write_csv(Point, chosen, out / name, more="holds")
    plot.draw(points, out / "results.svg")


def table(points: Sequence[Point]) -> str:
    """The points as a Markdown table."""
    formats = {
        "control": "{0.control}",
        "seed": "{0.seed}",
        "seconds": "{0.seconds:.0f}",
        "games": "{0.games:,}",
        "prior of the centre": "{0.centre:.3f}",
        "value at 8.5": "{0.value_won:+.3f}",
        "at 9.5": "{0.value_lost:+.3f}",
        "holds": "{1}",
    }
    cells = lambda p: [f.format(p, "yes" if p.holds else "no") for f in formats.values()]
    return output.markdown([*formats], map(cells, points))


if __name__ == "__main__":
    runtime.run_main(PROG, "experiments.solved_3x3.run")
