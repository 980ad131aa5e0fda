"""The memory that a host has free: the machine's, limited by control groups."""

from __future__ import annotations

import pytest

from gozero.runs import memory

MIB = 2**20


@pytest.fixture
def machine(tmp_path):
    """A function that writes /proc and /sys files of a machine with 800 MiB left to a folder."""

    def make(files):
        for name, text in {"proc/meminfo": f"MemAvailable: {800 * 1024} kB\n", **files}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return make


def group(folder, limit, used, version=2):
    """The files of a control group; 30 MiB of what it uses are page cache."""
    names = {
        1: ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        2: ("memory.max", "memory.current"),
    }
    total = {1: "total_", 2: ""}[version]
    stat = f"{total}inactive_file {10 * MIB}\n{total}active_file {20 * MIB}\nanon 1\n"
    texts = (f"{limit}\n", f"{used}\n", stat)
    names = (*names[version], "memory.stat")
    return {f"sys/fs/cgroup/{folder}{name}": text for name, text in zip(names, texts, strict=True)}


def test_a_machine_without_groups(machine, tmp_path):
    assert memory.free_on_host(tmp_path) is None
    assert memory.free_on_host(machine({})) == 800 * MIB


@pytest.mark.parametrize("name", ["/", "/jobs/mine"])
def test_a_container_of_the_second_version(machine, name):
    own = group(f"{name.strip('/')}/".lstrip("/"), 500 * MIB, 200 * MIB)
    root = machine({"proc/self/cgroup": f"0::{name}\n", **own})
    assert memory.free_on_host(root) == 330 * MIB


def test_a_container_of_the_first_version(machine):
    """The container sees its own group as the root, but its name is the host's."""
    own = group("memory/", 500 * MIB, 200 * MIB, version=1)
    names = "5:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n"
    assert memory.free_on_host(machine({"proc/self/cgroup": names, **own})) == 330 * MIB


def test_the_smallest_limit_applies(machine):
    inner, outer = group("jobs/mine/", "max", 10), group("jobs/", 300 * MIB, 100 * MIB)
    root = machine({"proc/self/cgroup": "0::/jobs/mine\n", **inner, **outer})
    assert memory.free_on_host(root) == 230 * MIB
    machine(group("jobs/", 9000 * MIB, 0))
    assert memory.free_on_host(root) == 800 * MIB
    machine(group("jobs/", 300 * MIB, 600 * MIB))
    assert memory.free_on_host(root) == 0
