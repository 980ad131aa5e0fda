"""The server answers only those who know the token, on its own page and on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import socket
import threading
import urllib.error
import urllib.request

import pytest
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from gozero.apps.web import server
from gozero.apps.web.server import MAX_MESSAGE, MOST_BOARDS, make_app
from gozero.apps.web.session import Session
from tests.apps.web.boards import Unthinking
from tests.apps.web.served import served

TOKEN, PORT = "a-token", 8123
ORIGIN = f"http://127.0.0.1:{PORT}"
NEW = {"do": "new", "size": 5, "komi": 7, "black": "you", "white": "random"}


@pytest.fixture(scope="module")
def client():
    thinking = Unthinking()
    app = make_app(TOKEN, PORT, lambda tell: Session(thinking, tell))
    with TestClient(app, base_url=ORIGIN) as client:
        yield client


def connect(client, token=TOKEN, **headers):
    ours = {"origin": ORIGIN, "host": f"127.0.0.1:{PORT}"}
    return client.websocket_connect(f"/{token}/socket", headers={**ours, **headers})


def receive(board, kind):
    while (message := board.receive_json())["tell"] != kind:
        assert message["tell"] != "error", message
    return message


@pytest.mark.parametrize("path", ["", "board.js", "page.js"])
def test_files_require_the_token(client, path):
    answer = client.get(f"/{TOKEN}/{path}")
    assert answer.status_code == 200
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["x-frame-options"] == "DENY"
    assert client.get(f"/another/{path}").status_code == 404
    assert (
        client.get(f"/{TOKEN}/{path}", headers={"host": f"evil.example:{PORT}"}).status_code == 404
    )
    assert client.post(f"/{TOKEN}/{path}").status_code == 405


@pytest.mark.parametrize(("port", "status"), [(80, 200), (PORT, 404)])
def test_browsers_omit_the_port_of_http(port, status):
    app = make_app(TOKEN, port, lambda tell: Session(Unthinking(), tell))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        for host in ("127.0.0.1", "localhost"):
            assert client.get(f"/{TOKEN}/", headers={"host": host}).status_code == status
        assert client.get(f"/{TOKEN}/", headers={"host": "evil.example"}).status_code == 404
    if status == 200:
        ours = {"origin": "http://localhost", "host": "localhost"}
        with TestClient(app).websocket_connect(f"/{TOKEN}/socket", headers=ours) as board:
            board.send_json({"do": "hello"})
            receive(board, "hello")


def test_other_paths_are_not_found(client):
    for path in (
        "/",
        f"/{TOKEN}/server.py",
        f"/{TOKEN}/../web/server.py",
        f"/{TOKEN}/%2e%2e/run.py",
        "/%ff/",
    ):
        assert client.get(path).status_code == 404, path


@pytest.mark.parametrize(
    ("token", "headers"),
    [
        ("another", {}),
        (TOKEN, {"origin": "http://evil.example"}),
        (TOKEN, {"origin": "null"}),
        (TOKEN, {"origin": f"https://127.0.0.1:{PORT}"}),
        (TOKEN, {"origin": f"http://127.0.0.1:{PORT + 1}"}),
        (TOKEN, {"origin": f"http://localhost:{PORT}"}),
        (TOKEN, {"origin": f"http://evil.example:{PORT}", "host": f"evil.example:{PORT}"}),
    ],
)
def test_sockets_of_other_origins_are_refused(client, token, headers):
    with pytest.raises(WebSocketDisconnect), connect(client, token, **headers):
        pass


def test_ten_tabs_play_at_once(client):
    with contextlib.ExitStack() as stack:
        boards = [stack.enter_context(connect(client)) for _ in range(10)]
        for board in boards:
            board.send_json(NEW)
        for i, board in enumerate(boards):
            receive(board, "at")
            board.send_json({"do": "play", "at": 5 + i})
        for i, board in enumerate(boards):
            at = receive(board, "at")
            while at["engine"]:
                at = receive(board, "at")
            assert at["stones"].index("X") == 5 + i
            assert at["stones"][0] == "O"


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '"x"', "[" * 100_000, "\x00"])
def test_invalid_messages_are_answered_with_an_error(client, text):
    with connect(client) as board:
        board.send_text(text)
        assert board.receive_json()["text"] == "a message must be a JSON object"
        board.send_json({"do": "hello"})
        assert receive(board, "hello")["player"] == "random"


def test_a_message_too_long_ends_the_socket(client):
    with connect(client) as board:
        board.send_text(json.dumps({"do": "load", "sgf": "x" * MAX_MESSAGE}))
        with pytest.raises(WebSocketDisconnect) as ended:
            board.receive_json()
        assert ended.value.code == 1009


def test_the_number_of_boards_is_limited(client):
    with contextlib.ExitStack() as stack:
        for _ in range(MOST_BOARDS):
            stack.enter_context(connect(client))
        more = stack.enter_context(connect(client))
        with pytest.raises(WebSocketDisconnect) as ended:
            more.receive_json()
        assert "close one" in ended.value.reason
    with connect(client) as board:
        board.send_json({"do": "hello"})
        receive(board, "hello")


class Stuck:
    """A socket whose peer neither reads nor sends; `writes` messages fit in its buffers."""

    def __init__(self, writes=0):
        self.sent, self.closed, self._writes = [], None, writes

    async def receive_text(self):
        await asyncio.sleep(3600)

    async def send_text(self, text):
        if len(self.sent) == self._writes:
            await asyncio.sleep(3600)
        self.sent.append(text)

    async def close(self, code, reason):
        self.closed = code, reason


class Talkative:
    """A session that sends messages until it is closed."""

    is_full = False

    def __init__(self, tell):
        self.tell, self.sent, self.closed = tell, 0, threading.Event()

    def put(self, message):
        assert message is None
        self.closed.set()

    def run(self):
        while not self.closed.wait(0.001):
            self.tell({"tell": "x" * 100})
            self.sent += 1


def test_a_tab_that_reads_nothing_is_closed(monkeypatch):
    monkeypatch.setattr(server, "MOST_UNREAD", 1000)
    stuck, boards, open_boards = Stuck(writes=5), [], set()

    def new_board(tell):
        boards.append(Talkative(tell))
        return boards[0]

    asyncio.run(server._serve(stuck, new_board, open_boards))
    assert stuck.closed == (1013, "messages are not read")
    assert len(stuck.sent) == 5
    assert boards[0].closed.is_set()
    assert boards[0].sent >= 5 + 1000 // 112
    assert not open_boards


def test_a_session_that_is_full_makes_its_tab_wait():
    class Full:
        is_full, taken = True, 0

        def put(self, message):
            assert not self.is_full
            self.taken += 1

    class Tab:
        left = 2

        async def receive_text(self):
            if not self.left:
                raise WebSocketDisconnect
            self.left -= 1
            return "{}"

    async def taken():
        task = asyncio.create_task(server._take(tab, full))
        await asyncio.sleep(0.02)
        assert (full.taken, tab.left) == (0, 1)
        full.is_full = False
        await asyncio.wait_for(task, 60)

    full, tab = Full(), Tab()
    asyncio.run(taken())
    assert full.taken == 2


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    """(address, process) of the command."""
    with served(tmp_path_factory.mktemp("web"), "--player", "random", "--size", "5") as both:
        yield both


@pytest.mark.slow
def test_the_command_listens_on_loopback_only(command):
    address, _ = command
    port = int(address.split(":")[2].split("/")[0])
    assert address.startswith("http://127.0.0.1:")
    assert len(address.split("/")[3]) >= 24
    assert urllib.request.urlopen(address).status == 200
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/")
    with contextlib.suppress(OSError):  # it does not listen on other addresses
        own = socket.gethostbyname(socket.gethostname())
        if not own.startswith("127.0.0.1"):
            with pytest.raises(OSError):  # noqa: PT011
                socket.create_connection((own, port), timeout=2).close()


@pytest.mark.slow
def test_a_thousand_fuzzed_messages_to_the_command(command):
    from websockets.sync.client import connect as open_socket

    address, process = command
    rng = random.Random(5)
    sample = json.dumps({"do": "play", "at": 12, "sgf": "(;SZ[5];B[aa])"})
    origin = "/".join(address.split("/")[:3])
    url = address.replace("http", "ws") + "socket"
    count = 0
    while count < 1000:
        with open_socket(url, origin=origin) as board, contextlib.suppress(Exception):
            for _ in range(100):
                count += 1
                text = list(sample)
                for _ in range(rng.randrange(1, 6)):
                    text[rng.randrange(len(text))] = chr(
                        rng.choice([*range(32, 127), 0, 233, 0x4E00])
                    )
                board.send("".join(text) if rng.random() < 0.9 else rng.randbytes(40))
    with open_socket(url, origin=origin) as board:
        board.send(json.dumps({"do": "hello"}))
        assert json.loads(board.recv(60))["tell"] == "hello"
    with open_socket(url, origin=origin) as board:
        with contextlib.suppress(Exception):
            board.send("x" * (5 * MAX_MESSAGE))
        with pytest.raises(Exception, match="1009"):
            board.recv(60)
    assert process.poll() is None
