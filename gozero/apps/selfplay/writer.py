"""Self-play's games on disk: an SGF or text file per finished game, and shards of their rows.

A kill loses the rows that are not yet in a shard: at most those of SECONDS_AT_RISK, and at most
ROWS_AT_RISK plus those of the games that end at the same move. These games are played again when
the run resumes.
"""

from __future__ import annotations

import pathlib
import time
from collections import Counter, defaultdict

import jax
import numpy as np

from gozero.apps import rule_sets, sgf
from gozero.apps.selfplay.state import OpenGames
from gozero.games.registry import NamedGame, result_text
from gozero.go import coords
from gozero.go.rules import Rules
from gozero.play import selfplay, shards
from gozero.play.rows import FREQUENCY_UNIT, Rows, of_game, row_shapes, stored_policy
from gozero.play.selfplay_config import SelfPlayConfig
from gozero.play.shards import About, Place
from gozero.runs.files import sync, write_whole
from gozero.search.game import Evaluator

WRITER = "selfplay"
COUNTS = ("num_games", "num_moves", "num_plies", "num_rows", "num_shards")
ROWS_AT_RISK = 512
SECONDS_AT_RISK = 15.0


class GameWriter:
    """Collects the moves of games in play; writes games and their rows when they end.

    Attributes:
      open_games: the moves of games in play, by number.
      published: the numbers of games still to be played again although a shard already holds
        their rows, because it was written after the state from which the run resumed.
    """

    def __init__(
        self,
        out: pathlib.Path,
        rules: Rules | NamedGame,
        settings: SelfPlayConfig,
        evaluator: Evaluator,
    ):
        self.out, self.rules, self.settings = out, rules, settings
        self.name = f"gozero {evaluator.about['evaluator']} {settings.search.num_simulations} sims"
        for folder in ("games", shards.FOLDER):
            (out / folder).mkdir(exist_ok=True)
        self.open_games: OpenGames = defaultdict(list)
        self.shapes = row_shapes(settings.game)
        self.pending: list[Rows] = []  # one per game
        self.num_games = self.num_moves = self.num_plies = self.num_rows = self.num_shards = 0
        self.num_pending = 0
        self.results = Counter(black=0, white=0, drawn=0, truncated=0, unsound=0)
        self.published: set[int] = set()
        self.unsynced: list[pathlib.Path] = []
        self.pending_since = self.last_take = time.monotonic()

    @property
    def counted(self) -> dict:
        """The counts as plain data; valid when no rows are pending."""
        plain = {"results": dict(self.results), "published": sorted(self.published)}
        return {name: getattr(self, name) for name in COUNTS} | plain

    def resume(self, open_games: OpenGames, counted: dict | None) -> None:
        """Continue from a saved state, with its games in play and the writer's counts.

        If `counted` is None, no state was saved, and the games are played again from the first.

        Raises:
          ValueError: a shard that was written since is damaged, or the counts are invalid.
        """
        if counted is not None:
            self._recount(counted)
        self.open_games.update(open_games)
        rules, first_number = shards.rules_of(self.rules), self.num_shards
        paths = {shards.place_of(path): path for path in (self.out / shards.FOLDER).glob("*.npz")}
        for place, path in sorted((place, path) for place, path in paths.items() if place):
            if place.worker == WRITER and place.number >= first_number:
                self.published |= set(shards.read(path, rules).rows.game.tolist())
                self.num_shards = place.number + 1

    def _recount(self, counted: dict) -> None:
        try:
            published, names = counted["published"] + [], list(self.results)
            numbers = [counted[name] for name in COUNTS]
            results = [counted["results"][name] for name in names]
        except (TypeError, KeyError) as error:
            raise ValueError(f"--resume: the state in {self.out} lacks counts ({error})") from error
        if not all(type(x) is int and 0 <= x < 2**53 for x in numbers + results + published):
            raise ValueError(f"--resume: the state in {self.out} has invalid counts")
        for name, value in zip(COUNTS, numbers, strict=True):
            setattr(self, name, value)
        self.results.update(dict(zip(names, results, strict=True)))
        self.published |= set(published)

    def take(self, rows: selfplay.Move) -> None:
        """Take moves [T, B] as NumPy arrays; games are written in the order in which they end."""
        self.num_moves += int((rows.game != selfplay.NO_GAME).sum())
        num_moves, num_lanes = rows.game.shape
        begins = [0] * num_lanes
        for t, lane in np.argwhere(rows.ended).tolist():
            self._add_moves(rows, lane, begins[lane], t + 1)
            begins[lane] = t + 1
            number = int(rows.game[t, lane])
            if number != selfplay.NO_GAME:
                parts = self.open_games.pop(number)
                self._write_game(number, jax.tree.map(lambda *x: np.concatenate(x), *parts))
        for lane, begin in enumerate(begins):
            if begin < num_moves:
                self._add_moves(rows, lane, begin, num_moves)
        now = time.monotonic()
        at_next_take = 2 * now - self.last_take - self.pending_since
        self.last_take = now
        if self.num_pending >= ROWS_AT_RISK or at_next_take > SECONDS_AT_RISK:
            self.flush()

    def _add_moves(self, rows: selfplay.Move, lane: int, begin: int, end: int) -> None:
        """Add the moves from `begin` to `end` of the game in a lane."""
        number = int(rows.game[begin, lane])
        if number != selfplay.NO_GAME:
            part = jax.tree.map(lambda x: x[begin:end, lane].copy(), rows)
            self.open_games[number].append(part)

    def _write_game(self, number: int, game: selfplay.Move) -> None:
        """Write a finished game, given its moves [n]."""
        last = jax.tree.map(lambda x: x[-1], game)
        path, outcome = self.out / "games" / f"{number:06d}", float(last.outcome)
        path = path.with_suffix(".txt" if isinstance(self.rules, NamedGame) else ".sgf")
        if isinstance(self.rules, NamedGame):
            write_whole(path, self._text(self.rules, number, game).encode())
        else:
            sgf.write(path, self._sgf(self.rules, number, game, last))
        self.unsynced.append(path)
        self.results["black" if outcome > 0 else "white" if outcome < 0 else "drawn"] += 1
        self.results["truncated"] += bool(last.truncated)
        self.results["unsound"] += not game.ok.all()
        self.num_games += 1
        self.num_plies += len(game.ply)
        self._add_rows(number, game, last)

    def _text(self, rules: NamedGame, number: int, game: selfplay.Move) -> str:
        """A game as text: a heading, the moves in one line, and the result."""
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
            rules=rule_sets.sgf_name(rules.ko, rules.suicide),
            comment=comment + cut,
        )

    def _add_rows(self, number: int, game: selfplay.Move, last: selfplay.Move) -> None:
        """Add the rows of a finished game, except moves whose search had a NaN evaluation."""
        moves = jax.tree.map(lambda x: x[game.ok], game)
        count = len(moves.ply)
        if not count:
            return
        self.num_rows += count
        if number in self.published:
            return self.published.remove(number)
        legal = np.packbits(moves.legal, axis=1)
        policy = stored_policy(np, moves.policy_target, self.shapes.policy_target.dtype)
        rows = of_game(np, moves.position, moves.ply, legal, policy, moves.root_value, last)
        if not self.pending:
            self.pending_since = time.monotonic()
        self.pending.append(jax.tree.map(lambda x, like: x.astype(like.dtype), rows, self.shapes))
        self.num_pending += count

    def sync(self) -> None:
        """Flush all games and rows to disk, so that a state that follows them may be saved."""
        self.flush()
        for path in self.unsynced:
            sync(path)
        sync(self.out / "games")
        self.unsynced = []

    def flush(self) -> None:
        """Write the rows of finished games that are not yet in a shard."""
        if not self.pending:
            return
        rows = jax.tree.map(lambda *x: np.concatenate(x), *self.pending)
        place = Place(self.num_shards, WRITER)
        about = About(WRITER, self.num_shards, 1, -1, len(self.pending), self.num_pending)
        frequency = np.full(self.num_pending, FREQUENCY_UNIT)
        path = shards.path_of(self.out, place)
        shards.write(path, shards.rules_of(self.rules), about, rows, frequency)
        self.num_shards += 1
        self.pending, self.num_pending = [], 0
