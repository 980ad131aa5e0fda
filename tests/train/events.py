"""Event files of TensorBoard, read by their format: records of length, CRC, bytes and CRC."""

from __future__ import annotations

import pathlib
import struct

from tensorboardX.proto.event_pb2 import Event


def events_of(folder: pathlib.Path) -> dict[str, dict[int, float]]:
    """{tag: {step: value}} of the one event file in a folder; no step of a tag comes twice."""
    (path,) = folder.iterdir()
    data, found = path.read_bytes(), {}
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        event = Event.FromString(data[12 : 12 + length])
        data = data[16 + length :]
        for value in event.summary.value:
            steps = found.setdefault(value.tag, {})
            assert event.step not in steps
            steps[event.step] = value.simple_value
    return found
