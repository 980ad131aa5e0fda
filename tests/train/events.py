"""A reader of TensorBoard's event files, whose records are a length, CRC, bytes and CRC."""

from __future__ import annotations

import pathlib
import struct

from tensorboardX.proto.event_pb2 import Event


def events_of(folder: pathlib.Path) -> dict[str, dict[int, float]]:
    """{tag: {step: value}} of a folder's only event file; asserts that no tag repeats a step."""
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
