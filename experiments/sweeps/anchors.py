"""Anchors: points whose player also plays a GTP program, by ``gozero match``."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Iterator

from experiments.matches.config import TIMEOUT_S
from experiments.sweeps.config import SweepConfig
from experiments.sweeps.points import Point, Sweep
from experiments.sweeps.results import Row, make_row
from gozero.apps.match import gtp_opponent
from gozero.apps.match import run as match
from gozero.apps.match.config import MatchConfig, Side
from gozero.runs.files import read_lines
from gozero.runs.statistics import Tally


def matches(sweep: Sweep, config: SweepConfig) -> dict[Point, MatchConfig]:
    """The match of each anchor; empty without a program.

    Raises:
      ValueError: if the program is missing or refuses the game, if no flags can express an
        anchor's player, or if there are no anchors.
    """
    if config.anchor_command is None:
        return {}
    anchors = {point: match_of(point, config) for point in sweep.points if point.anchor}
    if not anchors:
        names = ", ".join(point.label for point in sweep.points)
        raise ValueError(
            f"--anchor-command: no point is an anchor, to play against it; choose some of: {names}"
        )
    for match_config in anchors.values():
        gtp_opponent.player_names(match_config)
        break
    return anchors


def match_of(point: Point, config: SweepConfig) -> MatchConfig:
    """A point's match against the program."""
    player = point.player
    if player.change is not None:
        raise ValueError(
            f"--anchor-command: the anchor {point.name!r} has {player.change.about!r}, "
            "which no flag can express"
        )
    return MatchConfig(
        player=Side(**vars(player.flags), reuse=player.reuse),
        opponent=Side(command=config.anchor_command),
        games=config.anchor_games,
        parallel=config.anchor_parallel,
        size=config.size,
        komi=config.komi,
        openings=config.openings,
        timeout=TIMEOUT_S,
        seed=config.seed,
        out=folder(point, config),
    )


def folder(point: Point, config: SweepConfig) -> pathlib.Path:
    """The folder of an anchor's match."""
    return config.out / "anchors" / re.sub(r"[^A-Za-z0-9.]+", "_", point.name).strip("_")


def play(config: MatchConfig) -> int:
    """Plays the missing games of a match; returns its exit status."""
    config.out.parent.mkdir(exist_ok=True)
    return match.run(config)


def rows(sweep: Sweep, config: SweepConfig) -> Iterator[Row]:
    """The rows of the complete matches: of others the games that end first are no fair sample."""
    for point in sweep.points:
        path = folder(point, config) / "summary.json"
        if point.anchor and path.exists():
            row = _row(sweep, point, path)
            if row is not None:
                yield row


def _row(sweep: Sweep, point: Point, path: pathlib.Path) -> Row | None:
    summary = json.loads(path.read_text(encoding="utf-8"))
    if not summary["games"] or summary["state"] != "complete":
        return None
    total = Tally(summary["wins"], summary["draws"], summary["losses"])
    # The last line may be torn: the match, which cuts it off, has not been resumed yet.
    seconds = read_lines(path.with_name("results.jsonl"), lambda game: sum(game["seconds"]))
    return make_row(
        sweep,
        point,
        summary["opponent"],
        total,
        tuple(summary["interval"]),
        anchor=True,
        plies=summary["mean_moves"],
        truncated=summary["move_limit"],
        seconds=sum(seconds),
    )
