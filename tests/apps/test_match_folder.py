"""A match on disk: which weights have played it."""

from __future__ import annotations

import dataclasses
import pathlib

import pytest

from gozero.apps.match_config import MatchConfig, Side
from gozero.apps.match_folder import MatchFolder
from gozero.apps.match_score import Game

GAME = Game(0, "player", "B+R", 1.0, "resign", "", 9, 1, (1.0, 1.0), (5, 4))


def evaluators(path: str, digest: str) -> dict:
    return {"player": {"weights": path, "weights_sha256": digest}, "opponent": {"policy": "mogo"}}


def test_weights_are_known_by_what_they_are(tmp_path):
    player = Side(evaluator="network", weights=pathlib.Path("a.npz"))
    config = MatchConfig(player=player, games=4, out=tmp_path / "run")
    first = evaluators("a.npz", "0" * 64)
    with MatchFolder(config, first) as folder:
        folder.write_manifest({"evaluators": first})
    with MatchFolder(config, evaluators("a.npz", "1" * 64)) as folder:  # nothing was played
        folder.write_manifest({"evaluators": first})
        folder.add(GAME, None)
    with pytest.raises(ValueError, match=r"games of other weights: --player.weights a.npz had SHA"):
        MatchFolder(config, evaluators("a.npz", "1" * 64))
    moved = dataclasses.replace(player, weights=pathlib.Path("b.npz"))
    with MatchFolder(dataclasses.replace(config, player=moved), evaluators("b.npz", "0" * 64)):
        pass  # the same ones, elsewhere
    with MatchFolder(dataclasses.replace(config, timeout=600.0), first):
        pass  # a slower machine
    without = dataclasses.replace(config, player=Side())
    with pytest.raises(ValueError, match=r"--player.weights was a.npz and is None"):
        MatchFolder(without, {})
