"""Network evaluators, for Go and for other games."""

from __future__ import annotations

import dataclasses
import functools
import math
import pathlib
from typing import Any

import jax
import jax.numpy as jnp

from gozero.compile import mode
from gozero.games.go import go_game
from gozero.go.rules import Rules
from gozero.nets import kinds, network, weights
from gozero.nets.features import feature_set
from gozero.nets.katago import network as katago
from gozero.nets.katago.network import KataGoConfig
from gozero.nets.network import NetworkConfig
from gozero.play import openings
from gozero.search.game import Evaluation, Evaluator, Game, History, history_of, no_ancestors
from gozero.search.rules.katago import KataGoPuct
from gozero.search.rules.puct import Puct
from gozero.search.score import ScoreUtility


def network_evaluator(
    rules: Rules | Game,
    config: kinds.Config | None = None,
    params: dict | None = None,
    scores: bool = False,
) -> Evaluator:
    """Evaluates positions by a network's policy and value.

    The evaluation uses no auxiliary heads except, with `scores`, the score head; the compiler
    removes unused heads.

    Args:
      rules: the rules of Go, or a `Game` whose observations are planes [rows, columns, channels].
      config: the network's architecture; None: a small one. For a `Game` see `network.of_game`.
        A KataGo network also needs `params`; the evaluator's selection rule is then KataGo's.
      params: from `network.init` or `weights.load`; None: random ones, seed 0. A network of dtype
        "int8" takes the same parameters: `Evaluator.prepared`, which a search calls, quantizes
        them, calibrated on positions of random games.
      scores: whether to return the expected score (`Evaluation.score`); KataGo's networks always
        do.

    Raises:
      ValueError: parameters of another architecture; weights trained for another board size or
        game; features of past boards under simple ko, which keeps none; a game without planes;
        `scores` of a network without a score head; a KataGo network without parameters, or for a
        game other than Go.
    """
    if isinstance(config, KataGoConfig):
        return _katago_evaluator(rules, config, params)
    if isinstance(rules, Game):
        config = _config_for(rules, config)
        observe = None  # the game's own
    else:
        config = config or NetworkConfig()
        _check_fits(rules, config)
        features = feature_set(config.features)
        observe = functools.partial(features.observe, rules)
    if scores and not config.auxiliary:
        raise ValueError("scores: this network has no score head; train one with auxiliary=True")
    if params is None:
        params = network.init(config, jax.random.key(0))
    network.check_params(config, params)

    def evaluate(params: dict, key: jax.Array, inputs: Any) -> Evaluation:
        del key
        inputs = inputs if config.observation is None else inputs.astype(jnp.float32)
        apply = functools.partial(network.apply, config)
        in_slices = functools.partial(network.apply_in_slices, config)
        on_cpu = functools.partial(network.apply_on_cpu, config)
        output = mode.by_platform(params, inputs, tpu=in_slices, cpu=on_cpu, default=apply)
        evaluation = Evaluation(output.policy_logits, output.value)
        if not scores:
            return evaluation
        score = jnp.stack([output.score, jnp.zeros_like(output.score)], axis=-1)
        return evaluation._replace(score=score)

    excluded = {"board_size"}  # a run's records state it among the rules
    excluded |= {"features"} if config.observation else {"observation", "num_actions"}
    architecture = {k: v for k, v in dataclasses.asdict(config).items() if k not in excluded}
    about = {"evaluator": "network", **architecture}
    board = config.observation[:2] if config.observation else _board(rules)
    if config.dtype == "int8":
        game = rules if isinstance(rules, Game) else go_game(rules)
        prepare = functools.partial(_quantized, history_of(game, observe), game, config)
    else:
        prepare = functools.partial(network.prepared, config, board=board)
    size = kinds.activation_bytes(config, math.prod(board))
    return Evaluator(evaluate, params, observe, Puct(), about, prepare, size)


def _board(rules: Rules | Game) -> tuple[int, int]:
    assert isinstance(rules, Rules)
    return rules.size, rules.size


_SAMPLE = 64
"""The number of positions, one from each random game, on which quantization is calibrated."""


