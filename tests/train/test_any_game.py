"""A game other than Go, learnt from self-play: its rows, losses, a run and its ratings."""

from __future__ import annotations

import csv
import dataclasses
import json
import os
import signal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.games.registry import make_game
from gozero.nets import network, weights
from gozero.play import openings, shards
from gozero.play.rows import row_shapes
from tests.train import tiny
from train import buffer as buffers
from train import checkpoint, evaluate, folder, replay, run, supervised
from train.classical import balancing, balancing_descent
from train.loop import Loop
from train.plan import make_plan, rules_of
from train.presets import PRESETS

GAME = make_game("connect4")
OF_CONNECT4 = {"game": "connect4", "size": None, "komi": (), "evaluate_every": 2}
SMALL = {"evaluate_games": 4, "evaluate_simulations": 2}


def config_in(path, **changes):
    return tiny.config(path, **(OF_CONNECT4 | SMALL | changes))


def test_a_row_and_its_mirror_image():
    state = GAME.init(jax.random.key(0))
    for action in (0, 0, 1):
        state = GAME.play(state, jnp.int32(action))
    blank = jax.tree.map(lambda x: x[0], buffers.start(GAME, buffers.BufferConfig(1)).rows)
    row = blank.replace(
        position=state,
        legal=jnp.packbits(GAME.legal(state).at[6].set(False)),
        policy_target=jnp.arange(7, dtype=jnp.float16) / 21,
        outcome=jnp.float32(-1),
        root_value=jnp.float32(0.5),
        value_weight=jnp.float16(1),
    )
    examples = [replay.example(GAME, "", row, k, 0.75) for k in range(3)]
    jax.tree.map(np.testing.assert_array_equal, examples[0], examples[2])
    (inputs, first), (mirrored, second), _ = examples
    np.testing.assert_array_equal(inputs, GAME.observe(state))
    np.testing.assert_array_equal(mirrored, GAME.observe(state)[:, ::-1])
    assert first.legal.tolist() == [True] * 6 + [False]
    assert second.legal.tolist() == [False] + [True] * 6
    np.testing.assert_allclose(second.policy_target, np.arange(6, -1, -1) / 21, atol=1e-3)
    assert first.outcome == second.outcome == -0.75 + 0.25 * 0.5
    assert first.score is first.ownership is first.score_weight is None


def test_openings_of_any_game():
    """Three plies in 7 columns; some move orders reach the same board, which counts once."""
    drawn = openings.distinct(GAME, 3, jax.random.key(1), 1000)
    assert len(drawn) < 7**3
    states = openings.after(GAME, drawn)
    seen = np.asarray(jax.vmap(GAME.observe)(states))
    assert len(np.unique(seen.reshape(len(seen), -1), axis=0)) == len(drawn) == 196 + 42


def test_a_game_by_its_name_is_a_preset_and_is_made_once():
    config = run.parse(["--game", "connect4", "--iterations", "3"])
    assert config == dataclasses.replace(PRESETS["connect4"], iterations=3)
    assert run.parse(["--game=hex", "--size", "5"]).size == 5
    assert rules_of(config) is rules_of(PRESETS["connect4"])
    plan = make_plan(config)
    assert plan.learner.network.observation == (6, 7, 3)
    assert plan.play.komi == ()


def test_a_preset_of_go_serves_other_games():
    config = run.parse(["--preset", "5x5", "--game", "hex"])
    assert (config.size, config.komi, config.auxiliary) == (5, (), False)
    assert config.reuse == PRESETS["5x5"].reuse
    assert make_plan(config).play.game.num_actions == 25
    config = run.parse(["--preset=9x9-cpu", "--game=connect4", "--reuse", "1"])
    assert (config.size, config.komi, config.reuse) == (None, (), 1.0)
    assert run.parse(["--preset", "hex", "--game", "pgx:othello"]).size is None
    assert run.parse(["--preset", "5x5", "--game", "go"]) == PRESETS["5x5"]


