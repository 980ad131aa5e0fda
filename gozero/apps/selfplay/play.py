"""A run of ``gozero selfplay`` on the device: its session, its records and its messages."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import json
import sys
import time
from collections.abc import Callable

import jax
from jax.sharding import Mesh

from gozero.apps import flags, runtime
from gozero.apps.selfplay import state as states
from gozero.apps.selfplay.config import KIND, LOCK, SelfPlayFlags
from gozero.apps.selfplay.writer import GameWriter
from gozero.games import registry
from gozero.games.registry import NamedGame, named_game
from gozero.go.rules import Rules
from gozero.play import devices, searches, selfplay
from gozero.play.evaluators import add_memory, in_symmetries, make_evaluator
from gozero.play.player import as_game
from gozero.play.player_config import needs_past_boards
from gozero.play.selfplay_config import SelfPlayConfig
from gozero.runs import files
from gozero.runs import folder as folders
from gozero.runs.folder import RunFolder
from gozero.runs.memory import check_total
from gozero.runs.progress import Progress, rates
from gozero.search.game import Evaluator
from gozero.search.move_choice import Temperature

MOVES_PER_CALL = 4
SAVE_EVERY_S = 60.0
"""Seconds between two saves of the state; after a kill, moves since the last save are replayed."""


def play(config: SelfPlayFlags, prog: str) -> int:
    """Play the games as `run` says; the folder is empty, or contains a run to resume.

    Raises:
      SystemExit: as for `run`, with one line that begins with `prog`.
    """
    runtime.cores_as_devices()
    with flags.exit_on_error(prog):
        rules = _rules(config)
        settings, evaluator = _settings(config, rules)
        folder = RunFolder(config.out, KIND, functools.partial(_must_agree, config), LOCK)
    with folder:
        if folder.manifest.get("state") == "complete":
            runtime.print_result(f"the run in {config.out} is complete, with {config.games} games")
            return 0
        try:
            return _play(config, prog, folder, rules, settings, evaluator)
        finally:
            if not (config.out / folders.CONFIG).exists():  # the run ended before that
                (config.out / LOCK).unlink(missing_ok=True)


def _must_agree(config: SelfPlayFlags, before: dict) -> None:
    """Refuse the folder of a run with other flags."""
    settings = json.loads(json.dumps(vars(config), default=str))
    folders.must_agree(config.out, KIND, before, settings, {"resume", "out"})


def _play(
    config: SelfPlayFlags,
    prog: str,
    folder: RunFolder,
    rules: Rules | NamedGame,
    settings: SelfPlayConfig,
    evaluator: Evaluator,
) -> int:
    trees = f"{settings.batch} trees of {settings.search.num_nodes} nodes"
    mesh = devices.make_mesh(settings.batch)
    on_devices = f", {mesh.size} devices" if mesh.size > 1 else ""
    memory = selfplay.memory(settings)
    leaves = max(search.leaves for search in settings.searches)
    of_trees = f"{trees}: {memory}", memory.total
    text, total = add_memory(*of_trees, evaluator, settings.batch * leaves)
    with flags.exit_on_error(prog):
        text = check_total(total, text, "--batch or --simulations")
    print(f"{text}{on_devices}", file=sys.stderr, flush=True)
    try:
        lanes = selfplay.start_on(settings, config.seed, mesh)
        play_moves, moves = _compile(settings, evaluator, lanes, mesh)
        if folder.before is None:
            folder.write_config(dataclasses.replace(config, resume=False))
        with flags.exit_on_error(prog) if folder.before else contextlib.nullcontext():
            run = _Run(config, folder, rules, settings, evaluator, mesh.size)
            lanes = run.resume(lanes, moves)
        return run.play(play_moves, lanes)
    except jax.errors.JaxRuntimeError as error:
        if not runtime.is_out_of_memory(error):
            raise
        flags.fail(prog, f"out of memory with {trees}; lower --batch or --simulations", status=1)
    except OSError as error:
        advice = "the files in games and shards are complete, and --resume continues"
        cause = error.__cause__ if isinstance(error.__cause__, OSError) else error
        flags.fail(prog, f"out: {config.out} cannot be written ({cause.strerror}); {advice}", 1)


def _settings(config: SelfPlayFlags, rules: Rules | NamedGame) -> tuple[SelfPlayConfig, Evaluator]:
    """The settings of self-play and the evaluator that the flags define.

    Raises:
      ValueError: a flag is invalid; the message names it, its value and what is allowed.
    """
    game_rules = rules.game if isinstance(rules, NamedGame) else rules
    evaluator = make_evaluator(
        game_rules,
        config.evaluator,
        config.weights,
        config.seed,
        config.features,
        dtype=config.dtype,
    )
    evaluator = in_symmetries(game_rules, evaluator, config.effective_symmetries)
    game = as_game(game_rules)
    settings = SelfPlayConfig(
        game=game,
        batch=min(config.batch, config.games),
        search=searches.puct_search(game, evaluator, config.simulations, config.reuse_subtree),
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
    assert config.size is not None  # set when it was made
    remember = needs_past_boards(config.weights) or config.features not in (None, "compact")
    return Rules(config.size, config.ko, config.suicide, config.max_moves, remember)


def _compile(
    settings: SelfPlayConfig,
    evaluator: Evaluator,
    lanes: selfplay.SelfPlayLanes,
    mesh: Mesh,
):
    """(the program, the shapes of its moves); compiled ahead, so that rates measure play only."""
    started = time.perf_counter()
    play_moves = selfplay.make_play_moves(settings, evaluator, MOVES_PER_CALL, mesh)
    lowered = play_moves.lower(evaluator.params, lanes)
    compiled = lowered.compile()
    print(f"compiled in {time.perf_counter() - started:.1f} s", file=sys.stderr)
    return compiled, lowered.out_info[1]


class _Run:
    """One run: plays on the device, keeps the rows of unfinished games, writes finished ones."""

    def __init__(
        self,
        config: SelfPlayFlags,
        folder: RunFolder,
        rules: Rules | NamedGame,
        settings: SelfPlayConfig,
        evaluator: Evaluator,
        num_devices: int,
    ):
        self.config, self.settings, self.evaluator = config, settings, evaluator
        self.writer = GameWriter(config.out, rules, settings, evaluator)
        facts = {**folders.manifest(config.seed), "devices_used": num_devices}
        self.manifest = {**facts, **evaluator.about, "state": "running"}
        self.folder, self.metrics = folder, config.out / "metrics.jsonl"
        self.seconds_before, self.started = 0.0, time.perf_counter()
        self.saved, self.saving_s = time.monotonic(), 0.0
        self.can_resume = True

    def resume(self, lanes: selfplay.SelfPlayLanes, moves: selfplay.Move) -> selfplay.SelfPlayLanes:
        """The lanes of the run in the folder; `lanes` if the run is new or had saved none.

        Raises:
          ValueError: the run's files are damaged, or it used other weights.
        """
        before, done = self.folder.manifest, 0
        if self.folder.before is not None:
            about = json.loads(json.dumps(self.evaluator.about, default=str))
            differing = [name for name in about if before.get(name, about[name]) != about[name]]
            if differing:
                name = differing[0]
                change = f"{name} was {before[name]} in this run and is now {about[name]}"
                raise ValueError(f"--resume: {change}")
            now = self.manifest["devices_used"]
            if (used := before.get("devices_used", now)) != now:
                raise ValueError(
                    f"--resume: the run used {used} devices, and there are now {now} for it; on a "
                    f"CPU set JAX_NUM_CPU_DEVICES={used}"
                )
            state = states.load(self.config.out, lanes, moves)
            if state is None:
                self.writer.resume({}, None)
            else:
                self.writer.resume(state.open_games, state.counted)
                self.seconds_before = state.counted["seconds"]
                lanes, done = state.lanes, self.writer.num_games
            self._cut_metrics()
        self.manifest = folders.with_sessions(self.manifest, before, done)
        return lanes

    def _cut_metrics(self) -> None:
        """Drop the lines of moves that will be replayed and measured again."""
        lines = files.read_lines(self.metrics, damaged=[])
        moves = [line.get("moves") if type(line) is dict else None for line in lines]
        done = [type(count) is int and count <= self.writer.num_moves for count in moves]
        files.write_lines(self.metrics, itertools.compress(lines, done))

    def play(self, play_moves: Callable, lanes: selfplay.SelfPlayLanes) -> int:
        self.folder.write_manifest(self.manifest)
        self.started = time.perf_counter()
        is_complete = True  # whether the writer has all moves of the lanes
        progress = Progress("self-play", self.config.games, done=self.writer.num_games)
        with runtime.StopRequest() as stop, progress:
            try:
                while self.writer.num_games < self.config.games and not stop.requested:
                    is_complete = False
                    lanes, rows = play_moves(self.evaluator.params, lanes)
                    self.writer.take(jax.device_get(rows))
                    is_complete = True
                    self._report(progress)
                    self._save_if_due(lanes)
            except KeyboardInterrupt:
                stop.finishing = True
            except BaseException:
                self._save_partial()
                raise
            stop.finishing = True
            try:
                self._finish(lanes if is_complete else None)
                return 0 if self.writer.num_games == self.config.games else stop.status
            except OSError:
                self._save_partial()
                raise

    def _save_partial(self) -> None:
        """Write everything that can still be written."""
        with contextlib.suppress(OSError):
            self.writer.flush()
        with contextlib.suppress(OSError):
            self.folder.write_manifest(self.manifest | {"state": "stopped", **self._numbers()})

    def _report(self, progress: Progress) -> None:
        numbers = self._numbers()
        files.add_line(self.metrics, numbers, durable=False)
        # Games of an earlier session were, on average, half done when this one started.
        begun = 0 if self.seconds_before else self.config.batch
        progress.show(numbers["games"], rates(numbers), begun=begun)

    def _save_if_due(self, lanes: selfplay.SelfPlayLanes) -> None:
        """Save the state at intervals, which takes at most a twentieth of the time."""
        started = time.monotonic()
        if started - self.saved > max(SAVE_EVERY_S, 20 * self.saving_s):
            self._save(lanes)
            self.saved = time.monotonic()
            self.saving_s = self.saved - started

    def _save(self, lanes: selfplay.SelfPlayLanes) -> None:
        self.writer.sync()
        counted = self.writer.counted | {"seconds": self._numbers()["seconds"]}
        was_saved = states.save(self.config.out, lanes, self.writer.open_games, counted)
        if self.can_resume and not was_saved:
            print(
                "gozero selfplay: the games in play are too large to be saved; if this run stops, "
                "--resume begins with its first game. A smaller --batch or fewer --simulations "
                "can be resumed",
                file=sys.stderr,
                flush=True,
            )
        self.can_resume = was_saved

    def _numbers(self) -> dict:
        seconds = self.seconds_before + time.perf_counter() - self.started
        simulations = self.writer.num_moves * self.settings.search.num_simulations
        return {
            "seconds": round(seconds, 3),
            "games": self.writer.num_games,
            "moves": self.writer.num_moves,
            "simulations": simulations,
            "games_per_s": round(self.writer.num_games / seconds, 3),
            "simulations_per_s": round(simulations / seconds, 1),
        }

    def _finish(self, lanes: selfplay.SelfPlayLanes | None) -> None:
        """Write the rest, with the state of `lanes` if the run can resume from it."""
        self.writer.sync()
        complete = self.writer.num_games == self.config.games
        numbers, results = self._numbers(), dict(self.writer.results)
        if lanes is not None and not complete:
            self._save(lanes)
        self.manifest |= {"state": "complete" if complete else "stopped", **numbers, **results}
        self.folder.write_manifest(self.manifest)
        if complete:
            (self.config.out / states.STATE).unlink(missing_ok=True)
        runtime.print_result(self._summary(numbers))

    def _summary(self, numbers: dict) -> str:
        results, out, games = self.writer.results, self.config.out, numbers["games"]
        requested = self.config.games
        continues = "--resume continues" if self.can_resume else "its games in play are not saved"
        stopped = "" if games == requested else f" of {requested} (stopped; {continues})"
        unsound_text = f"; {results['unsound']} with a nan evaluation" if results["unsound"] else ""
        first, second = ("Black", "White") if self.config.game == "go" else registry.PLAYERS
        return (
            f"{games} games{stopped}, {numbers['moves']:,} moves, "
            f"{numbers['simulations']:,} simulations in {numbers['seconds']:.1f} s: "
            f"{numbers['games_per_s']:.2f} games/s, "
            f"{numbers['simulations_per_s']:,.0f} simulations/s\n"
            f"{first} won {results['black']}, {second} {results['white']}, "
            f"drawn {results['drawn']}; "
            f"mean length {self.writer.num_plies / max(games, 1):.1f} moves; "
            f"{results['truncated']} ended by the move limit{unsound_text}\n"
            f"games in {out / 'games'}, {self.writer.num_rows:,} rows in {out / 'shards'}"
        )
