"""A small network that predicts the final owner of each point, learnt by TD(0) on random games.

    python -m experiments.surveyed.territory --out runs/territory_9.safetensors

After Schraudolph, Dayan & Sejnowski (1994), NeuroGo (Enzenberger 1996) and Honte (Dahl 1999). The
network learns the owner of each point at the end of the game; its target is its own prediction for
the next position, and after the last move the board. Their networks learn from games against
themselves or programs. This one learns from games in which all moves that fill no own eye are
equally likely, so it predicts the mean of many uniform playouts.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import sys
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import optax
from jax import lax

from gozero.apps import flags, runtime
from gozero.games.go import go_game
from gozero.go import scoring
from gozero.go.rules import WHITE, GameState, Rules, init, legal_actions, play
from gozero.nets import network, weights
from gozero.nets.features import feature_set
from gozero.nets.network import NetworkConfig
from gozero.play.openings import any_sensible_play
from gozero.runs import arrays
from gozero.runs.progress import Progress
from gozero.runs.settings import check, seed_setting, setting
from gozero.search.game import Evaluation, Evaluator
from gozero.search.rules.puct import Puct

PROG = "python -m experiments.surveyed.territory"
SHIPPED = pathlib.Path(__file__).parent / "territory_9.safetensors"
SCALE = 9.0
"""The lead in points at which the value is tanh(1)."""
_RATE, _STEPS_A_LINE = 1e-3, 50


@dataclasses.dataclass(frozen=True)
class TerritoryFlags:
    """Learn the final owner of each point."""

    out: pathlib.Path = setting(help="The new .safetensors file to write the weights to.")
    weights: pathlib.Path | None = setting(None, "Initial weights.", unset="random weights")
    size: int = setting(9, "Points on a side of the board.", least=2, most=25)
    steps: int = setting(2000, "Steps, in each of which every game plays one move.", least=1)
    games: int = setting(256, "Games played in lockstep.", least=1)
    blocks: int = setting(1, "Residual blocks.", least=1)
    channels: int = setting(16, "Channels.", least=1)
    seed: int = seed_setting("The seed of the games and the weights.")
    EXAMPLES = (f"{PROG} --out runs/territory_9.safetensors",)

    def __post_init__(self):
        check(self)
        arrays.check_new(self.out, with_folder=True)


class State(NamedTuple):
    """The state of learning: everything that the next step depends on."""

    games: GameState  # [B]
    params: dict
    optimizer: Any


def targets(ended: jax.Array, final: jax.Array, next_logits: jax.Array) -> jax.Array:
    """f32[B, P] in [-1, 1]: target ownership of positions, for the players to move there.

    Args:
      ended: bool[B]; whether the move ended the game.
      final: i8[B, P]; the owners on the board after the move, +1 for the player who moved.
      next_logits: f32[B, P]; the network's logits for the next positions, for the players to move
        there.
    """
    return jnp.where(ended[:, None], final.astype(jnp.float32), -jnp.tanh(next_logits))


def step(rules: Rules, config: NetworkConfig, state: State, key: jax.Array):
    """Plays a move in each game and updates the network: (the new state, the mean loss f32[])."""
    game, observe = go_game(rules), _observer(rules, config)
    legal = jax.vmap(functools.partial(legal_actions, rules))(state.games)
    action = any_sensible_play(game, key, state.games, legal)
    after = jax.vmap(functools.partial(play, rules))(state.games, action)
    ended = after.terminated | after.truncated
    owners = jax.vmap(functools.partial(scoring.ownership, rules))(after)
    owners = owners.reshape(owners.shape[0], -1)
    for_mover = jnp.where((state.games.to_play == WHITE)[:, None], -owners, owners)

    def ownership_logits(params, states):
        logits = network.apply(config, params, observe(states)).ownership_logits
        assert logits is not None  # the network has that head
        return logits

    next_logits = ownership_logits(state.params, after)
    target = lax.stop_gradient(targets(ended, for_mover, next_logits))

    def loss(params):
        logits = ownership_logits(params, state.games)
        # tanh(x) is 2 sigmoid(2 x) - 1.
        return jnp.mean(optax.sigmoid_binary_cross_entropy(2 * logits, (1 + target) / 2))

    value, slope = jax.value_and_grad(loss)(state.params)
    change, optimizer = optax.adam(_RATE).update(slope, state.optimizer)
    new = jax.vmap(functools.partial(init, rules))(state.games.komi)
    pick = lambda new, old: jnp.where(ended.reshape(-1, *[1] * (old.ndim - 1)), new, old)
    games = jax.tree.map(pick, new, after)
    params = cast(dict, optax.apply_updates(state.params, change))
    return State(games, params, optimizer), value


def _observer(rules: Rules, config: NetworkConfig):
    features = feature_set(config.features)
    return jax.vmap(lambda state: features.observe(rules, state, state.position))


def territory_evaluator(rules: Rules, config: NetworkConfig, params: dict) -> Evaluator:
    """An evaluator with value tanh(score / 9), from the predicted owners, and a uniform prior."""
    features = feature_set(config.features)

    def observe(state, position, ancestors):
        planes = features.observe(rules, state, position, ancestors)
        return planes, jnp.where(position.to_play == WHITE, state.komi, -state.komi)

    def evaluate(params, key, observations):
        planes, komi = observations
        owners = network.apply(config, params, planes).ownership
        assert owners is not None
        score = jnp.sum(owners, axis=1) + komi
        logits = jnp.zeros((score.shape[0], rules.num_actions))
        return Evaluation(logits, jnp.tanh(score / SCALE))

    about = {"evaluator": "territory network"}
    return Evaluator(evaluate, params, observe, Puct(3.0, first_play="parent"), about)


def shipped(rules: Rules) -> Evaluator:
    """The evaluator with the weights beside this file.

    Raises:
      ValueError: if the weights are missing, or for another board size.
    """
    config, params, about = weights.load_own(SHIPPED, rules.size)
    evaluator = territory_evaluator(rules, config, params)
    return evaluator._replace(about={**evaluator.about, "weights_sha256": about["sha256"]})


def learn(options: TerritoryFlags) -> int:
    """Trains the network and saves it; returns the exit status."""
    rules = Rules(options.size, ko="simple")
    if options.weights is None:
        config = NetworkConfig(
            options.blocks, options.channels, auxiliary=True, board_size=options.size
        )
        params = network.init(config, jax.random.key(options.seed))
    else:
        with flags.exit_on_error(PROG):
            config, params, _ = weights.load_own(options.weights, options.size)
    games = jax.vmap(functools.partial(init, rules))(jnp.full(options.games, 7.0))
    state = State(games, params, optax.adam(_RATE).init(params))
    key = jax.random.key(options.seed)

    # One step per call: on a CPU, gradients of convolutions take far longer inside a loop.
    one_step = jax.jit(functools.partial(step, rules, config), donate_argnums=0)
    losses: list[float] = []
    steps_taken = 0
    with runtime.StopRequest() as stop, Progress("territory", options.steps, "steps") as progress:
        while steps_taken < options.steps and not stop.requested:
            state, value = one_step(state, jax.random.fold_in(key, steps_taken))
            steps_taken += 1
            if steps_taken % _STEPS_A_LINE == 0:
                losses.append(float(value))
                progress.show(steps_taken, {"loss": f"{losses[-1]:.4f}"})
    about: dict[str, Any] = {"steps": steps_taken, "loss": losses[-1:]}
    about |= {} if options.weights is None else {"begun_with": options.weights.name}
    weights.save(options.out, state.params, config, command=[PROG, *sys.argv[1:]], **about)
    return stop.status if stop.requested else 0


if __name__ == "__main__":
    sys.exit(learn(flags.parse(TerritoryFlags, prog=PROG)))
