"""Legality, result and evaluation of the positions that a search comes to."""

from __future__ import annotations

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from gozero.search import proofs
from gozero.search import tree as trees
from gozero.search.game import Evaluation, Heuristic, Trail


class Judged(NamedTuple):
    prior: jax.Array  # f32[B, A]: -inf where illegal
    value: jax.Array  # i32[B], fixed point: exact where the game is over
    over: jax.Array  # bool[B]
    ok: jax.Array  # bool[B]
    first_play: jax.Array | None  # bool[B, 2, A], see `Evaluation`
    heuristic: Heuristic | None
    proven: jax.Array  # i8[B]: what the game's end proves, see `proofs`


def judge(game, evaluate, params, key, contexts, positions, trail: Trail) -> Judged:
    """Legality, result and evaluation of B positions."""
    legal = jax.vmap(game.legal)(contexts, positions, trail)
    over, exact = jax.vmap(game.outcome)(contexts, positions)
    evaluation = evaluate(params, key, jax.vmap(game.observe)(contexts, positions, trail))
    return judged_as(legal, over, exact, evaluation)


def judged_as(legal, over, exact, evaluation: Evaluation) -> Judged:
    """What an evaluation of B positions comes to: legal bool[B, A], over bool[B], exact f32[B]."""
    chex.assert_shape(evaluation.prior_logits, legal.shape)
    chex.assert_shape(evaluation.value, over.shape)
    prior, value, ok = jax.vmap(checked)(legal, evaluation)
    value = trees.to_fixed(jnp.where(over, exact, value))
    ok = over | (ok & legal.any(axis=1))
    proven = proofs.of_result(over, exact)
    return Judged(prior, value, over, ok, evaluation.first_play, evaluation.heuristic, proven)


def checked(legal: jax.Array, evaluation: Evaluation) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(prior f32[A], value f32[], ok bool[]) of one position.

    The prior is the softmax over the legal actions. An evaluation that is not finite counts
    as uniform and even, so that one bad game does not spoil its neighbours.
    """
    logits, value = evaluation.prior_logits, evaluation.value
    ok = jnp.isfinite(value) & jnp.all(jnp.isfinite(logits) | ~legal)
    logits = jnp.where(ok, logits, 0.0).astype(jnp.float32)
    prior = jax.nn.softmax(jnp.where(legal, logits, -jnp.inf))
    return jnp.where(legal, prior, -jnp.inf), jnp.where(ok, value, 0.0), ok
