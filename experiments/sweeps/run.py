"""Play the missing games of a sweep, and print its results."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable

import jax

from experiments import command as commands
from experiments import output
from experiments.sweeps import anchors, plot, ratings, results
from experiments.sweeps.config import SweepConfig
from experiments.sweeps.folder import Piece, SweepFolder
from experiments.sweeps.points import Contestant, Point, Sweep
from gozero.apps import flags, runtime
from gozero.apps.host_game import ample_move_limit
from gozero.go.rules import Rules
from gozero.play import arena, devices
from gozero.play.setups import tree_memory
from gozero.runs import folder as folders
from gozero.runs.memory import check_total
from gozero.runs.progress import Progress
from gozero.search.memory import Memory


def main(config: type[SweepConfig], sweep: Callable[..., Sweep], name: str) -> int:
    """An experiment's command: parses its flags, builds the sweep from them, and runs it."""
    return command(config, lambda settings: run(sweep(settings), settings), name)


def command(config: type[SweepConfig], play: Callable[..., int], name: str) -> int:
    """An experiment's command: runs ``play(settings)``, and prints errors of input as one line."""
    prog = f"python -m experiments.{name}.run"
    settings = commands.parse(config, prog=prog)
    output.check_plots()
    runtime.cores_as_devices()
    with folders.removed_if_empty(settings.out), flags.exit_on_error(prog):
        status = play(settings)
    if status in (runtime.STOPPED, runtime.TERMINATED):
        runtime.end_at_once(status)
    return status


def run(sweep: Sweep, config: SweepConfig) -> int:
    """Plays the remaining pieces; returns the exit status: 0, or if stopped before the end 130
    (Ctrl-C) or 143 (SIGTERM).

    Every point plays a piece before any plays its next, so an interrupted sweep has all points,
    with fewer games.

    Raises:
      ValueError: if a player's settings are invalid, the folder contains other games, or the GTP
        program is missing or refuses the game.
    """
    sweep = sweep.with_flags(config.player.given, config.opponent.given)
    sweep = sweep.resigning(config.resign)
    commands.print_estimate(minutes(sweep, config))
    rules = Rules(config.size, "positional", max_moves=ample_move_limit(config.size))
    memory = _memory(rules, sweep, config)
    text = f"trees: at most {memory} at a time"
    if not (config.out / folders.CONFIG).exists():  # a new run, whose folder is not made yet
        check_total(memory.total, text, "--parallel or --simulations")
    against_programs = anchors.matches(sweep, config)
    with SweepFolder(sweep, config) as folder:
        print(text, file=sys.stderr)
        status = _play(rules, sweep, config, folder)
        for match in against_programs.values():
            status = status or anchors.play(match)
        rows = _write(sweep, config, folder)
    rated = ratings.rated(sweep, rows) if sweep.ladder else []
    if rated:
        ratings.write(rated, config.out / "ratings.csv")
        ratings.draw(sweep, rated, config.out / "results.svg")
    elif rows:
        plot.draw(sweep, rows, config.out / "results.svg")
    if rows:
        runtime.print_result(results.table(sweep, rows, config.anchor_command))
        if rated:
            runtime.print_result("\n" + ratings.table(rated))
        commands.print_results(config.out)
    if status:
        runtime.print_result("stopped; run the same command again to play the missing games")
    return status


COMPILING_S, SIMULATIONS_PER_S = 25.0, 25_000.0
"""Compile time of a point, and simulations per second of both sides, about as in the recorded
sweeps, on two cores."""


def minutes(sweep: Sweep, config: SweepConfig) -> float:
    """Estimated minutes for the games between our players, on two cores."""
    plies = (0.7 if config.resign else 1.1) * config.size**2
    seconds = 0.0
    for point in sweep.points:
        simulations = (point.player.flags.simulations + point.opponent.flags.simulations) / 2
        playouts = config.piece * config.num_pieces * plies * simulations * config.size**2 / 81
        seconds += COMPILING_S + playouts / SIMULATIONS_PER_S
    return seconds / 60


