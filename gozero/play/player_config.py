"""A search player's settings: evaluator, selection rule and search size. Imports no JAX."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import pathlib
from typing import Literal, get_args

from gozero.limits import (
    KATAGO_MAX_SIZE,
    KATAGO_SUFFIXES,
    MAX_VISITS,
    MOST_VISITS,
    AmafPlays,
    Dtype,
    FinalMove,
)
from gozero.runs import settings
from gozero.runs.settings import Conflict, flag_of, setting

LONG_NODES = 2 * MAX_VISITS + 1
"""Nodes of a tree with more than `MAX_VISITS` simulations, unless --nodes is given or the tree
cannot be pruned."""

CONSIDERED = 16
"""The most moves that a Gumbel root considers, if a player does not say."""

MAX_SCHEDULE = 2**27
"""The most entries of the table by which a Gumbel root shares its simulations among moves, one for
each simulation and each number of moves: 512 MiB."""

MIN_TREES = 8
"""The fewest trees for a device, as many as the fewest games in `play.devices`; not measured."""

EvaluatorName = Literal["network", "playout"]
TreeName = Literal["puct", "katago", "uct", "rave", "gumbel", "gaussian", "boltzmann"]
RuleName = Literal[TreeName, "td", "annealing", "random"]
TREELESS = ("td", "annealing", "random")
PolicyName = Literal["uniform", "mogo", "mm", "balanced", "mm-atari", "balanced-atari"]
PriorsName = Literal["mm", "balanced", "katago"]
POLICIES = {"uniform": "uniform", "mogo": "mogo.playouts"}
"""Playout policies by name: the module of `gozero.playouts.policies` that defines
``policy(layout)``."""

HeuristicName = Literal["even", "grandfather", "mogo", "shape"]
MeanName = Literal["even", "amaf", "mixture"]
BonusName = Literal["finite", "plain"]
SymmetryMode = Literal["one", "random", "all"]
BackupName = Literal["mean", "max", "mix"]
OnOff = Literal["on", "off"]

DEFAULT_SIZE = 9
"""Points on a side, if nothing else determines the size."""

AMAF_VISITS = 50
"""The default M of a heuristic with rave: the best in the paper."""

SHAPE_SIZES = (7, 9)
"""Board sizes whose local shapes come with the package; repeated here so that checking it needs
no JAX."""

LEARNT_POLICIES = ("mm", "balanced", "mm-atari", "balanced-atari")
"""Playout policies by learnt strengths of move features."""

FILES = ("weights", "strengths", "prior_strengths", "shapes")
"""Flags that name learnt files; evaluators record the SHA-256 of each, as weights_sha256."""

_NOT_OF_TD = (
    "evaluator playouts strengths nakade diversity weights symmetries dtype leaves trees "
    "considered exploration ucb_tuned rave_bias rave_k rave_per_action first_play heuristic "
    "heuristic_visits heuristic_amaf_visits heuristic_good_visits heuristic_eyes playout_moves "
    "first_action rave_mean rave_initial rave_bonus rave_colours rave_ancestor rave_above "
    "rave_legal expert_bonus expert_visits final_move backup prove nodes expand_after priors "
    "prior_strengths temperature widening pruning score_utility"
)
_NO_INITIAL = "then an unvisited action has its all-moves-as-first value alone"
_BY_VISITS = "they need the counts of true visits only"
_OF_RAVE = (
    "rave_bias rave_k rave_per_action rave_mean rave_initial rave_bonus rave_colours "
    "rave_ancestor rave_above rave_legal expert_bonus expert_visits"
)


@dataclasses.dataclass(frozen=True)
class PlayerConfig:
    """The settings of a search player, which `setups.make_player` makes. `check` validates them."""

    evaluator: EvaluatorName = setting("playout", group="evaluation")
    """What evaluates positions: a network or playouts."""

    weights: pathlib.Path | None = setting(None, unset="random weights")
    """The network's weights: for one board size, or KataGo's for all."""

    symmetries: SymmetryMode | None = setting(
        None, unset="random with a KataGo network, else one", effective="effective_symmetries"
    )
    """The symmetries in which a network evaluates a position: as it stands (one), one of the eight
    drawn at random (random), or all eight, whose evaluations are averaged (all)."""

    dtype: Dtype | None = setting(None, unset="that of the weights, float32 for a KataGo network")
    """The type in which the network's trunk computes. bfloat16 rounds to 8 bits: faster on
    accelerators, and on CPUs that multiply it."""

    playouts: PolicyName | None = setting(
        None, unset="mogo with --search rave, else uniform", effective="policy"
    )
    """The playout policy: uniform, MoGo's rules, or in proportion to the strengths of move
    features, learnt by minorisation-maximisation (mm) or by balancing (balanced): of 3x3 shapes
    and contiguity, with -atari also of captures, extensions and self-atari."""

    strengths: pathlib.Path | None = setting(None, unset="those that come with the package")
    """Strengths for playouts in proportion to them (mm, balanced, mm-atari, balanced-atari): a file
    from `python -m train.classical.mm` or `.balancing`."""

    priors: PriorsName | None = setting(None, unset="equal for all moves")
    """The priors of moves when playouts evaluate: in proportion to the strengths of move features,
    those of mm or balanced playouts or, with katago, those learnt from a KataGo network's games on
    13x13, which include a move's line and its distance from the last move."""

    prior_strengths: pathlib.Path | None = setting(None, unset="those that come with the package")
    """Strengths for these priors: a file from `python -m train.classical.mm` or `.balancing`."""

    nakade: bool = setting(False)
    """Whether MoGo's playouts play at the vital points of eye spaces."""

    diversity: int = setting(0, least=0, most=8)
    """How many random points MoGo's playouts try, to play one whose neighbourhood is empty."""

    playout_moves: int | None = setting(None, least=1, unset="3 per point of the board")
    """Moves after which a playout is cut and scored as it stands."""

    first_action: bool = setting(False)
    """Whether a playout's first move counts as a visit at the leaf, so that the visits of a node's
    moves sum to its own, as in the algorithms of Gelly & Silver (2011). Slower."""

    search: RuleName = setting("puct", group="search")
    """The search rule: puct; katago (PUCT with KataGo's exploration and choice of the move, with
    any network or playouts; for a KataGo network puct is the same); uct (UCB1); rave (MC-RAVE, for
    playouts); gumbel (sequential halving at the root, without Gumbel noise, planned for all
    --simulations: a search that ends sooner has rejected fewer moves); gaussian
    (visits in proportion to the probability that a move is best, as in Crazy Stone); boltzmann
    (visits in proportion to a softmax of the values, as in Indigo); td (temporal-difference search:
    no tree, but weights of local shapes learnt before each move); annealing (no tree, but playouts
    ordered by the moves' values, as in Gobble); or random (no search: any play that does not fill
    an own eye)."""

    simulations: int = setting(400, least=1, most=MOST_VISITS)
    """Simulations for each move, rounded up to a multiple of --leaves times --trees; with a time
    limit, at most this many. A tree has room for all of them, or for --nodes nodes. 0, only with
    --search td: no search, but the best move by the weights of local shapes alone (RLGO 1.0)."""

    nodes: int | None = setting(
        None,
        least=2,
        most=2**30,
        unset=f"room for all simulations; {LONG_NODES} if these are more than {MAX_VISITS} and the "
        "tree can be pruned (not with --search gumbel, --backup or --prove)",
    )
    """The capacity of a tree in nodes: a full tree drops its least visited half and continues."""

    expand_after: int = setting(1, least=1, most=MOST_VISITS, unit="visits")
    """The visits that a node, other than the root, needs before it gets its first child: until
    then it is evaluated again. With 1, every simulation adds a node."""

    leaves: int = setting(1, least=1, most="simulations")
    """Leaves evaluated together in one tree: many are faster but play a little worse; two,
    with playouts, take longer than one."""

    trees: int = setting(1, least=1, most="simulations")
    """Trees for a position, which share its simulations and exchange statistics near their roots
    (root parallelisation). `gozero gtp` divides them among devices, on a CPU its cores, if each
    gets as many, and eight or more; the random numbers then depend on the number of devices."""

    considered: int | None = setting(None, least=1, unset=f"{CONSIDERED}")
    """The most moves that gumbel's root considers. For a network of `python -m train`, give the
    --max-considered that it was trained with."""

    exploration: float | None = setting(
        None,
        least=0,
        below=10**6,
        unset="3 for puct with playouts, 1.5 for puct with a network, 1 for katago, 0.25 for uct, "
        "0 for rave",
    )
    """The weight of the rule's exploration bonus."""

    ucb_tuned: bool = setting(False)
    """Whether the bonus of uct is that of UCB1-TUNED, the rule of MoGo in 2006 (Gelly et al.),
    which explores moves that nearly always win or lose less."""

    temperature: float | None = setting(None, above=0, below=10**6, unset="0.1")
    """The temperature of boltzmann's softmax, for values as probabilities of winning."""

    widening: float | None = setting(None, above=0, below=10**9, unset="no widening")
    """Progressive widening: a node considers only the move with the highest prior until it has this
    many visits; each further move waits 1.4 times as long as the last (Coulom 2007, with 40)."""

    pruning: float | None = setting(None, above=0, below=10**6, unset="no pruning")
    """Progressive pruning: a move is no longer visited if its value plus this many standard
    deviations is less than another's minus as many (Bouzy & Helmstetter 2003)."""

    rave_bias: float | Literal["learnt"] | None = setting(None, least=0, most=1, unset="0.01")
    """The assumed bias of all-moves-as-first values, in the minimum mean squared error schedule;
    learnt: measured by short searches on the same board before the first move."""

    rave_k: float | None = setting(None, above=0, below=10**9)
    """The hand-selected schedule sqrt(k / (3 N + k)), which is one half after k simulations at a
    node."""

    rave_per_action: bool = setting(False)
    """Whether that schedule counts the simulations through an action instead of those at its
    node."""

    rave_mean: MeanName = setting("even")
    """The mean value that the minimum mean squared error schedule assumes: one half (even, Eq. 47),
    the all-moves-as-first value (amaf), or the mixture of both values (mixture, Eq. 46)."""

    rave_initial: float | None = setting(
        None, least=0, below=10**6, unset="its all-moves-as-first value alone counts"
    )
    """The simulation value of an unvisited action in the mixture, as a probability of winning.
    Above 1, all actions are tried once all-moves-as-first values weigh little."""

    rave_bonus: BonusName = setting("finite")
    """The exploration bonus of rave: log N / (1 + N), or plain, log N / N, which tries every move
    first."""

    rave_colours: AmafPlays = setting("either")
    """Which later plays of a player count as all-moves-as-first: those at points where it was
    the first of both players to play (either), or all (same)."""

    rave_ancestor: int | None = setting(None, least=1, unset="a node always uses its own")
    """Visits that a node needs before it uses its own all-moves-as-first values instead of an
    ancestor's."""

    rave_above: float | None = setting(None, least=0, most=1, unset="these values are not used")
    """The assumed bias of all-moves-as-first values two plies above a node, a third estimator of
    its moves beside the simulations and the node's own: each is weighted by the inverse of its mean
    squared error, as in Fuego."""

    rave_legal: bool = setting(False)
    """Whether a later play counts only where it would have been legal."""

    expert_bonus: float | None = setting(None, above=0, below=10**6, unset="no such bonus")
    """C of MoGo's expert bias with rave, C P / log(2 + N): P is a move's prior, and N its visits
    (after Chaslot et al. 2010)."""

    expert_visits: float | None = setting(None, above=0, below=10**6, unset="no such bonus")
    """w of a second expert bias, w P / (1 + N~), with N~ the all-moves-as-first visits."""

    final_move: FinalMove | None = setting(
        None,
        unset="with a KataGo network or --search katago and one tree KataGo's choice, else visits",
        effective="effective_final_move",
    )
    """Which move is played: the one with the most visits, the highest value, the highest lower
    confidence bound of its value (bound), or the highest score without the rule's bonus (eval).
    Values and bounds are those of results, without a score utility. KataGo's choice is a bound of
    its own, which includes the utility."""

    backup: BackupName = setting("mean")
    """A node's value: the mean of its simulations, the best of its children (max), or something
    between the two (mix; Coulom 2006, with a mean weight of twice the points of
    the board, in other games twice the actions)."""

    prove: bool = setting(False)
    """Whether results that the tree proves are exact: a move that wins by force is played, and one
    that loses is searched no further (MCTS-Solver, Winands et al. 2008)."""

    score_utility: OnOff | None = setting(
        None,
        unset="on with a KataGo network where the search allows it, else off",
        effective="effective_score_utility",
    )
    """Whether the search also maximises points: each value includes the utility of the score, as in
    KataGo. Reported values remain results. A network that is not KataGo's needs a score head
    (trained with --auxiliary)."""

    first_play: float | None = setting(
        None, least=0, below=10**6, unset="such an action is tried first"
    )
    """The value of an action without any statistics, as a probability of winning."""

    resign: float | None = setting(None, least=-1, below=0, unset="never")
    """Resign when the values of the position and its best move are both below this, from -1 (lost)
    to 0 (even): -0.95, say."""

    heuristic: HeuristicName | None = setting(None, group="heuristic", unset="none")
    """The initial values of a new node's moves: all even, the player's values two plies before
    (grandfather), MoGo's rules, or the values of local shapes (shape)."""

    shapes: pathlib.Path | None = setting(
        None, unset="those that come with the package, for 7x7 and 9x9"
    )
    """Values of local shapes: a file from `python -m train.classical.td` or `.imitation`, for one
    board size."""

    heuristic_visits: int = setting(
        0,
        "C: the weight of the heuristic's values, in simulations through a move. Together with "
        f"--simulations at most {MAX_VISITS}, unless --simulations exceeds that alone.",
        least=0,
        most="visits_left",
    )
    heuristic_amaf_visits: int | None = setting(
        None,
        "M: the weight of the heuristic's values, in all-moves-as-first simulations. Together with "
        f"--simulations and --heuristic-good-visits at most {MAX_VISITS}, unless --simulations "
        "exceeds that alone.",
        least=0,
        most="amaf_visits_left",
        unset=f"{AMAF_VISITS} with --search rave",
        effective="amaf_visits",
    )
    heuristic_good_visits: int = setting(0, least=0, most="visits_left")
    """How many extra won all-moves-as-first simulations the moves of MoGo's rules begin with."""

    heuristic_eyes: bool = setting(False)
    """Whether own eyes and the pass begin with the heuristic's values instead of as lost."""

    CONFLICTS = (
        Conflict("weights symmetries dtype", "!evaluator=network", "playouts use no network"),
        Conflict("score_utility=on", "!evaluator=network", "playouts return no score"),
        Conflict("score_utility=on", "!search=puct|katago", "the other rules ignore the score"),
        Conflict("trees backup heuristic", "score_utility=on", "it needs one tree of plain means"),
        Conflict("playouts", "!evaluator=playout", "a network runs no playouts"),
        Conflict(
            "strengths", "!playouts=" + "|".join(LEARNT_POLICIES), "other playouts use no strengths"
        ),
        Conflict("nakade diversity", "!playouts=mogo", "only MoGo's playouts have this option"),
        Conflict("trees", "search=gumbel", "its root counts the visits of a single tree"),
        Conflict("exploration heuristic", "search=gumbel", "it scores moves by its own rule"),
        Conflict("search=gumbel", "reuse", "it starts every search afresh; use --no-reuse"),
        Conflict("priors", "!evaluator=playout", "a network has its own priors"),
        Conflict(
            "priors",
            "search=uct|boltzmann",
            "they ignore priors, but for --widening",
            unless="widening",
        ),
        Conflict(
            "priors",
            "search=rave",
            "it ignores priors, but for --expert-bonus",
            unless="expert_bonus expert_visits",
        ),
        Conflict("prior_strengths", "!priors", "all moves have the same prior"),
        Conflict("exploration", "search=gaussian|boltzmann", "they have no exploration bonus"),
        Conflict("temperature", "!search=boltzmann", "other rules have no temperature"),
        Conflict("considered", "!search=gumbel", "the other rules consider every move"),
        Conflict(
            _NOT_OF_TD, "search=td|annealing|random", "they have neither a tree nor an evaluator"
        ),
        Conflict("simulations resign", "search=random", "it does not search"),
        Conflict("search=rave", "!evaluator=playout", "all-moves-as-first values need playouts"),
        Conflict("playout_moves first_action", "!evaluator=playout", "a network runs no playouts"),
        Conflict(_OF_RAVE, "!search=rave", "the other rules use no all-moves-as-first values"),
        Conflict("rave_k", "rave_bias", "give only one schedule"),
        Conflict("rave_mean", "rave_k", "it belongs to the schedule of --rave-bias"),
        Conflict("rave_per_action", "!rave_k", "the other schedule always counts them"),
        Conflict("rave_initial", "!rave_k", _NO_INITIAL),
        Conflict("rave_initial", "rave_per_action", _NO_INITIAL),
        Conflict(
            "rave_k rave_mean rave_initial exploration", "rave_above", "its mean has no such term"
        ),
        Conflict("trees", "rave_above", "an exchange changes the values above a node"),
        Conflict("rave_ancestor", "rave_above", "it uses the values above every node"),
        Conflict("rave_ancestor", "trees", "an exchange changes the values above a node"),
        Conflict("expert_bonus expert_visits", "!priors", "the bonus is weighted by these priors"),
        Conflict("rave_bonus", "!exploration", "without --exploration there is no bonus"),
        Conflict("rave_bonus", "exploration=0", "there is no bonus"),
        Conflict("final_move", "search=gumbel", "its root rule chooses the move"),
        Conflict("final_move=eval", "trees", "it uses the statistics of a single tree"),
        Conflict("nodes", "search=gumbel", "its root counts the visits of all moves"),
        Conflict(
            "widening pruning",
            "search=rave|gumbel",
            "rave cannot score a move by the others; gumbel's root chooses among all",
        ),
        Conflict("widening pruning search=gaussian|katago", "heuristic", _BY_VISITS),
        Conflict("widening pruning search=gaussian|katago", "first_action", _BY_VISITS),
        Conflict("pruning search=gaussian", "trees", "trees do not exchange sums of squares"),
        Conflict("trees backup", "nodes", "full trees of such searches cannot be pruned"),
        Conflict("backup", "search=gumbel|rave", "they use mean values"),
        Conflict("first_action", "search=gumbel", "its root counts its own simulations only"),
        Conflict("prove", "search=gumbel", "its root visits moves that are proven to lose"),
        Conflict("prove", "nodes", "nodes that prove another might be dropped"),
        Conflict("prove", "score_utility=on", "proven results have no score"),
        Conflict("leaves trees heuristic first_action", "backup", "they need mean values"),
        Conflict("heuristic_eyes", "heuristic=mogo", "MoGo's rules value them as lost, too"),
        Conflict("heuristic_eyes", "!heuristic=even|shape", "only these start them as lost"),
        Conflict("ucb_tuned", "!search=uct", "the other rules have other bonuses"),
        Conflict("first_play", "!search=uct|rave", "other rules use the parent's value"),
        Conflict("heuristic_visits heuristic_amaf_visits", "!heuristic", "they are its weights"),
        Conflict(
            "!heuristic_amaf_visits=0",
            "!search=rave",
            "the other rules use no all-moves-as-first values; use --heuristic-visits",
        ),
        Conflict(
            "heuristic_good_visits",
            "!heuristic=even|mogo|shape",
            "they add to the counts of such a heuristic",
        ),
        Conflict("heuristic_good_visits", "heuristic_amaf_visits=0", "they add to these"),
        Conflict("leaves trees", "heuristic=grandfather", "it needs one tree and one leaf a step"),
    )

    def check(self, prefix: str = "") -> None:
        """Refuse invalid or conflicting settings.

        Raises:
          ValueError: naming the flag, with `prefix`, its value and what is allowed.
        """
        checked = copy.copy(self)
        if self.search == "td" and self.simulations == 0:  # other searches need at least one
            object.__setattr__(checked, "simulations", 1)
        settings.check(checked, prefix)
        flag = lambda name: flag_of(name, prefix)
        narrow = self._narrow
        limit = MOST_VISITS if narrow is None else MAX_VISITS
        drop = ""
        if self.search == "gumbel":
            limit = MAX_SCHEDULE // (1 + (self.considered or CONSIDERED))
            drop = f" with {flag('search')} gumbel, whose schedule would be larger than 512 MiB"
        if self.search != "td" and self.num_simulations > limit:
            if narrow is not None:
                drop = f" with {flag(narrow)} {getattr(self, narrow)}; drop it to allow more"
            raise ValueError(
                f"{flag('simulations')} {self.num_simulations}, rounded up to whole steps of "
                f"leaves and trees: expected at most {limit}{drop}"
            )
        if self.shapes is not None and not self._has_shapes:
            raise ValueError(
                f"{flag('shapes')} {self.shapes}: used only with {flag('heuristic')} shape or "
                f"{flag('search')} td"
            )
        if self.heuristic is not None and self.confidences == (0, 0):
            raise ValueError(
                f"{flag('heuristic')} {self.heuristic}: has no effect with a weight of 0; set "
                f"{flag('heuristic_visits')}"
            )

    def check_size(self, size: int, prefix: str = "") -> None:
        """Refuse a board size without local shapes in the package, and one above 19 for a KataGo
        network; other files are checked when read.

        Raises:
          ValueError: as `check`.
        """
        if self.uses_katago_network and size > KATAGO_MAX_SIZE:
            raise ValueError(
                f"--{prefix}weights {self.weights}: KataGo's networks support boards up to "
                f"{KATAGO_MAX_SIZE}x{KATAGO_MAX_SIZE}, not {size}x{size}"
            )
        if self._has_shapes and self.shapes is None and size not in SHAPE_SIZES:
            sizes = " and ".join(f"{n}x{n}" for n in SHAPE_SIZES)
            flag = "search td" if self.search == "td" else "heuristic shape"
            raise ValueError(
                f"--{prefix}{flag}: the package has no local shapes for {size}x{size}, only for "
                f"{sizes}; name a file with --{prefix}shapes"
            )

    def check_other_game(self, prefix: str = "") -> None:
        """Refuse settings that apply only to Go, for a search in another game.

        Raises:
          ValueError: as `check`.
        """
        allowed = {
            "playouts": (None, "uniform"),
            "heuristic": (None, "grandfather"),
            "search": (*get_args(TreeName), "random"),
            "priors": (None,),
            "rave_colours": ("either",),
            "playout_moves": (None,),
            "first_action": (False,),
            "score_utility": (None, "off"),
        }
        if self.rave_bias == "learnt":
            raise ValueError(f"{prefix}rave_bias: learnt applies only to Go; give a number")
        for name, general in allowed.items():
            value = getattr(self, name)
            if value not in general:
                others = " or ".join(str(other) for other in general if other is not None)
                raise ValueError(
                    f"{prefix}{name}: {value} applies only to Go; other games have {others}"
                )

    @property
    def _narrow(self) -> str | None:
        """The field for which sums have one word; None if they have as many as they need."""
        if self.search in TREELESS:
            return "search"
        return "trees" if self.trees > 1 else None

    @property
    def can_prune(self) -> bool:
        """Whether a full tree can drop nodes; if not, it has room for all simulations."""
        return self.search != "gumbel" and self.backup == "mean" and not self.prove

    @property
    def _has_shapes(self) -> bool:
        return self.search == "td" or self.heuristic == "shape"

    @property
    def confidences(self) -> tuple[int, int]:
        """The heuristic's (C, M)."""
        return self.heuristic_visits, self.amaf_visits

    @property
    def amaf_visits(self) -> int:
        """The heuristic's M."""
        if self.heuristic_amaf_visits is not None:
            return self.heuristic_amaf_visits
        return AMAF_VISITS if self.heuristic is not None and self.search == "rave" else 0

    @property
    def capacity(self) -> int | None:
        """Nodes of a tree, which is pruned when full; None: as many as the search needs."""
        if self.nodes is None and self.can_prune and self.num_simulations > MAX_VISITS:
            return LONG_NODES
        return self.nodes

    @property
    def visits_left(self) -> int:
        """The most visits that a heuristic may add to the simulations."""
        return MAX_VISITS - (self.num_simulations if self.num_simulations <= MAX_VISITS else 0)

    @property
    def amaf_visits_left(self) -> int:
        """`visits_left` after the visits of good moves."""
        return self.visits_left - self.heuristic_good_visits

    @property
    def uses_katago_network(self) -> bool:
        """Whether the weights are a KataGo network, by the file's name."""
        return is_katago_network(self.weights)

    @property
    def needs_past_boards(self) -> bool:
        """Whether games keep past boards for the network (`Rules.remember`)."""
        return needs_past_boards(self.weights)

    @property
    def is_random(self) -> bool:
        """Whether the evaluator is a network of random weights."""
        return self.evaluator == "network" and self.weights is None

    @property
    def policy(self) -> PolicyName:
        """The playout policy in effect."""
        return self.playouts or ("mogo" if self.search == "rave" else "uniform")

    @property
    def effective_symmetries(self) -> SymmetryMode:
        """The symmetries in effect."""
        return self.symmetries or symmetries_for(self.weights)

    @property
    def effective_score_utility(self) -> OnOff:
        """Whether the search also maximises points."""
        if self.score_utility is not None:
            return self.score_utility
        by_means = self.trees == 1 and self.backup == "mean" and self.heuristic is None
        by_means = by_means and not self.prove
        can_use_scores = self.search in ("puct", "katago") and by_means
        return "on" if self.uses_katago_network and can_use_scores else "off"

    @property
    def effective_final_move(self) -> FinalMove:
        """The criterion of the final move in effect."""
        if self.final_move is not None:
            return self.final_move
        as_katago = self.uses_katago_network or self.search == "katago"
        return "bound" if as_katago and self.trees == 1 else "visits"

    @property
    def num_simulations(self) -> int:
        """Simulations rounded up to whole steps of all trees: 3,000 with 64 leaves are 3,008."""
        step = max(self.leaves * self.trees, 1)
        return -(-self.simulations // step) * step

    @property
    def text(self) -> str:
        """A short description for game records: ``mogo playouts rave 3000``."""
        if self.search == "td":
            return f"local shapes td {self.simulations}"
        if self.search == "random":
            return "random moves"
        if self.search == "annealing":
            return f"annealing {self.simulations}"
        evaluator = self.evaluator if self.evaluator == "network" else f"{self.policy} playouts"
        evaluator += " of all symmetries" if self.symmetries == "all" else ""
        evaluator += "" if self.dtype is None else f" in {self.dtype}"
        parts = [evaluator, self.search]
        parts += [] if self.heuristic is None else [f"{self.heuristic} heuristic"]
        parts += [] if self.score_utility is None else [f"score utility {self.score_utility}"]
        parts += [str(self.num_simulations)]
        parts += [f"leaves {self.leaves}"] if self.leaves > 1 else []
        parts += [f"trees {self.trees}"] if self.trees > 1 else []
        parts += [] if self.considered is None else [f"considered {self.considered}"]
        return " ".join(parts)


def symmetries_for(weights: pathlib.Path | None) -> SymmetryMode:
    """The symmetries in which a network evaluates by default."""
    return "random" if is_katago_network(weights) else "one"


def is_katago_network(weights: pathlib.Path | None) -> bool:
    """Whether weights are a KataGo network, by the file's name; here because it needs no JAX."""
    return weights is not None and str(weights).endswith(KATAGO_SUFFIXES)


@functools.lru_cache(maxsize=64)
def needs_past_boards(weights: pathlib.Path | None) -> bool:
    """Whether weights are a Go network that also sees past boards: a KataGo network, or one with
    any features other than the compact ones. Games for it keep past boards even under simple ko.

    Needs no JAX. False for a file that cannot be read: loading it reports what is wrong.
    """
    if weights is None or is_katago_network(weights):
        return weights is not None
    from gozero.runs import arrays

    with contextlib.suppress(ValueError):
        return arrays.describe(weights, "weights").get("features", "compact") != "compact"
    return False


def board_size(
    requested: int | None, weights: pathlib.Path | None, shapes: pathlib.Path | None = None
) -> int:
    """The requested size, else that of the weights or shapes, else 9. Needs no JAX.
    (KataGo's networks fit every size.)

    Raises:
      ValueError: a file that is missing, damaged, or not for a Go board.
    """
    path, kind = (shapes, "local-shapes") if weights is None else (weights, "weights")
    if requested is not None or path is None or is_katago_network(weights):
        return DEFAULT_SIZE if requested is None else requested
    from gozero.runs import arrays  # imports NumPy, which would delay a GTP front end

    size = arrays.describe(path, kind).get("size")
    if not isinstance(size, int):
        raise ValueError(f"{kind} {path}: not for a Go board; its size is {size}")
    return size


def num_tree_devices(num_trees: int, available: int) -> int:
    """The number of devices among which trees are worth being divided: the most of those available
    that have equal numbers of `MIN_TREES` or more, else 1."""
    counts = range(1, min(available, num_trees // MIN_TREES) + 1)
    return max((n for n in counts if num_trees % n == 0), default=1)
