"""Files written whole or not at all, and files of records."""

from __future__ import annotations

import errno

import pytest

from gozero.runs import files


@pytest.mark.parametrize("durable", [False, True])
def test_writing_replaces_the_old_file(tmp_path, durable):
    path = tmp_path / "some.json"
    for data in (b"old", b"new"):
        files.write_whole(path, data, durable=durable)
        assert path.read_bytes() == data
    assert [*tmp_path.iterdir()] == [path]


def test_a_full_disk_keeps_the_old_file_and_is_reported(tmp_path, monkeypatch):
    def full(number):
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "some.json"
    path.write_bytes(b"old")
    with monkeypatch.context() as patch:
        patch.setattr(files.os, "fsync", full)
        must_fail(path, durable=True)
    monkeypatch.setattr(files.os, "write", lambda handle, data: full(handle))
    must_fail(path, durable=False)
    assert [*tmp_path.iterdir()] == [path]
    assert path.read_bytes() == b"old"


def test_an_existing_part_file_is_not_written_to(tmp_path):
    """If the .part path is a symlink or a hard link, the file that it leads to is untouched."""
    path, part, other = (tmp_path / name for name in ("a.json", "a.json.part", "theirs"))
    other.write_bytes(b"theirs")
    for lay in (part.symlink_to, part.hardlink_to):
        lay(other)
        files.write_whole(path, b"ours")
        assert path.read_bytes() == b"ours"
        assert not path.is_symlink()
        assert path.stat().st_nlink == 1
        assert other.read_bytes() == b"theirs"
    assert sorted(tmp_path.iterdir()) == [path, other]


def must_fail(path, durable):
    with pytest.raises(OSError, match="No space left on device") as error:
        files.write_whole(path, b"new", durable=durable)
    assert str(error.value).endswith(f"No space left on device: {str(path)!r}")


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        files.write_whole(tmp_path / "nowhere" / "some.json", b"")


def test_a_torn_record_is_skipped_and_truncated(tmp_path):
    path = tmp_path / "some.jsonl"
    assert files.read_lines(path) == []
    files.cut_torn_line(path)
    assert not path.exists()
    files.add_line(path, {"game": 0})
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"game": 1')
    assert files.read_lines(path) == [{"game": 0}]
    files.cut_torn_line(path)
    assert path.read_bytes() == whole
    files.add_line(path, {"game": 1})
    assert files.read_lines(path, lambda record: record["game"]) == [0, 1]
    files.write_lines(path, [{"game": 1}])
    assert files.read_lines(path) == [{"game": 1}]


@pytest.mark.parametrize(
    "damaged", [b"{\n", b"\xff\n", b"[]\n", b"{}\n", b"12\n", b"null\n", b"[" * 100_000 + b"\n"]
)
def test_a_damaged_record_is_reported_or_skipped(tmp_path, damaged):
    path = tmp_path / "some.jsonl"
    path.write_bytes(b'{"game": 0}\n' + damaged + b'{"game": 2}\n')
    make = lambda record: record["game"]
    with pytest.raises(ValueError, match=r"^out: .*some.jsonl, line 2 is damaged: "):
        files.read_lines(path, make)
    found: list[files.Damaged] = []
    assert files.read_lines(path, make, found) == [0, 2]
    assert [one.line + b"\n" for one in found] == [damaged]
