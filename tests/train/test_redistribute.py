"""A run that is resumed on another number of devices loses nothing."""

from __future__ import annotations

import dataclasses
from itertools import chain

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh, AxisType

from gozero.play import devices, resignation
from gozero.play.rows import stored_policy
from tests.train import tiny
from tests.train.test_devices import checked
from train import checkpoint, redistribute, run, steps
from train import config as configs
from train.games import Playing
from train.plan import in_parts, make_plan

CONFIG = tiny.config(devices=4, batch=4, capacity=84, min_rows=20, rows_per_device=6)


OTHER = tiny.config(
    **{"devices": 4, "batch": 4, "capacity": 84, "surprise": 0.0, "resign": False},
    **{"root": "puct", "max_considered": 16, "reuse_subtree": True, "features": "zero"},
)
"""With search trees and past boards; without frequencies or resignation."""


def shapes(num_devices, config=CONFIG):
    """The shapes of the self-play state on `num_devices`, for a run that began on four."""
    plan = make_plan(config, num_devices, initial_devices=4)
    mesh = AbstractMesh((num_devices,), (steps.AXIS,), axis_types=(AxisType.Auto,))
    return tiny.placed(plan, mesh).playing


@pytest.fixture(scope="module")
def four():
    """The state of four devices in the middle of a run."""
    return drawn_state(CONFIG)


def drawn_state(config):
    """A state of four devices: every number random, rings full, half full and empty."""
    rng = np.random.default_rng(0)

    def drawn(x):
        if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
            return jax.random.split(jax.random.key(5), x.shape)
        return rng.integers(0, 2 if x.dtype == bool else 100, x.shape).astype(x.dtype)

    playing: Playing = jax.tree.map(drawn, shapes(4, config))
    lanes = playing.lanes
    if config.resign:
        records = lanes.resignation.records
        most = records.ply.shape[1]
        records = records.replace(count=np.array([0, 7, most + 5, 3 * most], np.int32))
        lanes = lanes.replace(resignation=lanes.resignation.replace(records=records))
    buffer = playing.buffer.replace(
        cursor=np.array([7, 30, 0, 83], np.int32),
        size=np.array([84, 30, 0, 84], np.int32),
        added=np.array([2**30, 30, 0, 119], np.int32),
        owed=np.array([60, 5, 0, 1], np.int32),
    )
    return playing.replace(lanes=lanes, buffer=buffer)


def newest_first(playing):
    """The rows of each ring with their frequencies, as bytes, newest first."""
    ring, found = playing.buffer, []
    leaves = [x for x in jax.tree.leaves((ring.rows, ring.frequency)) if x.size]
    for d, size in enumerate(ring.size):
        slots = (ring.cursor[d] - 1 - np.arange(size)) % leaves[0].shape[1]
        found.append([b"".join(x[d, slot].tobytes() for x in leaves) for slot in slots])
    return found


def by_lane(playing):
    """Each lane's state, its moves so far and everything else it owns, as bytes; in lane order."""
    num_lanes = playing.lanes.game.size
    watched = playing.lanes.resignation
    watched = watched and watched.replace(threshold=None, records=None)
    lanes = playing.lanes.replace(
        next_game=None, moves=None, key=None, batch_key=None, resignation=watched
    )
    leaves = [x for x in jax.tree.leaves((lanes, playing.games)) if x.size]
    parts = [np.asarray(x).reshape(num_lanes, -1) for x in leaves]
    return [b"".join(x[lane].tobytes() for x in parts) for lane in range(num_lanes)]


@pytest.mark.parametrize(("config", "devices"), [(CONFIG, 2), (CONFIG, 8), (CONFIG, 1), (OTHER, 2)])
def test_nothing_is_lost(config, devices):
    four, like = drawn_state(config), shapes(devices, config)
    dealt = redistribute.redistribute(four, like)
    for one, shape in zip(jax.tree.leaves(dealt), jax.tree.leaves(like), strict=True):
        assert (one.shape, one.dtype) == (shape.shape, shape.dtype)
    assert by_lane(dealt) == by_lane(four)
    rows = newest_first(dealt)
    assert sorted(chain(*rows)) == sorted(chain(*newest_first(four)))
    counts = [len(ring) for ring in rows]
    assert max(counts) - min(counts) <= 1
    buffer = dealt.buffer
    assert buffer.added.sum() == min(2**30 + 149, devices * 2**30)
    assert buffer.owed.sum() == 66
    assert np.all(buffer.size <= buffer.added)
    assert set(dealt.lanes.next_game.tolist()) == {max(four.lanes.next_game)}
    keys = jax.random.key_data(dealt.lanes.key)
    assert len({key.tobytes() for key in np.asarray(keys)}) == devices
    together = np.asarray(jax.random.key_data(dealt.lanes.batch_key))
    assert (together == together[0]).all()


def test_rows_keep_their_order_and_are_dealt_newest_first():
    """Three rings of four slots, by hand: the larger a number, the newer the row."""
    rings = np.array([[3, 4, 1, 2], [12, 0, 0, 11], [0, 0, 0, 0]])  # 1 is the oldest, then 2 ...
    cursor, size = np.array([2, 1, 0]), np.array([4, 2, 0])
    new, sizes = redistribute._rings(rings, cursor, size, (2, 6))
    # By age: 4, 12, then 3, 11, then 2, then 1.
    assert sizes.tolist() == [3, 3]
    assert new.tolist() == [[2, 3, 4, 0, 0, 0], [1, 11, 12, 0, 0, 0]]
    new, sizes = redistribute._rings(rings, cursor, size, (1, 4), blank=-1)
    assert (new.tolist(), sizes.tolist()) == ([[11, 3, 12, 4]], [4])


