"""The loss of one row, part by part. The caller vmaps.

A row's loss is the sum over its parts k of ``c_k w_k l_k``: the weight of the part
(`LossWeights`), the weight of the row in it (`Targets`), and the part's loss.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import optax

from gozero import struct
from gozero.nets.network import NetworkOutput
from gozero.runs import settings
from gozero.runs.settings import setting


@dataclasses.dataclass(frozen=True)
class LossWeights:
    """The weight of each part of the loss.

    Policy and value have equal weights, as in AlphaGo Zero (Silver et al. 2017, Eq. 1); ownership
    has that of Wu (2019), section 4.1; the score's mean has the weight that KataGo has used since.

    Raises:
      ValueError: naming the field, what it was and what is allowed.
    """

    policy: float = setting(1.0, least=0)
    """The weight of the policy's cross-entropy, in nats."""

    value: float = setting(1.0, least=0)
    """The weight of the value's squared error, relative to the policy's 1."""

    ownership: float = setting(1.5, least=0)
    """The weight of the ownership's cross-entropy per point, in nats."""

    score: float = setting(0.0015, least=0)
    """The weight of the Huber loss of the score, in points."""

    score_delta: float = setting(10.0, above=0)
    """The error in points beyond which the Huber loss grows linearly."""

    def __post_init__(self):
        settings.check(self)


class Losses(NamedTuple):
    """The parts of the loss, or one number for each of them."""

    policy: jax.Array  # f32[]
    value: jax.Array  # f32[]
    ownership: jax.Array  # f32[]
    score: jax.Array  # f32[]


class Targets(struct.PyTreeNode):
    """What a network should have predicted for one row, for its player to move.

    A weight is the weight of the row in a part of the loss: 0 for the policy where the position was
    hardly searched, and for the others where the game had no true end. Where a weight is 0 the
    target may have any value, even nan; where the policy's weight is 0, so may `legal`. None means
    an unknown target, a weight of 1, or an ownership known everywhere.
    """

    legal: jax.Array  # bool[A]
    policy_target: jax.Array  # f32[A]; sums to 1, and is 0 where illegal
    outcome: jax.Array  # f32[] in [-1, 1]: +1 won, -1 lost, 0 drawn
    ownership: jax.Array | None = None  # [size^2] in [-1, 1]: +1 the mover's, -1 the opponent's
    score: jax.Array | None = None  # f32[]: the final area score, in points, with komi
    policy_weight: jax.Array | None = None  # f32[] >= 0
    value_weight: jax.Array | None = None  # f32[] >= 0
    ownership_weight: jax.Array | None = None  # f32[] >= 0
    score_weight: jax.Array | None = None  # f32[] >= 0
    known: jax.Array | None = None  # bool[size^2]: the points whose ownership counts
    weight: jax.Array | None = None  # f32[] >= 0: of the row, times each of the others


def policy_cross_entropy(logits: jax.Array, legal: jax.Array, target: jax.Array) -> jax.Array:
    """-sum_a pi(a) log p(a), with p the softmax over the legal actions, as in the search.

    It is never below the target's own entropy.

    Args:
      logits: f32[A].
      legal: bool[A].
      target: pi, f32[A]; sums to 1, and is 0 where illegal.

    Returns:
      f32[], in nats.
    """
    chex.assert_equal_shape([logits, legal, target])
    log_p = jax.nn.log_softmax(jnp.where(legal, logits, -jnp.inf))
    # 0 log 0 is 0: illegal actions are masked, so that values and gradients stay finite.
    return -jnp.sum(target * jnp.where(legal, log_p, 0.0))


def entropy(target: jax.Array) -> jax.Array:
    """-sum_a pi(a) log pi(a), f32[] in nats: the least cross-entropy that a policy can have."""
    return -jnp.sum(jax.scipy.special.xlogy(target, target))


def value_squared_error(value: jax.Array, outcome: jax.Array) -> jax.Array:
    """(z - v)^2, f32[]; both in [-1, 1] and for the player to move."""
    chex.assert_shape([value, outcome], ())
    return jnp.square(outcome - value)


