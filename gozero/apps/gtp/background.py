"""Work on a thread of its own, meanwhile the engine obeys. Imports no JAX."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class InBackground:
    """Work on a thread of its own."""

    def __init__(self, work: Callable[[], Any]):
        self._work, self._error = work, None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._work()
        except Exception as error:  # who waits is told
            self._error = error

    def is_done(self, seconds: float | None = 0.0) -> bool:
        """Whether it is done, or will be within some seconds; None: as soon as it is.

        Raises:
          Exception: what it has raised.
        """
        self._thread.join(seconds)
        if self._error is not None:
            raise self._error
        return not self._thread.is_alive()
