"""The notebook's widget: its comm's messages reach a session, whose messages come back."""

from __future__ import annotations

import queue

import pytest

from gozero.apps import widget
from gozero.apps.web.config import ThinkingConfig
from tests.apps.web.boards import Unthinking


def test_a_game_by_messages(monkeypatch):
    monkeypatch.setattr(widget, "_thinking", lambda config: Unthinking())
    sent: queue.Queue = queue.Queue()
    monkeypatch.setattr(widget.BoardWidget, "send", lambda self, message: sent.put(message))
    board = widget.BoardWidget(ThinkingConfig.of_flags({"player": "random", "size": 5}))
    with pytest.raises(ValueError, match="no game yet"):
        board.sgf()

    def after(kind, **message):
        board._handle_custom_msg(message, [])
        while (received := sent.get(timeout=60))["tell"] != kind:
            pass
        return received

    assert after("hello", do="hello")["player"] == "random"
    after("at", do="new", size=5, komi=7, black="you", white="random")
    assert after("node", do="play", at=12)["node"] == [0, 0, 12]
    while (at := sent.get(timeout=60)).get("node") != 2:
        pass
    assert at["stones"] == "O" + "." * 11 + "X" + "." * 12
    assert ";B[cc];W[aa]" in board.sgf().replace("\n", "")
    board.close()


def test_the_widget_uses_the_module_of_the_page():
    assert "export default" in widget.BoardWidget._esm.default_value
    with pytest.raises(ValueError, match="--size 99"):
        widget.board(size=99)
