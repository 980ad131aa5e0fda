"""Games divided among devices, in a separate process that has four."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest

from gozero.play import devices
from gozero.play.player import Choice, Player

ROOT = pathlib.Path(__file__).parents[2]


@pytest.mark.thorough
def test_four_devices_share_the_games(as_here):
    flags = f"{as_here.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.play.devices_check"],
        cwd=ROOT,
        env=as_here | {"XLA_FLAGS": flags.strip(), "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "all is as on one device\n"


def test_on_one_device_a_player_is_unchanged():
    player = Player(lambda *_: Choice(jnp.zeros(1), jnp.ones(1, bool), None))
    mesh = devices.make_mesh(1)
    assert (mesh.size, len(jax.local_devices())) == (1, 1)
    assert devices.over_mesh(player, mesh) is player
