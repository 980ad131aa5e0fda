"""Shards that would spoil a run: refused at once, or removed when an update is not finite."""

from __future__ import annotations

import json
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.compile import collectives
from gozero.play import row_checks, shards
from gozero.play.devices import AXIS, mesh_of
from gozero.play.shards import About, Place
from tests.train import worker_runs
from train import buffer as buffers
from train import checkpoint, loop, quarantine, replay, run


def write_poison(config, number, field="score", value=1e38, version=0):
    """Write a well-formed shard with a number in it that no game can produce."""
    rows, frequency = worker_runs.random_shard(config, 40, number)
    ones = np.ones_like(rows.score_weight)
    rows = rows.replace(**{field: np.full_like(rows.score, value), "score_weight": ones})
    path = shards.path_of(config.folder, Place(number, "bad", version))
    path.parent.mkdir(exist_ok=True)
    header = shards.rules_of(worker_runs._plan(config).rules)
    shards.write(path, header, About("bad", number, 1, 7, 3, 40), rows, frequency)
    return path


@pytest.mark.parametrize("width", [1, 2, 7, 64])
def test_one_bad_row_is_found_by_bisection(width):
    slots = np.arange(10, 10 + width)
    for bad in ({10}, {9 + width}, {10 + width // 2, 9 + width}, set()):
        calls = []

        def examine(some, bad=bad, calls=calls):
            assert len(some) == width  # one compiled shape for all
            calls.append(some)
            source = quarantine.FINE if bad.isdisjoint(some.tolist()) else -int(some[0])
            return np.array([source, 3])

        result, device = quarantine._bad_source(examine, slots)
        assert device == 3
        assert -result in bad if bad else result == quarantine.FINE
        assert len(calls) <= 1 + 2 * np.ceil(np.log2(width))


def test_a_game_is_removed_where_it_was_played_and_a_shard_everywhere(tmp_path):
    """Each device numbers its own games from 0."""
    config = worker_runs.config_in(tmp_path)
    rows, _ = worker_runs.random_shard(config, 3, 0)
    _, ring = buffers.of_rows(rows)
    rings = jax.tree.map(lambda x: jnp.stack([jnp.asarray(x)[None]] * 2), ring)
    game = jnp.array([[[5, 6, -2]], [[-2, 5, 6]]], jnp.int32)
    rings = rings.replace(rows=rings.rows.replace(game=game))
    remove = jax.vmap(quarantine._remove, in_axes=(0, None, None), axis_name=AXIS)
    own = remove(rings, jnp.int32(5), jnp.int32(1))
    gone = replay.GONE
    assert own.rows.game[:, 0].tolist() == [[5, 6, -2], [-2, gone, 6]]
    assert not own.rows.policy_target[1, 0, 1].any()
    shard = remove(rings, jnp.int32(-2), jnp.int32(1))
    assert shard.rows.game[:, 0].tolist() == [[5, 6, gone], [gone, 5, 6]]


def test_its_search_waits_like_other_programs_with_collectives(tmp_path, monkeypatch):
    monkeypatch.setattr(collectives, "compiled", lambda lowered, mesh: lambda *args: "compiled")
    program = types.SimpleNamespace(lower=lambda *args: args)
    monkeypatch.setattr(quarantine, "on_each", lambda *args, **more: program)
    plan = worker_runs._plan(worker_runs.config_in(tmp_path))
    examine, _ = quarantine._programs.__wrapped__(plan, mesh_of(1))
    assert examine(None, None, np.arange(3)) == "compiled"


def lines_of(config):
    text = (config.folder / "metrics.jsonl").read_text()
    return [json.loads(line, parse_constant=pytest.fail) for line in text.splitlines()]


@pytest.mark.slow
def test_a_run_continues_without_a_poisonous_shard(tmp_path, monkeypatch, capsys):
    """The reader refuses one such shard; two more get in while its checks are off."""
    config = worker_runs.config_in(tmp_path / "run", iterations=3, checkpoint_every=1)
    refused = write_poison(config, 0)
    iterate = loop.Loop.iterate

    def unchecked(one, *how):
        if one.iteration == 1:
            write_poison(config, 1, version=1)
            write_poison(config, 2, "komi", version=1)
            monkeypatch.setattr(row_checks, "check", lambda rules, rows: None)
        return iterate(one, *how)

    monkeypatch.setattr(loop.Loop, "iterate", unchecked)
    assert run.run(config) == 0
    stderr = capsys.readouterr().err
    assert f"skipped: shard {refused}: score of row 0 is not a score of that board" in stderr
    for number in (1, 2):
        named = f"quarantined: shard {shards.path_of(config.folder, Place(number, 'bad', 1))}: "
        assert named in stderr
    first, second, third = lines_of(config)
    assert (first["updates_dropped"], first["shards_skipped"]) == (0, 1)
    assert 0 < second["updates_dropped"] == third["updates_dropped"]
    assert third["steps"] > second["steps"]
    assert 0 < third["gradient_norm"] < 1e6
    saved = checkpoint.saved_in(config.folder / "checkpoints")
    assert [one.iteration for one in saved] == [3, 2]


@pytest.mark.slow
def test_a_run_stops_after_too_many_poisonous_shards(tmp_path, monkeypatch, capsys):
    config = worker_runs.config_in(tmp_path / "run", iterations=2, checkpoint_every=1)
    path = write_poison(config, 0)
    monkeypatch.setattr(row_checks, "check", lambda rules, rows: None)
    monkeypatch.setattr(run, "MOST_QUARANTINED", 1)
    with pytest.raises(SystemExit) as stop:
        run.run(config)
    assert stop.value.code == 1
    last_line = capsys.readouterr().err.splitlines()[-1]
    assert f"updates from the rows of shard {path} were not finite" in last_line
    assert last_line.endswith("the checkpoint of iteration 1 is kept, if there is one")
    assert [one.iteration for one in checkpoint.saved_in(config.folder / "checkpoints")] == [1]
    assert run.run(config) == 0  # on from there, without them
    assert [line["updates_dropped"] > 0 for line in lines_of(config)] == [True, True]
