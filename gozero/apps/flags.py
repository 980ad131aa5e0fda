"""Typed flags from a frozen dataclass, and one clear line if they are wrong.

tyro parses them. Its error messages are boxes of several lines; here each becomes
``gozero selfplay: --games abc: expected a whole number`` on stderr, and exit status 2.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import io
import re
import sys
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

import tyro

from gozero.apps import help, runtime
from gozero.runs import settings

EXIT_USAGE = 2
_HELP = ("-h", "--help")


def parse(
    config: type | Mapping[str, type],
    argv: Sequence[str] | None = None,
    *,
    prog: str,
    description: str | None = None,
    default: Any = None,
) -> Any:
    """Parse the command line into an instance of `config`, whose fields are the flags.

    Args:
      config: a frozen dataclass of `settings`, built by its `of_flags` (if it has one) from the
        flags that were given, as is each nested one; or {command: dataclass}: then the first
        argument is the command, and the result is an instance of that command's class. Its
        NO_FLAGS, if any, maps words that users may take for flags to what is right instead.
      argv: the arguments, without the program's name; None for ``sys.argv[1:]``.
      prog: the program's name in help and error messages.
      description: the first lines of the help; None for the dataclass's own docstring.
      default: an instance of `config`, if that is a class, with the values of the flags that are
        not given. None for the fields' own defaults.

    Raises:
      SystemExit: status 0 after --help; status 2 after one line on stderr with the error, whether
        tyro or the class's ``__post_init__`` (a ValueError) reports it.
    """
    argv = list(sys.argv[1:] if argv is None else argv)
    if not isinstance(config, Mapping):
        return _parse_one(config, argv, prog, description, default)
    if argv and argv[0] in _HELP:
        descriptions = {name: help.docstring(command) for name, command in config.items()}
        examples = [line for command in config.values() for line in command.EXAMPLES[:1]]
        text = help.text_of_commands(descriptions, prog, description or "", tuple(examples[:2]))
        runtime.print_result(text.rstrip())
        sys.exit(0)
    if not argv or argv[0] not in config:
        fail(prog, _wrong_command(argv, list(config)))
    return _parse_one(config[argv[0]], argv[1:], f"{prog} {argv[0]}", None)


def fail(prog: str, message: object, status: int = EXIT_USAGE) -> NoReturn:
    """Exit with `status` after one line ``prog: message`` on stderr."""
    print(f"{prog}: {' '.join(str(message).split())}", file=sys.stderr)
    sys.exit(status)


@contextlib.contextmanager
def exit_on_error(prog: str) -> Iterator[None]:
    """Exit with one line on stderr if the block fails: status 2 for a bad request (a ValueError),
    1 for a file that cannot be read or written (an OSError)."""
    try:
        yield
    except ValueError as error:
        fail(prog, error)
    except OSError as error:
        fail(prog, error, status=1)


def _parse_one(
    config: type, argv: list[str], prog: str, description: str | None, default: Any = None
) -> Any:
    if any(argument in _HELP for argument in argv):
        runtime.print_result(help.text(config, prog, description, default).rstrip())
        sys.exit(0)
    tyro_output, unchecked = io.StringIO(), _unchecked(config)
    try:
        with contextlib.redirect_stderr(tyro_output):
            parsed, unknown = tyro.cli(
                unchecked,
                default=None if default is None else unchecked(**vars(default)),
                prog=prog,
                args=argv,
                return_unknown_args=True,
            )
    except SystemExit:
        fail(prog, _explain(config, argv, tyro_output.getvalue(), prog))
    if unknown:
        fail(prog, _unknown(config, unknown[0], prog))
    with exit_on_error(prog):
        return _built(config, parsed, argv)


def _built(config: type, parsed: Any, argv: list[str], prefix: str = "") -> Any:
    """An instance of `config`, by its `of_flags` if it has one, as are its nested dataclasses."""
    kinds, fields = typing.get_type_hints(config), dataclasses.fields(config)
    of_flags = getattr(config, "of_flags", None)
    values = {f.name: getattr(parsed, f.name) for f in fields}
    for name, value in values.items():
        if hasattr(kinds[name], "of_flags"):
            values[name] = _built(kinds[name], value, argv, f"{prefix}{name}.")
    given = [f.name for f in fields if _is_given(f, argv, prefix)]
    if of_flags is not None:
        return of_flags({name: values[name] for name in given})
    built = config(**values)
    settings.check_given(built, given, prefix)
    return built


def _is_given(field: dataclasses.Field, argv: list[str], prefix: str) -> bool:
    """Whether a field's flag, or its ``--no-`` form, was given; a positional one always is."""
    flags = settings.flag_of(field.name, prefix), settings.flag_of(f"no-{field.name}", prefix)
    is_present = any(_name(argument) in flags for argument in argv)
    return is_present or settings.facts_of(field).positional


