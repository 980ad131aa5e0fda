"""A tiny training run under faults, in its own process; see `test_training.py`.

python -m tests.attack.training kills SCRATCH SEED COUNT    kills at random moments
python -m tests.attack.training full SCRATCH     a disk full from the n-th write on, or only at it
python -m tests.attack.training full SCRATCH once 42    only at the n-th write, from n = 42
python -m tests.attack.training power SCRATCH    a power cut at each fsync
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import pathlib
import random
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from gozero.apps import flags
from gozero.nets import weights
from gozero.play import devices
from gozero.runs import folder as folders
from tests.attack.disk import NEVER, Disk, Faults, lay_out
from tests.train import tiny
from train import checkpoint, folder, run, steps
from train.config import TrainConfig
from train.loop import Loop
from train.plan import make_plan

ITERATIONS = 12  # of the run that is killed
SHORT = 3  # of the others: the second checkpoint is written during the third iteration


def config_of(out: pathlib.Path, iterations: int) -> TrainConfig:
    """The run's config: a checkpoint after every iteration, or every second one if it is killed."""
    every = 2 if iterations == ITERATIONS else 1  # in between, games are played ahead
    return tiny.config(out, iterations=iterations, checkpoint_every=every)


def digest_of(loop: Loop) -> str:
    """SHA-256 of the state that a run resumes from: parameters, optimizer, games, replay, keys."""
    found = hashlib.sha256()
    for path, leaf in jax.tree_util.tree_leaves_with_path(loop.state):
        is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        plain = np.asarray(jax.random.key_data(leaf) if is_key else leaf)
        found.update(f"{jax.tree_util.keystr(path)} {plain.dtype} {plain.shape}\n".encode())
        found.update(plain.tobytes())
    progress = {name: value for name, value in loop.progress.items() if name != "seconds"}
    found.update(json.dumps(progress).encode())
    return found.hexdigest()


def unbroken(iterations: int) -> tuple[list[str], list[dict]]:
    """(digests after iterations 0, 1, ...; metrics of each iteration) of an uninterrupted run."""
    mesh = devices.mesh_of(1)
    plan = make_plan(config_of(pathlib.Path("nowhere"), iterations))
    loop = Loop(plan, mesh, steps.begin(plan, mesh))
    digests, lines = [digest_of(loop)], []
    for _ in range(iterations):
        lines.append(tiny.untimed(loop.iterate()))
        digests.append(digest_of(loop))
    return digests, lines


def digest_in(out: pathlib.Path, iterations: int) -> tuple[int, str]:
    """(iterations done, digest) of the newest checkpoint of a run."""
    loop = run.begin(make_plan(config_of(out, iterations)), devices.mesh_of(1))
    return loop.iteration, digest_of(loop)


def check_done(out: pathlib.Path, digests: list[str], lines: list[dict]) -> None:
    """A finished run equals the uninterrupted one, bit for bit, and its folder is complete."""
    iterations = len(lines)
    assert [tiny.untimed(line) for line in folder.read_lines(out / folder.METRICS)] == lines
    assert digest_in(out, iterations) == (iterations, digests[-1])
    newest, numbered = out / folder.NEWEST, folder.weights_file(out, f"{iterations:06d}")
    first, second = (weights.load(path)[2]["digest"] for path in (newest, numbered))
    assert first == second
    left = [path.name for path in out.rglob("*") if path.name.endswith((".part", ".damaged"))]
    assert not left, left


@contextlib.contextmanager
def of_one_plan() -> Iterator[None]:
    """The runs of a process share their compiled programs, and do not call git."""
    init, begin, commit, found = Loop.__init__, steps.begin, folders.commit, {}

    def begun(plan, mesh, params=None):
        if "begin" not in found:
            made = jax.jit(functools.partial(begin, plan, mesh))
            found["begin"] = made.lower().compile()
        return found["begin"]()

    def sharing(loop, *rest):
        init(loop, *rest)
        loop._compiled = found

    Loop.__init__, steps.begin, folders.commit = sharing, begun, dict
    try:
        yield
    finally:
        Loop.__init__, steps.begin, folders.commit = init, begin, commit


def train(out: pathlib.Path, iterations: int) -> tuple[int, str]:
    """(the exit status, stderr) of the command, run in this process."""
    with tempfile.TemporaryFile() as file:
        sys.stderr.flush()
        kept = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            with flags.exit_on_error(run.PROG):
                status = run.run(config_of(out, iterations))
        except SystemExit as stop:
            status = int(str(stop.code))
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)
        file.seek(0)
        return status, file.read().decode()


KINDS = {"full": lambda n: NEVER, "once": lambda n: n}
"""The last write that finds the disk full, if the n-th is the first."""
TRIES = 5
"""Runs that end before their n-th write, until no run is taken to have that many."""


def full(scratch: pathlib.Path, *only: str) -> dict:
    """The disk is full from the n-th write on, and at the n-th alone, for all n; then there is room
    again, and the same command resumes."""
    faults, (digests, lines), out = Faults(), unbroken(SHORT), scratch / "run"
    faults.arm(NEVER)
    assert train(out, SHORT)[0] == 0
    counts = {"writes": faults.count}
    check_done(out, digests, lines)
    kinds, first = ([only[0]], int(only[1])) if only else (list(KINDS), 1)
    for kind in kinds:
        n, tries = first, TRIES
        while tries:  # the number of writes differs a little between runs
            shutil.rmtree(out)
            faults.arm(n, KINDS[kind](n))
            status, output = train(out, SHORT)
            hit = faults.count >= n
            faults.arm(NEVER)
            check_output(status, output, (kind, n))
            assert hit or status == 0, (kind, n)
            again = train(out, SHORT)
            assert again[0] == 0, (kind, n, output, again)
            check_done(out, digests, lines)
            n, tries = (n + 1, TRIES) if hit else (n, tries - 1)
            counts[kind] = n - 1
            print(counts, file=sys.stderr, flush=True)
    return counts


