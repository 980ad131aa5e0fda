"""Checks, messages and docs of a field all follow from its declaration."""

from __future__ import annotations

import dataclasses
import math
import pathlib
import re
from typing import Literal

import pytest

from gozero.runs import settings
from gozero.runs.settings import Conflict, check, setting


@dataclasses.dataclass(frozen=True)
class Config:
    simulations: int = setting(400, "Simulations.", least=1, most=1000)
    leaves: int = setting(1, least=1, most="simulations")
    room: int = setting(0, least=0, most="left")
    games: int = setting(2, least=2, step=2)
    komi: float = setting(7.0, least=-10, most=10, step=0.5)
    rate: float = setting(0.1, above=0, below=1e6)
    share: float | None = setting(None, least=0, below=1, unset="all")
    moves: int | None = setting(None, above=0)
    sizes: tuple[int, ...] = setting((9, 19), least=2, most=25)
    names: tuple[str, ...] = setting(())
    search: Literal["puct", "rave", "gumbel"] = setting("puct")
    playouts: Literal["uniform", "mogo"] | None = setting(None, effective="policy")
    nakade: bool = setting(False)
    reuse: bool = setting(True)
    bias: float | Literal["learnt"] | None = setting(None, least=0, most=1)
    weights: pathlib.Path | None = setting(None)
    seed: int = settings.seed_setting("Of all chance.")

    CONFLICTS = (
        Conflict("leaves moves", "search=gumbel", "its root counts one by one; use --leaves 1"),
        Conflict("bias", "!search=rave", "the others have no such schedule"),
        Conflict("nakade", "!playouts=mogo", "give --playouts mogo"),
        Conflict("weights", "reuse", "they change"),
        Conflict("leaves", "there=no", "a field that this class lacks"),
        Conflict("search=gumbel", "!reuse", "it wants reuse"),
    )

    @property
    def left(self) -> int:
        return 1000 - self.simulations

    @property
    def policy(self) -> str:
        return self.playouts or ("mogo" if self.search == "rave" else "uniform")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"simulations": 0}, "--simulations 0: expected from 1 to 1000"),
        ({"simulations": 1.5}, "--simulations 1.5: expected a whole number from 1 to 1000"),
        ({"leaves": 500}, "--leaves 500: expected from 1 to the 400 of --simulations"),
        ({"room": 601}, "--room 601: expected from 0 to 600"),
        ({"games": 3}, "--games 3: expected an even number of at least 2"),
        ({"games": 0}, "--games 0: expected an even number of at least 2"),
        ({"komi": 6.3}, "--komi 6.3: expected a multiple of 0.5 from -10 to 10"),
        ({"rate": 0.0}, "--rate 0.0: expected above 0 and below 1000000"),
        ({"rate": math.inf}, "--rate inf: expected a finite number above 0 and below 1000000"),
        ({"rate": math.nan}, "--rate nan: expected a finite number above 0 and below 1000000"),
        ({"share": 1.0}, "--share 1.0: expected from 0 to below 1"),
        ({"moves": 0}, "--moves 0: expected above 0"),
        ({"bias": 2, "search": "rave"}, "--bias 2: expected from 0 to 1 or learnt"),
        ({"bias": "x", "search": "rave"}, "--bias x: expected a number from 0 to 1 or learnt"),
        ({"sizes": (9, 26)}, "--sizes 26: expected from 2 to 25"),
        ({"sizes": ()}, "--sizes: expected one or more values"),
        ({"search": "alpha"}, "--search alpha: expected one of puct, rave, gumbel"),
        ({"playouts": "x"}, "--playouts x: expected one of uniform, mogo"),
        ({"seed": 2**32}, "--seed 4294967296: expected from 0 to 4294967295"),
        (
            {"search": "gumbel", "leaves": 2},
            "--leaves 2: not with --search gumbel; its root counts one by one; use --leaves 1",
        ),
        (
            {"search": "gumbel", "moves": 3},
            "--moves 3: not with --search gumbel; its root counts one by one; use --leaves 1",
        ),
        ({"bias": 0.1}, "--bias 0.1: only with --search rave; the others have no such schedule"),
        ({"nakade": True}, "--nakade: only with --playouts mogo; give --playouts mogo"),
        ({"weights": pathlib.Path("x")}, "--weights x: not with --reuse; they change"),
        (
            {"search": "gumbel", "reuse": False},
            "--search gumbel: only with --reuse; it wants reuse",
        ),
    ],
)
def test_invalid_values_are_refused(flags, message):
    config = Config(**flags)
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        check(config)
    with_prefix = message.replace("--", "--player.")
    with pytest.raises(ValueError, match=f"^{re.escape(with_prefix)}$"):
        check(config, "player.")


