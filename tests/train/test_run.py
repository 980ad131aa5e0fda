"""Flags, presets, folders and memory: the checks before anything is played."""

from __future__ import annotations

import dataclasses
import functools
import json
import pathlib
import re
import shlex

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.compile import mode
from gozero.nets import network, weights
from gozero.nets.network import NetworkConfig
from gozero.play import devices
from gozero.runs import files
from gozero.runs.memory import num_bytes
from gozero.search.rules.puct import Puct
from tests.nets import katago_files
from tests.train import tiny
from train import command, folder, matches, memory, run, steps
from train.folder import TrainFolder
from train.plan import make_plan, num_steps
from train.presets import PRESETS

ROOT = pathlib.Path(__file__).parents[2]


@pytest.mark.parametrize("config", PRESETS.values(), ids=PRESETS)
def test_presets_are_valid(config):
    plan = make_plan(config)
    assert plan.simulations(0) == (config.first_simulations or config.simulations)
    assert plan.simulations(config.iterations - 1) == config.simulations
    assert num_steps(config, 1) > config.warmup_steps
    assert config.plain["out"] == f"runs/zero-{config.preset}"
    assert config.evaluate_every or config.iterations < 400  # long runs are rated as they go


def test_flags_override_a_preset():
    config = run.parse(["--preset", "3x3", "--komi", "7.5", "8.5", "--batch=64"])
    assert config == dataclasses.replace(PRESETS["3x3"], komi=(7.5, 8.5), batch=64)


def test_only_puct_draws_moves_by_visits_by_default():
    drawn = {
        root: make_plan(tiny.config(root=root, temperature_moves=None)).play.schedule.moves
        for root in ("gumbel", "puct")
    }
    assert drawn == {"gumbel": 0, "puct": 4}


def test_the_command_of_the_how_to_is_valid():
    page = (ROOT / "docs" / "howto" / "alphazero.md").read_text()
    (command_line,) = re.findall(r"^python -m train (--.*)$", page, re.MULTILINE)
    config = run.parse(shlex.split(command_line))
    assert (config.root, config.leaves, config.virtual_loss, config.gate) == ("puct", 8, 3, 0.55)
    plan = make_plan(config)
    assert plan.play.reuse_subtree
    assert plan.buffer.past_boards > 0
    assert plan.play.search.select == Puct(1.25, 19_652)
    for flag in re.findall(r"`(--[\w-]+)", page):
        assert hasattr(config, flag[2:].replace("-", "_")) or flag == "--help"


def test_the_constants_of_puct_reach_self_play_and_matches():
    for options, expected in (
        ({}, Puct(1.25, 19_652)),
        ({"c_puct": 2.0, "c_base": 0.0}, Puct(2.0)),
    ):
        plan = make_plan(tiny.config(root="puct", forced_playouts=2.0, **options))
        assert plan.play.search.select == plan.play.search.root_select.rule == expected
        terms = matches.Terms.of(plan.config, plan.rules)
        assert matches.search_of(terms, plan.learner.network).select == expected
    with pytest.raises(ValueError, match=r"--c-base 1.0: not with --root gumbel"):
        tiny.config(c_base=1.0)


def test_an_earlier_run_keeps_its_constants_of_puct(tmp_path):
    config = tiny.config(tmp_path / "run", root="puct")
    plain = {name: x for name, x in config.plain.items() if name not in ("c_puct", "c_base")}
    config.folder.mkdir()
    files.write_json(config.folder / "config.json", plain)
    for _ in range(2):  # the second time, config.json has them
        assert folder.as_begun(config).puct == folder.read_config(config.folder).puct == Puct(1.5)
        assert tiny.claim(folder.as_begun(config))
    other = folder.as_begun(dataclasses.replace(config, c_puct=2.0))
    assert other.puct == Puct(2.0)
    with pytest.raises(ValueError, match=r"--c-puct was 1\.5 and is 2\.0"):
        tiny.claim(other)


