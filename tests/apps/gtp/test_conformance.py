"""GTP against a table of commands and answers, in one session."""

import io
import pathlib
import re

from gozero.apps.gtp import run as gtp
from tests.apps.gtp.test_gtp import answers

TABLE = pathlib.Path(__file__).with_name("conformance.txt")


def cases() -> list[tuple[str, str]]:
    """[(a command, a pattern of its answer)]."""
    lines = TABLE.read_text().splitlines()
    entries = [line for line in lines if line and not line.startswith("#")]
    assert len(entries) % 2 == 0
    return list(zip(entries[::2], entries[1::2], strict=True))


def test_each_command_is_answered_as_in_the_table():
    out, table = io.StringIO(), cases()
    assert len(table) >= 150
    text = "".join(f"{command}\n\n# between\n" for command, _ in table)
    assert gtp.run(gtp.GtpConfig(size=5, search="random"), io.StringIO(text), out) == 0
    responses = answers(out.getvalue())
    assert len(responses) == len(table)
    wrong = [
        f"{command!r}: {answer!r} is not {pattern!r}"
        for (command, pattern), answer in zip(table, responses, strict=True)
        if not re.fullmatch(pattern, answer)
    ]
    assert wrong == []
