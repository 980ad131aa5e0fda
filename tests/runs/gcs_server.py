"""A fake of the part of Google Cloud Storage's XML API that stores use, with faults."""

from __future__ import annotations

import http.server
import threading
import urllib.parse
from xml.sax.saxutils import escape

PAGE = 1000


class Server(http.server.ThreadingHTTPServer):
    """A server of any bucket, until it is shut down.

    Attributes:
      objects: {path: bytes}.
      faults: the faults of the next writes, in order: a "lost" write is done but not answered, a
        "busy" one is answered with 503 and not done.
    """

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, bytes] = {}
        self.faults: list[str] = []
        self.lock = threading.Lock()
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_PUT(self):
        data = self.rfile.read(int(self.headers["Content-Length"]))
        fault = self.server.faults.pop(0) if self.server.faults else None
        if fault == "busy":
            return self._answer(503)
        with self.server.lock:
            taken = self.headers.get("x-goog-if-generation-match") == "0" and self._key in (
                self.server.objects
            )
            if not taken:
                self.server.objects[self._key] = data
        if fault == "lost":
            self.close_connection = True
            return self.connection.shutdown(2)
        return self._answer(412 if taken else 200)

    def do_GET(self):
        query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query))
        if "list-type" in query:
            return self._answer(200, self._listed(query))
        content = self.server.objects.get(self._key)
        if content is None:
            return self._answer(404)
        if "Range" not in self.headers:
            return self._answer(200, content)
        first, last = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
        last = min(last, len(content) - 1)
        where = f"bytes {first}-{last}/{len(content)}"
        return self._answer(206, content[first : last + 1], ("Content-Range", where))

    do_HEAD = do_GET

    def do_DELETE(self):
        self._answer(204 if self.server.objects.pop(self._key, None) is not None else 404)

    def _listed(self, query) -> bytes:
        lead = f"{self._key}/"
        after = max(query.get("start-after", ""), query.get("continuation-token", ""))
        keys = sorted(key.removeprefix(lead) for key in self.server.objects if key > lead)
        keys = [key for key in keys if key.startswith(query.get("prefix", "")) and key > after]
        more = "".join(
            f"<NextContinuationToken>{escape(key)}</NextContinuationToken>"
            for key in keys[PAGE - 1 : PAGE] * (len(keys) > PAGE)
        )
        size = lambda key: len(self.server.objects[lead + key])
        rows = (
            f"<Contents><Key>{escape(key)}</Key><Size>{size(key)}</Size><ETag>e</ETag>"
            "<LastModified>2026-01-01T00:00:00Z</LastModified></Contents>"
            for key in keys[:PAGE]
        )
        return f"<ListBucketResult>{''.join(rows)}{more}</ListBucketResult>".encode()

    @property
    def _key(self) -> str:
        return urllib.parse.unquote(urllib.parse.urlsplit(self.path).path).strip("/")

    def _answer(self, status: int, data: bytes = b"", *more: tuple[str, str]):
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        modified = ("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
        for name, value in (("ETag", "e"), modified, *more):
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, format, *args):
        pass
