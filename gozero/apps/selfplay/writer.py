"""Self-play's games on disk: an SGF or text when one ends, a shard when there are enough rows."""

from __future__ import annotations

import pathlib
import time
from collections import Counter, defaultdict

import jax
import numpy as np

from gozero.apps import sgf
from gozero.games.registry import NamedGame, result_text
from gozero.go import coords
from gozero.go.rules import Rules
from gozero.play import selfplay, shards
from gozero.play.evaluators import Evaluator
from gozero.play.rows import FREQUENCY_UNIT, Rows, of_game, row_shapes
from gozero.play.shards import About, Place
from gozero.runs.files import write_whole

WRITER = "selfplay"
ROWS_PER_SHARD = 4096
SECONDS_PER_SHARD = 60.0  # what a kill -9 can lose of the rows; finished games are on disk


class GameWriter:
    """Collects the rows of games in play; writes a game when it ends, a shard when it is full."""

    def __init__(
        self,
        out: pathlib.Path,
        rules: Rules | NamedGame,
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
        """Moves [T, B] from the device, NumPy; games are written in the order in which they end."""
        self.num_moves += int((rows.game != selfplay.NO_GAME).sum())
        num_moves, num_lanes = rows.game.shape
        begins = [0] * num_lanes
        for t, lane in np.argwhere(rows.ended).tolist():
            self._keep(rows, lane, begins[lane], t + 1)
            begins[lane] = t + 1
            number = int(rows.game[t, lane])
            if number != selfplay.NO_GAME:
                parts = self.open_games.pop(number)
                self._write_game(number, jax.tree.map(lambda *x: np.concatenate(x), *parts))
        for lane, begin in enumerate(begins):
            if begin < num_moves:
                self._keep(rows, lane, begin, num_moves)

    def _keep(self, rows: selfplay.Move, lane: int, begin: int, end: int) -> None:
        """What was played of a lane's game."""
        number = int(rows.game[begin, lane])
        if number != selfplay.NO_GAME:
            part = jax.tree.map(lambda x: x[begin:end, lane].copy(), rows)
            self.open_games[number].append(part)

    def _write_game(self, number: int, game: selfplay.Move) -> None:
        """A finished game, moves [n]."""
        last = jax.tree.map(lambda x: x[-1], game)
        path, outcome = self.out / "games" / f"{number:06d}", float(last.outcome)
        if isinstance(self.rules, NamedGame):
            write_whole(path.with_suffix(".txt"), self._text(self.rules, number, game).encode())
        else:
            sgf.write(path.with_suffix(".sgf"), self._sgf(self.rules, number, game, last))
        self.results["black" if outcome > 0 else "white" if outcome < 0 else "drawn"] += 1
        self.results["truncated"] += bool(last.truncated)
        self.results["unsound"] += not game.ok.all()
        self.num_games += 1
        self.num_plies += len(game.ply)
        self._keep_rows(game, last)

    def _text(self, rules: NamedGame, number: int, game: selfplay.Move) -> str:
        """A heading, the moves in a line, and who has won."""
        heading = f"{rules.name}, self-play of {self.name}, game {number}"
        result = result_text(float(game.outcome[-1]))
        return f"{heading}\n{rules.record(game.action.tolist())}\n{result}\n"

    def _sgf(
        self, rules: Rules, number: int, game: selfplay.Move, last: selfplay.Move
    ) -> sgf.GameRecord:
        suicide = "suicide allowed" if rules.suicide else "no suicide"
        assert last.komi is not None  # of Go
        assert last.score is not None
        cut = "; ended by the move limit, scored as it stood" if last.truncated else ""
        comment = f"gozero self-play, game {number}; {rules.ko} ko, area scoring, {suicide}"
        return sgf.GameRecord(
            size=rules.size,
            komi=float(last.komi),
            moves=tuple(zip((game.ply % 2).tolist(), game.action.tolist(), strict=True)),
            result=coords.result_text(float(last.score)),
            black=self.name,
            white=self.name,
            rules="Chinese",
            comment=comment + cut,
        )

    def _keep_rows(self, game: selfplay.Move, last: selfplay.Move) -> None:
        """The rows of a finished game; of a move whose search saw a nan there is none."""
        moves = jax.tree.map(lambda x: x[game.ok], game)
        count = len(moves.ply)
        if not count:
            return
        legal = np.packbits(moves.legal, axis=1)
        rows = of_game(
            np, moves.position, moves.ply, legal, moves.policy_target, moves.root_value, last
        )
        self.pending.append(jax.tree.map(lambda x, like: x.astype(like.dtype), rows, self.shapes))
        self.num_rows += count
        self.num_pending += count
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
