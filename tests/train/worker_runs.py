"""A small run with workers, and shards that need no self-play."""

from __future__ import annotations

import dataclasses
import functools
import zlib

import jax
import numpy as np

from gozero.go import bitboard as bb
from gozero.go.rules import Position
from gozero.nets import network
from gozero.play import shards
from gozero.play.rows import Rows, row_shapes, stored_policy
from gozero.play.shards import About, Place
from gozero.runs import store
from tests.reference.go import ReferenceGame
from tests.train import tiny
from train import exchange, folder
from train.config import TrainConfig
from train.plan import Plan, make_plan

CONFIG = tiny.config(workers=True, capacity=4000, window=1000)


def config_in(path, **changes) -> TrainConfig:
    """The run's config; makes its folder."""
    config = dataclasses.replace(CONFIG, out=path, **changes)
    tiny.claim(config)
    (path / shards.FOLDER).mkdir(exist_ok=True)
    return config


def write_weights(plan: Plan, iteration: int, value: float = 0.0):
    """Write and publish the weights of a network whose parameters all equal `value`."""
    like = network.shapes(plan.learner.network)
    params = jax.tree.map(lambda x: np.full(x.shape, value, x.dtype), like)
    folder.write_weights(plan, params, iteration, ["test"])
    newest = plan.config.folder / folder.NEWEST
    return exchange.publish(store.at(plan.config.folder), newest, iteration)


@functools.cache
def _plan(config: TrainConfig) -> Plan:
    return make_plan(config)


def random_shard(config: TrainConfig, count: int, seed: int):
    """(rows [n], frequencies [n]): positions of random games, with random results and policies."""
    plan, rng = _plan(config), np.random.default_rng(seed)
    shapes, lay = row_shapes(plan.play.game, config.policy_dtype), bb.layout(plan.config.size)
    pool = _positions(plan.config.size)
    chosen = [pool[i] for i in rng.integers(0, len(pool), count)]
    position, legal = jax.tree.map(
        lambda like, *x: np.asarray(x, like.dtype).reshape(-1, *like.shape),
        (shapes.position, shapes.legal),
        *chosen,
    )
    owner = rng.integers(-1, 2, (count, lay.num_points))
    area = np.asarray([[packed(lay, row == c) for c in (1, -1)] for row in owner], np.uint32)
    komi = rng.choice(plan.config.komi, count).astype(np.float32)
    score = np.where(position.to_play == 0, 1, -1) * (owner.sum(axis=1) - komi)
    drawn = rng.uniform(0.1, 1, (count, lay.num_points + 1))
    target = drawn * np.unpackbits(legal, axis=1, count=drawn.shape[1])
    weights = [name for name in vars(shapes) if name.endswith("_weight")]
    rows = Rows(
        position=position,
        legal=legal,
        policy_target=stored_policy(
            np, target / target.sum(axis=1, keepdims=True), config.policy_dtype
        ),
        outcome=np.sign(score).astype(np.float32),
        game=rng.integers(0, 2**31 - 1, count, np.int32),
        root_value=rng.uniform(-1, 1, count).astype(np.float32),
        komi=komi,
        past=np.zeros((count, *shapes.past.shape), np.uint32),
        known=np.zeros(count, np.int32),
        score=score.astype(np.float32),
        area=area.reshape(count, 2, lay.num_words),
        **{name: rng.integers(0, 2, count).astype(np.float16) for name in weights},
    )
    return rows, rng.integers(0, 64 * 64 + 1, count).astype(np.uint16)


def packed(lay: bb.Layout, points) -> list[int]:
    """The words of a board given as bool[n * n]."""
    words = [0] * lay.num_words
    for row, col in np.argwhere(np.reshape(points, (lay.size, lay.size))).tolist():
        words[row // lay.rows_per_word] |= 1 << (row % lay.rows_per_word * lay.stride + col)
    return words


@functools.cache
def _positions(size: int) -> list:
    """(position, packed legal actions) of random games under simple ko, by the slow rules."""
    rng, lay, found = np.random.default_rng(size), bb.layout(size), []
    for _ in range(12):
        game = ReferenceGame(size, "simple")
        while game.passes < 2 and game.moves < 2 * size * size:
            legal, board = game.legal(), np.asarray(game.board)
            free = [p for p in range(size * size) if not legal[p] and board[p] == 0]
            before = game.history[-2:-1]
            ko = [p for p in free if (after := game.board_after(p)) and tuple(after) in before]
            stones = (tuple(packed(lay, x)) for x in (board == 1, board == -1, game.in_atari()))
            position = Position(*stones, (ko or [-1])[0], game.moves, game.passes, game.moves % 2)
            found.append((position, np.packbits(legal)))
            game.play(int(rng.choice(np.flatnonzero(legal))))
    return found


def write_shard(
    config: TrainConfig, worker: str, number: int, count: int, start: int = 1, version: int = 0
):
    """Write a shard of random rows; returns (its path, rows, frequencies)."""
    rows, frequency = random_shard(config, count, zlib.crc32(f"{worker} {number}".encode()))
    path = shards.path_of(config.folder, Place(number, worker, version))
    path.parent.mkdir(exist_ok=True)
    about = About(worker, number, start, 7, 3, count)
    shards.write(path, shards.rules_of(_plan(config).rules), about, rows, frequency)
    return path, rows, frequency
