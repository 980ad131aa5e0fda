"""Workers: what they play and write, by which weights, under which numbers; and how they wait."""

import dataclasses
import errno
import json
import sys
import time
import types

import jax
import numpy as np
import pytest

from gozero.play import devices, selfplay, shards
from gozero.play.shards import Place
from gozero.runs import folder as folders
from gozero.runs.memory import num_bytes
from tests.train import scripted, worker_runs
from train import buffer as buffers
from train import command, folder, games, steps, worker
from train.learner import Metrics
from train.loop import Loop
from train.losses import Losses
from train.plan import make_plan
from train.worker import SelfPlay, Source, WorkerFlags, WorkerRecord

CALLS = 5


class Stop:
    """In place of `runtime.StopRequest`."""

    requested = False


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    """Of a run that is there, a folder and weights; its search is quick to compile."""
    config = worker_runs.config_in(tmp_path_factory.mktemp("runs") / "run")
    plan = make_plan(config)
    worker_runs.write_weights(plan, 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selfplay, "search_states", scripted.search_states)
        patch.setattr(scripted, "RULES", plan.rules)
        yield config


@pytest.fixture(scope="module")
def plan(config):
    return worker.plan_of(config)


@pytest.fixture(scope="module")
def source(plan):
    source = Source(plan)
    assert source.refresh()
    return source


@pytest.fixture(scope="module")
def loop(config):
    """Whose learner's steps are only counted: they are long to compile."""
    own, mesh = make_plan(config), devices.mesh_of(1)
    loop = Loop(own, mesh, steps.begin(own, mesh))
    seen = Metrics(Losses(*[np.zeros(())] * len(Losses._fields)), np.zeros(()), np.zeros(()))
    loop._compiled["learn"] = lambda learner, buffer: (learner, 0 * buffer.owed, seen)
    return loop


def one_life(config, plan, source, name):
    """A start of a worker, which a kill ends after some calls; its shards."""
    with WorkerRecord(config.folder, name) as own:
        first, player = own.next_shard, SelfPlay(plan, own.seeds)
        for _ in range(CALLS):
            rows, frequency = player.play(source.params, source.iteration)
            if len(frequency):
                own.write(shards.rules_of(plan.rules), source.iteration, rows, frequency)
        places = [Place(number, own.worker) for number in range(first, own.next_shard)]
        start = own.start
    (config.folder / "shards" / f"{own.worker}-{own.next_shard:06d}.npz.part").write_bytes(b"half")
    paths = [shards.path_of(config.folder, place) for place in places]
    read = [shards.read(path, shards.rules_of(plan.rules)) for path in paths]
    assert len(read) > 1
    assert [shard.about.start for shard in read] == [start] * len(read)
    return read


@pytest.fixture(scope="module")
def lives(config, plan, source):
    """{(worker, start): its shards}"""
    names = ("a", "b", "a", "b")
    return {
        (name, read[0].about.start): read
        for name, read in ((name, one_life(config, plan, source, name)) for name in names)
    }


def joined(read):
    """The rows of shards after each other."""
    rows = jax.tree.map(lambda *x: np.concatenate(x), *(shard.rows for shard in read))
    return rows, np.concatenate([shard.frequency for shard in read])


def test_shards_hold_what_a_runs_own_self_play_has_in_its_ring(
    lives, loop, plan, source, tmp_path, monkeypatch
):
    own_id = lives["a", 1][0].about.worker.removeprefix("a-")
    monkeypatch.setattr(worker, "_new_id", lambda: own_id)
    with WorkerRecord(tmp_path, "a") as own:
        seeds = own.seeds  # as at the first start in the other folder
    playing = games.start(plan.play, loop.plan.buffer, *seeds)
    playing = jax.tree.map(lambda x: x[None], playing)
    for _ in range(CALLS):
        playing, _ = loop._play(4)(source.params, playing)
    ring = jax.tree.map(lambda x: np.asarray(x[0]), playing.buffer)
    rows, frequency = joined(lives["a", 1])
    assert ring.size == len(frequency) > 50
    same = lambda x, y: np.testing.assert_array_equal(x[: ring.size], y, strict=True)
    jax.tree.map(same, ring.rows, rows)
    assert ring.frequency[: ring.size].tolist() == frequency.tolist()
    assert len(set(frequency.tolist())) > 1


def test_games_are_whole_and_in_one_shard(lives):
    for read in lives.values():
        seen = set()
        for shard in read:
            numbers, plies = shard.rows.game, shard.rows.position.ply
            assert shard.about.games == len(set(numbers.tolist()))
            assert not seen & set(numbers.tolist())
            seen |= set(numbers.tolist())
            for number in set(numbers.tolist()):
                of_game = plies[numbers == number].tolist()
                assert of_game == sorted(set(of_game))
            assert shard.about.iteration == 3


def test_no_life_plays_the_games_of_another(lives):
    assert sorted(lives) == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]
    whole = {rows.policy_target.tobytes()[:4000] for rows, _ in map(joined, lives.values())}
    assert len(whole) == 4


