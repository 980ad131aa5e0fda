"""Self-play rows on disk: what a position was, what the search said, how the game ended.

A shard is one .npz of n rows, one row a searched position of a finished game:

    black, white, atari  u32[n, W]  the position's words (`gozero.go.bitboard`)
    ko, ply              i16[n]     the ko point; moves played before
    passes, to_play      i8[n]      passes in a row; the mover, 0 Black or 1 White
    komi                 f32[n]
    legal                u8[n, ceil(A / 8)]  legal actions, packed by ``np.packbits``
    policy_target        f32[n, A]  the share of each action in the root's visits
    action               i16[n]     the move played
    root_value           f32[n]     the search's value for the mover
    outcome              f32[n]     +1 won, -1 lost, 0 drawn, for the mover
    score                f32[n]     the final area score for the mover, komi counted
    truncated            bool[n]    the game was ended by the move limit and scored as it stood
    game                 i32[n]     the game's number in its run
    size, format         i32[]      the board size; the version of this list
"""

from __future__ import annotations

import io
import pathlib
from typing import Any

import numpy as np

from gozero.go import bitboard as bb
from gozero.go.coords import MAX_SIZE, MIN_SIZE
from gozero.runs.files import write_whole

FORMAT = 1
POSITION_FIELDS = ("black", "white", "atari", "ko", "ply", "passes", "to_play")

_DTYPES = {
    "black": np.uint32,
    "white": np.uint32,
    "atari": np.uint32,
    "ko": np.int16,
    "ply": np.int16,
    "passes": np.int8,
    "to_play": np.int8,
    "komi": np.float32,
    "legal": np.uint8,
    "policy_target": np.float32,
    "action": np.int16,
    "root_value": np.float32,
    "outcome": np.float32,
    "score": np.float32,
    "truncated": np.bool_,
    "game": np.int32,
}


def _row_shapes(size: int) -> dict[str, tuple[int, ...]]:
    words, actions = bb.layout(size).num_words, size * size + 1
    wide = {"black": words, "white": words, "atari": words, "policy_target": actions}
    wide["legal"] = -(-actions // 8)
    return {name: (wide[name],) if name in wide else () for name in _DTYPES}


def write(path: pathlib.Path, size: int, rows: dict[str, np.ndarray]) -> None:
    """Write one shard, whole or not at all.

    Raises:
      ValueError: a field missing, unknown, or of the wrong shape.
    """
    _check(rows, size, f"shard {path.name}")
    typed: dict[str, Any] = {name: np.asarray(rows[name], dtype) for name, dtype in _DTYPES.items()}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, size=np.int32(size), format=np.int32(FORMAT), **typed)
    write_whole(path, buffer.getvalue())


def read(path: pathlib.Path) -> tuple[int, dict[str, np.ndarray]]:
    """(board size, rows) of one shard.

    Raises:
      ValueError: a file that is no shard, of another format, or damaged.
    """
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as arrays:
            data = {name: arrays[name] for name in arrays.files}
        size, version = int(data.pop("size")), int(data.pop("format"))
    except Exception as error:  # zip files can be broken in many ways
        raise ValueError(f"shard {path}: damaged or not a shard ({error})") from error
    if version != FORMAT:
        raise ValueError(f"shard {path}: format {version}, this version reads {FORMAT}")
    if not MIN_SIZE <= size <= MAX_SIZE:
        raise ValueError(f"shard {path}: damaged, of board size {size}")
    _check(data, size, f"shard {path}")
    return size, data


def read_all(folder: pathlib.Path) -> tuple[int, dict[str, np.ndarray]]:
    """(board size, rows) of every shard in ``folder/shards``, in order of name.

    Raises:
      ValueError: no shards there, shards of several board sizes, or a bad one.
    """
    paths = sorted((folder / "shards").glob("*.npz"))
    if not paths:
        raise ValueError(
            f"data {folder}: no shards/*.npz there; give a folder that self-play wrote"
        )
    shards = [read(path) for path in paths]
    sizes = sorted({size for size, _ in shards})
    if len(sizes) > 1:
        raise ValueError(f"data {folder}: shards of several board sizes {sizes}")
    return sizes[0], {name: np.concatenate([rows[name] for _, rows in shards]) for name in _DTYPES}


def unpack_legal(packed: np.ndarray, size: int) -> np.ndarray:
    """u8[n, ceil(A / 8)] -> bool[n, A]."""
    return np.unpackbits(packed, axis=-1, count=size * size + 1).astype(bool)


def _check(rows: dict[str, np.ndarray], size: int, where: str) -> None:
    if set(rows) != set(_DTYPES):
        odd = sorted(set(rows) ^ set(_DTYPES))[0]
        raise ValueError(f"{where}: field {odd!r} is {'unknown' if odd in rows else 'missing'}")
    count = len(rows["to_play"])
    for name, shape in _row_shapes(size).items():
        if np.shape(rows[name]) != (count, *shape):
            raise ValueError(
                f"{where}: {name} has shape {np.shape(rows[name])}, expected {(count, *shape)}"
            )
