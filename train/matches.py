"""The evaluations of a run: matches of its network, in matches.jsonl, and its Elo from them.

The network of each evaluation plays a random player and a search without a network (the anchors,
each until it has lost every game of a match), and the network of the previous evaluation. In a run
that began with weights, the first evaluation plays against these. Networks search as in training,
without its noise. The random keys differ from those of training, so evaluations do not change it.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gozero.go.rules import Rules
from gozero.nets import kinds, weights
from gozero.play import arena, openings
from gozero.play.arena import MatchResult
from gozero.play.player import Player, as_game, random_player, search_player
from gozero.play.searches import gumbel_search, to_win
from gozero.runs import files
from gozero.search.config import SearchConfig
from gozero.search.game import Ancestors, Evaluation, Evaluator, Game
from gozero.search.rules.puct import Puct
from train import folder, plan, ratings
from train.config import Root, TrainConfig
from train.folder import MATCHES
from train.plan import Plan
from train.ratings import Rating, Result

RANDOM, UNIFORM = "random", "uniform"
OPENING_PLIES = 4
"""Enough for thousands of openings on 5x5; the players themselves are deterministic."""

SETTLED_GAMES = 20
"""An anchor that lost every game of a match of at least this many is not played again."""

_GATE = 2**20
"""The second number of the keys of a gate's matches; those of evaluations are lower."""

_KEYS = 0x656C6F
"""Folded into the seed, for keys that differ from those of training."""


@dataclasses.dataclass(frozen=True)
class Terms:
    """The settings of matches."""

    rules: Rules | Game  # of Go, or another game
    komi: tuple[float, ...]  # in Go; pairs of games use them in turn
    games: int  # in a match, an even number
    simulations: int  # for each move, of each side that searches
    seed: int
    search: Root = "gumbel"  # of the networks; as in training
    openings: int = OPENING_PLIES  # random plies that each pair of games begins with
    considered: int = 16  # with gumbel: the moves that a root considers; as in training
    value_scale: float = 1.0  # with gumbel: c_scale; as in training
    puct: Puct = Puct()  # noqa: RUF009 (frozen); with puct: the rule of our networks, as in training

    @property
    def searched(self) -> str:
        """The search as records name it; networks with another one are other players."""
        scaled = self.search == "gumbel" and self.value_scale != 1.0
        return f"{self.search}, value scale {self.value_scale:g}" if scaled else self.search

    @classmethod
    def of(cls, config: TrainConfig, rules: Rules | Game) -> Terms:
        """The settings of a run's matches."""
        games, simulations = config.evaluate_games, config.evaluate_simulations
        return cls(
            rules,
            config.komi,
            games,
            simulations,
            config.seed,
            config.root,
            considered=config.max_considered,
            value_scale=config.value_scale,
            puct=config.puct,
        )


class Rated(NamedTuple):
    """A player of matches.jsonl: a network with another search is another player."""

    name: str
    simulations: int
    search: str


RANDOM_PLAYER = Rated(RANDOM, 0, "")


def due(config: TrainConfig, iteration: int) -> bool:
    """Whether a run is evaluated after this many iterations."""
    return _is_due(config.evaluate_every, config.iterations, iteration)


def num_due(config: TrainConfig, iteration: int) -> int:
    """The number of a run's evaluations after this many iterations."""
    return _num_to_go(config.evaluate_every, config.iterations, iteration)


def gate_due(config: TrainConfig, iteration: int) -> bool:
    """Whether the gate's match is played after this many iterations: regularly, and after the last,
    so that no run ends without having considered its newest network."""
    return config.gate is not None and _is_due(config.gate_every, config.iterations, iteration)


def num_gates_due(config: TrainConfig, iteration: int) -> int:
    """The number of the gate's matches after this many iterations."""
    return 0 if config.gate is None else _num_to_go(config.gate_every, config.iterations, iteration)


def _is_due(every: int, last: int, iteration: int) -> bool:
    """Whether what happens at every so many iterations (0: never) and at the last is due."""
    return every > 0 and (iteration % every == 0 or iteration == last)


def _num_to_go(every: int, last: int, iteration: int) -> int:
    """The number of iterations after this one at which `_is_due`."""
    if every == 0 or iteration >= last:
        return 0
    return last // every - iteration // every + (last % every > 0)


class _Stopped(Exception):
    """A match was stopped before its end."""


def _until(stop: Callable[[], bool]) -> Callable[[int, int], None]:
    """A `progress` for `play` that stops the match when asked."""

    def progress(ply: int, num_open: int) -> None:
        if stop():
            raise _Stopped

    return progress


