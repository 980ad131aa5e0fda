"""Flags: typed values in, one clear line and status 2 for anything else."""

import dataclasses
import pathlib
import re
from typing import Literal

import pytest

from gozero.apps import flags, help
from gozero.runs.settings import setting


@dataclasses.dataclass(frozen=True)
class Shape:
    """A nested shape."""

    blocks: int = setting(2, "Residual blocks.")


@dataclasses.dataclass(frozen=True)
class Play:
    """Play games."""

    data: pathlib.Path = setting(help="Where the games lie.")
    size: int = setting(9, "Points on a side.")
    simulations: int = setting(64, "Simulations of each move.")
    learning_rate: float = setting(0.1, "Size of a step.")
    evaluator: Literal["network", "playout"] = setting("network", "What evaluates a position.")
    resume: bool = setting(False, "Go on from what is there.")
    out: pathlib.Path | None = setting(None, "Where to write.")
    shape: Shape = Shape()

    EXAMPLES = ("gozero play --data d", "gozero play --data d --size 5")

    def __post_init__(self):
        if self.simulations < 1:
            raise ValueError(
                f"simulations: {self.simulations} is not at least 1, and this line is longer "
                "than the eighty columns that a box of tyro would have folded it into"
            )


@dataclasses.dataclass(frozen=True)
class Doctor:
    """Say what device there is."""

    EXAMPLES = ("gozero doctor", "gozero doctor --verbose")

    verbose: bool = setting(False, "Say more.")


COMMANDS = {"play": Play, "doctor": Doctor}


def test_values_have_the_types_of_their_fields():
    argv = ["--data", "d", "--simulations", "3", "--learning-rate", "1e-3"]
    argv += ["--evaluator", "playout", "--resume", "--shape.blocks", "5"]
    config = flags.parse(Play, argv, prog="p")
    assert config == Play(
        pathlib.Path("d"), 9, 3, 1e-3, "playout", resume=True, shape=Shape(blocks=5)
    )
    assert type(config) is Play
    assert not flags.parse(Play, ["--data", "d", "--no-resume"], prog="p").resume


def test_a_command_selects_its_config_class():
    assert flags.parse(COMMANDS, ["doctor", "--verbose"], prog="gozero") == Doctor(verbose=True)
    assert flags.parse(COMMANDS, ["play", "--data", "d"], prog="gozero").size == 9


def test_arguments_come_from_the_command_line(monkeypatch):
    monkeypatch.setattr("sys.argv", ["gozero", "doctor"])
    assert flags.parse(COMMANDS, prog="gozero") == Doctor()


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        ("--data d --sims 3", "unknown flag --sims; did you mean --simulations?"),
        ("--data d --sims=3", "unknown flag --sims; did you mean --simulations?"),
        ("--sims 3", "unknown flag --sims; did you mean --simulations?"),
        ("--data d --visits 3", "unknown flag --visits; did you mean --simulations?"),
        ("--data d --learning-rte 3", "unknown flag --learning-rte; did you mean --learning-rate?"),
        ("--data d --zzz", "unknown flag --zzz; see p --help"),
        ("--data d -x", "unknown flag -x; see p --help"),
        ("--data d --size abc", "--size abc: expected a whole number"),
        ("--data d --size=abc", "--size abc: expected a whole number"),
        ("--data d --size 1.5", "--size 1.5: expected a whole number"),
        ("--data d --learning-rate x", "--learning-rate x: expected a number"),
        ("--data d --shape.blocks x", "--shape.blocks x: expected a whole number"),
        ("--data d --size", "--size: expected a whole number"),
        ("--size 3", "--data is missing: expected a path"),
        (
            "foo --size 3",
            "--data is missing: expected a path; unexpected argument 'foo'; every option is a "
            "flag, see p --help",
        ),
        ("--data --size 3", "--data: expected a path"),
        ("--data d --out", "--out: expected a path"),
        ("--data d --evaluator foo", "--evaluator foo: expected one of network, playout"),
        ("--data d foo", "unexpected argument 'foo'; every option is a flag, see p --help"),
        (
            "--data d --simulations 0",
            "simulations: 0 is not at least 1, and this line is longer than the eighty columns "
            "that a box of tyro would have folded it into",
        ),
    ],
)
def test_a_mistake_is_one_line_and_status_2(argv, line, capsys):
    with pytest.raises(SystemExit) as stop:
        flags.parse(Play, argv.split(), prog="p")
    output = capsys.readouterr()
    assert (stop.value.code, output.out, output.err) == (2, "", f"p: {line}\n")


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        ("", "gozero: expected a command: play, doctor"),
        ("pley", "gozero: unknown command pley; did you mean play?"),
        ("--size 3", "gozero: unknown command --size; expected one of play, doctor"),
        ("doctor --verbos", "gozero doctor: unknown flag --verbos; did you mean --verbose?"),
    ],
)
def test_a_wrong_command_is_one_line_and_status_2(argv, line, capsys):
    with pytest.raises(SystemExit) as stop:
        flags.parse(COMMANDS, argv.split(), prog="gozero")
    assert (stop.value.code, capsys.readouterr().err) == (2, line + "\n")


@pytest.mark.parametrize("help_flag", ["--help", "-h"])
def test_help_describes_each_flag(help_flag, capsys):
    def helped(config, argv):
        with pytest.raises(SystemExit) as stop:
            flags.parse(config, argv, prog="gozero")
        assert not stop.value.code
        return capsys.readouterr().out

    assert "Simulations of each move." in helped(Play, [help_flag])
    top = helped(COMMANDS, [help_flag])
    assert "doctor" in top
    assert "Play games." in top
    one = helped(COMMANDS, ["play", help_flag])
    for words in ("gozero play", "Play games.", "--learning-rate", "--no-resume", "Size of a step"):
        assert words in one


def test_the_tables_in_the_docs_match_the_settings():
    document = (pathlib.Path(__file__).parents[2] / "docs" / "commands.md").read_text()
    assert help.with_tables(document) == document, "run python -m gozero.apps.help docs/commands.md"
    for words in (
        "`--simulations N`",
        "from 1 to 1073741823; default: 400",
        "not with --search gumbel",
    ):
        assert words in document
    emptied = re.sub(r"(<!-- flags [^\n]*\n).*?(\n<!-- end)", r"\1\2", document, flags=re.DOTALL)
    assert "`--simulations N`" not in emptied
    assert help.with_tables(emptied) == document


@pytest.mark.parametrize(("error", "status"), [(ValueError("size: 1"), 2), (OSError("full"), 1)])
def test_an_error_exits_with_one_line(error, status, capsys):
    with pytest.raises(SystemExit) as end, flags.exit_on_error("gozero tool"):
        raise error
    assert end.value.code == status
    assert capsys.readouterr().err == f"gozero tool: {error}\n"
