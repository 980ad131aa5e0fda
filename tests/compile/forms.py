"""What is compiled for another platform, on this one."""

from __future__ import annotations

import contextlib

import pytest
from jax.experimental import pallas

from gozero.compile import mode
from gozero.compile.kernels import paths


def take_forms_of(platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have whatever is traced from now on the form that it has on a platform: "cpu", "gpu", "tpu".

    It is compiled and run here. Functions that were traced before stay as they are.
    """

    def by_platform(*args, default, **others):
        return others.get(platform, default)(*args)

    monkeypatch.setattr(mode, "by_platform", by_platform)


PLATFORMS = {"tpu": "tpu", "cuda": "gpu"}


@contextlib.contextmanager
def form_of(platform, monkeypatch):
    """Trace as for another platform, whose kernels are interpreted."""
    interpreted = lambda *args, **options: as_it_is(*args, **{**options, "interpret": True})
    as_it_is = pallas.pallas_call
    with monkeypatch.context() as patch, mode.target(PLATFORMS[platform]):
        patch.setattr(pallas, "pallas_call", interpreted)
        patch.setattr(paths, "settle", lambda: None)  # an interpreter writes at once
        yield