def _unchecked(config: type) -> type:
    """The class without ``__post_init__``, whose messages tyro would fold into its box."""
    body = {"__doc__": config.__doc__, "__module__": config.__module__}
    return type(config.__name__, (config,), {**body, "__post_init__": lambda self: None})


def _explain(config: type, argv: list[str], tyro_output: str, prog: str) -> str:
    """tyro's box as one line: about the first unknown flag, else the first flag it mentions."""
    kinds = dict(_flags(config))
    for argument in argv:
        if argument.startswith("--") and _name(argument) not in (*kinds, *_HELP):
            return _unknown(config, argument, prog)
    text = " ".join(re.sub(r"\x1b\[[0-9;]*m|[\u2500-\u257f]", " ", tyro_output).split())
    mentioned = next((flag for flag in re.findall(r"--[\w.-]+", text) if flag in kinds), None)
    if mentioned is None:
        return text or f"bad arguments; see {prog} --help"
    is_given, value = _value_of(mentioned, argv)
    if not is_given:
        is_missing = f"{mentioned} is missing: expected {kinds[mentioned]}"
        takes_it = any(settings.facts_of(f).positional for f in dataclasses.fields(config))
        if takes_it or not argv or argv[0].startswith("-"):
            return is_missing
        return f"{is_missing}; {_unknown(config, argv[0], prog)}"
    return f"{mentioned}{value and ' ' + value}: expected {kinds[mentioned]}"


def _unknown(config: type, argument: str, prog: str) -> str:
    if not argument.startswith("-"):
        return f"unexpected argument {argument!r}; every option is a flag, see {prog} --help"
    flag = argument.partition("=")[0]
    word = flag.lstrip("-")
    no_flags = getattr(config, "NO_FLAGS", {})
    if word in no_flags:
        return f"unknown flag {flag}; {no_flags[word]}"
    closest = _closest(_SAME.get(word, word), [name[2:] for name, _ in _flags(config)])
    hint = f"did you mean --{closest}?" if closest else f"see {prog} --help"
    return f"unknown flag {flag}; {hint}"


_SAME = {"visits": "simulations", "maxvisits": "simulations"}
"""Other programs' names of flags."""


def _wrong_command(argv: list[str], commands: list[str]) -> str:
    if not argv:
        return f"expected a command: {', '.join(commands)}"
    closest = _closest(argv[0], commands)
    hint = f"did you mean {closest}?" if closest else f"expected one of {', '.join(commands)}"
    return f"unknown command {argv[0]}; {hint}"


def _closest(word: str, names: list[str]) -> str | None:
    """The name that ends in the word (player: player.player), else one that it abbreviates (sims:
    simulations), else the one spelt most alike."""
    ending = [name for name in names if name.endswith(f".{word}")]
    if ending:
        return ending[0]
    abbreviation = re.compile(".*".join(map(re.escape, word)))
    abbreviated = [name for name in names if abbreviation.match(name)]
    similar = difflib.get_close_matches(word, names, n=1)
    return next(iter([*abbreviated, *similar]), None)


def _flags(config: type, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yields (flag, a description of its value) for each field; nested dataclasses give dots."""
    kinds = typing.get_type_hints(config)
    for field in dataclasses.fields(config):
        kind = kinds[field.name]
        if dataclasses.is_dataclass(kind):
            yield from _flags(typing.cast(type, kind), f"{prefix}{field.name}.")
            continue
        yield settings.flag_of(field.name, prefix), settings.value_text(config, field, kind)
        if kind is bool:
            yield settings.flag_of(f"no-{field.name}", prefix), "no value"


def _name(argument: str) -> str:
    return argument.partition("=")[0].replace("_", "-")


def _value_of(flag: str, argv: list[str]) -> tuple[bool, str]:
    """(whether the flag was given, its last value or '')."""
    for i in reversed(range(len(argv))):
        if _name(argv[i]) != flag:
            continue
        following = argv[i + 1] if i + 1 < len(argv) else ""
        value = argv[i].partition("=")[2] if "=" in argv[i] else following
        return True, "" if value.startswith("--") else value
    return False, ""
