"""Generates a command's help, and its table in docs/commands.md, from its settings. No JAX.

`python -m gozero.apps.help docs/commands.md` rewrites the tables.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pathlib
import re
import shlex
import shutil
import sys
import textwrap
import typing
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from gozero.runs import settings
from gozero.runs.settings import facts_of

_INDENT = 6


class Row(NamedTuple):
    """A flag, as shown in the help and the docs."""

    flag: str  # with --no- for a bool
    value: str  # placeholder for its value
    text: str  # what it does, in sentences
    note: str  # its range and its default
    group: str


def rows(config: type, default: Any = None, prefix: str = "") -> Iterator[Row]:
    """Yields a row for each flag; a second field of the same nested dataclass gets a single row.

    Args:
      config: the dataclass.
      default: an instance with the defaults; None for the fields' own.
      prefix: the prefix of each flag.
    """
    kinds, texts = typing.get_type_hints(config), settings.help_of(config)
    first_names, group = {}, ""
    for field in dataclasses.fields(config):
        name, kind = field.name, kinds[field.name]
        group = facts_of(field).group or group
        text = texts.get(name, "")
        if not dataclasses.is_dataclass(kind):
            default_value = _default(field) if default is None else getattr(default, name)
            note = _note(config, field, default_value).replace("--", f"--{prefix}")
            yield Row(_flag(field, kind, prefix), _value(field, kind), text, note, group)
        elif kind in first_names:
            text = f"{text} It has the same flags as --{prefix}{first_names[kind]}."
            yield Row(f"--{prefix}{name}.FLAG", "", text, "", name)
        else:
            first_names[kind] = name
            for row in rows(typing.cast(type, kind), None, f"{prefix}{name}."):
                yield row._replace(group=f"{name}: {row.group}".rstrip(": "))


def text(
    config: type, prog: str, about: str | None = None, default: Any = None, width: int | None = None
) -> str:
    """The help text: usage, description, flags in groups, and examples.

    Args:
      config: the dataclass of its flags; its EXAMPLES, if any, are whole command lines.
      prog: the program's name.
      about: its description; None for the dataclass's docstring.
      default: as for `rows`.
      width: columns; None for the terminal's width.
    """
    width = width or shutil.get_terminal_size().columns
    parts = _paragraphs(f"usage: {prog} {_arguments(config)}", width)
    parts += _paragraphs(about or docstring(config), width)
    groups: dict[str, list[str]] = {}
    for row in rows(config, default):
        groups.setdefault(row.group or "settings", []).append(_entry(row, width))
    parts += ["\n".join([f"{name}:", *entries]) for name, entries in groups.items()]
    return "\n\n".join(parts + _examples(_examples_of(config), width)) + "\n"


def docstring(config: type) -> str:
    """The docstring of a dataclass; "" under ``python -OO``, where it would be its signature."""
    return "" if sys.flags.optimize > 1 else config.__doc__ or ""


def text_of_commands(
    commands: Mapping[str, str], prog: str, about: str, examples: tuple[str, ...]
) -> str:
    """The help text of a program with commands.

    Args:
      commands: name -> description, of which the first paragraph is shown.
      prog: the program's name.
      about: the program's description.
      examples: whole command lines.
    """
    width = shutil.get_terminal_size().columns
    parts = [f"usage: {prog} COMMAND [flags]", *_paragraphs(about, width)]
    entries = []
    for name, description in commands.items():
        paragraph = _paragraphs(description, width - _INDENT)[0]
        entries.append(f"  {name}\n" + textwrap.indent(paragraph, " " * _INDENT))
    parts.append("\n".join(["commands:", *entries]))
    parts += _paragraphs(f"`{prog} COMMAND --help` lists the flags of a command.", width)
    return "\n\n".join(parts + _examples(examples, width)) + "\n"


def table(config: type) -> str:
    """The flags as a Markdown table, followed by a table of those that conflict."""
    lines = ["| flag | what | range and default |", "|---|---|---|"]
    for row in rows(config):
        flag = " ".join([row.flag, row.value]).strip()
        lines.append(f"| {_cell(f'`{flag}`')} | {_cell(row.text)} | {_cell(row.note)} |")
    conflicts: dict[tuple[str, str], list[str]] = {}
    for conflict in settings.conflicts(config):
        flag, restriction = settings.conflict_text(conflict)
        conflicts.setdefault((restriction, conflict.reason), []).append(f"`{flag}`")
    if conflicts:
        lines += ["", "| flag | restriction | reason |", "|---|---|---|"]
    for (restriction, reason), names in conflicts.items():
        lines.append(f"| {', '.join(names)} | {_cell(restriction)} | {_cell(reason)} |")
    return "\n".join(lines)


_TABLE = re.compile(r"(<!-- flags of (\S+):(\w+) -->\n).*?(\n<!-- end -->)", re.DOTALL)


def with_tables(document: str) -> str:
    """The document with its tables, between ``<!-- flags of MODULE:CLASS -->`` and
    ``<!-- end -->``, regenerated from the settings."""

    def regenerated(match: re.Match) -> str:
        config = getattr(importlib.import_module(match[2]), match[3])
        return f"{match[1]}{table(config)}{match[4]}"

    return _TABLE.sub(regenerated, document)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", r"\|").split())


def _entry(row: Row, width: int) -> str:
    heading = textwrap.wrap(f"{row.flag} {row.value}".strip(), width - 2)
    note = f" ({row.note})" if row.note else ""
    body = textwrap.wrap(" ".join(f"{row.text}{note}".split()), width - _INDENT, **_WRAP)
    return "\n".join(["  " + line for line in heading] + [" " * _INDENT + line for line in body])


_WRAP: dict[str, Any] = {"break_on_hyphens": False}


def _paragraphs(text: str, width: int) -> list[str]:
    parts = inspect.cleandoc(text).split("\n\n")
    return ["\n".join(textwrap.wrap(" ".join(part.split()), width, **_WRAP)) for part in parts]


def _examples(lines: tuple[str, ...], width: int) -> list[str]:
    if not lines:
        return []
    return ["\n".join(["examples:", *(_command(line, width) for line in lines)])]


def _examples_of(config: type) -> tuple[str, ...]:
    return getattr(config, "EXAMPLES", ())


def _command(line: str, width: int) -> str:
    """A command line wrapped over several lines with backslashes; quoted words stay whole."""
    lines = [" "]
    for word in shlex.split(line, posix=False):
        if len(lines[-1]) + 1 + len(word) > width - 2:
            lines[-1] += " \\"
            lines.append("     ")
        lines[-1] += f" {word}"
    return "\n".join(lines)


def _arguments(config: type) -> str:
    """The required arguments, then ``[flags]``."""
    kinds = typing.get_type_hints(config)
    required = [
        field
        for field in dataclasses.fields(config)
        if facts_of(field).positional or _default(field) is dataclasses.MISSING
    ]
    arguments = [
        field.name.upper() + (" ..." if settings.is_several(kinds[field.name]) else "")
        if facts_of(field).positional
        else f"{settings.flag_of(field.name)} {_value(field, kinds[field.name])}"
        for field in required
    ]
    return " ".join([*arguments, "[flags]"])


def _default(field: dataclasses.Field) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _flag(field: dataclasses.Field, kind: Any, prefix: str) -> str:
    if facts_of(field).positional:
        return field.name.upper()
    names = [field.name, f"no-{field.name}"] if kind is bool else [field.name]
    return ", ".join(settings.flag_of(name, prefix) for name in names)


def _value(field: dataclasses.Field, kind: Any) -> str:
    """The placeholder for a flag's value: its choices, its unit, or its type."""
    element = settings.kind_of_one(kind)
    choices = settings.choices_of(element)
    names = {int: "N", float: "X", str: "TEXT", pathlib.Path: "PATH", bool: ""}
    name = (
        "|".join(map(str, choices)) or facts_of(field).unit.upper() or names.get(element, "VALUE")
    )
    name = "|".join([name, *settings.words_of(kind)])
    return f"{name} ..." if settings.is_several(kind) else name


def _note(config: type, field: dataclasses.Field, default: Any) -> str:
    limits = settings.limits_text(config, field)
    default_text = settings.default_text(field, default)
    return "; ".join(filter(None, [limits, default_text and f"default: {default_text}"]))


if __name__ == "__main__":
    for _path in map(pathlib.Path, sys.argv[1:]):
        _path.write_text(with_tables(_path.read_text()))
