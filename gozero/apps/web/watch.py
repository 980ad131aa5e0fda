"""Games to watch while they are played: in lockstep on our device, or in a growing folder."""

from __future__ import annotations

import contextlib
import functools
import heapq
import math
import os
import pathlib
import time
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from gozero.apps import rule_sets, sgf
from gozero.apps.gtp.config import GtpConfig
from gozero.apps.host_game import ample_move_limit
from gozero.apps.sgf import GameRecord
from gozero.apps.web.variations import Variations, board_text
from gozero.compile import executables
from gozero.games.go import go_game
from gozero.go import rules as go
from gozero.go import scoring
from gozero.go.coords import KoRule, result_text
from gozero.go.rules import Rules
from gozero.play import arena, player
from gozero.play.setups import make_player
from gozero.search.game import NO_ACTION

MOST_GAMES = 16
_OPENING = 2
"""Random opening plies: without them, a search without noise would repeat the same game."""

_FINAL_LOOKS = 6
"""The number of looks for which finished games stay, before new ones begin."""

_COARSEST_S = 2.0
"""The coarsest unit in which a file system keeps the times of changes, in seconds."""


class Watched(Protocol):
    """Games that a board can watch."""

    def look(self) -> dict | None:
        """The games as a message to the board; None if nothing has changed."""
        ...

    def record(self, number: int) -> GameRecord:
        """One of the games, so far."""
        ...


class WatchedSelfPlay:
    """A player against itself, in lockstep; each look plays a move of each game.

    Args:
      config: the player, and the board size.
      name: the player's name.
      games: the number of games.
      komi: points for White.

    Raises:
      ValueError: files are missing, damaged or for another size.
    """

    def __init__(self, config: GtpConfig, name: str, games: int, komi: float):
        assert config.size is not None  # set by __post_init__
        limit, remember = ample_move_limit(config.size), config.needs_past_boards
        self._rules = Rules(config.size, config.ko, config.suicide, limit, remember)
        self._game, self._komi, self._name = go_game(self._rules), komi, name
        self._player = make_player(self._rules, config, config.seed).player
        self._random = player.random_player(self._game)
        self._key, self._count, self._ply = jax.random.key(config.seed), games, 0
        self._draw = executables.jit(jax.vmap(functools.partial(go.stones, self._rules)))
        self._begin()

    def _begin(self) -> None:
        start = go.init(self._rules, self._komi)
        states = jax.tree.map(lambda x: jnp.repeat(jnp.asarray(x)[None], self._count, 0), start)
        no_actions = jnp.full((2, self._count), NO_ACTION, jnp.int32)
        none = jnp.zeros(self._count, bool)
        self._lanes = arena.MatchLanes(states, no_actions, ~none, none)
        self._moves: list[list[int]] = [[] for _ in range(self._count)]
        self._since_end = 0

    def look(self) -> dict | None:
        """Play the next move of every game; some looks after all have ended, begin new games."""
        if self._since_end == _FINAL_LOOKS:
            self._begin()
        if self._since_end:
            self._since_end += 1
            return None
        mover = self._random if len(max(self._moves, key=len)) < _OPENING else self._player
        legal = arena.legal_actions(self._game, self._lanes.states)
        turn = player.Turn(self._lanes.states, legal, self._lanes.recent)
        self._ply += 1
        choice = arena.choose_actions(mover.choose, mover.params, self._key, self._ply, turn, None)
        self._lanes, played, over = arena.advance(self._game, self._lanes, legal, choice)
        for moves, action in zip(self._moves, np.asarray(played).tolist(), strict=True):
            moves.extend([action] if action != NO_ACTION else [])
        ended = np.asarray(over)
        self._since_end = int(ended.all())
        return self._message(ended)

    def _message(self, ended: np.ndarray) -> dict:
        states, size = self._lanes.states, self._rules.size
        boards = np.asarray(self._draw(states))
        scores = np.asarray(jax.vmap(functools.partial(scoring.area_score, self._rules))(states))
        games = []
        resigned = np.asarray(self._lanes.resigned)
        per_game = zip(self._moves, boards, scores, ended, resigned, strict=True)
        for moves, board, score, is_over, gave_up in per_game:
            status = result_text(float(score)) if is_over else f"move {len(moves)}"
            if gave_up:  # by the player to move, who is White after an odd number of moves
                status = "WB"[len(moves) % 2] + "+R"
            last = moves[-1] if moves else -1
            games.append({"name": status, "size": size, "stones": board_text(board), "last": last})
        over = f", {int(ended.sum())} over" if ended.any() else ""
        title = f"{self._name} against itself: {self._count} games{over}"
        return {"tell": "games", "title": title, "games": games}

    def record(self, number: int) -> GameRecord:
        """A game so far."""
        moves = tuple((i % 2, action) for i, action in enumerate(self._moves[number]))
        size, name = self._rules.size, self._name
        rules = rule_sets.sgf_name(self._rules.ko, self._rules.suicide)
        return GameRecord(size, self._komi, moves, black=name, white=name, rules=rules)