def test_a_run_learns_from_all_lives_and_reads_no_shard_twice(lives, loop, config, capsys):
    total = sum(len(joined(read)[1]) for read in lives.values())
    count = sum(len(read) for read in lives.values())
    first = loop.iterate()
    assert (first["shards_read"], first["shards_skipped"]) == (count, 0)
    assert first["shards_rows"] == total
    own = first["added"] - total
    assert 0 <= own < 8 * 18
    due = int(first["added"] * config.reuse / config.batch_size)
    assert first["steps"] == due - due % loop.steps_per_call > 0
    second = loop.iterate()
    assert (second["shards_read"], second["shards_rows"]) == (count, total)
    assert second["added"] < first["added"] + 8 * 18
    ring = jax.device_get(loop.state.playing.buffer.rows)
    expected = np.concatenate([joined(lives[life])[0].policy_target for life in lives])
    found = {row.tobytes() for row in ring.policy_target[0]}
    assert {row.tobytes() for row in expected} <= found
    done = json.loads(json.dumps(loop.progress))["workers"]["done"]
    for name in ("a", "b"):
        (worker,) = {shard.about.worker for start in (1, 2) for shard in lives[name, start]}
        assert done.pop(worker) == [[0, len(lives[name, 1]) + len(lives[name, 2]) - 1]]
    assert not done
    assert sorted(path.read_bytes() for path in (config.folder / "shards").glob("*.part")) == [
        b"half",
        b"half",
    ]
    assert capsys.readouterr().err == ""


def test_a_worker_goes_on_with_its_numbers(config, tmp_path):
    out = tmp_path / "run"
    run = worker_runs.config_in(out)
    with WorkerRecord(out, "a") as own:
        assert (own.start, own.next_shard) == (1, 0)
        first, worker = own.seeds, own.worker
    for name, number in ((worker, 4), (worker, 2), (f"{worker}-1", 9), ("a", 7)):
        worker_runs.write_shard(run, name, number, 3)
    for start in (2, 3):
        with WorkerRecord(out, "a") as own:
            assert (own.start, own.next_shard, own.worker) == (start, 5, worker)
            assert own.seeds != first
        for path in (out / "shards").iterdir():  # a tidy user; the numbers go on
            path.unlink()
    with WorkerRecord(out, f"{worker}-1") as other:
        assert (other.start, other.next_shard) == (1, 0)


def test_a_number_is_spent_before_its_shard_is_written(tmp_path, monkeypatch):
    """A kill after the write, a run that has read the shard, a user who has removed it: another
    shard of that number would never be read."""
    monkeypatch.setattr(worker.shards, "write", lambda *_: 1 / 0)
    rows = types.SimpleNamespace(game=np.zeros(3, np.int32))
    with WorkerRecord(tmp_path, "a") as own, pytest.raises(ZeroDivisionError):
        own.write(None, 1, rows, np.zeros(3))
    with WorkerRecord(tmp_path, "a") as own:
        assert own.next_shard == 1


def test_records_without_an_id_are_given_one(tmp_path):
    (tmp_path / "workers").mkdir()
    (tmp_path / "workers" / "a.json").write_text('{"starts": 2, "next_shard": 7}')
    with WorkerRecord(tmp_path, "a") as own:
        assert (own.start, own.next_shard) == (3, 7)
        worker = own.worker
    with WorkerRecord(tmp_path, "a") as own:
        assert (own.start, own.next_shard, own.worker) == (4, 7, worker)


@pytest.mark.parametrize(
    "text", ['{"starts": 1', "[]", "{}", '{"id": "../up", "starts": 1, "next_shard": 1}']
)
def test_damaged_records_are_refused(tmp_path, text):
    (tmp_path / "workers").mkdir()
    (tmp_path / "workers" / "a.json").write_text(text)
    with (
        pytest.raises(ValueError, match=r"a\.json: damaged .*; give another --name"),
        WorkerRecord(tmp_path, "a"),
    ):
        pass


def test_seeds_differ_by_name_start_and_seed(tmp_path, monkeypatch):
    monkeypatch.setattr(worker, "_new_id", lambda: "0123abcd")
    seeds = set()
    for name in ("a", "b"):
        for seed in (0, 1):
            for _ in range(2):
                with WorkerRecord(tmp_path, name, seed) as own:
                    seeds.add(own.seeds)
                    assert 0 <= own.seeds.seed < 2**32
                    assert 0 <= own.seeds.shard < 2**31
    assert len(seeds) == 8
    monkeypatch.setattr(worker, "_new_id", lambda: "4567abcd")
    (tmp_path / "workers" / "a.json").unlink()
    with WorkerRecord(tmp_path, "a") as own:
        assert own.seeds not in seeds


def test_a_name_is_given_once(tmp_path):
    taken = pytest.raises(ValueError, match="--name a: a worker of that name is at work")
    with WorkerRecord(tmp_path, "a"), WorkerRecord(tmp_path, "b"), taken:
        WorkerRecord(tmp_path, "a").__enter__()
    with WorkerRecord(tmp_path, "a") as own:
        assert own.start == 2


