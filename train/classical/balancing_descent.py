"""Descent on the squared bias: the positions, the values that search finds for them, the steps."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gozero.apps import flags
from gozero.apps.sgf import GameRecord
from gozero.games.go import go_game
from gozero.go import bitboard as bb
from gozero.go import rules as go
from gozero.go import setup
from gozero.go.rules import Position, Rules
from gozero.play.evaluators import playout_evaluator
from gozero.playouts import engine
from gozero.playouts.policies.softmax import softmax, strengths
from gozero.playouts.policies.softmax.softmax import Softmax
from gozero.playouts.policies.softmax.strengths import Strengths
from gozero.runs.progress import Progress
from gozero.search.config import Amaf, SearchConfig
from gozero.search.game import Game
from gozero.search.search import search
from train import replay
from train.classical import balancing_gradient as gradient
from train.classical import choices as choices_of
from train.classical.balancing import PROG, BalancingConfig
from train.classical.balancing_gradient import Sets, Valued

_SEARCHES = 64  # at a time
_SELF_ATARI = np.log(np.array([softmax.LEAST_ACCEPTED, 0.95], np.float32))
"""The lowest and the highest logarithm of self-atari's strength: at 1, which rejects none, nothing
is learnt about it (`balancing_gradient`)."""
_MEASURE_PLAYOUTS = 256  # half the number of playouts of each held-out position


class DescentStep(NamedTuple):
    """The state of a descent after a step."""

    strengths: Strengths
    bias: float  # root mean square of V* - V over the step's positions, the noise of V included


def balance(
    rules: Rules,
    start: Strengths,
    valued: Valued,
    key: jax.Array,
    steps: int,
    batch: int,
    rate: float,
    sets: Sets,
    features: Sequence[str] = strengths.OF_PLAYOUTS,
) -> Iterator[DescentStep]:
    """Take gradient steps, each on some of the positions; the rate falls linearly to 0.

    Args:
      rules: the rules; only their size counts.
      start: strengths to begin with; that of self-atari, if it is balanced, is kept from 2^-10 to
        0.95.
      valued: the positions and their values.
      key: consumed; of the positions drawn and of the playouts.
      steps: the number of steps.
      batch: positions in a step.
      rate: the initial factor of the gradient by the logarithms of the strengths.
      sets: the numbers of playouts for each position and step.
      features: the kinds to balance, of `strengths.OF_PLAYOUTS`; the others stay as they are.

    Yields:
      The `DescentStep` after each.

    Raises:
      ValueError: as `check_start`.
    """
    check_start(start)
    cap, count = engine.move_cap(rules), len(valued.values)
    positions_key, playouts_key = jax.random.split(key)

    def balanced(old: Strengths, new: Strengths) -> Strengths:
        chosen = {name: x for name, x in new._asdict().items() if name in features}
        if "self_atari" in chosen:
            chosen["self_atari"] = jnp.clip(chosen["self_atari"], *_SELF_ATARI)
        return old._replace(**chosen)

    @jax.jit
    def descend(logs, valued, key, rate):
        slope, error = gradient.bias_gradient(rules, logs, valued, key, sets, cap)
        logs = balanced(logs, jax.tree.map(lambda x, y: x - rate * y, logs, slope))
        return logs, jnp.sqrt(jnp.mean(error**2))

    logs = balanced(_logs(start), _logs(start))
    for step in range(steps):
        order = jax.random.permutation(jax.random.fold_in(positions_key, step), count)
        drawn = choices_of.take(valued, np.asarray(order[:batch]))
        step_key = jax.random.fold_in(playouts_key, step)
        logs, bias = descend(logs, drawn, step_key, rate * (1 - step / steps))
        yield DescentStep(jax.tree.map(jnp.exp, logs), float(bias))


def check_start(start: Strengths) -> None:
    """Refuse strengths of features that playouts do not learn.

    Raises:
      ValueError: naming the features.
    """
    for name, ones in strengths.not_of_playouts().items():
        if not np.array_equal(getattr(start, name), ones):
            raise ValueError(
                f"start: its strengths of the {name} are for priors, and playouts learn none; give "
                "a file of train.classical.mm without them"
            )


def measure(
    rules: Rules, strengths: Strengths, valued: Valued, key: jax.Array, count: int
) -> float:
    """The mean squared bias, from 2 * count playouts of each position; see `squared_bias`."""
    return float(_measure(rules, count)(_logs(strengths), valued, key))


@functools.cache
def _measure(rules: Rules, count: int) -> Callable:
    cap = engine.move_cap(rules)
    return jax.jit(
        lambda logs, valued, key: gradient.squared_bias(rules, logs, valued, key, count, cap)
    )


def _logs(strengths: Strengths) -> Strengths:
    return jax.tree.map(lambda x: jnp.log(jnp.asarray(x)), strengths)


# --- values ---------------------------------------------------------------------------


def search_values(
    rules: Rules,
    positions: Position,
    komi: jax.Array,
    policy: Softmax,
    simulations: int,
    key: jax.Array,
) -> jax.Array:
    """f32[P]: the values of positions for Black, as found by MC-RAVE.

    Args:
      rules: the rules, with simple ko, because the history of the positions is unknown.
      positions: [P], none of them ended.
      komi: f32[P].
      policy: of the playouts.
      simulations: of each search.
      key: consumed; of all random draws.
    """
    run = _search(rules, simulations)
    return run(jax.tree.map(jnp.asarray, policy), positions, komi, key)


@functools.cache
def _search(rules: Rules, simulations: int) -> Callable:
    """Jitted (policy, positions, komi, key) -> f32[P]."""
    any_policy = softmax.softmax_policy(strengths.uniform(), rules.size)
    evaluator = playout_evaluator(rules, any_policy, first_plays=True)
    config = SearchConfig(num_simulations=simulations, select=evaluator.select, amaf=Amaf())
    game = go_game(rules)

    def run(params, positions, komi, key):
        ended = jnp.zeros(komi.shape, bool)
        states = go.GameState(positions, komi, ended, None, size=rules.size)
        result = search(game, evaluator._replace(params=params), key, states, config)
        return jnp.where(positions.to_play == go.WHITE, -result.value, result.value)

    return jax.jit(run)


def _valued(config: BalancingConfig, rules, positions, komi, start: Strengths, key) -> Valued:
    """The positions with the values that search finds, `_SEARCHES` at a time."""
    policy = softmax.softmax_policy(start, rules.size)
    count, parts = len(komi), []
    with Progress("balancing", count, "positions searched") as progress:
        progress.phase("compiling")
        for first in range(0, count, _SEARCHES):
            index = np.arange(first, first + _SEARCHES) % count
            part, its_komi = choices_of.take((positions, komi), index)
            part_key = jax.random.fold_in(key, first)
            values = search_values(rules, part, its_komi, policy, config.simulations, part_key)
            parts.append(np.asarray(values))
            progress.show(min(first + _SEARCHES, count))
    return Valued(positions, komi, jnp.asarray(np.concatenate(parts)[:count]))


# --- positions ------------------------------------------------------------------------


class Drawn(NamedTuple):
    """P positions, drawn from the data or the games."""

    rules: Rules
    positions: Position  # [P]
    komi: jax.Array  # f32[P]
    is_held_out: np.ndarray  # bool[P]: those of some games, at least one


def _positions(config: BalancingConfig) -> Drawn:
    """The positions to learn from and to measure.

    Raises:
      ValueError: no data, bad data, data of a game other than Go, or positions of fewer than two
        games.
    """
    if config.data is None:
        return _positions_of_games(config)
    data = replay.load(config.data, 0.0, 0)
    played_by, rows = data.rules, data.rows
    if isinstance(played_by, Game):
        raise ValueError(f"--data {config.data}: the games there are not games of Go")
    assert rows.komi is not None  # of Go
    chosen, is_held_out = _draw(config, np.asarray(rows.game))
    position = jax.tree.map(lambda x: x[chosen], rows.position)
    # The move limit of the position's game must not end a search.
    position = position.replace(ply=jnp.zeros_like(position.ply))
    return Drawn(Rules(played_by.size, ko="simple"), position, rows.komi[chosen], is_held_out)


def _positions_of_games(config: BalancingConfig) -> Drawn:
    """`_positions` before choices in the games of --sgf. Where White is to move, the colours and
    the sign of the komi are swapped. A point forbidden by ko is not recorded."""
    assert config.sgf is not None
    rules = Rules(config.size, ko="simple")
    games, played = choices_of.of_folder(config.sgf, config.size)
    of_game = np.array([_komi_of(game, config.komi) for game in games])
    has_komi = np.isfinite(of_game)
    if not has_komi.all():
        count = np.sum(~has_komi)
        which = "a game" if count == 1 else f"{count} games"
        print(f"skipped: {which} without komi; give it with --komi", file=sys.stderr)
    usable = np.flatnonzero(has_komi[played.game])
    chosen, is_held_out = _draw(config, played.game[usable])
    chosen, komi = usable[chosen], []
    for game, number in zip(played.game[chosen], played.number[chosen], strict=True):
        white = games[game].moves[number - 1][0]
        komi.append(-of_game[game] if white else of_game[game])
    choices = choices_of.take(played.choices, chosen)
    unpack = jax.vmap(functools.partial(bb.unpack, rules.layout))
    stones = unpack(choices.own).astype(jnp.int8) - unpack(choices.opponent).astype(jnp.int8)
    stones = stones.reshape(-1, rules.size, rules.size)
    positions = jax.jit(jax.vmap(lambda x: setup.from_stones(rules, x).position))(stones)
    return Drawn(rules, positions, jnp.asarray(komi, jnp.float32), is_held_out)


def _komi_of(game: GameRecord, otherwise: float | None) -> float:
    """The komi of a game, which may be given otherwise; NaN if neither tells it."""
    if game.komi_given:
        return game.komi
    return math.nan if otherwise is None else otherwise


def _draw(config: BalancingConfig, game: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(the numbers of the positions drawn [P], which of these are held out bool[P]).

    Whole games are held out, because positions of one game are alike.

    Args:
      config: the flags.
      game: i32[N]: the game of each position.
    """
    num_games, source = len(np.unique(game)), config.sgf or config.data
    if num_games < 2:
        raise ValueError(
            f"{source}: usable positions are of {num_games} game{'s' * (num_games != 1)}; expected "
            "at least 2 games, one of which is held out"
        )
    rng = np.random.default_rng(config.seed)
    chosen = rng.permutation(len(game))[: config.positions]
    games = np.unique(game[chosen])
    if len(games) < 2:
        raise ValueError(
            f"--positions {config.positions}: the positions drawn are all of one game; expected at "
            "least 2 games, one of which is held out; draw more"
        )
    count = max(1, int(config.holdout_fraction * len(games)))
    return chosen, np.isin(game[chosen], rng.permutation(games)[:count])


