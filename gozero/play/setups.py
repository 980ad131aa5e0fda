"""Players from flags: an evaluator with a search, or a player without a tree, such as RLGO 2.4's
temporal-difference search."""

from __future__ import annotations

import dataclasses
import functools
import math
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from gozero.games.go import go_game
from gozero.games.rollouts import rollout_evaluator
from gozero.go.rules import Rules
from gozero.play import annealing, bias, heuristics
from gozero.play.annealing import Annealing
from gozero.play.evaluators import (
    add_memory,
    in_symmetries,
    make_evaluator,
    playout_evaluator,
    with_priors,
)
from gozero.play.player import Player, as_game, random_player, search_player
from gozero.play.player_config import LEARNT_POLICIES, TREELESS, PlayerConfig
from gozero.play.searches import gumbel_search, to_win
from gozero.play.td_player import td_player
from gozero.playouts.policies.mogo.move_rules import MogoConfig
from gozero.playouts.policies.softmax import strengths
from gozero.playouts.policies.softmax.softmax import Softmax, softmax_policy
from gozero.runs.memory import check_total
from gozero.search.config import Amaf, Ensemble, Grandfather, SearchConfig
from gozero.search.edges import Rule
from gozero.search.game import Evaluator, Game, positions_of
from gozero.search.memory import Memory, memory_of
from gozero.search.rules.estimators import Estimators
from gozero.search.rules.expert import ExpertBias
from gozero.search.rules.katago import KataGoPuct
from gozero.search.rules.operators import MixBackup, Operator, max_backup
from gozero.search.rules.proportional import Boltzmann, Gaussian
from gozero.search.rules.puct import Puct
from gozero.search.rules.rave import HandSelected, MinimumMse, Rave
from gozero.search.rules.selective import Pruning, Widening
from gozero.search.rules.ucb1 import Ucb1
from gozero.search.score import ScoreUtility
from gozero.td import weights as shape_weights

UCT_EXPLORATION = 0.25
"""The weight of UCB1's bonus, for values as probabilities of winning."""

EXCHANGE_EVERY = 50
"""Simulations of each tree between two exchanges, rounded up to whole steps of leaves."""


class Setup(NamedTuple):
    """An evaluator and the search that goes with it."""

    evaluator: Evaluator
    search: SearchConfig
    prior_counts: bool = False
    """Whether trees keep a heuristic's prior counts; for `reuse.empty`."""
    resign: float | None = None
    """The player resigns when the values of the position and its best move are both below this."""


class ConfiguredPlayer(NamedTuple):
    """A player and its description."""

    player: Player
    about: dict  # describes the evaluator in a run's records; plain data
    describe_memory: Callable[[int], str]
    """Number of games at once -> the memory they need; raises DoesNotFit, see `check_memory`."""


def make_player(
    rules: Rules | Game, config: PlayerConfig, seed: int = 0, reuse: bool = False
) -> ConfiguredPlayer:
    """The player that the flags describe.

    Args:
      rules: the rules of Go, or another game.
      config: the flags.
      seed: the seed of a network's random weights.
      reuse: whether each search in a game starts from the previous one's tree or weights.

    Raises:
      ValueError: as `make_setup`, or local shapes that are missing, damaged or for another size.
    """
    if config.search == "td" and isinstance(rules, Rules):
        config.check()
        learnt, about = shape_weights.for_board(rules.size, config.shapes)
        player = td_player(
            rules, config.simulations, learnt, resign=config.resign, reuse_weights=reuse
        )
        describe_memory = lambda games: f"{games} games, one after the other"
        return ConfiguredPlayer(player, {"evaluator": "local shapes", **about}, describe_memory)
    if config.search == "annealing" and isinstance(rules, Rules):
        config.check()
        player = annealing.player(Annealing(rules, config.simulations), config.resign)
        describe_memory = lambda games: f"{games * annealing.LANES} playouts at a time"
        return ConfiguredPlayer(player, {"evaluator": "ordered playouts"}, describe_memory)
    if config.search == "random":
        config.check()
        return ConfiguredPlayer(
            random_player(rules), {"evaluator": "none"}, lambda games: "no trees"
        )
    setup = make_setup(rules, config, seed)
    return ConfiguredPlayer(
        player_of(rules, setup, reuse),
        setup.evaluator.about,
        lambda games: check_memory(rules, setup, reuse, games),
    )


