"""Files that one process holds while it is at work."""

from __future__ import annotations

import fcntl
import pathlib
import sys
from typing import IO


def take(path: pathlib.Path, taken: str, beware: str) -> IO[str]:
    """Lock a file, made if need be, until what comes back is closed or the process ends.

    Args:
      path: the file.
      taken: what to say if another process holds it.
      beware: what to see to where the file system locks nothing, which is said and no error.

    Raises:
      ValueError: another process holds it.
      OSError: it cannot be made.
    """
    file = path.open("a")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.close()
        raise ValueError(taken) from error
    except OSError as error:
        why = f"cannot be locked ({error.strerror})"
        print(f"{path}: {why}; see to it that {beware}", file=sys.stderr)
    return file
