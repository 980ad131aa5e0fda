"""The settings that a program makes before it imports JAX."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest

from gozero.apps import runtime
from gozero.compile import mode, stages


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (None, runtime.VECTOR_WIDTH),
        ("--xla_dump_to=/x", f"--xla_dump_to=/x {runtime.VECTOR_WIDTH}"),
        ("--xla_cpu_prefer_vector_width=256", "--xla_cpu_prefer_vector_width=256"),
    ],
)
def test_prepare_selects_wide_vectors_unless_the_user_set_flags(monkeypatch, flags, expected):
    for name in ("TF_CPP_MIN_LOG_LEVEL", "JAX_COMPILATION_CACHE_DIR"):
        monkeypatch.setenv(name, "set")
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "1")
    monkeypatch.setenv("XLA_FLAGS", "")
    if flags is None:
        monkeypatch.delenv("XLA_FLAGS")
    else:
        monkeypatch.setenv("XLA_FLAGS", flags)
    runtime.prepare()
    assert runtime.os.environ["XLA_FLAGS"] == expected


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ("", f"{runtime.VECTOR_WIDTH} {runtime.FEW_LANES}"),
        ("--xla_backend_optimization_level=3", f"=3 {runtime.VECTOR_WIDTH}"),
    ],
)
def test_prepare_reduces_llvm_optimization_for_one_game(monkeypatch, flags, expected):
    for name in ("TF_CPP_MIN_LOG_LEVEL", "JAX_COMPILATION_CACHE_DIR"):
        monkeypatch.setenv(name, "set")
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "1")
    monkeypatch.setenv("XLA_FLAGS", flags)
    runtime.prepare(one_game=True)
    assert runtime.os.environ["XLA_FLAGS"].endswith(expected)
    assert runtime.os.environ["XLA_FLAGS"].count("optimization_level") == 1


def test_prepare_sets_nothing_for_plain_compilation(monkeypatch):
    monkeypatch.setenv(mode.VARIABLE, "plain")
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=/x")
    runtime.prepare()
    assert runtime.os.environ["XLA_FLAGS"] == "--xla_dump_to=/x"
    assert stages.cpu_compiler_options() == {}


def test_prepare_turns_off_a_cache_that_cannot_be_written(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "")  # restored after the test
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR")
    monkeypatch.setenv("XLA_FLAGS", "")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(runtime.CACHE_SWITCH, str(tmp_path / "file" / "cache"))
    runtime.prepare()
    assert "JAX_COMPILATION_CACHE_DIR" not in os.environ
    assert capsys.readouterr().err.startswith("compiled programs are not cached: [Errno 20]")
    monkeypatch.setenv(runtime.CACHE_SWITCH, str(tmp_path / "new" / "cache"))
    runtime.prepare()
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == str(tmp_path / "new" / "cache")


def test_prepare_refuses_an_unknown_compile_mode(monkeypatch, capsys):
    monkeypatch.setenv(mode.VARIABLE, "fast")
    with pytest.raises(SystemExit) as exit_:
        runtime.prepare()
    assert exit_.value.code == 2
    assert capsys.readouterr().err == "GOZERO_COMPILE=fast: expected plain, or nothing\n"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, "3"),
        ({"JAX_NUM_CPU_DEVICES": "2"}, "2"),
        ({"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}, "4"),
    ],
)
def test_each_core_is_a_device_unless_the_user_says_otherwise(settings, expected):
    program = (
        "import os; os.sched_getaffinity = lambda _: {0, 1, 5}; "
        "from gozero.apps import runtime; are_cores = runtime.cores_as_devices(); "
        "import jax; print(jax.device_count(), are_cores); "
        "jax.config.values['jax_num_cpu_devices'] = -1; runtime.cores_as_devices(); "
        "print(jax.device_count())"
    )
    env = os.environ | {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": ""} | settings
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True)
    are_cores = str("XLA_FLAGS" not in settings)
    assert done.stdout.split() == [expected, are_cores, expected], done.stderr


def test_a_platform_without_a_device_is_one_line(tmp_path):
    command = ["match", "--games", "2", "--player.leaves", "2", "--out", str(tmp_path / "run")]
    done = subprocess.run(
        [sys.executable, "-m", "gozero.apps.cli", *command],
        env=os.environ | {"JAX_PLATFORMS": "tpu"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "compiling for 9x9, about 10 s the first time",
        "gozero: JAX_PLATFORMS=tpu: JAX finds no such device here; unset it or use cpu",
    ]


def test_the_time_to_compile_depends_on_the_board_and_the_network():
    message = runtime.compiling_message
    assert message(19) == "compiling for 19x19, about 20 s the first time"
    assert message(19, katago=True) == "compiling for 19x19, about 55 s the first time"
    assert message(13, katago=True) == "compiling for 13x13, about 30 s the first time"
    assert message(3, "hex") == "compiling for hex, about 15 s the first time"


def test_gtp_reports_a_missing_device_in_one_line():
    done = subprocess.run(
        [sys.executable, "-m", "gozero.apps.cli", "gtp"],
        env=os.environ | {"JAX_PLATFORMS": "tpu"},
        input="play b c3\nname\n",
        capture_output=True,
        text=True,
    )
    message = "JAX_PLATFORMS=tpu: JAX finds no such device here; unset it or use cpu"
    assert (done.returncode, done.stdout) == (0, f"? {message}\n\n= gozero\n\n")
    assert done.stderr.splitlines()[-1] == f"gozero gtp: play: {message}"


PROGRAM = """
import os, signal, sys
from gozero.apps import runtime
runtime.let_stderr_close()
with runtime.StopRequest() as stop:
    os.kill(os.getpid(), signal.SIGINT)
    print("lost " * 10_000, file=sys.stderr, flush=True)
    assert stop.requested
