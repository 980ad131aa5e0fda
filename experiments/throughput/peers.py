"""The peers, from the ``bench`` extra: pgx's Go, mctx's search on it, and self-play with both."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments.throughput.stub_evaluator import hashed_evaluation, mix


def installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


@functools.cache
def pgx_go(size: int) -> Any:
    from pgx.go import Go

    return Go(size=size)


def _mctx() -> Any:
    """The module, untyped: type checkers do not see the fields of chex's dataclasses."""
    import mctx

    return mctx


def pgx_start(size: int, batch: int) -> Any:
    return jax.vmap(pgx_go(size).init)(jax.random.split(jax.random.key(0), batch))


def pgx_replay(size: int):
    """jitted (states, actions [T, B]) -> a sum over all legal-action masks."""
    step = jax.vmap(pgx_go(size).step)

    def run(states, actions):
        def body(carry, row):
            states, total = carry
            states = step(states, row)
            return (states, total + states.legal_action_mask.sum() + states.terminated.sum()), None

        return jax.lax.scan(body, (states, jnp.int32(0)), actions)[0][1]

    return jax.jit(run)


def mctx_search(size: int, num_simulations: int, max_depth: int, spread: float):
    """jitted (pgx states, key) -> visits [B, N, A]: mctx's MuZero policy, stub evaluator.

    Args:
      size: the board's size.
      num_simulations, max_depth: the search's limits.
      spread: the standard deviation of the logits; see `stub_evaluator`.
    """
    mctx = _mctx()
    env = pgx_go(size)
    step = jax.vmap(env.step)
    code = jnp.asarray(np.random.RandomState(0).randint(1, 2**31, size * size), jnp.uint32)

    def evaluate(states):
        board = (jnp.sign(states._x.board).astype(jnp.int32) + 1).astype(jnp.uint32)
        code_sum = mix((board * code[None, :]).sum(axis=1, dtype=jnp.uint32))
        logits, value = hashed_evaluation(code_sum, size * size + 1, spread)
        lowest = jnp.finfo(logits.dtype).min
        return jnp.where(states.legal_action_mask, logits, lowest), value

    def recurrent(params, key, action, states):
        del params, key
        mover = states.current_player
        states = step(states, action)
        logits, value = evaluate(states)
        ended = states.terminated
        reward = states.rewards[jnp.arange(mover.shape[0]), mover]
        output = mctx.RecurrentFnOutput(
            reward=reward,
            discount=jnp.where(ended, 0.0, -1.0),
            prior_logits=logits,
            value=jnp.where(ended, 0.0, value),
        )
        return output, states

    def run(states, key):
        logits, value = evaluate(states)
        root = mctx.RootFnOutput(prior_logits=logits, value=value, embedding=states)
        policy = mctx.muzero_policy(
            None, key, root, recurrent, num_simulations, max_depth=max_depth, dirichlet_fraction=0.0
        )
        return policy.search_tree.children_visits

    return jax.jit(run)


def pgx_selfplay(size: int, evaluate: Callable, num_simulations: int, num_moves: int):
    """jitted (params, pgx states, key) -> (states, rows [T, B]): pgx's AlphaZero recipe.

    mctx's Gumbel search on pgx's Go; a new game starts when one ends. pgx's `auto_reset` marks the
    fresh state as ended, so that a game's first move is lost; here the fresh state is kept as it
    is.

    Args:
      size: the board's size.
      evaluate: (params, observations [B, size, size, 17]) -> (policy logits, values).
      num_simulations: simulations per move.
      num_moves: T.
    """
    mctx = _mctx()
    env = pgx_go(size)
    step, init = jax.vmap(env.step), jax.vmap(env.init)

    def evaluate_states(params, states):
        logits, value = evaluate(params, states.observation.astype(jnp.float32))
        logits = logits - jnp.max(logits, axis=-1, keepdims=True)
        lowest = jnp.finfo(logits.dtype).min
        return jnp.where(states.legal_action_mask, logits, lowest), value

    def recurrent(params, key, action, states):
        del key
        mover = states.current_player
        states = step(states, action)
        logits, value = evaluate_states(params, states)
        ended = states.terminated
        output = mctx.RecurrentFnOutput(
            reward=states.rewards[jnp.arange(mover.shape[0]), mover],
            discount=jnp.where(ended, 0.0, -1.0),
            prior_logits=logits,
            value=jnp.where(ended, 0.0, value),
        )
        return output, states

    def one_move(params, states, key):
        search_key, fresh_key = jax.random.split(key)
        logits, value = evaluate_states(params, states)
        policy = mctx.gumbel_muzero_policy(
            params,
            search_key,
            mctx.RootFnOutput(prior_logits=logits, value=value, embedding=states),
            recurrent,
            num_simulations,
            invalid_actions=~states.legal_action_mask,
            qtransform=mctx.qtransform_completed_by_mix_value,
            gumbel_scale=1.0,
        )
        mover = states.current_player
        after = step(states, policy.action)
        ended = after.terminated | after.truncated
        row = (
            states.observation,
            policy.action_weights,
            after.rewards[jnp.arange(mover.shape[0]), mover],
            ended,
        )
        fresh = init(jax.random.split(fresh_key, ended.shape[0]))
        choose = lambda new, old: jnp.where(ended.reshape(-1, *[1] * (new.ndim - 1)), new, old)
        return jax.tree.map(choose, fresh, after), row

    def run(params, states, key):
        keys = jax.random.split(key, num_moves)
        return jax.lax.scan(lambda states, key: one_move(params, states, key), states, keys)

    return jax.jit(run)


def mean_depth(visits: jax.Array) -> float:
    """The mean number of edges per simulation, from the visits of all edges [B, N, A]."""
    return float(visits.sum() / visits[:, 0].sum())
