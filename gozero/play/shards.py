"""Shards: files of training rows, as `gozero selfplay` and self-play workers write them.

    shards/NAME-000000.npz             the first shard of `gozero selfplay`
    shards/00000007/NAME-000000.npz    the first of worker NAME, by version 7 of the weights
    shards/00000007/NAME-000000.zst    the same in a bucket

A shard of n rows is one .npz, or one column-wise .safetensors (`runs.arrays.by_columns`) compressed
by Zstandard:

    position.black[0], ..., legal, outcome, ...   each non-empty array of `Rows`, as in the replay
                                                  buffer
    frequency   u16[n]   the row's sampling frequency, in units of 1 / `FREQUENCY_UNIT`
    about       JSON     the format, the rules of the games, and `About`
    sha256      u8[32]   digest of all of the above

Shards of earlier versions of `gozero selfplay`, without `about`, can be read too; they have no
ownership targets.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import pathlib
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

from gozero.games.go import go_game
from gozero.games.registry import NamedGame, make_game, named_game
from gozero.go.rules import Rules
from gozero.play import row_checks
from gozero.play.rows import (
    FREQUENCY_UNIT,
    MAX_FREQUENCY,
    PolicyDtype,
    Rows,
    row_shapes,
    with_policies,
)
from gozero.runs import arrays as codec
from gozero.runs.arrays import ArrayFile, ContentError
from gozero.runs.files import open_regular, write_whole
from gozero.search.game import Game

FORMATS = {".npz": "gozero-rows-1", ".zst": "gozero-rows-2"}
"""Formats by suffix; earlier versions also wrote gozero-rows-1, row by row, as .zst."""
FOLDER = "shards"
MOST_BYTES = 2**30
"""The largest shard file that is read, and its largest decompressed size."""

SUFFIXES = (".npz", ".zst")

_PATH = re.compile(
    r"(?:(?:.*/)?(?P<version>\d{8})/|.*/|)"
    r"(?P<worker>[A-Za-z0-9][A-Za-z0-9_.-]*)-(?P<number>\d{6,})\.(?:npz|zst)"
)
_LEVEL = 7
"""Zstandard's level: a microsecond a row of 9x9; a twelfth smaller than at its default, 3; no
further gain above 9."""
_ZSTD = b"\x28\xb5\x2f\xfd"  # the magic number of its frames


class About(NamedTuple):
    """A shard's metadata."""

    worker: str  # the name of the worker that wrote it, drawn at each start
    number: int  # the index of the shard among that worker's
    start: int  # 1; workers of earlier versions kept their names and numbered their starts
    iteration: int  # of the newest weights that played; long games may have begun with older ones
    games: int
    rows: int


_TYPES = {"worker": str, "number": int, "start": int, "iteration": int, "games": int, "rows": int}


class Shard(NamedTuple):
    """The contents of a shard."""

    about: About
    rows: Rows  # [n], NumPy
    frequency: np.ndarray  # u16[n], in units of 1 / `FREQUENCY_UNIT`


class Place(NamedTuple):
    """The identity of a shard within a run."""

    number: int
    worker: str
    version: int = 0  # of the newest weights that played; 0: the shard is in no version's folder


def key_of(place: Place, suffix: str = ".npz") -> str:
    """A shard's key in the run's store."""
    of_version = f"{place.version:08d}/" if place.version else ""
    return f"{FOLDER}/{of_version}{place.worker}-{place.number:06d}{suffix}"


def path_of(folder: pathlib.Path, place: Place) -> pathlib.Path:
    """A shard's path in the run's folder."""
    return folder / key_of(place)


def place_of(path: pathlib.Path | str) -> Place | None:
    """The shard that a path or key names; None if it is not a shard's name."""
    match = _PATH.fullmatch(str(path))
    return (
        Place(int(match["number"]), match["worker"], int(match["version"] or 0)) if match else None
    )


def rules_of(rules: Rules | NamedGame) -> dict:
    """The rules as a shard records them: Go's fields, or another game's name and size."""
    if isinstance(rules, NamedGame):
        return {"game": rules.name, "size": rules.size}
    fields = dataclasses.asdict(rules)
    if not rules.remember:  # as in files of earlier versions
        del fields["remember"]
    return fields


def game_of(rules: dict) -> Game:
    """The game for the rules that a shard records.

    Raises:
      ValueError, TypeError: the rules are invalid.
    """
    if "game" in rules:
        return make_game(rules["game"], rules.get("size"))
    return go_game(Rules(**rules))


def write(path: pathlib.Path, rules: dict, about: About, rows: Rows, frequency: np.ndarray) -> None:
    """Write one shard atomically and durably.

    Args:
      path: its path, see `path_of`.
      rules, about, rows, frequency: see `pack`.

    Raises:
      OSError: it cannot be written.
    """
    write_whole(path, pack(rules, about, rows, frequency, path.suffix), durable=True)


