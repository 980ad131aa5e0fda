"""What this process takes now."""

import gc
import pathlib
import resource


def resident() -> float:
    """MB in memory, without what Python has yet to collect."""
    gc.collect()
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20