def check_output(status: int, output: str, where: tuple[str, int]) -> None:
    """A full disk gives at most one line, which is the last one if the run failed; no traceback."""
    disk_errors = [line for line in output.splitlines() if "No space left" in line]
    assert "Traceback" not in output, (where, output)
    assert len(disk_errors) <= 1, (where, output)
    assert status == 0 or (status in (1, 2) and output.splitlines()[-1] in disk_errors), (
        where,
        output,
    )


def power(scratch: pathlib.Path) -> dict:
    """The power fails at each fsync; the same command then resumes, no earlier than from the newest
    checkpoint that was reported as saved."""
    faults, (digests, lines), place = Faults(), unbroken(SHORT), scratch / "disk"
    place.mkdir()
    promised, save = [0], checkpoint.save

    def saves(where, iteration, *rest):
        saved = save(where, iteration, *rest)
        promised[0] = iteration
        return saved

    checkpoint.save = saves
    disk = Disk(place, lambda: promised[0])
    faults.on_sync(disk.sync)
    assert train(place / "run", SHORT)[0] == 0
    faults.on_sync(None)
    checkpoint.save = save
    check_left(place / "run", *disk.cut())
    check_images(disk, scratch / "after", digests, lines)
    return {"fsyncs": disk.count, "images": len(disk.images)}


def check_images(disk: Disk, place: pathlib.Path, digests: list[str], lines: list[dict]) -> None:
    for image, promised in disk.images.values():
        lay_out(image, place)
        status, output = train(place / "run", SHORT)
        went_on = output.partition("resuming after iteration ")[2].split()
        assert status == 0, (promised, sorted(image), output)
        assert int((went_on or ["0"])[0]) >= promised, (promised, sorted(image), output)
        check_done(place / "run", digests, lines)
        shutil.rmtree(place)


def check_left(out: pathlib.Path, *images: dict[str, bytes | None]) -> None:
    """The files that a run reports at its end are on the disk and need no repair."""
    for name in ("metrics.jsonl", "weights.safetensors", f"weights/{SHORT:06d}.safetensors"):
        for image in images:
            assert image.get(f"run/{name}") == (out / name).read_bytes(), name


STARTED, TRAINED = 2.0, 2.0
"""Seconds within which a run is killed: after its start, and after its training has begun."""


def kills(scratch: pathlib.Path, seed: str, count: str) -> dict:
    """Kill `count` processes that train; each next one resumes, and a finished run starts over.

    They are forked from this process, which has imported everything but starts no JAX backend.
    """
    draw, out = random.Random(int(seed)), scratch / "run"
    digests, lines = in_child(lambda: unbroken(ITERATIONS))
    seen, ends, number = [], 0, 0
    while number < int(count):
        if train_and_kill(scratch, draw):
            in_child(lambda: check_done(out, digests, lines))
            shutil.rmtree(out)
            ends += 1
            continue
        number += 1
        if (out / "checkpoints").exists():
            iteration, digest = in_child(lambda: digest_in(out, ITERATIONS))
            assert digest == digests[iteration], (number, iteration)
            assert not [*out.rglob("*.damaged")]
            seen.append(iteration)
        print(f"{number} kills, {ends} ends, {seen}", file=sys.stderr, flush=True)
    return {"kills": number, "ends": ends, "seen": sorted(seen)}


def in_child(work: Callable[[], Any]) -> Any:
    """What `work` returns in a child process, by way of JSON."""
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.write(write, json.dumps(work()).encode())
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        text = pipe.read()
    assert os.waitpid(pid, 0)[1] == 0
    return json.loads(text)


def train_and_kill(scratch: pathlib.Path, draw: random.Random) -> bool:
    """Train and kill at a random moment; returns whether the run had finished before."""
    early, share = draw.random() < 0.2, draw.random()
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        train_in_child(scratch, write)
    os.close(write)
    if early:
        select.select([read], [], [], share * STARTED)
    else:
        os.read(read, 1)
        time.sleep(share * TRAINED)
    os.kill(pid, signal.SIGKILL)
    status = os.waitpid(pid, 0)[1]
    os.close(read)
    assert status in (0, signal.SIGKILL), (scratch / "said").read_text()
    return status == 0


def train_in_child(scratch: pathlib.Path, ready: int) -> NoReturn:
    """Run the command and end this process; tells the parent when the training begins."""
    log = os.open(scratch / "said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(log, stream)
    iterate, status = Loop.iterate, 1

    def iterates(loop, *how):
        numbers = iterate(loop, *how)
        os.write(ready, b".")
        return numbers

    Loop.iterate = iterates
    try:
        with of_one_plan(), flags.exit_on_error(run.PROG):
            status = run.run(config_of(scratch / "run", ITERATIONS))
    except BaseException:
        traceback.print_exc()
    os._exit(status)


def main(work: str, place: str, *only: str) -> int:
    """The exit status."""
    path = pathlib.Path(place)
    if work == "kills":
        print(json.dumps(kills(path, *only)))
        return 0
    with of_one_plan():
        print(json.dumps({"full": full, "power": power}[work](path, *only)))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