def pack(
    rules: dict, about: About, rows: Rows, frequency: np.ndarray, suffix: str = ".npz"
) -> bytes:
    """The bytes of a shard's file.

    Args:
      rules: the rules of the games, see `rules_of`.
      about: the other metadata.
      rows: [n], NumPy, with the dtypes of `row_shapes`.
      frequency: [n], in units of 1 / `FREQUENCY_UNIT`.
      suffix: the file's suffix, one of `SUFFIXES`; .zst takes less time and space.
    """
    header = {"format": FORMATS[suffix], "rules": rules, **about._asdict()}
    content = _arrays_by_name(jax.tree.map(np.asarray, rows)) | {
        "frequency": np.asarray(frequency, np.uint16),
        "about": np.frombuffer(json.dumps(header).encode(), np.uint8),
    }
    arrays: dict[str, Any] = {**content, "sha256": _digest(content)}
    if suffix == ".zst":
        return _zstandard().ZstdCompressor(level=_LEVEL).compress(codec.by_columns(arrays))
    data = io.BytesIO()
    np.savez_compressed(data, **arrays)
    return data.getvalue()


def _zstandard() -> Any:
    try:
        import zstandard
    except ImportError as error:
        raise ValueError(
            ".zst shards need the package zstandard: pip install 'gozero[cloud]'"
        ) from error
    return zstandard


def _decompressed(data: bytes) -> bytes:
    """The decompressed content of a Zstandard frame; ContentError if it would be too large."""
    zstandard = _zstandard()
    size = zstandard.frame_content_size(data)
    if not 0 <= size <= min(MOST_BYTES, codec.SMALL + codec.MOST_RATIO * len(data)):
        raise ContentError(f"its {len(data)} bytes would decompress to {size}, which is too many")
    return zstandard.ZstdDecompressor(max_window_size=2**27).decompress(data)


def read(
    path: pathlib.Path | str,
    rules: dict,
    policy_dtype: PolicyDtype = "uint8",
    past_boards: int = 0,
    data: bytes | None = None,
) -> Shard:
    """Read one shard of a run.

    Args:
      path: its path, see `path_of`; with `data`, only its name.
      rules: the rules of the run's games, see `rules_of`.
      policy_dtype: the dtype of policy targets to return, such as the replay buffer's.
      past_boards: H, the number of them in each row.
      data: the file's content, if it is not to be read from the disk.

    Raises:
      OSError: the file cannot be read now.
      ValueError: a file that is not a shard, is damaged, has another format or other rules, or has
        rows that cannot be learnt from; the message says which.
    """
    with _open(path, data) as file:
        header = _read_header(file)
        if header is None:
            raise ContentError(
                "written by an earlier version; only `python -m train --data` reads it"
            )
        about, recorded = _about(header), _with_default_size(header["rules"])
        differing = [name for name in rules if recorded.get(name) != rules[name]]
        if differing:
            name = differing[0]
            raise ContentError(
                f"its games have {name} {recorded.get(name)!r}; this run's have {rules[name]!r}"
            )
        place = place_of(path)
        if place is None or (place.number, place.worker) != (about.number, about.worker):
            raise ContentError(
                f"renamed; its contents are number {about.number} of {about.worker!r}"
            )
        return in_dtype(_shard(file, about, rules, past_boards), policy_dtype)


@contextlib.contextmanager
def _open(path: pathlib.Path | str, data: bytes | None = None) -> Iterator[ArrayFile]:
    """Open the file; any fault in it becomes a ValueError that names it."""
    with codec.as_value_error(f"shard {path}", "a shard", OSError):
        if data is None and str(path).endswith(".zst"):
            with open_regular(pathlib.Path(path), MOST_BYTES) as file:
                data = file.read()
        if data is not None and data.startswith(_ZSTD):
            data = _decompressed(data)
        with ArrayFile(pathlib.Path(path), MOST_BYTES, data) as file:
            yield file


