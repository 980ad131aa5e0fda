"""GOZERO_COMPILE: what it takes, and what it refuses."""

import pytest

from gozero.compile import mode


@pytest.mark.parametrize(("value", "expected"), [("", False), ("plain", True)])
def test_plain_is_asked_for_by_the_environment(monkeypatch, value, expected):
    monkeypatch.setenv(mode.VARIABLE, value)
    assert mode.plain() is expected


def test_without_the_variable_programs_are_not_plain(monkeypatch):
    monkeypatch.delenv(mode.VARIABLE, raising=False)
    assert not mode.plain()


def test_another_value_is_refused(monkeypatch):
    monkeypatch.setenv(mode.VARIABLE, "fast")
    with pytest.raises(ValueError, match="GOZERO_COMPILE=fast: expected plain"):
        mode.plain()
