"""The scale on which GNU Go has 1800."""

from __future__ import annotations

import dataclasses

import pytest

from experiments.against_gnugo.config import MATCHES
from experiments.matches import results, scale
from experiments.matches.config import GNUGO, GNUGO_3_7_10
from tests.experiments.test_against_gnugo import summary


def test_ratings_by_hand():
    assert scale.rating(0.5) == 1800
    assert scale.rating(10 / 11) == pytest.approx(2200)
    assert scale.rating(1 / 11) == pytest.approx(1400)
    assert scale.rating_text(GNUGO, 10 / 11, 0.5, 100 / 101) == "2,200 [1,800, 2,600]"
    assert scale.rating_text(GNUGO, 1.0, 10 / 11, 1.0) == "over 2,200"
    assert scale.rating_text(GNUGO, 0.0, 0.0, 1 / 11) == "under 1,400"


@pytest.mark.parametrize(
    ("command", "counts"),
    [
        (GNUGO, True),
        ("/usr/games/gnugo --mode gtp", True),
        (GNUGO_3_7_10, True),
        ("gnugo --mode gtp --level=10", True),
        (GNUGO.replace("--level 10", "--level 0"), False),
        ("gnugo --mode gtp --level=8", False),
        ("katago gtp", False),
        (None, False),
    ],
)
def test_the_scale_is_that_of_level_10(command, counts):
    assert scale.is_gnugo(command) is counts


def test_tables_of_matches_have_ratings_against_gnugo():
    rows = [results.row_of(name, MATCHES[name], 200, summary(100, 100)) for name in MATCHES]
    rows = [row for row in rows if row.match in ("rave", "playouts")]
    head, _, rave, playouts = results.table(rows, MATCHES).splitlines()
    assert head.endswith(f"| {scale.HEAD} |")
    assert rave.endswith("| 1,800 [1,765, 1,835] |")
    assert playouts.endswith("|  |")
    only_ours = [dataclasses.replace(rows[1], match="playouts")]
    assert scale.HEAD not in results.table(only_ours, MATCHES)