@pytest.mark.thorough
def test_a_run_learns_resumes_and_is_rated(tmp_path, capsys, monkeypatch):
    config, iterate = config_in(tmp_path / "run"), Loop.iterate

    def told_to_stop(loop, goes_on):
        if loop.iteration == 1:  # during the second iteration
            os.kill(os.getpid(), signal.SIGTERM)
        return iterate(loop, goes_on)

    monkeypatch.setattr(Loop, "iterate", told_to_stop)
    assert run.run(config) == 143
    monkeypatch.undo()
    assert [one.iteration for one in checkpoint.saved_in(config.folder / "checkpoints")] == [2]
    assert run.run(config) == 0
    lines = folder.read_lines(config.folder / folder.METRICS)
    assert [line["iteration"] for line in lines] == [1, 2, 3, 4]
    assert {*lines[-1]["losses"]} == {"policy", "value"}
    assert lines[-1]["steps"] > 0
    assert lines[-1]["by_komi"] == {}
    assert "before" in lines[-1]
    shape, _, about = weights.load(config.folder / folder.NEWEST)
    assert (about["game"], shape.num_actions, shape.observation) == ("connect4", 7, (6, 7, 3))

    as_in_the_run = ["--games", "4", "--simulations", "2"]
    assert evaluate.main(["--out", str(config.folder), *as_in_the_run]) == 0
    with (config.folder / evaluate.RATINGS).open() as file:
        rated = [row["player"] for row in csv.DictReader(file)]
    assert sorted(rated) == ["000000", "000002", "000004", "random", "uniform"]
    with pytest.raises(SystemExit):
        evaluate.main(["--out", str(config.folder), "--command", "gnugo"])
    assert "this is a run of connect4" in capsys.readouterr().err


def test_training_on_a_folder_of_another_game(tmp_path):
    path = shards.path_of(tmp_path, shards.Place(0, "a"))
    path.parent.mkdir()
    record = make_plan(config_in(tmp_path)).rules_record
    game = shards.game_of(record)
    rows = jax.tree.map(lambda x: np.ones((8, *x.shape), x.dtype), row_shapes(game))
    new = jax.vmap(game.init)(jax.random.split(jax.random.key(0), 8))
    rows = rows.replace(
        position=jax.device_get(new),
        legal=np.full((8, 1), 254, np.uint8),
        policy_target=np.full((8, 7), 255, np.uint8),
        game=np.arange(8, dtype=np.int32),
    )
    shards.write(path, record, shards.About("a", 0, 1, 0, 8, 8), rows, np.ones(8))
    argv = ["--data", tmp_path, "--steps", 2, "--channels", 8, "--blocks", 1, "--batch-size", 4]
    assert supervised.main([*map(str, argv)]) == 0
    shape, _, about = weights.load(tmp_path / "weights.safetensors")
    assert (about["steps"], shape.num_actions, shape.observation) == (2, 7, (6, 7, 3))
    options = balancing.BalancingConfig(out=tmp_path / "strengths.safetensors", data=tmp_path)
    with pytest.raises(ValueError, match=r"--data .*: the games there are not games of Go"):
        balancing_descent._positions(options)


def test_weights_of_another_game_are_refused(tmp_path):
    own = make_plan(config_in(tmp_path / "run")).learner.network
    other = dataclasses.replace(own, num_actions=42, board_size=None)
    params = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), network.shapes(other))
    path = weights.save(tmp_path / "other.safetensors", params, other)
    with pytest.raises(ValueError, match="of a network for another game"):
        run.run(config_in(tmp_path / "run", weights=path))


def test_a_run_of_an_earlier_version_is_one_of_go(tmp_path):
    config = tiny.config(tmp_path / "run")
    tiny.claim(config)
    path = config.folder / "config.json"
    unsaid = "game", "value_scale", "opening_searched"
    path.write_text(json.dumps({k: v for k, v in config.plain.items() if k not in unsaid}))
    assert folder.read_config(config.folder) == config
    assert tiny.claim(config)
