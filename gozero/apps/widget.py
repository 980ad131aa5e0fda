"""The board in a notebook: `web/board.js` as an anywidget widget (Jupyter, VS Code, Colab).

from gozero.apps.widget import board
board(player="fast", size=9)
"""

from __future__ import annotations

import pathlib
import threading
from typing import Any

try:
    import anywidget
    import traitlets
except ImportError as error:
    raise ImportError("the board in a notebook needs: pip install 'gozero[notebook]'") from error

from gozero.apps.web.config import ThinkingConfig
from gozero.apps.web.session import Session
from gozero.apps.web.thinking import Thinking

_MODULE = pathlib.Path(__file__).parent / "web" / "board.js"


class BoardWidget(anywidget.AnyWidget):
    """A board to click on; its session runs in a thread of the kernel. See `board`.

    Args:
      config: the player and its search settings.
    """

    _esm = traitlets.Unicode(_MODULE.read_text(encoding="utf-8")).tag(sync=True)

    def __init__(self, config: ThinkingConfig):
        super().__init__()
        self._session = Session(_thinking(config), self.send)
        self.on_msg(self._take)
        threading.Thread(target=self._session.run, daemon=True).start()

    def _take(self, _: Any, message: Any, buffers: Any) -> None:
        del buffers
        if isinstance(message, dict):
            self._session.put(message)

    def sgf(self) -> str:
        """The game so far with its variations, as SGF.

        Raises:
          ValueError: there is no game yet, as the board has not been shown.
        """
        if not self._session.has_game:
            raise ValueError("there is no game yet")
        return self._session.tree.to_sgf()

    def close(self) -> None:
        """End the session and close the widget."""
        self._session.put(None)
        super().close()


_shared: dict[tuple, Thinking] = {}


def _thinking(config: ThinkingConfig) -> Thinking:
    """One `Thinking` shared by all boards with the same flags, and so compiled only once."""
    key = tuple(sorted((config.explicit_flags or {}).items()))
    return _shared.setdefault(key, Thinking(config, "gozero"))


def board(**flags: Any) -> BoardWidget:
    """A board to play on, to analyse positions and to review games, as in `gozero web`.

    Args:
      flags: the flags of `gozero web`, except those of its server, as keywords: player="fast",
        size=13, komi=6.5, visits=500, weights=pathlib.Path(...).

    Raises:
      ValueError: a flag is out of range, or conflicts with another.
      TypeError: there is no such flag.
    """
    return BoardWidget(ThinkingConfig.of_flags(flags))
