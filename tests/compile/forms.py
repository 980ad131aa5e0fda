"""Run the forms for another platform on this one."""

from __future__ import annotations

import contextlib

import pytest
from jax.experimental import pallas

from gozero.compile import mode
from gozero.compile.kernels import paths


def take_forms_of(platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trace from now on the forms for a platform: "cpu", "gpu" or "tpu".

    They are compiled and run here. Functions traced earlier are unchanged.
    """

    def by_platform(*args, default, **others):
        return others.get(platform, default)(*args)

    monkeypatch.setattr(mode, "by_platform", by_platform)


@contextlib.contextmanager
def host_with(platform, monkeypatch):
    """Trace as on a machine that has such a device besides its CPU, with no target: programs then
    have their forms for all platforms until they are lowered."""
    with monkeypatch.context() as patch:
        patch.setattr(mode, "_has_only_a_cpu", lambda: False)
        patch.setattr(mode, "backend", lambda: platform)
        with mode._user_context()(("host", platform)):
            yield


PLATFORMS = {"tpu": "tpu", "cuda": "gpu"}


@contextlib.contextmanager
def form_of(platform, monkeypatch):
    """Trace as for another platform, with its kernels interpreted."""
    interpreted = lambda *args, **options: as_it_is(*args, **{**options, "interpret": True})
    as_it_is = pallas.pallas_call
    with monkeypatch.context() as patch, mode.target(PLATFORMS[platform]):
        patch.setattr(pallas, "pallas_call", interpreted)
        patch.setattr(paths, "settle", lambda: None)  # an interpreter writes immediately
        yield
