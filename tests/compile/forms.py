"""What is compiled for another platform, on this one."""

from __future__ import annotations

import pytest

from gozero.compile import mode


def take_forms_of(platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have whatever is traced from now on the form that it has on a platform: "cpu", "gpu", "tpu".

    It is compiled and run here. Functions that were traced before stay as they are.
    """

    def by_platform(*args, default, **others):
        return others.get(platform, default)(*args)

    monkeypatch.setattr(mode, "by_platform", by_platform)
