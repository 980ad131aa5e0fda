# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # A thousand boards, and a first search
#
# [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/gozero/gozero/blob/main/notebooks/first_search.ipynb)
#
# `gozero` plays Go in batches: the rules and the tree search are JAX functions, and one call
# plays a thousand games. This notebook plays a thousand random games, then searches three
# positions at once and draws where the search looked.
#
# Run the cells from top to bottom. The first call of each function compiles it, which takes
# some seconds; after that it is fast. No GPU is needed.

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

import jax
import jax.numpy as jnp
import numpy as np

import gozero
from gozero.apps.pictures import board_svg
from gozero.go import coords

# %% [markdown]
# Settings. Change them here, or through environment variables of these names.

# %%
BOARDS = int(os.environ.get("GOZERO_BOARDS", "1000"))
MOVES = int(os.environ.get("GOZERO_MOVES", "60"))
SIMULATIONS = int(os.environ.get("GOZERO_SIMULATIONS", "4000"))
SEED = int(os.environ.get("GOZERO_SEED", "0"))

rules = gozero.Rules(size=9, ko="positional")
key = jax.random.key(SEED)
print(f"gozero {gozero.__version__} on {jax.devices()[0].device_kind}")

# %% [markdown]
# ## A thousand boards
#
# Go in brief: Black and White take turns to put a stone on an empty point. Connected stones of one
# colour are captured together, and taken off the board, when their last *liberty*, an empty point
# next to them, is filled. No move may repeat an earlier position of the board (*superko*). After
# two passes in a row the larger area wins: stones, and empty points that only they surround. White
# adds *komi*, some points for moving second.
#
# `gozero.init`, `legal_actions` and `play` work on one game. `jax.vmap` applies them to a
# batch, and `jax.jit` compiles the whole loop into one program. Actions number the points row
# by row from the top left; the last action, `rules.pass_action`, is the pass. Here a player
# passes only when no point is legal.


# %%
def random_action(state, key):
    legal = gozero.legal_actions(rules, state)
    points = legal.at[rules.pass_action].set(False)
    allowed = jnp.where(points.any(), points, legal)
    return jax.random.categorical(key, jnp.where(allowed, 0.0, -jnp.inf))


def random_game(key):
    def move(state, key):
        return gozero.play(rules, state, random_action(state, key)), None

    start = gozero.init(rules, komi=7.0)
    return jax.lax.scan(move, start, jax.random.split(key, MOVES))[0]


play_many = jax.jit(jax.vmap(random_game)).lower(jax.random.split(key, BOARDS)).compile()
started = time.perf_counter()
states = jax.block_until_ready(play_many(jax.random.split(key, BOARDS)))
seconds = time.perf_counter() - started
print(
    f"{BOARDS} games of {MOVES} moves in {seconds:.2f} s: {BOARDS * MOVES / seconds:,.0f} moves/s"
)

# %% [markdown]
# `states` holds all the games: the same structure as one game, with a leading axis. Here are the
# first board and the mean score (area scoring: Black's area minus White's, minus komi).

# %%
stones = jax.vmap(lambda state: gozero.stones(rules, state))(states)
scores = np.asarray(jax.vmap(lambda state: gozero.area_score(rules, state))(states))
print(f"Black is ahead on {np.mean(scores > 0):.0%} of the boards; mean score {scores.mean():+.1f}")
board_svg(stones[0], title=f"Board 0 after {MOVES} random moves")

# %% [markdown]
# ## Three positions, one search
#
# The first is the empty board. The others are a fight: five white stones in the middle have one
# liberty left, at H5. In one position Black is to move and can capture them there; in the other
# White is to move and can connect them to two stones on the right.

# %%
FIGHT = "C6 C5 D6 D5 E6 E5 F6 F5 G6 G5 C4 C7 D4 H6 E4 D3 F4 H4 G4 E7 B5"
play_one = jax.jit(lambda state, action: gozero.play(rules, state, action))


def after(moves):
    state = gozero.init(rules, komi=7.0)
    for vertex in moves.split():
        state = play_one(state, coords.from_gtp(9, vertex))
    return state


names = ["The empty board", "Black can capture at H5", "White can connect at H5"]
games = [after(""), after(FIGHT + " G8"), after(FIGHT)]
positions = jax.tree.map(lambda *leaves: jnp.stack(leaves), *games)

# %% [markdown]
# A search needs an evaluator of positions. `playout_evaluator` plays each position to the end at
# random and scores the result; `network_evaluator` can take its place, with a policy and value
# network. A *simulation* goes down the tree from the root, adds a position, evaluates it, and
# counts its value at each position on the path. All trees grow in lockstep, by one simulation at a
# time.
#
# `select` is the rule that chooses actions in the tree: it weighs the value of an action against
# how rarely it was tried. Each evaluator has a rule that suits it. Playouts have no policy, so
# each of the 82 actions has a prior of 1/82, and their rule explores more.

# %%
evaluator = gozero.playout_evaluator(rules)
game = gozero.go_game(rules)
config = gozero.SearchConfig(num_simulations=SIMULATIONS, select=evaluator.select)


@jax.jit
def search(key, states):
    return gozero.search(game, evaluator, key, states, config)


run_search = search.lower(key, positions).compile()
started = time.perf_counter()
result = jax.block_until_ready(run_search(key, positions))
seconds = time.perf_counter() - started
simulations = len(games) * SIMULATIONS
print(f"{simulations} simulations in {seconds:.2f} s: {simulations / seconds:,.0f} a second")

# %% [markdown]
# ## Where the search looked
#
# `result.visits` counts the simulations through each action of the root. A move that turns out
# well is chosen more often, so the most visited move is the one to play. The value is for the
# player to move, from -1 (lost) to +1 (won).

# %%
for i, name in enumerate(names):
    visits = np.asarray(result.visits[i])
    best = int(visits.argmax())
    mover = ("Black", "White")[int(games[i].to_play)]
    print(
        f"{name}: {mover} to play; {coords.to_gtp(9, best)} has {visits[best]} of "
        f"{visits.sum()} visits; value {float(result.value[i]):+.2f}"
    )


# %%
def draw(i):
    return board_svg(gozero.stones(rules, games[i]), visits=result.visits[i], title=names[i])


draw(0)

# %% [markdown]
# On the empty board no move has even a fifth of the visits. They are spread over many points,
# because random playouts hardly distinguish one opening from another; a network learns to.

# %%
draw(1)

# %% [markdown]
# Black to play. H5 captures five stones, and is the darkest circle by far: the search has tried
# the other points too, found that they are worse for Black, and returned to H5.

# %%
draw(2)

# %% [markdown]
# White to play, and the same point matters for the opposite reason: at H5 the five stones are
# connected to the stones at H6 and H4, and Black cannot capture them any more. H5 is the vital
# point for both players.
#
# To go further, raise `SIMULATIONS` and watch the visits concentrate, or put other moves into
# `FIGHT`. `gozero selfplay --evaluator playout` plays whole games this way; in a checkout,
# `python -m train --data DIR` learns from them.
