"""Evaluators: playouts of Go, evaluators by name, and ensembles over board symmetries."""

from __future__ import annotations

import dataclasses
import importlib
import pathlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gozero.games.rollouts import ROLLOUT_RULE, rollout_evaluator
from gozero.go import bitboard as bb
from gozero.go.branch import last_move
from gozero.go.rules import WHITE, GameState, Position, Rules
from gozero.play.player import as_game
from gozero.play.player_config import POLICIES, SymmetryMode
from gozero.playouts.engine import PlayoutPolicy, check_positive, outcomes, play_out
from gozero.playouts.first_plays import FirstPlayKind, check_kind
from gozero.playouts.policies.mogo import playouts as mogo
from gozero.playouts.policies.mogo.move_rules import MogoConfig
from gozero.playouts.policies.softmax import softmax
from gozero.playouts.policies.softmax.softmax import Softmax
from gozero.runs.memory import num_bytes
from gozero.search.game import Ancestors, Evaluation, Evaluator, Game, symmetries_of
from gozero.search.prior_counts import one_visit
from gozero.search.rules.rave import Rave

NAMES = ("network", "playout")


def over_symmetries(rules: Rules | Game, evaluator: Evaluator) -> Evaluator:
    """Averages an evaluator's probabilities and values over all symmetries of each position:
    AlphaGo's explicit symmetry ensemble (Silver et al. 2016), and KataGo's. Each position takes one
    evaluation for each symmetry of the game. The probabilities are those over all actions, illegal
    ones too.

    Args:
      rules: the rules of Go, which has eight symmetries, or a `Game` with `symmetries`.
      evaluator: an evaluator of that game; its inputs are planes, or have `planes`.

    Raises:
      ValueError: a game without symmetries, or with anything but `Symmetries`; an evaluator whose
        inputs are not planes, or with more than logits, values and scores (the heuristic of
        `with_heuristic`, a playout's first plays), which would be lost.
    """
    image, num_images = _image_of(rules)
    all_images = jax.vmap(image, in_axes=(None, 0))

    def evaluate(params: Any, key: jax.Array, inputs: Any) -> Evaluation:
        images, sources = jax.vmap(all_images, in_axes=(0, None))(inputs, jnp.arange(num_images))
        num_games = sources.shape[0]
        images = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), images)
        evaluation = _without_more(evaluator.evaluate(params, key, images))
        logits, value, score = jax.tree.map(
            lambda x: x.reshape(num_games, num_images, *x.shape[1:]),
            (evaluation.prior_logits, evaluation.value, evaluation.score),
        )
        score = None if score is None else _mean_score(score)
        logits = _mean_probability(_undo_symmetry(logits, sources).astype(jnp.float32))
        return Evaluation(logits, value.mean(1), score=score)

    about = {**evaluator.about, "symmetries": "all"}
    size = num_images * evaluator.position_bytes
    return evaluator._replace(evaluate=evaluate, about=about, position_bytes=size)


def random_symmetry(rules: Rules | Game, evaluator: Evaluator) -> Evaluator:
    """Evaluates each position in one of its symmetries, drawn at random: AlphaGo Zero (Silver et
    al. 2017). An evaluator's error in one symmetry then does not bias a whole tree.

    Args and Raises: as `over_symmetries`.
    """
    image, num_images = _image_of(rules)

    def evaluate(params: Any, key: jax.Array, inputs: Any) -> Evaluation:
        symmetry_key, evaluation_key = jax.random.split(key)
        num_games = jax.tree.leaves(inputs)[0].shape[0]
        index = jax.random.randint(symmetry_key, (num_games,), 0, num_images)
        images, sources = jax.vmap(image)(inputs, index)
        evaluation = _without_more(evaluator.evaluate(params, evaluation_key, images))
        logits = _undo_symmetry(evaluation.prior_logits, sources)
        return Evaluation(logits, evaluation.value, score=evaluation.score)

    about = {**evaluator.about, "symmetries": "random"}
    return evaluator._replace(evaluate=evaluate, about=about)


def in_symmetries(rules: Rules | Game, evaluator: Evaluator, symmetries: SymmetryMode) -> Evaluator:
    """The evaluator by the flag ``--symmetries``: as it is, or in a random or all symmetries.

    Args and Raises: as `over_symmetries`; `symmetries` is "one", "random" or "all".
    """
    if symmetries == "one":
        return evaluator
    return {"random": random_symmetry, "all": over_symmetries}[symmetries](rules, evaluator)


def _image_of(rules: Rules | Game) -> tuple[Callable, int]:
    """(``image``, the number of symmetries), where ``image(inputs of a position, symmetry i32[])``
    returns the transformed inputs and their sources, i32[A]: the original action at each place."""
    symmetries = symmetries_of(as_game(rules))
    if symmetries is None:
        raise ValueError("rules: this game has no symmetries (its `Game.symmetries` is None)")

    def image(inputs: Any, k: jax.Array) -> tuple[Any, jax.Array]:
        sources = symmetries.actions(jnp.arange(rules.num_actions), k)
        return symmetries.inputs(inputs, k), sources

    return image, symmetries.count


