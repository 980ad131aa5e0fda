"""Shared by all commands: the compile cache, printed messages, and exits."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import pathlib
import signal
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from gozero.compile import executables, mode
from gozero.play.player_config import num_tree_devices

STOPPED = 130
"""Exit status of a program that Ctrl-C stopped."""
TERMINATED = 143
"""Exit status of a program that SIGTERM stopped before its end: schedulers then start it again."""

VECTOR_WIDTH = "--xla_cpu_prefer_vector_width=512"
"""The option of `gozero.compile.stages.cpu_compiler_options`, as an XLA flag."""

FEW_LANES = "--xla_backend_optimization_level=1"
"""The LLVM optimisation level for programs that handle one game at a time."""

CACHE_SWITCH = "GOZERO_COMPILE_CACHE"
"""Environment variable: ``off`` turns the compile cache off, a path sets its folder."""


def _has_gpu() -> bool:
    """Whether this machine has the device of a GPU's driver, NVIDIA's or AMD's."""
    return any(pathlib.Path(path).exists() for path in ("/dev/nvidiactl", "/dev/kfd"))


def prepare(one_game: bool = False) -> None:
    """Set environment variables before JAX is imported; the user's own values win.

    Args:
      one_game: whether the program handles one game at a time: playouts of few lanes compile
        faster with less LLVM optimisation, and run as fast or faster. Not on a machine with a GPU,
        for whose kernels XLA uses the same option.

    The compile cache is kept in the user's cache folder (see CACHE_SWITCH). XLA's C++ log is
    kept off the terminal: when XLA:CPU loads a program from that cache, it reports its own tuning
    flags as missing features of the processor, in errors of two thousand characters each, though
    nothing is wrong. Real failures reach Python as exceptions.

    On the CPU, everything is compiled for wide vectors. XLA reads its flags when the first backend
    starts; jaxlib 0.10.1 knows this one (other builds are untried).

    A folder that cannot be made or written turns the cache off, with one line on stderr.

    Exits with status 2 and one line if GOZERO_COMPILE has an unknown value (`compile.mode`).
    """
    try:
        plain = mode.plain()
    except ValueError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    flags = os.environ.get("XLA_FLAGS", "")
    for flag in (VECTOR_WIDTH, *[FEW_LANES] * (one_game and not _has_gpu())):
        if flag.partition("=")[0] not in flags and not plain:
            flags = f"{flags} {flag}".strip()
    if flags:
        os.environ["XLA_FLAGS"] = flags
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    setting = os.environ.get(CACHE_SWITCH, "")
    if setting.lower() in ("off", "0", "no", "false"):
        return
    try:
        home = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    except RuntimeError:  # no home folder: recompile every time
        return
    folder = (
        pathlib.Path(setting) if setting else home / "gozero" / f"jax-{executables.processor()}"
    )
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        if problem := _unusable(folder):
            print(f"compiled programs are not cached: {problem}", file=sys.stderr)
            return
        os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder)
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.5")


def _unusable(folder: pathlib.Path) -> str | None:
    """Why files cannot be written in a folder, which is made if need be; None if they can."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return str(error)
    return None if os.access(folder, os.W_OK) else f"{folder} is not writable"


class _TolerantStream:
    """A stream for messages that ignores errors, as when its reader has gone."""

    def __init__(self, stream: Any):
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError, RuntimeError):  # from a signal's handler, in a write
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, RuntimeError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def let_stderr_close() -> None:
    """Keep the program running when its stderr is closed, or is a pipe whose reader has gone:
    Ctrl-C also stops a ``tee`` at the other end."""
    if not isinstance(sys.stderr, _TolerantStream):
        stream: Any = _TolerantStream(sys.stderr or open(os.devnull, "w"))  # noqa: SIM115
        sys.stderr = stream


def print_result(text: str) -> None:
    """Print results on stdout; a closed stdout is no error, as results are also on disk."""
    try:
        print(text, flush=True)
    except OSError:
        with contextlib.suppress(OSError, ValueError):  # or Python complains at its exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def compiling_message(size: int | None, game: str = "go", katago: bool = False) -> str:
    """The message of a command before it imports JAX (which takes seconds) and compiles a search,
    for its game and, in Go, the board size and whether it uses a KataGo network.

    The seconds were measured on two cores, without the compile cache that `prepare` sets up.
    """
    if game != "go":
        return f"compiling for {game}, about {_OTHER_GAMES.get(game, 10)} s the first time"
    size = size or 9
    by_size = _KATAGO_SECONDS if katago else _COMPILE_SECONDS
    seconds = next(seconds for largest, seconds in by_size if size <= largest)
    return f"compiling for {size}x{size}, about {seconds} s the first time"


_COMPILE_SECONDS = ((9, 10), (13, 20), (25, 20))
"""(Largest board size, seconds from the start of `gozero gtp` to its first move). Measured: 6.3 on
9x9, 19.0 on 13x13 and 13.7 on 19x19 (two idle cores, jaxlib 0.10.1)."""

_KATAGO_SECONDS = ((13, 30), (25, 55))
"""The same with a KataGo network, whose inputs contain ladders."""
_OTHER_GAMES = {"connect4": 5, "hex": 15}


def random_network_message(flag: str = "--weights", game: str = "go") -> str:
    """The message of a command whose network has no weights file."""
    name = "Go" if game == "go" else game
    return f"no {flag}: the network has random weights and knows nothing of {name}"


def is_out_of_memory(error: RuntimeError) -> bool:
    """Whether the error is JAX's for a device that is out of memory."""
    return "RESOURCE_EXHAUSTED" in str(error)


