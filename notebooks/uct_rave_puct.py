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
# # From UCT to RAVE to PUCT
#
# [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/gozero/gozero/blob/main/notebooks/uct_rave_puct.ipynb)
#
# A tree search has to divide few simulations among many moves. This notebook shows three ways to
# do so, on a small board and with trees small enough to draw: UCT, which knows only its own
# results; RAVE, which shares results among positions; and PUCT, which asks a network first. The
# position is the same for all three.

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
import functools
import os

import jax
import jax.numpy as jnp
import numpy as np

import gozero
from gozero.apps.pictures import board_svg
from gozero.apps.tree_picture import tree_svg
from gozero.go import coords
from gozero.nets import weights
from gozero.play import players
from gozero.search.config import Amaf
from gozero.search.rules.puct import Puct
from gozero.search.rules.rave import Rave
from gozero.search.rules.ucb1 import Ucb1

# %% [markdown]
# Settings. Change them here, or through environment variables of these names.

# %%
SIMULATIONS = int(os.environ.get("GOZERO_SIMULATIONS", "200"))
SEED = int(os.environ.get("GOZERO_SEED", "0"))
SIZE = 7

rules = gozero.Rules(size=SIZE)
game = gozero.go_game(rules)
name = functools.partial(coords.to_gtp, SIZE)

# %% [markdown]
# ## The position
#
# Black is to move. The white stone in the middle has one liberty left, D5: a move there captures
# it. A good search should find that soon.

# %%
state = gozero.init(rules, komi=9.0)
play = jax.jit(lambda state, action: gozero.play(rules, state, action))
for vertex in ["D3", "D4", "C4", "F2", "E4", "B6"]:
    state = play(state, coords.from_gtp(SIZE, vertex))
stones = gozero.stones(rules, state)
board_svg(stones, title="Black to play")

# %% [markdown]
# One function searches with any selection rule. `gozero.search` works on a batch, here of one
# position.


# %%
def search(evaluator, simulations=SIMULATIONS, **settings):
    config = gozero.SearchConfig(num_simulations=simulations, **settings)
    batch = jax.tree.map(lambda x: jnp.asarray(x)[None], state)
    run = jax.jit(lambda key, states: gozero.search(game, evaluator, key, states, config))
    return run(jax.random.key(SEED), batch)


def board(result, title):
    return board_svg(stones, visits=result.visits[0], values=result.q[0], title=title)


# %% [markdown]
# ## UCT: every move for itself
#
# UCT (Kocsis and Szepesvári, 2006) chooses the move with the largest *upper confidence bound*:
# its mean result so far, plus a bonus that shrinks as the move is tried:
#
#     mean(a) + c * sqrt(ln N / N(a))
#
# Here `N(a)` is how often move `a` was tried, `N` the sum over all moves, and `mean(a)` the share
# of its simulations that were won, from 0 to 1. A move that was never tried has an infinite bound,
# so each of the more than forty moves is tried once before any is tried twice. The values come from
# *playouts*: games played to the end at random.

# %%
uct = search(gozero.playout_evaluator(rules), select=Ucb1(c=0.25))
board(uct, f"UCT, {SIMULATIONS} simulations")

# %% [markdown]
# The numbers are each move's percentage of wins, and below it how often it was tried. More than a
# fifth of the simulations went into trying every move once, and most of the others followed a few
# lucky playouts: with this seed UCT prefers B3 to the capture. The tree shows the most visited
# moves, each with four replies. No branch is thick, so the values of the replies mean little.

# %%
tree_svg(uct.tree, name=name, depth=2, width=4, title="UCT")

# %% [markdown]
# ## RAVE: later moves count too
#
# In Go a move is often good now *and* a little later. RAVE (Gelly and Silver, 2007 and 2011) uses
# this: a simulation that Black won counts for every move that Black played in it, not only for the
# first. This gives the *all-moves-as-first* value, `amaf(a)`. Every move has one after a handful
# of simulations, but it is biased, so it counts less the more often the move itself was tried:
#
#     (1 - beta) * mean(a) + beta * amaf(a),   beta = N'(a) / (N(a) + N'(a) + 4 N(a) N'(a) b^2)
#
# Here `N'(a)` is the number of simulations in `amaf(a)`, and `b` the bias that it is assumed to
# have, 0.01.

# %%
rave = search(gozero.playout_evaluator(rules, first_plays=True), select=Rave(), amaf=Amaf())
board(rave, f"MC-RAVE, {SIMULATIONS} simulations")

# %%
tree_svg(rave.tree, name=name, depth=2, width=4, title="MC-RAVE")

# %% [markdown]
# With the same number of simulations, far fewer went to moves that never had a chance. Untried
# moves have a value too, so no move has to be tried only because it is untried.
#
# ## PUCT: ask a network first
#
# PUCT (Silver et al., 2017) takes a *prior* `P(a)` from a network: how likely a good player is to
# play there. The bonus is proportional to it:
#
#     mean(a) + c * P(a) * sqrt(1 + N) / (1 + N(a))
#
# Now values lie between -1 (lost) and +1 (won), and an untried move counts as 0. (The paper has `N`
# in place of `1 + N`.) The network's estimate of who is ahead replaces the playout. The package
# comes with a network for 7x7 that learnt by playing against itself. Before any search its prior is
# this:

# %%
config, params, _ = weights.load(players.NETWORKS[SIZE])
network = gozero.network_evaluator(rules, config, params)
puct = search(network, select=Puct())
look = jax.tree.map(lambda x: x[None], network.observe(state, state.position, None))
said = network.evaluate(network.params, jax.random.key(0), look)
legal = gozero.legal_actions(rules, state)  # a search leaves out illegal moves, too
policy = jax.nn.softmax(jnp.where(legal, said.prior_logits[0], -jnp.inf))
board_svg(stones, policy=policy, title=f"The network's prior; its value is {said.value[0]:+.2f}")

# %%
board(puct, f"PUCT, {SIMULATIONS} simulations")

# %% [markdown]
# PUCT tried only the capture: its prior and its value are so high that no other move's bonus makes
# up for them.

# %%
tree_svg(puct.tree, name=name, depth=2, width=4, title="PUCT")

# %% [markdown]
# ## Side by side
#
# How each search spent its simulations: the share of its favourite move, and the number of moves
# tried.

# %%
for title, result in [("UCT", uct), ("MC-RAVE", rave), ("PUCT", puct)]:
    visits = np.asarray(result.visits[0])
    best = int(visits.argmax())
    print(
        f"{title:8} plays {name(best)}, {visits[best] / visits.sum():.0%} of its simulations; "
        f"moves tried: {np.count_nonzero(visits)}; value {float(result.value[0]):+.2f}"
    )

# %% [markdown]
# With this seed and 200 simulations UCT misses the capture, which MC-RAVE and PUCT find. UCT and
# MC-RAVE need no training, and with many simulations both find good moves:
# `experiments/against_gnugo` measures how good they are. PUCT needs a network, but then far fewer
# simulations. To see the differences shrink, raise `SIMULATIONS` to 2000; to see where RAVE's bias
# hurts, look for a position in which the order of the moves matters.
