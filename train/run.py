"""``python -m train --preset NAME``: start or resume a run, iterate, save, evaluate."""

from __future__ import annotations

import contextlib
import enum
import functools
import math
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from typing import Any, NamedTuple, NoReturn

import jax
from jax.sharding import Mesh

from gozero.apps import flags, runtime
from gozero.compile import mode
from gozero.nets import weights
from gozero.play import devices
from gozero.runs import files
from gozero.runs import folder as folders
from train import (
    checkpoint,
    exchange,
    folder,
    hosts,
    initial,
    matches,
    memory,
    redistribute,
    steps,
    tensorboard,
)
from train.config import TrainConfig
from train.display import Cost, Display
from train.folder import TrainFolder
from train.loop import MOST_QUARANTINED, Loop, NotFinite
from train.mirror import Mirror
from train.plan import Plan, make_plan, teacher_of
from train.presets import preset_of
from train.steps import RunState

PROG = "python -m train"


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit status: 0, 1 if training stopped at a nan or a full disk, 2 for bad input,
    130 for Ctrl-C, 143 if SIGTERM ended it before its last iteration or the matches after it. After
    `--minutes` it is 0. In all these cases the same command resumes it."""
    config = parse(sys.argv[1:] if argv is None else argv)
    with flags.exit_on_error(PROG):
        on_cores = config.coordinator is None and runtime.cores_as_devices()
        hosts.join(config)
        writes = hosts.is_first()
        with folders.removed_if_empty(config.folder) if writes else contextlib.nullcontext():
            return run(config, on_cores and mode.backend() == "cpu")


def parse(argv: Sequence[str]) -> TrainConfig:
    """The config of a command line: a preset, and the flags that override it."""
    return flags.parse(TrainConfig, argv, prog=PROG, default=preset_of(argv, PROG))


def run(config: TrainConfig, on_cores: bool = False) -> int:
    """Start or resume a run; returns the exit status as `main` does.

    Args:
      config: the flags.
      on_cores: whether JAX's devices are the cores of one machine. The flags then describe one
        device, whose games and rows the cores share.

    Raises:
      ValueError: invalid settings, a folder of another run or of one that is being trained, or a
        checkpoint that cannot be read; the message says what was wrong and what to do.
    """
    hosts.run_on_each(lambda: hosts.check_flags(config))
    if config.tensorboard:
        hosts.run_on_each(tensorboard.check)
    mesh = _mesh(config, on_cores)
    if jax.process_count() > 1:
        _print(f"{mesh.size} devices in {jax.process_count()} processes")
    _print("compiling, about 60 s the first time")
    with contextlib.ExitStack() as session:
        mirror = session.enter_context(Mirror(config))
        config = hosts.run_on_each(functools.partial(folder.as_begun, config))
        plan = make_plan(config, mesh.size, initial_devices(config, 1 if on_cores else mesh.size))
        _check_machine(plan)
        params, sha256 = hosts.run_on_each(lambda: initial_params(plan))
        teacher = None if plan.teacher is None else teacher_of(plan.config).sha256
        files_read = {"the SHA-256 of --weights": sha256, "the SHA-256 of --teacher": teacher}
        hosts.run_on_each(lambda: hosts.check_same(files_read))
        facts = folders.manifest(config.seed)
        facts |= {"devices": mesh.size, "processes": jax.process_count()}
        start = lambda: session.enter_context(TrainFolder(config)).begin(facts, sha256, teacher)
        hosts.run_on_first(start)
        hosts.run_on_each(lambda: hosts.check_shared(config.folder / "config.json"))
        return _Session(plan, begin(plan, mesh, params), mirror).work()


def _mesh(config: TrainConfig, on_cores: bool) -> Mesh:
    """The devices of a run; on cores, the greatest number that divides games and batches and gives
    each core `devices.FEWEST` games and rows."""
    if not on_cores or config.devices is not None:
        return devices.mesh_of(config.devices)
    most = min(config.batch, config.batch_size) // devices.FEWEST
    most = max(1, min(most, len(jax.local_devices())))
    common = math.gcd(config.batch, config.batch_size)
    return devices.mesh_of(max(k for k in range(1, most + 1) if common % k == 0))


def _check_machine(plan: Plan) -> None:
    """Print the memory that a plan needs, and refuse a plan that needs more than there is."""
    preset = plan.config.preset
    if preset.endswith("-gpu") and mode.backend() == "cpu":
        _print(f"--preset {preset} is for a GPU, but JAX has only a CPU: the run will be very slow")
    if plan.config.play_dtype == "int8" and mode.backend() != "tpu":
        _print("--play-dtype int8 is for a TPU: elsewhere float32 imitates it, which is no faster")
    requirements = hosts.run_on_each(lambda: memory.check(plan))
    _print(f"memory: {requirements}; {memory.checkpoint_text(plan)}")


def initial_devices(config: TrainConfig, num_devices: int) -> int:
    """The number of devices that a run began on, or `num_devices` if it begins now.

    Its checkpoints have --batch games in play for each of them.
    """
    for saved in checkpoint.saved_on_first_host(config.folder / "checkpoints"):
        with contextlib.suppress(ValueError):  # `begin` reports it
            games = math.prod(hosts.run_on_each(lambda saved=saved: checkpoint.lanes_of(saved)))
            return num_devices if games % config.batch else games // config.batch
    return num_devices


def _print(text: str) -> None:
    """Print on the first host."""
    if hosts.is_first():
        print(text, file=sys.stderr)


def initial_params(plan: Plan) -> tuple[dict, str] | tuple[None, None]:
    """The parameters of --weights that a run begins with; (None, None) for random ones or a resumed
    run.

    A network with fewer blocks or channels is grown, see `gozero.nets.growth`.

    Returns:
      (params, the SHA-256 of their file).

    Raises:
      ValueError: weights that cannot be read, or that are for another game or network shape.
    """
    path = plan.config.weights
    if path is None or checkpoint.saved_on_first_host(plan.config.folder / "checkpoints"):
        return None, None
    shape, params, about = weights.load_own(path)
    own = plan.learner.network
    if (shape.observation, shape.num_actions) != (own.observation, own.num_actions):
        raise ValueError(f"--weights {path}: the weights are of a network for another game")

    def complaint(differ: Sequence[str]) -> str:
        needed_flags = " ".join(_flag_text(name, getattr(shape, name)) for name in differ)
        return f"--weights {path}: the network has another shape; give {needed_flags}"

    params = initial.grown(path, shape, params, own, plan.config.seed, complaint)
    return jax.device_get(params), about["sha256"]


def _flag_text(name: str, value: object) -> str:
    flag = name.replace("_", "-")
    if isinstance(value, bool):
        return f"--{flag}" if value else f"--no-{flag}"
    return f"--{flag} {value}"


def begin(plan: Plan, mesh: Mesh, params: dict | None = None) -> Loop:
    """The run from its newest readable checkpoint, or, without checkpoints, from the beginning.

    Args:
      plan, mesh: the run's.
      params: the network's initial parameters; None for random ones.

    Raises:
      ValueError: there are checkpoints, but the run cannot be resumed from any of them.
    """
    saved = checkpoint.saved_on_first_host(plan.config.folder / "checkpoints")
    shapes = jax.eval_shape(lambda: steps.begin(plan, mesh))
    like = jax.tree.map(
        lambda x, where: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=where),
        shapes,
        steps.shardings(shapes, mesh),
    )
    errors = []
    for i, one in enumerate(saved):
        try:
            loop = _restored(plan, mesh, one, like)
        except ValueError as error:
            errors.append(error)
            print(f"{PROG}: {error}", file=sys.stderr)
            continue
        hosts.run_on_first(lambda i=i: checkpoint.set_aside(saved[:i]))
        _print(f"resuming after iteration {one.iteration}")
        return loop
    if errors:
        ways = folder.recovery_options(plan.config.folder)
        raise ValueError(f"no checkpoint can be resumed: {errors[0]}; {ways}")
    return Loop(plan, mesh, steps.begin(plan, mesh, params))


def _restored(plan: Plan, mesh: Mesh, saved: checkpoint.Checkpoint, like: RunState) -> Loop:
    """The run in the state that a checkpoint stores.

    Raises:
      ValueError: the checkpoint cannot be read, or its host state is not exactly what a run stores.
    """
    state, host_state = _state_of(plan, saved, like)
    try:
        loop = Loop(plan, mesh, state, host_state)
        if loop.host_state != host_state or loop.iteration != saved.iteration:
            raise ValueError("its keys or numbers are not those of a run")
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"checkpoint {saved.path}: about.json is damaged ({error})") from error
    return loop


def _state_of(plan: Plan, saved: checkpoint.Checkpoint, like: RunState) -> tuple[RunState, dict]:
    """(a checkpoint's state, converted to the current devices and dtype of policy targets; the
    host state stored with it)."""
    devices_before = hosts.run_on_each(lambda: checkpoint.lanes_of(saved)[0])
    dtype_before = hosts.run_on_each(lambda: checkpoint.policies_of(saved))
    if (devices_before, dtype_before) == (plan.num_devices, plan.buffer.policy_dtype):
        return checkpoint.restore(saved, like)
    on_host = hosts.run_on_each(lambda: checkpoint.unsharded_like(saved, like.playing, ".playing"))
    state, host_state = checkpoint.restore(saved, like.replace(playing=on_host))
    try:
        redistributed = redistribute.redistribute(state.playing, like.playing)
    except ValueError as error:
        raise ValueError(f"checkpoint {saved.path}: {error}") from error
    _print(
        f"devices: {plan.num_devices}, before {devices_before}; policy targets: "
        f"{plan.buffer.policy_dtype}, before {dtype_before}. The network, the "
        f"{plan.num_devices * plan.config.batch} games in play and the "
        f"{redistributed.buffer.size.sum()} rows of the replay are the same. Random draws and the "
        "order of sums differ from now on, so the run is not bit for bit what it would have been"
    )
    return state.replace(playing=redistribute.place(redistributed, like.playing)), host_state


class End(enum.IntEnum):
    """Why a run stops; with several hosts, the greatest value applies to all."""

    NOT_YET = 0
    DONE = 1
    REQUESTED = 2  # --minutes are over
    TERMINATED = 3  # by SIGTERM
    INTERRUPTED = 4  # by Ctrl-C


def _display(plan: Plan) -> Display:
    config = plan.config
    earlier_lines = folder.read_lines(config.folder / folder.METRICS)
    to_go = {"evaluation_s": matches.num_due, "gate_s": matches.num_gates_due}
    counts = {name: functools.partial(count, config) for name, count in to_go.items()}
    cost = Cost(plan.simulations_to_go, counts)
    return Display(f"train {config.preset}", config.iterations, earlier_lines, cost)


class _Saving(NamedTuple):
    """A checkpoint that is being written."""

    iteration: int
    steps: int
    params: Any  # those that self-play uses at that iteration, on the host
    written: futures.Future[checkpoint.Checkpoint]


class _Session:
    """A run from the start of the program to its end."""

    def __init__(self, plan: Plan, loop: Loop, mirror: Mirror | None = None):
        self.plan, self.loop, self.mirror = plan, loop, mirror or Mirror(plan.config)
        self.config = plan.config
        self.metrics = plan.config.folder / folder.METRICS
        self.saved_at, self.steps_saved = loop.iteration, loop.steps
        self.saving: _Saving | None = None
        self.command = [PROG, *sys.argv[1:]]
        self.published = self.recorded = -math.inf

    def work(self) -> int:
        minutes = math.inf if self.config.minutes is None else self.config.minutes
        deadline = time.monotonic() + 60 * minutes
        hosts.run_on_first(self._tidy)
        with runtime.StopRequest() as stop, self._waiting_for_checkpoint():
            self.loop.stop = lambda: stop.requested
            self._play_missed_gate()
            self._play_missed_evaluation(stop)
            end = self._iterate(stop, deadline)
            stop.requested = False  # so that one more signal does not interrupt the save
            self.save()
            self.settle()
        is_done = self._is_done()
        if hosts.is_first():
            runtime.print_result(self._summary(is_done))
        if end != End.INTERRUPTED and is_done:
            return 0
        return {End.INTERRUPTED: runtime.STOPPED, End.TERMINATED: runtime.TERMINATED}.get(end, 0)

    @contextlib.contextmanager
    def _waiting_for_checkpoint(self) -> Iterator[None]:
        """On exit, wait for a checkpoint in progress, whatever ended the run."""
        try:
            yield
        finally:
            if self.saving is not None:
                futures.wait([self.saving.written])

    def _iterate(self, stop: runtime.StopRequest, deadline: float) -> End:
        """Iterate until there is a reason to end; once a stop is requested, skip what can be done
        later."""
        should_stop = lambda: hosts.greatest(self._end(stop, deadline)) >= End.REQUESTED
        continues = lambda: not self._is_due() and not hosts.greatest(self._end(stop, deadline))
        display = _display(self.plan)
        if hosts.is_first():
            self.loop.phase = display.phase
        with contextlib.ExitStack() as stack:
            show = self._displayer(display, stack)
            while not (end := hosts.greatest(self._end(stop, deadline))) or self.loop.is_ahead:
                try:
                    numbers = self.loop.iterate(continues)
                except NotFinite as error:
                    self._set_aside_bad_checkpoint()
                    self._fail(error)
                # In one call: between hosts, each waits for the devices.
                self._run_on_first(lambda line=numbers: self._record(line, show))
                self._stop_if_too_many_quarantined()
                self.loop.phase("saving and evaluating")
                numbers = numbers | self._save_and_evaluate(should_stop, stop)
                if matches.due(self.config, self.loop.iteration):
                    self._run_on_first(lambda line=numbers: show(line))
                self.settle(wait=False)
        return End(end)

    def _is_due(self) -> bool:
        """Whether a checkpoint, which reads the state, or an evaluation is due."""
        config, iteration = self.config, self.loop.iteration
        return matches.due(config, iteration) or iteration % config.checkpoint_every == 0

    def _displayer(self, display: Display, stack: contextlib.ExitStack) -> Callable[[dict], None]:
        """A function that displays a line of the metrics on the first host. It may be called again
        with the same line and additional values."""
        if not hosts.is_first():
            return lambda line: None
        stack.enter_context(display)
        if not self.config.tensorboard:
            return display.add
        directory = self.config.folder / tensorboard.FOLDER
        try:
            before = folder.read_lines(self.metrics)
            events = stack.enter_context(tensorboard.EventWriter(directory, before))
        except OSError as error:
            self._fail(error)

        def add(line: dict) -> None:
            display.add(line)
            events.add(line)

        return add

    def _save_and_evaluate(
        self, should_stop: Callable[[], bool], stop: runtime.StopRequest
    ) -> dict:
        """Save and evaluate if due after an iteration; save first, because matches take long.

        Returns:
          The values that an evaluation adds to the iteration's metrics.
        """
        if not self._is_due() or should_stop():
            return {}
        self.save()
        if not matches.due(self.config, self.loop.iteration):
            return {}
        self.settle()
        return {} if should_stop() else self.evaluate(stop)

    def _tidy(self) -> None:
        """Bring the folder to the iteration of the loop: remove later lines, and write the weights
        of the checkpoint if a kill or a full disk prevented that. A new run writes its first
        network: workers play with it, and matches are played against it."""
        config, iteration = self.config, self.loop.iteration
        checkpoint.sweep(config.folder / "checkpoints")
        config.shared.sweep()
        for name in (folder.METRICS, folder.MATCHES):
            folder.cut_lines(config.folder / name, iteration)
        self.mirror.forget(folder.set_later_weights_aside(config.folder, iteration))
        params = self._params()
        # With a gate's match due, which of two networks plays is not known yet.
        if not self.loop.gate_due and not folder.has_weights(config.folder, iteration, params):
            self._write_weights(params, iteration)
        self.mirror.drop_after(iteration)
        if not self.loop.gate_due:
            self._publish(iteration)

    def _play_missed_gate(self) -> None:
        """Play the gate's match that a stop prevented, and write the network that plays then."""
        if not self.loop.gate_due:
            return
        numbers, iteration = self.loop.play_missed_gate(), self.loop.iteration
        if self.loop.gate_due:
            return

        def record() -> None:
            if folder.last_line(self.metrics).get("iteration") == iteration:
                folder.add_to_last_line(self.metrics, numbers)
            self._write_weights(self._params(), iteration)
            self._publish(iteration)

        self._run_on_first(record)

    def _play_missed_evaluation(self, stop: runtime.StopRequest) -> None:
        """Play the evaluation that a stop or a kill prevented."""
        if hosts.greatest(hosts.is_first() and self._lacks_evaluation()):
            self.evaluate(stop)

    def _lacks_evaluation(self) -> bool:
        """Whether an evaluation was due after the last iteration and its metrics lack one."""
        last = folder.last_line(self.metrics)
        due = matches.due(self.config, self.loop.iteration)
        return due and last.get("iteration") == self.loop.iteration and "elo" not in last

    def _end(self, stop: runtime.StopRequest, deadline: float) -> End:
        """Why this host would end the run now; `NOT_YET` if it would not."""
        if stop.number == signal.SIGINT:
            return End.INTERRUPTED
        if stop.requested:
            return End.TERMINATED
        if time.monotonic() > deadline:
            return End.REQUESTED
        return End.DONE if self.loop.iteration >= self.config.iterations else End.NOT_YET

    def _run_on_first(self, work: Callable[[], object]) -> None:
        """Do some work on the first host; if it cannot write its files, the run ends."""
        try:
            hosts.run_on_first(work)
        except (OSError, ValueError) as error:
            self._fail(error)

    def save(self) -> None:
        """Start to write a checkpoint of this iteration, unless there is one. A thread writes it
        while the run continues; `settle` completes it."""
        self.settle()
        loop, place = self.loop, self.config.folder / "checkpoints"
        if self.saved_at == loop.iteration:
            return
        future = checkpoint.begin(place, loop.iteration, loop.state, loop.host_state)
        self.saving = _Saving(loop.iteration, loop.steps, self._params(), future)
        first = self.saved_at == 0  # else a kill could leave metrics without a checkpoint
        self.settle(wait=first or jax.process_count() > 1)

    def settle(self, wait: bool = True) -> None:
        """Once the checkpoint in progress is complete, write what depends on it: the weights for
        self-play, and the run's copy in a bucket.

        Args:
          wait: whether to wait for it; otherwise do nothing if it is not complete.
        """
        saving = self.saving
        if saving is None or not (wait or saving.written.done()):
            return
        self.saving = None
        try:
            saving.written.result()
        except (OSError, hosts.OtherHostFailed) as error:
            self._fail(error)
        self._run_on_first(lambda: self.mirror.commit(saving.iteration))
        self.saved_at, self.steps_saved = saving.iteration, saving.steps
        self._run_on_first(lambda: self._write_weights(saving.params, saving.iteration))
        self._run_on_first(lambda: self._publish(saving.iteration))

    def evaluate(self, stop: runtime.StopRequest) -> dict:
        """Play the matches of this iteration, which is saved; returns the values for its metrics.

        It returns {} if a stop was requested before the last match.
        """
        metrics = {}
        should_stop = lambda: stop.requested

        def measure() -> None:
            iteration, params = self.loop.iteration, self._params()
            metrics.update(matches.evaluate(self.plan, iteration, params, should_stop))
            if metrics:
                folder.add_to_last_line(self.metrics, metrics)
                self.mirror.push()

        self._run_on_first(measure)
        return metrics

    def _write_weights(self, params: Any, iteration: int) -> None:
        folder.write_weights(self.plan, params, iteration, self.command)

    def _publish(self, iteration: int) -> None:
        """Copy what has changed to the bucket, and publish the newest weights to workers."""
        self.mirror.push()
        if self.config.workers and time.monotonic() - self.published >= exchange.EVERY_S:
            newest = self.config.folder / folder.NEWEST
            exchange.publish(self.config.shared, newest, iteration)
            self.published = time.monotonic()

    def _record(self, line: dict, show: Callable[[dict], None]) -> None:
        """Write and display an iteration's metrics, before matches, which take long; and show
        workers that the run is alive, also long before the next checkpoint."""
        files.add_line(self.metrics, line)
        show(line)
        if self.config.workers and time.monotonic() - self.recorded >= exchange.ALIVE_S:
            exchange.record_iterations(self.config.shared, self.loop.iteration)
            self.recorded = time.monotonic()

    def _params(self) -> dict:
        """The parameters for self-play, on the host."""
        return jax.device_get(self.loop.state.play_params)

    def _set_aside_bad_checkpoint(self) -> None:
        """Set the newest checkpoint aside if no good step has been taken since: its own parameters
        gave the loss that is not finite, and would again. The run resumes from the previous one."""
        self.settle()
        if int(self.loop.state.learner.step) > self.steps_saved:
            return
        saved = checkpoint.saved_on_first_host(self.config.folder / "checkpoints")
        self.saved_at = saved[1].iteration if saved[1:] else 0
        hosts.run_on_first(lambda: self._set_aside(saved[:1]))

    def _set_aside(self, saved: list[checkpoint.Checkpoint]) -> None:
        checkpoint.set_aside(saved)
        self.mirror.drop_after(self.saved_at)

    def _stop_if_too_many_quarantined(self) -> None:
        """Stop at MOST_QUARANTINED sources. The replay is saved without their rows, so the run can
        be resumed from here."""
        names = self.loop.quarantined
        if len(names) >= MOST_QUARANTINED:
            self.save()
            self.settle()
            self._fail(
                ValueError(
                    f"updates from the rows of {', '.join(names)} were not finite; find out who "
                    "wrote them, and run the same command again to continue without them"
                )
            )

    def _fail(self, error: Exception) -> NoReturn:
        remaining = f"the checkpoint of iteration {self.saved_at} is kept, if there is one"
        if isinstance(error, OSError):
            remaining += "; run the same command again once the disk can be written"
        flags.fail(PROG, f"{error}; {remaining}", status=1)

    def _is_done(self) -> bool:
        """Whether nothing is left to do: no iteration, and no match after the last one."""
        lacks = hosts.greatest(hosts.is_first() and self._lacks_evaluation())
        return self.loop.iteration >= self.config.iterations and not (lacks or self.loop.gate_due)

    def _summary(self, is_done: bool) -> str:
        loop, config = self.loop, self.config
        stopped = "" if is_done else "; run the same command again to continue"
        return (
            f"{loop.iteration} of {config.iterations} iterations, {loop.games:,} games, "
            f"{loop.steps:,} steps in {loop.seconds:.0f} s; weights in "
            f"{config.shared.name}/{folder.NEWEST}{stopped}"
        )
