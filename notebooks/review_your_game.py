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
# # Review your game
#
# [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/gozero/gozero/blob/main/notebooks/review_your_game.ipynb)
#
# Where was the game lost? This notebook takes a game as an SGF, searches all its positions at
# once, and shows the curve of the game, the moves that cost the most, and what would have been
# better. Put your own game in place of the one here.

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
import dataclasses
import os
import tempfile

import numpy as np
from IPython.display import display

from gozero.apps import sgf
from gozero.apps.animation import games_svg
from gozero.apps.pictures import board_svg
from gozero.apps.review import analyse, report
from gozero.apps.review.config import ReviewConfig
from gozero.go import coords

# %% [markdown]
# Settings. Change them here, or through environment variables of these names.

# %%
SIMULATIONS = int(os.environ.get("GOZERO_SIMULATIONS", "100"))
MISTAKES = int(os.environ.get("GOZERO_MISTAKES", "3"))
MOVES = int(os.environ.get("GOZERO_MOVES", "1000"))  # the most moves of the game to review

# %% [markdown]
# ## The game
#
# Paste an SGF between the quotes, or read a file with `sgf.read(pathlib.Path("game.sgf"))`. This
# one was played by GNU Go (Black) and gozero (White); White won by two points.

# %%
GAME = """
(;FF[4]CA[UTF-8]GM[1]SZ[9]KM[7]RU[Chinese]PB[GNU Go 3.8]PW[gozero]RE[W+2];B[ge]
;W[ic];B[gc];W[de];B[dc];W[ec];B[eb];W[ed];B[db];W[ff];B[gf];W[fg];B[hh];W[cd]
;B[bc];W[bd];B[cc];W[gd];B[hd];W[fd];B[hc];W[gh];B[gg];W[fh];B[ad];W[ae];B[ac]
;W[bf];B[hi];W[fe];B[fc];W[gi];B[dd];W[ce];B[ib];W[cg];B[hb];W[he];B[hf];W[ie]
;B[id];W[ig];B[ha];W[fb];B[if];W[bh];B[hg];W[ea];B[ih];W[fa];B[da];W[ch];B[ga]
;W[eh];B[gb];W[ef];B[fa];W[df];B[];W[])
"""
folder = pathlib.Path(tempfile.mkdtemp())
record = sgf.read(GAME.encode())
comments = record.move_comments[:MOVES]
record = dataclasses.replace(record, moves=record.moves[:MOVES], move_comments=comments)
if not record.komi_given:
    print(f"the file gives no komi; it counts as {record.komi:g}")
sgf.write(folder / "game.sgf", record)  # its size and rules select the player below
print(f"{record.black} against {record.white}, {record.result}, {len(record.moves)} moves")

# %% [markdown]
# ## Look at every position
#
# Each position of the game is the root of a search, and all searches run in lockstep: on two cores
# about twice as fast as one after the other, and a GPU or TPU has room for many more. On 9x9 and
# 7x7 the network that comes with the package evaluates the positions; on other sizes playouts do.

# %%
config = ReviewConfig.of_flags(
    {"games": (folder / "game.sgf",), "simulations": SIMULATIONS, "batch": 64}
)
(reviewed,) = analyse.analyse(config, [("game.sgf", record)])
positions = reviewed.positions
worst = reviewed.mistakes(MISTAKES)

# %% [markdown]
# ## Who was ahead
#
# Black's share of wins after each move, as the search sees it. Dots mark the moves that lost the
# most.

# %%
wins = [100 * position.win for position in positions]
report.curve(wins, 0, 100, "Black wins, in percent, after each move", marks=worst)

# %%
leads = [position.lead for position in positions]
most = float(np.ceil(max(10.0, *(abs(lead) for lead in leads))))
report.curve(leads, -most, most, "Black's lead in points, komi counted", marks=worst)

# %% [markdown]
# ## The moves that cost the most
#
# Each board is the position *before* the mistake. The cross is the move that was played (a pass has
# none). The numbered stones are what the search expects to be played instead.


# %%
def name(action):
    return "nothing" if action is None else coords.to_gtp(record.size, action)


def show(number):
    position = positions[number]
    colour = ("Black", "White")[position.to_play]
    better = position.variation[0] if position.variation else None
    cost = f"{name(position.played)} lost {100 * position.lost:.0f}%"
    title = f"Move {number + 1}, {colour}: {cost}, {name(better)} was better"
    return board_svg(
        position.stones,
        variation=position.variation[:5],
        to_play=position.to_play,
        crossed=() if position.played is None else (position.played,),
        title=title,
    )


for number in worst:
    display(show(number))

# %% [markdown]
# If nothing is shown, no move lost as much as one percent.
#
# ## Who owns what
#
# Ownership halfway through the game and at the end: a small black or white square marks a point
# that the search expects that colour to own.

# %%
halfway = positions[len(positions) // 2]
board_svg(halfway.stones, ownership=halfway.ownership, title="Halfway")

# %%
board_svg(positions[-1].stones, ownership=positions[-1].ownership, title="At the end")

# %% [markdown]
# The whole game, once more:

# %%
games_svg(np.stack([position.stones for position in positions])[:, None], cell=22, title="The game")

# %% [markdown]
# ## As files
#
# The same review as a web page, or as an SGF with the better moves as variations, which any Go
# program can open. On the command line: `gozero review game.sgf --out report.html`, and for many
# games `gozero review games/*.sgf --out report.html`.

# %%
(folder / "report.html").write_text(report.page([reviewed], MISTAKES))
(folder / "reviewed.sgf").write_text(report.annotated([reviewed], MISTAKES))
print(report.summary([reviewed], MISTAKES))
print(f"written: {', '.join(sorted(path.name for path in folder.iterdir()))}")
