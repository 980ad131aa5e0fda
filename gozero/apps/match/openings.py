"""What the pairs of a match begin with: random plies, or the first moves of SGF files."""

from __future__ import annotations

import functools
import hashlib
import pathlib
from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np

from gozero.apps import sgf
from gozero.apps.host_game import HostGame, IllegalMove
from gozero.apps.match.config import MatchConfig
from gozero.go import rules as go
from gozero.go.rules import Rules


class Openings(NamedTuple):
    """What pairs begin with."""

    of: Callable[[int], tuple[int, ...]]  # pair -> its actions, Black's first
    sha256: str | None = None  # of all that come from files, in their order


def make_openings(config: MatchConfig, rules: Rules) -> Openings:
    """The openings that the flags ask for.

    Raises:
      ValueError: files that are missing, damaged, of another size, or whose moves are illegal.
    """
    if config.openings_from is not None:
        lines = _from_files(config.openings_from, rules, config.openings)
        digest = hashlib.sha256(repr(lines).encode()).hexdigest()
        return Openings(lambda pair: lines[pair % len(lines)], digest)
    if config.openings == 0:
        return Openings(lambda pair: ())
    draw = functools.partial(random_opening, rules, config.openings, config.seed)
    return Openings(functools.lru_cache(maxsize=2 * config.parallel)(draw))


def random_opening(rules: Rules, plies: int, seed: int, pair: int) -> tuple[int, ...]:
    """Legal plays at random, none of them a pass; fewer if there is none left.

    The same numbers give the same opening, on any machine and after any break.
    """
    rng = np.random.default_rng([seed, pair])
    game = HostGame(rules)
    legal = jax.jit(go.legal_actions, static_argnums=0)
    while len(game.moves) < plies:
        points = np.flatnonzero(np.asarray(legal(rules, game.state))[: rules.pass_action])
        if not len(points):
            break
        game.play(game.to_play, int(rng.choice(points)))
    return tuple(action for _, action in game.moves)


def _from_files(path: pathlib.Path, rules: Rules, plies: int) -> list[tuple[int, ...]]:
    files = sorted(path.glob("*.sgf")) if path.is_dir() else [path]
    if not files:
        raise ValueError(f"openings_from: {path} has no .sgf files")
    return [_first_moves(file, rules, plies) for file in files]


def _first_moves(path: pathlib.Path, rules: Rules, plies: int) -> tuple[int, ...]:
    try:
        record = sgf.read(path)
    except ValueError as error:
        raise ValueError(f"openings_from: {error}") from error
    if record.size != rules.size:
        raise ValueError(f"openings_from: {path} is of {record.size}x{record.size}")
    if record.black_stones or record.white_stones:
        raise ValueError(f"openings_from: {path} sets up stones; openings are moves only")
    moves, game = record.moves[: plies or None], HostGame(rules)
    if plies > len(record.moves):
        raise ValueError(f"openings_from: {path} has {len(record.moves)} moves, not {plies}")
    for number, (colour, action) in enumerate(moves, start=1):
        if colour != game.to_play:
            raise ValueError(f"openings_from: {path}: move {number} is not in turn")
        try:
            game.play(colour, action)
        except IllegalMove as error:
            raise ValueError(f"openings_from: {path}: move {number}: {error}") from error
    if game.ended:
        raise ValueError(f"openings_from: {path}: the game is over after {len(moves)} moves")
    return tuple(action for _, action in moves)