def player_of(rules: Rules | Game, setup: Setup, reuse: bool = False) -> Player:
    """The player of a setup; each call makes a new one, which is compiled separately."""
    return search_player(
        rules, setup.evaluator, setup.search, reuse_subtree=reuse, resign=setup.resign
    )


def tree_memory(rules: Rules | Game, setup: Setup, reuse: bool, games: int) -> Memory:
    """The memory of the trees of this many games at once, computed without allocating them."""
    game = as_game(rules)
    init = lambda key: positions_of(game, jax.vmap(game.init)(jax.random.split(key, games)))
    positions = jax.eval_shape(init, jax.random.key(0))
    search = setup.search.for_reuse if reuse else setup.search
    return memory_of(positions, game.num_actions, search, reuse, setup.prior_counts)


def memory_text(rules: Rules | Game, setup: Setup, reuse: bool, games: int) -> str:
    """The number, size and memory of the trees of this many games at once, and the memory of the
    network that evaluates their leaves."""
    return _told(rules, setup, reuse, games)[0]


def _told(rules: Rules | Game, setup: Setup, reuse: bool, games: int) -> tuple[str, int]:
    """`memory_text`, and the bytes at once if each move is a call to which trees are donated."""
    memory = tree_memory(rules, setup, reuse, games)
    search = setup.search.for_reuse if reuse else setup.search
    trees = games * (search.ensemble.trees if search.ensemble else 1)
    count = "a tree" if trees == 1 else f"{trees} trees"
    text, total = f"{count} of {search.num_nodes} nodes: {memory}", memory.total - memory.prune_copy
    return add_memory(text, total, setup.evaluator, trees * search.leaves)


def check_memory(rules: Rules | Game, setup: Setup, reuse: bool, games: int) -> str:
    """Check that the trees of this many games at once and the network that evaluates their leaves
    fit, and return `memory_text`.

    Each move is expected to be a separate call to which the trees are donated, see `memory_of`.

    Raises:
      DoesNotFit: all devices together have less memory, or on a CPU the host.
    """
    text, total = _told(rules, setup, reuse, games)
    lower = "--nodes or --simulations"
    if games > 1:
        lower += ", or search fewer games at once (--parallel, --batch)"
    return check_total(total, text, lower)


def make_setup(rules: Rules | Game, config: PlayerConfig, seed: int = 0) -> Setup:
    """The evaluator and the search that a player's flags describe.

    Args:
      rules: the rules of Go, or another game, whose playouts are uniformly random to the end.
      config: the flags.
      seed: the seed of a network's random weights.

    Raises:
      ValueError: flags that conflict or apply only to Go; files that are missing, damaged or for
        another size; a player without a tree, for which see `make_player`.
    """
    config.check()
    if not isinstance(rules, Rules):
        config.check_other_game()
    if config.search in TREELESS:
        raise ValueError(f"search: {config.search} has neither a tree nor an evaluator")
    if config.rave_bias == "learnt":
        return _with_learnt_bias(rules, config, seed)
    evaluator = _evaluator(rules, config, seed)
    visits, amaf_visits = config.confidences
    grandfather = None
    if config.heuristic == "grandfather":
        grandfather = Grandfather(visits, amaf_visits)
    elif config.heuristic is not None:
        assert isinstance(rules, Rules)  # the other heuristics are for Go only
        evaluator = heuristics.add_heuristic(
            rules,
            evaluator,
            config.heuristic,
            visits=visits,
            amaf_visits=amaf_visits,
            mogo=MogoConfig(nakade=config.nakade),
            good_visits=config.heuristic_good_visits,
            shapes=config.shapes,
            lost_eyes=not config.heuristic_eyes,
        )
    if config.search == "gumbel":
        max_considered = {} if config.considered is None else {"max_considered": config.considered}
        gumbel = gumbel_search(config.num_simulations, leaves=config.leaves, **max_considered)
        gumbel = dataclasses.replace(gumbel, expand_after=config.expand_after)
        return Setup(evaluator, to_win(gumbel), False, config.resign)
    rule = _rule(rules, config, evaluator)
    search = SearchConfig(
        num_simulations=config.num_simulations // config.trees,
        capacity=config.capacity,
        prune=config.capacity is not None,
        leaves=config.leaves,
        select=rule,
        root_select=_root_rule(config, rule),
        amaf=_amaf(config),
        grandfather=grandfather,
        ensemble=_ensemble(config),
        final_move=config.effective_final_move,
        backup=_backup(rules, config),
        prove=config.prove,
        expand_after=config.expand_after,
    )
    prior_counts = config.first_action or (config.heuristic is not None and visits > 0)
    return Setup(evaluator, search, prior_counts, config.resign)