runtime.print_result("found")
"""


@pytest.fixture
def unheard():
    """The write end of a pipe whose reader is gone."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


def test_a_program_continues_when_its_output_is_closed(unheard):
    def run(redirect="", **streams):
        command = ["bash", "-c", f'exec "$0" -c "$1" {redirect}', sys.executable, PROGRAM]
        return subprocess.run(command, text=True, **streams)

    done = run(stdout=subprocess.PIPE, stderr=unheard)
    assert (done.returncode, done.stdout) == (0, "found\n")
    done = run("2>&-", stdout=subprocess.PIPE)
    assert (done.returncode, done.stdout) == (0, "found\n")
    done = run(stdout=unheard, stderr=subprocess.PIPE)
    assert done.returncode == 0
    assert done.stderr.startswith("stopping after this step")
    assert "Error" not in done.stderr


HANG_UP = """
import os, signal, sys
from gozero.apps import runtime
signal.signal(signal.SIGHUP, getattr(signal, sys.argv[1]))
with runtime.StopRequest() as stop:
    os.kill(os.getpid(), signal.SIGHUP)
print(stop.requested, stop.number == signal.SIGTERM)
"""


@pytest.mark.parametrize(
    ("handler", "found"), [("SIG_DFL", "True True"), ("SIG_IGN", "False False")]
)
def test_a_closed_terminal_stops_as_sigterm_does_unless_it_is_ignored(handler, found):
    command = [sys.executable, "-c", HANG_UP, handler]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"{found}\n"


def test_the_flag_and_the_compiler_options_agree():
    options = stages.cpu_compiler_options()
    if jax.default_backend() != "cpu":
        assert options == {}
        return
    assert [f"--{name}={value}" for name, value in options.items()] == [runtime.VECTOR_WIDTH]
    twice = jax.jit(lambda x: 2 * x, compiler_options=options)
    assert twice(jnp.arange(4)).tolist() == [0, 2, 4, 6]