def missing_device(error: BaseException) -> str | None:
    """One line if JAX has no device of the platforms in JAX_PLATFORMS; None for other errors.

    JAX then raises a RuntimeError, or a bare AssertionError where its plugin for the platform
    finds no device (seen with jax 0.10.1); either is confirmed by listing the devices again.
    """
    if not isinstance(error, (RuntimeError, AssertionError)) or "jax" not in sys.modules:
        return None
    import jax

    try:
        jax.devices()
    except (RuntimeError, AssertionError):
        platforms = os.environ.get("JAX_PLATFORMS", "")
        return f"JAX_PLATFORMS={platforms}: JAX finds no such device here; unset it or use cpu"
    return None


@functools.cache
def cores_as_devices() -> bool:
    """Make each core a JAX CPU device, for programs that divide games among devices; returns
    whether the devices are cores.

    The user's own number of them wins (``JAX_NUM_CPU_DEVICES``), and a backend that has already
    started keeps its devices. With XLA's flag for their number, devices stand for others, in tests
    for example, and are not divided among.
    """
    import jax

    flag = "xla_force_host_platform_device_count"
    if flag in os.environ.get("XLA_FLAGS", ""):
        return False
    if jax.config.values["jax_num_cpu_devices"] >= 0:
        return True
    with contextlib.suppress(RuntimeError):
        jax.config.update("jax_num_cpu_devices", mode.cores())
        return True
    return False


def divide_cores(num_trees: int) -> None:
    """Let JAX, once it is imported, have as many CPU devices as one game's trees are worth being
    divided among. The user's own number wins, and a JAX that is already imported keeps its."""
    num_devices = num_tree_devices(num_trees, mode.cores())
    flag = "xla_force_host_platform_device_count"
    if num_devices > 1 and "jax" not in sys.modules and flag not in os.environ.get("XLA_FLAGS", ""):
        os.environ.setdefault("JAX_NUM_CPU_DEVICES", str(num_devices))


def run_main(prog: str, module: str) -> NoReturn:
    """Run a program started by ``python -m``: `prepare`, then the module's ``main()``.

    Exits with its status, or with STOPPED and one line on stderr if Ctrl-C stops it.
    """
    prepare()
    let_stderr_close()
    sys.exit(status_of(prog, lambda: importlib.import_module(module).main()))


def status_of(prog: str, work: Callable[[], int]) -> int:
    """The result of `work`; or, with one line on stderr, STOPPED if Ctrl-C stops it and 1 if JAX
    has no device."""
    try:
        return work()
    except KeyboardInterrupt:
        print(f"{prog}: stopped", file=sys.stderr)
        return STOPPED
    except (RuntimeError, AssertionError) as error:
        message = missing_device(error)
        if message is None:
            raise
        print(f"{prog}: {message}", file=sys.stderr)
        return 1


def end_at_once(status: int = STOPPED) -> NoReturn:
    """Exit without waiting for work on the device or on other threads.

    A search may still be running or compiling there, and tearing XLA down under it would crash.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):  # closed, or a full disk
            stream.flush()
    os._exit(status)


class StopRequest:
    """Turns Ctrl-C, SIGTERM and SIGHUP (a closed terminal) into a flag to check between steps; a
    second signal interrupts.

    Attributes:
      requested: whether a signal was received.
      number: that signal, signal.SIGINT or signal.SIGTERM, also for SIGHUP, which is ignored where
        it was before, as under nohup.
      finishing: set it when the rest takes a moment and must not be interrupted: signals are then
        ignored.
    """

    def __init__(self):
        self.requested = self.finishing = False
        self.number: int | None = None
        self._before: dict = {}

    def __enter__(self) -> StopRequest:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @property
    def status(self) -> int:
        """The exit status of a program that this stopped before its end."""
        return TERMINATED if self.number == signal.SIGTERM else STOPPED

    def _handle(self, number: int, frame: Any) -> None:
        del frame
        if self.finishing:
            return
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        self.number = signal.SIGTERM if number == signal.SIGHUP else number
        with contextlib.suppress(OSError):  # the reader may be gone
            print(
                "stopping after this step; press Ctrl-C again to stop at once",
                file=sys.stderr,
                flush=True,
            )