def _backup(rules: Rules | Game, config: PlayerConfig) -> Operator | None:
    if config.backup == "mix":
        points = rules.num_points if isinstance(rules, Rules) else rules.num_actions
        return MixBackup(2.0 * points)
    return max_backup if config.backup == "max" else None


_OF_BIAS = (
    *("playouts", "strengths", "priors", "prior_strengths", "nakade", "diversity"),
    *("playout_moves", "rave_colours", "rave_ancestor", "rave_legal"),
)
"""The flags on which the bias of all-moves-as-first values depends."""


def _with_learnt_bias(rules: Rules | Game, config: PlayerConfig, seed: int) -> Setup:
    assert isinstance(rules, Rules)  # other games are refused
    measured = _learnt_bias(rules, **{name: getattr(config, name) for name in _OF_BIAS})
    fields: dict[str, Any] = {
        field.name: getattr(config, field.name) for field in dataclasses.fields(PlayerConfig)
    }
    fields["rave_bias"] = measured.bias
    setup = make_setup(rules, PlayerConfig(**fields), seed)
    about = {"learnt_bias": measured.bias, "learnt_bias_actions": measured.actions}
    evaluator = setup.evaluator._replace(about={**setup.evaluator.about, **about})
    return setup._replace(evaluator=evaluator)


@functools.lru_cache(maxsize=32)
def _learnt_bias(rules: Rules, **flags: Any) -> bias.Bias:
    """The bias for a board and playouts, measured once in a process; prints it to stderr."""
    leaves = 8
    config = PlayerConfig(search="rave", simulations=bias.SIMULATIONS, leaves=leaves, **flags)
    setup = make_setup(rules, config)
    measured = bias.measure(go_game(rules), setup.evaluator, setup.search)
    measured = measured._replace(bias=round(measured.bias, 4))
    print(
        f"learnt bias of all-moves-as-first values on {rules.size}x{rules.size}: "
        f"{measured.bias:g}, of {measured.actions} moves",
        file=sys.stderr,
        flush=True,
    )
    return measured


def _root_rule(config: PlayerConfig, rule: Rule) -> Rule | None:
    """KataGo's root rule, which also chooses the move unless --final-move is given; else None."""
    if not isinstance(rule, KataGoPuct):
        return None
    if config.trees == 1 and config.final_move is None:
        return rule.at_root
    return dataclasses.replace(rule, reduction=rule.reduction / 2)


