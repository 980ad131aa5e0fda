"""Rules by KataGo's names for them and for their fields. Imports no JAX.

https://lightvector.github.io/KataGo/rules.html
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from gozero.go import coords
from gozero.go.coords import KoRule


class RuleSet(NamedTuple):
    """Rules, of which gozero plays the ko rule and suicide; without arguments, Tromp-Taylor's."""

    ko: KoRule = "positional"
    suicide: bool = True
    scoring: str = "AREA"  # or TERRITORY
    tax: str | None = None  # NONE, SEKI or ALL; None: what is usual with the scoring
    button: bool = False
    bonus: str = "0"  # White's points for N handicap stones: 0, N or N-1
    usual_komi: float = 7.5

    @property
    def ignored(self) -> list[str]:
        """What gozero does not play of these rules, each in a sentence."""
        usual_tax = "SEKI" if self.scoring == "TERRITORY" else "NONE"
        sentences = {
            "The score is counted by area; other scoring is not supported": self.scoring != "AREA",
            f"The tax {self.tax} is not supported, it is ignored": self.tax
            not in (None, "NONE", usual_tax),
            "hasButton is not supported, it is ignored": self.button,
        }
        return [sentence for sentence, is_true in sentences.items() if is_true]

    def handicap_points(self, stones: int) -> int:
        """White's points, besides the komi, for the stones of a handicap."""
        return {"0": 0, "N": stones, "N-1": max(0, stones - 1)}[self.bonus]


_CHINESE = RuleSet("positional", False, bonus="N")
_JAPANESE = RuleSet("simple", False, "TERRITORY", usual_komi=6.5)
_AGA = RuleSet("situational", False, bonus="N-1")
PRESETS: dict[str, RuleSet] = {
    "tromp-taylor": RuleSet(),
    "chinese": _CHINESE._replace(ko="simple"),
    "chinese-ogs": _CHINESE,
    "chinese-kgs": _CHINESE,
    "japanese": _JAPANESE,
    "korean": _JAPANESE,
    "ancient-territory": _JAPANESE._replace(tax="ALL"),
    "ancient-area": RuleSet("simple", False, tax="ALL"),
    "stone-scoring": RuleSet("simple", False, tax="ALL"),
    "aga": _AGA,
    "bga": _AGA,
    "french": _AGA,
    "aga-button": _AGA._replace(button=True, usual_komi=7.0),
    "new-zealand": RuleSet("situational", usual_komi=7.0),
    "nz": RuleSet("situational", usual_komi=7.0),
    "goe": RuleSet(),
    "ing": RuleSet(),
}
"""Rule sets by name; a space, an underscore or nothing may stand for each hyphen."""

_SGF_NAMES: dict[tuple[KoRule, bool], str] = {
    ("simple", False): "Chinese",
    ("positional", False): "Chinese",
    ("situational", False): "AGA",
    ("positional", True): "Tromp-Taylor",
    ("situational", True): "NZ",
}

_LETTERS_OF = {name.replace("-", ""): rules for name, rules in PRESETS.items()}

_FIELDS = {
    "koRule": "ko",
    "score": "scoring",
    "scoringRule": "scoring",
    "taxRule": "tax",
    "multiStoneSuicideLegal": "suicide",
    "hasButton": "button",
    "whiteHandicapBonus": "bonus",
    "whiteHandicapBonusRule": "bonus",
}
"""Fields of `RuleSet` by KataGo's names, present and past, where these differ."""

_CHOICES = {
    "ko": tuple(ko.upper() for ko in coords.KO_RULES),
    "scoring": ("AREA", "TERRITORY"),
    "tax": ("NONE", "SEKI", "ALL"),
    "bonus": ("0", "N", "N-1"),
}


def named(name: str) -> RuleSet | None:
    """The rules of this name; None: it is unknown."""
    return _LETTERS_OF.get(re.sub(r"[-_ ]", "", name.strip().lower()))


def sgf_name(ko: KoRule, suicide: bool) -> str:
    """The rules with this ko rule and suicide, counted by area, for SGF's RU: by a usual name, if
    there is one. (Chinese rules have simple ko in practice, and positional superko in print.)"""
    return _SGF_NAMES.get((ko, suicide)) or f"area, {ko} ko, suicide"


def with_field(rules: RuleSet, name: str, value: Any) -> RuleSet:
    """The rules with another value of a field of KataGo's rules. (`friendlyPassOk` has no effect:
    here two passes do end a game.)

    Raises:
      ValueError: the field is unknown, or the value is not one of its values.
    """
    field = _FIELDS.get(name, name)
    if field in _CHOICES:
        choices = _CHOICES[field]
        if str(value).upper() not in choices:
            raise ValueError(f"{name} must be {', '.join(choices[:-1])} or {choices[-1]}")
        value = str(value).upper()
        return rules._replace(**{field: value.lower() if field == "ko" else value})
    if field not in ("suicide", "button", "friendlyPassOk"):
        raise ValueError(f"Unknown rules option: {name[:40]}")
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be true or false")
    return rules if field == "friendlyPassOk" else rules._replace(**{field: value})


def of_json(fields: Mapping[str, Any]) -> RuleSet:
    """The rules with these fields, the others as in Tromp-Taylor rules.

    Raises:
      ValueError: as for `with_field`.
    """
    rules = RuleSet()
    for name, value in fields.items():
        rules = with_field(rules, name, value)
    return rules._replace(
        usual_komi=6.5 if rules.scoring == "TERRITORY" else 7.0 if rules.button else 7.5
    )
