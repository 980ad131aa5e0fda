"""The settings of self-play."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import jax
import numpy as np

from gozero.play.openings import Openings
from gozero.play.resignation import ResignConfig
from gozero.search import tree as trees
from gozero.search.config import SearchConfig
from gozero.search.game import Game
from gozero.search.move_choice import Temperature


@dataclasses.dataclass(frozen=True)
class PlayoutCap:
    """How often a move is searched in full.

    Wu (2019), section 3.1: a policy target wants many simulations, a value target many games. So a
    full search is made at a share of the moves only, and only it is learnt from. The games of
    a batch keep step, and a batch takes as long as its slowest search: one draw decides for all
    of them, at each move anew.

    Attributes:
      cheap: the search of the other moves; `setups.to_win` makes one.
      full_share: the probability of a full search.

    Raises:
      ValueError: naming the field, what it was and what is allowed.
    """

    cheap: SearchConfig
    full_share: float = 0.25

    def __post_init__(self):
        if not 0 < self.full_share <= 1:
            raise ValueError(f"full_share: {self.full_share} is not above 0 and at most 1")

    def is_full(self, key: jax.Array) -> jax.Array:
        """bool[]: whether the next search of the batch is a full one."""
        return jax.random.bernoulli(key, self.full_share)


@dataclasses.dataclass(frozen=True)
class SelfPlayConfig:
    """Static settings of self-play.

    Attributes:
      game: what is played, such as `go_game(rules)`.
      batch: B, lanes: games played at once.
      search: the search of every move, or of those that are searched in full; its temperature and
        final move are not used.
      komi: points for the second player, one number or several: each game draws one of them, all
        alike. None (an empty tuple) for a game without points.
      num_games: how many games count; None: games without end.
      temperature: by moves into a game: where it is above 0, the move is drawn by the visits, also
        under a root rule that says what is played; where it is 0, that rule or the visits decide.
        None: 0 under such a rule, for sequential halving spreads its visits and they say little of
        what is good; else 1 for the first moves, 30 of them on 19x19 and as many fewer as the
        board has fewer lines (of a game without points: a quarter of `max_moves`), then 0.
      reuse_subtree: a search goes on from what the last one found below the move played; give
        `search` room for it, see `SearchConfig.roomy`.
      prior_counts: the evaluator has a heuristic whose values count as visits; trees that are
        reused have room for them.
      openings: plies of each game that are drawn at random. Nothing is learnt from them.
      cap: cheap searches between the full ones; None: all are full.
      resign: how resigning is watched; None: no one resigns.
      stagger: the first game of each lane begins after 0 to so many random plies; None for
        half of `max_moves`, about the length of a game.
      more_simulations: other numbers of simulations that a full search may be asked to have, from
        call to call; each is compiled once.

    Raises:
      ValueError: naming the field, what it was and what is allowed.
    """

    game: Game
    batch: int
    search: SearchConfig
    komi: float | Sequence[float] = ()
    num_games: int | None = None
    temperature: Temperature | None = None
    reuse_subtree: bool = False
    prior_counts: bool = False
    openings: Openings = Openings()  # noqa: RUF009 (frozen)
    cap: PlayoutCap | None = None
    resign: ResignConfig | None = None
    stagger: int | None = None
    more_simulations: tuple[int, ...] = ()

    def __post_init__(self):
        values = tuple(float(komi) for komi in np.atleast_1d(np.asarray(self.komi, np.float64)))
        object.__setattr__(self, "komi", values)  # hashable, whatever it was given as
        self._check_komi(values)
        if self.batch < 1:
            raise ValueError(f"batch: {self.batch} is not at least 1")
        if self.num_games is not None and self.num_games < 1:
            raise ValueError(f"num_games: {self.num_games} is not at least 1")
        limit = self.game.max_moves
        if not 0 <= self.first_plies < limit:
            raise ValueError(f"stagger: {self.stagger} plies are not from 0 to {limit - 1}")
        if self.openings.most >= limit:
            raise ValueError(
                f"openings: {self.openings.most} plies are a whole game; the move limit is {limit}"
            )
        for settings in self.searches:
            _check_search(settings, self.batch)
        if self.reuse_subtree:
            self._check_reuse()

    def _check_komi(self, values: tuple[float, ...]) -> None:
        points = self.game.points
        if points is None and values:
            raise ValueError(f"komi: {values[0]:g}, of a game without points; leave it out")
        if points is None:
            return
        if not values:
            raise ValueError("komi: no value to draw from; give one or more")
        for komi in values:
            points.new(komi)  # refuses a komi that is none

    def _check_reuse(self) -> None:
        self.search.check_with(tree=True)
        rooms = sorted({settings.num_nodes for settings in self.searches})
        if len(rooms) > 1:
            raise ValueError(
                f"reuse_subtree: searches of {', '.join(map(str, rooms))} nodes cannot go on from "
                "each other's trees; give all of them the same capacity"
            )

    @property
    def first_plies(self) -> int:
        """The most random plies before the first game of a lane."""
        return self.game.max_moves // 2 if self.stagger is None else self.stagger

    @property
    def schedule(self) -> Temperature:
        """The temperature of each move."""
        if self.temperature is not None:
            return self.temperature
        if self.search.plays_by_rule:
            return Temperature(moves=0)
        if self.game.points is None:
            return Temperature(moves=self.game.max_moves // 4)
        return Temperature(moves=30 * math.isqrt(self.game.num_actions - 1) // 19)

    @property
    def searches(self) -> tuple[SearchConfig, ...]:
        """All that may be made."""
        full = [self.full_search(n) for n in (self.search.num_simulations, *self.more_simulations)]
        return (*full, self.cap.cheap) if self.cap is not None else tuple(full)

    def full_search(self, num_simulations: int | None = None) -> SearchConfig:
        """The full search with another number of simulations; None for its own.

        Raises:
          ValueError: a number that the settings do not name.
        """
        allowed = (self.search.num_simulations, *self.more_simulations)
        if num_simulations is None or num_simulations == self.search.num_simulations:
            return self.search
        if num_simulations not in allowed:
            raise ValueError(
                f"num_simulations: {num_simulations} is not one of "
                f"{', '.join(map(str, sorted(allowed)))}; name it in more_simulations"
            )
        return dataclasses.replace(self.search, num_simulations=num_simulations)


def _check_search(search: SearchConfig, batch: int) -> None:
    """Refuse a search that self-play cannot have, in so many lanes.

    Raises:
      ValueError: trees of more rows than can be; a search of several trees, or one that is for
        playing, and spoils what is learnt from it.
    """
    if batch * search.num_nodes > trees.MAX_ROWS:
        raise ValueError(
            f"batch: {batch} trees of {search.num_nodes} nodes are more than {trees.MAX_ROWS} "
            "rows; lower the batch or the simulations"
        )
    if search.ensemble is not None:
        raise ValueError("search: an ensemble is several trees for a game; self-play has one")
    if search.early_stop:
        raise ValueError(
            "search: early_stop is for playing, and spoils the policy targets; leave it out"
        )
    if search.prove:
        raise ValueError(
            "search: prove is for playing; targets and moves are of visits, which a proof leaves "
            "behind; leave it out"
        )
