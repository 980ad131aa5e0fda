"""The flags of ``gozero web``. Imports no JAX."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any

from gozero.apps.analysis.config import AnalyzeConfig
from gozero.apps.gtp.config import GtpConfig
from gozero.apps.named import GameConfig, NamedPlayerConfig
from gozero.play import players
from gozero.play.player_config import TREELESS
from gozero.runs import settings
from gozero.runs.settings import setting

_PLAYERS = {field.name for field in dataclasses.fields(NamedPlayerConfig)}
"""Flags that define our player."""


@dataclasses.dataclass(frozen=True)
class ThinkingConfig(GameConfig):
    """The settings of players and analysis on the web page and the notebook's board."""

    visits: int = setting(200, group="session", least=2, most=100_000)
    """Visits per position in the analysis."""

    seed: int = settings.seed_setting()
    """The random seed."""

    @property
    def is_by_name(self) -> bool:
        """Whether our player is a named player that no other flag changes."""
        flags = self.explicit_flags or {}
        return self.player is not None and not (_PLAYERS - {"player"}) & flags.keys()

    def to_play(self, name: str | None, size: int) -> GtpConfig:
        """The flags of `gozero gtp` for a named player, or for our own player (None).

        Raises:
          ValueError: as for `GtpConfig`.
        """
        rules = {"size": size, "ko": self.ko, "suicide": self.suicide}
        common = {**rules, "reuse": False, "seed": self.seed}
        if name is not None:
            return GtpConfig.of_flags({"player": name, **common})
        return GtpConfig.of_flags({**self._own_flags(GtpConfig), **common})

    def to_analyse(self) -> AnalyzeConfig:
        """The flags of `gozero analyze` for our player, or for the default player if ours searches
        no tree."""
        flags = self._own_flags(AnalyzeConfig)
        flags.pop("resign", None)  # the analysis plays no move
        if self.search in TREELESS:
            flags = {"player": players.DEFAULT}
        if "leaves" in flags:
            flags["leaves"] = min(flags["leaves"], self.visits)
        fixed = {"json": True, "simulations": self.visits, "seed": self.seed, "batch": 8}
        return AnalyzeConfig.of_flags({**flags, "trees": 1, **fixed})

    def _own_flags(self, config: type) -> dict[str, Any]:
        """The explicit flags that the class `config` has, too."""
        flags: Mapping[str, Any] = self.explicit_flags or {"player": players.DEFAULT}
        return {f.name: flags[f.name] for f in dataclasses.fields(config) if f.name in flags}


@dataclasses.dataclass(frozen=True)
class WebConfig(ThinkingConfig):
    """Play, analyse and watch Go in a browser on this machine; the address to open is printed.

    The page is served on 127.0.0.1 only, and only to those who know the token in the address.
    """

    port: int = setting(0, group="server", least=0, most=65_535)
    """The port; 0: any free one."""

    watch: pathlib.Path | None = setting(None, unset="none")
    """A folder of SGF games, of a match or self-play, which the page shows as they are written."""

    EXAMPLES = ("gozero web", "gozero web --player fast --size 13 --port 8000")