def _without_more(evaluation: Evaluation) -> Evaluation:
    for name in ("played", "heuristic", "positions"):
        if getattr(evaluation, name) is not None:
            raise ValueError(
                f"evaluator: its evaluations have `{name}`, which symmetries would lose; average "
                "over symmetries first, then add heuristics to the result"
            )
    return evaluation


def _undo_symmetry(logits: jax.Array, sources: jax.Array) -> jax.Array:
    """Logits f32[..., A] of images, reordered from each image's actions to the position's.

    `sources` is i32[..., A]: the original action at each place of the image.
    """
    return jnp.take_along_axis(logits, jnp.argsort(sources, axis=-1), axis=-1)


def _mean_probability(logits: jax.Array) -> jax.Array:
    """Logits f32[M, A] of the mean of the probabilities that S logits f32[M, S, A] give; where one
    of these is not finite, nor is the result."""
    of_each = jax.nn.log_softmax(logits, axis=-1)
    mean = jax.nn.logsumexp(of_each, axis=1) - np.float32(np.log(logits.shape[1]))
    return jnp.where(jnp.isfinite(logits).all(axis=1), mean, jnp.nan)


def _mean_score(scores: jax.Array) -> jax.Array:
    """f32[M, 2]: mean and standard deviation of the uniform mixture of S scores f32[M, S, 2]."""
    mean, stdev = jnp.moveaxis(scores, -1, 0)
    return jnp.stack([mean.mean(1), jnp.sqrt((stdev**2).mean(1) + mean.var(1))], axis=-1)


def playout_evaluator(
    rules: Rules,
    policy: str | MogoConfig | Softmax | PlayoutPolicy = "uniform",
    max_moves: int | None = None,
    value_at_cut: Callable | None = None,
    first_plays: FirstPlayKind = False,
    first_action: bool = False,
) -> Evaluator:
    """Evaluates each leaf by one playout that fills no own eyes; the prior is uniform.

    Args:
      rules: the rules.
      policy: the playout policy: a name in `POLICIES`; a `MogoConfig`, which adds to MoGo's rules;
        a `Softmax`; or any `PlayoutPolicy`. Its arrays become the evaluator's params, so another
        policy with the same arrays needs no recompilation. MoGo's and softmax playouts begin by
        answering the leaf's last move; at the root of a search under simple ko, which keeps no
        past, that move is unknown.
      max_moves: moves after which a playout is cut; None: 3 * size^2, which few reach.
      value_at_cut: the value of a cut playout, see `engine.outcomes`; None: by area as it stands.
      first_plays: whether to return which player first played at each point, for
        `SearchConfig(amaf=..., select=...)` with a rule of `search.rules.rave`; the evaluator's
        `select` is then such a rule. "same", for `Amaf(first="same")`: where each player has played
        at all. Passes do not count.
      first_action: whether the playout's first action counts as one visit at the leaf:
        N(s_T, a_T) = 1, and Q is the outcome. The visits of a node's actions then sum to its own,
        as in Algorithms 1 and 2 of Gelly & Silver (2011), if each node is evaluated once and that
        action is legal (playouts know no superko). Trees then keep prior counts, which is
        slower.

    Raises:
      TypeError: anything but the rules of Go.
      ValueError: an unknown policy, another kind of `first_plays`, or `max_moves` below 1.
    """
    if not isinstance(rules, Rules):
        raise TypeError(
            f"rules: expected Rules, not {type(rules).__name__}; of another game, pass "
            "gozero.rollout_evaluator(game)"
        )
    check_kind(first_plays)
    check_positive("max_moves", max_moves)
    policy, description = _playout_policy(rules, policy)
    ends = value_at_cut is not None

    def observe(state: GameState, position: Position, ancestors: Ancestors) -> Any:
        inputs = (position, state.komi)
        return (
            (*inputs, last_move(rules, state, position, *ancestors))
            if policy.takes_last
            else inputs
        )

    def evaluate(params: Any, key: jax.Array, observations: Any) -> Evaluation:
        positions, komi, *last = observations
        options = {"max_moves": max_moves, "ends": ends, "first_plays": first_plays}
        options |= {"last": last[0] if last else None}
        playouts = play_out(policy._replace(params=params), rules, positions, key, **options)
        for_black = outcomes(playouts, komi, value_at_cut)
        white = positions.to_play == WHITE
        value = jnp.where(white, -for_black, for_black)
        logits = jnp.zeros((komi.shape[0], rules.num_actions))
        evaluation = Evaluation(logits, value)
        if first_action:
            heuristic = one_visit(playouts.first_action, value, rules.num_actions)
            evaluation = evaluation._replace(heuristic=heuristic)
        if playouts.first_plays is None:
            return evaluation
        black_first, white_first = (_actions(rules, board) for board in playouts.first_plays)
        by_colour = jnp.stack([black_first, white_first], axis=1)
        by_player = jnp.where(white[:, None, None], by_colour[:, ::-1], by_colour)
        return evaluation._replace(played=by_player)

    about = {"evaluator": "playout", "policy": description}
    about |= {"first_action": True} if first_action else {}
    about |= {} if max_moves is None else {"max_moves": max_moves}
    select = Rave() if first_plays else ROLLOUT_RULE
    return Evaluator(evaluate, policy.params, observe, select, about)


