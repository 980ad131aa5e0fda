"""Workers: what they play and write, their weights, versions and shard numbers, and waiting."""

import dataclasses
import errno
import json
import sys
import time
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.play import devices, selfplay, shards
from gozero.play.shards import Place
from gozero.runs import store
from gozero.runs.memory import num_bytes
from tests.train import scripted, worker_runs
from train import buffer as buffers
from train import command, exchange, folder, games, run, steps, worker
from train.exchange import Newest
from train.learner import Metrics
from train.loop import Loop
from train.losses import Losses
from train.plan import make_plan
from train.worker import SelfPlay, Source, WorkerFlags, Writer

CALLS = 5


class Stop:
    """A stand-in for `runtime.StopRequest`."""

    requested = False


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    """The config of an existing run, with a folder and weights; its search compiles quickly."""
    config = worker_runs.config_in(tmp_path_factory.mktemp("runs") / "run")
    plan = make_plan(config)
    worker_runs.write_weights(plan, 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selfplay, "search", scripted.search)
        patch.setattr(scripted, "RULES", plan.rules)
        yield config


@pytest.fixture(scope="module")
def plan(config):
    return worker.plan_of(config)


@pytest.fixture(scope="module")
def source(plan):
    source = Source(plan, store.at(plan.config.folder))
    assert source.refresh()
    return source


@pytest.fixture(scope="module")
def loop(config):
    """A loop that only counts the learner's steps, which take long to compile."""
    own, mesh = make_plan(config), devices.mesh_of(1)
    loop = Loop(own, mesh, steps.begin(own, mesh))
    seen = Metrics(Losses(*[np.zeros(())] * len(Losses._fields)), np.zeros(()), np.zeros(()))
    loop._compiled["learn"] = lambda learner, buffer, _: (learner, 0 * buffer.owed, seen)
    return loop


def play_until_killed(config, plan, source):
    """Start a worker that is killed after some calls; returns its shards."""
    writer = Writer(plan, store.at(config.folder))
    player = SelfPlay(plan, *writer.seeds, devices.mesh_of(1))
    for _ in range(CALLS):
        writer.add(source.newest, *player.play(source.params, source.newest.iteration))
        writer.write()
    places = [Place(number, writer.name, 1) for number in range(writer.number)]
    paths = [shards.path_of(config.folder, place) for place in places]
    (paths[0].parent / ".0123.part").write_bytes(b"half")
    read = [shards.read(path, shards.rules_of(plan.rules)) for path in paths]
    assert len(read) > 1
    assert writer.rows == sum(shard.about.rows for shard in read)
    return read


@pytest.fixture(scope="module")
def shards_by_worker(config, plan, source):
    """{worker: its shards}"""
    found = [play_until_killed(config, plan, source) for _ in range(3)]
    return {read[0].about.worker: read for read in found}


def joined(read):
    """(rows, frequencies) of the shards, concatenated."""
    rows = jax.tree.map(lambda *x: np.concatenate(x), *(shard.rows for shard in read))
    return rows, np.concatenate([shard.frequency for shard in read])


@pytest.mark.thorough
def test_shards_equal_the_ring_of_a_runs_own_self_play(shards_by_worker, loop, plan, source):
    name, shards_ = next(iter(shards_by_worker.items()))
    writer = Writer(plan, store.at(plan.config.folder))
    writer.name = name
    playing = games.start(plan.play, loop.plan.buffer, *writer.seeds)
    playing = jax.tree.map(lambda x: x[None], playing)
    for _ in range(CALLS):
        playing, _ = loop._play(4)(source.params, playing)
    ring = jax.tree.map(lambda x: np.asarray(x[0]), playing.buffer)
    rows, frequency = joined(shards_)
    assert ring.size == len(frequency) > 50
    same = lambda x, y: np.testing.assert_array_equal(x[: ring.size], y, strict=True)
    exact = ring.rows.root_value[: ring.size]
    np.testing.assert_allclose(rows.root_value, exact, rtol=0, atol=1 / 1024)
    assert np.all(rows.root_value * 512 % 1 == 0)
    assert np.any(rows.root_value != exact)
    whole = np.concatenate([rows.root_value, ring.rows.root_value[ring.size :]])
    jax.tree.map(same, ring.rows.replace(root_value=whole), rows)
    assert ring.frequency[: ring.size].tolist() == frequency.tolist()
    assert len(set(frequency.tolist())) > 1


def test_games_are_whole_and_in_one_shard(shards_by_worker):
    for read in shards_by_worker.values():
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


def test_restarted_workers_play_different_games(shards_by_worker):
    assert len(shards_by_worker) == 3
    whole = {
        rows.policy_target.tobytes()[:4000] for rows, _ in map(joined, shards_by_worker.values())
    }
    assert len(whole) == 3


