"""A run of ``gozero selfplay`` on the device: its session, its records and what is said of it."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable
from typing import IO

import jax
from jax.sharding import Mesh

from gozero.apps import flags, runtime
from gozero.apps.selfplay.config import SelfPlayFlags
from gozero.apps.selfplay.writer import GameWriter
from gozero.games import registry
from gozero.games.registry import NamedGame, named_game
from gozero.go.rules import Rules
from gozero.play import devices, selfplay
from gozero.play.evaluators import Evaluator, make_evaluator
from gozero.play.player import as_game
from gozero.runs import files
from gozero.runs import folder as folders
from gozero.runs.progress import Progress, rates
from gozero.search.move_choice import Temperature

MOVES_PER_CALL = 4


def play(config: SelfPlayFlags, prog: str) -> int:
    """Play the games, as `run`; the folder is there and empty.

    Raises:
      SystemExit: as `run`, by one line that begins with `prog`.
    """
    runtime.cores_as_devices()
    with flags.failing(prog):
        rules = _rules(config)
        settings, evaluator = _settings(config, rules)
    trees = f"{settings.batch} trees of {settings.search.num_nodes} nodes"
    mesh = devices.make_mesh(settings.batch)
    on = f", {mesh.size} devices" if mesh.size > 1 else ""
    print(f"{trees}: {selfplay.memory(settings)}{on}", file=sys.stderr, flush=True)
    try:
        lanes = selfplay.start_on(settings, config.seed, mesh)
        play_moves = _compile(settings, evaluator, lanes, mesh)
        return _Run(config, rules, settings, evaluator, mesh.size).play(play_moves, lanes)
    except jax.errors.JaxRuntimeError as error:
        if not runtime.is_out_of_memory(error):
            raise
        flags.fail(prog, f"out of memory with {trees}; lower --batch or --simulations", status=1)
    except OSError as error:
        kept = "what is in games and shards is whole; go on in another folder"
        flags.fail(prog, f"out: {config.out} cannot be written ({error.strerror}); {kept}", 1)


def _settings(
    config: SelfPlayFlags, rules: Rules | NamedGame
) -> tuple[selfplay.SelfPlayConfig, Evaluator]:
    """What the flags mean.

    Raises:
      ValueError: naming the flag, what it was and what is allowed.
    """
    own = rules.game if isinstance(rules, NamedGame) else rules
    evaluator = make_evaluator(own, config.evaluator, config.weights, config.seed, config.features)
    game = as_game(own)
    settings = selfplay.SelfPlayConfig(
        game=game,
        batch=min(config.batch, config.games),
        search=selfplay.search_config(game, evaluator, config.simulations, config.reuse_subtree),
        komi=() if game.points is None else config.komi,
        num_games=config.games,
        temperature=Temperature(moves=config.temperature_moves),
        reuse_subtree=config.reuse_subtree,
        stagger=0,
    )
    return settings, evaluator


def _rules(config: SelfPlayFlags) -> Rules | NamedGame:
    if config.game != "go":
        return named_game(config.game, config.size)
    assert config.size is not None  # since it was made
    return Rules(size=config.size, ko=config.ko, suicide=config.suicide, max_moves=config.max_moves)


def _compile(
    settings: selfplay.SelfPlayConfig, evaluator: Evaluator, lanes: selfplay.Lanes, mesh: Mesh
):
    """Compile ahead of time, so that rates count play only."""
    started = time.perf_counter()
    play_moves = selfplay.make_play_moves(settings, evaluator, MOVES_PER_CALL, mesh)
    compiled = play_moves.lower(evaluator.params, lanes).compile()
    print(f"compiled in {time.perf_counter() - started:.1f} s", file=sys.stderr)
    return compiled


class _Run:
    """One run: plays on the device, keeps the rows of unfinished games, writes finished ones."""

    def __init__(
        self,
        config: SelfPlayFlags,
        rules: Rules | NamedGame,
        settings: selfplay.SelfPlayConfig,
        evaluator: Evaluator,
        num_devices: int,
    ):
        self.config, self.settings, self.evaluator = config, settings, evaluator
        self.writer = GameWriter(config.out, rules, settings, evaluator)
        facts = {**folders.manifest(config.seed), "devices_used": num_devices}
        self.manifest = {**facts, **evaluator.about, "state": "running"}

    def play(self, play_moves: Callable, lanes: selfplay.Lanes) -> int:
        files.write_json(self.config.out / "config.json", self.config)
        files.write_json(self.config.out / "manifest.json", self.manifest)
        started = time.perf_counter()
        with (
            runtime.StopRequest() as stop,
            (self.config.out / "metrics.jsonl").open("w") as metrics,
            Progress("self-play", self.config.games) as progress,
        ):
            try:
                while self.writer.num_games < self.config.games and not stop.requested:
                    lanes, rows = play_moves(self.evaluator.params, lanes)
                    self.writer.take(jax.device_get(rows))
                    self._report(progress, metrics, time.perf_counter() - started)
            except KeyboardInterrupt:
                stop.requested = True
            except BaseException:
                with contextlib.suppress(OSError):
                    self.writer.flush()
                raise
        return self._finish(time.perf_counter() - started)

    def _report(self, progress: Progress, metrics: IO[str], seconds: float) -> None:
        numbers = self._numbers(seconds)
        metrics.write(json.dumps(numbers) + "\n")
        metrics.flush()
        progress.show(numbers["games"], rates(numbers))

    def _numbers(self, seconds: float) -> dict:
        simulations = self.writer.num_moves * self.settings.search.num_simulations
        return {
            "seconds": round(seconds, 3),
            "games": self.writer.num_games,
            "moves": self.writer.num_moves,
            "simulations": simulations,
            "games_per_s": round(self.writer.num_games / seconds, 3),
            "simulations_per_s": round(simulations / seconds, 1),
        }

    def _finish(self, seconds: float) -> int:
        self.writer.flush()
        complete = self.writer.num_games == self.config.games
        numbers, results = self._numbers(seconds), dict(self.writer.results)
        self.manifest |= {"state": "complete" if complete else "stopped", **numbers, **results}
        files.write_json(self.config.out / "manifest.json", self.manifest)
        runtime.tell(self._summary(numbers))
        return 0 if complete else runtime.STOPPED

    def _summary(self, numbers: dict) -> str:
        results, out, games = self.writer.results, self.config.out, numbers["games"]
        asked = self.config.games
        stopped = "" if games == asked else f" (stopped; {asked} asked)"
        unsound = f"; {results['unsound']} with a nan evaluation" if results["unsound"] else ""
        first, second = ("Black", "White") if self.config.game == "go" else registry.PLAYERS
        return (
            f"{games} games{stopped}, {numbers['moves']:,} moves, "
            f"{numbers['simulations']:,} simulations in {numbers['seconds']:.1f} s: "
            f"{numbers['games_per_s']:.2f} games/s, "
            f"{numbers['simulations_per_s']:,.0f} simulations/s\n"
            f"{first} won {results['black']}, {second} {results['white']}, "
            f"drawn {results['drawn']}; "
            f"mean length {self.writer.num_plies / max(games, 1):.1f} moves; "
            f"{results['truncated']} ended by the move limit{unsound}\n"
            f"games in {out / 'games'}, {self.writer.num_rows:,} rows in {out / 'shards'}"
        )
