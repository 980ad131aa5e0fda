"""The checkpoint from which ``gozero selfplay`` resumes: the games in play, in one file.

    state.safetensors    the lanes, the moves of their games so far, and the counts

It is written at intervals, after the rows of all finished games. Later moves are played again when
the run resumes, with the same result.
"""

from __future__ import annotations

import pathlib
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gozero.play.selfplay import Move, SelfPlayLanes
from gozero.runs import arrays

STATE = "state.safetensors"
KIND = "selfplay-state"

OpenGames = dict[int, list[Move]]
"""The number of a game -> its moves so far, in parts of [n] moves each."""


class SelfPlayCheckpoint(NamedTuple):
    """A checkpoint as it was read."""

    lanes: SelfPlayLanes  # on the device
    open_games: OpenGames
    counted: dict  # plain data: the counts of the writer and of the clock


def save(out: pathlib.Path, lanes: SelfPlayLanes, open_games: OpenGames, counted: dict) -> bool:
    """Write the state atomically and durably.

    A state too large to be read back is not written: the run is then replayed from the start.

    Returns:
      Whether it was written.

    Raises:
      OSError: it cannot be written; the previous state is still there.
    """
    parts = [part for number in sorted(open_games) for part in open_games[number]]
    moves = jax.tree.map(lambda *x: np.concatenate(x), *parts) if parts else None
    lengths = [
        [number, sum(len(part.ply) for part in open_games[number])] for number in sorted(open_games)
    ]
    contents = jax.device_get(
        _arrays_by_name("lanes", jax.tree.map(_plain_leaf, lanes))
    ) | _arrays_by_name("moves", moves)
    about = {"open": lengths, "counted": counted}
    if sum(np.asarray(array).nbytes for array in contents.values()) > 0.9 * arrays.MOST_BYTES:
        return False
    arrays.write(out / STATE, KIND, contents, about, durable=True)
    return True


def load(out: pathlib.Path, lanes: SelfPlayLanes, moves: Move) -> SelfPlayCheckpoint | None:
    """The state of a run; None if there is none yet.

    Args:
      out: the run's folder.
      lanes: the lanes at the start of a run; those loaded get the same shapes and shardings.
      moves: the shapes of the moves [T, B] of one call.

    Raises:
      ValueError: the state is damaged, or belongs to other games or another number of devices.
    """
    if not (out / STATE).exists():
        return None
    plain = jax.tree.map(_plain_leaf, lanes)

    def expected(about: dict, names: frozenset[str]) -> dict[str, Any]:
        numbers = [number for pair in about["open"] for number in pair]
        total = sum(length for _, length in about["open"])
        if not all(type(number) is int and number >= 0 for number in numbers):
            raise ValueError("invalid numbers or lengths of games")
        if type(seconds := about["counted"]["seconds"]) is not float or not 0 <= seconds < 1e9:
            raise ValueError(f"invalid number of seconds {seconds}")
        of_all_moves = lambda x: jax.ShapeDtypeStruct((total, *x.shape[2:]), x.dtype)
        move_arrays = _arrays_by_name("moves", jax.tree.map(of_all_moves, moves)) if total else {}
        return _arrays_by_name("lanes", plain) | move_arrays

    contents, about = arrays.read(out / STATE, KIND, expected, finite=False)
    return SelfPlayCheckpoint(
        lanes=jax.tree.map(_place_on_devices, lanes, _unflatten_like("lanes", plain, contents)),
        open_games=_split_games(_unflatten_like("moves", moves, contents), about["open"])
        if about["open"]
        else {},
        counted=about["counted"],
    )


def _split_games(moves: Move, lengths: list[list[int]]) -> OpenGames:
    games, begin = {}, 0
    for number, length in lengths:
        games[number] = [jax.tree.map(lambda x, i=begin, n=length: x[i : i + n], moves)]
        begin += length
    return games


def _arrays_by_name(prefix: str, tree: Any) -> dict[str, Any]:
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {prefix + jax.tree_util.keystr(path): leaf for path, leaf in leaves}


def _unflatten_like(prefix: str, tree: Any, contents: arrays.Arrays) -> Any:
    leaf_of = lambda path, _: contents[prefix + jax.tree_util.keystr(path)]
    return jax.tree_util.tree_map_with_path(leaf_of, tree)


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _plain_leaf(leaf: Any) -> Any:
    """A leaf as plain data; a random key as its key data."""
    return jax.random.key_data(leaf) if _is_key(leaf) else leaf


def _place_on_devices(like: Any, data: np.ndarray) -> Any:
    """The data on the devices, with the sharding of `like`."""
    if _is_key(like):
        return jax.device_put(jax.random.wrap_key_data(jnp.asarray(data)), like.sharding)
    return jax.device_put(data, like.sharding)