def test_a_new_run_records_its_constants_of_puct(tmp_path):
    config = tiny.config(tmp_path / "run", root="puct", c_puct=2.0)
    assert not tiny.claim(folder.as_begun(config))
    begun = folder.read_config(config.folder)
    assert (begun.c_puct, begun.c_base) == (2.0, 19_652)
    assert folder.as_begun(tiny.config(tmp_path / "run", root="puct")) == begun
    assert folder.as_begun(tiny.config(tmp_path / "run")).c_puct is None


def test_simulations_double_over_equal_parts_of_a_run():
    plan = make_plan(tiny.config(iterations=8, first_simulations=3, simulations=16))
    assert [plan.simulations(i) for i in range(9)] == [3, 3, 6, 6, 12, 12, 16, 16, 16]


@pytest.mark.parametrize(
    ("cores", "batch", "batch_size", "expected"),
    [
        *((2, 200, 256, 2), (2, 64, 64, 2), (8, 200, 256, 8), (3, 200, 256, 2), (4, 16, 256, 2)),
        *((2, 12, 256, 1), (2, 201, 256, 1)),
    ],
)
def test_the_cores_of_a_run(cores, batch, batch_size, expected, monkeypatch):
    """As many as divide games and batches and have eight games and rows each."""
    monkeypatch.setattr(run.jax, "local_devices", lambda: [None] * cores)
    monkeypatch.setattr(run.devices, "mesh_of", lambda count: count)
    config = tiny.config(batch=batch, batch_size=batch_size, devices=None)
    assert run._mesh(config, on_cores=True) == expected


CAPPED = {"iterations": 40, "cheap_simulations": 1, "full_share": 0.25, "opening_plies": 0}


def test_cheap_searches_add_no_steps():
    config = tiny.config(**CAPPED)
    positions = 40 * 6 * 8
    assert num_steps(dataclasses.replace(config, cheap_simulations=0), 1) == positions // 16
    assert num_steps(config, 1) == positions // 4 // 16
    assert make_plan(config).learner.optimizer.total_steps == num_steps(config, 1)


@pytest.mark.slow
def test_the_learning_rate_schedule_with_a_playout_cap():
    """Approximately: cheap searches are drawn at random, and some games do not finish."""
    config = tiny.config(**CAPPED)
    plan, mesh = make_plan(config), devices.mesh_of(1)
    play = steps.make_play(plan, mesh, config.simulations)
    state = steps.begin(plan, mesh)
    params, playing = state.learner.ema, state.playing
    for _ in range(config.iterations):
        playing, tallies = play(params, playing)
    taken = int(tallies.added) * config.reuse / config.batch_size
    assert 0.75 * num_steps(config, 1) < taken < 1.25 * num_steps(config, 1)


def test_a_gpu_preset_warns_on_a_cpu(monkeypatch, capsys):
    def stop(plan):
        raise ValueError("no further")

    monkeypatch.setattr(run.memory, "check", stop)
    monkeypatch.setattr(run.jax, "default_backend", lambda: "cpu")
    for preset, num_warnings in (("9x9-gpu", 1), ("9x9-cpu", 0)):
        with pytest.raises(ValueError, match="no further"):
            run.run(PRESETS[preset])
        lines = capsys.readouterr().err.splitlines()
        assert lines[0] == "compiling, about 60 s the first time"
        assert sum("--preset 9x9-gpu is for a GPU" in line for line in lines) == num_warnings


def test_8_bit_integers_warn_where_floats_imitate_them(monkeypatch, capsys):
    monkeypatch.setattr(run.memory, "check", lambda plan: "little")
    for dtype, platform, num_warnings in ((None, "cpu", 0), ("int8", "cpu", 1), ("int8", "tpu", 0)):
        plan = make_plan(tiny.config(play_dtype=dtype))
        with mode.target(platform):
            run._check_machine(plan)
        lines = capsys.readouterr().err.splitlines()
        assert sum("--play-dtype int8 is for a TPU" in line for line in lines) == num_warnings
        assert len(lines) == 1 + num_warnings


