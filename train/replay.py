"""Self-play rows on the device, and what the network sees of one."""

from __future__ import annotations

import pathlib

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np

from gozero.go import symmetry
from gozero.go.rules import GameState, Position, Rules
from gozero.nets import features
from gozero.players import shards


class Rows(flax.struct.PyTreeNode):
    """Searched positions of finished games; a leading axis [n] for n of them."""

    position: Position
    komi: jax.Array  # f32
    legal: jax.Array  # u8[ceil(A / 8)], packed
    policy_target: jax.Array  # f32[A]: shares of the root's visits
    outcome: jax.Array  # f32: +1 won, -1 lost, 0 drawn, for the mover


class Example(flax.struct.PyTreeNode):
    """One row as the network and the losses take it."""

    planes: jax.Array  # f32[size, size, C]
    legal: jax.Array  # bool[A]
    policy_target: jax.Array  # f32[A]
    outcome: jax.Array  # f32[]


def load(folder: pathlib.Path, holdout_fraction: float, seed: int) -> tuple[int, Rows, Rows | None]:
    """Read a self-play folder.

    Returns:
      (board size, rows to train on, rows of the games held out or None if that is no game).

    Raises:
      ValueError: no such folder, no shards, a bad one, or rows that cannot be trained on.
    """
    if not folder.is_dir():
        raise ValueError(f"data {folder}: there is no such folder; give one that self-play wrote")
    size, arrays = shards.read_all(folder)
    _check(folder, arrays)
    held = _held_out(arrays["game"], holdout_fraction, seed)
    held_rows = _to_device(arrays, held) if held.any() else None
    return size, _to_device(arrays, ~held), held_rows


def _check(folder: pathlib.Path, arrays: dict[str, np.ndarray]) -> None:
    target, outcome = arrays["policy_target"], arrays["outcome"]
    if not len(outcome):
        raise ValueError(f"data {folder}: its shards hold no rows; play some games to the end")
    if not (np.all(target >= 0) and np.allclose(target.sum(axis=1), 1, atol=1e-3)):
        raise ValueError(f"data {folder}: a policy_target is not a probability distribution")
    if not (np.all(np.abs(outcome) <= 1) and np.isfinite(arrays["komi"]).all()):
        raise ValueError(f"data {folder}: an outcome is not in [-1, 1] or a komi is not finite")


def _held_out(game: np.ndarray, fraction: float, seed: int) -> np.ndarray:
    """bool[n]: rows of the held-out games; whole games, for rows of one game are alike."""
    games = np.unique(game)
    chosen = np.random.default_rng(seed).permutation(games)[: int(fraction * len(games))]
    return np.isin(game, chosen)


def _to_device(arrays: dict[str, np.ndarray], keep: np.ndarray) -> Rows:
    kept = {name: array[keep] for name, array in arrays.items()}
    others = ("komi", "legal", "policy_target", "outcome")

    def field(name):
        array = kept[name]
        return tuple(map(jnp.asarray, array.T)) if array.ndim == 2 else jnp.asarray(array)

    position = Position(**{name: field(name) for name in shards.POSITION_FIELDS})
    return Rows(position=position, **{name: jnp.asarray(kept[name]) for name in others})


def take(rows: Rows, indices: jax.Array) -> Rows:
    """Some of the rows."""
    return jax.tree.map(lambda x: x[indices], rows)


def num_rows(rows: Rows) -> int:
    return rows.outcome.shape[0]


def example(rules: Rules, row: Rows, k: jax.Array) -> Example:
    """One row, moved by symmetry k: planes, legal actions and policy alike."""
    state = GameState(row.position, row.komi, jnp.bool_(False), past=None, size=rules.size)
    legal = jnp.unpackbits(row.legal, count=rules.num_actions).astype(bool)
    return Example(
        planes=symmetry.map_planes(features.planes(rules, state, row.position), k),
        legal=symmetry.map_actions(rules.size, legal, k),
        policy_target=symmetry.map_actions(rules.size, row.policy_target, k),
        outcome=row.outcome,
    )