def with_priors(rules: Rules, evaluator: Evaluator, policy: Softmax) -> Evaluator:
    """The evaluator with priors in proportion to the strengths of move features.

    As in Crazy Stone, Coulom (2007), which considers moves in order of these priors
    (`selective.Widening`).
    """

    def observe(state: GameState, position: Position, ancestors: Ancestors) -> Any:
        assert evaluator.observe is not None  # evaluators of Go have their own
        last = last_move(rules, state, position, *ancestors)
        return evaluator.observe(state, position, ancestors), position, last

    def evaluate(params: Any, key: jax.Array, observations: Any) -> Evaluation:
        inputs, positions, last = observations
        evaluation = evaluator.evaluate(params[0], key, inputs)
        return evaluation._replace(prior_logits=softmax.logits(params[1], rules, positions, last))

    params, prepare = (evaluator.params, softmax.log_strengths(policy)), evaluator.prepare
    prepared = prepare and (lambda params: (prepare(params[0]), params[1]))
    return evaluator._replace(observe=observe, evaluate=evaluate, params=params, prepare=prepared)


def add_memory(text: str, total: int, evaluator: Evaluator, num_positions: int) -> tuple[str, int]:
    """The description of a search's memory and its bytes, with those of its evaluator added, where
    they are known: a network's prepared parameters and its activations (roughly).

    Args:
      text, total: without the evaluator.
      num_positions: positions that are evaluated at once.
    """
    if not evaluator.position_bytes:
        return text, total
    prepared = lambda params: evaluator._replace(params=params).prepared().params
    params = num_bytes(jax.eval_shape(prepared, evaluator.params))
    activations = num_positions * evaluator.position_bytes
    sizes = f"parameters {params / 2**20:,.1f} MiB, activations {activations / 2**20:,.1f} MiB"
    return f"{text}; {sizes}", total + params + activations


def _playout_policy(
    rules: Rules, policy: str | MogoConfig | Softmax | PlayoutPolicy
) -> tuple[PlayoutPolicy, Any]:
    """(the policy, its description for a run's records)."""
    if isinstance(policy, PlayoutPolicy):
        return policy, "given"
    if isinstance(policy, Softmax):
        return softmax.as_policy(policy), "softmax"
    if isinstance(policy, MogoConfig):
        return mogo.policy(rules.layout, policy), {"mogo": dataclasses.asdict(policy)}
    if policy not in POLICIES:
        raise ValueError(f"policy: {policy!r} is not one of {', '.join(POLICIES)}")
    module = importlib.import_module(f"gozero.playouts.policies.{POLICIES[policy]}")
    return module.policy(rules.layout), policy


def _actions(rules: Rules, boards: bb.Board) -> jax.Array:
    """bool[B, A]: the points of boards [B] as actions; False for the pass."""
    points = jax.vmap(lambda board: bb.unpack(rules.layout, board))(boards)
    return jnp.pad(points, ((0, 0), (0, 1)))


def make_evaluator(
    rules: Rules | Game,
    name: str,
    weights_file: pathlib.Path | None = None,
    seed: int = 0,
    features: str | None = None,
    scores: bool = False,
    dtype: str | None = None,
) -> Evaluator:
    """An evaluator by name, for a command; a network's weights are from a file or random.

    Args:
      rules: the rules of Go, or another `Game`.
      name: one of `NAMES`.
      weights_file: a network's weights; None: random weights.
      seed: the seed of random weights.
      features: the input features of a Go network with random weights; a weights file has its own.
      scores: whether a network returns scores, see `network_evaluator`.
      dtype: the type in which a network's trunk computes; None: that of the weights.

    Raises:
      ValueError: an unknown name; weights, features or a dtype without a network; bad weights;
        features other than those of the weights; `scores` of a network without a score head.
    """
    of_go = not isinstance(rules, Game)
    if name == "playout":
        if weights_file is not None:
            raise ValueError("weights: playouts use no weights; use --evaluator network")
        if features is not None:
            raise ValueError("features: playouts use no input features; use --evaluator network")
        if dtype is not None:
            raise ValueError("dtype: playouts use no network; use --evaluator network")
        return playout_evaluator(rules) if of_go else rollout_evaluator(rules)
    if name != "network":
        raise ValueError(f"evaluator: {name!r} is not one of {', '.join(NAMES)}")
    from gozero.play import networks  # imports flax, which playouts do not need

    return networks.of_file(rules, weights_file, seed, features, scores, dtype)