def test_the_last_preset_wins():
    config = run.parse(["--preset", "3x3", "--preset=5x5"])
    assert (config.preset, config.size) == ("5x5", 5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--preset", "4x4"], "--preset 4x4: expected one of 3x3"),
        (["--preset"], "--preset: expected one of 3x3"),
        (["--game", "pgx:othello"], "--game pgx:othello: has no preset; give one too, --preset c"),
        (["--preset", "3x3", "--batch", "many"], "--batch many: expected a whole number"),
        (["--preset", "3x3", "--komi", "even"], "--komi even: expected a number, one or more"),
        (["--preset", "3x3", "--simulation", "4"], "did you mean --simulations?"),
        (["--preset", "3x3", "--iterations", "0"], "--iterations 0: expected at least 1"),
        (["--preset", "3x3", "--first-simulations", "99"], "expected from 1 to the 16 of --sim"),
        (["--preset", "3x3", "--outcome-share", "2"], "--outcome-share 2.0: expected from 0 to 1"),
        (["--preset", "3x3", "--evaluate-games", "3"], "expected an even number"),
        (["--preset", "3x3", "--temperature-moves", "-1"], "--temperature-moves -1: expected"),
        (["--preset", "3x3", "--window", "0"], "--window 0: expected at least 1"),
        (["--preset", "3x3", "--window-exponent", "0"], "--window-exponent 0.0: expected above"),
        (["--preset", "3x3", "--window-scale", "2"], "--window-scale 2.0: expected from 0 to 1"),
        (
            ["--preset", "5x5", "--cheap-simulations", "8"],
            "8: expected from 0 to below 8",
        ),
        (["--preset", "3x3", "--features", "all"], "--features all: expected one of compact, full"),
        (["--preset", "hex", "--features", "zero"], "zero: only with --game go; other games"),
        (["--preset", "3x3", "--reuse-subtree"], "--reuse-subtree: not with --root gumbel; its"),
        (["--preset", "3x3", "--forced-playouts", "2"], "2.0: not with --root gumbel; its root v"),
        (
            ["--preset", "3x3", "--root", "puct", "--virtual-loss", "1"],
            "only with --leaves; one leaf at a time",
        ),
        (
            ["--preset", "3x3", "--temperature", "2"],
            "does not sample moves from visits; give",
        ),
        (["--preset", "3x3", "--size", "1"], "--size 1: expected from 2 to 25"),
        (["--preset", "3x3", "--channels", "0"], "--channels 0: expected at least 1"),
        (["--preset", "3x3", "--learning-rate", "-1"], "--learning-rate -1.0: expected at least 0"),
        (["--preset", "3x3", "--learning-rate", "nan"], "nan: expected a finite number of at"),
    ],
)
def test_bad_flags_are_one_line(arguments, message, capsys):
    with pytest.raises(SystemExit) as stop:
        run.parse(arguments)
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


PUCT = "--preset 3x3 --root puct"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (f"{PUCT} --max-considered 16", "--max-considered 16: not with --root puct; its root con"),
        (f"{PUCT} --value-scale 2", "--value-scale 2.0: not with --root puct; its root considers"),
        ("--preset 3x3 --full-share 0.5", "--full-share 0.5: only with --cheap-simulations; with"),
        ("--preset 3x3 --full-share 0.25", "--full-share 0.25: only with --cheap-simulations; wi"),
        (
            "--preset 3x3 --opening-plies 0 --opening-searched",
            "--opening-searched: only with --opening-plies; there is no opening",
        ),
        (
            "--preset 3x3 --teacher a.npz --outcome-share 0.5 --root-value policy",
            "--root-value policy: not with --teacher; the teacher's value replaces it",
        ),
        (
            f"{PUCT} --temperature-moves 0 --temperature 0.5",
            "--temperature 0.5: not with --temperature-moves 0; no move is sampled",
        ),
        (
            "--preset 3x3 --no-auxiliary --score-weight 0.1",
            "--score-weight 0.1: only with --auxiliary; no head learns them",
        ),
        (
            "--preset 3x3 --no-auxiliary --ownership-weight 0.1",
            "--ownership-weight 0.1: only with --auxiliary; no head learns them",
        ),
        (
            f"{PUCT} --dirichlet-fraction 0 --dirichlet-alpha 1",
            "--dirichlet-alpha 1.0: not with --dirichlet-fraction 0; there is no noise",
        ),
        ("--game connect4 --ko simple", "--ko simple: only with --game go; other games have"),
        ("--game connect4 --auxiliary", "--auxiliary: only with --game go; other games have"),
        (
            "--preset 9x9-cpu --leaves 4 --virtual-loss 3",
            "--virtual-loss 3: not with --root gumbel; its root counts a leaf as one visit",
        ),
    ],
)
def test_a_flag_without_effect_is_refused(arguments, message, capsys):
    with pytest.raises(SystemExit) as stop:
        run.parse(arguments.split())
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        PUCT,  # the preset's --max-considered is not the user's
        "--game connect4 --root puct --leaves 8 --virtual-loss 3",
        "--game connect4 --opening-plies 0 --no-opening-searched --no-auxiliary",
        "--preset 9x9-cpu --leaves 4 --virtual-loss 1",
        "--preset 19x19-slice --full-share 0.5",
    ],
)
def test_what_a_preset_sets_is_not_refused(arguments):
    run.parse(arguments.split())


