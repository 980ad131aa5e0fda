"""Evaluators: what judges a position. One door for the network and for playouts."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gozero.go.rules import WHITE, GameState, Position, Rules
from gozero.montecarlo.playout import uniform_playouts
from gozero.nets import features, network, weights
from gozero.nets.network import NetworkConfig
from gozero.search.game import Evaluate, Evaluation, Trail
from gozero.search.selection import Edges, Puct

NAMES = ("network", "playout")

PLAYOUT_RULE = Puct(c_puct=3.0, fpu_reduction=0.0)
"""With a uniform prior over 82 actions the paper's 1.5 hardly looks beyond the first good one,
and a player ahead would never try a second if the untried counted as even."""


class Evaluator(NamedTuple):
    """How positions are judged, and the selection rule that suits it.

    `observe` is for `go_game`, `evaluate` and `params` are for `search`, `select` is for its
    `SearchConfig`.
    """

    observe: Callable[[GameState, Position, Trail], Any]
    evaluate: Evaluate
    params: Any
    select: Callable[[Edges], jax.Array]
    about: dict  # what it is, for the records of a run; plain data


def network_evaluator(
    rules: Rules, config: NetworkConfig | None = None, params: dict | None = None
) -> Evaluator:
    """A policy and value network; without parameters, random ones of seed 0."""
    config = config or NetworkConfig()
    if params is None:
        params = network.init(config, jax.random.key(0))

    def observe(state: GameState, position: Position, trail: Trail) -> jax.Array:
        del trail
        return features.planes(rules, state, position)

    def evaluate(params: dict, key: jax.Array, planes: jax.Array) -> Evaluation:
        del key
        output = network.apply(config, params, planes)
        return Evaluation(output.policy_logits, output.value)

    about = {"evaluator": "network", "blocks": config.blocks, "channels": config.channels}
    return Evaluator(observe, evaluate, params, Puct(), about)


def playout_evaluator(rules: Rules) -> Evaluator:
    """One uniform non-eye-filling playout a leaf; the prior is uniform."""

    def observe(state: GameState, position: Position, trail: Trail) -> Any:
        del trail
        return position, state.komi

    def evaluate(params: Any, key: jax.Array, observations: Any) -> Evaluation:
        del params
        positions, komi = observations
        score = uniform_playouts(rules, positions, key).score.astype(jnp.float32) - komi
        for_black = jnp.sign(score)
        value = jnp.where(positions.to_play == WHITE, -for_black, for_black)
        return Evaluation(jnp.zeros((komi.shape[0], rules.num_actions)), value)

    return Evaluator(observe, evaluate, None, PLAYOUT_RULE, {"evaluator": "playout"})


def make_evaluator(
    rules: Rules, name: str, weights_file: pathlib.Path | None = None, seed: int = 0
) -> Evaluator:
    """The evaluator a command asks for: by name, with weights from a file or random ones.

    Raises:
      ValueError: an unknown name, weights without a network, or bad weights.
    """
    if name == "playout":
        if weights_file is not None:
            raise ValueError("weights: playouts take none; use --evaluator network")
        return playout_evaluator(rules)
    if name != "network":
        raise ValueError(f"evaluator: {name!r} is not one of {', '.join(NAMES)}")
    if weights_file is None:
        config = NetworkConfig()
        params = network.init(config, jax.random.key(seed))
        evaluator = network_evaluator(rules, config, params)
        return evaluator._replace(about={**evaluator.about, "weights": f"random, seed {seed}"})
    params, config, description = weights.load(weights_file, rules.size)
    evaluator = network_evaluator(rules, config, params)
    about = {"weights": str(weights_file), "weights_sha256": description["sha256"]}
    return evaluator._replace(about={**evaluator.about, **about})
