"""Fixtures for programs kept in a temporary folder."""

import pytest

from gozero.compile import executables


@pytest.fixture
def kept(monkeypatch, tmp_path):
    """The folder in which a command keeps its programs."""
    place = tmp_path / "programs"
    place.mkdir(0o700)
    monkeypatch.setattr(executables, "_is_on", True)
    monkeypatch.setattr(executables, "folder", lambda: place)
    monkeypatch.setattr(executables, "loading", {})
    monkeypatch.setattr(executables, "on_first_use", lambda name: None)
    return place


@pytest.fixture
def never_traced(monkeypatch):
    def unwanted(self):
        raise AssertionError("it is traced")

    def forbid():
        for name in ("jitted", "traced"):
            monkeypatch.setattr(executables.CachedFunction, name, property(unwanted))

    return forbid
