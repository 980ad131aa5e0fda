"""The flags of ``gozero match``. Imports no JAX."""

from __future__ import annotations

import dataclasses
import pathlib
import shlex
from typing import Literal

from gozero.apps.flags import check_seed
from gozero.go.coords import KO_RULES, KOMI_EXPECTED, MAX_SIZE, MIN_SIZE, is_komi
from gozero.play.player_config import PlayerConfig

MAX_GAMES = 10**6
SIDES = ("player", "opponent")


@dataclasses.dataclass(frozen=True)
class Side(PlayerConfig):
    """A player of a match: a program that speaks GTP, or a search of ours."""

    command: str | None = None
    """A GTP engine's command line, as a shell would split it: "gnugo --mode gtp --seed {game}".
    {game} becomes the game's number. Without it the side is ours, and the other flags say what."""

    reuse: bool = False
    """Whether ours goes on from what its last search found, or td from what it has learnt."""

    def words(self, game: int = 0) -> list[str]:
        """The program and its arguments, for a game."""
        return [word.replace("{game}", str(game)) for word in shlex.split(self.command or "")]

    def check(self, prefix: str = "") -> None:
        """As `PlayerConfig.check`; a program's own search is not ours to set."""
        if self.command is None:
            super().check(prefix)
            return
        if not self._is_command():
            raise ValueError(f"{prefix}command: {self.command!r} is not a program's command line")
        for field in dataclasses.fields(self):
            if field.name != "command" and getattr(self, field.name) != field.default:
                raise ValueError(
                    f"{prefix}{field.name}: with {prefix}command; a program brings its own search"
                )

    def _is_command(self) -> bool:
        try:
            return bool(self.words())
        except ValueError:  # a quotation that does not end
            return False


@dataclasses.dataclass(frozen=True)
class MatchConfig:
    """Play a match: two programs that speak GTP, one of them and a search of ours, or two of ours.

    Colours alternate; the player is Black in the first game. Our rules keep the board and count the
    area when both have passed, dead stones as they stand: tell a program to take them off (GNU Go:
    --chinese-rules --positional-superko --play-out-aftermath --capture-all-dead), and to go by the
    same ko rule. An illegal move, no move, a refusal, an answer that is not GTP or that takes
    longer than --timeout lose the game by forfeit. A program that dies makes the game void: it is
    played anew, --retries times at most, and then counted as void, which no score has in it; its
    SGF has the moves so far. One that cannot be started, for a machine that is short of processes
    say, costs no game: it is tried again, for half a minute at least. The same command on the same
    folder goes on where it ended, killed or not.
    """

    player: Side = Side()
    """One side, for which the score is counted."""

    opponent: Side = Side()
    """The other."""

    games: int = 100
    """Games to play."""

    parallel: int = 8
    """Games at once: a process of each program for each; ours searches in batches of half of them,
    while the programs of the others think."""

    size: int = 9
    """Points on a side, 2 to 25."""

    komi: float = 7.0
    """Points for White, a multiple of 0.5."""

    ko: Literal["simple", "positional", "situational"] = "positional"
    """The ko rule."""

    max_moves: int | None = None
    """The move limit, at which a game is scored as it stands; far beyond real games without it."""

    openings: int = 0
    """Plies that each pair of games begins with, once with either colour: random ones, or those of
    --openings-from. 0: all of the files' plies, or none without files."""

    openings_from: pathlib.Path | None = None
    """An SGF file, or a folder of them, whose first moves the pairs begin with, in turn."""

    timeout: float = 60.0
    """Seconds that a program may take for an answer, by the clock on the wall: many at once on few
    cores want more."""

    retries: int = 2
    """How often a game is played anew that a program's death has made void; with more, the same
    command plays again those that were void before."""

    seed: int = 0
    """Of our searches and the random openings."""

    out: pathlib.Path = pathlib.Path("runs/match")
    """The folder of config.json, manifest.json, results.jsonl, summary.json and games/*.sgf: a new
    one, or one to go on with: then all flags are the same but --parallel, --retries and
    --timeout, and --games may be more."""

    def __post_init__(self):
        for name in SIDES:
            getattr(self, name).check(f"{name}.")
        check_seed(self.seed)
        for name, least, most in (
            ("games", 1, MAX_GAMES),
            ("parallel", 1, 4096),
            ("size", MIN_SIZE, MAX_SIZE),
            ("openings", 0, 2 * self.size**2),
            ("retries", 0, 1000),
        ):
            if not least <= getattr(self, name) <= most:
                raise ValueError(f"{name}: {getattr(self, name)} is not from {least} to {most}")
        for name in SIDES:
            getattr(self, name).check_size(self.size, f"{name}.")
        if not is_komi(self.komi):
            raise ValueError(f"komi: {self.komi} is not {KOMI_EXPECTED}")
        if self.ko not in KO_RULES:
            raise ValueError(f"ko: {self.ko!r} is not a ko rule; use one of {', '.join(KO_RULES)}")
        if self.max_moves is not None and not 1 <= self.max_moves < 2**15:
            raise ValueError(f"max_moves: {self.max_moves} is not from 1 to {2**15 - 1}")
        if self.max_moves is not None and self.openings >= self.max_moves:
            raise ValueError(
                f"openings: {self.openings} plies leave none of the {self.max_moves} of max_moves"
            )
        if not 0 < self.timeout <= 86_400:
            raise ValueError(f"timeout: {self.timeout} is not above 0, or more than a day")
        if self.paired and self.games % 2:
            raise ValueError(
                f"games: {self.games} is odd, and openings are played in pairs; use "
                f"{self.games + 1}"
            )

    @property
    def sides(self) -> tuple[Side, Side]:
        """The player and the opponent."""
        return self.player, self.opponent

    @property
    def paired(self) -> bool:
        """Games 2 i and 2 i + 1 begin alike."""
        return self.openings > 0 or self.openings_from is not None

    def black(self, game: int) -> int:
        """Which side is Black: 0 the player, in even games, 1 the opponent."""
        return game % 2