def read_folder(folder: pathlib.Path) -> tuple[dict, Rows, np.ndarray]:
    """(the rules, the rows [n], their sampling frequencies u16[n]) of all shards in
    ``folder/shards``, in order of name.

    Games of different workers, or of different starts of one, get different numbers.

    Raises:
      ValueError: no such folder, a folder without shards or rows, shards with different rules, or a
        bad shard.
    """
    if not folder.is_dir():
        raise ValueError(f"data {folder}: no such folder; name one that self-play wrote")
    entries = (folder / FOLDER).rglob("[!.]*")
    paths = sorted(path for path in entries if path.suffix in SUFFIXES)
    if not paths:
        raise ValueError(
            f"data {folder}: it has no {FOLDER}/*.npz; name a folder that self-play wrote"
        )
    contents = [_read_any(path, folder) for path in paths]
    rules = contents[0][0]
    for path, (other_rules, _) in zip(paths, contents, strict=True):
        if other_rules != rules:
            raise ValueError(
                f"data {folder}: its shards have different rules: {rules} in {paths[0].name}, "
                f"{other_rules} in {path.name}"
            )
    pasts = [shard.rows.past for _, shard in contents]
    boards = [0 if past is None else past.shape[1] for past in pasts]
    for path, number in zip(paths, boards, strict=True):
        if number != boards[0]:
            raise ValueError(
                f"data {folder}: rows of {paths[0].name} have {boards[0]} past boards, those of "
                f"{path.name} {number}; keep the shards of different runs in different folders"
            )
    dtypes = {shard.rows.policy_target.dtype.name for _, shard in contents}
    by_width: tuple[PolicyDtype, ...] = "float32", "float16", "uint8"
    widest = by_width[[dtype in dtypes for dtype in by_width].index(True)]
    shards = [in_dtype(shard, widest) for _, shard in contents]
    if not sum(shard.about.rows for shard in shards):
        raise ValueError(f"data {folder}: its shards contain no rows; play some games to the end")
    rows = jax.tree.map(lambda *parts: np.concatenate(parts), *(shard.rows for shard in shards))
    starts = [(shard.about.worker, shard.about.start) for shard in shards]
    if len(set(starts)) > 1:
        rows = rows.replace(game=_unique_game_numbers(starts, shards, rows.game))
    return rules, rows, np.concatenate([shard.frequency for shard in shards])


def _unique_game_numbers(
    starts: list[tuple[str, int]], shards: list[Shard], game: np.ndarray
) -> np.ndarray:
    """i32[n]: game numbers that differ between workers and starts."""
    order = {start: i for i, start in enumerate(sorted(set(starts)))}
    counts = [shard.about.rows for shard in shards]
    source = np.repeat([order[start] for start in starts], counts)
    numbers = np.unique(np.stack([source, game]), axis=1, return_inverse=True)[1]
    return numbers.reshape(-1).astype(np.int32)


def _read_any(path: pathlib.Path, folder: pathlib.Path) -> tuple[dict, Shard]:
    """(the rules, the shard), in this format or in `gozero selfplay`'s earlier one."""
    with _open(path) as file:
        header = _read_header(file)
        if header is None:
            return _read_format_1(folder, file)
        about, rules = _about(header), _with_default_size(header["rules"])
        try:
            game_of(rules)
        except (ValueError, TypeError) as error:
            raise ContentError(f"its games have invalid rules ({error})") from error
        past = file.entries.get("past")
        past_boards = past.shape[1] if past and past.shape[1:] else 0
        return rules, _shard(file, about, rules, past_boards)


def _with_default_size(rules: dict) -> dict:
    """The rules that a shard records, completed: earlier workers omitted Hex's default size."""
    if rules.get("game") == "hex" and rules.get("size") is None:
        return rules_of(named_game("hex"))
    return rules


def _read_header(file: ArrayFile) -> Any:
    """The file's `about`, parsed; None in `gozero selfplay`'s earlier format."""
    if "about" not in file.entries and "format" in file.entries:
        return None
    header = json.loads(file.take("about").tobytes())
    if header["format"] not in FORMATS.values():
        formats = " and ".join(map(repr, FORMATS.values()))
        raise ContentError(f"its format is {header['format']!r}; this version reads {formats}")
    return header


def _about(header: dict) -> About:
    invalid = [name for name, kind in _TYPES.items() if type(header.get(name)) is not kind]
    if invalid or not isinstance(header.get("rules"), dict):
        raise ContentError(f"its metadata has no valid {', '.join(invalid or ['rules'])}")
    return About(**{name: header[name] for name in _TYPES})


def in_dtype(shard: Shard, policy_dtype: PolicyDtype) -> Shard:
    """The shard with policy targets of the dtype."""
    return shard._replace(rows=with_policies(shard.rows, policy_dtype))


def _shard(file: ArrayFile, about: About, rules: dict, past_boards: int = 0) -> Shard:
    """Read a shard's arrays; refuse unexpected or damaged ones, and rows that no game produces."""
    entry = file.entries.get("policy_target")
    floats: dict[str, PolicyDtype] = {"float16": "float16", "float32": "float32"}
    policy_dtype = "uint8" if entry is None else floats.get(str(entry.dtype), "uint8")
    shapes = row_shapes(game_of(rules), policy_dtype, past_boards)
    all_rows = lambda x: jax.ShapeDtypeStruct((about.rows, *x.shape), x.dtype)
    expected = _arrays_by_name(jax.tree.map(all_rows, shapes))
    expected["frequency"] = jax.ShapeDtypeStruct((about.rows,), np.uint16)
    arrays = file.unpack(expected | {"sha256": jax.ShapeDtypeStruct((32,), np.uint8)})
    if arrays.pop("sha256").tobytes() != _digest(arrays | file.taken).tobytes():
        raise ContentError("damaged; its contents do not match its SHA-256")
    return _checked(arrays, about, rules, shapes)