@pytest.mark.parametrize(
    "flags",
    [
        {},
        {"leaves": 400},
        {"room": 600},
        {"komi": -6.5},
        {"share": 0.0},
        {"search": "rave", "nakade": True, "bias": 0.1},
        {"search": "rave", "bias": "learnt"},
        {"playouts": "mogo", "nakade": True},
        {"weights": pathlib.Path("x"), "reuse": False},
    ],
)
def test_valid_values_are_accepted(flags):
    check(Config(**flags))


def test_descriptions_of_ranges():
    fields = {field.name: field for field in dataclasses.fields(Config)}
    kinds = Config.__annotations__ | {"simulations": int, "share": float | None}
    kinds |= {"sizes": tuple[int, ...], "leaves": int, "games": int}
    ranges = {
        name: settings.value_text(Config, fields[name], kinds[name])
        for name in ("simulations", "share")
    }
    assert ranges == {
        "simulations": "a whole number from 1 to 1000",
        "share": "a number from 0 to below 1",
    }
    assert settings.value_text(Config, fields["games"], int) == "an even number of at least 2"
    assert settings.value_text(Config, fields["sizes"], kinds["sizes"]) == (
        "a whole number from 2 to 25, one or more"
    )
    assert settings.limits_text(Config, fields["leaves"]) == "from 1 to --simulations"
    shown = lambda name: settings.default_text(fields[name], fields[name].default)
    assert [shown(name) for name in ("share", "moves", "komi", "rate", "reuse", "sizes")] == [
        *("all", "", "7", "0.1", "yes", "9 19")
    ]


@dataclasses.dataclass(frozen=True)
class More(Config):
    games: int = setting(4, least=2)
    """Games, of which
    this says more."""

    size: int = setting(9, "Points on a side.")
    """Where both are, the argument counts."""


def test_help_is_an_argument_or_the_string_below_a_field():
    help_texts = settings.help_of(More)
    assert help_texts["simulations"] == "Simulations."
    assert help_texts["games"].split() == ["Games,", "of", "which", "this", "says", "more."]
    assert help_texts["size"] == "Points on a side."
    assert "share" not in help_texts
    assert settings.help_of(type("Bare", (More,), {})) == help_texts


def test_conflicts_in_words():
    texts = [(*settings.conflict_text(one), one.reason) for one in settings.conflicts(Config)]
    assert texts[1][:2] == ("--moves", "not with --search gumbel")
    assert texts[2] == ("--bias", "only with --search rave", "the others have no such schedule")
    assert len(texts) == 6


@dataclasses.dataclass(frozen=True)
class Other:
    rate: float = settings.same_as(Config, "rate", 0.5, group="one more")
    leaves: int = settings.same_as(Config, "leaves", most=None)


def test_a_field_of_another_dataclass_keeps_its_range():
    assert Other() == Other(0.5, 1)
    rate, leaves = map(settings.facts_of, dataclasses.fields(Other))
    assert (rate.above, rate.below, rate.group) == (0, 1e6, "one more")
    assert (leaves.least, leaves.most) == (1, None)


@dataclasses.dataclass(frozen=True)
class Plain:
    cheap: int = setting(0)
    share: float = setting(0.25)
    loss: int = setting(3)
    pools: bool = setting(True)

    CONFLICTS = (
        Conflict("share pools", "!cheap", "nothing is cheap", given=True),
        Conflict("!loss=1", "cheap=0", "one is lost", given=True),
    )


def test_what_has_no_effect_is_refused_only_if_given():
    check(Plain(share=0.5, loss=2))
    config = Plain(loss=1, pools=False)
    settings.check_given(config, {"cheap", "loss", "pools"})
    for given, message in (
        ({"share"}, "--share 0.25: only with --cheap; nothing is cheap"),
        ({"loss"}, "--loss 3: not with --cheap 0; one is lost"),
        ({"pools"}, "--pools: only with --cheap; nothing is cheap"),
    ):
        with pytest.raises(ValueError, match=f"^{message}$"):
            settings.check_given(Plain(), given)
    settings.check_given(Plain(cheap=2), {"share", "loss", "pools"})
    assert settings.without_effect(Plain()) == {"share", "loss", "pools"}
    assert settings.without_effect(Plain(cheap=2)) == frozenset()