def test_where_nothing_can_be_locked_it_warns_and_works(tmp_path, monkeypatch, capsys):
    def flock(file, how):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(folders.fcntl, "flock", flock)
    with WorkerRecord(tmp_path, "a") as own:
        assert own.start == 1
    assert "cannot be locked (Function not implemented)" in one_line(capsys)


def test_newer_weights_are_taken_and_bad_ones_are_named(tmp_path, capsys):
    config = worker_runs.config_in(tmp_path / "run")
    own = make_plan(config)
    source = Source(own)
    assert not source.refresh()
    assert not source.refresh()
    assert "waiting for the run's first weights" in one_line(capsys)
    worker_runs.write_weights(own, 10)
    assert source.refresh()
    assert source.iteration == 10
    params = source.params
    assert source.refresh()
    assert source.params is params
    newest = config.folder / folder.NEWEST
    newest.write_bytes(newest.read_bytes()[:-1] + b"?")
    for _ in range(2):
        assert source.refresh()
        assert (source.iteration, source.params is params) == (10, True)
    assert "the arrays are not those that its header describes" in one_line(capsys)
    worker_runs.write_weights(own, 20, value=1.0)
    assert source.refresh()
    assert source.iteration == 20
    head = lambda params: np.asarray(jax.tree.leaves(params)[-1])
    assert not np.array_equal(head(source.params), head(params))
    other = make_plan(worker_runs.config_in(tmp_path / "other", channels=16))
    worker_runs.write_weights(other, 30)
    (tmp_path / "other" / folder.NEWEST).replace(newest)
    assert source.refresh()
    assert source.iteration == 20
    assert "not of this run's network" in one_line(capsys)


def one_line(capsys):
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    return lines[0]


def test_it_waits_for_a_run_and_its_weights_and_stops_when_told(tmp_path, monkeypatch, capsys):
    out, stop, events = tmp_path / "run", Stop(), []

    class Fake:
        def __init__(self, plan, seeds):
            self.plan, self.played = plan, 0

        def play(self, params, iteration):
            self.played += 1
            stop.requested = self.played == 3
            events.append(iteration)
            count = [2, 0, 5][self.played - 1]
            return worker_runs.random_shard(worker_runs.CONFIG, count, self.played)

    def sleep(seconds):
        events.append(seconds)
        if len(events) == 2:
            assert not out.exists()
            worker_runs.config_in(out)
        if len(events) == 4:
            worker_runs.write_weights(
                make_plan(dataclasses.replace(worker_runs.CONFIG, out=out)), 6
            )

    monkeypatch.setattr(worker, "SelfPlay", Fake)
    clock = types.SimpleNamespace(sleep=sleep, monotonic=time.monotonic)
    monkeypatch.setattr(worker, "time", clock)
    worker.work(WorkerFlags(out=out, name="w"), stop)
    assert events == [worker.POLL_S] * 4 + [6] * 3
    told = capsys.readouterr().err.splitlines()
    assert told[0] == f"waiting for a run in {out}: no config.json there"
    assert told[1].startswith("memory: ")
    assert told[2].startswith("waiting for the run's first weights")
    assert told[-1].endswith("7 rows; next shard 2; weights of iteration 6")
    own_id = json.loads((out / "workers" / "w.json").read_text())["id"]
    names = sorted(path.name for path in (out / "shards").iterdir())
    assert names == [f"w-{own_id}-00000{i}.npz" for i in range(2)]


def test_the_ring_of_a_worker_holds_all_that_a_call_may_end(plan):
    assert plan.buffer.capacity == 8 * (18 + 6)
    ring = jax.eval_shape(lambda: buffers.start(plan.play.game, plan.buffer))
    assert num_bytes(ring) < 2**20


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (["--out", "{run}", "--name", "a/b"], "--name 'a/b': expected letters"),
        (["--out", "{run}", "--seed", "-1"], "--seed -1: expected from 0"),
        (["--name", "a"], "--out is missing"),
        (["--out", "{run}", "--games", "3"], "unknown flag --games"),
        (["--out", "{none}"], "its run reads no shards; start it with --workers"),
        (["--out", "{other}"], "a run of another version, with --later"),
        (["--out", "{data}"], "no training run is there"),
    ],
)
def test_bad_input(tmp_path, monkeypatch, capsys, argv, complaint):
    paths = {name: tmp_path / name for name in ("run", "none", "other", "data")}
    worker_runs.config_in(paths["run"])
    worker_runs.config_in(paths["none"], workers=False)
    for name, text in (("other", '{"preset": "3x3", "later": 1}'), ("data", "{}")):
        paths[name].mkdir()
        (paths[name] / "config.json").write_text(text)
    argv = ["worker", *(argument.format(**paths) for argument in argv)]
    monkeypatch.setattr(sys, "argv", ["train", *argv])
    with pytest.raises(SystemExit) as stop:
        command.main()
    assert stop.value.code == 2
    line = one_line(capsys)
    assert line.startswith("python -m train worker: ")
    assert complaint in line


def test_help(capsys):
    with pytest.raises(SystemExit) as stop:
        worker.main(["--help"])
    assert not stop.value.code
    assert "--name" in capsys.readouterr().out
