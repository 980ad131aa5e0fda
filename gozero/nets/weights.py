"""Weights on disk: one ``NAME.npz`` of f32 arrays, and ``NAME.json`` that says what they are."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import pathlib
import zipfile
import zlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gozero.nets import network
from gozero.nets.features import FEATURES, feature_set
from gozero.nets.network import NetworkConfig
from gozero.runs.files import write_whole

FORMAT = "gozero-weights-1"
_SINCE = {"features": "compact", "pool_every": 0, "auxiliary": False, "dtype": "float32"}
"""What files of earlier versions do not say, and what they are."""

_SHAPE = [field.name for field in dataclasses.fields(NetworkConfig) if field.compare]
_TYPES = dict.fromkeys(("size", "blocks", "channels", "planes", "pool_every"), int)
_TYPES |= {"auxiliary": bool, "dtype": str, "sha256": str}
_UNREADABLE = (OSError, ValueError, EOFError, TypeError, AttributeError)
_UNREADABLE += (zipfile.BadZipFile, zlib.error, RecursionError)


def save(
    path: pathlib.Path | str,
    params: dict,
    config: NetworkConfig,
    size: int,
    **about: Any,
) -> pathlib.Path:
    """Write parameters to `path` (.npz) and their description beside it (.json).

    Args:
      path: the .npz file.
      params: as `network.init` makes them.
      config: the network's shape.
      size: the board size that they were trained for.
      about: anything else worth keeping: the command, the steps, the seed.

    Raises:
      ValueError: the path does not end in .npz.
    """
    path = _checked_name(path)
    buffer = io.BytesIO()
    arrays: dict[str, Any] = {k: np.asarray(v, np.float32) for k, v in _flatten(params).items()}
    np.savez(buffer, **arrays)
    description = {
        "format": FORMAT,
        "size": size,
        **{name: getattr(config, name) for name in _SHAPE},
        "planes": feature_set(config.features).num_planes,
        "sha256": hashlib.sha256(buffer.getvalue()).hexdigest(),
        **about,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, buffer.getvalue())
    write_whole(path.with_suffix(".json"), (json.dumps(description, indent=2) + "\n").encode())
    return path


def load(path: pathlib.Path | str, size: int | None = None) -> tuple[NetworkConfig, dict, dict]:
    """Read weights, in the order that `gozero.network_evaluator` takes them.

        config, params, about = load("net.npz")
        evaluator = gozero.network_evaluator(rules, config, params)

    Args:
      path: the .npz file.
      size: the board size that they must have been made for; None: any.

    Returns:
      (config, params, about): the network's shape, with the `board_size` of the weights, which
      evaluators of another board refuse; the parameters; the whole description.

    Raises:
      ValueError: a file that is missing, damaged, of another format, another board size or
        another shape of network; says which, and what would be right.
    """
    path = _checked_name(path)
    description = _read_description(path)
    made = description["size"]
    if size is not None and made != size:
        raise ValueError(
            f"weights {path}: made for {made}x{made}, not for {size}x{size}; "
            f"give weights made for {size}x{size}, or --size {made}"
        )
    try:
        data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != description["sha256"]:
            raise ValueError("its contents are not those its .json describes")
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            flat = {name: arrays[name] for name in arrays.files}
    except _UNREADABLE as error:
        raise ValueError(f"weights {path}: damaged or unreadable ({error})") from error
    try:
        config = NetworkConfig(**{name: description[name] for name in _SHAPE}, board_size=made)
    except ValueError as error:
        raise ValueError(f"weights {path}: {error}") from error
    return config, _unflatten(path, flat, config), description


def _checked_name(path: pathlib.Path | str) -> pathlib.Path:
    path = pathlib.Path(path)
    if path.suffix != ".npz":
        raise ValueError(
            f"weights {path}: not a .npz file; name the .npz, its .json lies beside it"
        )
    return path


def _read_description(path: pathlib.Path) -> dict:
    beside = path.with_suffix(".json")
    for needed in (path, beside):
        if not needed.is_file():
            raise ValueError(f"weights {path}: there is no file {needed}")
    try:
        description = json.loads(beside.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"weights {path}: {beside.name} is damaged ({error})") from error
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        raise ValueError(f"weights {path}: {beside.name} does not say format {FORMAT!r}")
    description = _SINCE | description
    wrong = [name for name, kind in _TYPES.items() if type(description.get(name)) is not kind]
    if wrong:
        raise ValueError(f"weights {path}: {beside.name} lacks {', '.join(wrong)}")
    features = description["features"]
    if not isinstance(features, str) or features not in FEATURES:
        raise ValueError(
            f"weights {path}: made for features {features!r}; "
            f"this version has {', '.join(FEATURES)}"
        )
    if description["planes"] != FEATURES[features].num_planes:
        raise ValueError(
            f"weights {path}: made for {description['planes']} input planes; "
            f"{features} features have {FEATURES[features].num_planes} in this version"
        )
    return description


def _flatten(params: dict) -> dict[str, Any]:
    leaves = jax.tree_util.tree_flatten_with_path(params)[0]
    return {"/".join(str(key.key) for key in path): leaf for path, leaf in leaves}


def _unflatten(path: pathlib.Path, flat: dict[str, np.ndarray], config: NetworkConfig) -> dict:
    num_blocks = len({name.split("/")[0] for name in flat if name.startswith("block_")})
    if num_blocks != config.blocks:
        raise ValueError(f"weights {path}: {num_blocks} blocks, its .json says {config.blocks}")
    shapes = network.shapes(config)
    expected = {name: leaf.shape for name, leaf in _flatten(shapes).items()}
    found = {name: array.shape for name, array in flat.items()}
    if found != expected:
        odd = sorted(set(found.items()) ^ set(expected.items()))[0][0]
        raise ValueError(
            f"weights {path}: array {odd!r} is {found.get(odd, 'missing')}, a network of "
            f"{config.blocks} blocks of {config.channels} needs {expected.get(odd, 'none')}"
        )
    for name, array in flat.items():
        if array.dtype != np.float32 or not np.isfinite(array).all():
            raise ValueError(f"weights {path}: array {name!r} is not of finite f32 numbers")
    leaves = [jnp.asarray(flat[name], jnp.float32) for name in expected]
    return jax.tree.unflatten(jax.tree.structure(shapes), leaves)