class _CachedGame(NamedTuple):
    """A file that has been read."""

    changed: float
    record: GameRecord | None  # None: it has no game that can be shown
    summary: Any


class _Listing(NamedTuple):
    """What a folder held when it was listed."""

    changed: float  # when the folder changed; nan if a later change might have the same time
    subfolders: list[str]
    files: dict[str, tuple[int, float]]  # the SGF files: inode, when it changed


class WatchedFolder:
    """The newest games of a folder, whose files are read as they appear.

    A look costs little while nothing changes, however many games there are: folders are listed
    again when they change, and of the files only new ones and those shown are looked at.

    Args:
      path: the folder; SGF files anywhere below it.
      ko, suicide: the rules.
    """

    def __init__(self, path: pathlib.Path, ko: KoRule, suicide: bool):
        self._path, self._suicide = path, suicide
        self._ko: KoRule = ko
        self._folders: dict[str, _Listing] = {}
        self._shown: dict[str, _CachedGame] | None = None  # the newest first

    def look(self) -> dict | None:
        """The newest games, if any have been added or changed since the last look."""
        is_listed, before = self._list(), self._shown or {}
        changed = {file: _changed(file) for file in before}
        if not is_listed and all(before[file].changed == changed[file] for file in before):
            return None
        files = [one for folder in self._folders.values() for one in folder.files.items()]
        times = {file: changed.get(file, when) for file, (_, when) in files}
        newest = heapq.nlargest(MOST_GAMES, times, key=lambda file: (times[file], file))
        shown = {file: self._cached(times[file], file) for file in newest}
        if self._shown is not None and list(shown.items()) == list(before.items()):
            return None
        self._shown = shown
        games = [one.summary for one in shown.values() if one.record]
        return {"tell": "games", "title": f"{self._path}: {len(files)} games", "games": games}

    def _list(self) -> bool:
        """List the folders that have changed; returns whether there were any."""
        todo, folders, before = [str(self._path)], {}, self._folders
        while todo:
            folder = todo.pop()
            with contextlib.suppress(OSError):  # it no longer exists
                folders[folder] = _listed(folder, before.get(folder))
                todo += folders[folder].subfolders
        self._folders = folders
        return folders != before

    def _cached(self, changed: float, file: str) -> _CachedGame:
        known = (self._shown or {}).get(file)
        if known is not None and known.changed == changed:
            return known
        return self._read(changed, pathlib.Path(file))

    def _read(self, changed: float, file: pathlib.Path) -> _CachedGame:
        try:
            record = sgf.read(file)
            game = Variations(record, self._ko, self._suicide)
        except ValueError:
            return _CachedGame(changed, None, None)
        game.go_to(len(game.nodes) - 1)
        summary = {
            "name": f"{file.stem}  {record.result}",
            "size": record.size,
            "stones": board_text(game.game.stones()),
            "last": record.moves[-1][1] if record.moves else -1,
        }
        return _CachedGame(changed, record, summary)

    def record(self, number: int) -> GameRecord:
        """One of the games shown, as it was read."""
        shown = [one.record for one in (self._shown or {}).values() if one.record is not None]
        return shown[number]


def _changed(file: str) -> float:
    """When a file changed; 0 if it has been removed."""
    try:
        return os.stat(file).st_mtime
    except OSError:
        return 0.0


def _listed(folder: str, before: _Listing | None) -> _Listing:
    """The listing of a folder: the one before if the folder has not changed since.

    Raises:
      OSError: it has been removed.
    """
    now, changed = time.time(), os.stat(folder).st_mtime
    if before is not None and before.changed == changed:
        return before
    known, subfolders, files = before.files if before else {}, [], {}
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                subfolders.append(entry.path)
            elif entry.name.lower().endswith(".sgf"):
                inode, when = known.get(entry.path, (None, 0.0))
                if inode != entry.inode():  # a new file, or one replaced by another
                    inode, when = entry.inode(), _changed(entry.path)
                files[entry.path] = inode, when
    is_certain = now - changed > _COARSEST_S
    return _Listing(changed if is_certain else math.nan, subfolders, files)
