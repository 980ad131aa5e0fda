"""Self-play whose search is a hash: endless games with every option on, quick to compile."""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gozero.games.go import go_game
from gozero.go.rules import GameState, Rules, legal_actions
from gozero.hashing import mix
from gozero.play import selfplay
from gozero.play.openings import Openings
from gozero.play.resignation import ResignConfig
from gozero.play.searches import gumbel_search, to_win
from gozero.play.selfplay_config import PlayoutCap
from gozero.search.game import Evaluator
from gozero.search.move_choice import Temperature
from gozero.search.search import SearchResult
from tests.search.evaluators import observe_position
from train import buffer, games
from train.calibration import Predictions

RULES = Rules(size=3, max_moves=14)
SAMPLED_MOVES = 4
FULL, CHEAP = 8, 3
SEARCH = gumbel_search(FULL, 4)
GAME = go_game(RULES)
CONFIG = selfplay.SelfPlayConfig(
    game=GAME,
    komi=(0.5, 2.0, 3.0),
    batch=6,
    search=SEARCH,
    temperature=Temperature(moves=SAMPLED_MOVES),
    openings=Openings(0, 3),
    cap=PlayoutCap(to_win(SEARCH, CHEAP), 0.4),
    resign=ResignConfig(play_on_share=0.4, num_records=8),
    stagger=0,
    more_simulations=(4,),
)
BUFFER = buffer.BufferConfig(
    capacity=40, surprise=0.5, past_boards=7, window=buffer.Window(least=20, exponent=0.5)
)
MOVES = 14
THRESHOLD = -0.8


class Seen(NamedTuple):
    """What a test sees of each move, [T, B]."""

    made: selfplay.Move
    opening: jax.Array  # i32: random plies of the game
    may_resign: jax.Array  # bool
    states: GameState  # after it
    predictions: Predictions  # [T, B]


def search(game, evaluator, key, states, config, tree=None, keep_tree=True):
    """In place of a search: visits, values and Q from a hash of the position and the settings.

    Its action is the least visited of those that were visited; late in a game, passes are frequent.
    """
    legal = jax.vmap(lambda state: legal_actions(RULES, state))(states)
    return hashed(states.position, legal, config.num_simulations)


def hashed(position, legal, num_simulations) -> SearchResult:
    """The result of `search` for positions [B] and legal actions bool[B, A]."""
    code = jax.vmap(lambda p: observe_position(None, p, _Ancestors(jnp.int32(0))))(position)
    code = mix(code + position.ply.astype(jnp.uint32) * np.uint32(64) + num_simulations)
    number = jnp.arange(RULES.num_actions, dtype=jnp.uint32)[None] * np.uint32(0x27D4EB2D)
    bits = mix(code[:, None] ^ number)
    visits = jnp.where(legal, (bits % np.uint32(16)).astype(jnp.int32), 0)
    late = (position.ply > 6) & (code % np.uint32(2) == 0)
    visits = visits.at[:, -1].set(jnp.where(late, 1, 40))
    q = (bits >> np.uint32(8)).astype(jnp.float32) * (2 / 2**24) - 1
    value = (mix(code) >> np.uint32(8)).astype(jnp.float32) * (2 / 2**24) - 1
    share = visits / jnp.sum(visits, axis=1, keepdims=True)
    return SearchResult(
        action=jnp.argmin(jnp.where(visits > 0, visits, 99), axis=1).astype(jnp.int32),
        visits=visits,
        q=jnp.minimum(q, value[:, None]),
        policy_target=share,
        value=value,
        ok=code % np.uint32(11) != 0,
        tree=None,
        prior=jnp.where(legal, 1 / jnp.sum(legal, axis=1, keepdims=True), -jnp.inf),
        raw_value=-value,
    )


class _Ancestors(NamedTuple):
    length: jax.Array


def one_move(playing: games.Playing, _=None, config=CONFIG, buffer_config=BUFFER, simulations=None):
    lanes = playing.lanes
    seen = lanes.opening, lanes.resignation.may
    lanes, made = selfplay.move(config, Evaluator(None), None, lanes, simulations)
    predictions = games.predictions(made)
    taken = games.record_move(
        config.game, buffer_config, playing.games, playing.buffer, made, lanes.states
    )
    return games.Playing(lanes, *taken), Seen(made, *seen, lanes.states, predictions)


def start(seed=0, shard=0, config=CONFIG) -> games.Playing:
    playing = games.start(config, BUFFER, seed, shard)
    watched = playing.lanes.resignation.replace(threshold=jnp.float32(THRESHOLD))
    return playing.replace(lanes=playing.lanes.replace(resignation=watched))


def scan(playing):
    return jax.lax.scan(functools.partial(one_move), playing, length=MOVES)


def config_with(**changes):
    """CONFIG with some changes."""
    return dataclasses.replace(CONFIG, **changes)
