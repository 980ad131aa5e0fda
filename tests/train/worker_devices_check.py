"""Run by test_devices.py in its own process, with four devices."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np

from gozero.nets import network
from gozero.play import devices
from tests.play.devices_check import with_games_given_up
from tests.train import worker_runs
from train import worker

SEEDS = 5, 2**31 - 2  # the shard numbers of the last devices wrap to 0


def main() -> None:
    plan = worker.plan_of(worker_runs.CONFIG)
    params = network.init(plan.learner.network, jax.random.key(0))
    seed, shard = SEEDS
    player = worker.SelfPlay(plan, seed, shard, devices.mesh_of())
    together = played(player, params)
    alone = [
        played(worker.SelfPlay(plan, seed, number, devices.mesh_of(1)), params)
        for number in (shard, shard + 1, 0, 1)
    ]
    for call, parts in zip(together, zip(*alone, strict=True), strict=True):
        parts = [
            (rows.replace(game=rows.game * len(parts) + device), frequency)
            for device, (rows, frequency) in enumerate(parts)
        ]
        whole = jax.tree.map(lambda *x: np.concatenate(x), *parts)
        jax.tree.map(np.testing.assert_array_equal, call, whole)
    assert sum(len(frequency) for _, frequency in together) > 100
    assert len({frequency.size for _, frequency in alone[0]}) > 1
    known = with_games_given_up(player.playing.lanes.resignation)
    lanes = player.playing.lanes.replace(resignation=known)
    player.playing = player.playing.replace(lanes=lanes)
    player.play(params, 0)
    assert player.playing.lanes.resignation.threshold.tolist() == [-0.5] * 4
    config = worker_runs.CONFIG
    of_cores, each = worker.divided(dataclasses.replace(config, batch=32), None, on_cores=True)
    assert (of_cores.size, each.batch) == (4, 8)
    assert worker.divided(config, None, on_cores=False) == (devices.mesh_of(), config)
    assert worker.divided(config, 2, on_cores=True) == (devices.mesh_of(2), config)
    print("all is as of four workers")


def played(player, params):
    return [player.play(params, 0) for _ in range(4)]


if __name__ == "__main__":
    main()
