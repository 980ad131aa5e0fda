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
from gozero.play.rows import FREQUENCY_UNIT, Rows, of_game, row_shapes
from gozero.play.shards import About, Place

WRITER = "selfplay"
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
        for folder in ("games", shards.FOLDER):
            (out / folder).mkdir()
        self.open_games: dict[int, list[selfplay.Move]] = defaultdict(list)
        self.shapes = row_shapes(settings.game)
        self.pending: list[Rows] = []  # of a game each
        self.num_games = self.num_moves = self.num_plies = self.num_rows = self.num_shards = 0
        self.num_pending = 0
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
        self.num_plies += len(game)
        self._keep_rows([row for row in game if row.ok], last)

    def _keep_rows(self, game: list[selfplay.Move], last: selfplay.Move) -> None:
        """Of a finished game; of a move whose search saw a nan there is none."""
        if not game:
            return
        moves = jax.tree.map(lambda *x: np.stack(x), *game)
        target = moves.policy_target.astype(np.float16)
        legal = np.packbits(moves.legal, axis=1)
        rows = of_game(np, moves.position, moves.ply, legal, target, moves.root_value, last)
        self.pending.append(jax.tree.map(lambda x, like: x.astype(like.dtype), rows, self.shapes))
        self.num_rows += len(game)
        self.num_pending += len(game)
        overdue = time.monotonic() - self.last_shard > SECONDS_PER_SHARD
        if overdue or self.num_pending >= ROWS_PER_SHARD:
            self.flush()

    def flush(self) -> None:
        """Write the rows of finished games that no shard holds yet."""
        if not self.pending:
            return
        rows = jax.tree.map(lambda *x: np.concatenate(x), *self.pending)
        place = Place(self.num_shards, WRITER)
        about = About(WRITER, self.num_shards, 1, -1, len(self.pending), self.num_pending)
        frequency = np.full(self.num_pending, FREQUENCY_UNIT)
        path = shards.path_of(self.out, place)
        shards.write(path, shards.rules_of(self.rules), about, rows, frequency)
        self.num_shards += 1
        self.pending, self.num_pending, self.last_shard = [], 0, time.monotonic()
