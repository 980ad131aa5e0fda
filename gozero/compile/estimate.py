"""Estimates what a compiled program would cost on a TPU or a GPU, from its HLO text alone.

    program = estimate.read(compiled.text, "v5e", {"flood": 3})
    program.seconds, program.network_share        # for a TPU
    simulation = program.find(32)                  # the loop of 32 rounds
    simulation.kernels, simulation.host_loops     # for a GPU: per round

A TPU's text contains the compiler's own estimate for each fusion, in cycles. An instruction without
one is assumed to move its result to memory and back, and a collective to send its result twice over
the chip's links, as an all-reduce does. Of a conditional the most expensive branch counts. No other
transfers are waited for. So the figures are optimistic, and right to a factor of two at best: use
them to compare programs.

A GPU's text has no times. There a program of small kernels takes as long as their launches, 2 to
5 us each, and every round of a loop of unknown length, and every conditional, waits 10 to 20 us for
the host to read a predicate.

Pure functions from text to dataclasses; starts no backend. Tested with the texts of jaxlib 0.10.1.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

DEFAULT_ROUNDS = 3.0
"""The assumed rounds of a loop of unknown length; floods and descents take about as many."""


class ChipSpeed(NamedTuple):
    """A chip's speeds: its clock (with which a large bf16 matrix product reaches 88% of the peak),
    its memory bandwidth, and the bandwidth of its links to other chips together."""

    clock_hz: float
    bytes_per_s: float
    link_bytes_per_s: float


SPEEDS = {
    "v5e": ChipSpeed(1.5e9, 819e9, 200e9),
    "v6e": ChipSpeed(1.75e9, 1640e9, 448e9),
    "v5p": ChipSpeed(1.75e9, 2765e9, 600e9),
}
"""The chips whose texts have cycles."""


class Instruction(NamedTuple):
    """A line of a compiled program."""

    name: str
    opcode: str
    result: str  # its shape, as text
    rest: str  # operands and attributes
    op_name: str  # JAX's name for its origin; "" if there is none


class TimedInstruction(NamedTuple):
    """An instruction that takes time."""

    opcode: str
    result: str
    op_name: str
    seconds: float  # 0 on a GPU
    in_network: bool  # whether it contains a convolution or a matrix product
    sent_bytes: int  # between devices
    is_custom: bool  # a Pallas kernel: its time is not in the text, so `seconds` is meaningless


@dataclasses.dataclass(frozen=True)
class LoopEstimate:
    """A loop, or the whole program: what one round of it takes.

    Attributes:
      name: the name of its instruction; "" for the program.
      op_name: JAX's name for it.
      rounds: its rounds per round of the enclosing loop; 1 for the program.
      is_known: whether the compiler knows the number of rounds; otherwise it is assumed.
      steps: its own steps, without those of nested loops.
      conditionals: the number of its own conditionals.
      loops: the loops nested directly in it.
    """

    name: str
    op_name: str
    rounds: float
    is_known: bool
    steps: tuple[TimedInstruction, ...] = ()
    conditionals: int = 0
    loops: tuple[LoopEstimate, ...] = ()

    @functools.cached_property
    def seconds(self) -> float:
        """The time of a round, including nested loops."""
        return self._total(lambda step: step.seconds)

    @functools.cached_property
    def network_share(self) -> float:
        """The share of convolutions and matrix products in `seconds`."""
        network = self._total(lambda step: step.seconds * step.in_network)
        return network / self.seconds if self.seconds else 0.0

    @functools.cached_property
    def kernels(self) -> int:
        """The number of kernels in the text of a round: those of a nested loop count once."""
        return len(self.steps) + sum(loop.kernels for loop in self.loops)

    @functools.cached_property
    def host_loops(self) -> int:
        """The number of loops in it, nested ones included, whose length is not known."""
        return sum(loop.host_loops + (not loop.is_known) for loop in self.loops)

    @functools.cached_property
    def host_conditionals(self) -> int:
        """The number of conditionals in it and in its loops."""
        return self.conditionals + sum(loop.host_conditionals for loop in self.loops)

    @functools.cached_property
    def custom_kernels(self) -> int:
        """The number of Pallas kernels in it and in its loops; their time is not in the text."""
        own = sum(step.is_custom for step in self.steps)
        return own + sum(loop.custom_kernels for loop in self.loops)

    @functools.cached_property
    def collectives(self) -> float:
        """The number of collectives between devices in a round."""
        return self._total(lambda step: float(step.sent_bytes > 0))

    @functools.cached_property
    def sent_bytes(self) -> float:
        """The bytes of the results of these collectives, on one device."""
        return self._total(lambda step: step.sent_bytes)

    def find(self, *path: int | str) -> LoopEstimate | None:
        """Finds a loop in it; None if there is none.

        Args:
          path: from the outside in, for each loop its known number of rounds, or a part of its
            `op_name`; of several that match, the most expensive is taken.
        """
        current: LoopEstimate | None = self
        for key in path:
            inner = current.inner() if current else ()
            matching = [loop for loop in inner if _matches(loop, key)]
            current = max(matching, key=lambda loop: (loop.seconds, loop.kernels), default=None)
        return current

    def inner(self) -> Iterator[LoopEstimate]:
        """Yields all loops nested in it, at any depth."""
        for loop in self.loops:
            yield loop
            yield from loop.inner()

    def _total(self, of: Callable[[TimedInstruction], float]) -> float:
        own = sum(of(step) for step in self.steps)
        return own + sum(loop.rounds * loop._total(of) for loop in self.loops)


def _matches(loop: LoopEstimate, key: int | str) -> bool:
    if isinstance(key, str):
        return key in loop.op_name
    return loop.is_known and loop.rounds == key


def read(text: str, chip: str, rounds: Mapping[str, float] | None = None) -> LoopEstimate:
    """Reads a program from its text, as a loop of one round.

    Args:
      text: the HLO text of a compiled program.
      chip: the chip it was compiled for; if it is not in `SPEEDS`, steps take no time.
      rounds: for loops of unknown length: the rounds by a regular expression that matches in the
        `op_name`; `DEFAULT_ROUNDS` for others.

    Raises:
      ValueError: the text has no entry computation.
    """
    return _Reader(text, SPEEDS.get(chip), rounds or {}).program()


def report(program: LoopEstimate, top: int = 15) -> str:
    """The loops of a program and its `top` most expensive steps, as readable text."""
    lines = [f"{program.seconds * 1e3:.3f} ms, {program.kernels} kernels"]
    steps: list[tuple[float, float, TimedInstruction]] = []

    def visit(loop: LoopEstimate, times: float, depth: int) -> None:
        steps.extend((step.seconds * times, times, step) for step in loop.steps)
        for inner in loop.loops:
            rounds = f"x{inner.rounds:g}{'' if inner.is_known else '?'}"
            lines.append(
                f"{'  ' * depth}{inner.name} {rounds}: {inner.seconds * 1e6:.1f} us a round, "
                f"{inner.seconds * inner.rounds * times * 1e3:.3f} ms in all, "
                f"{inner.kernels} kernels, {inner.host_loops} unknown loops  {inner.op_name[-80:]}"
            )
            visit(inner, times * inner.rounds, depth + 1)

    visit(program, 1.0, 1)
    for seconds, times, step in sorted(steps, key=lambda row: -row[0])[:top]:
        lines.append(
            f"{seconds * 1e3:9.3f} ms x{times:<6g} {step.opcode:20} {step.result[:60]:60} "
            f"{step.op_name[-90:]}"
        )
    return "\n".join(lines)


# --- from text --------------------------------------------------------------------------

_BYTES = {"pred": 1, "bf16": 2, "f16": 2, "token": 0, "c64": 8, "c128": 16}
_SHAPE = re.compile(r"\b([a-z]+\d*\w*)\[([\d,]*)\](?:\{([\d,]*)(?::T\((\d+),(\d+)\))?)?")
_HEADER = re.compile(r"(ENTRY )?%?([\w.\-]+) .*\{$")
_LINE = re.compile(r"\s+(?:ROOT )?%?([\w.\-]+) = (.*)$")
_OPCODE = re.compile(r"\s*([\w\-]+)\(")
_OP_NAME = re.compile(r'op_name="([^"]*)"')
_CYCLES = re.compile(r'estimated_cycles":"(\d+)"')
_TRIPS = re.compile(r'known_trip_count":\{"n":"(\d+)"')
_IS_LESS = re.compile(r"%?([\w.\-]+), %?([\w.\-]+)\), direction=LT")  # of two operands
_CALLED = re.compile(r"(?:calls|to_apply)=%?([\w.\-]+)")
_BRANCHES = re.compile(r"(?:true_computation|false_computation)=%?([\w.\-]+)")
_BRANCH_LIST = re.compile(r"branch_computations=\{([^}]*)\}")

_words = lambda text: frozenset(text.split())
_FREE = _words(
    "parameter constant tuple get-tuple-element bitcast partition-id replica-id after-all "
    "opt-barrier optimization-barrier"
)
_OVERLAPPED = _words(
    "copy-start copy-done slice-start slice-done async-done dynamic-update-slice-start"
)
_PRODUCTS = _words("convolution dot")
_LIBRARIES = re.compile(r'custom_call_target="[^"]*(gemm|matmul|conv)', re.IGNORECASE)
_PALLAS = re.compile(r'custom_call_target="(tpu_custom_call|[^"]*triton[^"]*|[^"]*mosaic[^"]*)"')
_NO_CODE = re.compile(r'custom_call_target="(ConcatBitcast|AllocateBuffer)"')
"""Calls for which a TPU's compiler generates no code: names for existing memory."""
_COLLECTIVES = _words(
    "all-reduce all-gather reduce-scatter all-to-all collective-permute collective-broadcast "
    "ragged-all-to-all"
)


