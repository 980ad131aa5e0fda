"""The flags of ``gozero match``. Imports no JAX."""

from __future__ import annotations

import dataclasses
import pathlib
import shlex
from typing import Literal, Self

from gozero.apps.named import naming
from gozero.games.registry import ALL_NAMES
from gozero.go.coords import MAX_KOMI, MAX_SIZE, MIN_SIZE, KoRule
from gozero.play import players
from gozero.play.player_config import PlayerConfig, board_size
from gozero.play.players import PlayerName
from gozero.runs import settings
from gozero.runs.settings import Conflict, OfFlags, setting

MAX_GAMES = 10**6
SIDES = ("player", "opponent")
CLOCK_TOLERANCE_S = 1.0
"""How much more than its main time a program may take in a whole game: what our pipe and a busy
machine add to its replies."""


@dataclasses.dataclass(frozen=True)
class Side(OfFlags, PlayerConfig):
    """One side of a match: a program that speaks GTP, or a search of ours."""

    command: str | None = setting(None, group="side", unset="our own search")
    """A GTP engine's command line, as a shell would split it: "gnugo --mode gtp --seed {game}";
    {game} is replaced by the game's number."""

    main_time: int | None = setting(None, least=1, most=86_400, unit="seconds", unset="no clock")
    """A program's time for all its moves of a game, with no byo-yomi: it is told by time_settings
    and before each move by time_left, and forfeits the game if its replies, also to play and
    time_left, take over a second more. Replies are then not limited by --timeout. The clock is real
    time: let no more games be played at once (--parallel) than the machine has cores for."""

    reuse: bool = setting(False)
    """Whether our search starts from the tree of the previous one, or td from its weights."""

    player: PlayerName | None = setting(None, unset="none")
    """A player of `gozero players`, whose settings for the board size our search has; every other
    flag overrides one."""

    CONFLICTS = (
        Conflict(
            " ".join(["player", *(f.name for f in dataclasses.fields(PlayerConfig)), "reuse"]),
            "command",
            "a program has its own search",
        ),
        Conflict(
            "main_time",
            "!command",
            "our own search here plays many games in lockstep and has no clock; let it play as a "
            'program: --command "gozero gtp ..."',
        ),
        *PlayerConfig.CONFLICTS,
    )

    def on(self, size: int, prefix: str = "") -> Self:
        """The side on a board, checked, with the named player's settings that no flag overrides.

        Raises:
          ValueError: as `check`; also for flags that conflict with those settings.
        """
        if self.player is None or self.command is not None:
            return self
        own, given = players.settings_of(self.player, size), self.given
        side = type(self)(**{**own, **given})._remember(given)
        with naming(self.player, {k: v for k, v in own.items() if k not in given}, prefix):
            side.check(prefix)
        return side

    def words(self, game: int = 0) -> list[str]:
        """The program and its arguments, for a game."""
        return [word.replace("{game}", str(game)) for word in shlex.split(self.command or "")]

    def check(self, prefix: str = "") -> None:
        """Check as `PlayerConfig.check` does, and that the command is a command line."""
        if self.command is not None and not self._is_command():
            raise ValueError(
                f"--{prefix}command {self.command!r}: expected a program's command line"
            )
        super().check(prefix)

    def _is_command(self) -> bool:
        try:
            return bool(self.words())
        except ValueError:  # an unclosed quotation mark
            return False


