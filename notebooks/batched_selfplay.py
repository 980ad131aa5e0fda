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
# # Self-play in batches
#
# [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/gozero/gozero/blob/main/notebooks/batched_selfplay.ipynb)
#
# One search is a long sequence of small steps, which computers do inefficiently. A thousand
# searches in lockstep are a sequence of *large* steps, which they do efficiently. This notebook
# plays many games of a network against itself at once, measures what batching gains, and looks at
# the data that a network learns from.

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
import numpy as np

import gozero
from gozero.apps.animation import games_svg
from gozero.apps.pictures import board_svg
from gozero.go.rules import position_stones
from gozero.nets import weights
from gozero.play import players, selfplay
from gozero.play.searches import gumbel_search
from gozero.play.selfplay_config import SelfPlayConfig
from gozero.search.move_choice import Temperature

# %% [markdown]
# Settings. Change them here, or through environment variables of these names.

# %%
SIMULATIONS = int(os.environ.get("GOZERO_SIMULATIONS", "16"))
GAMES = int(os.environ.get("GOZERO_GAMES", "64"))
MOVES = int(os.environ.get("GOZERO_MOVES", "60"))
SEED = int(os.environ.get("GOZERO_SEED", "0"))
SIZE = 7

rules = gozero.Rules(size=SIZE)
game = gozero.go_game(rules)
config, params, _ = weights.load(players.NETWORKS[SIZE])
evaluator = gozero.network_evaluator(rules, config, params)

# %% [markdown]
# ## Lanes
#
# `SelfPlayConfig` sets the number of *lanes*. Each lane plays a game; when it ends, the lane
# starts the next one at once, so no lane ever waits. All lanes move together, after a search of
# `SIMULATIONS` simulations in each; every step of the searches evaluates one position of each lane
# in a single call of the network.
#
# `start` makes the first positions, and `make_play_moves` returns a jitted function that plays some
# moves in all lanes. Their state stays on the device.


# %%
def self_play(lanes, moves):
    settings = SelfPlayConfig(
        game,
        lanes,
        gumbel_search(SIMULATIONS),
        komi=9.0,
        temperature=Temperature(moves=12),
        stagger=0,
    )
    return selfplay.start(settings, SEED), selfplay.make_play_moves(settings, evaluator, moves)


# %% [markdown]
# ## What batching gains
#
# The same work with 1, 16 and more lanes, in moves per second of all lanes together.

# %%
for lanes in sorted({1, 16, GAMES}):
    states, play_moves = self_play(lanes, 2)
    states, moves = jax.block_until_ready(play_moves(params, states))  # compiles
    started = time.perf_counter()
    for _ in range(3):
        states, moves = play_moves(params, states)
    jax.block_until_ready(moves)
    rate = 3 * 2 * lanes / (time.perf_counter() - started)
    print(f"{lanes:4} lanes: {rate:8,.0f} moves/s, {rate * SIMULATIONS:10,.0f} simulations/s")

# %% [markdown]
# On two cores all the lanes gain about a factor of four. A GPU or TPU has room for thousands of
# lanes.
#
# ## Whole games
#
# Now play `MOVES` moves in every lane, and look at sixteen of the games. A `Move` records them,
# with axes [moves, lanes]: the position, the search's policy (the *policy target*), and, where a
# game ended, who won.

# %%
states, play_moves = self_play(GAMES, MOVES)
states, moves = jax.block_until_ready(play_moves(params, states))
moves = jax.device_get(moves)
draw = jax.jit(jax.vmap(jax.vmap(lambda position: position_stones(rules, position))))
boards = np.asarray(draw(moves.position))
ended = moves.ended.sum()
print(f"{moves.ended.size} moves, {ended} games ended; Black won {(moves.outcome > 0).sum()}")
games_svg(boards[:, :16], title="Sixteen lanes; a board that clears begins the next game")

# %% [markdown]
# ## Training data
#
# A network learns two things from each position: to play as the search did, and who won. The search
# is stronger than the network that guided it, which is why learning from it helps. Here
# is the move at which the two differed most (`surprise` is their divergence in nats).

# %%
move, lane = np.unravel_index(moves.surprise.argmax(), moves.surprise.shape)
policy = moves.policy_target[move, lane]
board_svg(
    boards[move, lane],
    policy=policy,
    title=f"Lane {lane}, move {move}: what the search would play",
)

# %% [markdown]
# The outcome is known only when the game is over, so it has to be carried back to the positions of
# the same game. Values are for the player to move: +1 for Black is -1 for White.

# %%
value, known = np.zeros(moves.ended.shape), np.zeros(moves.ended.shape, bool)
outcome, over = np.zeros(GAMES), np.zeros(GAMES, bool)
for t in reversed(range(MOVES)):
    outcome = np.where(moves.ended[t], moves.outcome[t], outcome)
    over |= moves.ended[t]
    value[t], known[t] = np.where(moves.ply[t] % 2 == 0, outcome, -outcome), over
print(f"{known.sum()} of {known.size} positions belong to a game that has ended")
if known.any():
    agrees = np.sign(moves.root_value[known]) == np.sign(value[known])
    print(f"in {agrees.mean():.0%} of them the search was right about the winner")

# %% [markdown]
# `gozero selfplay --weights NET.safetensors --games 64 --batch 32 --out runs/first` plays such
# games from the command line and writes SGFs; without `--weights`, by a network of random weights.
# The next notebook, `learn_from_zero`, lets a network learn from such games.
