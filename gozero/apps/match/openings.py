"""The openings of the pairs of a match: random plies, or the first moves of SGF files."""

from __future__ import annotations

import functools
import hashlib
import pathlib
from collections.abc import Callable
from typing import NamedTuple

from gozero.apps import sgf
from gozero.apps.host_game import HostGame, IllegalMove
from gozero.apps.match.config import MatchConfig
from gozero.go.rules import Rules
from gozero.play import openings
from gozero.play.player import as_game
from gozero.search.game import Game


class PairOpenings(NamedTuple):
    """The openings of the pairs of games."""

    of: Callable[[int], tuple[int, ...]]  # pair -> its actions, Black's first
    sha256: str | None = None  # of all openings, in order, if they come from files


def make_openings(config: MatchConfig, game: Game | Rules) -> PairOpenings:
    """The openings that the flags select, for a game or for Go under some rules.

    Raises:
      ValueError: files are missing, damaged or of another size, or their moves are illegal; or so
        many random plies end every game.
    """
    if config.openings_from is not None:
        assert isinstance(game, Rules)  # other games have no opening files
        lines = _from_files(config.openings_from, game, config.openings)
        digest = hashlib.sha256(repr(lines).encode()).hexdigest()
        return PairOpenings(lambda pair: lines[pair % len(lines)], digest)
    if config.openings == 0:
        return PairOpenings(lambda pair: ())
    draw = functools.partial(openings.of_pair, as_game(game), config.openings, config.seed)
    of = functools.lru_cache(maxsize=2 * config.parallel)(draw)
    of(0)  # raises now, not when the folder has been made
    return PairOpenings(of)


def _from_files(path: pathlib.Path, rules: Rules, plies: int) -> list[tuple[int, ...]]:
    is_sgf = lambda file: file.suffix.lower() == ".sgf"
    files = sorted(filter(is_sgf, path.iterdir())) if path.is_dir() else [path]
    if not files:
        raise ValueError(f"openings_from: {path} has no .sgf files")
    return [line for file in files for line in _openings_of(file, rules, plies)]


def _openings_of(path: pathlib.Path, rules: Rules, plies: int) -> list[tuple[int, ...]]:
    """The first moves of each game of a file."""
    try:
        records = sgf.read_all(path)
    except ValueError as error:
        raise ValueError(f"openings_from: {error}") from error
    names = sgf.names_of_games(str(path), len(records))
    return [
        _first_moves(name, record, rules, plies)
        for name, record in zip(names, records, strict=True)
    ]


def _first_moves(name: str, record: sgf.GameRecord, rules: Rules, plies: int) -> tuple[int, ...]:
    if record.size != rules.size:
        boards = f"{record.size}x{record.size}, but the match is on {rules.size}x{rules.size}"
        raise ValueError(f"openings_from: {name} is for {boards}")
    if record.black_stones or record.white_stones:
        raise ValueError(f"openings_from: {name} sets up stones; an opening may only contain moves")
    moves, game = record.moves[: plies or None], HostGame(rules)
    if plies > len(record.moves):
        count = len(record.moves)
        raise ValueError(f"openings_from: {name} has {count} moves; expected at least {plies}")
    for number, (colour, action) in enumerate(moves, start=1):
        if colour != game.to_play:
            raise ValueError(f"openings_from: {name}: move {number} is out of turn")
        try:
            game.play(colour, action)
        except IllegalMove as error:
            raise ValueError(f"openings_from: {name}: move {number}: {error}") from error
        if game.ended:  # also if the file goes on, as it may after two passes
            raise ValueError(f"openings_from: {name}: the game is over after {number} moves")
    return tuple(action for _, action in moves)