def test_a_run_reads_each_shard_of_all_workers_once(shards_by_worker, loop, config, capsys):
    total = sum(len(joined(read)[1]) for read in shards_by_worker.values())
    count = sum(len(read) for read in shards_by_worker.values())
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
    expected = np.concatenate(
        [joined(shards_by_worker[life])[0].policy_target for life in shards_by_worker]
    )
    found = {row.tobytes() for row in ring.policy_target[0]}
    assert {row.tobytes() for row in expected} <= found
    done = json.loads(json.dumps(loop.host_state))["workers"]["done"]
    assert done == {
        f"00000001/{name}": [[0, len(read) - 1]] for name, read in shards_by_worker.items()
    }
    assert capsys.readouterr().err == ""


def write_rows(writer, version, count):
    newest = Newest(version, 10 * version, "")
    writer.add(newest, *worker_runs.random_shard(worker_runs.CONFIG, count, count))


def test_many_rows_are_written_at_once(tmp_path, plan, monkeypatch):
    writer = Writer(plan, store.at(tmp_path))
    write_rows(writer, 1, 3)  # the first at once
    write_rows(writer, 1, 4)
    assert writer.number == 1
    monkeypatch.setattr(worker, "MOST_PENDING", writer._pending_bytes + 1)
    write_rows(writer, 1, 5)
    assert (writer.number, writer.rows) == (2, 12)
    assert shards.MOST_BYTES >= 4 * 2**28


def test_a_shard_holds_the_rows_of_half_a_minute_and_one_version(tmp_path, plan, monkeypatch):
    now = 1000.0
    monkeypatch.setattr(worker, "time", types.SimpleNamespace(monotonic=lambda: now))
    shared = store.at(tmp_path)
    writer = Writer(plan, shared)
    write_rows(writer, 1, 3)  # the first at once
    for count in (4, 0, 5):
        write_rows(writer, 1, count)
        now += worker.HOLD_S / 3 + 0.1
    write_rows(writer, 1, 0)
    write_rows(writer, 1, 6)
    write_rows(writer, 2, 7)
    assert writer.number == 3
    writer.write()
    writer.write()
    places = [
        shards.read(tmp_path / entry.key, plan.rules_record).about
        for entry in shared.list("shards")
    ]
    assert [(one.number, one.iteration, one.rows) for one in places] == [
        *((0, 10, 3), (1, 10, 9), (2, 10, 6), (3, 20, 7))
    ]
    assert {one.worker for one in places} == {writer.name}
    keys = [entry.key.split("/")[1] for entry in shared.list("shards")]
    assert keys == ["00000001"] * 3 + ["00000002"]
    write_rows(writer, 2, 8)
    write_rows(writer, 40, 9)  # the machine was asleep in between
    writer.write()
    (late, _), (new, _) = shared.list("shards")[4:]
    assert late == f"shards/{40 - exchange.KEPT - 1:08d}/{writer.name}-000004.npz"
    assert new == f"shards/00000040/{writer.name}-000005.npz"


def test_a_shard_that_cannot_be_written_is_tried_again(tmp_path, plan, monkeypatch, capsys):
    """With the disk full for two minutes; and a stop during a full disk ends the worker."""
    now, stop, shared = [1000.0], Stop(), store.at(tmp_path)
    sleep = lambda seconds: now.append(now[-1] + seconds)
    clock = types.SimpleNamespace(monotonic=lambda: now[-1], sleep=sleep)
    monkeypatch.setattr(worker, "time", clock)
    create, full_until = shared.create, 1120.0

    def on_full_disk(key, data):
        if now[-1] < full_until:
            raise OSError(errno.ENOSPC, "No space left on device", key)
        return create(key, data)

    monkeypatch.setattr(shared, "create", on_full_disk)
    writer = Writer(plan, shared, lambda: stop.requested)
    write_rows(writer, 1, 3)
    assert (writer.number, writer.rows, now[-1]) == (1, 3, 1126.0)
    assert [entry.key for entry in shared.list("shards")] == [
        f"shards/00000001/{writer.name}-000000.npz"
    ]
    messages = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in messages] == [
        f"will try again in {seconds} s" for seconds in (2, 4, 8, 16, 32, 64)
    ]
    full_until, stop.requested = 10_000.0, True
    now.append(2000.0)
    with pytest.raises(OSError, match="No space left on device"):
        write_rows(writer, 1, 4)


