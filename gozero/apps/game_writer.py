"""Self-play's games on disk: an SGF when a game ends, a shard of rows when there are enough."""

from __future__ import annotations

import pathlib
import time
from collections import Counter, defaultdict

import jax
import numpy as np

from gozero.apps import sgf
from gozero.go import coords
from gozero.go.rules import Rules
from gozero.play import selfplay, shards
from gozero.play.evaluators import Evaluator

ROWS_PER_SHARD = 4096
SECONDS_PER_SHARD = 60.0  # what a kill -9 can lose of the rows; finished games are on disk


class GameWriter:
    """Collects the rows of games in play; writes a game when it ends, a shard when it is full."""

    def __init__(
        self,
        out: pathlib.Path,
        rules: Rules,
        settings: selfplay.SelfPlayConfig,
        evaluator: Evaluator,
    ):
        self.out, self.rules, self.settings = out, rules, settings
        self.name = f"gozero {evaluator.about['evaluator']} {settings.search.num_simulations} sims"
        for folder in ("games", "shards"):
            (out / folder).mkdir()
        self.open_games: dict[int, list[selfplay.Move]] = defaultdict(list)
        self.pending: list[dict] = []
        self.num_games = self.num_moves = self.num_rows = self.num_shards = 0
        self.results = Counter(black=0, white=0, drawn=0, truncated=0, unsound=0)
        self.last_shard = time.monotonic()

    def take(self, rows: selfplay.Move) -> None:
        """Rows [T, B] from the device, in the order they were played."""
        for t, lane in zip(*np.nonzero(rows.game >= 0), strict=True):
            row = jax.tree.map(lambda x, t=t, lane=lane: x[t, lane], rows)
            number = int(row.game)
            self.open_games[number].append(row)
            self.num_moves += 1
            if row.ended:
                self._write_game(number, self.open_games.pop(number))

    def _write_game(self, number: int, game: list[selfplay.Move]) -> None:
        last = game[-1]
        score, truncated = float(last.score), bool(last.truncated)
        rules = self.rules
        suicide = "suicide allowed" if rules.suicide else "no suicide"
        comment = f"gozero self-play, game {number}; {rules.ko} ko, area scoring, {suicide}"
        record = sgf.GameRecord(
            size=rules.size,
            komi=float(last.komi),
            moves=tuple((int(row.position.to_play), int(row.action)) for row in game),
            result=coords.result_text(score),
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
        overdue = time.monotonic() - self.last_shard > SECONDS_PER_SHARD
        if overdue or len(self.pending) >= ROWS_PER_SHARD:
            self.flush()

    def _training_row(self, row: selfplay.Move, score: float, truncated: bool) -> dict:
        position = row.position
        for_mover = score if position.to_play == 0 else -score
        return {
            **{name: np.stack(getattr(position, name)) for name in ("black", "white", "atari")},
            **{name: getattr(position, name) for name in ("ko", "ply", "passes", "to_play")},
            "komi": row.komi,
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
        shards.write(path, self.rules.size, rows)
        self.num_shards += 1
        self.pending, self.last_shard = [], time.monotonic()
