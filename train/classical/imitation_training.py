"""Local shapes that imitate a network, and the program of ``python -m train.classical.imitation``.

A network plays games against itself in lockstep. In each position s of them the weights w of the
local shapes descend by Adam, in all games together,

    loss = T D(p, softmax(l(s, .) / T)) + c H(v, logistic(l(s)))

where D is the Kullback-Leibler divergence and H the cross-entropy, p the network's policy, v its
value as Black's probability of winning, l(s, a) the logit of the value after move a for the player
to move, and l(s) that of s for Black. The policy ranks moves, which is what a heuristic is for; the
value fixes the scale. The policies are those of placements that fill no own eye and remove no
stones. The network's moves are drawn from its policy, and some at random; of games that it thinks
decided, a tenth ends at each step.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

from gozero.apps import flags, runtime
from gozero.go import bitboard as bb
from gozero.go import rules as go
from gozero.nets import weights as net_weights
from gozero.nets.features import feature_set
from gozero.nets.network import NetworkConfig
from gozero.play.networks import network_evaluator
from gozero.search.game import Evaluator, no_ancestors, where_games
from gozero.td import local_shape, td
from gozero.td import shapes as local
from gozero.td import weights as shape_weights
from gozero.td.shapes import Shapes
from train.classical import checkpoints, learning
from train.classical.imitation import PROG, ImitationFlags

STEPS_PER_CALL = 50
_LEAST_RATE_SHARE = 0.02
_DECIDED = 0.98  # the network's value beyond which a game is thought decided
_LEAVES_SHARE = 0.1  # of these games, the share that ends at each step
_NEVER = -1e9  # the logit of a move that is not allowed


class ImitationStats(NamedTuple):
    """Means over positions; one without moves that count adds 0 to the first and the last."""

    divergence: jax.Array  # f32[]: from the network's policy, in nats
    value_loss: jax.Array  # f32[]: in nats
    same_best: jax.Array  # f32[]: the share of positions with the network's best move


class ImitationState(NamedTuple):
    """Everything that the next step depends on, except the seed; and the latest statistics."""

    taken: jax.Array  # i32[]: steps taken
    games: go.GameState  # [B]
    weights: jax.Array  # f32[K + 1]
    optimizer: Any  # Adam's state
    stats: ImitationStats


class Targets(NamedTuple):
    """What the network says of B positions."""

    positions: go.Position  # [B]
    policy_logits: jax.Array  # f32[B, A]
    black_wins: jax.Array  # f32[B]: in [0, 1]


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit status: 0, 1 if something cannot be read or written, 2 for bad input, 130
    for Ctrl-C, 143 for SIGTERM."""
    options = flags.parse(ImitationFlags, argv, prog=PROG)
    with flags.exit_on_error(PROG):
        return run(options, [PROG, *(sys.argv[1:] if argv is None else argv)])


def run(options: ImitationFlags, command: list[str]) -> int:
    """Do what `main` does; the command is recorded in the weights.

    Raises:
      ValueError: a network or checkpoint that is damaged, or of other shapes or flags; a network
        of another game.
      OSError: something cannot be read or written.
    """
    config, params, about = net_weights.load(options.teacher)
    size = about.get("size")
    is_of_go = isinstance(config, NetworkConfig) and config.observation is None
    if not is_of_go or not isinstance(size, int):
        raise ValueError(
            f"--teacher {options.teacher} is not a Go network for one board size; expected a file "
            "made by `python -m train`"
        )
    sees_past = feature_set(config.features).past_boards
    rules = go.Rules(size=size, ko="simple", remember=bool(sees_past))
    evaluator = network_evaluator(rules, config, params)
    shapes = Shapes(size)
    made_with = f"{options.same}, teacher {about['sha256']}"
    with options.locked():
        state = begin(options, made_with, rules, shapes)
        with runtime.StopRequest() as stop:
            state = _learn(options, made_with, rules, shapes, evaluator, state, stop)
        checkpoints.save(options.checkpoint, made_with, state)
        shape_weights.save(
            options.out,
            shapes,
            np.asarray(state.weights),
            command=command,
            komi=options.komi,
            steps=int(state.taken),
            games_in_lockstep=options.games,
            seed=options.seed,
            teacher_sha256=about["sha256"],
            **{name: round(float(mean), 4) for name, mean in state.stats._asdict().items()},
        )
    print(f"{int(state.taken)} steps; weights in {options.out}")
    return stop.status if stop.requested else 0


