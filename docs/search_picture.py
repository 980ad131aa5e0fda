"""Draw docs/search.svg, the README's picture: ``python docs/search_picture.py`` in a checkout."""

import pathlib

import jax
import numpy as np

import gozero
from gozero.apps.pictures import board_svg
from gozero.nets import weights

WEIGHTS = pathlib.Path("experiments/zero_strength/results/9x9.safetensors")
MOVES = 17

rules = gozero.Rules(size=9)
config, params, _ = weights.load(WEIGHTS)
evaluator = gozero.network_evaluator(rules, config, params)
game = gozero.go_game(rules)
settings = gozero.SearchConfig(num_simulations=400)
search = jax.jit(lambda states, key: gozero.search(game, evaluator, key, states, settings))
play = jax.jit(jax.vmap(lambda state, action: gozero.play(rules, state, action)))

states = jax.tree.map(lambda x: x[None], gozero.init(rules, komi=7.0))
for move in range(MOVES):
    found = search(states, jax.random.key(move))
    states = play(states, found.action)
last_move = int(found.action[0])
found = search(states, jax.random.key(99))
stones = np.asarray(gozero.stones(rules, jax.tree.map(lambda x: x[0], states)))
picture = board_svg(stones, visits=np.asarray(found.visits[0]), last_move=last_move)
pathlib.Path("docs/search.svg").write_text(picture)
