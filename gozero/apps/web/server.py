"""The web server of the board: three files and a WebSocket, for clients that know the token.

It is for the user of this machine alone. Every address begins with the token; others get 404, as
do requests whose Host is not ours (DNS rebinding), and a WebSocket must have our Origin, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hmac
import importlib.resources
import json
import threading
from collections.abc import Callable
from typing import Protocol

from starlette.applications import Starlette
from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from gozero.runs import files

HOST = "127.0.0.1"
MAX_MESSAGE = 1 << 20
"""The most characters of a message."""

MOST_BOARDS = 64
"""The most tabs open at once."""

MOST_UNREAD = 1 << 25
"""The most characters of unread messages to a tab; beyond that, it is closed."""

_FILES = {
    "": ("page.html", "text/html; charset=utf-8"),
    "page.js": ("page.js", "text/javascript; charset=utf-8"),
    "board.js": ("board.js", "text/javascript; charset=utf-8"),
}
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; "
    "img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_TOO_LONG, _REFUSED, _BUSY = 1009, 1008, 1013  # codes of RFC 6455


class BoardSession(Protocol):
    """The part of a `session.Session` that the server needs."""

    tell: Callable[[dict], None]

    @property
    def is_full(self) -> bool:
        """Whether so many messages wait that no more should be put."""
        ...

    def put(self, message: dict | None) -> None:
        """Queue a message from the tab; None: the tab is closed."""
        ...

    def run(self) -> None:
        """Take messages until the tab is closed."""
        ...


NewBoard = Callable[[Callable[[dict], None]], BoardSession]


def make_app(token: str, port: int, new_board: NewBoard) -> Starlette:
    """The application.

    Args:
      token: the word with which addresses begin.
      port: the port it is served on; part of the Host and Origin that are accepted.
      new_board: makes a board's session, given the function that sends messages to its tab.
    """
    names = (HOST, "localhost")
    allowed_hosts = {f"{name}:{port}" for name in names}
    if port == 80:  # HTTP's own, which browsers leave out
        allowed_hosts.update(names)
    open_boards: set[BoardSession] = set()

    def is_ours(connection: HTTPConnection) -> bool:
        given_token = connection.path_params["token"].encode("utf-8", "surrogateescape")
        is_token = hmac.compare_digest(given_token, token.encode())
        return is_token and connection.headers.get("host", "") in allowed_hosts

    async def file(request: Request) -> Response:
        file_and_type = _FILES.get(request.path_params["name"])
        if file_and_type is None or not is_ours(request):
            return PlainTextResponse("not found\n", 404, _HEADERS)
        return Response(_read(file_and_type[0]), headers=_HEADERS, media_type=file_and_type[1])

    async def socket(websocket: WebSocket) -> None:
        host = websocket.headers.get("host", "")
        if not is_ours(websocket) or websocket.headers.get("origin") != f"http://{host}":
            await websocket.close(_REFUSED)
            return
        await websocket.accept()
        if len(open_boards) >= MOST_BOARDS:
            await websocket.close(_BUSY, f"{MOST_BOARDS} boards are open; close one")
            return
        await _serve(websocket, new_board, open_boards)

    routes = [
        WebSocketRoute("/{token}/socket", socket),
        Route("/{token}/{name:path}", file),
    ]
    return Starlette(routes=routes)


@functools.cache
def _read(name: str) -> bytes:
    return importlib.resources.files("gozero.apps.web").joinpath(name).read_bytes()


async def _serve(websocket: WebSocket, new_board: NewBoard, open_boards: set[BoardSession]) -> None:
    """Run a board's session in its own thread, until its tab is closed or stops reading."""
    loop, outbox = asyncio.get_running_loop(), asyncio.Queue[str]()
    unread = 0

    def tell(message: dict) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(put, json.dumps(message))

    def put(text: str) -> None:
        nonlocal unread
        unread += len(text)
        outbox.put_nowait(text)
        if unread > MOST_UNREAD:
            taker.cancel()

    async def send() -> None:
        nonlocal unread
        while True:
            text = await outbox.get()
            await websocket.send_text(text)
            unread -= len(text)

    session = new_board(tell)
    open_boards.add(session)
    sender = asyncio.create_task(send())
    taker = asyncio.create_task(_take(websocket, session))
    threading.Thread(target=session.run, daemon=True).start()
    try:
        await asyncio.wait([taker])
        if taker.cancelled():
            sender.cancel()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(websocket.close(_BUSY, "messages are not read"), timeout=1.0)
        else:
            taker.result()
    finally:
        taker.cancel()
        sender.cancel()
        session.put(None)
        open_boards.discard(session)


async def _take(websocket: WebSocket, session: BoardSession) -> None:
    """Pass messages to a session until the tab is closed, or sends bytes or too long a message."""
    while True:
        try:
            text = await websocket.receive_text()
        except (WebSocketDisconnect, KeyError):  # closed; or bytes
            return
        if len(text) > MAX_MESSAGE:
            await websocket.close(_TOO_LONG, f"a message of over {MAX_MESSAGE:,} characters")
            return
        try:
            message = files.parse_json(text)
        except ValueError:
            message = None
        if not isinstance(message, dict):
            session.tell({"tell": "error", "text": "a message must be a JSON object"})
            continue
        while session.is_full:  # the tab must wait
            await asyncio.sleep(0.05)
        session.put(message)
