"""The values of a root that a value head might learn from, against the results of the games.

    python -m experiments.recipes.root_value [--games 256] [--out DIR]

The networks that come with the library play themselves with the searches of training. After each
search several estimates of the root's value are kept, see `ESTIMATES`. All games are played out.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from experiments import command
from experiments.output import write_csv
from experiments.recipes import readme
from experiments.recipes.config import RootValueConfig
from gozero.apps import flags
from gozero.games.go import go_game
from gozero.go.rules import Rules, init
from gozero.nets import weights
from gozero.play import openings
from gozero.play.networks import network_evaluator
from gozero.play.players import NETWORKS
from gozero.play.searches import gumbel_search, puct_search
from gozero.play.selfplay import policy_value
from gozero.runs import files
from gozero.runs import folder as folders
from gozero.search.config import SearchConfig
from gozero.search.game import Evaluator, Game
from gozero.search.search import SearchResult, search

PROG = "python -m experiments.recipes.root_value"
KOMI = {7: 9.0, 9: 7.0}


ESTIMATES: dict[str, Callable[[SearchResult], Any]] = {
    "network": lambda result: result.raw_value,
    "mean of simulations": lambda result: result.value,
    "by the policy target": policy_value,
}
"""f32[B], for the player to move: the network's value, the mean of it and all simulations, and the
mean of Q by the policy target."""
REFERENCE = "mean of simulations"


@dataclasses.dataclass(frozen=True)
class Row:
    """An estimate's errors, its value - the result, over all moves; intervals of 95%, by games."""

    board: str
    root: str
    simulations: int
    estimate: str
    games: int
    moves: int
    bias: float
    bias_low: float
    bias_high: float
    mse: float
    against_mean: float
    """Its mean squared error - that of the mean of simulations."""
    against_low: float
    against_high: float


class Moves(NamedTuple):
    """T searched moves of B games."""

    values: np.ndarray  # f32[T, B, number of ESTIMATES], for the player to move
    outcomes: np.ndarray  # f32[T, B]: the game's result, for the same player
    searched: np.ndarray  # bool[T, B]: the game was not over


def play(game: Game, evaluator: Evaluator, config: SearchConfig, states: Any, seed: int) -> Moves:
    """Plays games from the given states, to the end."""

    @jax.jit
    def move(params: Any, key: jax.Array, states: Any):
        result = search(game, evaluator._replace(params=params), key, states, config)
        values = jnp.stack([estimate(result) for estimate in ESTIMATES.values()], axis=1)
        before = values, states.to_play, ~openings.is_over(game, states)
        return jax.vmap(game.play)(states, result.action), before

    seen, key = [], jax.random.key(seed)
    while not seen or seen[-1][2].any():
        states, before = move(evaluator.params, jax.random.fold_in(key, len(seen)), states)
        seen.append(jax.device_get(before))
    values, to_play, searched = (np.stack(x) for x in zip(*seen, strict=True))
    outcome = np.asarray(jax.vmap(game.outcome)(states)[1])
    same = to_play == np.asarray(states.to_play)
    return Moves(values, np.where(same, outcome, -outcome), searched)


def interval(x: np.ndarray, counted: np.ndarray) -> tuple[float, float, float]:
    """(mean, low, high), 95%, of x[T, B] where `counted`; the B games are independent."""
    sums, counts = (x * counted).sum(axis=0), counted.sum(axis=0)
    mean, games = sums.sum() / counts.sum(), len(counts)
    deviations = ((sums - mean * counts) ** 2).sum() * games / (games - 1)
    half = 1.96 * np.sqrt(deviations) / counts.sum()
    return mean, mean - half, mean + half


def errors(moves: Moves) -> Iterator[dict[str, Any]]:
    """The errors of each estimate, as fields of `Row`."""
    error = moves.values.astype(np.float64) - moves.outcomes[..., None]
    reference = error[..., list(ESTIMATES).index(REFERENCE)] ** 2
    for i, name in enumerate(ESTIMATES):
        bias = interval(error[..., i], moves.searched)
        against = interval(error[..., i] ** 2 - reference, moves.searched)
        fields: dict[str, Any] = dict(zip(("bias", "bias_low", "bias_high"), bias, strict=True))
        fields |= dict(zip(("against_mean", "against_low", "against_high"), against, strict=True))
        mse = interval(error[..., i] ** 2, moves.searched)[0]
        yield fields | {"estimate": name, "mse": mse}


def measure(config: RootValueConfig) -> Iterator[Row]:
    """Yields the rows of the table as they are measured."""
    for size in config.sizes:
        rules = Rules(size=size, ko="positional")
        game, komi = go_game(rules), jnp.full(config.games, KOMI[size])
        empty = jax.vmap(functools.partial(init, rules))(komi)
        network, params, _ = weights.load_own(NETWORKS[size], size)
        evaluator = network_evaluator(rules, network, params)
        starts, _ = openings.draw(game, jax.random.key(config.seed), empty, config.plies)
        for root, simulations in itertools.product(("gumbel", "puct"), config.simulations):
            gumbel, puct = gumbel_search(simulations), puct_search(game, evaluator, simulations)
            how = gumbel if root == "gumbel" else puct
            moves = play(game, evaluator, how, starts, config.seed)
            counts = {"games": config.games, "moves": int(moves.searched.sum())}
            for fields in errors(moves):
                yield Row(f"{size}x{size}", root, simulations, **counts, **fields)


def main() -> int:
    config = command.parse(RootValueConfig, prog=PROG)
    with folders.removed_if_empty(config.out), flags.exit_on_error(PROG):
        folders.claim(config.out)
        rows = list(measure(config))
        write_csv(Row, rows, config.out / "root_value.csv", digits=4)
        files.write_json(config.out / "manifest.json", folders.manifest(config.seed))
    print(readme.root_value(config.out / "root_value.csv"))
    command.print_results(config.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