def test_a_run_goes_on_without_a_flag_that_had_no_effect(tmp_path):
    """Earlier versions took --max-considered with PUCT, and kept it in config.json."""
    config = tiny.config(tmp_path / "run", root="puct", max_considered=4)
    tiny.claim(config)
    assert tiny.claim(dataclasses.replace(config, max_considered=16))
    with pytest.raises(ValueError, match="--simulations was 4 and is 8"):
        tiny.claim(dataclasses.replace(config, simulations=8))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"capacity": 17}, "--capacity 17: too few positions .* expected at least 18"),
        (
            {"batch_size": 512},
            "--capacity 500: the run would never learn, as a step of --batch-size 512 at "
            "--reuse 1 must wait for 512 positions on each device; expected at least 512, or a ",
        ),
        ({"devices": 4096}, "--devices 4096: only .* devices are available"),
        ({"opening_plies": 99}, "--opening-plies 99: expected fewer than the move limit"),
        ({"leaves": 3}, "--simulations 4: expected a multiple of --leaves 3, such as 6"),
        (
            {"leaves": 3, "simulations": 12, "cheap_simulations": 4},
            "--cheap-simulations 4: expected a multiple of --leaves 3, such as 6",
        ),
        (
            {"leaves": 4, "simulations": 24, "first_simulations": 6},
            "--first-simulations 6: expected a multiple of --leaves 4, such as 8",
        ),
    ],
)
def test_invalid_settings_leave_no_folder(changes, message, tmp_path):
    config = tiny.config(tmp_path / "run", **changes)
    with pytest.raises(ValueError, match=message):
        run.run(config)
    assert not config.folder.exists()


@pytest.mark.parametrize("preset", ["9x9-cpu", pytest.param("19x19-slice", marks=pytest.mark.slow)])
def test_the_whole_state_is_counted(preset):
    plan, mesh = make_plan(PRESETS[preset]), devices.mesh_of(1)
    parts = {part.name: part.num_bytes for part in memory.parts_of(plan)}
    state = jax.eval_shape(lambda: steps.begin(plan, mesh))
    playing = state.playing
    in_play = num_bytes((playing.lanes, playing.games))
    assert parts["replay"] == num_bytes(playing.buffer)
    assert parts["games in play"] == in_play > num_bytes(playing.games)
    copies = 5 / 8  # without the gradient and the update's temporaries
    kept = copies * parts["parameters"] + parts["replay"] + parts["games in play"]
    assert kept == pytest.approx(num_bytes(state), rel=0.01)


def test_too_much_memory_is_refused_with_advice():
    plan = make_plan(tiny.config(capacity=10**6))
    parts = {part.name: part.num_bytes for part in memory.parts_of(plan)}
    with pytest.raises(ValueError, match=r"lower --capacity$") as error:
        memory.check(plan, 10**7)
    assert f"{sum(parts.values()):,} bytes but has 10,000,000" in str(error.value)
    copy = "a checkpoint's copy"  # of the replay and all else
    assert f"{copy} would take {parts[copy]:,} of them" in str(error.value)
    assert memory.check(plan, 10**10).startswith(f"{sum(parts.values()) / 2**20:,.1f} MiB")
    text = memory.check(make_plan(tiny.config(features="zero")), 10**10)
    past = 7 * 2 * 4  # earlier boards of two colours, a word each
    assert text.endswith(f"a row of the replay is 126 bytes, {past} of them for earlier boards")
    many = make_plan(tiny.config(batch=4096, simulations=64, capacity=10**5))
    with pytest.raises(ValueError, match=r"^--batch or --simulations: a device would need"):
        memory.check(many, 10**6)


