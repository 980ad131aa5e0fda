"""The status of a run, read from its folder."""

from __future__ import annotations

import json
import shutil
import socket
import threading
import urllib.error
import urllib.request

import pytest

from gozero.runs import store
from tests.train import worker_runs
from train import exchange, status


def test_a_run_and_its_workers(tmp_path, capsys):
    config = worker_runs.config_in(tmp_path / "run")
    assert status.status(config.folder) == {}
    lines = [
        b'{"iteration": 34, "elo": 57.5, "games": 3, "seconds": 10, "shards_read": 4, '
        b'"shards_late": 0, "shards_rows": 100}',
        b"torn",
        b'{"iteration": 35, "games": 4, "seconds": 12.5, "shards_read": 9, "shards_late": 1, '
        b'"shards_rows": 150}',
    ]
    (config.folder / "metrics.jsonl").write_bytes(b"\n".join(lines) + b'\n{"iteration": 36')
    own = {"iteration": 35, "Elo": 57.5, "games of its own": 4, "shards read": 9, "rows read": 150}
    assert status.status(config.folder) == own | {"shards that came too late": 1}
    for version in range(1, 4):
        (tmp_path / "weights").write_bytes(b"%d" % version)
        exchange.publish(config.shared, tmp_path / "weights", 10 * version)
    for worker, number, version in (("a", 0, 1), ("b", 0, 2), ("c", 0, 3), ("c", 1, 3)):
        worker_runs.write_shard(config, worker, number, 5, version=version)
    assert status.main(["--out", str(config.folder)]) == 0
    values = dict(line.rsplit(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert int(values.pop("bytes of them").replace(",", "")) > 1000
    assert values == {
        "iteration": "35",
        "Elo": "57.5",
        "games of its own": "4",
        "shards read": "9",
        "shards that came too late": "1",
        "rows read": "150",
        "rows read a second": "20.0",
        "share of shards too late": "0.1",
        "version of the weights": "3",
        "weights of iteration": "30",
        "iterations since these weights": "5",
        "workers since the version before": "2",
        "shards of them": "3",
    }


def test_a_run_of_an_earlier_version_without_late_counts(tmp_path):
    config = worker_runs.config_in(tmp_path / "run")
    lines = [f'{{"seconds": {i}, "shards_read": 2, "shards_rows": {9 * i}}}\n' for i in (1, 3)]
    (config.folder / "metrics.jsonl").write_text("".join(lines))
    (tmp_path / "weights").write_bytes(b"1")
    exchange.publish(config.shared, tmp_path / "weights", 10)
    report = status.status(config.folder)
    assert (report["rows read a second"], report["share of shards too late"]) == (9.0, 0.0)


def test_the_time_of_matches_counts_where_rows_are_read(tmp_path):
    """Workers play on during the match after the second line, but the one before is over."""
    config = worker_runs.config_in(tmp_path / "run")
    lines = [
        {"seconds": 10.0 * i, "shards_read": 2 * i, "shards_rows": 900 * i} | more
        for i, more in enumerate(({"evaluation_s": 500.0}, {"gate_s": 80.0}, {"gate_s": 70.0}), 1)
    ]
    (config.folder / "metrics.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
    (tmp_path / "weights").write_bytes(b"1")
    exchange.publish(config.shared, tmp_path / "weights", 10)
    assert status.status(config.folder)["rows read a second"] == 10.0


def test_only_the_end_of_long_metrics_is_read(tmp_path, monkeypatch):
    config = worker_runs.config_in(tmp_path / "run", evaluate_every=100)
    lines = [{"iteration": i, "games": 10 * i} for i in range(1, 2001)]
    lines[899] |= {"elo": 12.5}
    lines[1899] |= {"elo": 57.5}
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (config.folder / "metrics.jsonl").write_text(text)
    sizes, tail = [], store.Folder.tail
    monkeypatch.setattr(status, "_TAIL", 100)

    def note(shared, key, most):
        sizes.append(most)
        return tail(shared, key, most)

    monkeypatch.setattr(store.Folder, "tail", note)
    assert status.status(config.folder) == {
        "iteration": 2000,
        "Elo": 57.5,
        "games of its own": 20000,
    }
    assert sizes == [100, 400, 1600, 6400]
    assert len(text) > 60_000
    del sizes[:]
    without = worker_runs.config_in(tmp_path / "without", evaluate_every=0)
    (without.folder / "metrics.jsonl").write_text(text)
    assert status.status(without.folder)["iteration"] == 2000
    assert sizes == [100]


def test_metrics_are_served_until_stopped(tmp_path):
    """In OpenMetrics' format: one type per name, and # EOF; missing things get an error status."""
    config = worker_runs.config_in(tmp_path / "run")
    (config.folder / "metrics.jsonl").write_text('{"iteration": 11, "elo": -57.5}\n')
    status_config = status.StatusConfig(config.folder, port=0)
    with status.server(status_config) as server:
        address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        silent = socket.create_connection(("127.0.0.1", server.server_port))  # others do not wait
        with silent, urllib.request.urlopen(f"{address}/metrics", timeout=4) as answer:
            assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
            body = answer.read().decode()
        shutil.rmtree(config.folder)
        errors = []
        for path in ("", "metrics"):
            with pytest.raises(urllib.error.HTTPError) as error:
                urllib.request.urlopen(f"{address}/{path}")
            errors.append(error.value.code)
            error.value.close()
        server.shutdown()
        thread.join()
    assert errors == [404, 503]
    assert body.splitlines() == [
        "# TYPE gozero_iteration gauge",
        "# HELP gozero_iteration Of the run: iteration.",
        "gozero_iteration 11",
        "# TYPE gozero_elo gauge",
        "# HELP gozero_elo Of the run: Elo.",
        "gozero_elo -57.5",
        "# EOF",
    ]


def test_a_used_port_is_one_line(tmp_path, capsys):
    config = worker_runs.config_in(tmp_path / "run")
    status_config = status.StatusConfig(config.folder, port=0)
    with status.server(status_config) as server, pytest.raises(SystemExit) as stop:
        status.main(["--out", str(config.folder), "--port", str(server.server_port)])
    assert stop.value.code == 1
    assert "Address already in use" in capsys.readouterr().err


def test_no_run(tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        status.main(["--out", str(tmp_path)])
    assert stop.value.code == 2
    assert "there is no training run there" in capsys.readouterr().err