def _quantized(history: History, game: Game, config: NetworkConfig, params: dict) -> dict:
    init_key, phase_key = jax.random.split(jax.random.key(0))
    states = jax.vmap(game.init)(jax.random.split(init_key, _SAMPLE))
    states, _ = openings.scatter_phases(game, phase_key, states, game.max_moves // 2)
    contexts, positions = jax.vmap(history.root)(states)
    inputs = jax.vmap(history.observe)(contexts, positions, jax.vmap(no_ancestors)(positions))
    if config.observation is not None:
        inputs = inputs.astype(jnp.float32)
    return network.quantized(config, params, inputs)


def _katago_evaluator(rules: Rules | Game, config: KataGoConfig, params: Any) -> Evaluator:
    if isinstance(rules, Game) or params is None:
        raise ValueError("config: a KataGo network plays only Go and needs its file's parameters")
    observe = kinds.observer(config, rules)

    def evaluate(params: dict, key: jax.Array, inputs: Any) -> Evaluation:
        del key
        apply = functools.partial(katago.apply, config)
        on_cpu = functools.partial(katago.apply_on_cpu, config)
        output = mode.by_platform(params, inputs, cpu=on_cpu, default=apply)
        score = jnp.stack([output.score_mean, output.score_stdev], axis=-1)
        return Evaluation(output.policy_logits, output.value, score=score)

    names = "version", "dtype", "scoring", "tax", "button", "friendly_pass"
    about: dict[str, Any] = {"evaluator": "network", "features": "katago"}
    about |= {name: getattr(config, name) for name in names}
    about["optimism"] = config.optimism if config.is_optimistic else 0.0
    about |= {"root_optimism": config.root_optimism} if config.is_optimistic else {}
    prepare = functools.partial(katago.prepared, config, board=_board(rules))
    rule = KataGoPuct(score=ScoreUtility(rules.size))
    size = kinds.activation_bytes(config, rules.num_points)
    return Evaluator(evaluate, params, observe, rule, about, prepare, size)


def _config_for(game: Game, config: NetworkConfig | None) -> NetworkConfig:
    default = network.of_game(game)
    if config is None:
        return default
    provided, expected = (
        f"{c.observation} with {c.num_actions} actions" if c.observation else "Go"
        for c in (config, default)
    )
    if provided != expected:
        raise ValueError(
            f"config: the network is for {provided}; this game needs one for {expected}"
        )
    return config


def _check_fits(rules: Rules, config: NetworkConfig) -> None:
    if config.observation is not None:
        raise ValueError(
            f"config: the network is for planes {config.observation} of a game other than Go; pass "
            "that Game instead of the rules"
        )
    if config.board_size not in (None, rules.size):
        size = config.board_size
        raise ValueError(
            f"config: the weights are for {size}x{size}, but the board is "
            f"{rules.size}x{rules.size}; use weights for this size or, to use these anyway, "
            "dataclasses.replace(config, board_size=None)"
        )
    if feature_set(config.features).past_boards and not rules.keeps_past:
        raise ValueError(
            f"features: {config.features!r} needs past boards, which {rules.ko} ko does not keep; "
            "use dataclasses.replace(rules, remember=True), another ko rule or the compact features"
        )


def of_file(
    rules: Rules | Game,
    path: pathlib.Path | None = None,
    seed: int = 0,
    features: str | None = None,
    scores: bool = False,
    dtype: str | None = None,
) -> Evaluator:
    """A network evaluator with weights from a file, or with random weights.

    Args:
      rules: the rules of Go, or another `Game`.
      path: the weights file; None: random weights.
      seed: the seed of random weights.
      features: the input features of a Go network with random weights; a weights file has its own.
      scores: see `network_evaluator`.
      dtype: the type in which the network's trunk computes; None: that of the weights.

    Raises:
      ValueError: bad weights, features other than those of the weights, or `scores` of a network
        without a score head.
    """
    of_go = not isinstance(rules, Game)
    if path is not None:
        config, params, description = weights.load(path, rules.size if of_go else None)
        about = {"weights": str(path), "weights_sha256": description["sha256"]}
    else:
        config = NetworkConfig(features=features or "compact") if of_go else network.of_game(rules)
        params = network.init(config, jax.random.key(seed))
        about = {"weights": f"random, seed {seed}"}
    if features is not None and config.observation:
        raise ValueError(f"features: {features!r} applies only to Go; omit --features")
    if features not in (None, config.features):
        raise ValueError(
            f"features: {features!r}, but the weights in {path} were trained with "
            f"{config.features!r}; omit --features"
        )
    config = config if dtype is None else dataclasses.replace(config, dtype=dtype)
    evaluator = network_evaluator(rules, config, params, scores)
    return evaluator._replace(about={**evaluator.about, **about})
