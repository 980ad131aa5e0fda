"""Work on a background thread, while the engine obeys commands. Imports no JAX."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class InBackground:
    """Work that starts at once on a background thread."""

    def __init__(self, work: Callable[[], Any]):
        self._work, self._error = work, None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._work()
        except Exception as error:  # `is_done` raises it
            self._error = error

    def is_done(self, seconds: float | None = 0.0) -> bool:
        """Whether the work is done, after waiting for at most `seconds`; None: until it is done.

        Raises:
          Exception: what the work raised.
        """
        self._thread.join(seconds)
        if self._error is not None:
            raise self._error
        return not self._thread.is_alive()