def _play(rules: Rules, sweep: Sweep, config: SweepConfig, folder: SweepFolder) -> int:
    """Plays the remaining pieces; returns 0 if all were played, else the exit status."""
    todo = [
        (point, piece)
        for piece in range(config.num_pieces)
        for point in sweep.points
        if (point.name, piece) not in folder.pieces
    ]
    total = config.piece * config.num_pieces * len(sweep.points)
    done = total - config.piece * len(todo)
    if todo:
        folder.write_manifest(folders.manifest(config.seed))
        if done:
            print(f"resuming after {done} games", file=sys.stderr)
    players = _Players(rules, config.piece // 2)
    with runtime.StopRequest() as stop, Progress(sweep.name, total, done=done) as progress:
        try:
            for point, number in todo:
                done += config.piece
                show = functools.partial(_show, stop, progress, point, done)
                folder.add(play_piece(rules, config, players, point, number, show))
                _write(sweep, config, folder)
        except KeyboardInterrupt:
            return stop.status
    return 0


def _show(
    stop: runtime.StopRequest, progress: Progress, point: Point, games: int, ply: int, num_open: int
) -> None:
    """Shows a piece of a point, with which `games` games are finished.

    Raises:
      KeyboardInterrupt: the user has asked for a stop.
    """
    if stop.requested:
        raise KeyboardInterrupt
    progress.show(games - num_open, {"": f"{point.name}, ply {ply}"}, begun=num_open)


class _Players:
    """Maps contestants to arena players, each created, and so compiled, only once; each device of
    this host searches its share of the games."""

    def __init__(self, rules: Rules, games_at_once: int):
        self._rules, self._mesh = rules, devices.make_mesh(games_at_once)
        self._players: dict[Contestant, arena.Player] = {}

    def __call__(self, contestant: Contestant) -> arena.Player:
        if contestant not in self._players:
            player = contestant.player(self._rules)
            self._players[contestant] = devices.over_mesh(player, self._mesh)
        return self._players[contestant]


def play_piece(
    rules: Rules,
    config: SweepConfig,
    players: Callable[[Contestant], arena.Player],
    point: Point,
    number: int,
    progress: Callable[[int, int], None] | None = None,
) -> Piece:
    """Plays a piece of a point. Its openings depend only on the seed and the piece's number.

    Raises:
      RuntimeError: if in any game an evaluation was not finite, or an action not legal.
    """
    started = time.monotonic()
    match = arena.play_match(
        rules,
        players(point.player),
        players(point.opponent),
        jax.random.fold_in(jax.random.key(config.seed), number),
        config.piece,
        config.komi,
        config.openings,
        progress,
    )
    if not match.ok.all():
        raise RuntimeError(f"{point.name}: an evaluation was not finite, or an action not legal")
    return Piece(
        point.name,
        number,
        tuple(match.points.tolist()),
        int(match.plies.sum()),
        int(match.truncated.sum()),
        round(time.monotonic() - started, 3),
    )


def _write(sweep: Sweep, config: SweepConfig, folder: SweepFolder) -> list[results.Row]:
    pieces = {point: folder.of(point.name) for point in sweep.points}
    rows = [results.row_of(sweep, point, own) for point, own in pieces.items() if own]
    rows += anchors.rows(sweep, config)
    results.write(rows, config.out / "results.csv")
    return rows


def _memory(rules: Rules, sweep: Sweep, config: SweepConfig) -> Memory:
    """The memory of the largest trees of any player. Creates all players, which checks them."""
    half, memories = config.piece // 2, []
    for contestant in {c for point in sweep.points for c in (point.player, point.opponent)}:
        if not contestant.has_tree:
            contestant.player(rules)
            continue
        games = config.piece if contestant.reuse else half
        memories.append(tree_memory(rules, contestant.setup(rules), contestant.reuse, games))
    return max(memories, key=lambda memory: memory.total)
