"""``gozero selfplay``: play games in batch, keep every one as SGF and as training rows."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import sys
import time
from collections import Counter, defaultdict
from typing import IO, Literal

import jax
import numpy as np

from gozero.apps import flags, runtime, sgf
from gozero.apps.progress import SelfPlayProgress
from gozero.go import scoring
from gozero.go.rules import Rules
from gozero.players import selfplay, shards
from gozero.players.evaluators import Evaluator, make_evaluator

ROWS_PER_SHARD = 4096
MOVES_PER_CALL = 4


@dataclasses.dataclass(frozen=True)
class SelfPlayFlags:
    """Play games of Go against itself, in lockstep, and write them down."""

    size: int = 9
    """Points on a side, 2 to 19."""
    games: int = 64
    """Games to play."""
    simulations: int = 64
    """Simulations of the search at every move."""
    batch: int = 32
    """Games played at once."""
    evaluator: Literal["network", "playout"] = "network"
    """What judges a position: a policy and value network, or uniform random playouts."""
    weights: pathlib.Path | None = None
    """The network's weights, a .npz with its .json beside it; without them they are random."""
    komi: float = 7.0
    """Points for White, a multiple of 0.5."""
    ko: Literal["simple", "positional"] = "positional"
    """The ko rule: simple ko, or positional superko."""
    max_moves: int | None = None
    """The move limit; 2 * size^2 without it. A game it ends is scored as it stands."""
    temperature_moves: int = 16
    """Opening moves drawn in proportion to the visits; after them the most visited is played."""
    seed: int = 0
    """Of all chance in the run: the same seed and flags, the same games."""
    out: pathlib.Path = pathlib.Path("runs/selfplay")
    """A new or empty folder for games/*.sgf, shards/*.npz and the records of the run."""


def run(config: SelfPlayFlags) -> int:
    """Play the games; the exit status: 0, or 130 if it was stopped before the last.

    Raises:
      SystemExit: status 2 and one line, for a flag that cannot be, before anything is played.
    """
    try:
        settings, evaluator = _settings(config)
        runtime.claim_folder(config.out)
    except ValueError as error:
        flags.fail("gozero selfplay", error)
    mebibytes = selfplay.tree_bytes(settings) / 2**20
    print(
        f"{settings.batch} trees of {settings.search.num_nodes} nodes: {mebibytes:,.1f} MiB",
        file=sys.stderr,
    )
    return _Run(config, settings, evaluator).play()


def _settings(config: SelfPlayFlags) -> tuple[selfplay.SelfPlayConfig, Evaluator]:
    """What the flags mean.

    Raises:
      ValueError: naming the flag, what it was and what is allowed.
    """
    rules = Rules(size=config.size, ko=config.ko, max_moves=config.max_moves)
    for name in ("games", "batch", "simulations"):
        if getattr(config, name) < 1:
            raise ValueError(f"{name}: {getattr(config, name)} is not at least 1")
    evaluator = make_evaluator(rules, config.evaluator, config.weights, config.seed)
    settings = selfplay.SelfPlayConfig(
        rules=rules,
        komi=config.komi,
        num_games=config.games,
        batch=min(config.batch, config.games),
        search=selfplay.search_config(rules, evaluator, config.simulations),
        temperature_moves=config.temperature_moves,
    )
    return settings, evaluator