def _checked(arrays: dict[str, np.ndarray], about: About, rules: dict, shapes: Rows) -> Shard:
    """The shard; refuses rows that no game produces."""
    codec.check_finite(arrays)
    if np.any(arrays["frequency"] > MAX_FREQUENCY * FREQUENCY_UNIT):
        raise ContentError(f"it has a frequency above {MAX_FREQUENCY}")
    rows = _rows(arrays, shapes, about.rows)
    try:
        row_checks.check(game_of(rules) if "game" in rules else Rules(**rules), rows)
    except ValueError as error:
        raise ContentError(error) from error
    return Shard(about, rows, arrays["frequency"])


def _name(path: Any) -> str:
    return jax.tree_util.keystr(path).lstrip(".")


def _arrays_by_name(rows: Rows) -> dict[str, Any]:
    """{name: array} of the non-empty arrays of rows [n]."""
    leaves = jax.tree_util.tree_leaves_with_path(rows)
    return {_name(path): leaf for path, leaf in leaves if 0 not in leaf.shape[1:]}


def _rows(arrays: dict[str, np.ndarray], shapes: Rows, count: int) -> Rows:
    def one(path, shape):
        return arrays.get(_name(path), np.zeros((count, *shape.shape), shape.dtype))

    return jax.tree_util.tree_map_with_path(one, shapes)


def _digest(arrays: dict[str, np.ndarray]) -> np.ndarray:
    """u8[32]: the SHA-256 of names, dtypes, shapes and bytes."""
    return np.frombuffer(bytes.fromhex(codec.digest(arrays)), np.uint8)


def _read_format_1(folder: pathlib.Path, file: ArrayFile) -> tuple[dict, Shard]:
    """(the rules, the shard) from `gozero selfplay`'s format 1, whose rules are in config.json.

    Its arrays are those of a `Position`, komi, legal, policy_target f32[n, A], action, root_value,
    outcome, score, truncated and game; and, once per file, size and format.
    """
    size, version = int(file.take("size")), int(file.take("format"))
    if version != 1:
        raise ValueError(f"format {version}")
    rules = _format_1_rules(folder, size)
    shapes, count = row_shapes(go_game(rules)), file.entries["to_play"].shape[0]
    arrays = file.unpack(_format_1_arrays(shapes, count, file.entries["action"].dtype))
    del arrays["action"]
    counted = ~arrays.pop("truncated")
    row_arrays: dict[str, np.ndarray] = {"frequency": np.full(count, FREQUENCY_UNIT, np.uint16)}
    for name in vars(shapes.position):
        array = arrays.pop(name)
        columns = array.T if array.ndim == 2 else ()
        row_arrays |= {f"position.{name}[{i}]": words for i, words in enumerate(columns)}
        row_arrays |= {} if array.ndim == 2 else {f"position.{name}": array}
    weights = {"policy_weight": np.ones(count), "ownership_weight": np.zeros(count)}
    weights |= {"value_weight": counted, "score_weight": counted}
    row_arrays |= {name: np.asarray(array, np.float16) for name, array in weights.items()} | arrays
    row_arrays["policy_target"] = np.asarray(row_arrays["policy_target"], np.float16)
    games = len(np.unique(row_arrays["game"]))
    about = About("selfplay", 0, 1, -1, games, count)
    return rules_of(rules), _checked(row_arrays, about, rules_of(rules), shapes)


def _format_1_arrays(shapes: Rows, count: int, action: np.dtype) -> dict[str, Any]:
    """Shapes and dtypes of the arrays in a shard of format 1, of n rows."""
    one = lambda dtype, *shape: jax.ShapeDtypeStruct((count, *shape), dtype)
    names = ("game", "komi", "legal", "outcome", "root_value", "score")
    expected = {name: one((x := getattr(shapes, name)).dtype, *x.shape) for name in names}
    expected |= {"policy_target": one(np.float32, *shapes.policy_target.shape)}
    expected |= {"truncated": one(np.bool_), "action": one(action)}
    for name, field in vars(shapes.position).items():
        words = isinstance(field, tuple)
        expected[name] = one(np.uint32, len(field)) if words else one(field.dtype)
    return expected


def _format_1_rules(folder: pathlib.Path, size: int) -> Rules:
    """The rules of a folder's games from its config.json; the default ones if it is unusable."""
    try:
        config = json.loads((folder / "config.json").read_text())
        return Rules(
            size=size,
            ko=config.get("ko", "positional"),
            suicide=config.get("suicide", False),
            max_moves=config.get("max_moves"),
        )
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return Rules(size=size)