def begin(
    options: ImitationFlags, made_with: str, rules: go.Rules, shapes: Shapes
) -> ImitationState:
    """The state to start from: the checkpoint's, if it was made with the same, or a new one.

    Raises:
      ValueError: --resume without a checkpoint, or with one made with other flags.
    """
    weights = jnp.zeros(local.sharing(shapes).num_weights + 1)
    optimizer = _optimizer(options).init(weights)
    stats = ImitationStats(jnp.float32(0), jnp.float32(0), jnp.float32(0))
    state = ImitationState(jnp.int32(0), _new_games(rules, options), weights, optimizer, stats)
    if options.resume:
        return checkpoints.load(options.checkpoint, made_with, state)
    return state


def _new_games(rules: go.Rules, options: ImitationFlags) -> go.GameState:
    """[B]: empty boards."""
    new = go.init(rules, options.komi)
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (options.games, *jnp.shape(x))), new)


def _optimizer(options: ImitationFlags) -> optax.GradientTransformation:
    return optax.adam(optax.cosine_decay_schedule(options.rate, options.steps, _LEAST_RATE_SHARE))


def _learn(
    options: ImitationFlags,
    made_with: str,
    rules: go.Rules,
    shapes: Shapes,
    evaluator: Evaluator,
    state: ImitationState,
    stop: runtime.StopRequest,
) -> ImitationState:
    step = make_run(options, rules, shapes, evaluator)
    key = jax.random.key(options.seed)

    def advance(state: ImitationState) -> tuple[ImitationState, dict[str, str]]:
        state = step(evaluator.params, state, key)
        return state, _numbers(state.stats)

    return learning.learn("imitation", options, made_with, state, advance, stop)


def _numbers(stats: ImitationStats) -> dict[str, str]:
    return {
        "divergence": f"{float(stats.divergence):.3f}",
        "value loss": f"{float(stats.value_loss):.3f}",
        "same best move": f"{float(stats.same_best):.1%}",
    }


def make_run(
    options: ImitationFlags, rules: go.Rules, shapes: Shapes, evaluator: Evaluator
) -> Callable[[Any, ImitationState, jax.Array], ImitationState]:
    """(the network's params, state, key) -> state, jitted: takes some steps, up to the options'
    number in all; its stats are the means of these."""
    sharing = jnp.asarray(local.sharing(shapes).weight_index)
    optimizer, fresh = _optimizer(options), _new_games(rules, options)
    observe = evaluator.observe
    assert observe is not None  # evaluators of Go have their own

    def observe_root(state: go.GameState) -> Any:
        return observe(state, state.position, no_ancestors(state.position))

    def one(params: Any, sharing: jax.Array, key: jax.Array, state: ImitationState):
        key = jax.random.fold_in(key, state.taken)
        targets, value = _targets_of(evaluator, params, key, state.games, observe_root)
        gradient, stats = jax.grad(functools.partial(loss, rules, shapes, options), has_aux=True)(
            state.weights, sharing, targets
        )
        change, adam = optimizer.update(gradient, state.optimizer)
        weights = jnp.asarray(optax.apply_updates(state.weights, change)).at[0].set(0.0)
        games = _advance(options, rules, key, state.games, targets.policy_logits)
        games = _restart(key, games, fresh, value)
        return ImitationState(state.taken + 1, games, weights, adam, stats)

    def run(params: Any, sharing: jax.Array, state: ImitationState, key: jax.Array):
        if evaluator.prepare is not None:
            params = evaluator.prepare(params)

        def step(state: ImitationState, _):
            new = one(params, sharing, key, state)
            is_due = state.taken < options.steps
            kept = jax.tree.map(lambda a, b: jnp.where(is_due, a, b), new, state)
            return kept, (new.stats, is_due.astype(jnp.float32))

        state, (stats, due) = lax.scan(step, state, length=STEPS_PER_CALL)
        means = jax.tree.map(lambda x: jnp.sum(x * due) / jnp.sum(due), stats)
        return state._replace(stats=means)

    jitted = jax.jit(run)
    return lambda params, state, key: jitted(params, sharing, state, key)


