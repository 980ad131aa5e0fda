"""``python -m train average --weights A B --out C``: the mean of several networks' weights."""

from __future__ import annotations

import dataclasses
import pathlib
import sys
from collections.abc import Sequence

import jax

from gozero.apps import flags
from gozero.nets import weights
from gozero.nets.network import NetworkConfig
from gozero.runs import arrays, settings
from gozero.runs.settings import setting

PROG = "python -m train average"


@dataclasses.dataclass(frozen=True)
class AverageConfig:
    """Average the weights of networks of one training: iterations of a run, or the network that a
    run began with (--weights) and one that it ended with. The mean is often stronger than either
    (Izmailov et al. 2018; Wortsman et al. 2022). Means of unrelated networks are useless."""

    weights: tuple[pathlib.Path, ...] = setting()
    """At least two networks made by `python -m train`, of the same shape and board size."""

    out: pathlib.Path = setting()
    """The new file to write, NAME.safetensors."""

    EXAMPLES = (
        "python -m train average --weights first.safetensors second.safetensors "
        "--out mean.safetensors",
        "python -m train average --weights runs/zero/weights/003[6-9]*.safetensors "
        "--out mean.safetensors",
    )

    def __post_init__(self):
        settings.check(self)
        if len(self.weights) < 2:
            raise ValueError(f"--weights: {len(self.weights)} given; expected at least 2")
        arrays.check_new(self.out, with_folder=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit status: 0, 1 if the disk cannot be written, 2 for bad input."""
    argv = sys.argv[1:] if argv is None else list(argv)
    config = flags.parse(AverageConfig, argv, prog=PROG)
    with flags.exit_on_error(PROG):
        print(run(config, [PROG, *argv]))
    return 0


def run(config: AverageConfig, command: Sequence[str]) -> pathlib.Path:
    """Do what `main` does; returns the file, which records the command.

    Raises:
      ValueError: weights that cannot be read, are KataGo's, are a run's first, which are random, or
        have another shape or board size than the first; the message names them.
    """
    networks = [(path, *weights.load_own(path)) for path in config.weights]
    for path, _, _, about in networks:
        if about.get("random"):
            raise ValueError(f"--weights {path}: random weights, from which a run began; omit them")
    first, *others = networks
    path, shape, params, about = first
    for other, other_shape, *_ in others:
        if _form(other_shape) != _form(shape):
            raise ValueError(
                f"--weights {other}: it is {_text(other_shape)}, but {path} is {_text(shape)}; "
                "expected networks of one shape and board size"
            )
    mean = jax.tree.map(lambda *x: sum(x) / len(x), params, *(one[2] for one in others))
    kept = {name: about[name] for name in ("preset", "game", "komi") if name in about}
    sources = [about["sha256"], *(one[3]["sha256"] for one in others)]
    return weights.save(config.out, mean, shape, command=[*command], mean_of=sources, **kept)


def _form(shape: NetworkConfig) -> tuple[int | None, NetworkConfig]:
    """What must agree: the dtype of the computation need not."""
    return shape.board_size, dataclasses.replace(shape, dtype="float32")


def _text(shape: NetworkConfig) -> str:
    size, form = _form(shape)
    return f"for {size}x{size}, {form}"


if __name__ == "__main__":
    sys.exit(main())
