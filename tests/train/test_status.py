"""What is said of a run, from its folder."""

from __future__ import annotations

import pytest

from tests.train import worker_runs
from train import exchange, status


def test_a_run_and_its_workers(tmp_path, capsys):
    config = worker_runs.config_in(tmp_path / "run")
    assert status.status(config.folder) == {}
    lines = [
        b'{"iteration": 10, "elo": 57.5, "games": 3}',
        b"torn",
        b'{"iteration": 11, "games": 4}',
    ]
    (config.folder / "metrics.jsonl").write_bytes(b"\n".join(lines) + b'\n{"iteration": 12')
    assert status.status(config.folder) == {"iteration": 11, "Elo": 57.5, "games of its own": 4}
    for version in range(1, 4):
        (tmp_path / "weights").write_bytes(b"%d" % version)
        exchange.publish(config.shared, tmp_path / "weights", 10 * version)
    for worker, number, version in (("a", 0, 1), ("b", 0, 2), ("c", 0, 3), ("c", 1, 3)):
        worker_runs.write_shard(config, worker, number, 5, version=version)
    assert status.main(["--out", str(config.folder)]) == 0
    said = dict(line.rsplit(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert int(said.pop("bytes of them").replace(",", "")) > 1000
    assert said == {
        "iteration": "11",
        "Elo": "57.5",
        "games of its own": "4",
        "version of the weights": "3",
        "weights of iteration": "30",
        "workers since the version before": "2",
        "shards of them": "3",
    }


def test_no_run(tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        status.main(["--out", str(tmp_path)])
    assert stop.value.code == 2
    assert "no training run is there" in capsys.readouterr().err
