# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Learning from zero
#
# [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/gozero/gozero/blob/main/notebooks/learn_from_zero.ipynb)
#
# A network with random weights plays against itself, learns from the games, and then plays better.
# This is AlphaZero's loop, written here in about seventy lines, for Go on 5x5 and for Connect Four:
# the loop does not depend on the game. One thing differs: the search is that of *Gumbel AlphaZero*
# (Danihelka et al., 2022), whose policy is worth learning from even after 16 simulations. It takes
# three to five minutes on two CPU cores.

# %%
import importlib.util
import pathlib
import subprocess
import sys

if importlib.util.find_spec("gozero") is None:  # neither installed nor started from a checkout
    in_checkout = pathlib.Path("..", "pyproject.toml").exists()
    source = ".." if in_checkout else "git+https://github.com/gozero/gozero"
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", source], check=True)

# %%
import os
import time
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

import gozero
from gozero.apps.pictures import board_svg
from gozero.apps.review.report import curve
from gozero.nets import network
from gozero.play import arena
from gozero.play.player import random_player, search_player
from gozero.play.searches import gumbel_search, to_win

# %% [markdown]
# Settings. Change them here, or through environment variables of these names.

# %%
ITERATIONS = int(os.environ.get("GOZERO_ITERATIONS", "40"))
GAMES = int(os.environ.get("GOZERO_GAMES", "64"))
SIMULATIONS = int(os.environ.get("GOZERO_SIMULATIONS", "16"))
SEED = int(os.environ.get("GOZERO_SEED", "0"))

# %% [markdown]
# ## The loop
#
# **Play.** `lax.scan` plays `moves` moves in all games, each by a search guided by the current
# network. It keeps the network's inputs, the search's policies, and who won. When a game is over,
# a new one starts in its place.


# %%
class Row(NamedTuple):
    seen: jax.Array  # [T, B, ...] the network's inputs
    policy: jax.Array  # [T, B, A] the search's policy
    over: jax.Array  # [T, B] whether the game was over after this move
    result: jax.Array  # [T, B] if so: +1 if the player of this move won, -1 if it lost
    value: jax.Array  # [T, B] the target: the result for the player of this move


def make_play(game, evaluator, see, moves):
    search_config = gumbel_search(SIMULATIONS)

    def move(carry, key):
        params, states = carry
        search_key, new_key = jax.random.split(key)
        own = evaluator._replace(params=params)
        found = gozero.search(game, own, search_key, states, search_config)
        after = jax.vmap(game.play)(states, found.action)
        over, value = jax.vmap(game.outcome)(after)  # for the player to move next
        fresh = jax.vmap(game.init)(jax.random.split(new_key, GAMES))
        again = jax.tree.map(lambda new, old: jax.vmap(jnp.where)(over, new, old), fresh, after)
        seen = jax.vmap(see)(states)
        return (params, again), Row(seen, found.policy_target, over, -value, -value)

    @jax.jit
    def play(params, states, key):
        (_, states), rows = jax.lax.scan(move, (params, states), jax.random.split(key, moves))
        return states, rows

    return play


# %% [markdown]
# **Say who won.** The result is known at a game's end. A backward pass through the moves carries it
# to the earlier ones; players alternate, so the sign flips at every step. Moves of games that have
# not ended are left out.


# %%
def with_results(rows):
    def back(later, row):
        value, known = later
        value = jnp.where(row.over, row.result, -value)
        known = known | row.over
        return (value, known), (value, known)

    none = jnp.zeros(GAMES), jnp.zeros(GAMES, bool)
    _, (value, known) = jax.lax.scan(back, none, rows, reverse=True)
    return rows._replace(value=value), known


# %% [markdown]
# **Learn.** The loss is the policy's cross-entropy plus the value's squared error. Batches are
# drawn at random from the rows of the last few iterations.


# %%
def make_learn(net, optimizer):
    def loss(params, seen, policy, value):
        said = network.apply(net, params, seen)
        cross = -(policy * jax.nn.log_softmax(said.policy_logits)).sum(-1).mean()
        return cross + jnp.square(said.value - value).mean(), cross

    @jax.jit
    def step(params, state, seen, policy, value):
        gradients, cross = jax.grad(loss, has_aux=True)(params, seen, policy, value)
        updates, state = optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), state, cross

    return step


def flat(rows, known):
    """The rows of finished games, [N, ...], on the host."""
    take = lambda x: np.asarray(x).reshape(-1, *x.shape[2:])[np.asarray(known).ravel()]
    return jax.tree.map(take, (rows.seen, rows.policy, rows.value))


