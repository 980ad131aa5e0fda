"""``gozero web``: a board in the browser, served on this machine only."""

from __future__ import annotations

import logging
import secrets
import socket
import sys

from gozero.apps import flags, runtime
from gozero.apps.web.config import WebConfig

PROG = "gozero web"
__all__ = ["WebConfig", "run"]

_TOKEN_BYTES = 18


def run(config: WebConfig) -> int:
    """Serve until Ctrl-C; returns the exit status.

    Raises:
      SystemExit: one line; status 1 if the packages of the extra `web` are missing or the port is
        taken, 2 for a --watch folder that does not exist.
    """
    try:
        import uvicorn

        from gozero.apps.web import server
    except ImportError as error:
        message = f"{error.name} is missing: {sys.executable} -m pip install 'gozero[web]'"
        flags.fail(PROG, message, status=1)
    from gozero.apps.web.session import Session
    from gozero.apps.web.thinking import Thinking

    if config.is_random:
        print(runtime.random_network_message(), file=sys.stderr)
    with flags.exit_on_error(PROG):
        if config.watch is not None and not config.watch.is_dir():
            raise ValueError(f"--watch {config.watch}: no such folder")
        listener = socket.create_server((server.HOST, config.port))
    port, token = listener.getsockname()[1], secrets.token_urlsafe(_TOKEN_BYTES)
    thinking = Thinking(config, PROG)
    app = server.make_app(token, port, lambda tell: Session(thinking, tell, config.watch))
    runtime.print_result(f"http://{server.HOST}:{port}/{token}/")
    print("open this address in a browser on this machine; Ctrl-C stops", file=sys.stderr)
    settings = uvicorn.Config(
        app,
        log_level="warning",
        ws_max_size=4 * server.MAX_MESSAGE,  # bytes
        ws="websockets-sansio",
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    # A tab that is open at Ctrl-C may keep its connection; that is no error for the user.
    is_relevant = lambda record: not record.getMessage().startswith("Cancel ")
    logging.getLogger("uvicorn.error").addFilter(is_relevant)
    uvicorn.Server(settings).run(sockets=[listener])
    return 0
