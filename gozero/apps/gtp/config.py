"""The flags of ``gozero gtp``. Imports no JAX."""

from __future__ import annotations

import dataclasses
from typing import Any

from gozero.apps.named import GameConfig
from gozero.limits import MAX_VISITS, MOST_VISITS
from gozero.play.player_config import TREELESS
from gozero.runs import settings
from gozero.runs.settings import Conflict, setting

MAX_SECONDS = 86_400
"""The longest time for a move: one day."""


@dataclasses.dataclass(frozen=True)
class GtpConfig(GameConfig):
    """Play Go over GTP, on standard input and output. The commands boardsize and komi change the
    size and the komi.

    If no flag defines the player, it is `strong`; `gozero players` lists all players. The defaults
    below are those of a player by flags alone: a named player has its own.
    """

    seconds: float | None = setting(
        None,
        group="session",
        above=0,
        most=MAX_SECONDS,
        unit="seconds",
        unset="no limit",
    )
    """The most seconds for each move; time_settings and time_left may allow less."""

    reuse: bool = setting(True)
    """Whether a search starts from the tree of the previous one, if the game continued from there;
    for td, whether it keeps the weights learnt in the game. Off with --search gumbel."""

    ponder: bool = setting(False)
    """Whether to keep searching while the opponent thinks, for as many simulations as for a
    move."""

    analysis_visits: int = setting(10_000, least=1, most=MOST_VISITS)
    """The most simulations of lz-analyze and kata-analyze. Up to 131070 their tree has room for
    that many; with more it is pruned when it is full, as with --simulations."""

    seed: int = settings.seed_setting()
    """The random seed: the same seed and the same session give the same moves."""

    selftest: bool = setting(False)
    """Play one move, print one line with the move and its time or with the error, and exit."""

    CONFLICTS = (
        *GameConfig.CONFLICTS,
        Conflict("ponder", "!reuse", "otherwise the result of pondering is lost"),
        Conflict("ponder", "search=td|annealing|random", "they keep no tree"),
    )

    EXAMPLES = (
        "gozero gtp --player strong --size 9",
        "gozero gtp --search rave --simulations 3000 --size 9",
        "gozero gtp --weights NET.safetensors --search katago --simulations 100000 --seconds 5",
    )

    def for_analysis(self) -> GtpConfig:
        """The settings of lz-analyze and kata-analyze: one tree, read by its visits.

        Raises:
          ValueError: the search has no tree.
        """
        if self.search in TREELESS:
            raise ValueError(f"search {self.search} has no tree to report")
        visits = self.analysis_visits
        changes: dict[str, Any] = {"simulations": visits, "leaves": min(self.leaves, visits)}
        changes |= {"trees": 1, "resign": None}
        if self.search == "gumbel":
            changes |= {"search": "puct", "considered": None}
        if self.analysis_visits > MAX_VISITS and self.backup != "mean":
            raise ValueError(
                f"--analysis-visits {self.analysis_visits}: expected at most {MAX_VISITS} with "
                f"--backup {self.backup}, whose trees cannot be pruned"
            )
        return dataclasses.replace(self, **changes)

    def __post_init__(self):
        if self.search == "gumbel":  # each Gumbel search starts afresh
            object.__setattr__(self, "reuse", False)
        super().__post_init__()
