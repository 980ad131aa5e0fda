"""A sweep of players against one opponent: with equal simulations, then with equal time."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from experiments.sweeps import run, speed
from experiments.sweeps.config import SweepConfig
from experiments.sweeps.points import Contestant, Point, Sweep
from gozero.go.rules import Rules
from gozero.limits import MOST_VISITS
from gozero.runs import files
from gozero.runs import folder as folders

Speeds = Mapping[str, float]
"""{player: simulations a second}."""

PLAYERS = "players.json"
"""{player: its settings}, of the players in speeds.json beside it."""


def points(
    players: Mapping[str, Contestant],
    names: Iterable[str],
    opponent: str,
    anchors: Collection[str],
    speeds: Speeds | None = None,
) -> tuple[Point, ...]:
    """Each named player against the opponent, with equal simulations; given speeds, with as many
    simulations as take the same time."""
    sweep_points = []
    for x, name in enumerate(names):
        player = players[name]
        if speeds is not None:
            if player.flags.simulations == 0:  # without a search more time changes nothing
                continue
            simulations = round(player.flags.simulations * speeds[name] / speeds[opponent])
            simulations = min(max(simulations, 1), MOST_VISITS)
            flags = dataclasses.replace(player.flags, simulations=simulations)
            player = dataclasses.replace(player, flags=flags)
        series = "equal simulations" if speeds is None else "equal time"
        is_anchor = speeds is None and name in anchors
        sweep_points.append(Point(series, float(x), name, player, players[opponent], is_anchor))
    return tuple(sweep_points)


def play(
    config: SweepConfig,
    sweep: Callable[..., Sweep],
    players: Mapping[str, Contestant],
    opponent: str,
    with_time: bool,
) -> int:
    """Runs ``sweep(config)``, then if `with_time` ``sweep(config, speeds)``; the exit status.

    The second sweep's folder is ``equal_time`` within the first's, which has ``speeds.json``.

    Raises:
      ValueError: if the two sides have different further flags, so that the speed of a player
        would depend on its side; or as `run.run`.
    """
    given = config.player.given
    if with_time and given != config.opponent.given:
        raise ValueError(
            "--player and --opponent: give both the same flags, or --no-equal-time, as the speed "
            "of each player is measured once"
        )
    status = run.run(sweep(config), config)
    if status or not with_time:
        return status
    searching = {name: one for name, one in players.items() if one.flags.simulations}
    players = {name: one.with_flags(given, "player.") for name, one in searching.items()}
    speeds = measured(config, players, opponent, config.out / "speeds.json")
    second = dataclasses.replace(config, out=config.out / "equal_time", anchor_command=None)
    return run.run(sweep(second, speeds), second)


def measured(
    config: SweepConfig, players: Mapping[str, Contestant], opponent: str, path: pathlib.Path
) -> dict[str, float]:
    """The players' speeds, from the file `path`; measures and adds those it lacks.

    They are measured with one tree per pair of a piece, together with the opponent, and scaled by
    the opponent's speed in the file, so that only times of one run are compared.

    Raises:
      ValueError: the file has the speed of a player with other settings (those that it was measured
        with are beside it, in players.json).
    """
    rules = Rules(config.size)
    speeds, before = _read(path), _read(path.with_name(PLAYERS))
    now = {name: player.record(rules) for name, player in players.items()}
    known = before.keys() & now.keys() & speeds.keys()
    changes = folders.differences(
        *({name: one[name] for name in known} for one in (before, now)), called=str
    )
    if changes:
        raise ValueError(
            f"--out: {path} was measured with other settings: {'; '.join(changes)}; "
            "name a new folder"
        )
    missing = [name for name in players if name not in speeds and name != opponent]
    if missing or opponent not in speeds:
        print("measuring the players' speeds ...", file=sys.stderr, flush=True)
        names, trees = [opponent, *missing], config.piece // 2
        contestants = [players[name] for name in names]
        results = speed.measure(rules, contestants, trees, config.komi, config.seed)
        rates = dict(zip(names, (one.simulations_per_s for one in results), strict=True))
        scale = speeds.get(opponent, rates[opponent]) / rates[opponent]
        speeds = {name: round(rate * scale) for name, rate in rates.items()} | speeds
        files.write_json(path.with_name(PLAYERS), before | now)
        files.write_json(path, speeds)  # also of other runs' players
    return speeds


def _read(path: pathlib.Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
