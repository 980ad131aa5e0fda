"""The contract of a store, for folders and buckets alike."""

from __future__ import annotations

import concurrent.futures
import errno
import json
import os
import secrets
import urllib.request

import pytest

from gozero.runs import store
from gozero.runs.store import Entry
from tests.runs.gcs_server import Server

KINDS = ["folder", "memory", "gcs", "s3"]


@pytest.fixture
def gcs(tmp_path, monkeypatch):
    """The server that gs:// URLs go to."""
    pytest.importorskip("obstore")
    server = Server()
    account = {"gcs_base_url": server.url, "disable_oauth": True, "client_email": ""}
    account |= {"private_key": "", "private_key_id": ""}
    (tmp_path / "account.json").write_text(json.dumps(account))
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT", str(tmp_path / "account.json"))
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def s3_server():
    """The URL of a moto S3 server."""
    moto = pytest.importorskip("moto.server")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    yield "http://{}:{}".format(*server.get_host_and_port())
    server.stop()


@pytest.fixture
def s3(s3_server, monkeypatch):
    """The name of a new bucket, which s3:// URLs can reach."""
    pytest.importorskip("obstore")
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    name = f"bucket-{secrets.token_hex(4)}"  # moto's servers share their buckets
    request = urllib.request.Request(f"{s3_server}/{name}", method="PUT")
    urllib.request.urlopen(request).close()
    return name


@pytest.fixture(params=KINDS)
def shared(request, tmp_path):
    """An empty store of each kind."""
    if request.param == "folder":
        return store.at(tmp_path / "run")
    pytest.importorskip("obstore")
    if request.param == "memory":
        return store.at(f"memory:///{tmp_path}/run")
    bucket = request.getfixturevalue(request.param)
    return store.at(f"s3://{bucket}/run" if request.param == "s3" else "gs://bucket/run")


def test_created_objects_are_not_overwritten(shared):
    assert shared.create("a/b-1", b"first")
    assert shared.create("a/b-1", b"first")  # as after a lost response
    assert not shared.create("a/b-1", b"other")
    assert not shared.create("a/b-1", b"longer by far")
    assert shared.get("a/b-1", 5) == b"first"


def test_only_one_of_many_creators_succeeds(shared):
    create = lambda i: shared.create("fence", b"%d" % i)
    with concurrent.futures.ThreadPoolExecutor(16) as threads:
        won = list(threads.map(create, range(16)))
    assert sum(won) == 1
    assert shared.get("fence", 9) == b"%d" % won.index(True)


def test_put_overwrites(shared):
    for data in (b"first", b"", b"second"):
        shared.put("newest.json", data)
        assert shared.get("newest.json", 6) == data


def test_too_large_objects_are_not_read(shared):
    shared.put("a", b"12345")
    with pytest.raises(ValueError, match=r"a has 5 bytes; expected at most 4"):
        shared.get("a", 4)


def test_the_end_of_an_object_is_read_alone(shared):
    shared.put("a", b"12345")
    assert [shared.tail("a", most) for most in (0, 2, 5, 9)] == [b"", b"45", b"12345", b"12345"]
    shared.put("empty", b"")
    assert shared.tail("empty", 9) == b""


def test_missing_objects(shared):
    for read in (shared.get, shared.tail):
        with pytest.raises(FileNotFoundError) as error:
            read("a/none", 9)
        assert str(error.value.filename).endswith("run/a/none")
    shared.delete("a/none")
    assert shared.list("a") == []