@dataclasses.dataclass(frozen=True)
class MatchConfig:
    """Play a match: two GTP programs, a GTP program and our own search, or two searches of ours.

    Colours alternate; the player is Black in the first game. Our referee counts the area after two
    passes without removing dead stones: tell a program to capture them (GNU Go: --chinese-rules
    --positional-superko --play-out-aftermath --capture-all-dead), and to use the same ko rule. A
    side forfeits a game by an illegal move, no move, a refusal, an answer that is not GTP or one
    that takes longer than --timeout. A game in which a program dies is replayed at most --retries
    times; if the program dies again, it forfeits the game, or with --crash void the game is void
    and counts in no score. The SGF then has the moves so far. A program that cannot be started, say
    because the machine is short of processes, loses no game: the start is retried for at least half
    a minute. The same command on the same folder resumes a match that was stopped or killed.
    """

    games: int = setting(100, group="match", least=1, most=MAX_GAMES)
    """Games to play."""

    parallel: int = setting(8, least=1, most=4096, unit="games")
    """Games played at once, each with its own process of each program; our search takes half of
    them in a batch, while the programs of the other half think."""

    openings: int = setting(0, least=0, most="most_openings", unit="plies")
    """Opening plies that the two games of each pair share, with colours swapped: random ones, or
    those of --openings-from. 0: all plies of the files, or none without files."""

    openings_from: pathlib.Path | None = setting(None, unset="random plies")
    """An SGF file, or a folder of them: the first moves of each game are a pair's opening, in
    turn."""

    timeout: float = setting(60.0, above=0, most=86_400, unit="seconds")
    """The most seconds of real time for a program's answer; many programs on few cores need
    more."""

    retries: int = setting(2, least=0, most=1000)
    """How often a game is replayed after a program died; with more, the same command replays games
    that were void before."""

    crash: Literal["loss", "void"] = setting("loss")
    """The result of a game in which a program died too often: a loss of that program, or void; then
    the deaths of both programs count."""

    seed: int = settings.seed_setting()
    """The seed of our searches and the random openings."""

    out: pathlib.Path = setting(pathlib.Path("runs/match"))
    """The folder of config.json, manifest.json, results.jsonl, summary.json and games/*.sgf (*.txt
    for games other than Go): a new one, or one to resume. Then all flags must be the same except
    --parallel, --retries, --crash and --timeout, and --games may be larger."""

    game: str = setting(
        "go",
        f"The game: {ALL_NAMES}. In games other than Go both sides are our own searches, whose "
        "playouts are random games to the end.",
        group="game",
    )

    size: int | None = setting(
        None,
        least=MIN_SIZE,
        most=MAX_SIZE,
        unset="the size of a side's weights or shapes, else 9, or 11 for hex",
    )
    """Points on a side of the board."""

    komi: float = setting(7.0, least=-MAX_KOMI, most=MAX_KOMI, step=0.5, unit="points")
    """Points for White."""

    ko: KoRule = setting("positional")
    """The ko rule."""

    max_moves: int | None = setting(
        None, above="openings", most=2**15 - 1, unset="more than any real game needs"
    )
    """The move limit, at which a game is scored as it stands."""

    player: Side = Side()
    opponent: Side = setting(Side())
    """The other side."""

    CONFLICTS = (
        Conflict("komi ko max_moves openings_from", "!game=go", "other games have no such setting"),
    )
    EXAMPLES = (
        'gozero match --player.simulations 800 --opponent.command "ENGINE --gtp"',
        "gozero match --player.search rave --opponent.search uct --games 200 --openings 4",
        "gozero match --player.player literal --opponent.player rave --openings 4",
    )

    def __post_init__(self):
        for name in SIDES:
            side = getattr(self, name)
            if side.player is None or side.command is not None:
                side.check(f"{name}.")
            elif self.game != "go":
                raise ValueError(
                    f"--{name}.player {side.player}: named players play only Go, not {self.game}"
                )
        of_files = next((side for side in self.sides if side.weights or side.shapes), Side())
        if self.game == "go":
            size = board_size(self.size, of_files.weights, of_files.shapes)
            object.__setattr__(self, "size", size)
        settings.check(self)
        for name in SIDES:
            side = getattr(self, name)
            if self.game == "go":
                object.__setattr__(self, name, side.on(self.size, f"{name}."))
                getattr(self, name).check_size(self.size, f"{name}.")
                continue
            if side.command is not None:
                raise ValueError(f"--{name}.command: programs play only Go, not {self.game}")
            side.check_other_game(f"--{name}.")
            if side.evaluator == "playout" and side.playouts is None:
                object.__setattr__(self, name, dataclasses.replace(side, playouts="uniform"))
        if self.paired and self.games % 2:
            raise ValueError(
                f"--games {self.games}: openings are played in pairs; use {self.games + 1}"
            )

    @property
    def most_openings(self) -> int:
        """The most opening plies allowed on the board."""
        return 2 * (self.size or 9) ** 2

    @property
    def sides(self) -> tuple[Side, Side]:
        """The player and the opponent."""
        return self.player, self.opponent

    @property
    def paired(self) -> bool:
        """Whether games 2 i and 2 i + 1 share their opening."""
        return self.openings > 0 or self.openings_from is not None

    def black(self, game: int) -> int:
        """Which side is Black: 0 the player, in even games, 1 the opponent."""
        return game % 2