def evaluate(
    run: Plan, iteration: int, params: Any, stop: Callable[[], bool] = lambda: False
) -> dict:
    """Play the matches of an iteration and record them; returns the values for its metrics.

    Lines of this iteration and later ones, written before a kill, are removed.

    Args:
      run: the run's plan.
      iteration: iterations done.
      params: of the network that plays, on the host.
      stop: called at each ply; whether to stop there. The evaluation can be played later, and is
        the same then.

    Returns:
      {"elo": above `zero_of` the matches, "elo_interval": [low, high]}, from all matches so far;
      "before": [won, drawn, lost] against the network of the previous evaluation, if there is one;
      and "evaluation_s", its duration in seconds. Empty if it was stopped.
    """
    started = time.perf_counter()
    config, terms = run.config, Terms.of(run.config, run.rules)
    path = config.folder / MATCHES
    lines = folder.cut_lines(path, iteration - 1)
    network = run.learner.network
    player, settled = network_player(terms, network, params), _settled(lines, terms)
    opponents = [*enumerate([*anchors(terms), *_before(run, terms, lines)])]
    opponents = [one for one in opponents if one[1][0] not in settled] or opponents
    for number, (name, opponent) in opponents:
        if stop():
            return {}
        try:
            match = play(terms, player, opponent, (iteration, number), progress=_until(stop))
        except _Stopped:
            return {}
        line = {"iteration": iteration, "opponent": name, **line_of(match, terms)}
        files.add_line(path, line)
        lines.append(line)
    rated = Rated(folder.stem(iteration), terms.simulations, terms.searched)
    rating = rate_lines(lines, [rated])[rated]
    low, high = round(rating.low, 1), round(rating.high, 1)
    metrics: dict[str, Any] = {"elo": round(rating.elo, 1), "elo_interval": [low, high]}
    last = lines[-1] if lines else {}
    if last.get("iteration") == iteration and last["opponent"] not in (RANDOM, UNIFORM):
        metrics["before"] = [last["won"], last["drawn"], last["lost"]]
    return metrics | {"evaluation_s": round(time.perf_counter() - started, 3)}


def gate(
    run: Plan, iteration: int, newest: Any, player: Any, stop: Callable[[], bool] = lambda: False
) -> dict:
    """A match of the newest network against that of self-play: AlphaGo Zero's evaluator (Silver et
    al. 2017, Methods). The newest passes if it scores more than `TrainConfig.gate`.

    Args:
      run: the run's plan.
      iteration: iterations done.
      newest, player: parameters.
      stop: called at each ply; whether to stop there. The match can be played later.

    Returns:
      {"gate": [won, drawn, lost], "gate_passed": whether the newest is to play, "gate_s": its
      duration in seconds}, for the metrics. Empty if it was stopped.
    """
    started = time.perf_counter()
    config, network = run.config, run.learner.network
    terms = dataclasses.replace(Terms.of(config, run.rules), games=config.gate_games)
    first, second = (network_player(terms, network, jax.device_get(x)) for x in (newest, player))
    try:
        match = play(terms, first, second, (iteration, _GATE), progress=_until(stop))
    except _Stopped:
        return {}
    line = line_of(match, terms)
    counts = [line[name] for name in ("won", "drawn", "lost")]
    assert config.gate is not None
    passed, seconds = line["score"] > config.gate, round(time.perf_counter() - started, 3)
    return {"gate": counts, "gate_passed": passed, "gate_s": seconds}


def _settled(lines: list[dict], terms: Terms) -> set[str]:
    """The anchors that a network of the run has beaten in every game."""
    return {
        line["opponent"]
        for line in lines
        if line["opponent"] in (RANDOM, UNIFORM)
        and line["simulations"] == terms.simulations
        and line["won"] >= SETTLED_GAMES
        and line["drawn"] == line["lost"] == 0
    }


def _before(run: Plan, terms: Terms, lines: list[dict]) -> Iterator[tuple[str, Player]]:
    """The network of the previous evaluation, or else the one of --weights that the run began with;
    nothing if there is none or its weights cannot be read."""
    if not lines and run.config.weights is None:
        return
    name = folder.stem(max((line["iteration"] for line in lines), default=0))
    path = folder.weights_file(run.config.folder, name)
    try:
        network, params, _ = weights.load(path, run.config.size)
    except ValueError as error:
        print(f"evaluation: no match against {name}: {error}", file=sys.stderr)
        return
    yield name, network_player(terms, network, params)


def anchors(terms: Terms) -> list[tuple[str, Player]]:
    """The fixed opponents: a random player, and a search with a uniform prior and even values."""
    uniform = _searcher(terms.rules, None, SearchConfig(terms.simulations, select=Puct()))
    return [(RANDOM, _random(terms.rules)), (UNIFORM, uniform)]


def network_player(terms: Terms, network: kinds.Config, params: Any) -> Player:
    """A search with a network; compiled once for all networks of one shape."""
    player = _searcher(terms.rules, network, search_of(terms, network))
    return player._replace(params=jax.tree.map(jnp.asarray, params))


def search_of(terms: Terms, network: kinds.Config) -> SearchConfig:
    """The search of a network for a move."""
    if terms.search == "gumbel":
        scale = terms.value_scale
        return to_win(gumbel_search(terms.simulations, terms.considered, value_scale=scale))
    select = plan.evaluator(terms.rules, network).select
    if select is None or isinstance(select, Puct):  # KataGo's networks have their own
        select = terms.puct
    return SearchConfig(terms.simulations, select=select)


