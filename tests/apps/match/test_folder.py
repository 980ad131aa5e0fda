"""A match on disk: the players that have played its games."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import resource
import shutil

import pytest

from gozero.apps import sgf
from gozero.apps.match.config import MatchConfig, Side
from gozero.apps.match.folder import MatchFolder
from gozero.apps.match.score import GameLine
from gozero.play.player_config import FILES

GAME = GameLine(0, "player", "B+R", 1.0, "resign", "", 9, 1, (1.0, 1.0), (5, 4))
MOVES = sgf.GameRecord(size=9, komi=7.0, moves=())


def evaluators(path: str, digest: str) -> dict:
    return {"player": {"weights": path, "weights_sha256": digest}, "opponent": {"policy": "mogo"}}


def test_weights_are_identified_by_their_hash(tmp_path):
    player = Side(evaluator="network", weights=pathlib.Path("a.npz"))
    config = MatchConfig(player=player, size=9, games=4, out=tmp_path / "run")
    first = evaluators("a.npz", "0" * 64)
    with MatchFolder(config, first) as folder:
        folder.write_manifest({"evaluators": first})
    with MatchFolder(config, evaluators("a.npz", "1" * 64)) as folder:  # no game was played
        folder.write_manifest({"evaluators": first})
        folder.add(GAME, MOVES)
    with pytest.raises(
        ValueError, match=r"games with other weights: --player.weights a.npz had SHA"
    ):
        MatchFolder(config, evaluators("a.npz", "1" * 64))
    moved = dataclasses.replace(player, weights=pathlib.Path("b.npz"))
    with MatchFolder(dataclasses.replace(config, player=moved), evaluators("b.npz", "0" * 64)):
        pass  # the same weights, at another path
    with MatchFolder(dataclasses.replace(config, timeout=600.0), first):
        pass  # a slower machine
    without = dataclasses.replace(config, player=Side())
    with pytest.raises(ValueError, match=r"--player.weights was a.npz and is None"):
        MatchFolder(without, {})


def test_openings_from_files_may_not_change(tmp_path):
    config = MatchConfig(openings_from=pathlib.Path("lines"), games=4, out=tmp_path / "run")
    with MatchFolder(config, {}, "0" * 64) as folder:
        folder.write_manifest({"openings_sha256": "0" * 64})
        folder.add(GAME, MOVES)
    with pytest.raises(ValueError, match="other openings than --openings-from has now"):
        MatchFolder(config, {}, "1" * 64)
    with MatchFolder(config, {}, "0" * 64) as folder:
        folder.write_manifest({})  # from before they were recorded
    with MatchFolder(config, {}, "1" * 64):
        pass


@pytest.mark.parametrize("before", [{"games": 4, "batch": 2}, {"games": "many"}, ["no", "flags"]])
def test_a_folder_of_something_else_is_refused(before, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(before))
    with pytest.raises(ValueError, match="does not belong to a match; name a new folder"):
        MatchFolder(MatchConfig(games=4, out=tmp_path))


DAMAGED = [
    {"game": 4},
    {"game": "0"},
    {"game": -1},
    {"points": "x"},
    {"points": 0.75},
    {"points": None},
    {"seconds": [1.0]},
    {"turns": ["5", 4]},
    {"moves": None},
]


@pytest.mark.parametrize("change", DAMAGED)
def test_a_damaged_line_is_reported(change, tmp_path):
    config = MatchConfig(games=4, out=tmp_path / "run")
    with MatchFolder(config) as folder:
        folder.add(GAME._replace(game=1), MOVES)
        line = json.dumps(GAME._asdict() | change) + "\n"
        with (tmp_path / "run" / "results.jsonl").open("a") as file:
            file.write(line)
    with pytest.raises(ValueError, match=r"results.jsonl, line 2 is damaged: "):
        MatchFolder(config)


def test_a_too_long_folder_name_is_one_line():
    with pytest.raises(ValueError, match=r"out: x+ cannot be read \(File name too long\)"):
        MatchFolder(MatchConfig(games=4, out=pathlib.Path("x" * 300)))


FLAGS = {
    "weights": {"evaluator": "network"},
    "strengths": {"playouts": "mm"},
    "prior_strengths": {"search": "rave", "priors": "mm", "expert_bonus": 0.1},
    "shapes": {"search": "rave", "heuristic": "shape"},
}


@pytest.mark.parametrize("name", FILES)
def test_files_are_identified_by_their_contents(name, tmp_path):
    player = lambda path: Side(**FLAGS[name], **{name: path and pathlib.Path(path)})
    about = lambda path, digest: {"player": {name: path, f"{name}_sha256": digest}}
    flag = f"--player.{name.replace('_', '-')}"
    config = MatchConfig(player=player("a.npz"), size=9, games=4, out=tmp_path / "run")
    with MatchFolder(config, about("a.npz", "0" * 64)) as folder:
        folder.write_manifest({"evaluators": about("a.npz", "0" * 64)})
        folder.add(GAME, MOVES)
    with pytest.raises(ValueError, match=f"with other {name}: {flag} a.npz had SHA-256 000"):
        MatchFolder(config, about("a.npz", "1" * 64))
    moved = dataclasses.replace(config, player=player("b.npz"))
    with MatchFolder(moved, about("b.npz", "0" * 64)):
        pass
    shipped = dataclasses.replace(config, player=player(None))
    with pytest.raises(ValueError, match=rf"{flag} was b.npz and is None"):
        MatchFolder(shipped, {})


def test_a_refused_command_does_not_change_the_folder(tmp_path):
    player = Side(evaluator="network", weights=pathlib.Path("a.npz"))
    config = MatchConfig(player=player, size=9, games=4, out=tmp_path / "run")
    more = dataclasses.replace(config, games=10)
    first, other = evaluators("a.npz", "0" * 64), evaluators("a.npz", "1" * 64)
    with MatchFolder(config, first) as folder:
        folder.write_manifest({"evaluators": first})
        folder.add(GAME, MOVES)
        with pytest.raises(ValueError, match="run is being played by another process"):
            MatchFolder(more, first)
    with pytest.raises(ValueError, match="games with other weights"):
        MatchFolder(more, other)
    with MatchFolder(config, first) as folder:  # fewer games than the refused commands asked for
        assert folder.session == 1


def test_a_config_written_before_the_lock_is_checked(tmp_path, monkeypatch):
    config = MatchConfig(games=4, out=tmp_path / "run")
    lock = MatchFolder._lock

    def write_config_first(self):
        monkeypatch.setattr(MatchFolder, "_lock", lock)
        with MatchFolder(dataclasses.replace(config, komi=5.0)):
            pass
        lock(self)

    monkeypatch.setattr(MatchFolder, "_lock", write_config_first)
    with pytest.raises(ValueError, match=r"--komi was 5.0 and is 7.0"):
        MatchFolder(config)
    assert json.loads((config.out / "config.json").read_text())["komi"] == 5.0


def test_a_match_resumes_after_a_kill_during_folder_creation(tmp_path):
    config = MatchConfig(games=4, out=tmp_path / "run")
    config.out.mkdir()
    (config.out / "results.jsonl").touch()
    with MatchFolder(config) as folder:
        assert folder.games == {}
    (config.out / "config.json").unlink()
    (config.out / "results.jsonl").write_text("{}")
    with pytest.raises(ValueError, match="run is not empty"):
        MatchFolder(config)


RECORD = pathlib.Path(__file__).parents[3] / "experiments/against_gnugo/results/heuristic"


def test_a_folder_of_an_earlier_version_is_resumed(tmp_path):
    out = tmp_path / "old"
    shutil.copytree(RECORD, out)
    recorded = json.loads((out / "config.json").read_text())
    manifest = json.loads((out / "manifest.json").read_text())
    for name in ("strengths", "shapes"):
        recorded["player"].pop(name, None)
        recorded["opponent"].pop(name, None)
        manifest["evaluators"]["player"].pop(f"{name}_sha256", None)
    (out / "config.json").write_text(json.dumps(recorded))
    (out / "manifest.json").write_text(json.dumps(manifest))
    sides = {name: Side(**recorded.pop(name)) for name in ("player", "opponent")}
    config = MatchConfig(**recorded | sides | {"out": out})
    digest = {"player": {"shapes": "local_shape_9", "shapes_sha256": "0" * 64}}
    with MatchFolder(config, digest) as folder:
        assert len(folder.games) == len((out / "results.jsonl").read_text().splitlines()) > 0
        assert {game.failures for game in folder.games.values()} == {()}
    assert {"strengths", "shapes"} <= json.loads((out / "config.json").read_text())["player"].keys()


def test_a_record_is_synced_before_its_result_line(tmp_path, monkeypatch):
    synced, fsync = [], os.fsync

    def noted(handle):
        synced.append(os.fstat(handle).st_ino)
        fsync(handle)

    out = tmp_path / "run"
    with MatchFolder(MatchConfig(out=out)) as folder:
        monkeypatch.setattr(os, "fsync", noted)
        folder.add(GAME, MOVES)
    expected = [out / "games" / "0000.sgf", out / "games", out / "results.jsonl"]
    assert synced == [path.stat().st_ino for path in expected]


def test_a_partial_line_on_a_full_disk_is_an_error_and_truncated(tmp_path):
    config = MatchConfig(out=tmp_path / "run")
    results = config.out / "results.jsonl"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with MatchFolder(config) as folder:
        folder.add(GAME, MOVES)
        whole = results.read_bytes()
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) + 10, hard))
        try:
            with pytest.raises(OSError, match=r"^out: .*run cannot be written \(File too large\)"):
                folder.add(GAME._replace(game=1), MOVES)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert results.read_bytes() == whole
        assert list(folder.games) == [0]
    results.write_bytes(whole + whole[:10])  # as a kill leaves it
    with MatchFolder(config) as folder:
        assert list(folder.games) == [0]
    assert results.read_bytes() == whole
