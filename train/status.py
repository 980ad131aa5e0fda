"""``python -m train status --out DIR``: the state of a run and its workers.

It is printed in words, or with --port served as OpenMetrics text, which Prometheus reads.
"""

from __future__ import annotations

import dataclasses
import http.server
import pathlib
import re
import signal
from collections.abc import Sequence
from typing import Any

from gozero.apps import flags, runtime
from gozero.play import shards
from gozero.runs import files, settings, store
from gozero.runs.settings import setting
from gozero.runs.store import Store
from train import exchange, folder

PROG = "python -m train status"
_LABELS = {
    "iteration": "iteration",
    "elo": "Elo",
    "games": "games of its own",
    "games_per_s": "games of its own a second",
    "shards_read": "shards read",
    "shards_late": "shards that came too late",
    "shards_skipped": "shards passed over",
    "shards_rows": "rows read",
    "updates_dropped": "updates dropped",
}
_TAIL = 2**18
"""The number of bytes at the end of the metrics that are read first: hundreds of iterations."""

_OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


@dataclasses.dataclass(frozen=True)
class StatusConfig:
    """Print the state of a run: its newest metrics, the version of the weights that workers play
    with, and the number of workers."""

    out: pathlib.Path = setting()
    """The run's folder, or the URL of its bucket: s3://, gs://, az://."""

    port: int | None = setting(None, least=0, most=65535)
    """Serve http://HOST:PORT/metrics in the OpenMetrics format until Ctrl-C, instead of printing
    once. 0 takes a free port."""

    host: str = setting("127.0.0.1")
    """The address to serve --port on: 0.0.0.0 answers other machines too."""

    EXAMPLES = (
        "python -m train status --out runs/zero-9x9-gpu",
        "python -m train status --out s3://bucket/zero-9x9-gpu --port 9400",
    )

    def __post_init__(self):
        settings.check(self)


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit status: 0, 1 if the run cannot be read now, 2 for bad input, 130 for
    Ctrl-C."""
    config = flags.parse(StatusConfig, argv, prog=PROG)
    with flags.exit_on_error(PROG):
        numbers = status(config.out)
        if config.port is None:
            for name, value in numbers.items():
                print(f"{name:36}{value:,}")
            return 0
        with server(config) as http_server, runtime.StopRequest() as stop:
            print(f"http://{config.host}:{http_server.server_port}/metrics", flush=True)
            http_server.timeout = 0.5
            while not stop.requested:
                http_server.handle_request()
    return runtime.STOPPED if stop.number == signal.SIGINT else 0


def server(config: StatusConfig) -> http.server.ThreadingHTTPServer:
    """A server that answers GET /metrics with the run's current `metrics`, each client in a thread.

    Raises:
      OSError: the port is taken.
    """

    class Handler(http.server.BaseHTTPRequestHandler):
        timeout = 5  # seconds until a silent connection is closed

        def do_GET(self) -> None:
            if self.path.partition("?")[0] != "/metrics":
                self.send_error(404)
                return
            try:
                body = metrics(status(config.out)).encode()
            except (OSError, ValueError) as error:
                self.send_error(503, explain=str(error))
                return
            self.send_response(200)
            self.send_header("Content-Type", _OPEN_METRICS)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Log nothing: there are several requests a minute."""

    return http.server.ThreadingHTTPServer((config.host, config.port or 0), Handler)


def metrics(numbers: dict[str, Any]) -> str:
    """The `status` as OpenMetrics text: gauges ``gozero_games_of_its_own 123``."""
    lines = []
    for words, value in numbers.items():
        name = "gozero_" + re.sub(r"[^a-z0-9]+", "_", words.lower())
        lines += [f"# TYPE {name} gauge", f"# HELP {name} Of the run: {words}.", f"{name} {value}"]
    return "\n".join([*lines, "# EOF", ""])


def status(out: pathlib.Path) -> dict[str, Any]:
    """The state of a run, {label: number}.

    Raises:
      ValueError: there is no run.
      OSError: it cannot be read now.
    """
    config = folder.read_config(out)
    shared = store.at(out)
    newest = exchange.newest(shared)
    line, rates = _newest_line(shared, config.evaluate_every > 0, _TAIL)
    numbers = {words: line[name] for name, words in _LABELS.items() if line.get(name) is not None}
    if not newest.version:
        return numbers
    lag = max(0, line.get("iteration", 0) - newest.iteration)
    numbers |= rates | _worker_numbers(shared, newest)
    return numbers | {"iterations since these weights": lag}


def _newest_line(
    shared: Store, has_elo: bool, most: int
) -> tuple[dict[str, Any], dict[str, float]]:
    """(the last line of metrics.jsonl, with the newest Elo; the rates of the exchange with workers,
    from this line and the one before). Reads the last `most` bytes, or more to find an Elo."""
    try:
        data = shared.tail(folder.METRICS, most)
    except FileNotFoundError:
        return {}, {}
    line: dict[str, Any] = {}
    before: dict[str, Any] = {}
    last: dict[str, Any] = {}
    pause = 0.0  # seconds of matches between the last two lines
    for data_line in data.split(b"\n")[:-1]:
        try:
            parsed = dict(files.parse_json(data_line))
        except (ValueError, TypeError):  # torn, or cut where the reading began
            continue
        pause, last = sum(last.get(name, 0.0) for name in ("evaluation_s", "gate_s")), parsed
        before, line = line, line | parsed
    if has_elo and "elo" not in line and len(data) == most:
        return _newest_line(shared, has_elo, 4 * most)
    return line, _rates(before, line, pause)


def _rates(before: dict[str, Any], line: dict[str, Any], pause: float) -> dict[str, float]:
    if "shards_rows" not in before:
        return {}
    late, read = line.get("shards_late", 0), line["shards_read"]  # absent in older runs
    rows = line["shards_rows"] - before["shards_rows"]
    seconds = max(line["seconds"] - before["seconds"] + pause, 1e-9)
    return {
        "rows read a second": round(rows / seconds, 1),
        "share of shards too late": round(late / max(late + read, 1), 4),
    }


def _worker_numbers(shared: Store, newest: exchange.Newest) -> dict[str, Any]:
    """The state of the workers, by the shards of the newest version and the one before."""
    after = f"{shards.FOLDER}/{max(0, newest.version - 1):08d}"
    entries = [(shards.place_of(key), size) for key, size in shared.list(shards.FOLDER, after)]
    written = [(place, size) for place, size in entries if place is not None and place.version]
    return {
        "version of the weights": newest.version,
        "weights of iteration": newest.iteration,
        "workers since the version before": len({place.worker for place, _ in written}),
        "shards of them": len(written),
        "bytes of them": sum(size for _, size in written),
    }