def loss(
    rules: go.Rules,
    shapes: Shapes,
    options: ImitationFlags,
    weights: jax.Array,
    sharing: jax.Array,
    targets: Targets,
) -> tuple[jax.Array, ImitationStats]:
    """(f32[], its parts): the mean loss of B positions, see this file's docstring.

    Args:
      rules: the rules.
      shapes: the features, for the rules' board size.
      options: the temperature T and the value's weight c.
      weights: f32[K + 1].
      sharing: i32[S, E], from `shapes.Sharing`.
      targets: of B positions.
    """
    positions, lay, temperature = targets.positions, rules.layout, options.temperature
    table = local.expand(sharing, weights)
    logits = local_shape.placement_logits(rules, shapes, table, positions)
    removes = jax.vmap(functools.partial(bb.unpack, lay))(
        local_shape.removing_points(rules, positions)
    )
    allowed = td.candidates(rules, positions)[:, :-1] & ~removes
    sign = jnp.where(positions.to_play == go.WHITE, -1.0, 1.0)[:, None]
    own = jnp.where(allowed, sign * logits[:, :-1] / temperature, _NEVER)
    target = jnp.where(allowed, targets.policy_logits[:, :-1], _NEVER)
    counts = jnp.any(allowed, axis=1).astype(jnp.float32)
    gap = jnp.where(allowed, jax.nn.log_softmax(target) - jax.nn.log_softmax(own), 0.0)
    divergence = jnp.sum(jax.nn.softmax(target) * gap, axis=1) * counts
    value_loss = optax.sigmoid_binary_cross_entropy(logits[:, -1], targets.black_wins)
    same = (jnp.argmax(own, axis=1) == jnp.argmax(target, axis=1)) * counts
    stats = ImitationStats(jnp.mean(divergence), jnp.mean(value_loss), jnp.mean(same))
    return temperature * stats.divergence + options.value_weight * stats.value_loss, stats


def _targets_of(
    evaluator: Evaluator, params, key, games: go.GameState, observe
) -> tuple[Targets, Any]:
    """(the targets, the value f32[B] for the player to move in [-1, 1])."""
    evaluation = evaluator.evaluate(params, key, jax.vmap(observe)(games))
    value = evaluation.value
    black = jnp.where(games.position.to_play == go.WHITE, -value, value)
    return Targets(games.position, evaluation.prior_logits, (1.0 + black) / 2), value


def _advance(options: ImitationFlags, rules: go.Rules, key, games, policy_logits) -> go.GameState:
    """The games after a move each: drawn from the policy, or at random from those that fill no own
    eye."""
    draw_policy, draw_random, which = jax.random.split(jax.random.fold_in(key, 1), 3)
    legal = jax.vmap(functools.partial(go.legal_actions, rules))(games)
    policy = jax.random.categorical(draw_policy, jnp.where(legal, policy_logits, _NEVER))
    anywhere = jnp.where(td.candidates(rules, games.position), 0.0, _NEVER)
    uniform = jax.random.categorical(draw_random, anywhere)
    explores = jax.random.uniform(which, policy.shape) < options.epsilon
    actions = jnp.where(explores, uniform, policy)
    return jax.vmap(functools.partial(go.play, rules))(games, actions)


def _restart(key, games: go.GameState, fresh: go.GameState, value: jax.Array) -> go.GameState:
    """The games, with those that are over, and a tenth of those that are decided, begun anew."""
    decided = jnp.abs(value) > _DECIDED
    leaves = jax.random.uniform(jax.random.fold_in(key, 2), value.shape) < _LEAVES_SHARE
    over = games.ended | (decided & leaves)
    return where_games(over, fresh, games)
