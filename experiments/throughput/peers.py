"""The peers, from the ``bench`` extra: pgx's Go, and mctx's search on it."""

from __future__ import annotations

import functools
import importlib.util
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments.throughput.judges import hash_judgement, mix


def installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


@functools.cache
def pgx_go(size: int) -> Any:
    from pgx.go import Go

    return Go(size=size)


def pgx_start(size: int, batch: int) -> Any:
    return jax.vmap(pgx_go(size).init)(jax.random.split(jax.random.key(0), batch))


def pgx_replay(size: int):
    """jitted (states, actions [T, B]) -> a number that needs every mask."""
    step = jax.vmap(pgx_go(size).step)

    def run(states, actions):
        def body(carry, row):
            states, total = carry
            states = step(states, row)
            return (states, total + states.legal_action_mask.sum() + states.terminated.sum()), None

        return jax.lax.scan(body, (states, jnp.int32(0)), actions)[0][1]

    return jax.jit(run)


def mctx_search(size: int, num_simulations: int, max_depth: int):
    """jitted (pgx states, key) -> visits [B, N, A]: mctx's MuZero policy, stub evaluator."""
    import mctx

    env = pgx_go(size)
    step = jax.vmap(env.step)
    code = jnp.asarray(np.random.RandomState(0).randint(1, 2**31, size * size), jnp.uint32)

    def judge(states):
        board = (jnp.sign(states._x.board).astype(jnp.int32) + 1).astype(jnp.uint32)
        seen = mix((board * code[None, :]).sum(axis=1, dtype=jnp.uint32))
        logits, value = hash_judgement(seen, size * size + 1)
        lowest = jnp.finfo(logits.dtype).min
        return jnp.where(states.legal_action_mask, logits, lowest), value

    def recurrent(params, key, action, states):
        del params, key
        mover = states.current_player
        states = step(states, action)
        logits, value = judge(states)
        over = states.terminated
        reward = states.rewards[jnp.arange(mover.shape[0]), mover]
        output = mctx.RecurrentFnOutput(
            reward=reward,
            discount=jnp.where(over, 0.0, -1.0),
            prior_logits=logits,
            value=jnp.where(over, 0.0, value),
        )
        return output, states

    def run(states, key):
        logits, value = judge(states)
        root = mctx.RootFnOutput(prior_logits=logits, value=value, embedding=states)
        policy = mctx.muzero_policy(
            None, key, root, recurrent, num_simulations, max_depth=max_depth, dirichlet_fraction=0.0
        )
        return policy.search_tree.children_visits

    return jax.jit(run)


def mean_depth(visits: jax.Array) -> float:
    """Edges passed a simulation, from the visits of every edge [B, N, A]."""
    return float(visits.sum() / visits[:, 0].sum())
