"""Files written whole or not at all, and files of records."""

from __future__ import annotations

import errno
import os
import subprocess
import sys

import pytest

from gozero.runs import files


@pytest.mark.parametrize("durable", [False, True])
def test_writing_replaces_the_old_file(tmp_path, durable):
    path = tmp_path / "some.json"
    for data in (b"old", b"new"):
        files.write_whole(path, data, durable=durable)
        assert path.read_bytes() == data
    assert [*tmp_path.iterdir()] == [path]


def test_a_link_stays_and_its_file_is_replaced(tmp_path):
    (tmp_path / "folder").mkdir()
    link, real = tmp_path / "link", tmp_path / "folder" / "real"
    link.symlink_to("folder/real")
    for data in (b"old", b"new"):  # at first the link leads nowhere
        files.write_whole(link, data, durable=True)
        assert link.is_symlink()
        assert real.read_bytes() == data
    assert [*real.parent.iterdir()] == [real]


def test_only_regular_files_are_replaced(tmp_path):
    pipe, folder, device = (tmp_path / name for name in ("pipe", "folder", "device"))
    os.mkfifo(pipe)
    folder.mkdir()
    device.symlink_to("/dev/null")
    for path in (pipe, folder, device):
        with pytest.raises(OSError, match=f"Not a file to replace: '{path}'"):
            files.write_whole(path, b"new")
        with pytest.raises(ValueError, match=f"^--out {path}: is not a file to replace"):
            files.check_writable(path, "--out")
    assert sorted(tmp_path.iterdir()) == sorted([pipe, folder, device])
    assert pipe.is_fifo()
    with pytest.raises(ValueError, match=f"the folder {tmp_path}/none does not exist"):
        files.check_writable(tmp_path / "none" / "file", "--out")
    files.check_writable(tmp_path / "file", "--out")


def test_standard_output_is_not_replaced(tmp_path):
    """Else all that is printed later would be lost."""
    program = "import pathlib, sys; from gozero.runs import files\n"
    program += "try: files.write_whole(pathlib.Path('/dev/stdout'), b'new')\n"
    program += "except OSError as error: print(error)"
    with (tmp_path / "log").open("w") as log:
        subprocess.run([sys.executable, "-c", program], stdout=log, check=True, timeout=60)
    assert "Not a file to replace: '/dev/stdout'" in (tmp_path / "log").read_text()
    assert [*tmp_path.iterdir()] == [tmp_path / "log"]


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


def test_processes_that_write_a_shared_file_do_not_disturb_each_other(tmp_path, monkeypatch):
    path, write_all, inner = tmp_path / "results.csv", files._write_all, [b"second"]

    def interleaved(descriptor, data):
        write_all(descriptor, data[:3])
        if inner:  # the other process writes meanwhile
            files.write_whole(path, inner.pop(), shared=True)
            assert path.read_bytes() == b"second"
        write_all(descriptor, data[3:])

    monkeypatch.setattr(files, "_write_all", interleaved)
    files.write_whole(path, b"first", shared=True)
    assert path.read_bytes() == b"first"
    assert [*tmp_path.iterdir()] == [path]


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


def test_a_record_that_could_not_be_added_leaves_no_part(tmp_path, monkeypatch):
    path = tmp_path / "some.jsonl"
    files.add_line(path, {"game": 0})
    write, room = os.write, [5]

    def half(handle, data):
        if not room:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(handle, data[: room.pop()])

    monkeypatch.setattr(files.os, "write", half)
    with pytest.raises(OSError, match=r"No space left on device: .*some\.jsonl"):
        files.add_line(path, {"game": 1})
    monkeypatch.undo()
    files.add_line(path, {"game": 2})
    assert files.read_lines(path) == [{"game": 0}, {"game": 2}]


def test_the_last_record_is_extended_in_place(tmp_path, monkeypatch):
    path = tmp_path / "some.jsonl"
    files.add_line(path, {"game": 0})
    files.add_line(path, {"game": 1, "moves": [3]})
    files.extend_last_line(path, {"elo": 1.5})
    as_written = path.read_bytes()
    files.write_lines(path, [{"game": 0}, {"game": 1, "moves": [3], "elo": 1.5}])
    assert path.read_bytes() == as_written

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(files.os, "pwrite", killed)
    with pytest.raises(KeyboardInterrupt):
        files.extend_last_line(path, {"more": 2})
    found: list[files.Damaged] = []
    assert files.read_lines(path, damaged=found) == [
        {"game": 0},
        {"game": 1, "moves": [3], "elo": 1.5},
    ]
    assert [one.line for one in found] == [b'"more": 2}']
    path.write_text('{"game": 0}\n[1]\n')
    with pytest.raises(ValueError, match="the last line is not a JSON object"):
        files.extend_last_line(path, {"elo": 1.5})


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