def padded_bytes(shape: str) -> int:
    """The bytes of the arrays in a text's shape, including the padding of their tiles.

    (8, 128) tiles pad the two dimensions that the layout names first; a one-dimensional array is
    padded to lanes of 128.
    """
    return sum(_padded(*match) for match in _SHAPE.findall(shape))


def _padded(kind: str, dims: str, order: str, rows: str, columns: str) -> int:
    sides = [int(side) for side in dims.split(",") if side] or [1]
    minor = [int(axis) for axis in order.split(",") if axis]
    round_up = lambda side, tile: -(-side // tile) * tile
    if minor and rows and len(sides) >= 2:
        sides[minor[0]] = round_up(sides[minor[0]], int(columns))
        sides[minor[1]] = round_up(sides[minor[1]], int(rows))
    elif minor and len(sides) == 1:
        sides[0] = round_up(sides[0], 128)
    bits = re.search(r"\d+", kind)
    item_bytes = _BYTES.get(kind, max(int(bits[0]) // 8, 1) if bits else 0)
    return item_bytes * math.prod(sides)


class _Reader:
    """A text, split into its computations."""

    def __init__(self, text: str, speed: ChipSpeed | None, rounds: Mapping[str, float]):
        self.speed, self.assumed = speed, rounds
        self.computations, self.entry = _parse(text)
        self._opcodes: dict[str, frozenset[str]] = {}

    def program(self) -> LoopEstimate:
        return self._loop("", "", 1.0, True, [self.entry])

    def _loop(self, name, op_name, rounds, is_known, computations) -> LoopEstimate:
        steps, conditionals, loops = [], 0, []
        for computation in computations:
            visited = self._visit(computation)
            steps += visited[0]
            conditionals += visited[1]
            loops += visited[2]
        return LoopEstimate(
            name, op_name, rounds, is_known, tuple(steps), conditionals, tuple(loops)
        )

    def _visit(self, computation: str) -> tuple[list[TimedInstruction], int, list[LoopEstimate]]:
        """(steps, number of conditionals, loops) of a computation, including what it calls."""
        steps, conditionals, loops = [], 0, []
        for line in self.computations.get(computation, ()):
            visited: tuple[list[TimedInstruction], int, list[LoopEstimate]] = ([], 0, [])
            if line.opcode == "while":
                loops.append(self._while(line))
            elif line.opcode == "conditional":
                visited = self._costliest_branch(line)
                conditionals += 1
            elif line.opcode == "call" and (called := _CALLED.search(line.rest)):
                visited = self._visit(called[1])
            elif not self._is_free(line):
                steps.append(self._step(line))
            steps += visited[0]
            conditionals += visited[1]
            loops += visited[2]
        return steps, conditionals, loops

    def _is_free(self, line: Instruction) -> bool:
        no_code = line.opcode == "custom-call" and _NO_CODE.search(line.rest)
        return line.opcode in _FREE or bool(no_code) or self._is_half(line)

    def _is_half(self, line: Instruction) -> bool:
        """Whether it is one half of an asynchronous operation whose other half is counted."""
        if line.opcode.removesuffix("-start") in _COLLECTIVES - {line.opcode}:
            return True
        return self.speed is None and line.opcode.endswith("-done") and not self._sent(line)

    def _while(self, line: Instruction) -> LoopEstimate:
        parts = [
            match[1]
            for name in ("condition", "body")
            if (match := re.search(rf"\b{name}=%?([\w.\-]+)", line.rest))
        ]
        trips = self._trips(line, parts[0])
        rounds = self._assumed(line.op_name) if trips is None else trips
        return self._loop(line.name, line.op_name, rounds, trips is not None, parts)

    def _assumed(self, op_name: str) -> float:
        matching = (rounds for part, rounds in self.assumed.items() if re.search(part, op_name))
        return next(matching, DEFAULT_ROUNDS)

    def _trips(self, line: Instruction, condition: str) -> float | None:
        """The number of rounds of a loop, if the compiler states it, as for a GPU, or if its
        condition compares a counter with a constant; `scan` and `fori_loop` count from 0."""
        if match := _TRIPS.search(line.rest):
            return float(match[1])
        lines = self.computations.get(condition, [])
        if not lines or not (match := _IS_LESS.match(lines[-1].rest)):
            return None
        by_name = {instruction.name: instruction for instruction in lines}
        counter, limit = by_name[match[1]], by_name[match[2]]
        if counter.opcode != "get-tuple-element" or limit.opcode != "constant":
            return None
        return float(limit.rest.partition(")")[0])

    def _costliest_branch(
        self, line: Instruction
    ) -> tuple[list[TimedInstruction], int, list[LoopEstimate]]:
        names = _BRANCHES.findall(line.rest)
        if match := _BRANCH_LIST.search(line.rest):
            names = [name.strip(" %") for name in match[1].split(",")]

        def cost(branch):
            estimate = LoopEstimate(
                "", "", 1.0, True, tuple(branch[0]), branch[1], tuple(branch[2])
            )
            return estimate.seconds, estimate.kernels

        return max((self._visit(name) for name in names), key=cost, default=([], 0, []))

    def _step(self, line: Instruction) -> TimedInstruction:
        in_network = bool(self._inside(line) & _PRODUCTS) or bool(_LIBRARIES.search(line.rest))
        sent = self._sent(line)
        seconds = max(self._seconds(line), self._on_links(sent))
        is_custom = line.opcode == "custom-call" and bool(_PALLAS.search(line.rest))
        return TimedInstruction(
            line.opcode, line.result, line.op_name, seconds, in_network, sent, is_custom
        )

    def _seconds(self, line: Instruction) -> float:
        if self.speed is None or line.opcode in _OVERLAPPED:
            return 0.0
        cycles = _CYCLES.search(line.rest)
        if cycles and int(cycles[1]):
            return int(cycles[1]) / self.speed.clock_hz
        return 2 * padded_bytes(line.result) / self.speed.bytes_per_s

    def _on_links(self, sent: int) -> float:
        return 2 * sent / self.speed.link_bytes_per_s if self.speed else 0.0

    def _sent(self, line: Instruction) -> int:
        kinds = self._inside(line) | {line.opcode.removesuffix("-done")}
        return padded_bytes(line.result) if kinds & _COLLECTIVES else 0

    def _inside(self, line: Instruction) -> frozenset[str]:
        """The opcodes of an instruction and of the fusion that it calls."""
        called = _CALLED.search(line.rest) if line.opcode in ("fusion", "async-start") else None
        return frozenset({line.opcode}) | (self._of(called[1]) if called else frozenset())

    def _of(self, computation: str) -> frozenset[str]:
        if computation not in self._opcodes:
            lines = self.computations.get(computation, ())
            self._opcodes[computation] = frozenset().union(*map(self._inside, lines))
        return self._opcodes[computation]


def _parse(text: str) -> tuple[dict[str, list[Instruction]], str]:
    """({computation: its instructions}, the name of the entry computation)."""
    computations: dict[str, list[Instruction]] = {}
    entry, lines = "", []
    for line in text.splitlines():
        if line[:1] not in ("", " ", "}") and (header := _HEADER.match(line)):
            lines = computations.setdefault(header[2], [])
            entry = header[2] if header[1] else entry
        elif match := _LINE.match(line):
            lines.append(_instruction(match[1], match[2]))
    if not entry:
        raise ValueError("text: no entry computation; expected the HLO of a compiled program")
    return computations, entry


def _instruction(name: str, text: str) -> Instruction:
    end = _end_of_shape(text)
    match = _OPCODE.match(text, end)
    op_name = _OP_NAME.search(text)
    rest = text[match.end() :] if match else ""
    opcode = match[1] if match else "?"
    return Instruction(name, opcode, text[:end], rest, op_name[1] if op_name else "")


def _end_of_shape(text: str) -> int:
    """The index where a result's shape, one array or a tuple in parentheses, ends."""
    if not text.startswith("("):
        return text.find(" ")
    depth = 0
    for i, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return i + 1
    return len(text)
