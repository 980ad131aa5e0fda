"""The memory that this process uses."""

import gc
import pathlib
import resource


def resident() -> float:
    """Resident memory in MB, after a garbage collection."""
    gc.collect()
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20
