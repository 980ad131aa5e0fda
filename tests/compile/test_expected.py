"""Programs that a command used last time are loaded while it starts; failures do no harm."""

import jax.numpy as jnp
import pytest

from gozero import hashing
from gozero.compile import executables, expected

NUMBER = jnp.uint32(3)
MIXED = hashing.mix(NUMBER)


def started(*command):
    """Start a command anew; returns the names of the programs that it expects."""
    executables.loading.clear()
    expected.load(command)
    return set(executables.loading)


def test_a_command_expects_the_programs_it_used(kept, never_traced, monkeypatch):
    assert not started("gtp", "--size", "9")
    assert executables.jit(hashing.mix)(NUMBER) == MIXED
    (program,) = (one.name for one in kept.iterdir() if one.stat().st_size > 1000)
    assert not started("gtp", "--size", "13")
    assert started("gtp", "--size", "9") == {program}
    executables.loading[program].result()
    monkeypatch.setattr(executables, "load", None)
    never_traced()
    assert executables.jit(hashing.mix)(NUMBER) == MIXED
    assert not executables.loading


def test_programs_are_loaded_in_order_of_first_use(kept, monkeypatch):
    def take(names):
        started("gtp")
        for name in names:
            executables.on_first_use(name)
        started("gtp")
        return "".join(executables.loading)

    assert take("abc") == "abc"
    monkeypatch.setattr(executables, "write", lambda *_: pytest.fail("it is as it was"))
    assert take("ab") == "abc"


def test_programs_used_late_are_loaded_last(kept):
    for names in ("abc", "ca"):
        started("gtp")
        for name in names:
            executables.on_first_use(name)
    started("gtp")
    assert "".join(executables.loading) == "cab"


def test_prepared_programs_are_expected_too(kept):
    started("gtp")
    executables.jit(hashing.mix).prepare(NUMBER)
    assert len(started("gtp")) == 1


@pytest.mark.parametrize(
    "damage", ["of the program", "of the list", "no program", "another's name"]
)
def test_damaged_lists_and_programs(kept, damage):
    started("gtp")
    executables.jit(hashing.mix)(NUMBER)
    names, program = sorted(kept.iterdir(), key=lambda path: path.stat().st_size)
    if damage == "of the program":
        program.write_bytes(program.read_bytes()[:-1])
    elif damage == "of the list":
        names.write_bytes(names.read_bytes() + b"x")
    elif damage == "no program":
        program.unlink()
    else:
        executables.write(names, b"../x\n..\n" + program.name.encode())
    assert len(started("gtp")) == {"of the list": 0, "another's name": 2}.get(damage, 1)
    assert executables.jit(hashing.mix)(NUMBER) == MIXED
    executables.load(program)  # intact, or written again


def test_the_list_is_bounded(kept, monkeypatch):
    monkeypatch.setattr(expected, "MAX_PROGRAMS", 2)
    started("gtp")
    for name in "abc":
        executables.on_first_use(name)
    assert started("gtp") == {"a", "b"}


def test_nothing_is_expected_if_nothing_is_kept(monkeypatch):
    monkeypatch.setattr(executables, "folder", lambda: None)
    assert not started("gtp")
