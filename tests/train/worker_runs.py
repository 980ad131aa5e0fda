"""A small run with workers, and shards without self-play."""

from __future__ import annotations

import dataclasses
import functools
import zlib

import jax
import numpy as np

from gozero.nets import network
from gozero.play import shards
from gozero.play.rows import row_shapes
from gozero.play.shards import About, Place
from tests.train import tiny
from train import folder
from train.config import TrainConfig
from train.plan import Plan, make_plan

CONFIG = tiny.config(workers=True, capacity=4000, window=1000)


def config_in(path, **changes) -> TrainConfig:
    """The run's config, its folder made."""
    config = dataclasses.replace(CONFIG, out=path, **changes)
    tiny.claim(config)
    (path / shards.FOLDER).mkdir(exist_ok=True)
    return config


def write_weights(plan: Plan, iteration: int, value: float = 0.0):
    """Of a network whose parameters are all alike."""
    like = network.shapes(plan.learner.network)
    params = jax.tree.map(lambda x: np.full(x.shape, value, x.dtype), like)
    return folder.write_weights(plan, params, iteration, ["test"])


@functools.cache
def _plan(config: TrainConfig) -> Plan:
    return make_plan(config)


def random_shard(config: TrainConfig, count: int, seed: int):
    """(rows [n], frequencies [n]): every bit that may be any is."""
    plan, rng = _plan(config), np.random.default_rng(seed)

    def one(shape):
        if shape.dtype.kind == "f":
            return rng.uniform(-1, 1, (count, *shape.shape)).astype(shape.dtype)
        limits = np.iinfo(shape.dtype)
        return rng.integers(limits.min, limits.max, (count, *shape.shape), shape.dtype)

    rows = jax.tree.map(one, row_shapes(plan.play.game))
    target = rng.uniform(0.1, 1, rows.policy_target.shape)
    target = (target / target.sum(axis=1, keepdims=True)).astype(rows.policy_target.dtype)
    frequency = rng.integers(0, 64 * 64 + 1, count).astype(np.uint16)
    return rows.replace(policy_target=target), frequency


def write_shard(config: TrainConfig, worker: str, number: int, count: int, start: int = 1):
    """One of random rows; (its path, rows, frequencies)."""
    rows, frequency = random_shard(config, count, zlib.crc32(f"{worker} {number}".encode()))
    path = shards.path_of(config.folder, Place(number, worker))
    about = About(worker, number, start, 7, 3, count)
    shards.write(path, shards.rules_of(_plan(config).rules), about, rows, frequency)
    return path, rows, frequency
