"""Files that are written whole or not at all."""

from __future__ import annotations

import errno

import pytest

from gozero.runs import files


@pytest.mark.parametrize("durable", [False, True])
def test_the_new_one_takes_the_place_of_the_old_one(tmp_path, durable):
    path = tmp_path / "some.json"
    for data in (b"old", b"new"):
        files.write_whole(path, data, durable=durable)
        assert path.read_bytes() == data
    assert [*tmp_path.iterdir()] == [path]


def test_a_full_disk_leaves_the_old_one_alone_and_is_named(tmp_path, monkeypatch):
    def full(number):
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "some.json"
    path.write_bytes(b"old")
    with monkeypatch.context() as patch:
        patch.setattr(files.os, "fsync", full)
        must_fail(path, durable=True)
    path.with_name("some.json.part").symlink_to("/dev/full")
    must_fail(path, durable=False)
    assert [*tmp_path.iterdir()] == [path]
    assert path.read_bytes() == b"old"


def must_fail(path, durable):
    with pytest.raises(OSError, match="No space left on device") as error:
        files.write_whole(path, b"new", durable=durable)
    assert str(error.value).endswith(f"No space left on device: {str(path)!r}")


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        files.write_whole(tmp_path / "nowhere" / "some.json", b"")
