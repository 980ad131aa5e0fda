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
# # Your own game in 100 lines
#
# [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/gozero/gozero/blob/main/notebooks/your_own_game.ipynb)
#
# The search knows nothing about Go. It plays any two-player zero-sum game with alternating moves.
# This notebook writes one from scratch, *four in a row on an open board of six by six*, checks it,
# searches it, and plays a match, in less than a hundred lines of code.

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
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import gozero
from gozero.apps.animation import games_svg
from gozero.apps.pictures import board_svg
from gozero.play import arena
from gozero.play.player import random_player, search_player

# %% [markdown]
# Settings. Change them here, or through environment variables of these names.

# %%
SIMULATIONS = int(os.environ.get("GOZERO_SIMULATIONS", "400"))
GAMES = int(os.environ.get("GOZERO_GAMES", "32"))
SEED = int(os.environ.get("GOZERO_SEED", "0"))
SIZE, LINE = 6, 4

# %% [markdown]
# ## The rules
#
# A state is any structure of arrays, here two boards: the stones of the player to move and those of
# the opponent. They are swapped after each move, so the rules need not know who is Black.
#
# All functions are for *one* game. `jax.vmap` applies them to thousands at once, which has one
# consequence: no `if` may depend on the board. Both alternatives are computed, and `where`
# chooses.


# %%
class Board(NamedTuple):
    own: jax.Array  # bool[SIZE, SIZE]: the stones of the player to move
    other: jax.Array


def init(key):
    del key  # nothing is random
    return Board(jnp.zeros((SIZE, SIZE), bool), jnp.zeros((SIZE, SIZE), bool))


def has_line(stones):
    """Whether there are `LINE` stones in a row: across, down, or along a diagonal."""
    wide = jnp.pad(stones, LINE)  # so that nothing wraps around the edge
    found = jnp.bool_(False)
    for down, right in [(0, 1), (1, 0), (1, 1), (1, -1)]:
        line = wide
        for step in range(1, LINE):
            line = line & jnp.roll(wide, (step * down, step * right), (0, 1))
        found = found | line.any()
    return found


def outcome(board):
    """Whether the game is over, and its value for the player to move: -1, or 0 for a draw."""
    lost = has_line(board.other)  # the opponent has just moved
    full = (board.own | board.other).all()
    return lost | full, jnp.where(lost, -1.0, 0.0)


def legal(board):
    return (~(board.own | board.other)).ravel() & ~outcome(board)[0]


def play(board, action):
    """Plays a stone of the player to move; nothing changes once the game is over."""
    over = outcome(board)[0]
    point = jnp.arange(SIZE**2).reshape(SIZE, SIZE) == action
    after = Board(board.other, board.own | point)
    return jax.tree.map(lambda new, old: jnp.where(over, old, new), after, board)


def observe(board):
    """The input of a network: a plane for each player, [rows, columns, 2]."""
    return jnp.stack([board.own, board.other], axis=-1).astype(jnp.float32)


game = gozero.Game(
    num_actions=SIZE**2,
    init=init,
    play=play,
    legal=legal,
    outcome=outcome,
    observe=observe,
    max_moves=SIZE**2,
)

# %% [markdown]
# That is the game. Everything below uses it.
#
# ## Check the rules
#
# Play many random games and check that every move adds one stone until the game is over, and that
# every game ends. (`tests/games/contract.py` in the repository checks games thoroughly.)


# %%
def random_game(key):
    def move(board, key):
        allowed = legal(board)
        action = jax.random.categorical(key, jnp.where(allowed, 0.0, -jnp.inf))
        after = play(board, action)
        grew = (after.own | after.other).sum() - (board.own | board.other).sum()
        return after, (grew == 1) | outcome(board)[0]

    board, fine = jax.lax.scan(move, init(key), jax.random.split(key, game.max_moves))
    return *outcome(board), (board.own | board.other).sum(), fine.all()


over, value, plies, fine = jax.jit(jax.vmap(random_game))(
    jax.random.split(jax.random.key(SEED), 1000)
)
assert bool(over.all() & fine.all())
drawn = float((value == 0).mean())
print(f"1,000 random games: {float(plies.mean()):.1f} moves on average, {drawn:.1%} drawn")

# %% [markdown]
# ## Search it
#
# Without a network, `rollout_evaluator` evaluates a position by playing to the end at random. Here
# is a position where the player to move (Black) has three in a row, open on one side:


# %%
def show(board, visits=None, black_to_move=True, title=""):
    sign = 1 if black_to_move else -1
    stones = sign * (np.asarray(board.own, int) - np.asarray(board.other, int))
    return board_svg(stones, visits=visits, title=title)


board = init(None)
for row, column in [(2, 1), (2, 0), (2, 2), (4, 4), (2, 3), (1, 1)]:
    board = play(board, row * SIZE + column)

evaluator = gozero.rollout_evaluator(game)
config = gozero.SearchConfig(num_simulations=SIMULATIONS, select=evaluator.select)
search = jax.jit(lambda key, boards: gozero.search(game, evaluator, key, boards, config))
result = search(jax.random.key(SEED), jax.tree.map(lambda x: x[None], board))
show(board, result.visits[0], title=f"Black to move: value {float(result.value[0]):+.2f}")

# %% [markdown]
# Here is the same position with White to move. White has to block the line, and the search finds
# this:

# %%
swapped = Board(board.other, board.own)
result = search(jax.random.key(SEED), jax.tree.map(lambda x: x[None], swapped))
show(swapped, result.visits[0], False, f"White to move: value {float(result.value[0]):+.2f}")

# %% [markdown]
# ## A match
#
# The search plays against random moves, all games at once; each player moves first in half of them.
# Each pair of games begins with the same two random moves, so that games differ.

# %%
player = search_player(game, evaluator, config)
match = arena.play_match(game, player, random_player(game), jax.random.key(SEED), num_games=GAMES)
print(match.summary())

# %% [markdown]
# The games are an array of actions, [moves, games], with -1 after the end. Here they are replayed:

# %%
shown = min(8, GAMES)
boards = np.zeros((len(match.actions) + 1, shown, SIZE, SIZE), int)
for move, actions in enumerate(match.actions[:, :shown]):
    boards[move + 1] = boards[move]
    for number, action in enumerate(actions):
        if action >= 0:
            boards[move + 1, number, action // SIZE, action % SIZE] = 1 if move % 2 == 0 else -1
labels = [
    f"search is {'Black' if colour == 0 else 'White'}" for colour in match.first_colour[:shown]
]
games_svg(boards, labels=labels, title="Four in a row: search against random moves")

# %% [markdown]
# ## What else it can do now
#
# - `gozero.rollout_evaluator(game, first_plays=True)` with `Rave()` and `Amaf()` searches by
#   MC-RAVE.
# - A network can learn it: see `network.of_game(game)` in the notebook `learn_from_zero`.
# - In a checkout, a function and an entry in `gozero/games/registry.py` give it a name, which
#   `gozero match --game NAME` and `python -m train --preset connect4 --game NAME` accept.