class _Run:
    """One run: plays on the device, keeps the rows of unfinished games, writes finished ones."""

    def __init__(
        self, config: SelfPlayFlags, settings: selfplay.SelfPlayConfig, evaluator: Evaluator
    ):
        self.config, self.settings, self.evaluator = config, settings, evaluator
        self.writer = GameWriter(config.out, settings, evaluator)
        self.manifest = {**runtime.manifest(config.seed), **evaluator.about, "state": "running"}

    def play(self) -> int:
        runtime.write_json(self.config.out / "config.json", self.config)
        runtime.write_json(self.config.out / "manifest.json", self.manifest)
        lanes = selfplay.start(self.settings, self.config.seed)
        play_moves = self._compile(lanes)
        started = time.perf_counter()
        with (
            runtime.StopRequest() as stop,
            (self.config.out / "metrics.jsonl").open("w") as metrics,
            SelfPlayProgress(self.settings.num_games) as progress,
        ):
            try:
                while self.writer.num_games < self.settings.num_games and not stop.requested:
                    lanes, rows = play_moves(self.evaluator.params, lanes)
                    self.writer.take(jax.device_get(rows))
                    self._report(progress, metrics, time.perf_counter() - started)
            except KeyboardInterrupt:
                stop.requested = True
        return self._finish(time.perf_counter() - started)

    def _compile(self, lanes):
        """Compile ahead of time, so that rates count play only."""
        print("compiling ...", end=" ", file=sys.stderr, flush=True)
        started = time.perf_counter()
        play_moves = selfplay.make_play_moves(self.settings, self.evaluator, MOVES_PER_CALL)
        compiled = play_moves.lower(self.evaluator.params, lanes).compile()
        print(f"{time.perf_counter() - started:.1f} s", file=sys.stderr)
        return compiled

    def _report(self, progress: SelfPlayProgress, metrics: IO[str], seconds: float) -> None:
        numbers = self._numbers(seconds)
        metrics.write(json.dumps(numbers) + "\n")
        metrics.flush()
        progress.show(numbers)

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
        runtime.write_json(self.config.out / "manifest.json", self.manifest)
        print(self._summary(numbers))
        return 0 if complete else 130

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
            f"mean length {self.writer.num_rows / max(games, 1):.1f} moves; "
            f"{results['truncated']} ended by the move limit{unsound}\n"
            f"games in {out / 'games'}, {self.writer.num_rows:,} rows in {out / 'shards'}"
        )


class GameWriter:
    """Collects the rows of games in play; writes a game when it ends, a shard when it is full."""

    def __init__(self, out: pathlib.Path, settings: selfplay.SelfPlayConfig, evaluator: Evaluator):
        self.out, self.settings = out, settings
        self.name = f"gozero {evaluator.about['evaluator']} {settings.search.num_simulations} sims"
        for folder in ("games", "shards"):
            (out / folder).mkdir()
        self.open_games: dict[int, list[selfplay.Row]] = defaultdict(list)
        self.pending: list[dict] = []
        self.num_games = self.num_moves = self.num_rows = self.num_shards = 0
        self.results: Counter = Counter()

    def take(self, rows: selfplay.Row) -> None:
        """Rows [T, B] from the device, in the order they were played."""
        for t, lane in zip(*np.nonzero(rows.game >= 0), strict=True):
            row = jax.tree.map(lambda x, t=t, lane=lane: x[t, lane], rows)
            number = int(row.game)
            self.open_games[number].append(row)
            self.num_moves += 1
            if row.ended:
                self._write_game(number, self.open_games.pop(number))

    def _write_game(self, number: int, game: list[selfplay.Row]) -> None:
        last = game[-1]
        score, truncated = float(last.score), bool(last.truncated)
        rules = self.settings.rules
        comment = f"gozero self-play, game {number}; {rules.ko} ko, area scoring, no suicide"
        record = sgf.GameRecord(
            size=rules.size,
            komi=self.settings.komi,
            moves=tuple((int(row.position.to_play), int(row.action)) for row in game),
            result=scoring.result_text(score),
            black=self.name,
            white=self.name,
            rules="Chinese",
            comment=comment + ("; ended by the move limit, scored as it stood" * truncated),
        )
        sgf.write(self.out / "games" / f"{number:06d}.sgf", record)
        self.results["black" if score > 0 else "white" if score < 0 else "drawn"] += 1
        self.results["truncated"] += truncated
        self.results["unsound"] += not all(row.ok for row in game)
        self.num_games += 1
        self.num_rows += len(game)
        self.pending += [self._training_row(row, score, truncated) for row in game]
        if len(self.pending) >= ROWS_PER_SHARD:
            self.flush()

    def _training_row(self, row: selfplay.Row, score: float, truncated: bool) -> dict:
        position = row.position
        for_mover = score if position.to_play == 0 else -score
        return {
            **{name: np.stack(getattr(position, name)) for name in ("black", "white", "atari")},
            **{name: getattr(position, name) for name in ("ko", "ply", "passes", "to_play")},
            "komi": self.settings.komi,
            "legal": np.packbits(row.legal),
            "policy_target": row.policy_target,
            "action": row.action,
            "root_value": row.root_value,
            "outcome": np.sign(for_mover),
            "score": for_mover,
            "truncated": truncated,
            "game": row.game,
        }

    def flush(self) -> None:
        """Write the rows of finished games that no shard holds yet."""
        if not self.pending:
            return
        rows = {name: np.stack([row[name] for row in self.pending]) for name in self.pending[0]}
        path = self.out / "shards" / f"{self.num_shards:06d}.npz"
        shards.write(path, self.settings.rules.size, rows)
        self.num_shards += 1
        self.pending = []