def ownership_cross_entropy(logits: jax.Array, target: jax.Array, known: jax.Array) -> jax.Array:
    """The cross-entropy of the final owner of a point, averaged over the points that are known.

    With o the target and x the logit, whose tanh is the ownership, the mover owns the point with
    probability (1 + tanh x) / 2 = sigma(2x), and the cross-entropy is

        -(1 + o)/2 log sigma(2x) - (1 - o)/2 log sigma(-2x)

    It is at least log 2 where nobody owns the point, o = 0. Wu (2019), section 4.1.

    Args:
      logits: f32[size^2].
      target: [size^2] in [-1, 1]; ignored where it is not known.
      known: bool[size^2].

    Returns:
      f32[], in nats; 0 where no point is known.
    """
    chex.assert_equal_shape([logits, target, known])
    owned = jnp.where(known, (1 + target.astype(jnp.float32)) / 2, 0.0)
    points = optax.losses.sigmoid_binary_cross_entropy(2 * logits, owned)
    return jnp.sum(points, where=known) / jnp.maximum(1, known.sum())


def score_huber(score: jax.Array, target: jax.Array, delta: float) -> jax.Array:
    """The Huber loss of the error e in points, f32[]: e^2 / 2 up to delta, and beyond it
    delta (|e| - delta / 2)."""
    chex.assert_shape([score, target], ())
    return optax.losses.huber_loss(score, target, delta=delta)


def of_row(output: NetworkOutput, targets: Targets, score_delta: float) -> tuple[Losses, Losses]:
    """Each part of one row's loss, and the row's weight in it.

    A part that the network or the row does not have is 0, with a weight of 0.

    Args:
      output: of one row, without the leading axis.
      targets: of that row.
      score_delta: see `LossWeights`.

    Returns:
      (l, w), each of f32[].
    """
    policy, policy_weight = _masked_target(targets, targets.policy_target, targets.policy_weight)
    outcome, value_weight = _masked_target(targets, targets.outcome, targets.value_weight)
    legal = targets.legal | (policy_weight == 0)
    parts: dict[str, jax.Array] = {
        "policy": policy_cross_entropy(output.policy_logits, legal, policy),
        "value": value_squared_error(output.value, outcome),
    }
    weights: dict[str, jax.Array] = {"policy": policy_weight, "value": value_weight}
    if output.ownership_logits is not None and targets.ownership is not None:
        known = jnp.ones(targets.ownership.shape, bool) if targets.known is None else targets.known
        owner, weight = _masked_target(targets, targets.ownership, targets.ownership_weight)
        parts["ownership"] = ownership_cross_entropy(output.ownership_logits, owner, known)
        weights["ownership"] = weight * known.any()
    if output.score is not None and targets.score is not None:
        score, weights["score"] = _masked_target(targets, targets.score, targets.score_weight)
        parts["score"] = score_huber(output.score, score, score_delta)
    zeros = dict.fromkeys(Losses._fields, jnp.zeros(()))
    return Losses(**{**zeros, **parts}), Losses(**{**zeros, **weights})


def target_entropy(targets: Targets) -> tuple[jax.Array, jax.Array]:
    """The entropy of a row's policy target, and the row's weight; f32[] each."""
    policy, weight = _masked_target(targets, targets.policy_target, targets.policy_weight)
    return entropy(policy), weight


def _masked_target(
    targets: Targets, target: jax.Array, of_part: jax.Array | None
) -> tuple[jax.Array, jax.Array]:
    """(the target, or 0 where its weight is 0, because nan times 0 is nan; the weight)."""
    weight = jnp.ones(())
    for factor in (targets.weight, of_part):
        weight = weight if factor is None else weight * factor.astype(jnp.float32)
    return jnp.where(weight == 0, jnp.zeros_like(target), target), weight


def total(weights: LossWeights, parts: Losses, counts: Losses) -> jax.Array:
    """``sum_k c_k w_k l_k``, f32[]."""
    part_weights = (getattr(weights, name) for name in Losses._fields)
    weighted = [c * w * x for c, w, x in zip(part_weights, counts, parts, strict=True)]
    return jnp.stack(weighted).sum()
