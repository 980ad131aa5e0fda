"""The settings of self-play."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import jax
import numpy as np

from gozero.limits import RootValue
from gozero.play.openings import Openings
from gozero.play.resignation import ResignConfig
from gozero.runs.settings import check_choice
from gozero.search import tree as trees
from gozero.search.config import SearchConfig
from gozero.search.game import Game, check_is_game
from gozero.search.move_choice import Temperature


@dataclasses.dataclass(frozen=True)
class PlayoutCap:
    """Playout cap randomization: full searches for only a share of the moves.

    Wu (2019), section 3.1: policy targets need many simulations, value targets many games. So only
    a share of the moves gets a full search, and only those moves are learnt from. The games of a
    batch run in lockstep and a batch takes as long as its slowest search, so at each move one draw
    decides for the whole batch.

    Attributes:
      cheap: the search for the other moves; `searches.to_win` makes one.
      full_share: the probability of a full search.

    Raises:
      ValueError: naming the field, its value and what is allowed.
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
      game: the game, such as `go_game(rules)`.
      batch: B, the number of lanes: games played at once.
      search: the search for every move, or for those searched in full; its temperature and
        final move are ignored.
      komi: points for the second player, one number or several, from which each game draws one
        uniformly. An empty tuple for a game without points.
      num_games: how many games count; None: games without end.
      temperature: the temperature by move number. Where it is above 0, the move is drawn by
        visits, even if the root rule chooses moves; where it is 0, that rule or the visits decide.
        None: 0 if the root rule chooses moves, because sequential halving spreads its visits, which
        then say little about which move is good; else 1 for the first moves, then 0 (30 moves on
        19x19, on other boards in proportion to the side; without points a quarter of `max_moves`).
      reuse_subtree: whether a search starts from the previous search's subtree below the move
        played; `search` then needs capacity for it, see `SearchConfig.for_reuse`.
      prior_counts: with reuse, whether the evaluator has a heuristic whose values count as visits.
      root_value: what `Move.root_value` is: mean, the mean of the root's simulations; or policy,
        the policy target's mean of Q, see `gumbel.value_of_policy`.
      openings: the first plies of each game, drawn at random and not learnt from.
      cap: mixes cheap searches with the full ones; None: all are full.
      resign: the settings of resignation; None: no one resigns.
      stagger: the most random plies before the first game of a lane, drawn uniformly from 0 on;
        None: half of `max_moves`, about the length of a game.
      more_simulations: other numbers of simulations that callers may request for a full search,
        from call to call; each is compiled once.

    Raises:
      ValueError: naming the field, its value and what is allowed.
    """

    game: Game
    batch: int
    search: SearchConfig
    komi: float | Sequence[float] = ()
    num_games: int | None = None
    temperature: Temperature | None = None
    reuse_subtree: bool = False
    root_value: RootValue = "mean"
    openings: Openings = Openings()  # noqa: RUF009 (frozen)
    cap: PlayoutCap | None = None
    resign: ResignConfig | None = None
    stagger: int | None = None
    more_simulations: tuple[int, ...] = ()
    prior_counts: bool = False

    def __post_init__(self):
        check_is_game(self.game)
        values = tuple(float(komi) for komi in np.atleast_1d(np.asarray(self.komi, np.float64)))
        object.__setattr__(self, "komi", values)  # hashable, whatever type was passed
        self._check_komi(values)
        if self.batch < 1:
            raise ValueError(f"batch: {self.batch} is not at least 1")
        if self.num_games is not None and self.num_games < 1:
            raise ValueError(f"num_games: {self.num_games} is not at least 1")
        limit = self.game.max_moves
        if not 0 <= self.first_plies < limit:
            raise ValueError(f"stagger: {self.stagger} plies; expected 0 to {limit - 1}")
        if self.openings.most >= limit:
            raise ValueError(
                f"openings: {self.openings.most} plies; expected fewer than the move limit, {limit}"
            )
        for settings in self.searches:
            _check_search(settings, self.batch)
        if self.reuse_subtree:
            self._check_reuse()
        check_choice(self, "root_value", RootValue)

    def _check_komi(self, values: tuple[float, ...]) -> None:
        points = self.game.points
        if points is None and values:
            raise ValueError(f"komi: {values[0]:g}; this game has no points, so omit komi")
        if points is None:
            return
        if not values:
            raise ValueError("komi: empty; give one or more values to draw from")
        for komi in values:
            points.new(komi)  # raises if the komi is invalid

    def _check_reuse(self) -> None:
        for settings in self.searches:
            settings.check_with(tree=True)
        if self.search.num_kept <= 1:
            raise ValueError(
                "reuse_subtree: the search has room for its own nodes only, so nothing would be "
                "kept; use search.for_reuse, or a larger capacity"
            )
        capacities = sorted({settings.num_nodes for settings in self.searches})
        if len(capacities) > 1:
            raise ValueError(
                f"reuse_subtree: searches with {', '.join(map(str, capacities))} nodes cannot "
                "reuse each other's trees; give all of them the same capacity"
            )

    @property
    def first_plies(self) -> int:
        """The most random plies before the first game of a lane."""
        return self.game.max_moves // 2 if self.stagger is None else self.stagger

    @property
    def schedule(self) -> Temperature:
        """The temperature by move number in effect."""
        if self.temperature is not None:
            return self.temperature
        if self.search.plays_by_rule:
            return Temperature(moves=0)
        if self.game.points is None:
            return Temperature(moves=self.game.max_moves // 4)
        return Temperature(moves=30 * math.isqrt(self.game.num_actions - 1) // 19)

    @property
    def searches(self) -> tuple[SearchConfig, ...]:
        """All searches that self-play may run."""
        full = [self.full_search(n) for n in (self.search.num_simulations, *self.more_simulations)]
        return (*full, self.cap.cheap) if self.cap is not None else tuple(full)

    def full_search(self, num_simulations: int | None = None) -> SearchConfig:
        """The full search with another number of simulations; None for its own.

        Raises:
          ValueError: a number other than `search`'s and `more_simulations`.
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
    """Refuse a search that self-play cannot use with this many lanes.

    Raises:
      ValueError: trees with too many rows in all, an ensemble of trees, or settings meant for
        playing that would spoil the training targets.
    """
    if batch * search.num_nodes > trees.MAX_ROWS:
        raise ValueError(
            f"batch: {batch} trees of {search.num_nodes} nodes exceed {trees.MAX_ROWS} rows; lower "
            "the batch or the simulations"
        )
    if search.ensemble is not None:
        raise ValueError(
            "search: self-play has one tree for each game; an ensemble has several, so omit it"
        )
    if search.early_stop:
        raise ValueError(
            "search: early_stop is only for playing: it distorts the policy targets; omit it"
        )
    if search.prune and search.overflows:
        raise ValueError(
            "search: prune is only for playing: policy targets would lack the visits of dropped "
            "actions; omit it, or raise the capacity"
        )
    if search.prove:
        raise ValueError(
            "search: prove is only for playing: policy targets are visits, which do not show what "
            "is proved; omit it"
        )
