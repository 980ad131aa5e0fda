"""``gozero doctor``: versions, devices, the compile cache, and the cost of a move."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import os
import pathlib
import platform
import shutil
import time
from collections.abc import Iterator

from gozero import __version__
from gozero.apps import flags, runtime
from gozero.apps.gtp.config import GtpConfig
from gozero.compile import executables
from gozero.runs.settings import setting

PACKAGES = ("jax", "jaxlib", "flax", "numpy")
BAD_JAX = {
    "0.10.2": "wrong products of matrices and vectors under vmap, on a CPU",
    "0.11.0": "scatters on a GPU are up to 2,000 times slower",
    "0.11.1": "small updates in a loop copy whole arrays, on a CPU",
}
"""Versions that must not be used, and their faults."""


_DEFAULT_TARGET = ("cpu",)


@dataclasses.dataclass(frozen=True)
class DoctorConfig(GtpConfig):
    """Report versions, devices and problems, and with --size or --target the cost of a move.

    The other flags are those of `gozero gtp`; they choose the player whose move is measured.
    """

    target: tuple[str, ...] = setting((), group="cost", unset="the CPU")
    """Devices to compile for, which need not be present: cpu, v5e, v6e, v5p, h100. Times are
    measured for the CPU, and estimated by the compiler for TPUs."""

    EXAMPLES = ("gozero doctor", "gozero doctor --size 19 --target cpu v5e")


def run(config: DoctorConfig) -> int:
    """Print the findings, one per line; returns 1 if any of them begins with ``wrong:``."""
    findings = list(_checks())
    if not any(line.startswith("wrong:") for line in findings) and (
        config.target or "size" in (config.explicit_flags or {})
    ):
        with flags.exit_on_error("gozero doctor"):
            findings += _costs(config)
    runtime.print_result("\n".join(findings))
    return int(any(line.startswith("wrong:") for line in findings))


def _checks() -> Iterator[str]:
    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    packages = ", ".join(f"{name} {version}" for name, version in versions.items())
    yield f"gozero {__version__}, Python {platform.python_version()}, {packages}"
    if fault := BAD_JAX.get(versions["jax"]):
        yield f"wrong: jax {versions['jax']} has a known fault: {fault}; install another version"
    yield from _devices()
    yield _cache()


def _devices() -> Iterator[str]:
    try:
        import jax

        devices = jax.devices()
    except Exception as error:
        message = runtime.missing_device(error) or f"JAX finds no device: {error}"
        yield f"wrong: {' '.join(message.split())}"
        return
    kinds = ", ".join(f"{d.device_kind} ({d.platform})" for d in devices)
    yield f"devices: {kinds}; {os.cpu_count()} cores"
    is_chosen = bool(os.environ.get("JAX_PLATFORMS"))
    if devices[0].platform == "cpu" and shutil.which("nvidia-smi") and not is_chosen:
        yield "wrong: there is an NVIDIA driver, but JAX uses the CPU: pip install 'jax[cuda13]'"


def _cache() -> str:
    setting = os.environ.get("JAX_COMPILATION_CACHE_DIR")
    if not setting:
        off = f"{runtime.CACHE_SWITCH} is off, or its folder is not writable"
        return f"compiled programs are not cached ({off}): starts are slow"
    path = pathlib.Path(setting)
    existing = next(file for file in (path, *path.parents) if file.exists())
    if not existing.is_dir():
        return f"wrong: compiled programs cannot be cached, because {existing} is not a folder"
    if not os.access(existing, os.W_OK):
        return f"wrong: compiled programs cannot be cached, because {existing} is not writable"
    sizes = [file.stat().st_size for file in path.glob("*") if file.is_file()]
    programs = [file.stat().st_size for file in (path / executables.FOLDER).glob("*")]
    of_programs = f"{len(programs)} whole, {_mib(sum(programs))}"
    summary = f"{len(sizes)} files, {_mib(sum(sizes))}; {of_programs}"
    return f"compiled programs: {summary} in {path}"


def _mib(num_bytes: int) -> str:
    return f"{num_bytes / 2**20:,.1f} MiB"


def _costs(config: DoctorConfig) -> Iterator[str]:
    """The cost of a move in a single game, one line per target."""
    import jax

    from gozero.compile import ahead, estimate
    from gozero.games.go import go_game
    from gozero.go.rules import Rules, init
    from gozero.play.setups import make_setup, memory_text
    from gozero.search.search import search

    assert config.size is not None  # set when it was made
    targets = [ahead.target(name) for name in config.target or _DEFAULT_TARGET]
    rules = Rules(config.size, config.ko, config.suicide, remember=config.needs_past_boards)
    setup = make_setup(rules, config, config.seed)
    yield f"{config.text} on {config.size}x{config.size}; {memory_text(rules, setup, False, 1)}"

    def move(params, states, key):
        evaluator = setup.evaluator._replace(params=params)
        return search(go_game(rules), evaluator, key, states, setup.search).action

    states = jax.vmap(lambda komi: init(rules, komi))(jax.numpy.full(1, config.komi))
    arguments = setup.evaluator.params, states, jax.random.key(config.seed)
    for target in targets:
        name = target.name
        try:
            compiled = ahead.compile(target, move, *arguments)
        except ahead.MissingCompiler as error:
            yield f"{name}: {error}"
            continue
        cost = f"{_mib(compiled.temp_bytes)}, compiled in {compiled.compile_seconds:.1f} s"
        if target.is_here:
            compiled.program(*arguments)
            started = time.perf_counter()
            jax.block_until_ready(compiled.program(*arguments))
            cost += f", {time.perf_counter() - started:.3f} s a move"
        elif target.chip in estimate.SPEEDS:
            seconds = estimate.read(compiled.text, target.chip).seconds
            cost += f", {seconds:.3f} s a move by the compiler's estimate"
        yield f"{name}: {cost}"
