"""The table of accelerators: which rows are made, what they hold, and how they are shown."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys
import textwrap
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from experiments.accelerators import first_hour, launches, readme, row, run, slices, table
from experiments.accelerators.config import RESULTS, AcceleratorsConfig
from experiments.accelerators.programs import PROGRAMS, Program
from experiments.accelerators.row import Row
from experiments.output import appended_csv
from gozero.compile import ahead
from train.presets import PRESETS


def tiny(target: ahead.Target) -> Program:
    """Ten rounds of a matrix product."""
    del target

    def work(x):
        return jax.lax.fori_loop(0, 10, lambda _, x: jnp.tanh(x @ x), x)

    return Program(work, lambda: (jnp.ones((16, 16)),), "rounds", 10, (10,))


def test_programs_are_chosen_by_names_and_by_parts_of_names():
    assert run.select_programs([]) == list(PROGRAMS)
    assert run.select_programs(["rules-9x9"]) == ["rules-9x9"]  # but not rules-9x9-simple
    assert run.select_programs(["learn", "pgx-9x9"]) == [
        "pgx-9x9",
        *(f"learn-{name}" for name in PRESETS),
    ]
    with pytest.raises(ValueError, match="--programs chess: expected some of rules-9x9, "):
        run.select_programs(["rules-9x9", "chess"])


def test_a_row_of_a_local_target_is_measured_too(monkeypatch, tmp_path):
    monkeypatch.setitem(PROGRAMS, "tiny", tiny)
    found: Any = row.make_row("tiny", ahead.target("cpu"), 2, tmp_path)
    assert found.error is None
    assert (found.unit, found.units) == ("rounds", 10)
    assert found.argument_bytes == 16 * 16 * 4
    assert found.kernels >= 1
    assert found.call_ms is None  # a CPU's compiled text has no times
    assert found.measured_ms > 0
    assert found.measured_units_per_s == pytest.approx(10 / found.measured_ms * 1e3)
    assert found.device == "cpu"
    assert {path.name for path in tmp_path.iterdir()} == {"tiny.cpu.hlo", "tiny.cpu.txt"}


@pytest.fixture
def accelerators_config(tmp_path):
    return AcceleratorsConfig(out=tmp_path / "rows.jsonl", target=("cpu", "h100"), timeout=60)


def test_rows_are_added_one_by_one_and_existing_ones_skipped(
    monkeypatch, accelerators_config, capsys
):
    computed, works = [], ["a", "c"]

    def in_child(config, name, target, here):
        computed.append((name, target.name, here))
        missing = "JAX's CUDA plugin is not installed: pip install 'gozero[gpu-ahead]'"
        error = missing if target.name == "h100" else None if name in works else "no"
        numbers = {} if error else {"compile_s": 1.0, "temp_bytes": 0, "argument_bytes": 0}
        return dataclasses.asdict(Row(name, target.name, error=error, **numbers))

    monkeypatch.setattr(run, "in_child", in_child)
    monkeypatch.setattr(run, "device_here", lambda targets: "cpu")
    targets = [ahead.target(name) for name in accelerators_config.target]
    run.work(accelerators_config, ["a", "b"], targets)
    assert computed == [("a", "cpu", True), ("b", "cpu", True), ("a", "h100", False)]
    assert "h100: JAX's CUDA plugin is not installed" in capsys.readouterr().err
    rows = run.read(accelerators_config.out)
    assert [(one["program"], one["error"]) for one in rows] == [("a", None), ("b", "no")]
    assert {one["code"] for one in rows} == {run.code_hash()}

    computed.clear()
    assert run.errors(accelerators_config, ["a", "b"], targets) == ["no"]
    assert run.errors(accelerators_config, ["a"], targets) == []  # h100 has no row

    again = dataclasses.replace(accelerators_config, skip=True)
    run.work(again, ["a", "b", "c"], targets[:1])
    assert [name for name, *_ in computed] == ["b", "c"]
    works.append("b")
    run.work(again, ["b"], targets[:1])
    assert run.errors(accelerators_config, ["a", "b", "c"], targets) == []  # b's first row is old
    monkeypatch.setattr(run, "code_hash", lambda: "other")
    computed.clear()
    run.work(dataclasses.replace(accelerators_config, skip=True), ["a"], targets[:1])
    assert [name for name, *_ in computed] == ["a"]


@pytest.mark.thorough
def test_errors_in_a_child_process_are_recorded_in_the_row(accelerators_config):
    """The real child process, for an unknown program and for one that times out."""
    result = run.in_child(accelerators_config, "chess", ahead.target("cpu"), True)
    assert result["error"] == "KeyError: 'chess'"
    result = run.in_child(
        dataclasses.replace(accelerators_config, timeout=0.01),
        "rules-9x9",
        ahead.target("cpu"),
        True,
    )
    assert result["error"] == "not finished within 0.01 s"


def test_a_child_that_crashes_is_a_row_with_an_error(accelerators_config, monkeypatch):
    monkeypatch.setattr(run.sys, "executable", "false")
    result = run.in_child(accelerators_config, "rules-9x9", ahead.target("cpu"), True)
    assert result["error"].startswith("the compiler's process ended with status 1")


def a_row(**changes):
    numbers = {
        "program": "rules",
        "target": "v5e",
        "unit": "positions",
        "units": 1000,
        "compile_s": 2.5,
        "temp_bytes": 3 * 2**20,
        "argument_bytes": 0,
        "call_ms": 2.0,
        "round_ms": 0.5,
        "units_per_s": 5e5,
        "network_share": 0.25,
        "kernels": 7,
        "host_loops": 2,
        "conditionals": 1,
        "kernels_outside": 3,
        "host_loops_outside": 0,
        "conditionals_outside": 0,
        "custom_kernels": 0,
    }
    return dataclasses.asdict(Row(**(numbers | changes)))


def test_the_table_has_the_newest_of_each_row():
    text = table.of([a_row(compile_s=9.0), a_row(), a_row(program="x", error="too | large")])
    lines = text.splitlines()
    assert lines[2] == (
        "| rules | v5e | 2.5 s | 3 MiB | 0 MiB | 0.5 ms | 500k positions/s | 25% |  |  |  |"
    )
    assert "| x | v5e | too / large |" in lines[3]
    assert len(lines) == 4


def test_a_gpus_row_has_launches_and_no_times():
    times = dict.fromkeys(("call_ms", "round_ms", "units_per_s", "network_share"))
    line = table.of([a_row(target="h100", **times)]).splitlines()[2]
    assert line == "| rules | h100 | 2.5 s | 3 MiB | 0 MiB |  |  |  | 7 + 2 + 1 | 3 + 0 + 0 |  |"


def test_earlier_rows_precede_current_ones():
    line = table.of([a_row()], [a_row(round_ms=5.0)]).splitlines()[2]
    assert "| 5 ms -> 0.5 ms |" in line
    assert "| 2.5 s |" in line  # unchanged


def test_measurements_are_shown_beside_estimates():
    text = table.of([a_row(measured_units_per_s=4e5)])
    assert text.splitlines()[2].endswith("| 400k positions/s, 0.80 of the estimate |")


def test_the_first_hour_report_checks_its_requirements(tmp_path, capsys):
    rows, results = tmp_path / "rows.jsonl", tmp_path / "results.csv"
    measured = {"playouts-9x9": 19e6, "puct-9x9": 6e5}
    rows.write_text(
        "".join(
            json.dumps(a_row(program=name, measured_units_per_s=speed)) + "\n"
            for name, speed in measured.items()
        )
    )
    results.write_text("match,games,score\n9x9-gnugo,200,0.81\n")
    musts = ["--must", "playouts-9x9=20e6", "puct-9x9=0.5e6", "rave-9x9=1"]
    assert first_hour.main([str(rows), *musts]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "playouts-9x9: 19M positions/s measured, must 20M positions/s: does not hold",
        "puct-9x9: 600k positions/s measured, must 500k positions/s: holds",
        "rave-9x9: not measured",
    ]
    assert first_hour.main([str(rows), *musts[:1], musts[2]]) == 0
    assert first_hour.main(["--score", str(results), "--least", "0.8"]) == 0
    assert first_hour.main(["--score", str(results), "--least", "0.9"]) == 1
    assert "81.0% of 200 games, must 90%: does not hold" in capsys.readouterr().out


def test_pallas_kernels_are_reported_as_missing():
    text = table.of([a_row(custom_kernels=2)])
    assert "| over 0.5 ms | below 500k positions/s, kernels of Pallas not counted: 2 |" in text


def test_a_row_is_a_line_of_json(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(a_row()) + "\n")
    assert run.read(path) == [a_row()]
    assert run.read(tmp_path / "none.jsonl") == []


def test_slices_by_hand():
    """On 4 and on 64 chips, full searches take 3.2 s, of which 18 of 32 simulations are saved; they
    learn 16 steps of 20 ms, and 64 of 8 ms."""

    def programs(target, step_ms, batch_size):
        play = {"program": "play-19x19-slice", "call_ms": 3200.0, "round_ms": 3200 / 32 / 32}
        numbers = {"units": 16 * batch_size, "collectives": 16.0, "sent_bytes": 16 * 2.0**20}
        learn = {"program": "learn-19x19-slice", "call_ms": 16 * step_ms} | numbers
        return [a_row(target=target, **of_one) for of_one in (play, learn)]

    rows = [
        a_row(target="v5e:4x4"),
        *programs("v5e:8x8", 8.0, 8192),
        *programs("v5e:2x2", 20.0, 2048),
    ]
    lines = slices.table(rows, "19x19-slice").splitlines()[2:]
    assert len(lines) == 2
    # 32 moves of 256 games a chip, 288.8 moves a game: in 1.4 + 0.32 s, and in 1.4 + 0.512 s.
    assert lines[0] == (
        "| v5e:2x2 | 0.00 / 0.00 GiB | 1.4 s | 16 x 512 | 0.32 s, 20 ms a step | 1 of 1.0 MiB | "
        "65.97 | 100.0% |"
    )
    assert lines[1] == (
        "| v5e:8x8 | 0.00 / 0.00 GiB | 1.4 s | 64 x 128 | 0.512 s, 8 ms a step | 1 of 1.0 MiB | "
        "949.5 | 90.0% |"
    )
    alone = [row for row in rows if row["target"] == "v5e:8x8"]
    one_chip = a_row(program="play-19x19-slice", target="v5e", call_ms=3200.0, round_ms=3.125)
    assert slices.table([alone[1], one_chip], "19x19-slice").splitlines()[2] == lines[1].replace(
        "90.0%", "100.0%"
    )


@pytest.mark.slow
def test_the_first_hour_can_be_rehearsed(tmp_path):
    script = pathlib.Path(run.ROOT) / "experiments/accelerators/first_hour.sh"
    env = os.environ | {"PYTHON": sys.executable, "JAX_PLATFORMS": "cpu"}
    command = ["bash", str(script), "cpu", str(tmp_path)]
    command += ["2"] if shutil.which("gnugo") else []
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    rows = run.read(tmp_path / "rows.jsonl")
    assert [one["program"] for one in rows] == ["rules-9x9-simple", "play-3x3", "learn-3x3"]
    assert all(one["measured_ms"] > 0 for one in rows)
    assert (tmp_path / "run/weights.safetensors").exists()


@pytest.mark.slow
@pytest.mark.parametrize("target", ["v5e", "h100"])
@pytest.mark.parametrize("name", [name for name in PROGRAMS if name[:3] not in ("pgx", "mct")])
def test_every_program_compiles_for_accelerators(name, target):
    """Invariant 7, on any machine: no accelerator is needed."""
    target = ahead.target(target)
    try:
        target.devices  # noqa: B018
    except ahead.MissingCompiler as error:
        pytest.skip(str(error))
    found: Any = row.make_row(name, target, 1, None)
    assert found.kernels > 0
    assert found.temp_bytes < ahead.CHIPS[target.chip].memory_bytes
    if name.startswith(("play-", "learn-", "worker-")):  # all state carried from call to call
        assert found.output_bytes < 2**20


@pytest.mark.parametrize("chip", ["v5e", "v6e", "v5p", "h100"])
def test_every_preset_has_rows_for_every_chip(chip):
    """In the committed rows each program compiled, fits the chip and updates its state in place."""
    rows = [row for name in ("presets", "others") for row in run.read(RESULTS / f"{name}.jsonl")]
    newest = {row["program"]: row for row in rows if row["target"] == chip}
    for name in (f"{part}-{preset}" for preset in PRESETS for part in ("play", "learn", "worker")):
        row = newest[name]
        assert row["error"] is None, name
        assert row["temp_bytes"] + row["argument_bytes"] < ahead.CHIPS[chip].memory_bytes, name
        assert row["output_bytes"] < 2**20, name


def test_the_host_of_an_h100_waits_for_no_part_of_a_simulation_or_a_playout():
    newest = {(row["program"], row["target"]): row for row in run.read(RESULTS / "rows.jsonl")}
    rows = [row for (_, target), row in newest.items() if target == "h100"]
    assert len(rows) > 10
    for one in rows:
        assert (one["host_loops"], one["conditionals"]) == (0, 0), one["program"]


def test_rows_are_written_as_they_come(tmp_path):
    path = tmp_path / "rows.csv"
    with appended_csv(path) as add:
        add({"board": 9, "note": "x, y"})
        assert path.read_bytes() == b'board,note\n9,"x, y"\n'
        add({"board": 19, "note": None})
    assert path.read_bytes() == b'board,note\n9,"x, y"\n19,\n'


def test_a_table_of_networks_in_slices_by_hand(tmp_path):
    path = tmp_path / "evaluation.csv"
    path.write_text(
        "board,network,batch,at_a_time,chosen,round_ms,temp_mib\n"
        "9,6x64,1024,1024,False,0.902,70\n"
        "9,6x64,1024,256,True,0.5,3\n"
        "19,6x64,512,512,True,1.5,0\n"
    )
    lines = readme.evaluation(path).splitlines()
    assert lines[0].startswith("| board | network | batch | all at once | 4 slices | chosen |")
    assert lines[2] == "| 9x9 | 6x64 | 1,024 | 0.90 ms | 0.50 ms | 256 at a time | 70 / 3 MiB |"
    assert lines[3] == "| 19x19 | 6x64 | 512 | 1.50 ms |  | 512 at a time | 0 / 0 MiB |"


def test_a_table_of_a_searchs_kernels_by_hand(tmp_path):
    """A simulation takes 0.9 ms, 80% of it in the network; with 100 us more of kernels, 72%."""
    kernels = "descend", "read_along", "back_up", "move", "legal", "game", "branch", "area"
    row = {f"{name}_us": 1.0 for name in kernels} | {"planes_us": 92.0, "kernels_us": 100.0}
    (tmp_path / "bundles.jsonl").write_text(
        json.dumps({"program": "puct", "target": "v5e", "longest_path": 2.9} | row) + "\n"
    )
    (tmp_path / "rows.jsonl").write_text(
        "".join(
            json.dumps(a_row(program="puct", network_share=share, round_ms=0.9)) + "\n"
            for share in (0.5, 0.8)
        )
    )
    text = readme.searches(tmp_path / "bundles.jsonl", tmp_path / "rows.jsonl")
    assert text.splitlines()[2] == (
        "| puct | 2.9 | 1.0 us | 1.0 us | 1.0 us | 1.0 us | 1.0 us | 2.0 us | 1.0 us | 92.0 us | "
        "100.0 us | 1 ms | 72.0% |"
    )


_THUNKS = """
000: kCommandBuffer [source       | next=003 (1)]
    001: kCustomKernel [source | sink] loop_add_fusion
    002: kCustomKernel [source | sink] loop_sub_fusion
003: kWhile         [prev=000 (1) | next=010 (1)]
condition:
    004: kCustomKernel [source | sink] loop_compare_fusion
  body:
    005: kConvolution [source | next=000 (1)] ConvolutionCmd
    000: kCommandBuffer [prev=005 (1) | sink        ]
        006: kKernel [source | sink] kernel=descend
        007: kCopy [source | sink] MemcpyDeviceToDeviceCmd
    008: kKernel [source | sink] kernel=back_up
010: kCustomKernel  [prev=003 (1) | sink        ] loop_select_fusion
"""


def test_launches_are_counted_by_command_buffers():
    """A round launches a convolution, a buffer of two and a kernel; around it are two launches."""
    assert launches.read(_THUNKS) == launches.Launches(a_round=3, around=2, kernels=4)


def test_a_loop_in_a_command_buffer_is_one_launch():
    within = "000: kCommandBuffer [source | sink]\n" + textwrap.indent(_THUNKS, " " * 4)
    assert launches.read(within) == launches.Launches(a_round=0, around=1, kernels=4)
