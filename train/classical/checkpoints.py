"""Checkpoints of `train.classical`: a state's arrays, and the flags that made it."""

from __future__ import annotations

import pathlib
from typing import TypeVar

import jax
import jax.numpy as jnp

from gozero.runs import arrays

State = TypeVar("State")


def save(path: pathlib.Path, flags: str, state: object) -> None:
    """Write a state, any pytree of arrays, with the text of its flags."""
    arrays.write(path, "checkpoint", _named_leaves(state), {"flags": flags})


def load(path: pathlib.Path, flags: str, like: State) -> State:
    """The state that `save` wrote.

    Args:
      path: the checkpoint.
      flags: the flags that it must have been made with.
      like: a state of the same structure, shapes and dtypes.

    Raises:
      ValueError: the file is missing, damaged, of other shapes, or made with other flags.
    """
    if not path.is_file():
        raise ValueError(f"--resume: there is no {path}")
    made_with = arrays.describe(path, "checkpoint").get("flags")
    if made_with != flags:
        raise ValueError(f"--resume: {path} was made with other flags: {made_with}")
    leaves = _named_leaves(like)
    saved, _ = arrays.read(path, "checkpoint", lambda about, names: leaves)
    return jax.tree.unflatten(jax.tree.structure(like), [jnp.asarray(saved[k]) for k in leaves])


def _named_leaves(state: object) -> dict[str, jax.Array]:
    return {f"leaf_{i}": leaf for i, leaf in enumerate(jax.tree.leaves(state))}