def test_each_start_draws_its_name_and_seeds(tmp_path, plan, monkeypatch):
    monkeypatch.setattr(worker.platform, "node", lambda: "._my host/é!" + 50 * "x")
    writers = [Writer(plan, store.at(tmp_path)) for _ in range(20)]
    assert len({writer.name for writer in writers}) == 20
    assert len({writer.seeds for writer in writers}) == 20
    for writer in writers:
        assert writer.name.startswith("my-host---x")
        assert shards.place_of(shards.key_of(Place(0, writer.name, 1))).worker == writer.name
        assert 0 <= writer.seeds[0] < 2**32
        assert 0 <= writer.seeds[1] < 2**31


def test_published_versions_never_go_back(tmp_path, monkeypatch):
    shared, path = store.at(tmp_path / "run"), tmp_path / "weights"
    for version, (iteration, data) in enumerate([(0, b"a"), (10, b"b"), (5, b"c"), (10, b"d")], 1):
        path.write_bytes(data)
        for _ in range(2):
            found = exchange.publish(shared, path, iteration)
            assert found == exchange.newest(shared)
            assert (found.version, found.iteration) == (version, iteration)
        assert shared.get(found.key, 9) == data
    shared.create("newest/00000005.safetensors", b"of a kill")
    shared.put(exchange.NEWEST, b"{")
    with pytest.raises(ValueError, match=r"newest\.json is damaged"):
        exchange.newest(shared)
    assert exchange.publish(shared, path, 10).version == 6
    for iteration in range(20, 40):
        found = exchange.publish(shared, path, iteration)
    assert found.version == 26
    listed = shared.list("newest")
    assert len(listed) == exchange.KEPT + 1
    shared.create("newest/00000027.safetensors", b"of another process, just now")
    monkeypatch.setattr(shared, "list", lambda prefix: listed)
    found = exchange.publish(shared, path, 40)
    assert (found.version, shared.get(found.key, 9)) == (28, b"d")
    assert exchange.newest(shared) == found


def test_newer_weights_are_loaded_and_bad_ones_reported(tmp_path, capsys):
    config = worker_runs.config_in(tmp_path / "run")
    own, shared = make_plan(config), store.at(config.folder)
    source = Source(own, shared)
    assert not source.refresh()
    assert not source.refresh()
    assert "waiting for the run's first weights" in one_line(capsys)
    worker_runs.write_weights(own, 10)
    assert source.refresh()
    assert source.newest[:2] == (1, 10)
    params = source.params
    assert source.refresh()
    assert source.params is params
    worker_runs.write_weights(own, 20, value=1.0)
    newest = config.folder / exchange.newest(shared).key
    whole = newest.read_bytes()
    newest.write_bytes(whole[:-1] + b"!")
    for _ in range(2):
        assert source.refresh()
        assert (source.newest.iteration, source.params is params) == (10, True)
    assert "are damaged: their SHA-256 is not that in newest.json" in one_line(capsys)
    newest.write_bytes(whole)
    assert source.refresh()
    assert source.newest[:2] == (2, 20)
    head = lambda params: np.asarray(jax.tree.leaves(params)[-1])
    assert not np.array_equal(head(source.params), head(params))
    other = make_plan(worker_runs.config_in(tmp_path / "other", channels=16))
    worker_runs.write_weights(other, 30)
    exchange.publish(shared, tmp_path / "other" / folder.NEWEST, 30)
    assert source.refresh()
    assert source.newest.iteration == 20
    assert "are not of this run's network" in one_line(capsys)


def one_line(capsys):
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    return lines[0]


def test_it_waits_for_a_run_and_weights_and_stops_on_request(tmp_path, monkeypatch, capsys):
    out, stop, events = tmp_path / "run", Stop(), []

    class Fake:
        def __init__(self, plan, seed, shard, mesh):
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
    worker.work(WorkerFlags(out=out), stop)
    assert events == [worker.POLL_S] * 4 + [6] * 3
    stderr_lines = capsys.readouterr().err.splitlines()
    assert stderr_lines[0] == f"waiting for a run: there is no config.json in {out}"
    assert stderr_lines[1].startswith("memory: ")
    assert stderr_lines[2].startswith("waiting for the run's first weights")
    assert stderr_lines[-1].endswith("2 rows; next shard 1; weights of iteration 6")
    found = [shards.place_of(path) for path in sorted((out / "shards").rglob("*.npz"))]
    assert [place[::2] for place in found] == [(0, 1), (1, 1)]