def parts_of(**options):
    plan = make_plan(tiny.config(**options))
    return {part.name: part.num_bytes for part in memory.parts_of(plan)}


def test_a_checkpoints_copy_is_counted_on_a_cpu():
    """The whole state, of which each device of a host has a share."""
    plan, mesh = make_plan(tiny.config()), devices.mesh_of(1)
    parts = {part.name: part.num_bytes for part in memory.parts_of(plan)}
    state = jax.eval_shape(lambda: steps.begin(plan, mesh))
    assert parts["a checkpoint's copy"] == pytest.approx(num_bytes(state), rel=0.01)
    two = make_plan(tiny.config(), 2)
    on_two = {part.name: part.num_bytes for part in memory.parts_of(two)}["a checkpoint's copy"]
    assert on_two < parts["a checkpoint's copy"] < 2 * on_two
    with mode.target("tpu"):
        assert "a checkpoint's copy" not in parts_of()
    workers = [part.name for part in memory.parts_of(plan, only_plays=True)]
    assert "a checkpoint's copy" not in workers


def test_all_leaves_of_a_step_are_counted():
    name = "a search's activations"
    assert parts_of(leaves=4)[name] == 4 * parts_of()[name] > 0


def test_all_symmetries_of_a_leaf_are_counted():
    name = "a search's activations"
    assert parts_of(symmetries="all")[name] == 8 * parts_of()[name] > 0
    assert parts_of(symmetries="random") == parts_of()


def test_a_teachers_activations_are_counted(tmp_path):
    shape = NetworkConfig(blocks=1, channels=4, features="zero")
    blank = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), network.shapes(shape))
    path = weights.save(tmp_path / "teacher.safetensors", blank, shape, 3)
    parts = parts_of(teacher=path, leaves=4)
    assert parts["the teacher"] == num_bytes(blank)
    assert parts["the teacher's activations"] == 8 * 9 * 4 * (4 * 4 + shape.num_planes)
    averaged = parts_of(teacher=path, teacher_symmetries="all")
    assert averaged["the teacher's activations"] == 8 * parts["the teacher's activations"]


def test_the_attention_of_a_teacher_is_counted(tmp_path):
    """Scores and weights of four heads among nine points, inside a bottleneck too."""
    inner = ("nested_bottleneck_block", (katago_files.LEARNT,))
    sizes = []
    for number, blocks in enumerate(([katago_files.ORDINARY], [katago_files.LEARNT], [inner])):
        path = tmp_path / f"{number}.bin"
        path.write_bytes(katago_files.data(katago_files.model(15, blocks)))
        sizes.append(parts_of(teacher=path)["the teacher's activations"])
    assert sizes[1] == sizes[2] == sizes[0] + 8 * 9 * 4 * 2 * 4 * 9


@pytest.mark.parametrize(
    "options",
    [
        {"evaluate_every": 2, "evaluate_games": 64, "gate": 0.5, "gate_games": 32},
        {"gate": 0.5, "gate_games": 64, "evaluate_games": 128},
    ],
)
@pytest.mark.parametrize("root", ["gumbel", "puct"])
def test_matches_are_counted(options, root):
    """Half of their 64 games are searched at once."""
    options = {"root": root, **options}
    half = parts_of(
        **options | {"batch": 32, "simulations": 32, "leaves": 1, "first_simulations": 32}
    )
    least = half["trees"] + half["a search's activations"]
    assert least < half["a match"] < 2 * least
    assert parts_of(**options, evaluate_simulations=64)["a match"] > 1.5 * half["a match"]
    assert "a match" not in parts_of(root=root, evaluate_games=64)


