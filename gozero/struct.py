"""Frozen dataclasses that are pytrees: `flax.struct` without importing flax.

An engine that plays without a network would otherwise wait for that import at every start.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Self, dataclass_transform

import jax


def static() -> Any:
    """A static field: not a child, but part of the pytree's structure, compared and hashed."""
    return dataclasses.field(metadata={"static": True})


@dataclass_transform(frozen_default=True, field_specifiers=(static,))
class PyTreeNode:
    """Base class of frozen dataclasses that are pytrees, with their fields as children."""

    def __init_subclass__(cls, **options: Any):
        super().__init_subclass__(**options)
        made: Any = dataclasses.dataclass(frozen=True)(cls)
        names: tuple[list[str], list[str]] = ([], [])
        for field in dataclasses.fields(made):
            names["static" in field.metadata].append(field.name)
        jax.tree_util.register_dataclass(cls, data_fields=names[0], meta_fields=names[1])

    def replace(self, **changes: Any) -> Self:
        """Returns a copy with the given fields changed."""
        return dataclasses.replace(self, **changes)  # pyright: ignore[reportArgumentType]