def test_without_newer_weights_it_pauses_with_one_message(tmp_path, monkeypatch, capsys):
    """It plays 30 calls of one minute, then waits; newer weights come at 90 minutes."""
    config, stop, now, played = worker_runs.config_in(tmp_path / "run"), Stop(), [0.0], []
    plan = make_plan(config)
    worker_runs.write_weights(plan, 3)

    class Fake:
        def play(self, params, iteration):
            played.append((now[0], iteration))
            now[0] += 60
            return worker_runs.random_shard(config, 2, len(played))

    def sleep(seconds):
        now[0] += seconds
        if now[0] >= 5400 and len(played) == 30:
            worker_runs.write_weights(plan, 6)
        stop.requested = now[0] > 9000

    clock = types.SimpleNamespace(sleep=sleep, monotonic=lambda: now[0])
    monkeypatch.setattr(worker, "time", clock)
    source, writer = Source(plan, config.shared), Writer(plan, config.shared)
    assert source.refresh()
    worker._play_on(Fake(), source, writer, stop)
    assert [iteration for _, iteration in played] == [3] * 30 + [6] * 30
    assert played[29][0] < worker.PAUSE_S <= 5400 <= played[30][0] < 5410
    stderr_lines = capsys.readouterr().err.splitlines()
    assert sum(line.startswith("pausing: the run at") for line in stderr_lines) == 2
    assert writer.rows == 120


def test_a_worker_plays_on_while_the_run_records_iterations(tmp_path, monkeypatch, capsys):
    """However long it takes until the next weights."""
    config, now = worker_runs.config_in(tmp_path / "run"), [0.0]
    plan, shared = make_plan(config), config.shared
    monkeypatch.setattr(worker, "time", types.SimpleNamespace(monotonic=lambda: now[0]))
    exchange.record_iterations(shared, 2)
    assert exchange.newest(shared).version == 0
    published = worker_runs.write_weights(plan, 3)
    source = Source(plan, shared)
    assert source.refresh()
    params, now[0] = source.params, worker.PAUSE_S
    assert source.is_old
    exchange.record_iterations(shared, 5)
    assert source.refresh()
    assert not source.is_old
    assert source.params is params
    assert exchange.newest(shared) == source.newest == published._replace(done=5)
    now[0] = 2 * worker.PAUSE_S
    assert source.is_old
    assert capsys.readouterr().err.count("pausing: the run at") == 2
    exchange.record_iterations(shared, 5)
    assert source.refresh()
    assert source.is_old
    before = {name: value for name, value in published._asdict().items() if name != "done"}
    shared.put(exchange.NEWEST, json.dumps(before).encode())  # of an earlier version
    assert exchange.newest(shared) == published._replace(done=-1)
    shared.put(exchange.NEWEST, b"{")
    exchange.record_iterations(shared, 6)


def test_a_run_records_its_iterations(tmp_path, monkeypatch):
    """Before its first checkpoint."""

    def iterate(loop, *_):
        recorded.append(exchange.newest(config.shared).done)
        loop.iteration += 1
        return {"iteration": loop.iteration}

    config = worker_runs.config_in(tmp_path / "run", iterations=3, checkpoint_every=9)
    recorded: list = []
    monkeypatch.setattr(Loop, "iterate", iterate)
    monkeypatch.setattr("train.display.Display.add", lambda *_: None)
    monkeypatch.setattr(exchange, "ALIVE_S", 0.0)
    assert run.run(config) == 0
    assert recorded == [0, 1, 2]


def test_numbers_of_games_begin_again_after_2_to_31(plan):
    """On two devices, which number their games in 32 bits."""
    player = SelfPlay(plan, 0, 0, devices.mesh_of(1))
    last = [2**30 - 1, 2**30, 2**31 - 1, -(2**31)]

    def with_games(buffer):
        game = buffer.rows.game.at[:, :4].set(jnp.array(last))
        return buffer.replace(rows=buffer.rows.replace(game=game), size=buffer.size + 4)

    buffer = jax.tree.map(lambda x: jnp.repeat(x, 2, 0), with_games(player.playing.buffer))
    player.playing = player.playing.replace(buffer=buffer)
    rows, _ = player.collect()
    first = [2**31 - 2, 0, 2**31 - 2, 0]
    assert rows.game.tolist() == [*first, *(number + 1 for number in first)]


def test_a_workers_ring_holds_all_games_of_a_call(plan):
    assert plan.buffer.capacity == 8 * (18 + 6)
    ring = jax.eval_shape(lambda: buffers.start(plan.play.game, plan.buffer))
    assert num_bytes(ring) < 2**20


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        ([], "--out is missing"),
        (["--out", "ftp://host/x"], "ftp:/host/x: expected a folder, or a URL"),
        (["--out", "{run}", "--games", "3"], "unknown flag --games"),
        (["--out", "{none}"], "this run reads no shards; start it with --workers"),
        (["--out", "{other}"], "a run of another version, with --later"),
        (["--out", "{data}"], "there is no training run there"),
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
    assert "--out" in capsys.readouterr().out
