"""Draw the pictures of README and docs: ``python docs/pictures.py`` in a checkout."""

import functools
import pathlib

import jax
import jax.numpy as jnp
import numpy as np

import gozero
from gozero.apps.animation import games_svg
from gozero.apps.notebook import replay, search_svg
from gozero.apps.pictures import board_svg
from gozero.apps.tree_picture import tree_svg
from gozero.go import coords
from gozero.nets import weights

DOCS = pathlib.Path("docs")
WEIGHTS = pathlib.Path("experiments/zero_strength/results/9x9.safetensors")
MOVES = 17  # of the game whose next search is drawn
GAMES, LENGTH, DRAWN = 16, 64, 4  # the first moves of each game are drawn by the visits

rules = gozero.Rules(size=9)
config, params, _ = weights.load(WEIGHTS)
evaluator = gozero.network_evaluator(rules, config, params)
game = gozero.go_game(rules)
play = jax.jit(jax.vmap(lambda state, action: gozero.play(rules, state, action)))


def searcher(simulations):
    settings = gozero.SearchConfig(num_simulations=simulations)
    return jax.jit(lambda states, key: gozero.search(game, evaluator, key, states, settings))


def new_games(count):
    return jax.vmap(lambda _: gozero.init(rules, komi=7.0))(jnp.arange(count))


search, states = searcher(400), new_games(1)
for move in range(MOVES):
    found = search(states, jax.random.key(move))
    states = play(states, found.action)
last_move = int(found.action[0])
found = search(states, jax.random.key(99))
stones = np.asarray(gozero.stones(rules, jax.tree.map(lambda x: x[0], states)))
picture = board_svg(stones, visits=np.asarray(found.visits[0]), last_move=last_move)
(DOCS / "search.svg").write_text(picture)
(DOCS / "values.svg").write_text(search_svg(found))
name = functools.partial(coords.to_gtp, rules.size)
(DOCS / "tree.svg").write_text(tree_svg(found.tree, name=name, width=3))

search, states, actions = searcher(100), new_games(GAMES), []
first = states
for move in range(LENGTH):
    key = jax.random.key(move)
    found = search(states, key)
    drawn = jax.random.categorical(key, jnp.log(found.visits.astype(jnp.float32)))
    action = drawn if move < DRAWN else found.action
    actions.append(np.where(states.ended, -1, action))
    states = play(states, action)
(DOCS / "games.svg").write_text(games_svg(replay(rules.size, first.position, actions), cell=10))
