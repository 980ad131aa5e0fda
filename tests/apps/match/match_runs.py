"""Runs of ``gozero match`` with scripted programs, for tests."""

from __future__ import annotations

import json
import pathlib
import sys

from gozero.apps import cli

ENGINE = pathlib.Path(__file__).parents[1] / "scripted.py"
BOARD = ("--size", "3", "--komi", "0", "--max-moves", "30")


def scripted(*plan: str) -> str:
    return " ".join([sys.executable, "-S", str(ENGINE), "{game}", *plan])


def arguments(out, player: str, opponent: str, *more: str) -> list[str]:
    players = ["--player.command", player, "--opponent.command", opponent]
    return ["match", *BOARD, *players, "--out", str(out), *more]


def match(out, player: str, opponent: str, *more: str) -> int:
    """Run ``gozero match``; returns the exit status."""
    try:
        return cli.main(arguments(out, player, opponent, *more))
    except SystemExit as stop:
        return stop.code


def results(out) -> dict[int, dict]:
    lines = (out / "results.jsonl").read_text().splitlines()
    return {game["game"]: game for game in map(json.loads, lines)}
