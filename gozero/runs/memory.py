"""The memory that a command will need, part by part, and what a device or host has available.

Importing this module does not import JAX.
"""

from __future__ import annotations

import math
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple


class DoesNotFit(ValueError):
    """A command would need more memory than there is."""


class Part(NamedTuple):
    """A part of the memory that one device needs."""

    name: str
    num_bytes: int
    lower: str  # the flags to lower to make it smaller


def num_bytes(shapes: Any) -> int:
    """The bytes of all arrays of a pytree, which may be given by their shapes."""
    import jax

    sizes = (math.prod(x.shape) * x.dtype.itemsize for x in jax.tree.leaves(shapes))
    return sum(sizes)


def check(parts: Sequence[Part], limit: int | None) -> str:
    """Check that the parts fit, and describe them in one line, the largest first.

    Args:
      parts: the parts that a device needs.
      limit: the bytes that a device has; None, if unknown, accepts everything.

    Raises:
      DoesNotFit: the message states the bytes and the flags to lower.
    """
    parts = sorted(parts, key=lambda part: -part.num_bytes)
    total = sum(part.num_bytes for part in parts)
    if limit is not None and total > limit:
        largest = parts[0]
        raise DoesNotFit(
            f"{largest.lower}: a device would need {total:,} bytes but has {limit:,}; "
            f"{largest.name} would take {largest.num_bytes:,} of them; lower {largest.lower}"
        )
    text = ", ".join(f"{part.name} {_mib(part.num_bytes)}" for part in parts)
    return f"{_mib(total)} a device: {text}"


def check_total(num_bytes: int, text: str, lower: str) -> str:
    """Check that this many bytes fit in all devices together, and return the text.

    On a CPU the devices share what the host has free.

    Args:
      num_bytes: the bytes needed.
      text: what needs them.
      lower: the flags to lower.

    Raises:
      DoesNotFit: the message states what there is.
    """
    import jax

    num_devices = jax.local_device_count()
    each = of_device(num_devices)
    if each is not None and num_bytes > each * num_devices:
        raise DoesNotFit(f"{text}; but there are only {_mib(each * num_devices)}: lower {lower}")
    return text


def _mib(num_bytes: int) -> str:
    return f"{num_bytes / 2**20:,.1f} MiB"


def of_device(num_devices: int) -> int | None:
    """The bytes that each of `num_devices` devices has, or its share of host memory; else None."""
    import jax

    stats = jax.local_devices()[0].memory_stats() or {}
    if "bytes_limit" in stats:
        return int(stats["bytes_limit"])
    on_host = max(1, min(num_devices, jax.local_device_count()))
    free = free_on_host()
    return None if free is None else free // on_host


def free_on_host(root: pathlib.Path = pathlib.Path("/")) -> int | None:
    """Bytes of the host's memory that this program may still allocate; None if unknown.

    The least of what the machine has available and what the program's control groups (those of a
    container, for example) leave of their limits.

    Args:
      root: the folder that contains proc and sys/fs/cgroup.
    """
    lines = _text(root / "proc/meminfo").splitlines()
    free = [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    return min([*free, *_free_in_groups(root)], default=None)


def _free_in_groups(root: pathlib.Path) -> Iterator[int]:
    """The bytes that each of the program's control groups leaves, for both versions of cgroups."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, name = line.split(":", 2)
        if not controllers:
            mount, limit, used, cached = root / "sys/fs/cgroup", *_V2
        elif "memory" in controllers.split(","):
            mount, limit, used, cached = root / "sys/fs/cgroup/memory", *_V1
        else:
            continue
        group = pathlib.PurePosixPath(name.lstrip("/"))
        for folder in (mount / group, *(mount / parent for parent in group.parents)):
            limit_text, used_text = _text(folder / limit).strip(), _text(folder / used).strip()
            if limit_text.isdigit() and used_text.isdigit():
                yield max(
                    0, int(limit_text) - int(used_text) + _sum(folder / "memory.stat", cached)
                )


_V2 = ("memory.max", "memory.current", ("inactive_file", "active_file"))
_V1 = (
    "memory.limit_in_bytes",
    "memory.usage_in_bytes",
    ("total_inactive_file", "total_active_file"),
)
"""Files of a control group: its limit, its use, and the part of its use that can be reclaimed."""


def _sum(path: pathlib.Path, names: tuple[str, ...]) -> int:
    words = (line.split() for line in _text(path).splitlines())
    return sum(int(value) for name, value in words if name in names)


def _text(path: pathlib.Path) -> str:
    """The text of a file of the kernel; empty if it does not exist."""
    try:
        return path.read_text()
    except OSError:
        return ""