# --- the command ----------------------------------------------------------------------


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit status: 0, 1 if the strengths cannot be written, or 2 for bad input."""
    config = flags.parse(BalancingConfig, argv, prog=PROG)
    with flags.exit_on_error(PROG), config.locked():
        print(_balance(config, [PROG, *(sys.argv[1:] if argv is None else argv)]))
    return 0


def _balance(config: BalancingConfig, command: list[str]) -> str:
    """Do what `main` does; returns a line that tells the result.

    Raises:
      ValueError: strengths to start from that playouts do not learn, or as `_positions`.
      OSError: the strengths cannot be written.
    """
    start = strengths.uniform() if config.start is None else strengths.load(config.start)[0]
    check_start(start)
    rules, positions, komi, is_held_out = _positions(config)
    searches, descent_key, measures = jax.random.split(jax.random.key(config.seed), 3)
    valued = _valued(config, rules, positions, komi, start, searches)
    held_out, train_set = (choices_of.take(valued, x) for x in (is_held_out, ~is_held_out))
    measure_held_out = functools.partial(
        measure, rules, valued=held_out, key=measures, count=_MEASURE_PLAYOUTS
    )
    sets = Sets(config.value_playouts, config.gradient_playouts)
    with Progress("balancing", config.steps, "steps") as progress:
        progress.phase("compiling")
        before = measure_held_out(start)
        numbers = {"squared bias held out, at the start": f"{before:.4f}"}
        descent = balance(
            *(rules, start, train_set, descent_key, config.steps, config.batch, config.rate, sets),
            config.features,
        )
        for number, step in enumerate(descent, start=1):
            progress.show(number, numbers | {"root mean square error": f"{step.bias:.4f}"})
        progress.phase("measuring")
        after = measure_held_out(step.strengths)
    about = {"size": rules.size, "positions": len(komi)}
    about |= {"squared_bias_before": before, "squared_bias": after}
    strengths.save(config.out, step.strengths, command=command, **about)
    return f"held out: squared bias {before:.4f} -> {after:.4f}; strengths in {config.out}"
