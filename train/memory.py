"""What a run takes of a device's memory, known before anything is allocated."""

from __future__ import annotations

import math
import pathlib
from collections.abc import Iterator
from typing import NamedTuple

import jax

from gozero.nets import network
from gozero.nets.features import feature_set
from gozero.play import endless
from train import games
from train.plan import Plan

_STATE_COPIES = 8
"""Of the parameters: themselves, the last good ones, their average, AdamW's two moments, and a
gradient, an update and their sum on the way."""


class Need(NamedTuple):
    """A part of what one device needs."""

    what: str
    num_bytes: int
    lower: str  # the flags that make it smaller


def needs(plan: Plan) -> list[Need]:
    """The parts, the largest first."""
    kept = games.memory(plan.play, plan.buffer)
    parts = [
        Need("trees", endless.memory(plan.play).total, "--batch or --simulations"),
        Need("replay", kept.buffer, "--capacity"),
        Need("games in play", kept.games, "--batch"),
        Need("parameters", _STATE_COPIES * _num_params(plan) * 4, "--channels or --blocks"),
        Need("a step's activations", _activations(plan), "--batch-size or --channels"),
        Need("a search's activations", _searched(plan), "--batch or --channels"),
    ]
    return sorted(parts, key=lambda part: -part.num_bytes)


def check(plan: Plan, limit: int | None = None) -> str:
    """What the parts are, in a line.

    Args:
      plan: the plan.
      limit: bytes that a device has; None for what it says, without which nothing is refused.

    Raises:
      ValueError: more than there is; the bytes, and which flags to lower.
    """
    parts = needs(plan)
    total = sum(part.num_bytes for part in parts)
    limit = _limit(plan) if limit is None else limit
    if limit is not None and total > limit:
        first = parts[0]
        raise ValueError(
            f"{first.lower}: a device would need {total:,} bytes and has {limit:,}, of them "
            f"{first.num_bytes:,} for {first.what}; lower {first.lower}"
        )
    text = ", ".join(f"{part.what} {_mib(part.num_bytes)}" for part in parts)
    return f"{_mib(total)} a device: {text}"


def _mib(num_bytes: int) -> str:
    return f"{num_bytes / 2**20:,.1f} MiB"


def _num_params(plan: Plan) -> int:
    leaves = jax.tree.leaves(network.shapes(plan.learner.network))
    return sum(math.prod(leaf.shape) for leaf in leaves)


def _activations(plan: Plan) -> int:
    """Of a step: each convolution's input and output are kept for the way back."""
    config = plan.config
    per_point = 4 * (2 + 4 * config.blocks) * config.channels + 4 * _planes(plan)
    return config.batch_size // plan.num_devices * plan.rules.num_points * per_point


def _searched(plan: Plan) -> int:
    """Of an evaluation: a few layers at a time."""
    per_point = 4 * (4 * plan.config.channels + _planes(plan))
    return plan.config.batch * plan.rules.num_points * per_point


def _planes(plan: Plan) -> int:
    return feature_set(plan.config.features).num_planes


def _limit(plan: Plan) -> int | None:
    """Bytes that a device has; of the host's memory its part."""
    device = jax.local_devices()[0]
    stats = device.memory_stats() or {}
    if "bytes_limit" in stats:
        return int(stats["bytes_limit"])
    on_host = max(1, min(plan.num_devices, jax.local_device_count()))
    free = free_on_host()
    return None if free is None else free // on_host


def free_on_host(root: pathlib.Path = pathlib.Path("/")) -> int | None:
    """Bytes that this program may still take of the host's memory; None where nothing says so.

    The least of what the machine has and what the program's control groups, a container's say,
    leave of their limits.

    Args:
      root: where proc and sys/fs/cgroup lie.
    """
    lines = _text(root / "proc/meminfo").splitlines()
    free = [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    return min([*free, *_free_in_groups(root)], default=None)


def _free_in_groups(root: pathlib.Path) -> Iterator[int]:
    """What each group that the program is in leaves, of both versions of control groups."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, name = line.split(":", 2)
        if not controllers:
            top, limit, used, cached = root / "sys/fs/cgroup", *_V2
        elif "memory" in controllers.split(","):
            top, limit, used, cached = root / "sys/fs/cgroup/memory", *_V1
        else:
            continue
        group = pathlib.PurePosixPath(name.lstrip("/"))
        for one in (top / group, *(top / above for above in group.parents)):
            most, taken = _text(one / limit).strip(), _text(one / used).strip()
            if most.isdigit() and taken.isdigit():
                yield max(0, int(most) - int(taken) + _sum(one / "memory.stat", cached))


_V2 = ("memory.max", "memory.current", ("inactive_file", "active_file"))
_V1 = (
    "memory.limit_in_bytes",
    "memory.usage_in_bytes",
    ("total_inactive_file", "total_active_file"),
)
"""Files of a control group: its limit, what it uses, and of that what is given back when wanted."""


def _sum(path: pathlib.Path, names: tuple[str, ...]) -> int:
    words = (line.split() for line in _text(path).splitlines())
    return sum(int(value) for name, value in words if name in names)


def _text(path: pathlib.Path) -> str:
    """Of a file of the kernel's; nothing where there is none."""
    try:
        return path.read_text()
    except OSError:
        return ""
