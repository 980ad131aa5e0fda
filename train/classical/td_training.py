"""The program of ``python -m train.classical.td``: play games, show progress, and write checkpoints
and weights."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gozero.apps import flags, runtime
from gozero.go import rules as go
from gozero.play.arena import play_match
from gozero.play.player import Turn, policy_player, random_player
from gozero.playouts import playable
from gozero.td import local_shape, td
from gozero.td import shapes as local
from gozero.td import weights as shape_weights
from gozero.td.shapes import Shapes
from gozero.td.td import TdConfig
from train.classical import checkpoints, learning
from train.classical.td import PROG, TdFlags

STEPS_PER_CALL = 100
RANDOM_GAMES = 256  # games against the random player at the end
_MIN_RATE_SHARE = 0.02


class TdState(NamedTuple):
    """Everything that the next step depends on, except the seed."""

    taken: jax.Array  # i32[]: steps taken
    lanes: td.TdLanes
    weights: jax.Array  # f32[K + 1]


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit status: 0, 1 if something cannot be read or written, 2 for bad input, 130
    for Ctrl-C, 143 for SIGTERM."""
    options = flags.parse(TdFlags, argv, prog=PROG)
    with flags.exit_on_error(PROG):
        return run(options, [PROG, *(sys.argv[1:] if argv is None else argv)])


def run(options: TdFlags, command: list[str]) -> int:
    """Do what `main` does; the command is recorded in the weights.

    Raises:
      ValueError: weights or a checkpoint that are damaged or of other shapes or flags.
      OSError: something cannot be read or written.
    """
    config = config_of(options)
    task = task_of(config, options.komi)
    with options.locked():
        initial = initial_weights(options, config)
        state = begin(options, initial, config, task)
        with runtime.StopRequest() as stop:
            state = _learn(options, initial, config, task, state, stop)
        checkpoints.save(options.checkpoint, initial.made_with(options), state)
        save = functools.partial(
            shape_weights.save,
            options.out,
            config.shapes,
            np.asarray(state.weights),
            command=command,
            komi=options.komi,
            steps=int(state.taken),
            games_in_lockstep=options.games,
            seed=options.seed,
            initial_weights_sha256=initial.sha256,
        )
        save()  # before the match, which takes long
        # Steps have the numbers below.
        match_key = jax.random.fold_in(jax.random.key(options.seed), options.steps)
        wins = wins_against_random(config, task, state.weights, match_key)
        save(wins_against_random=wins)
    print(f"{int(state.taken)} steps; {wins:.1%} against random moves; weights in {options.out}")
    return stop.status if stop.requested else 0


def config_of(options: TdFlags) -> TdConfig:
    rules = go.Rules(size=options.size, ko="simple")
    shapes = Shapes(options.size, anywhere=options.anywhere)
    return TdConfig(rules, shapes, options.epsilon, options.plies)


def task_of(config: TdConfig, komi: float) -> td.Task:
    weight = jnp.asarray(local.sharing(config.shapes).weight_index)
    return td.Task(weight, jnp.float32(komi), go.empty_position(config.rules))


# --- learning -------------------------------------------------------------------------


def _learn(
    options: TdFlags, initial: Initial, config: TdConfig, task: td.Task, state: TdState, stop
) -> TdState:
    run = make_run(config, options.steps, options.rate)
    key, total = jax.random.key(options.seed), None

    def advance(state: TdState) -> tuple[TdState, dict[str, str]]:
        nonlocal total
        state, stats = run(task, state, key)
        total = stats if total is None else jax.tree.map(jnp.add, total, stats)
        return state, _numbers(total)

    return learning.learn("td", options, initial.made_with(options), state, advance, stop)


def make_run(config: TdConfig, steps: int, rate: float):
    """(task, state, key) -> (state, stats), jitted: takes some steps, up to `steps` in all."""

    def run(task: td.Task, state: TdState, key: jax.Array) -> tuple[TdState, td.StepStats]:
        def one(state: TdState, _):
            alpha = rate * jnp.maximum(_MIN_RATE_SHARE, 1.0 - state.taken / steps)
            step_key = jax.random.fold_in(key, state.taken)
            is_due = state.taken < steps
            lanes, weights, stats = td.step(
                config, task, state.lanes, state.weights, alpha, step_key
            )
            new = TdState(state.taken + 1, lanes, weights)
            stats = jax.tree.map(lambda x: jnp.where(is_due, x, 0), stats)
            return jax.tree.map(lambda a, b: jnp.where(is_due, a, b), new, state), stats

        state, stats = lax.scan(one, state, length=STEPS_PER_CALL)
        return state, jax.tree.map(lambda x: jnp.sum(x, axis=0), stats)

    return jax.jit(run)


def _numbers(stats: td.StepStats) -> dict[str, str]:
    """The numbers of this session so far, for display."""
    error = math.sqrt(float(stats.squared_error) / max(int(stats.updates), 1))
    ended = max(int(stats.ended), 1)
    return {
        "TD error": f"{error:.4f}",
        "Black wins": f"{float(stats.black_wins) / ended:.2f}",
        "moves": f"{int(stats.moves) / ended:.0f}",
    }


def wins_against_random(
    config: TdConfig, task: td.Task, weights: jax.Array, key: jax.Array
) -> float:
    """The share of games that the greedy policy wins against random moves, half as Black."""
    rules = config.rules

    def best(table: jax.Array, key: jax.Array, turn: Turn) -> jax.Array:
        positions = turn.states.position
        logits = local_shape.action_logits(rules, config.shapes, table, positions)
        allowed = playable.no_own_eyes(rules, positions, turn.legal[:, :-1])
        return td.choose(allowed, positions, logits, 0.0, key)

    player = policy_player(best, local.expand(task.weight_index, weights))
    komi, other = float(task.komi), random_player(rules)
    return float(play_match(rules, player, other, key, RANDOM_GAMES, komi).points.mean())


# --- checkpoints ----------------------------------------------------------------------


class Initial(NamedTuple):
    """The weights before the first step."""

    weights: np.ndarray  # f32[K + 1]
    sha256: str | None  # of their file; None: there is none, and they are zeros

    def made_with(self, options: TdFlags) -> str:
        """The text by which a checkpoint knows what made it."""
        return options.same if self.sha256 is None else f"{options.same}, weights {self.sha256}"


def initial_weights(options: TdFlags, config: TdConfig) -> Initial:
    """Those of --weights, or zeros.

    Raises:
      ValueError: the file is missing or damaged, or its weights are of other shapes.
    """
    if options.weights is None:
        return Initial(np.zeros(local.sharing(config.shapes).num_weights + 1, np.float32), None)
    read = shape_weights.read(options.weights)
    if read.shapes != config.shapes:
        raise ValueError(
            f"--weights {options.weights} are of {read.shapes}; expected {config.shapes}"
        )
    return Initial(read.weights, read.about["sha256"])


def begin(options: TdFlags, initial: Initial, config: TdConfig, task: td.Task) -> TdState:
    """The state to start from: the checkpoint's, or a new one.

    Raises:
      ValueError: --resume without a checkpoint, or with one made with other flags or weights.
    """
    lanes = td.start(config, task.root, options.games)
    state = TdState(jnp.int32(0), lanes, jnp.asarray(initial.weights))
    if not options.resume:
        return state
    return checkpoints.load(options.checkpoint, initial.made_with(options), state)
