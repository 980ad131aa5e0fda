"""The jitted programs of a run: begin, play, add rows, learn. Each call runs on all its devices.

Self-play and the replay are divided: every device has lanes, games and a ring of its own, which
never leave it. The learner's state is the same on every device: each draws its part of a batch from
its own ring, and the gradient is the mean over all devices. One device is a special case of this.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import Mesh, NamedSharding

from gozero import struct
from gozero.nets import network
from gozero.play import resignation
from gozero.play.devices import AXIS, DIVIDED, EVERYWHERE, on_each, stack, unstack
from gozero.play.resignation import Rates
from train import buffer as buffers
from train import games, learner
from train.calibration import Calibration
from train.games import Events, Playing
from train.learner import TrainState
from train.plan import Plan


class RunState(struct.PyTreeNode):
    """Everything that a run resumes from."""

    learner: TrainState  # the same on every device
    playing: Playing  # [D, ...]: each device's own
    player: Any = None  # with a gate: the parameters for self-play; None: the learner's average

    @property
    def play_params(self) -> Any:
        """The parameters for self-play."""
        return self.learner.ema if self.player is None else self.player


class Tallies(NamedTuple):
    """Counts and sums over the moves of one call of self-play, over all devices."""

    moves: jax.Array  # i32[]: positions searched
    full: jax.Array  # i32[]: ... by a full search
    bad: jax.Array  # i32[]: ... by a search that saw a nan
    games: jax.Array  # i32[]: games that ended
    resigned: jax.Array  # i32[]
    truncated: jax.Array  # i32[]
    black_won: jax.Array  # i32[]
    drawn: jax.Array  # i32[]
    lengths: jax.Array  # i32[move limit + 1]: games by their number of plies
    by_komi: jax.Array  # i32[K, 3]: games, Black's wins and draws at each of `komi_values`
    surprise: jax.Array  # f32[]: KL(target || prior) in nats, summed over the full searches
    calibration: Calibration  # of the network's policy and value
    rows: jax.Array  # i32[]: rows in the replay
    window: jax.Array  # i32[]: ... that are learnt from
    added: jax.Array  # i32[]: rows added in all, at most about 2^31
    steps_due: jax.Array  # i32[]: learner steps that may be taken now: the least of all devices
    threshold: jax.Array  # f32[]: the standing below which players resign
    rates: Rates | None  # of resigning, in the games on record; None if players do not resign


def shardings(state: Any, mesh: Mesh) -> Any:
    """The sharding of each array of a `RunState`, as a tree of the same structure."""
    shard = lambda part, spec: jax.tree.map(lambda _: NamedSharding(mesh, spec), part)
    everywhere = shard((state.learner, state.player), EVERYWHERE)
    return RunState(everywhere[0], shard(state.playing, DIVIDED), everywhere[1])


def begin(plan: Plan, mesh: Mesh, params: Any = None) -> RunState:
    """The state before the first iteration, created on the devices where it stays.

    Args:
      plan, mesh: the run's.
      params: of the network, on the host; None: random ones.
    """
    args = () if params is None else (params,)
    return make_begin(plan, mesh, len(args))(*args)


@functools.lru_cache(maxsize=1)  # called twice at a start: for the shapes, and for the state
def make_begin(plan: Plan, mesh: Mesh, num_args: int):
    """`begin` for a plan and a mesh, jitted; `num_args` is 1 if it takes parameters, else 0."""
    everywhere, divided = cast(Any, (EVERYWHERE, DIVIDED))  # in place of the fields' arrays
    specs = RunState(everywhere, divided, None if plan.config.gate is None else everywhere)
    return on_each(mesh, functools.partial(_begin, plan), (EVERYWHERE,) * num_args, specs)


def _begin(plan: Plan, params: Any = None) -> RunState:
    seed = plan.config.seed
    if params is None:
        params = network.init(plan.learner.network, jax.random.key(seed))
    shard = lax.axis_index(AXIS)
    return RunState(
        learner=learner.start(plan.learner, params, jax.random.key(seed + 1)),
        playing=stack(games.start(plan.play, plan.buffer, seed, shard)),
        player=None if plan.config.gate is None else jax.tree.map(jnp.copy, params),
    )


def make_play(plan: Plan, mesh: Mesh, num_simulations: int):
    """``play(params, playing) -> (playing, tallies)``, jitted; `playing` is donated.

    With a teacher, `params` is the pair (the network's, the teacher's).
    """
    play = functools.partial(_play, plan, num_simulations)
    return on_each(mesh, play, (EVERYWHERE, DIVIDED), (DIVIDED, EVERYWHERE), donated=1)


def _play(plan: Plan, num_simulations: int, params: Any, playing: Playing):
    config, own, teacher = plan.config, unstack(playing), plan.teacher_evaluator
    if teacher is not None:
        params, teacher_params = params
        teacher = teacher._replace(params=teacher_params)
    settings = plan.play, plan.buffer, plan.evaluator, config.moves
    own, events = games.play_moves(*settings, params, own, num_simulations, teacher)
    own = games.recalibrated(own, AXIS)
    resign, rates = own.lanes.resignation, None
    threshold = jnp.float32(resignation.NEVER)
    if resign is not None:
        threshold = resign.threshold
        rates = lax.psum(resignation.rates(resign.records), AXIS)
    tallies = _tally(plan, own.buffer, events)._replace(threshold=threshold, rates=rates)
    return stack(own), tallies


def _tally(plan: Plan, buffer: buffers.Buffer, events: Events) -> Tallies:
    assert events.calibration is not None  # the events are those of a call
    ended = events.ended
    count = lambda what: jnp.sum(what, dtype=jnp.int32)
    per_device = plan.config.batch_size // plan.num_devices
    sums = Tallies(
        moves=jnp.int32(ended.size),
        full=count(events.full),
        bad=count(~events.ok),
        games=count(ended),
        resigned=count(ended & events.resigned),
        truncated=count(ended & _or_false(events.truncated)),
        black_won=count(ended & (events.outcome > 0)),
        drawn=count(ended & (events.outcome == 0)),
        lengths=_lengths(plan.play.game.max_moves, events),
        by_komi=_by_komi(plan, events),
        surprise=jnp.sum(jnp.where(events.full & events.ok, events.surprise, 0.0)),
        calibration=events.calibration,
        rows=buffer.size,
        window=buffers.num_live(plan.buffer, buffer),
        added=jnp.minimum(buffer.added, (2**31 - 1) // plan.num_devices),  # their sum is an i32
        steps_due=jnp.int32(0),
        threshold=jnp.float32(0),
        rates=None,
    )
    due = buffers.steps_due(plan.buffer, buffer, per_device)
    return lax.psum(sums, AXIS)._replace(steps_due=lax.pmin(due, AXIS))


def _or_false(what: jax.Array | None) -> jax.Array:
    return jnp.bool_(False) if what is None else what


def _lengths(limit: int, events: Events) -> jax.Array:
    plies = events.plies + jnp.where(events.resigned, 0, 1)
    place = jnp.where(events.ended, plies, limit + 1).reshape(-1)
    none = jnp.zeros(limit + 1, jnp.int32)
    return none.at[place].add(1, mode="drop")


def komi_values(plan: Plan) -> list[float]:
    """The distinct values of komi in use; empty for games without points."""
    return sorted(set(plan.config.komi))


def _by_komi(plan: Plan, events: Events) -> jax.Array:
    if not komi_values(plan):
        return jnp.zeros((0, 3), jnp.int32)
    what = jnp.stack([events.ended, events.outcome > 0, events.outcome == 0])

    def at(komi: float) -> jax.Array:
        is_one = events.ended & (events.komi == jnp.float32(komi))
        return jnp.sum(what & is_one[None], axis=(1, 2), dtype=jnp.int32)

    return jnp.stack([at(komi) for komi in komi_values(plan)])


def make_add(plan: Plan, mesh: Mesh):
    """``add(buffer, rows, frequency, keep) -> buffer``, jitted; the buffer is donated.

    The arguments, [D, n] each, are added to the rings of their devices: see `buffers.add`.
    """

    def add(*stacked):
        return stack(buffers.add(plan.buffer, *map(unstack, stacked)))

    return on_each(mesh, add, (DIVIDED,) * 4, DIVIDED, donated=0)


def make_learn(plan: Plan, mesh: Mesh, num_steps: int):
    """``learn(state, buffer, fraction_done) -> (state, owed, metrics)``, jitted; donates the state.

    It takes `num_steps` steps; the metrics are means over them. `owed` is the buffer's after them.
    The caller checks that the steps are due. `fraction_done`, f32[], is that of the iterations. The
    learning rate falls with it, not with the steps taken: how many of these the rows will allow,
    also those of workers, is not known.
    """
    learn = functools.partial(_learn, plan, num_steps)
    inputs = (EVERYWHERE, DIVIDED, EVERYWHERE)
    outputs = (EVERYWHERE, DIVIDED, EVERYWHERE)
    return on_each(mesh, learn, inputs, outputs, donated=0)


def _learn(
    plan: Plan,
    num_steps: int,
    state: TrainState,
    buffer: buffers.Buffer,
    fraction_done: jax.Array,
):
    own = unstack(buffer)
    per_device = plan.config.batch_size // plan.num_devices
    state, metrics = learner.take_steps(
        plan.rules,
        plan.learner,
        plan.buffer,
        per_device,
        num_steps,
        state,
        own,
        AXIS,
        fraction_done,
    )
    owed = buffers.pay(plan.buffer, own, per_device, jnp.int32(num_steps)).owed
    return state, stack(owed), metrics