def learn(game, evaluator, net, see, moves, iterations=ITERATIONS, keep=8, batch=256):
    """The final parameters, and the policy loss after each iteration that had enough rows."""
    optimizer = optax.adamw(3e-3, weight_decay=1e-4)
    play, step = make_play(game, evaluator, see, moves), make_learn(net, optimizer)
    params, key = evaluator.params, jax.random.key(SEED)
    state, random = optimizer.init(params), np.random.default_rng(SEED)
    states = jax.vmap(game.init)(jax.random.split(key, GAMES))
    replay, losses, started = [], [], time.perf_counter()
    for i in range(iterations):
        key, own = jax.random.split(key)
        states, rows = play(params, states, own)
        replay = [*replay, flat(*with_results(rows))][-keep:]
        seen, policy, value = jax.tree.map(lambda *parts: np.concatenate(parts), *replay)
        if len(value) < batch:
            continue  # no game has ended yet
        for _ in range(len(replay[-1][-1]) // batch + 1):
            some = random.integers(len(value), size=batch)
            pick = jax.tree.map(lambda x, some=some: x[some], (seen, policy, value))
            params, state, loss = step(params, state, *pick)
        losses.append(float(loss))
        if i == 0 or (i + 1) % 10 == 0:
            spent = time.perf_counter() - started
            print(f"iteration {i + 1:3}: policy loss {losses[-1]:.3f}, {spent:4.0f} s")
    return params, losses


# %% [markdown]
# ## Go on 5x5
#
# This game is solved: Black opens in the centre and owns the whole board, 25 points, so it wins
# even with a komi of 24. The network knows nothing of this.

# %%
rules = gozero.Rules(size=5, ko="simple", max_moves=50)
go = gozero.go_game(rules)
go = go._replace(init=lambda key: gozero.init(rules, komi=7.0))
untrained = gozero.network_evaluator(rules, network.NetworkConfig(blocks=2, channels=24))
net = network.NetworkConfig(blocks=2, channels=24)
see = lambda state: untrained.observe(state, state.position, None)
params, losses = learn(go, untrained, net, see, moves=48)
trained = untrained._replace(params=params)

# %% [markdown]
# The loss falls: the network gets closer to the search's policy, while that policy itself gets
# sharper.

# %%
curve(losses or [0.0, 0.0], 0.0, 3.5, "Policy loss, by iteration")

# %% [markdown]
# What does the network think of the empty board? First before training, then after.

# %%
empty = gozero.init(rules, komi=7.0)


def opinion(params, title):
    said = network.apply(net, params, jax.tree.map(lambda x: x[None], see(empty)))
    policy = jax.nn.softmax(said.policy_logits[0])
    title = f"{title}: value {float(said.value[0]):+.2f}"
    return board_svg(gozero.stones(rules, empty), policy=policy, title=title)


opinion(untrained.params, "Before")

# %%
opinion(params, "After")

# %% [markdown]
# Is it stronger? It plays a match against the untrained network, with the same search on both
# sides. Each pair of games begins with the same two random moves, with colours swapped.

# %%
match_search = to_win(gumbel_search(SIMULATIONS))
player = lambda evaluator: search_player(rules, evaluator, match_search)
match = arena.play_match(
    rules, player(trained), player(untrained), jax.random.key(1), num_games=GAMES // 2 * 2
)
print(match.summary())
match

# %% [markdown]
# ## Connect Four
#
# Another game, the same loop. Only the game changes, and the network, which is built for the game's
# observations.

# %%
four = gozero.connect_four_game()
shape = network.of_game(four, blocks=2, channels=24)
beginner = gozero.network_evaluator(four, shape)
params, losses = learn(four, beginner, shape, four.observe, moves=42)
learner = beginner._replace(params=params)

# %%
player = search_player(four, learner, match_search)
match = arena.play_match(
    four, player, random_player(four), jax.random.key(2), num_games=GAMES // 2 * 2
)
print("against random moves:", match.summary())
start = four.init(jax.random.key(0))
said = network.apply(shape, params, four.observe(start)[None])
print("first move, by column:", np.round(np.asarray(jax.nn.softmax(said.policy_logits[0])), 2))

# %% [markdown]
# The centre column is the best first move of Connect Four, and the only one that wins.
#
# From here on it is a matter of time and care. `python -m train --preset 5x5` (from a checkout) is
# the same loop with everything that a long run needs: a replay buffer on the device, checkpoints,
# random openings, resignation, symmetries, evaluations, several devices. `experiments/solved_5x5`
# and `experiments/zero_strength` report how far that got.
