"""Help: whole sentences at any width, and examples that parse."""

from __future__ import annotations

import contextlib
import importlib
import itertools
import shlex

import pytest

from gozero.apps import cli, flags, help
from train import command

COMMANDS = {
    "gozero selfplay": ("gozero.apps.selfplay.run", "SelfPlayFlags"),
    "gozero gtp": ("gozero.apps.gtp.config", "GtpConfig"),
    "gozero match": ("gozero.apps.match.config", "MatchConfig"),
    "gozero play": ("gozero.apps.terminal", "PlayConfig"),
    "gozero web": ("gozero.apps.web.config", "WebConfig"),
    "gozero review": ("gozero.apps.review.config", "ReviewConfig"),
    "gozero analyze": ("gozero.apps.analysis.config", "AnalyzeConfig"),
    "python -m train": ("train.config", "TrainConfig"),
    "python -m train --dry-run": ("train.dry_run", "DryRunConfig"),
    "python -m train evaluate": ("train.evaluate", "EvaluateConfig"),
    "python -m train plots": ("train.plots", "PlotsConfig"),
    "python -m train average": ("train.average", "AverageConfig"),
    "python -m train worker": ("train.worker", "WorkerFlags"),
    "python -m train status": ("train.status", "StatusConfig"),
    "python -m train --data": ("train.supervised", "SupervisedConfig"),
    "python -m train.classical.td": ("train.classical.td", "TdFlags"),
    "python -m train.classical.imitation": ("train.classical.imitation", "ImitationFlags"),
    "python -m train.classical.mm": ("train.classical.mm", "MmConfig"),
    "python -m train.classical.balancing": ("train.classical.balancing", "BalancingConfig"),
    **{
        f"python -m experiments.{name}.run": (f"experiments.{name}.config", config)
        for name, config in (
            ("ablation", "AblationConfig"),
            ("accelerators", "AcceleratorsConfig"),
            ("against_gnugo", "AgainstGnugoConfig"),
            ("array_tree", "ArrayTreeConfig"),
            ("connect_four", "ConnectFourConfig"),
            ("heuristic_prior", "HeuristicPriorConfig"),
            ("network_search", "NetworkSearchConfig"),
            ("playout_policies", "PlayoutPoliciesConfig"),
            ("rave_equivalence", "RaveEquivalenceConfig"),
            ("scaling", "ScalingConfig"),
            ("schedules", "SchedulesConfig"),
            ("surveyed", "SurveyedConfig"),
            ("solved_3x3", "Solved3x3Config"),
            ("solved_5x5", "Solved5x5Config"),
            ("throughput", "ThroughputConfig"),
            ("zero_strength", "ZeroStrengthConfig"),
        )
    },
    "python -m experiments.ablation.speed": ("experiments.ablation.config", "SpeedConfig"),
}


@pytest.fixture(params=COMMANDS)
def described(request):
    module, name = COMMANDS[request.param]
    return request.param, getattr(importlib.import_module(module), name)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_help_wraps_once(described, width):
    prog, config = described
    lines = help.text(config, prog, width=width).splitlines()
    assert max(map(len, lines)) <= width
    for line, below in itertools.pairwise(lines[: _examples_at(lines)]):
        indent, room = _indent(line), width - _indent(line)
        if line and below and indent in (0, 6) and _indent(below) == indent:
            assert len(line) - indent >= room / 2, line
            assert len(line) + 1 + len(below.split()[0]) > width, line


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("main", [cli.main, command.main])
def test_help_of_a_program_with_commands(main, width, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(width))
    with contextlib.suppress(SystemExit):
        main(["--help"])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    assert lines[0].endswith("COMMAND [flags]")
    assert "commands:" in lines
    assert len([line for line in lines[_examples_at(lines) :] if line.startswith("  ")]) >= 2


def test_help_ends_in_two_examples_that_parse(described):
    prog, config = described
    lines = help.text(config, prog, width=70).splitlines()
    folded = " ".join(lines[_examples_at(lines) + 1 :]).replace("\\ ", "")
    assert len(config.EXAMPLES) >= 2
    assert folded.split() == " ".join(config.EXAMPLES).split()
    for example in config.EXAMPLES:
        words = shlex.split(example)
        called = prog.removesuffix(" --data")
        assert words[: len(called.split())] == called.split()
        parsed = flags.parse(_unchecked(config), words[len(called.split()) :], prog=prog)
        assert isinstance(parsed, config)


def _unchecked(config: type) -> type:
    """The config class without its checks: files that an example names need not exist."""
    return type(config.__name__, (config,), {"__post_init__": lambda self: None})


def _examples_at(lines: list[str]) -> int:
    return lines.index("examples:") if "examples:" in lines else len(lines)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
