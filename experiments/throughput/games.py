"""Random games, recorded and replayed, for timing the rules and as roots of searches."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gozero.go import bitboard as bb
from gozero.go import rules as go
from gozero.playouts import playable


def start(rules: go.Rules, batch: int) -> go.GameState:
    return jax.vmap(lambda _: go.init(rules))(jnp.arange(batch))


def record_games(rules: go.Rules, batch: int, seed: int) -> jax.Array:
    """i32[T, B]: the moves of whole random games that fill no eyes, until all have ended."""

    def move(states, key):
        def choose(state, key):
            own, opponent = go.own_and_opponent(state.position)
            eyes = bb.unpack(rules.layout, playable.eyes(rules.layout, own, opponent))
            free = go.legal_actions(rules, state)[:-1] & ~eyes
            logits = jnp.where(free, 0.0, -jnp.inf)
            return jnp.where(free.any(), jax.random.categorical(key, logits), rules.pass_action)

        actions = jax.vmap(choose)(states, jax.random.split(key, batch)).astype(jnp.int32)
        states = jax.vmap(lambda s, a: go.play(rules, s, a))(states, actions)
        return states, (actions, states.ended.all())

    keys = jax.random.split(jax.random.key(seed), rules.move_limit)
    _, (actions, ended) = jax.jit(lambda s: lax.scan(move, s, keys))(start(rules, batch))
    length = int(np.argmax(np.asarray(ended))) + 1 if bool(ended.any()) else rules.move_limit
    return actions[:length]


def lengths(rules: go.Rules, actions: jax.Array) -> np.ndarray:
    """i32[B]: the length of each recorded game i32[T, B], including the ply that ends it."""

    def move(states, row):
        states = jax.vmap(lambda s, a: go.play(rules, s, a))(states, row)
        return states, ~states.ended

    batch = actions.shape[1]
    is_open = jax.jit(lambda s, a: lax.scan(move, s, a)[1])(start(rules, batch), actions)
    return np.asarray(is_open.sum(axis=0) + 1)


def step(rules: go.Rules, state: go.GameState, action: jax.Array):
    """One move of one game, and the legal actions after it, as in an environment's step."""
    state = go.play(rules, state, action)
    return state, go.legal_actions(rules, state)


def replay(rules: go.Rules):
    """jitted (states, actions [T, B]) -> (states, a sum over all masks); donates the states."""

    def counted(state, action):
        state, legal = step(rules, state, action)
        return state, legal.sum() + state.ended

    def run(states, actions):
        def body(carry, row):
            states, total = carry
            states, counts = jax.vmap(counted)(states, row)
            return (states, total + counts.sum()), None

        return lax.scan(body, (states, jnp.int32(0)), actions)[0]

    return jax.jit(run, donate_argnums=0)
