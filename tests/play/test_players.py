"""Players by name: each works on every board size, and the records support what is claimed."""

from __future__ import annotations

import json
import pathlib
import typing

import pytest

from gozero.play import players
from gozero.play.player_config import PlayerConfig

ROOT = pathlib.Path(__file__).parents[2]
NAMES = typing.get_args(players.PlayerName)


@pytest.mark.parametrize("name", NAMES)
def test_each_can_play_on_every_board(name):
    for size in range(2, 26):
        config = PlayerConfig(**players.settings_of(name, size))
        config.check()
        config.check_size(size)
        assert (config.evaluator == "network") == (name == "strong" and size in (7, 9))
        assert not config.is_random


@pytest.mark.parametrize("row", players.MEASURED, ids=lambda row: f"{row.player}-{row.size}")
def test_claims_about_players_were_measured(row):
    folder = ROOT / "experiments" / row.record
    summary, config = (
        json.loads((folder / f"{name}.json").read_text()) for name in ("summary", "config")
    )
    assert [summary["score"], *summary["interval"]] == [row.score, row.low, row.high]
    assert (summary["games"], summary["seconds_a_move"]["player"]) == (row.games, row.seconds)
    played = config["player"]
    assert played.pop("resign") == -0.95
    own = PlayerConfig(**players.settings_of(row.player, row.size))
    weights = played.pop("weights")
    assert weights is None or pathlib.Path(weights).stem == f"{row.size}x{row.size}"
    of_side = "command", "main_time", "reuse", "player"
    known = {name: value for name, value in played.items() if name not in of_side}
    assert {name: getattr(own, name) for name in known} == known
    komi = 9.0 if row.opponent.endswith("at komi 9") else 7.0
    assert (config["size"], config["komi"]) == (row.size, komi)


def test_shipped_networks_are_the_measured_ones_and_small():
    for size, path in players.NETWORKS.items():
        measured = ROOT / f"experiments/zero_strength/results/{size}x{size}.safetensors"
        assert path.read_bytes() == measured.read_bytes()
    shipped = (ROOT / "gozero").rglob("*.safetensors")
    assert sum(path.stat().st_size for path in shipped) <= 4 * 2**20