def test_the_newest_game_records_are_kept(four):
    records = redistribute.redistribute(four, shapes(2)).lanes.resignation.records
    most = records.ply.shape[1]
    assert records.count.tolist() == [most, most]
    records = redistribute.redistribute(four, shapes(8)).lanes.resignation.records
    assert records.count.sum() == 7 + 2 * most
    blank = np.arange(most)[None] >= records.count[:, None]
    assert np.isinf(records.winner_lowest[blank]).all()
    assert np.all(records.ply[blank] == resignation.NO_PLY)
    assert int(resignation.rates(jax.tree.map(lambda x: x[7], records)).games) == records.count[7]


def test_going_back_restores_each_lane(four):
    there = redistribute.redistribute(four, shapes(2))
    back = redistribute.redistribute(there, shapes(4))
    np.testing.assert_array_equal(back.lanes.game, four.lanes.game)
    keys = [np.asarray(jax.random.key_data(x.lanes.key)) for x in (four, there, back)]
    np.testing.assert_array_equal(keys[1], keys[0][:2])
    np.testing.assert_array_equal(keys[2][:2], keys[1])
    assert not (keys[2][2:, None] == keys[0]).all(axis=-1).any()


def test_games_that_cannot_be_divided_equally_are_refused():
    with pytest.raises(ValueError, match="--devices 3: the run has 16 games in play"):
        in_parts(CONFIG, 4, 3)
    with pytest.raises(ValueError, match="cannot be divided as"):
        redistribute.redistribute(jax.tree.map(lambda x: x, shapes(4)), shapes_of_more())
    assert "devices" in configs.MAY_CHANGE


def shapes_of_more():
    mesh = AbstractMesh((2,), (steps.AXIS,), axis_types=(AxisType.Auto,))
    return tiny.placed(make_plan(CONFIG, 2), mesh).playing


@pytest.mark.parametrize("devices", [1, 2, 8])
def test_steps_are_of_the_same_run(devices):
    """A run's totals do not depend on the number of devices."""
    began, now = make_plan(CONFIG, 4), make_plan(CONFIG, devices, initial_devices=4)
    total = lambda plan: [
        plan.num_devices * x for x in (plan.play.batch, plan.buffer.capacity, plan.buffer.min_rows)
    ]
    assert total(now) == total(began)
    assert now.config.batch_size == began.config.batch_size == 24
    assert now.learner == began.learner
    window = lambda plan: plan.num_devices * int(plan.buffer.window(10_000 // plan.num_devices))
    assert abs(window(now) - window(began)) <= 8


@pytest.mark.thorough
def test_a_run_moves_from_four_devices_to_two_and_back(tmp_path, as_here):
    last_line = checked(as_here, "redistribute_check", tmp_path / "run")
    assert last_line == "4, 2 and 4 devices are one run"


@pytest.mark.thorough
def test_a_run_with_float16_policies_is_resumed(tmp_path, capsys):
    """The policies of its games and replay are float16 and become uint8; nothing else changes."""
    config, mesh = tiny.config(tmp_path / "run"), devices.mesh_of(1)
    tiny.claim(config)
    before = make_plan(dataclasses.replace(config, policy_dtype="float16"))
    state = steps.begin(before, mesh)
    rng = np.random.default_rng(3)

    def with_some(holder):
        policies = rng.dirichlet([0.3] * 10, holder.policy_target.shape[:2]).astype(np.float16)
        return holder.replace(policy_target=jnp.asarray(policies))

    games, buffer = state.playing.games, state.playing.buffer
    size = jnp.full_like(buffer.size, buffer.rows.game.shape[1])
    playing = state.playing.replace(
        games=games.replace(moves=with_some(games.moves)),
        buffer=buffer.replace(rows=with_some(buffer.rows), size=size),
    )
    checkpoint.save(
        config.folder / "checkpoints", 2, state.replace(playing=playing), tiny.host_state(2)
    )
    restored = run.begin(make_plan(config), mesh).state.playing
    assert "policy targets: uint8, before float16" in capsys.readouterr().err
    for was, now in (
        (playing.games.moves, restored.games.moves),
        (playing.buffer.rows, restored.buffer.rows),
    ):
        assert now.policy_target.dtype == jnp.uint8
        np.testing.assert_array_equal(
            now.policy_target, stored_policy(np, np.asarray(was.policy_target), "uint8")
        )
        for one, other in zip(*map(leaves_but_policies, (was, now)), strict=True):
            np.testing.assert_array_equal(one, other)
    assert by_lane_but_moves(restored) == by_lane_but_moves(playing)


def leaves_but_policies(rows):
    return jax.tree.leaves(rows.replace(policy_target=None))


def by_lane_but_moves(playing):
    return by_lane(playing.replace(games=playing.games.replace(moves=None)))


@pytest.mark.thorough
def test_devices_for_cores_give_equal_runs(tmp_path, as_here):
    assert checked(as_here, "cores_check", tmp_path) == "stopped or not, one run"
