"""``gozero selfplay``: play games in batch, keep every one as SGF (of other games than Go, as text)
and as rows to learn from."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
import sys
import time
from collections.abc import Callable
from typing import IO, Literal

import jax
from jax.sharding import Mesh

from gozero.apps import flags, runtime
from gozero.apps.game_writer import GameWriter
from gozero.games.registry import NamedGame, named_game
from gozero.go.coords import MAX_KOMI, MAX_SIZE, MIN_SIZE
from gozero.go.rules import Rules
from gozero.play import devices, selfplay
from gozero.play.evaluators import Evaluator, make_evaluator
from gozero.play.player import as_game
from gozero.play.player_config import MAX_SIMULATIONS, board_size
from gozero.runs import files
from gozero.runs import folder as folders
from gozero.runs.progress import Progress, rates
from gozero.runs.settings import Conflict, check, seed_setting, setting
from gozero.search.move_choice import Temperature

PROG = "gozero selfplay"
MOVES_PER_CALL = 4
_MANY = 2**31 - 1


@dataclasses.dataclass(frozen=True)
class SelfPlayFlags:
    """Play games of Go, or of another game, against itself, in lockstep, and write them down."""

    games: int = setting(64, "Games to play.", group="run", least=1, most=_MANY)
    batch: int = setting(32, "Games played at once.", least=1, most=_MANY, unit="games")
    seed: int = seed_setting(
        "The seed of all chance in the run: the same seed, flags and number of devices play the "
        "same games."
    )
    out: pathlib.Path = setting(
        pathlib.Path("runs/selfplay"),
        "A new or empty folder for games/*.sgf (of other games than Go *.txt), shards/*.npz and "
        "the records of the run.",
    )

    game: str = setting(
        "go", "The game: go, connect4, hex, or pgx:NAME for one of pgx.", group="game"
    )
    size: int | None = setting(
        None,
        "Points on a side of the board.",
        least=MIN_SIZE,
        most=MAX_SIZE,
        unset="that of --weights, else 9; of hex 11",
    )
    komi: float = setting(
        7.0, "Points for White.", least=-MAX_KOMI, most=MAX_KOMI, step=0.5, unit="points"
    )
    ko: Literal["simple", "positional", "situational"] = setting(
        "positional", "The ko rule: simple ko, or positional or situational superko."
    )
    suicide: bool = setting(False, "Whether a play may remove its own chain; never a single stone.")
    max_moves: int | None = setting(
        None,
        "The move limit. A game it ends is scored as it stands.",
        least=1,
        most=2**15 - 1,
        unset="2 * size^2",
    )

    evaluator: Literal["network", "playout"] = setting(
        "network",
        "What evaluates a position: a policy and value network, or uniform random playouts.",
        group="search",
    )
    weights: pathlib.Path | None = setting(
        None, "The network's weights, of one board size.", unset="random weights"
    )
    features: Literal["compact", "full", "full-no-ladders", "zero"] | None = setting(
        None,
        "The planes of a network of random weights; weights from a file bring their own.",
        unset="compact",
    )
    simulations: int = setting(
        64, "Simulations of the search at every move.", least=1, most=MAX_SIMULATIONS
    )
    reuse_subtree: bool = setting(
        False, "Whether a search goes on from what the last one found below the move played."
    )
    temperature_moves: int = setting(
        16,
        "Opening moves drawn in proportion to the visits; after them the most visited is played.",
        least=0,
        unit="moves",
    )

    CONFLICTS = (
        Conflict("weights features", "!evaluator=network", "playouts take none"),
        Conflict("komi ko suicide max_moves features", "!game=go", "others have none"),
    )
    EXAMPLES = (
        "gozero selfplay --size 9 --games 64 --simulations 64 --out runs/first",
        "gozero selfplay --weights NET.safetensors --size 9 --batch 256 --out runs/second",
    )

    def __post_init__(self):
        check(self)
        if self.game == "go":
            object.__setattr__(self, "size", board_size(self.size, self.weights))


def run(config: SelfPlayFlags) -> int:
    """Play the games; the exit status: 0, or 130 if it was stopped before the last.

    Raises:
      SystemExit: one line; status 2 for a flag that cannot be, before anything is played, and
        1 if the device has not the memory, or the folder cannot be written any more.
    """
    runtime.cores_as_devices()
    with folders.gone_if_empty(config.out):
        with flags.failing(PROG):
            rules = _rules(config)
            settings, evaluator = _settings(config, rules)
            folders.claim(config.out)
        if config.evaluator == "network" and config.weights is None:
            of = "Go" if config.game == "go" else config.game
            print(
                f"no --weights: the network is random, and knows nothing of {of}", file=sys.stderr
            )
        trees = f"{settings.batch} trees of {settings.search.num_nodes} nodes"
        mesh = devices.make_mesh(settings.batch)
        on = f", {mesh.size} devices" if mesh.size > 1 else ""
        print(f"{trees}: {selfplay.memory(settings)}{on}", file=sys.stderr)
        print(f"{_compiling(config)} ...", end=" ", file=sys.stderr, flush=True)
        try:
            lanes = selfplay.start_on(settings, config.seed, mesh)
            play_moves = _compile(settings, evaluator, lanes, mesh)
            return _Run(config, rules, settings, evaluator, mesh.size).play(play_moves, lanes)
        except jax.errors.JaxRuntimeError as error:
            if not runtime.is_out_of_memory(error):
                raise
            more = f"out of memory with {trees}; lower --batch or --simulations"
            flags.fail(PROG, more, status=1)
        except OSError as error:
            kept = "what is in games and shards is whole; go on in another folder"
            flags.fail(PROG, f"out: {config.out} cannot be written ({error.strerror}); {kept}", 1)


def _compiling(config: SelfPlayFlags) -> str:
    if config.game == "go":
        return runtime.compiling(config.size)
    return f"compiling for {config.game}"


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
    return Rules(size=config.size, ko=config.ko, suicide=config.suicide, max_moves=config.max_moves)


def _compile(
    settings: selfplay.SelfPlayConfig, evaluator: Evaluator, lanes: selfplay.Lanes, mesh: Mesh
):
    """Compile ahead of time, so that rates count play only."""
    started = time.perf_counter()
    play_moves = selfplay.make_play_moves(settings, evaluator, MOVES_PER_CALL, mesh)
    compiled = play_moves.lower(evaluator.params, lanes).compile()
    print(f"{time.perf_counter() - started:.1f} s", file=sys.stderr)
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
            Progress("self-play", self.settings.num_games) as progress,
        ):
            try:
                while self.writer.num_games < self.settings.num_games and not stop.requested:
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
        complete = self.writer.num_games == self.settings.num_games
        numbers, results = self._numbers(seconds), dict(self.writer.results)
        self.manifest |= {"state": "complete" if complete else "stopped", **numbers, **results}
        files.write_json(self.config.out / "manifest.json", self.manifest)
        runtime.tell(self._summary(numbers))
        return 0 if complete else runtime.STOPPED

    def _summary(self, numbers: dict) -> str:
        results, out, games = self.writer.results, self.config.out, numbers["games"]
        asked = self.settings.num_games
        stopped = "" if games == asked else f" (stopped; {asked} asked)"
        unsound = f"; {results['unsound']} with a nan evaluation" if results["unsound"] else ""
        return (
            f"{games} games{stopped}, {numbers['moves']:,} moves, "
            f"{numbers['simulations']:,} simulations in {numbers['seconds']:.1f} s: "
            f"{numbers['games_per_s']:.2f} games/s, "
            f"{numbers['simulations_per_s']:,.0f} simulations/s\n"
            f"Black won {results['black']}, White {results['white']}, drawn {results['drawn']}; "
            f"mean length {self.writer.num_plies / max(games, 1):.1f} moves; "
            f"{results['truncated']} ended by the move limit{unsound}\n"
            f"games in {out / 'games'}, {self.writer.num_rows:,} rows in {out / 'shards'}"
        )