@pytest.mark.thorough
def test_an_evaluations_activations_are_about_those_of_xla():
    plan = make_plan(tiny.config(size=9, blocks=2, channels=32, batch=16, leaves=2))
    own = plan.learner.network
    inputs = jax.ShapeDtypeStruct((32, 9, 9, own.num_planes), jnp.float32)
    program = jax.jit(functools.partial(network.apply, own)).lower(network.shapes(own), inputs)
    needed = program.compile().memory_analysis().temp_size_in_bytes
    assert 0.5 < memory._of_search(plan) / needed < 2


def test_the_gates_matches_keep_their_simulations(tmp_path):
    """They decide which network plays; the other evaluations decide nothing."""
    config = tiny.config(tmp_path / "without")
    tiny.claim(config)
    tiny.claim(dataclasses.replace(config, evaluate_simulations=64))
    config = tiny.config(tmp_path / "with", gate=0.55)
    tiny.claim(config)
    with pytest.raises(ValueError, match="--evaluate-simulations was 32 and is 64"):
        tiny.claim(dataclasses.replace(config, evaluate_simulations=64))


def test_a_folder_belongs_to_a_run(tmp_path):
    config = tiny.config(tmp_path / "run")
    assert not tiny.claim(config)
    assert tiny.claim(config)
    assert tiny.claim(dataclasses.replace(config, iterations=9, minutes=1.0))
    assert json.loads((config.folder / "config.json").read_text())["iterations"] == 9
    with pytest.raises(ValueError, match="--batch was 8 and is 16; give the same flags"):
        tiny.claim(dataclasses.replace(config, batch=16))
    (config.folder / "config.json").write_text("{}")
    with pytest.raises(ValueError, match="does not belong to a training run"):
        tiny.claim(config)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    with pytest.raises(ValueError, match="is not empty"):
        tiny.claim(tiny.config(tmp_path / "other"))


def test_one_process_at_a_time_trains_a_run(tmp_path, monkeypatch, capsys):
    """A second process changes nothing until the first is done; a lock alone is not a run."""
    config = tiny.config(tmp_path / "run")
    monkeypatch.setattr(run, "parse", lambda argv: dataclasses.replace(config, iterations=9))
    with TrainFolder(config):
        part = config.folder / "checkpoints" / ".000002.part"
        part.mkdir(parents=True)
        with pytest.raises(SystemExit) as stop:
            run.main([])
        assert stop.value.code == 2
        assert capsys.readouterr().err.splitlines()[-1] == (
            f"python -m train: out: {config.folder} is being trained by another process; wait "
            "until it ends, or name a new folder"
        )
        assert part.exists()
        assert folder.read_config(config.folder) == config
        assert {file.name for file in config.folder.iterdir()} == {
            *("checkpoints", "config.json", "run.lock")
        }
    with TrainFolder(dataclasses.replace(config, iterations=9)):
        assert folder.read_config(config.folder).iterations == 9
    (tmp_path / "killed").mkdir()
    (tmp_path / "killed" / "run.lock").touch()
    with TrainFolder(tiny.config(tmp_path / "killed")):
        assert (tmp_path / "killed" / "config.json").exists()


def test_no_lock_is_left_in_a_folder_of_something_else(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="is not empty"), TrainFolder(tiny.config(tmp_path)):
        pass
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_metrics_after_the_checkpoint_are_cut_off(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(json.dumps({"iteration": i}) + "\n" for i in range(1, 5)) + '{"iter')
    folder.cut_lines(path, 2)
    files.add_line(path, {"iteration": 3, "again": True})
    assert folder.read_lines(path) == [
        {"iteration": 1},
        {"iteration": 2},
        {"iteration": 3, "again": True},
    ]


@pytest.mark.parametrize("flags", ["--out x", "--out x --iterations 3", "--steps=5"])
def test_a_run_needs_a_preset_or_data(flags, capsys):
    with pytest.raises(SystemExit) as stop:
        command.main(flags.split())
    assert stop.value.code == 2
    assert "give --preset NAME, to train by self-play or to" in capsys.readouterr().err


@pytest.mark.parametrize(("argv", "status"), [(["--help"], 0), ([], 2)])
def test_the_subcommands_are_listed(argv, status, capsys):
    assert command.main(argv) == status
    stdout = capsys.readouterr().out
    for work in ("--preset NAME", "evaluate", "plots", "worker", "--data DIR"):
        assert f"\n  {work}\n" in stdout
