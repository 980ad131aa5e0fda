"""The memory that a run needs on each device, part by part, before anything is allocated."""

from __future__ import annotations

import functools

import jax

from gozero.compile import mode
from gozero.go.rules import Rules
from gozero.nets import kinds
from gozero.nets.network import shapes
from gozero.play import selfplay
from gozero.play.player import as_game
from gozero.play.player_config import SymmetryMode
from gozero.play.rows import row_shapes
from gozero.play.selfplay_config import SelfPlayConfig
from gozero.runs import memory
from gozero.runs.memory import Part, num_bytes
from gozero.search.memory import search_memory
from train import games, matches
from train.buffer import BufferConfig
from train.plan import Plan, teacher_of

_KEPT_COPIES = 5
"""Copies of the parameters: the current ones, the last good ones, their average, two moments."""
_STATE_COPIES = _KEPT_COPIES + 3
"""These and, during a step, a gradient, an update and their sum."""
_WORKER_COPIES = 2
"""The current ones, and the newer ones that replace them."""


def parts_of(plan: Plan, only_plays: bool = False) -> list[Part]:
    """The memory that a run needs on each device, by part.

    Args:
      plan: of the run.
      only_plays: of a worker, which neither learns nor plays matches.
    """
    playing = _playing(plan.play, plan.buffer)
    in_play = num_bytes((playing.lanes.replace(tree=None), playing.games))
    copies = _STATE_COPIES + (plan.config.gate is not None)
    copies = _WORKER_COPIES if only_plays else copies
    params = num_bytes(shapes(plan.learner.network))
    step = Part("a step's activations", _of_step(plan), "--batch-size or --channels")
    return [
        *_of_teacher(plan),
        *([] if only_plays else _of_matches(plan)),
        Part("trees", selfplay.memory(plan.play).total, "--batch or --simulations"),
        Part("replay", num_bytes(playing.buffer), "--capacity"),
        Part("games in play", in_play, "--batch"),
        *([] if only_plays else _of_checkpoint(plan)),
        Part("parameters", copies * params, "--channels or --blocks"),
        *([] if only_plays else [step]),
        Part("a search's activations", _of_search(plan), _search_flags(plan)),
    ]


@functools.lru_cache(maxsize=8)
def _playing(play: SelfPlayConfig, buffer: BufferConfig) -> games.Playing:
    """The shapes of the games in play and of the replay, on one device."""
    return jax.eval_shape(lambda: games.start(play, buffer, 0))


def check(plan: Plan, limit: int | None = None, only_plays: bool = False) -> str:
    """`memory.check` of a run; without a limit, against the memory that a device reports.

    Args:
      plan, only_plays: as for `parts_of`.
      limit: bytes of a device.
    """
    limit = memory.of_device(plan.num_devices) if limit is None else limit
    return f"{memory.check(parts_of(plan, only_plays), limit)}; {_row_text(plan)}"


def checkpoint_text(plan: Plan) -> str:
    """A description of the host memory that a checkpoint needs while it is written."""
    mib = _checkpoint_bytes(plan) / 2**20
    return f"{mib:,.1f} MiB of host memory while a checkpoint is written"


def _checkpoint_bytes(plan: Plan) -> int:
    """The bytes of the whole state, of all devices."""
    playing = _playing(plan.play, plan.buffer)
    params = num_bytes(shapes(plan.learner.network))
    copies = _KEPT_COPIES + (plan.config.gate is not None)
    return plan.num_devices * num_bytes(playing) + copies * params


def _of_checkpoint(plan: Plan) -> list[Part]:
    """The copy of the state that `checkpoint.begin` makes in the host's memory, on a CPU each
    device's share of it: their memory is the host's."""
    if mode.backend() != "cpu" or jax.process_count() > 1:
        return []
    share = -(-_checkpoint_bytes(plan) // plan.num_devices)
    return [Part("a checkpoint's copy", share, "--capacity")]


def _row_text(plan: Plan) -> str:
    """A description of the size of a position in the replay."""
    row = row_shapes(plan.play.game, plan.buffer.policy_dtype, plan.buffer.past_boards)
    past = num_bytes(row.past) if plan.buffer.past_boards else 0
    boards = f", {past} of them for earlier boards" if past else ""
    return f"a row of the replay is {num_bytes(row)} bytes{boards}"


def _of_step(plan: Plan) -> int:
    """Activations: each convolution's input and output, stored for the backward pass."""
    config = plan.config
    per_point = 4 * (2 + 4 * config.blocks) * config.channels
    per_point += 4 * plan.learner.network.num_planes
    return config.batch_size // plan.num_devices * num_points(plan) * per_point


def _of_search(plan: Plan) -> int:
    """Activations of the largest evaluation: the leaves of a step, of all trees."""
    config = plan.config
    num_leaves = config.batch * config.leaves
    return _of_evaluation(plan, plan.learner.network, num_leaves, config.symmetries)


def _search_flags(plan: Plan) -> str:
    leaves = ", --leaves" if plan.config.leaves > 1 else ""
    symmetries = ", --symmetries" if plan.config.symmetries == "all" else ""
    return f"--batch{leaves}{symmetries} or --channels"


def _of_evaluation(
    plan: Plan, network: kinds.Config, num_positions: int, symmetries: SymmetryMode = "one"
) -> int:
    """Activations of as many positions, or of all their symmetric images."""
    if symmetries == "all" and plan.play.game.symmetries is not None:
        num_positions *= plan.play.game.symmetries.count
    return num_positions * kinds.activation_bytes(network, num_points(plan))


def _of_teacher(plan: Plan) -> list[Part]:
    """A teacher evaluates the roots of a move."""
    if plan.teacher is None:
        return []
    config = plan.config
    activations = _of_evaluation(plan, plan.teacher, config.batch, config.teacher_symmetries)
    symmetries = " or --teacher-symmetries" if config.teacher_symmetries == "all" else ""
    return [
        Part("the teacher", num_bytes(teacher_of(plan.config).params), "--teacher"),
        Part("the teacher's activations", activations, f"--batch{symmetries}"),
    ]


def _of_matches(plan: Plan) -> list[Part]:
    """The largest match that a run plays: its games, and for the half of them that is being
    searched the trees and an evaluation; with both networks."""
    config = plan.config
    games = {
        "--evaluate-games": config.evaluate_games if config.evaluate_every else 0,
        "--gate-games": 0 if config.gate is None else config.gate_games,
    }
    flag, num_games = max(games.items(), key=lambda one: one[1])
    if not num_games:
        return []
    game, network, half = as_game(plan.rules), plan.learner.network, num_games // 2
    search = matches.search_of(matches.Terms.of(config, plan.rules), network)
    start = lambda: jax.vmap(game.init)(jax.random.split(jax.random.key(0), half))
    states = jax.eval_shape(start)
    size = 2 * (num_bytes(states) + num_bytes(shapes(network)))
    size += search_memory(game, states, search).total + _of_evaluation(plan, network, half)
    return [Part("a match", size, f"{flag} or --evaluate-simulations")]


def num_points(plan: Plan) -> int:
    """The number of points on the board."""
    if isinstance(plan.rules, Rules):
        return plan.rules.num_points
    observation = plan.learner.network.observation
    assert observation is not None  # of a game other than Go
    rows, columns, _ = observation
    return rows * columns
