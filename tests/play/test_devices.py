"""Games divided among devices, in a separate process that has four."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

from gozero.play import devices
from gozero.play.player import Choice, Player
from tests import several_devices


@pytest.mark.thorough
def test_four_devices_share_the_games(as_here):
    line = several_devices.last_line("tests.play.devices_check", environment=as_here)
    assert line == "all is as on one device"


def test_on_one_device_a_player_is_unchanged():
    player = Player(lambda *_: Choice(jnp.zeros(1), jnp.ones(1, bool), None))
    mesh = devices.make_mesh(1)
    assert (mesh.size, len(jax.local_devices())) == (1, 1)
    assert devices.over_mesh(player, mesh) is player
