"""What ``python -m train.classical.balancing`` does: draw positions, search, descend, write."""

from __future__ import annotations

import dataclasses
import functools
import math
import pathlib
import sys
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from gozero.apps import flags
from gozero.apps.flags import check_seed
from gozero.go import bitboard as bb
from gozero.go import setup
from gozero.go.rules import Position, Rules
from gozero.play import shards
from gozero.playouts.softmax import softmax, strengths
from gozero.playouts.softmax.strengths import Strengths
from train.classical import choices as choice
from train.classical import records
from train.classical.balancing import balance
from train.classical.balancing.balance import Valued
from train.classical.balancing.gradient import Sets
from train.classical.mm.run import check_new, write

PROG = "python -m train.classical.balancing"
_SEARCHES = 64  # at a time
_MEASURED = 256  # twice as many playouts of each position held out


@dataclasses.dataclass(frozen=True)
class BalancingConfig:
    """Balance playouts: make their mean results those that search finds."""

    out: pathlib.Path
    """Where the strengths go, a .safetensors file that is not there yet."""

    data: pathlib.Path | None = None
    """The folder that self-play wrote, with shards/*.npz in it: positions come from there."""

    sgf: pathlib.Path | None = None
    """In its place a folder with *.sgf in it or below it, or one such file."""

    size: int = 9
    """Points on a side of the games of --sgf; others are left out."""

    start: str | None = None
    """Strengths to begin with, of a file or shipped; all 1 without it."""

    positions: int = 512
    """Positions drawn from the data or the games."""

    simulations: int = 1000
    """Of the search that values a position: MC-RAVE with playouts of the strengths at the start."""

    steps: int = 200
    """Steps of descent."""

    batch: int = 32
    """Positions a step."""

    value_playouts: int = 64
    """Playouts a position and step by which its bias is judged."""

    gradient_playouts: int = 16
    """Playouts a position and step by which the slope is."""

    rate: float = 2.0
    """Of descent by the logarithms of the strengths, at first; it falls to 0."""

    holdout_fraction: float = 0.25
    """Share of the positions that is only measured."""

    seed: int = 0
    """Of all chance."""

    def __post_init__(self):
        check_seed(self.seed)
        if (self.data is None) == (self.sgf is None):
            raise ValueError("give --data, a folder of self-play, or --sgf, one of games")
        counts = ("positions", "simulations", "steps", "batch")
        for name in (*counts, "value_playouts", "gradient_playouts"):
            if getattr(self, name) < 1:
                flag = name.replace("_", "-")
                raise ValueError(f"--{flag} {getattr(self, name)}: expected at least 1")
        if not 0 < self.rate < math.inf:
            raise ValueError(f"--rate {self.rate}: expected a number above 0")
        if not 0 < self.holdout_fraction < 1:
            raise ValueError(f"--holdout-fraction {self.holdout_fraction}: expected from 0 to 1")
        check_new(self.out)


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status: 0, 1 for strengths that cannot be written, or 2 for bad input."""
    config = flags.parse(BalancingConfig, argv, prog=PROG)
    try:
        start = strengths.uniform() if config.start is None else strengths.load(config.start)[0]
        rules, positions, komi = _positions(config)
    except ValueError as error:
        flags.fail(PROG, error)
    valued = _valued(config, rules, positions, komi, start)
    num_held = max(1, int(config.holdout_fraction * len(komi)))
    held, learn = (jax.tree.map(lambda x, at=at: x[at], valued) for at in _parts(num_held))

    def measured(found: Strengths) -> float:
        return balance.measure(rules, found, held, config.seed + 1, _MEASURED)

    before = measured(start)
    _say(f"held out: squared bias {before:.4f} at the start")
    sets = Sets(config.value_playouts, config.gradient_playouts)
    descent = balance.balance(
        rules, start, learn, config.seed, config.steps, config.batch, config.rate, sets
    )
    for number, step in enumerate(descent, start=1):
        if number % 10 == 0 or number == config.steps:
            line = f"step {number}: root mean square error {step.bias:.4f}"
            _say(line)
    after = measured(step.strengths)
    about = {"command": [PROG, *sys.argv[1:]], "size": rules.size, "positions": len(komi)}
    about |= {"squared_bias_before": before, "squared_bias": after}
    write(PROG, config.out, step.strengths, about)
    print(f"held out: squared bias {before:.4f} -> {after:.4f}; strengths in {config.out}")
    return 0


def _parts(num_held: int) -> tuple[slice, slice]:
    return slice(None, num_held), slice(num_held, None)


def _positions(config: BalancingConfig) -> tuple[Rules, Position, jax.Array]:
    """(rules, positions [P], komi f32[P]), drawn from what there is.

    Raises:
      ValueError: no data, bad data, or less than two positions.
    """
    if config.data is None:
        return _of_games(config)
    size, rows = shards.read_all(config.data)
    chosen = _draw(config, len(rows["to_play"]))

    def field(name):
        array = rows[name][chosen]
        return tuple(map(jnp.asarray, array.T)) if array.ndim == 2 else jnp.asarray(array)

    position = Position(**{name: field(name) for name in shards.POSITION_FIELDS})
    # The move limit of the game that it comes from shall not end a search.
    position = position.replace(ply=jnp.zeros_like(position.ply))
    return Rules(size, ko="simple"), position, field("komi")


def _of_games(config: BalancingConfig) -> tuple[Rules, Position, jax.Array]:
    """From the positions before all choices of the games. Where White is to move the colours are
    swapped, and the komi is Black's; the point that a ko forbids is forgotten."""
    assert config.sgf is not None
    rules = Rules(config.size, ko="simple")
    files, games = records.read(config.sgf, config.size)
    played = choice.of_games(rules, games)
    for game, move in played.illegal.items():
        _say(f"left out: {files[game]}: move {move} is illegal")
    chosen = _draw(config, len(played.game))
    komi = []
    for game, number in zip(played.game[chosen], played.number[chosen], strict=True):
        white = games[game].moves[number - 1][0]
        komi.append(-games[game].komi if white else games[game].komi)
    found = choice.take(played.choices, chosen)
    unpack = jax.vmap(functools.partial(bb.unpack, rules.layout))
    stones = unpack(found.own).astype(jnp.int8) - unpack(found.opponent).astype(jnp.int8)
    stones = stones.reshape(-1, rules.size, rules.size)
    positions = jax.jit(jax.vmap(lambda x: setup.from_stones(rules, x).position))(stones)
    return rules, positions, jnp.asarray(komi, jnp.float32)


def _draw(config: BalancingConfig, total: int) -> np.ndarray:
    if total < 2 or config.positions < 2:
        raise ValueError(f"--positions {config.positions}: expected at least 2, of {total}")
    return np.random.default_rng(config.seed).permutation(total)[: config.positions]


def _valued(config: BalancingConfig, rules, positions, komi, start: Strengths) -> Valued:
    """The positions with the values that search finds, some after others."""
    policy = softmax.softmax_policy(start, rules.size)
    count, parts = len(komi), []
    for first in range(0, count, _SEARCHES):
        at = np.arange(first, first + _SEARCHES) % count
        some, its_komi = jax.tree.map(lambda x, at=at: x[at], (positions, komi))
        seed = config.seed + first
        found = balance.search_values(rules, some, its_komi, policy, config.simulations, seed)
        parts.append(np.asarray(found))
        _say(f"{min(first + _SEARCHES, count)}/{count} positions searched")
    return Valued(positions, komi, jnp.asarray(np.concatenate(parts)[:count]))


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