def test_listings_are_complete_sorted_and_start_after_a_key(shared):
    keys = [f"shards/{i // 400:08d}/w-{i % 400:06d}" for i in range(1100)]
    many = keys if shared.name.startswith("memory") else keys[::5]
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        assert all(threads.map(lambda key: shared.create(key, key.encode()[:3]), many))
    shared.put("shards2/x", b"")
    shared.put("shards/a-000000.npz", b"")
    listed = [Entry(key, 3) for key in many]
    assert shared.list("shards") == [*listed, Entry("shards/a-000000.npz", 0)]
    for after in ("shards/00000001", many[7], "shards/00000001/w-000199", "shards/00000002/x"):
        result = [entry.key for entry in shared.list("shards", after)]
        assert result == [*(key for key in many if key > after), "shards/a-000000.npz"]
    assert shared.list("shards", "shards/b") == []
    assert shared.list("")[-1] == Entry("shards2/x", 0)
    assert shared.list("", after="shards0") == [Entry("shards2/x", 0)]
    assert shared.list("", many[1], many[4]) == listed[2:4]
    assert shared.list("", before=many[1]) == listed[:1]
    assert shared.list("", before="a") == []
    assert shared.list("shards/00000001") == [one for one in listed if "/00000001/" in one.key]
    shared.delete(many[0])
    assert shared.list("shards")[0].key == many[1]


def test_pages_of_lists_are_joined(gcs):
    keys = [f"shards/{i:05d}" for i in range(2500)]
    gcs.objects |= {f"bucket/run/{key}": b"1" for key in keys}
    shared = store.at("gs://bucket/run")
    assert [entry.key for entry in shared.list("shards")] == keys
    assert [entry.key for entry in shared.list("shards", keys[1000])] == keys[1001:]


def test_lost_responses_and_busy_servers_are_retried(gcs):
    shared = store.at("gs://bucket/run")
    for fault in ("lost", "busy"):
        gcs.faults = [fault]
        assert shared.create(fault, b"data")
        assert not gcs.faults
        assert shared.get(fault, 4) == b"data"
        assert not shared.create(fault, b"more")


def test_a_folder_without_hard_links_works(tmp_path, monkeypatch):
    def link(old, new):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    shared = store.at(f"file://{tmp_path}/run")
    assert shared.create("a", b"1")
    assert shared.create("a", b"1")
    assert not shared.create("a", b"2")
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["a"]


def test_leftovers_of_a_kill_are_not_listed(tmp_path):
    (tmp_path / "shards").mkdir()
    (tmp_path / "shards" / ".0123.part").write_bytes(b"half")
    assert store.at(tmp_path).list("shards") == []


def test_old_leftovers_of_kills_are_swept(shared, tmp_path, monkeypatch):
    renamed, replace = [], os.replace
    monkeypatch.setattr(os, "replace", lambda *paths: renamed.append(paths[0]) or replace(*paths))
    for number in range(2):
        shared.put(f"shards/00000001/a-00000{number}.npz", b"whole")
    for path in renamed:  # of each object: while it is written, and until it is in place
        path.write_bytes(b"half")
    for path in renamed[1:]:
        os.utime(path, (1, 1))
    shared.sweep()
    keys = [entry.key for entry in shared.list("")]
    assert keys == [f"shards/00000001/a-00000{number}.npz" for number in range(2)]
    assert len(renamed) == (4 if isinstance(shared, store.Folder) else 0)
    assert [path for path in renamed if path.exists()] == renamed[:1]


def test_links_in_a_folder_are_not_followed(tmp_path):
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "shards").mkdir()
    (tmp_path / "shards" / "x").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "shards" / "y")
    shared = store.at(tmp_path)
    for entry in shared.list("shards"):
        with pytest.raises(ValueError, match=f"{entry.key} is"):
            shared.get(entry.key, 100)
    assert not shared.create("shards/x", b"secret")


@pytest.mark.parametrize(
    ("place", "is_url"),
    [("runs/x", False), ("file:///tmp/x", False), ("s3://b/x", True), ("gs:/b/x", True)],
)
def test_urls_are_distinguished_from_folders(place, is_url):
    assert store.is_url(place) == is_url


def test_other_urls_are_refused():
    with pytest.raises(
        ValueError, match=r"ftp://host/x: expected a folder, or a URL that begins with file://"
    ):
        store.at("ftp://host/x")
