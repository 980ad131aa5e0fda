"""Help: whole sentences at any width, and examples that parse."""

from __future__ import annotations

import importlib
import itertools

import pytest

from gozero.apps import help

COMMANDS = {
    "gozero selfplay": ("gozero.apps.selfplay", "SelfPlayFlags"),
    "gozero gtp": ("gozero.apps.gtp.config", "GtpConfig"),
    "gozero match": ("gozero.apps.match.config", "MatchConfig"),
}


@pytest.fixture(params=COMMANDS)
def command(request):
    module, name = COMMANDS[request.param]
    return request.param, getattr(importlib.import_module(module), name)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_help_wraps_once(command, width):
    prog, config = command
    lines = help.text(config, prog, width=width).splitlines()
    assert max(map(len, lines)) <= width
    for line, below in itertools.pairwise(lines[: _examples_at(lines)]):
        indent, room = _indent(line), width - _indent(line)
        if line and below and indent in (0, 6) and _indent(below) == indent:
            assert len(line) - indent >= room / 2, line
            assert len(line) + 1 + len(below.split()[0]) > width, line


def _examples_at(lines: list[str]) -> int:
    return lines.index("examples:") if "examples:" in lines else len(lines)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