_random = functools.cache(random_player)


@functools.cache
def _searcher(rules: Rules | Game, network: kinds.Config | None, search: SearchConfig) -> Player:
    evaluator = uniform_evaluator(rules) if network is None else plan.evaluator(rules, network)
    return search_player(rules, evaluator, search)


def uniform_evaluator(rules: Rules | Game) -> Evaluator:
    """A uniform prior, and 0 for every position: a search learns only from the ends of games."""

    def observe(context: Any, position: Any, ancestors: Ancestors) -> jax.Array:
        del context, position, ancestors
        return jnp.float32(0)

    def evaluate(params: Any, key: jax.Array, values: jax.Array) -> Evaluation:
        del params, key
        return Evaluation(jnp.zeros((*values.shape, rules.num_actions)), values)

    return Evaluator(evaluate, None, observe, Puct(), {"evaluator": UNIFORM})


def play(
    terms: Terms,
    first: Player,
    second: Player,
    numbers: Iterable[int],
    lines: np.ndarray | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> MatchResult:
    """Play a match in pairs of games, each pair from its own opening. Pairs use the komi in turn.

    Args:
      terms: the settings.
      first, second: the players.
      numbers: for the PRNG keys; other numbers draw other openings.
      lines: i32[pairs, plies], the openings; None to draw distinct ones. If there are too few, some
        are played again.
      progress: called at each ply with the number of plies and of games that have not ended.
    """
    pairs = terms.games // 2
    lines = draw_openings(terms, numbers) if lines is None else lines
    if len(lines) < pairs:
        print(
            f"evaluation: {len(lines)} openings of {terms.openings} plies for {pairs} pairs of "
            "games; some are played again",
            file=sys.stderr,
        )
    start = openings.after(as_game(terms.rules), np.resize(lines, (pairs, terms.openings)))
    komi = np.repeat(np.resize(terms.komi, pairs), 2) if terms.komi else None
    _, key = _keys(terms, numbers)
    return arena.play_match(terms.rules, first, second, key, terms.games, komi, start, progress)


def draw_openings(terms: Terms, numbers: Iterable[int]) -> np.ndarray:
    """i32[n, plies]: an opening for each pair of a match, or fewer if there are no more."""
    key, _ = _keys(terms, numbers)
    return openings.distinct(as_game(terms.rules), terms.openings, key, terms.games // 2)


def _keys(terms: Terms, numbers: Iterable[int]) -> jax.Array:
    """Two keys: for the openings, and for the players."""
    key = jax.random.fold_in(jax.random.key(terms.seed), _KEYS)
    for number in numbers:
        key = jax.random.fold_in(key, number)
    return jax.random.split(key)


def line_of(match: MatchResult, terms: Terms) -> dict:
    """The record of a match, from the first player's side."""
    summary = match.summary()
    low, high = summary.interval
    return {
        "won": summary.total.wins,
        "drawn": summary.total.draws,
        "lost": summary.total.losses,
        "score": round(summary.score, 6),
        "interval": [round(low, 6), round(high, 6)],
        "plies": round(float(match.plies.mean()), 2),
        "unsound": int(np.sum(~match.ok)),
        "seed": terms.seed,
        "simulations": terms.simulations,
        "search": terms.searched,
        "openings": terms.openings,
    }


def rate_lines(
    lines: Iterable[dict], subset: Collection[Rated] | None = None, newest_at_0: bool = False
) -> dict[Rated, Rating]:
    """The ratings of the players in lines of matches.jsonl, with `zero_of` them at 0.

    Args:
      lines: as `evaluate` writes them. Lines without "search" are of an earlier version, which
        always used PUCT.
      subset: the players to rate; see `ratings.rate`.
      newest_at_0: whether the network of the last line is at 0 instead. Intervals then exclude the
        difference between the first network and random moves, which has no upper bound.
    """
    results, newest = [], RANDOM_PLAYER
    for line in lines:
        simulations, points = line["simulations"], line["won"] + line["drawn"] / 2
        games = line["won"] + line["drawn"] + line["lost"]
        search, name = line.get("search", "puct"), line["opponent"]
        if search.startswith("puct"):  # an earlier version added --value-scale, which has no effect
            search = "puct"
        anchor_players = {RANDOM: RANDOM_PLAYER, UNIFORM: Rated(UNIFORM, simulations, "puct")}
        opponent = anchor_players.get(name, Rated(name, simulations, search))
        newest = Rated(folder.stem(line["iteration"]), simulations, search)
        results.append(Result(newest, opponent, points, games))
    return ratings.rate(results, newest if newest_at_0 else zero_of(results), subset)


def zero_of(results: Iterable[Result[Rated]]) -> Rated:
    """The player rated 0: the network that the run began with, if it has played, or else the random
    player.

    A trained network beats the random player in every game, which says little more about its rating
    than the prior does.
    """
    first = (one for result in results for one in result[:2] if one.name == folder.stem(0))
    return next(first, RANDOM_PLAYER)
