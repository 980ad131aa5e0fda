"""Runs on several hosts: joining them, and agreement on flags, files, clocks and signals.

Every host runs the same program in lockstep. A host that stopped or continued on its own would
leave the others waiting, so they agree here on whatever may differ (clocks, signals, files).
"""

from __future__ import annotations

import json
import os
import pathlib
import time
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import numpy as np
from jax.experimental import multihost_utils

from train.config import TrainConfig

T = TypeVar("T")

OF_ONE_HOST = frozenset({"out", "coordinator", "process"})
"""Flags that may differ between hosts: where each sees the folder and the first host."""


class OtherHostFailed(ValueError):
    """Another host could not do its part; that host prints the reason."""


def join(config: TrainConfig) -> None:
    """Become one of the run's hosts, if it has several. Call it before anything starts a backend.

    Raises:
      ValueError: the hosts cannot find each other.
    """
    if config.coordinator is None or jax.distributed.is_initialized():
        return
    # Only the first process fills JAX's compile cache. If the others' caches are apart from it,
    # they compile at a restart where it does not, and would wait a day for its part of the
    # autotuning.
    if (flag := "--xla_gpu_shard_autotuning") not in (flags := os.environ.get("XLA_FLAGS", "")):
        os.environ["XLA_FLAGS"] = f"{flags} {flag}=false".strip()
    try:
        if config.coordinator == "auto":
            jax.distributed.initialize()
        else:
            jax.distributed.initialize(config.coordinator, config.processes, config.process)
    except (ValueError, RuntimeError) as error:
        raise ValueError(f"--coordinator {config.coordinator}: {error}") from error


def is_first() -> bool:
    """Whether this is the host that writes the shared files."""
    return jax.process_index() == 0


def broadcast_from_first(facts: Any) -> Any:
    """The first host's facts, on every host; any JSON value."""
    if jax.process_count() == 1:
        return facts
    return _decoded(multihost_utils.broadcast_one_to_all(_encoded(facts)))


def gather_from_each(facts: Any) -> list[Any]:
    """Every host's facts, in the order of hosts, on every host; any JSON values."""
    if jax.process_count() == 1:
        return [facts]
    return [_decoded(data) for data in multihost_utils.process_allgather(_encoded(facts))]


def _encoded(facts: Any) -> np.ndarray:
    """Facts as u8[n], n the same on every host."""
    own = np.frombuffer(json.dumps(facts).encode(), np.uint8)
    length = max(greatest(len(own)), 1024)  # each length compiles programs, so only powers of two
    padded = np.zeros(1 << (length - 1).bit_length(), np.uint8)
    padded[: len(own)] = own
    return padded


def _decoded(data: Any) -> Any:
    return json.loads(np.asarray(data).tobytes().rstrip(b"\0"))


def check_same(facts: dict[str, Any]) -> None:
    """Check that facts, {name: any JSON value}, equal the first host's.

    Raises:
      ValueError: one of them differs; the message names the first, in alphabetical order.
    """
    first = broadcast_from_first(facts)
    for name in sorted(facts.keys() | first.keys()):
        own, other = facts.get(name), first.get(name)
        if json.dumps(own) != json.dumps(other):  # nan is nan
            raise ValueError(
                f"{name} is {own} here, and {other} at process 0; give the same value at every host"
            )


def check_flags(config: TrainConfig) -> None:
    """Check that flags, except those of `OF_ONE_HOST`, equal the first host's.

    Raises:
      ValueError: one of them differs; the message names the first, in alphabetical order.
    """
    names = config.plain.keys() - OF_ONE_HOST
    check_same({f"--{name.replace('_', '-')}": config.plain[name] for name in names})


def greatest(number: int) -> int:
    """The greatest of all hosts' numbers, i32, on every host."""
    return int(multihost_utils.process_allgather(np.int32(number)).max())


def run_on_each(work: Callable[[], T]) -> T:
    """Do `work` on every host; returns this host's result once all have done it.

    Raises:
      Exception: what this host's work raised.
      OtherHostFailed: another host's work raised an exception.
    """
    try:
        result = work()
    except Exception:
        greatest(jax.process_index() + 1)
        raise
    if failed_process := greatest(0):
        raise OtherHostFailed(
            f"process {failed_process - 1} failed; its own output gives the reason"
        )
    return result


def run_on_first(work: Callable[[], object]) -> None:
    """Do `work` on the first host while the others wait; raises as `run_on_each` does."""
    run_on_each(work if is_first() else lambda: None)


def check_shared(path: pathlib.Path, patience_s: float = 60.0) -> None:
    """Wait until this host sees a file that the first host wrote.

    Raises:
      ValueError: it does not appear in time.
    """
    until = time.monotonic() + patience_s
    while not path.exists():
        if time.monotonic() > until:
            raise ValueError(
                f"--out {path.parent}: process {jax.process_index()} does not see {path.name}; "
                "give a folder that all hosts share"
            )
        time.sleep(0.5)
