"""The file that a command of `train.classical` writes, and the checkpoint beside it. No JAX."""

from __future__ import annotations

import pathlib

from gozero.runs import arrays


def check_out(out: pathlib.Path, resume: bool) -> None:
    """Raises ValueError for an --out of another suffix, or one that exists without --resume."""
    arrays.check_name(out, "--out")
    if out.exists() and not resume:
        raise ValueError(f"--out {out} already exists; name a new file, or give --resume")


def checkpoint_beside(out: pathlib.Path) -> pathlib.Path:
    return out.with_suffix(".checkpoint")
