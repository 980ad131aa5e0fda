"""Limits and names that the library shares with the flags of its commands. Imports no JAX."""

from __future__ import annotations

from typing import Literal

VALUE_ONE = 2**14
"""Fixed point: a value of 1.0 in `Tree.value` and `Tree.value_sum`."""

MAX_VISITS = (2**31 - 1) // VALUE_ONE - 1
"""The most visits whose values, with the node's own, cannot overflow an i32 sum: 131,070. The limit
of several trees together, and of a heuristic's counts."""

MOST_VISITS = 2**30 - 1
"""The most visits for which sums of two words (`values.Wide`), i32 counts and the rows of a tree
suffice."""

FinalMove = Literal["visits", "value", "bound", "eval"]
"""How the move to play is chosen, see `SearchConfig`."""

RootValue = Literal["mean", "policy"]
"""The root's value in value targets, see `SelfPlayConfig`."""
AmafPlays = Literal["either", "same"]
"""Which plays count for all-moves-as-first statistics, see `Amaf`."""

FeaturesName = Literal["compact", "full", "full-no-ladders", "zero"]
"""The feature sets of networks, see `nets.features`."""

Dtype = Literal["float32", "bfloat16"]
"""The dtypes in which a network computes."""

KATAGO_MAX_SIZE = 19
"""The largest board of KataGo's networks."""

KATAGO_SUFFIXES = (".bin", ".bin.gz", ".txt.gz")
"""Of the names of their files; those of text are recognised, and refused when they are read."""
