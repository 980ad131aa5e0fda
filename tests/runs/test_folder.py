"""The folder of a run: agreeing settings, one process at a time, and what a kill leaves."""

from __future__ import annotations

import errno
import json
import pathlib

import pytest

from gozero.runs import folder as folders
from gozero.runs.folder import RunFolder


def opened(path, **settings):
    """Open the folder of a run with these settings."""

    def must_agree(before):
        folders.must_agree(path, "run", before, settings, {"games"})

    run_folder = RunFolder(path, "run", must_agree, "run.lock")
    run_folder.write_config(settings)
    return run_folder


def test_a_run_resumes_with_matching_settings(tmp_path):
    path = tmp_path / "run"
    with opened(path, games=2, side={"max_visits": 4}) as run_folder:
        assert (run_folder.before, run_folder.manifest) == (None, {})
        run_folder.write_manifest({"jax": "0.10"})
    with opened(path, games=3, side={"max_visits": 4}) as run_folder:
        assert run_folder.before == {"games": 2, "side": {"max_visits": 4}}
        assert run_folder.manifest == {"jax": "0.10"}
    with pytest.raises(
        ValueError,
        match=r"^out: .*run contains a run with other flags: --side.max-visits was 4 and is 5; "
        "give the same flags to resume it, or name a new folder$",
    ):
        opened(path, games=3, side={"max_visits": 5})
    assert json.loads((path / "config.json").read_text())["games"] == 3


def test_one_process_holds_the_lock_and_a_refusal_releases_it(tmp_path):
    with opened(tmp_path / "run", games=2):
        with pytest.raises(ValueError, match=r"^out: .*run is being written by another process$"):
            opened(tmp_path / "run", games=3)
        with pytest.raises(ValueError, match="--seed was None and is 1"):
            opened(tmp_path / "run", games=2, seed=1)
    with opened(tmp_path / "run", games=2):
        pass


def test_a_folder_of_something_else_is_left_unchanged(tmp_path):
    (tmp_path / "notes").touch()
    with pytest.raises(
        ValueError, match="is not empty, and nothing is overwritten; name a new folder"
    ):
        opened(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["notes"]


@pytest.mark.parametrize("text", ["[1]", "{", "\xff", "[" * 100_000])
def test_an_invalid_config_is_named(tmp_path, text):
    (tmp_path / "config.json").write_text(text, encoding="latin-1")
    with pytest.raises(
        ValueError, match=r"out: .*config.json (does not belong to a run|cannot be read)"
    ):
        opened(tmp_path)


@pytest.mark.parametrize(
    "facts", [12, {"session": None}, {"sessions": [3]}, {"sessions": [{}]}, {"evaluators": [1]}]
)
def test_an_invalid_manifest_is_named(tmp_path, facts):
    with opened(tmp_path / "run", games=2) as run_folder:
        run_folder.write_manifest(facts)
    with pytest.raises(ValueError, match=r"manifest\.json does not belong to a run"):
        opened(tmp_path / "run", games=2)


def test_a_folder_is_resumed_after_a_kill_during_its_creation(tmp_path):
    for names in ((".probe",), ("run.lock", "config.json.part", ".probe")):
        path = tmp_path / str(len(names))
        path.mkdir()
        for name in names:
            (path / name).touch()
        with opened(path, games=2) as run_folder:
            assert run_folder.before is None
        assert not (path / ".probe").exists()


def test_a_url_is_not_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for url in ("s3://bucket/run", "GS://bucket/run"):
        with pytest.raises(ValueError, match="is a URL; only python -m train writes to buckets"):
            folders.claim(pathlib.Path(url))
    assert list(tmp_path.iterdir()) == []


def test_an_error_while_opening_releases_and_names_the_folder(tmp_path):
    full, error = OSError(errno.ENOSPC, "No space left on device"), r"^out: .*run cannot be written"
    run_folder = opened(tmp_path / "run")
    with pytest.raises(ValueError, match=error), run_folder.opening():
        raise full
    with (
        opened(tmp_path / "run") as run_folder,
        pytest.raises(OSError, match=error),
        run_folder.writing(),
    ):
        raise full


def test_without_file_locks_it_warns_and_works(tmp_path, monkeypatch, capsys):
    def flock(file, how):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(folders.fcntl, "flock", flock)
    with opened(tmp_path / "run"):
        pass
    stderr = capsys.readouterr().err
    assert stderr.count("\n") == 1
    assert "run.lock: cannot be locked (Function not implemented); make sure that nothing" in stderr


def test_a_manifest_lists_productive_sessions():
    ran = lambda commit: {"git_commit": commit, "seed": 1}
    first = folders.with_sessions(ran("a"), {}, 0)
    assert first["sessions"] == [{"git_commit": "a", "done": 0}]
    stopped = folders.with_sessions(ran("b"), first, 5)
    last = folders.with_sessions(ran("c"), stopped, 5)  # b got nothing done
    assert [(one["git_commit"], one["done"]) for one in last["sessions"]] == [("a", 0), ("c", 5)]
    old = folders.with_sessions(ran("d"), ran("a"), 3)  # a manifest from before sessions were kept
    assert [(one["git_commit"], one["done"]) for one in old["sessions"]] == [("a", 0), ("d", 3)]
    assert (old["git_commit"], old["seed"]) == ("d", 1)