def _ensemble(config: PlayerConfig) -> Ensemble | None:
    """The ensemble of several trees, which exchange statistics after whole steps; else None."""
    if config.trees == 1:
        return None
    steps = -(-EXCHANGE_EVERY // config.leaves)
    return Ensemble(config.trees, every=steps * config.leaves)


PRIORS = {"mm": "mm_9", "balanced": "balanced_9", "katago": "katago_13"}
"""The `strengths.SHIPPED` by `PlayerConfig.priors`."""


def _evaluator(rules: Rules | Game, config: PlayerConfig, seed: int) -> Evaluator:
    if config.evaluator != "playout":
        scores = config.effective_score_utility == "on"
        evaluator = make_evaluator(
            rules, config.evaluator, config.weights, seed, scores=scores, dtype=config.dtype
        )
        return in_symmetries(rules, evaluator, config.effective_symmetries)
    if not isinstance(rules, Rules):
        return rollout_evaluator(rules, first_plays=config.search == "rave")
    policy, about = _policy(rules, config)
    evaluator = playout_evaluator(
        rules,
        policy,
        config.playout_moves,
        first_plays=config.search == "rave" and config.rave_colours,
        first_action=config.first_action,
    )
    if config.priors is not None:
        file = config.prior_strengths or PRIORS[config.priors]
        learnt, description = strengths.load(file)
        evaluator = with_priors(rules, evaluator, softmax_policy(learnt, rules.size))
        about, digest = {**about, "priors": config.priors}, description["sha256"]
        if config.prior_strengths is None:
            about |= {"priors_sha256": digest}
        else:
            about |= {"prior_strengths": str(file), "prior_strengths_sha256": digest}
    return evaluator._replace(about={**evaluator.about, **about})


def _amaf(config: PlayerConfig) -> Amaf | None:
    if config.search != "rave":
        return None
    return Amaf(config.rave_colours, config.rave_ancestor, config.rave_legal)


def _policy(rules: Rules, config: PlayerConfig) -> tuple[str | MogoConfig | Softmax, dict]:
    """(the playout policy, its further description for the records)."""
    if config.policy in LEARNT_POLICIES:
        file = config.strengths or f"{config.policy.replace('-', '_')}_9"
        learnt, description = strengths.load(file)
        about = {"strengths": str(file), "strengths_sha256": description["sha256"]}
        return softmax_policy(learnt, rules.size), {"policy": config.policy, **about}
    if config.nakade or config.diversity:
        return MogoConfig(config.nakade, config.diversity), {}
    return config.policy, {}


def _rule(rules: Rules | Game, config: PlayerConfig, evaluator: Evaluator):
    """The selection rule, with progressive pruning and widening."""
    rule = _plain_rule(rules, config, evaluator)
    if config.pruning is not None:
        rule = Pruning(rule, config.pruning)
    return rule if config.widening is None else Widening(rule, config.widening)


def _plain_rule(rules: Rules | Game, config: PlayerConfig, evaluator: Evaluator):
    c = config.exploration
    if config.search == "gaussian":
        return Gaussian()
    if config.search == "boltzmann":
        return Boltzmann() if config.temperature is None else Boltzmann(config.temperature)
    if config.search == "uct":
        first_play = math.inf if config.first_play is None else config.first_play
        return Ucb1(UCT_EXPLORATION if c is None else c, first_play, config.ucb_tuned)
    if config.search == "rave":
        expert = config.expert_bonus or 0.0, config.expert_visits or 0.0
        return ExpertBias(_rave(config), *expert) if any(expert) else _rave(config)
    rule = evaluator.select or Puct()
    if config.search == "katago" and not isinstance(rule, KataGoPuct):
        rule = KataGoPuct()
    if isinstance(rule, KataGoPuct) and config.trees > 1:  # they do not exchange sums of squares
        rule = dataclasses.replace(rule, spread=0.0)
    if not isinstance(rule, Puct | KataGoPuct):
        return rule
    of_go = isinstance(rules, Rules)
    utility = ScoreUtility(rules.size) if of_go and config.effective_score_utility == "on" else None
    return dataclasses.replace(rule, score=utility, c_puct=rule.c_puct if c is None else c)


def _rave(config: PlayerConfig) -> Rave | Estimators:
    optional = {} if config.first_play is None else {"first_play": config.first_play}
    if config.rave_above is not None:
        return Estimators(**_bias(config), above_bias=config.rave_above, **optional)
    return Rave(
        _schedule(config),
        config.exploration or 0.0,
        **optional,
        initial=config.rave_initial,
        bonus=config.rave_bonus,
    )


def _schedule(config: PlayerConfig) -> HandSelected | MinimumMse:
    if config.rave_k is not None:
        return HandSelected(config.rave_k, config.rave_per_action)
    return MinimumMse(**_bias(config), mean=config.rave_mean)


def _bias(config: PlayerConfig) -> dict[str, Any]:
    return {} if config.rave_bias is None else {"bias": config.rave_bias}
