"""Dry runs: the predicted memory, time and cost of a run, against figures worked by hand."""

from __future__ import annotations

import dataclasses
import types
from typing import Any

import jax
import pytest
from jax.sharding import AbstractMesh, AxisType

from gozero.compile import ahead
from gozero.compile.estimate import LoopEstimate, TimedInstruction
from gozero.runs.memory import num_bytes
from tests.train import tiny
from train import command, dry_run, steps
from train.dry_run import DryRunConfig
from train.plan import make_plan
from train.presets import PRESETS

SETTINGS = (
    ("preset", "3x3"),
    ("batch", 4),
    ("blocks", 1),
    ("channels", 8),
    ("moves", 3),
    ("simulations", 2),
    ("max-considered", 2),
    ("batch-size", 8),
    ("capacity", 100),
    ("window", 50),
    ("min-rows", 20),
)
TINY = ["--dry-run", *(str(word) for name, value in SETTINGS for word in (f"--{name}", value))]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty working directory for the command."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.thorough
def test_a_dry_run_compiles_and_writes_nothing(here, capsys):
    assert command.main([*TINY, "--target", "cpu"]) == 0
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert lines[0] == "3x3 on cpu, devices: 1; nothing is run"
    assert lines[1].startswith("memory by the flags: ")
    assert [line.partition(":")[0] for line in lines[2:4]] == ["self-play", "learning"]
    assert " MiB a device: arguments " in lines[2]
    assert lines[4].startswith("times: the compiler gives no estimate")
    assert captured.err.splitlines()[0] == "compiling self-play, which takes minutes"
    assert list(here.iterdir()) == []


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("v5e", "--target v5e: libtpu is not installed: pip install 'gozero[tpu-ahead]'"),
        ("v4", "target v4: expected one of v5e, v6e, v5p, h100, cpu, optionally with a topology"),
    ],
)
def test_invalid_targets_are_one_line(here, monkeypatch, capsys, target, message):
    monkeypatch.setattr(ahead.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit) as end:
        command.main([*TINY, "--target", target])
    assert end.value.code == 2
    assert message in capsys.readouterr().err


def test_times_games_and_cost_by_hand():
    """Self-play with only full searches takes 3.2 s; a call of 16 steps, 0.8 s; on 64 chips."""
    preset = dataclasses.replace(PRESETS["19x19-slice"], iterations=1000, reuse=4.0)
    settings: dict[str, Any] = vars(preset) | {"plies": 200.0, "chip_hour": 1.5}
    config = DryRunConfig(**settings | {"rows_per_device": 1})
    plan, target = make_plan(config, 64), ahead.target("v5litepod-64")
    step = lambda seconds, sent: TimedInstruction(
        "fusion", "f32[]", "", seconds, False, sent, False
    )
    search = LoopEstimate("", "", 32.0, True, (step(3.2 / 32 / 32, 0),))
    play = LoopEstimate(
        "", "", 1.0, True, (), 0, (LoopEstimate("", "", 32.0, True, (), 0, (search,)),)
    )
    kernel = step(0.0, 0)._replace(is_custom=True)
    learn = LoopEstimate("", "", 1.0, True, (step(0.8, 16 * 2**20), kernel))
    result = dry_run.times(config, play, learn, 16)
    lines = list(dry_run._speed_report(plan, config, target, result))
    # 256 games a chip, 32 moves: 524,288 positions. A quarter of the searches have 32 simulations,
    # the others 8: 14 on average, so 14 / 32 of 3.2 s.
    assert lines[0] == (
        "self-play, estimated: 1.4 s for 32 moves of 16,384 games, 5,242,880 simulations/s"
    )
    # 524,288 / 4 rows, each used 4 times, in steps of 2,048: 256 steps of 0.05 s.
    assert lines[1].startswith("learning, estimated: 12.8 s for 256.0 steps of 2,048 positions; ")
    assert lines[1].endswith("1.0 MiB in all between devices")
    # 524,288 / 200 games in 14.2 s: 184.6 a second; a million in 1.505 hours of 64 chips.
    assert lines[2] == (
        "games, estimated: 184.6 games/s of 200 moves, a million in 1.5 hours; at $1.5 a "
        "chip-hour $144"
    )
    assert lines[3] == "Pallas kernels, whose time these estimates exclude: 1"
    assert "searches of 14 simulations on average" in lines[4]


def test_several_leaves_a_step():
    """A search of 32 simulations is then a loop of 4 steps, of 8 simulations each."""
    step = TimedInstruction("fusion", "f32[]", "", 0.2, False, 0, False)
    search = LoopEstimate("", "", 4.0, True, (step,))
    moves = LoopEstimate("", "", 32.0, True, (), 0, (search,))
    play = LoopEstimate("", "", 1.0, True, (), 0, (moves,))
    preset = dataclasses.replace(PRESETS["19x19-slice"], leaves=8)
    config = DryRunConfig(**vars(preset))
    times = dry_run.times(config, play, LoopEstimate("", "", 1.0, True, ()), 16)
    assert times.simulation_s == pytest.approx(0.2 / 8)
    report = dry_run._gpu_report(make_plan(config, 64), {"self-play": play, "learning": play})
    assert "kernels, 0 loops" in report
    assert "conditionals in a step of 8 simulations of 256 games" in report


def test_too_much_memory_is_refused():
    needed = dict.fromkeys(("argument_bytes", "output_bytes", "compile_cpu_seconds"), 0)
    compiled: Any = types.SimpleNamespace(temp_bytes=17 * 2**30, **needed)
    with pytest.raises(ValueError, match=r"self-play: a device would need 17,408.0 .* and has 16"):
        dry_run._memory("self-play", compiled, ahead.target("v5e"), 0)
    compiled.temp_bytes = 2**30
    report = dry_run._memory("self-play", compiled, ahead.target("v5e"), 2**20)
    assert report.startswith("self-play: 1,025.0 MiB a device of 16,384.0 MiB: arguments 0.0 MiB")


def test_memory_beside_each_program():
    plan = make_plan(tiny.config(), 4)
    mesh: Any = AbstractMesh((4,), (steps.AXIS,), axis_types=(AxisType.Auto,))
    shapes = jax.eval_shape(lambda: steps.begin(plan, mesh))
    others = dry_run._other_state(shapes, lambda state: state.playing, ahead.target("v5e:2x2"))
    assert num_bytes(others) == num_bytes(shapes.learner)
    others = dry_run._other_state(shapes, lambda state: state.learner, ahead.target("v5e:2x2"))
    assert num_bytes(others) == num_bytes(shapes.playing) // 4
