# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # The same program on a mesh: TPUs, GPUs, many devices
#
# [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/gozero/gozero/blob/main/notebooks/tpu_mesh.ipynb)
#
# A TPU slice has several chips, and a server several GPUs. This notebook divides self-play and
# learning among the devices of a *mesh*, and shows that nothing else changes: the games are the
# same, bit for bit, and so is the code of the search. Without an accelerator it splits the CPU into
# four devices, so that it runs anywhere.

# %%
import importlib.util
import pathlib
import subprocess
import sys

if importlib.util.find_spec("gozero") is None:  # neither installed nor started from a checkout
    in_checkout = pathlib.Path("..", "pyproject.toml").exists()
    source = ".." if in_checkout else "git+https://github.com/gozero/gozero"
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", source], check=True)

# %%
import os
import re
import time

import jax

DEVICES = int(os.environ.get("GOZERO_DEVICES", "4"))
if jax.config.jax_platforms in (None, "", "cpu") and not os.environ.get("TPU_NAME"):
    jax.config.update("jax_num_cpu_devices", DEVICES)  # has an effect only if there is just the CPU

import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as Spec

import gozero
from gozero.apps.animation import games_svg
from gozero.go.rules import position_stones
from gozero.nets import network, weights
from gozero.play import devices, players, selfplay
from gozero.play.searches import gumbel_search
from gozero.play.selfplay_config import SelfPlayConfig
from gozero.search.move_choice import Temperature

# %% [markdown]
# Settings. Change them here, or through environment variables of these names.

# %%
SIMULATIONS = int(os.environ.get("GOZERO_SIMULATIONS", "16"))
GAMES = int(os.environ.get("GOZERO_GAMES", "32"))  # on all devices together
MOVES = int(os.environ.get("GOZERO_MOVES", "20"))
SEED = int(os.environ.get("GOZERO_SEED", "0"))
SIZE = 7

mesh = devices.mesh_of()
print(f"{mesh.size} devices: {', '.join(str(device) for device in mesh.devices.flat)}")

# %% [markdown]
# ## Self-play divided among devices
#
# Games are independent, so each device gets its share of the lanes and plays them in its own
# loops. Given the `mesh`, `make_play_moves` wraps the very same function in `jax.shard_map`; the
# parameters are replicated on every device.

# %%
rules = gozero.Rules(size=SIZE)
game = gozero.go_game(rules)
config, params, _ = weights.load(players.NETWORKS[SIZE])
evaluator = gozero.network_evaluator(rules, config, params)


def settings(batch):
    return SelfPlayConfig(
        game,
        batch,
        gumbel_search(SIMULATIONS),
        komi=9.0,
        temperature=Temperature(moves=12),
        stagger=0,
    )


games = GAMES // mesh.size * mesh.size
lanes = selfplay.start_on(settings(games), SEED, mesh)
play_moves = selfplay.make_play_moves(settings(games), evaluator, MOVES, mesh)
print("lanes lie on:", lanes.game.sharding)
compiled = play_moves.lower(params, lanes).compile()
started = time.perf_counter()
lanes, moves = jax.block_until_ready(compiled(params, lanes))
seconds = time.perf_counter() - started
print(f"{games} games, {MOVES} moves each: {games * MOVES / seconds:,.0f} moves/s")

# %% [markdown]
# ## Do the devices wait for each other?
#
# The compiled program shows it. If devices exchanged anything it would contain an `all-reduce`,
# `all-gather` or `collective-permute`.

# %%
KINDS = "all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter"
COLLECTIVE = rf"\b({KINDS})(?:-start)?\("  # some devices start and end an exchange separately
found = re.findall(COLLECTIVE, compiled.as_text())
print(f"self-play: {len(found)} exchanges between devices")

# %% [markdown]
# ## Are they the same games?
#
# Now each device's share is played again, alone on one device, without a mesh. A lane's random
# numbers depend on the seed, the share and the lane, never on the device.

# %%
alone = settings(games // mesh.size)
play_alone = selfplay.make_play_moves(alone, evaluator, MOVES)
share = games // mesh.size
for number in range(mesh.size):
    _, one = play_alone(params, selfplay.start(alone, SEED, number))
    here = slice(number * share, (number + 1) * share)
    same = np.array_equal(one.action, np.asarray(moves.action)[:, here])
    print(f"device {number}: {MOVES * share} moves, {'the same' if same else 'NOT the same'}")

# %%
draw = jax.jit(jax.vmap(jax.vmap(lambda position: position_stones(rules, position))))
boards = np.asarray(draw(jax.device_get(moves.position)))
some = np.arange(mesh.size) * share  # one game of each device
labels = [f"device {number}" for number in range(mesh.size)]
games_svg(boards[:, some], labels=labels, title="A game of each device", cell=14)

# %% [markdown]
# ## Learning on the same mesh
#
# Here devices must communicate: a step learns from the positions of all of them. It is enough to
# give the sharding of the arrays: the batch is divided, the parameters are replicated. The compiler
# inserts the communication, one sum of gradients over all devices.

# %%
divided, whole = NamedSharding(mesh, Spec(devices.AXIS)), NamedSharding(mesh, Spec())


def loss(params, seen, policy):
    said = network.apply(config, params, seen)
    return -(policy * jax.nn.log_softmax(said.policy_logits)).sum(-1).mean()


@jax.jit
def step(params, seen, policy):
    value, gradients = jax.value_and_grad(loss)(params, seen, policy)
    return jax.tree.map(lambda p, g: p - 1e-3 * g, params, gradients), value


# The network's input at the first move of each game, and the search's policy there.
start = jax.vmap(lambda _: gozero.init(rules, komi=9.0))(jnp.arange(games))
seen = jax.vmap(lambda state: evaluator.observe(state, state.position, None))(start)
policy = jnp.asarray(moves.policy_target)[0]
batch = jax.device_put((seen, policy), divided)
learnt = step.lower(jax.device_put(params, whole), *batch).compile()
kinds = sorted(set(re.findall(COLLECTIVE, learnt.as_text())))
print("learning exchanges by:", ", ".join(kinds) or "nothing; there is one device")
_, value = learnt(jax.device_put(params, whole), *batch)
_, value_alone = step(params, seen, policy)
print(f"loss {float(value):.5f} on the mesh, {float(value_alone):.5f} on one device")

# %% [markdown]
# The losses agree except in the last digits, because floating-point numbers are summed in another
# order. Games, boards and visits agree exactly, because the search adds integers.
#
# ## On a real TPU
#
# Install in a checkout with `pip install -e . 'jax[tpu]'` and run this notebook as it is. On
# several hosts the same command runs on each, with a folder that they share:
# `python -m train --preset 9x9-gpu --coordinator auto --out /shared/run`.
# `python -m train --preset 19x19-slice --dry-run --target v5litepod-16` compiles for a slice that
# need not be present, and estimates the time and cost. See `docs/accelerators.md`.
