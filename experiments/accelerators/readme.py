"""Tables of README.md and of docs/accelerators.md, from the records in results/.

python -m experiments.records      # writes them; each is a function of its records' paths
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

from experiments.accelerators import run, slices, table
from experiments.output import markdown, read_csv
from gozero.compile import ahead
from train import dry_run

RowOf = Mapping[str, Any]


def rows(path: pathlib.Path, before: pathlib.Path | None = None) -> str:
    """The rows that `run` measured, with earlier rows of the same programs, if any."""
    return table.of(run.read(path), run.read(before) if before else None)


def leaves(path: pathlib.Path, more: pathlib.Path) -> str:
    """Self-play of `9x9-cpu` on a v5e, with one leaf per step and with four."""
    lines = []
    for name, count in (("play-9x9-cpu", 1), ("play-9x9-cpu-leaves", 4)):
        row = _newest([*run.read(path), *run.read(more)], name, "v5e")
        share = f"{row['network_share']:.0%}"
        cells = [name, count, f"{256 * count:,}", f"{row['round_ms']:.3g} ms"]
        lines.append([*cells, table.rate(row["units_per_s"], "simulations"), share])
    head = ["program", "leaves", "simulations a round", "a round", "estimate", "network"]
    return markdown(head, lines)


def playouts(path: pathlib.Path) -> str:
    """The times that `bundles` estimated for whole playouts in a kernel."""
    by_program = _by_program(path, "playouts_per_s")
    lines = [
        [
            name,
            f"{row['kernel_us']:,.0f} us",
            f"{row['area_us']:,.0f} us",
            f"{row['around_us']:,.0f} us",
            table.rate(row["playouts_per_s"], "playouts"),
        ]
        for name, row in by_program.items()
    ]
    return markdown(["program", "in the kernel", "areas", "around it", "estimate"], lines)


_KERNELS = {
    "descent": ("descend",),
    "ancestors": ("read_along",),
    "backup and choices": ("back_up",),
    "move": ("move",),
    "legal points": ("legal",),
    "superko, of the game and the path": ("game", "branch"),
    "area": ("area",),
    "planes": ("planes",),
    "in all": ("kernels",),
}


def searches(path: pathlib.Path, programs: pathlib.Path) -> str:
    """The times of a simulation's kernels by `bundles`, with the rest of it from `run`'s row."""
    lines = []
    for name, row in _by_program(path, "longest_path").items():
        rest = _newest(run.read(programs), name, row["target"])
        total_ms = rest["round_ms"] + row["kernels_us"] / 1e3
        times = (sum(row[f"{kernel}_us"] for kernel in kernels) for kernels in _KERNELS.values())
        cells = [f"{us:.1f} us" for us in times]
        share = rest["network_share"] * rest["round_ms"] / total_ms
        cells += [f"{total_ms:.3g} ms", f"{share:.1%}"]
        lines.append([name, f"{row['longest_path']:.1f}", *cells])
    head = ["program", "longest path", *_KERNELS, "a simulation with them", "network's share"]
    return markdown(head, lines)


def evaluation(path: pathlib.Path) -> str:
    """A line per network and batch, a column per number of slices."""
    lines: dict[tuple[str, ...], dict[int, RowOf]] = {}
    for row in read_csv(path):
        by_slices = lines.setdefault((row["board"], row["network"], row["batch"]), {})
        by_slices[int(row["batch"]) // int(row["at_a_time"])] = row
    counts = sorted({count for by_slices in lines.values() for count in by_slices})
    cells = []
    for (board, network, batch), by_slices in lines.items():
        ms = (
            f"{float(by_slices[count]['round_ms']):.2f} ms" if count in by_slices else ""
            for count in counts
        )
        (chosen,) = (row for row in by_slices.values() if row["chosen"] == "True")
        memory = f"{by_slices[1]['temp_mib']} / {chosen['temp_mib']} MiB"
        at_a_time = f"{int(chosen['at_a_time']):,} at a time"
        cells.append([f"{board}x{board}", network, f"{int(batch):,}", *ms, at_a_time, memory])
    columns = ["all at once" if count == 1 else f"{count} slices" for count in counts]
    head = ["board", "network", "batch", *columns, "chosen", "memory, at once / chosen"]
    return markdown(head, cells)


def launches(path: pathlib.Path) -> str:
    """Launches by the host, by what goes into command buffers."""
    head = ["program", "in command buffers", "launches of a simulation", "around it"]
    lines = [
        [
            row["program"],
            row["buffers"],
            row["a_round"] if int(row["a_round"]) else "none: the loop is in the buffer",
            row["around"],
            row["kernels"],
        ]
        for row in read_csv(path)
    ]
    return markdown([*head, "kernels of a simulation"], lines)


def int8(path: pathlib.Path, matches: pathlib.Path) -> str:
    """The loss of accuracy with trunks other than f32, and matches against f32."""
    played = {(row["size"], row["dtype"]): row for row in read_csv(matches)}
    (games,) = {row["games"] for row in played.values()}
    lines = []
    for row in read_csv(path):
        cells = [f"{row['size']}x{row['size']}", row["dtype"], row["policy_nats"]]
        cells += [row["value_rms"], f"{float(row['same_first_move']):.1%}"]
        match = played.get((row["size"], row["dtype"]))
        score = [f"{float(match[key]):.1%}" for key in ("score", "low", "high")] if match else []
        lines.append([*cells, f"{score[0]} [{score[1]}, {score[2]}]" if score else ""])
    head = ["network", "trunk", "policy, nats", "value", "same first move"]
    return markdown([*head, f"match against f32, {games} games"], lines)


def of_slices(path: pathlib.Path) -> str:
    """Speeds of self-play and learning of `19x19-slice` on slices of v5e."""
    return slices.table(run.read(path), "19x19-slice")


def rented(*paths: pathlib.Path) -> str:
    """The cost of a million games of presets on one v5e and on slices."""
    price, rows = dry_run.CHIP_HOUR["v5e"], [row for path in paths for row in run.read(path)]
    v5e_rows = [row for row in rows if ahead.target(row["target"]).chip == "v5e"]
    lines = []
    for preset in ("9x9-gpu", "19x19-slice"):
        of_slices = slices.of_preset(v5e_rows, preset)
        lines += [[f"`{preset}`", *_of_slice(of, price)] for of in of_slices]
    head = [
        "preset",
        "slice",
        "positions in a learner's step",
        "memory of a device, self-play / learning",
    ]
    return markdown([*head, "games/s", f"a million games at ${price:g} a chip-hour"], lines)


def _of_slice(on_slice: slices.OnSlice, price: float) -> list[str]:
    config, devices = on_slice.plan.config, on_slice.plan.num_devices
    memory, chip = (_gib(row) for row in (on_slice.play, on_slice.learn)), ahead.CHIPS["v5e"]
    games_per_s = dry_run.speed(on_slice.plan, on_slice.times).games_per_s
    hours = 1e6 / games_per_s / 3600
    return [
        f"v5litepod-{devices}" if devices > 1 else "one v5e",
        f"{config.batch_size:,} ({config.batch_size // devices:,} a device)",
        f"{' / '.join(memory)} of {chip.memory_bytes / 2**30:.0f} GiB",
        f"{games_per_s:.3g}",
        f"{hours:.2g} hours, ${hours * price * devices:.3g}",
    ]


def one_chip(*paths: pathlib.Path) -> str:
    """Speeds of presets' self-play and learning on one chip, from the files' newest rows."""
    rows, lines = [row for path in paths for row in run.read(path)], []
    for preset in ("9x9-gpu", "19x19-slice"):
        for chip in ("v5e", "v6e", "v5p", "h100"):
            play, learn = (_newest(rows, f"{part}-{preset}", chip) for part in ("play", "learn"))
            speeds = (table.rate(row["units_per_s"], row["unit"]) for row in (play, learn))
            memory = f"{' / '.join(map(_gib, (play, learn)))} GiB"
            kernels = f"{play['kernels']}" if chip == "h100" else ""
            lines.append([f"`{preset}`", chip, memory, *speeds, kernels])
    head = ["preset", "chip", "memory, self-play / learning", "self-play", "learning"]
    return markdown([*head, "kernels of a simulation"], lines)


def _gib(row: RowOf) -> str:
    return f"{(row['argument_bytes'] + row['temp_bytes']) / 2**30:.1f}"


def _by_program(path: pathlib.Path, column: str) -> dict[str, RowOf]:
    """{program: its newest row that has this column}."""
    return {row["program"]: row for row in run.read(path) if column in row}


def _newest(rows: list[Any], name: str, target: str) -> Any:
    return [row for row in rows if (row["program"], row["target"]) == (name, target)][-1]
