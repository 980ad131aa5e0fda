"""The metrics of a run for TensorBoard, beside metrics.jsonl: ``DIR/tensorboard``."""

from __future__ import annotations

import importlib.util
import pathlib
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

FOLDER = "tensorboard"


def check() -> None:
    """Check that the writer is installed, before anything is played.

    Raises:
      ValueError: tensorboardX is missing.
    """
    if importlib.util.find_spec("tensorboardX") is None:
        raise ValueError(
            "--tensorboard: tensorboardX is not installed; pip install -e '.[tensorboard]'"
        )


class EventWriter:
    """Writes the scalars of metrics as TensorBoard events; a context manager.

    The file is rewritten, so a resumed run has one curve, without lines that were removed.

    Args:
      folder: of the event file; earlier ones in it are removed.
      before: the metrics of the iterations done before.

    Raises:
      OSError: the file cannot be written; each method may raise it.
    """

    def __init__(self, folder: pathlib.Path, before: Iterable[Mapping[str, Any]] = ()):
        from tensorboardX.event_file_writer import EventsWriter

        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("events.out.tfevents.*"):
            old.unlink()
        # Not SummaryWriter: its thread dies on a full disk, and a flush then blocks forever.
        self._writer = EventsWriter(str(folder / "events"))
        self._last: dict[str, float] = {}
        for line in before:
            self.add(line)

    def __enter__(self) -> EventWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()

    def add(self, line: Mapping[str, Any]) -> None:
        """Write a line of the metrics; if it comes again with more values, write only these."""
        # The modules define these classes when imported (protobuf), where pyright cannot see them.
        from tensorboardX.proto.event_pb2 import Event  # pyright: ignore
        from tensorboardX.proto.summary_pb2 import Summary  # pyright: ignore

        values = dict(scalars(line))
        same = self._last.get("iteration") == values["iteration"]
        new = {name: values[name] for name in values if not (same and name in self._last)}
        summaries = [Summary.Value(tag=name, simple_value=new[name]) for name in new]
        step = int(values["iteration"])
        self._writer.write_event(
            Event(wall_time=time.time(), step=step, summary=Summary(value=summaries))
        )
        self._writer.flush()
        self._last = values


def scalars(line: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """(name, number) for each number in a line of the metrics; in a group its name is GROUP/NAME.
    Lists are omitted, but for the games won, drawn and lost in a match of the gate."""
    for name, value in line.items():
        if name == "gate":
            value = dict(zip(("won", "drawn", "lost"), value, strict=True))
        if isinstance(value, Mapping):
            yield from scalars(value, f"{prefix}{name}/")
        elif isinstance(value, int | float):
            yield f"{prefix}{name}", float(value)
