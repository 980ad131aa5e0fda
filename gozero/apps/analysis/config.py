"""The flags of ``gozero analyze``. Imports no JAX."""

from __future__ import annotations

import dataclasses
import types
from typing import Literal

from gozero.apps.named import AnalystConfig
from gozero.go.coords import KoRule
from gozero.play.player_config import PlayerConfig, TreeName
from gozero.runs import settings
from gozero.runs.settings import setting

WinratesAs = Literal["BLACK", "WHITE", "SIDETOMOVE"]


@dataclasses.dataclass(frozen=True)
class AnalyzeConfig(AnalystConfig):
    """Analyse positions for other programs, such as KaTrain, by KataGo's protocol: each line of
    standard input is a query, each line of standard output an answer. Many queries are searched in
    lockstep.
    """

    search: TreeName = settings.same_as(PlayerConfig, "search")  # noqa: RUF009 (a string)
    simulations: int = settings.same_as(
        PlayerConfig,
        "simulations",
        500,
        help="The most visits of a query, and the visits of one without maxVisits; trees have room "
        "for this many.",
    )

    json: bool = setting(False, group="analysis")
    """Use KataGo's JSON lines; required, as there is no other protocol."""

    batch: int = setting(64, least=1, most=4096, unit="positions")
    """The most positions searched at once. A search that runs is not interrupted. On a CPU, where a
    search takes time in proportion to its positions, the highest priority is searched without
    others, in batches of 1, 8 or this many that are at least half full, and a priority below 0 (a
    review in KaTrain, say) in batches of at most 8. Elsewhere a search takes all that wait."""

    report_winrates_as: WinratesAs = setting("BLACK")
    """The player whose winrates, leads and ownership are reported; a query may name another."""

    score_playouts: int = setting(16, least=1, most=2**16)
    """Playouts per position that forecast score and ownership, also after each visited move, if
    the network does not."""

    ko: KoRule = setting("positional")
    """The ko rule of queries that name no rules."""

    seed: int = settings.seed_setting()
    """The random seed."""

    EXAMPLES = (
        "gozero analyze --json",
        "gozero analyze --json --search rave --simulations 2000 --batch 8",
    )

    NO_FLAGS = types.MappingProxyType(
        {
            "komi": 'each query has its own komi, such as "komi": 7',
            "rules": 'each query has its own rules, such as "rules": "chinese"',
            "size": 'each query has its own size, such as "boardXSize": 9, "boardYSize": 9',
        }
    )

    def __post_init__(self):
        self.check()
        if not self.json:
            raise ValueError("--json: required, because there is no other protocol")
        if self.trees > 1:
            raise ValueError(
                f"--trees {self.trees}: expected 1; an analysis has one tree a position"
            )
