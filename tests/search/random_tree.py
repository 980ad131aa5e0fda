"""A synthetic game made of hashes, cheap to play, for the batched search and the plain one.

A position is a number, which an action maps to another. A third of the actions are illegal, one
position in eight is terminal, and values are random.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gozero.hashing import mix
from gozero.search.evaluate import checked
from gozero.search.game import Evaluator, Game, Heuristic, history_of
from gozero.search.score import ScoreUtility
from gozero.search.search import search
from tests.reference import mcts

NUM_ACTIONS = 12
_ACTIONS = np.arange(NUM_ACTIONS, dtype=np.uint32)


class Position(NamedTuple):
    code: jax.Array  # u32[]


def play(position: Position, action: jax.Array) -> Position:
    return Position(mix(position.code * np.uint32(31) + action.astype(jnp.uint32)))


def legal(position: Position) -> jax.Array:
    return (mix(position.code ^ (_ACTIONS + np.uint32(77))) % 3 != 0) | (_ACTIONS == 0)


def outcome(position: Position):
    over = (position.code >> np.uint32(5)) % 8 == 0
    return over, jnp.where((position.code & 1) == 0, 1.0, -1.0)


def init(key) -> Position:
    return Position(jax.random.bits(key))


def observe(position: Position) -> jax.Array:
    return position.code


def points_of(code):
    """Whole points of a finished game, for the player to move."""
    return (code >> 6) % 64 - 32


def _scored(context, position: Position):
    points = (position.code >> np.uint32(6)) % 64
    return *outcome(position), points.astype(jnp.float32) - 32


GAME = Game(NUM_ACTIONS, init, play, legal, outcome, observe, max_moves=1000)


SCORED = GAME._replace(history=history_of(GAME)._replace(scored=_scored))
"""`GAME`, scored in points."""


@dataclasses.dataclass(frozen=True)
class Exact(ScoreUtility):
    """A utility with exact fixed-point values, so that the order of a sum does not matter."""

    def center(self, mean):
        return mean / 2

    def __call__(self, score, center):
        return (score[..., 0] - center + score[..., 1]) / 256


UTILITY = Exact(9.0)


def _plain_utility(score, center):
    if score is None:
        return round(0.4 * mcts.ONE)
    return int(mcts.fixed((score[0] - center + score[1]) / 256))


PLAIN_UTILITY = (lambda score: score[0] / 2, _plain_utility)
"""`UTILITY`, for the plain search."""


def with_scores(evaluate):
    """`evaluate` with a score added: a mean of whole points, a deviation in half points."""

    def evaluation(params, key, codes):
        bits = mix(codes * np.uint32(13) + np.uint32(5))
        score = jnp.stack([(bits % 61).astype(jnp.float32) - 30, (bits >> 8) % 9 / 2], axis=-1)
        return evaluate(params, key, codes)._replace(score=score)

    return evaluation


def with_more(evaluate, playouts: bool, heuristic: bool):
    """`evaluate` with first plays and a heuristic added, as asked for."""

    def bits(codes, tie_seed):
        return mix(codes[:, None] * np.uint32(17) ^ (_ACTIONS * np.uint32(tie_seed))[None])

    def evaluation(params, key, codes):
        evaluated = evaluate(params, key, codes)
        if playouts:
            by = bits(codes, 99991) % 3  # 2: by neither player
            evaluated = evaluated._replace(played=jnp.stack([by == 0, by == 1], axis=1))
        if heuristic:
            value = lambda tie_seed: (bits(codes, tie_seed) % 2049).astype(jnp.float32) / 1024 - 1
            count = lambda tie_seed: (bits(codes, tie_seed) % 5).astype(jnp.int32)
            evaluated = evaluated._replace(
                heuristic=Heuristic(value(3), count(5), value(7), count(11) * 2)
            )
        return evaluated

    return evaluation


def search_of(evaluate, config, game=GAME):
    """(codes u32[B] of the roots, key, a tree to go on with or None) -> SearchResult."""

    def run(codes, key, tree=None):
        return search(game, Evaluator(evaluate), key, Position(codes), config, tree)

    return run


def compiled_search(evaluate, config, num_trees, game=GAME, options=None):
    """(codes u32[B] of the roots, key) -> SearchResult; `options` are the compiler's."""
    run = jax.jit(search_of(evaluate, config, game), compiler_options=options)
    return run.lower(jnp.zeros(num_trees, jnp.uint32), jax.random.key(0)).compile()


class Plain:
    """The same game on Python integers, with the library's evaluations bit for bit."""

    def __init__(self, evaluate):
        self.evaluated = jax.jit(lambda codes, legal: self._evaluated(evaluate, codes, legal))

    @staticmethod
    def _evaluated(evaluate, codes, legal):
        evaluation = evaluate(None, None, codes)
        plain = evaluation._replace(played=None, heuristic=None, score=None)
        prior, value, _ = jax.vmap(checked)(legal, plain)
        return prior, value, evaluation.played, evaluation.heuristic, evaluation.score

    def play(self, code: int, action: int) -> int:
        return mcts.mix((code * 31 + action) & 0xFFFFFFFF)

    def evaluate(self, code: int):
        """The evaluation of a plain search's `Node`."""
        legal = [a == 0 or mcts.mix(code ^ (a + 77)) % 3 != 0 for a in range(NUM_ACTIONS)]
        evaluated = self.evaluated(np.array([code], np.uint32), np.array([legal]))
        evaluated = jax.tree.map(lambda x: np.asarray(x)[0], evaluated)
        prior, value, played, heuristic, score = evaluated
        over = (code >> 5) % 8 == 0
        exact = 1.0 if code % 2 == 0 else -1.0
        if score is not None and over:
            score = np.array([points_of(code), 0.5], np.float32)
        return prior, exact if over else float(value), over, played, heuristic, score
