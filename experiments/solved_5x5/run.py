"""Black, opening in the centre, owns all of 5x5. Does the network achieve this?

    python -m train --preset 5x5 --out runs/zero-5x5
    python -m experiments.solved_5x5.run --weights runs/zero-5x5/weights.safetensors

White's first replies are random, and the network answers them. From there on the arena plays the
network with a small search against MC-RAVE with a large one.
"""

from __future__ import annotations

import dataclasses
import sys

import jax
import jax.numpy as jnp

from experiments import command
from experiments.output import write_csv
from experiments.solved_5x5.config import Solved5x5Config
from gozero.apps import flags, runtime
from gozero.apps.host_game import ample_move_limit
from gozero.games.go import go_game
from gozero.go.coords import to_gtp
from gozero.go.rules import BLACK, GameState, Rules, init, legal_actions, play
from gozero.nets import network, weights
from gozero.play import arena
from gozero.play.networks import network_evaluator
from gozero.play.openings import any_play
from gozero.play.player import Player, Turn, search_player
from gozero.play.player_config import PlayerConfig
from gozero.play.searches import gumbel_search, to_win
from gozero.play.setups import make_setup
from gozero.runs import files, statistics
from gozero.runs import folder as folders
from gozero.search.game import Evaluator

PROG = "python -m experiments.solved_5x5.run"
SIZE = 5
MUST = 0.98


@dataclasses.dataclass(frozen=True)
class Row:
    """Black's results."""

    games: int
    won: int
    drawn: int
    lost: int
    score: float
    """Points a game."""
    low: float
    """The 95% (Wilson) interval of the score is `low` to `high`."""
    high: float
    unsound: int
    """Games with an illegal action or a nan in a search."""
    first_move: str
    """The move with the highest prior on the empty board, without a search."""
    prior: float
    """The prior of that move."""
    value: float
    """The value of the empty board, without a search."""
    holds: bool


def main() -> int:
    config = command.parse(Solved5x5Config, prog=PROG)
    with flags.exit_on_error(PROG):
        shape, params, _ = weights.load(config.weights, SIZE)
        folders.claim(config.out)
        files.write_json(config.out / "manifest.json", folders.manifest(config.seed))
    rules = Rules(SIZE, "positional", max_moves=ample_move_limit(SIZE))
    evaluator = network_evaluator(rules, shape, params)
    row = measure(config, rules, evaluator, *look(rules, evaluator, shape, config.komi))
    write_csv(Row, [row], config.out / "results.csv")
    print(
        f"Black won {row.won} of {row.games}, {row.score:.1%} [{row.low:.1%}, {row.high:.1%}]; "
        f"first move {row.first_move}, prior {row.prior:.3f}, value {row.value:+.3f}"
    )
    command.print_results(config.out)
    return 0


def look(rules: Rules, evaluator: Evaluator, shape, komi: float) -> tuple[str, float, float]:
    """(move with the highest prior, its prior, value) of the empty board, without a search."""
    state = init(rules, komi)
    observe = go_game(rules, evaluator.observe).observe
    observation = jax.tree.map(lambda x: x[None], observe(state))
    output = network.apply(shape, evaluator.params, observation)
    prior = jax.nn.softmax(output.policy_logits[0])
    action = int(prior.argmax())
    return to_gtp(rules.size, action), float(prior[action]), float(output.value[0])


def network_player(rules: Rules, evaluator: Evaluator, simulations: int) -> Player:
    """The search used in training, without exploration."""
    search = to_win(gumbel_search(simulations))
    return search_player(rules, evaluator, search)


def measure(
    config: Solved5x5Config,
    rules: Rules,
    evaluator: Evaluator,
    first: str,
    prior: float,
    value: float,
) -> Row:
    """Plays the games."""
    black = network_player(rules, evaluator, config.simulations)
    setup = make_setup(
        rules, PlayerConfig(search="rave", simulations=config.opponent_simulations, leaves=8)
    )
    white = search_player(rules, setup.evaluator, setup.search)
    points, unsound = [], 0
    for start in range(0, config.games, config.parallel):
        count = min(config.parallel, config.games - start)
        key = jax.random.fold_in(jax.random.key(config.seed), start)
        opening_key, match_key = jax.random.split(key)
        opened = openings(rules, black, opening_key, count, config.komi, config.replies)
        match = arena.play_match(rules, black, white, match_key, openings=opened)
        is_black = match.first_colour == BLACK  # in a pair's other game White has the network
        points += match.points[is_black].tolist()
        unsound += int((~match.ok[is_black]).sum())
        print(f"{len(points)}/{config.games}: {sum(points):g} won", file=sys.stderr, flush=True)
    tally = statistics.Tally.of(points)
    low, high = statistics.wilson(tally.score, tally.games)
    holds = tally.score >= MUST and not unsound and first == to_gtp(SIZE, 12)
    return Row(
        tally.games,
        tally.wins,
        tally.draws,
        tally.losses,
        round(tally.score, 4),
        round(low, 4),
        round(high, 4),
        unsound,
        first,
        round(prior, 4),
        round(value, 4),
        holds,
    )


def openings(
    rules: Rules, black: Player, key: jax.Array, count: int, komi: float, replies: int
) -> GameState:
    """[count] games with Black to move, after `replies` of its moves and random replies."""
    states = jax.vmap(lambda _: init(rules, komi))(jnp.arange(count))
    for i in range(replies):
        black_key, white_key = jax.random.split(jax.random.fold_in(key, i))
        choose = lambda key, turn: black.choose(black.params, key, turn, None).action
        states = _moved(rules, choose, black_key, states)
        reply = lambda key, turn: any_play(go_game(rules), key, turn.legal)
        states = _moved(rules, reply, white_key, states)
    return states


def _moved(rules: Rules, choose, key: jax.Array, states: GameState) -> GameState:
    @jax.jit
    def move(key, states):
        legal = jax.vmap(lambda state: legal_actions(rules, state))(states)
        no_moves = jnp.full((2, legal.shape[0]), -1, jnp.int32)
        action = choose(key, Turn(states, legal, no_moves))
        return jax.vmap(lambda state, a: play(rules, state, a))(states, action)

    return move(key, states)


if __name__ == "__main__":
    runtime.run_main(PROG, "experiments.solved_5x5.run")
