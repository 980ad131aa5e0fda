"""Frozen dataclasses that are pytrees: `flax.struct` without the import of flax.

An engine that plays without a network would wait for that import at each start.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Self, dataclass_transform

import jax


def static() -> Any:
    """A field that is no child of the pytree: part of its structure, to be compared and hashed."""
    return dataclasses.field(metadata={"static": True})


@dataclass_transform(frozen_default=True, field_specifiers=(static,))
class PyTreeNode:
    """Base of a frozen dataclass whose fields are the children of a pytree."""

    def __init_subclass__(cls, **options: Any):
        super().__init_subclass__(**options)
        made: Any = dataclasses.dataclass(frozen=True)(cls)
        names: tuple[list[str], list[str]] = ([], [])
        for field in dataclasses.fields(made):
            names["static" in field.metadata].append(field.name)
        jax.tree_util.register_dataclass(cls, data_fields=names[0], meta_fields=names[1])

    def replace(self, **changes: Any) -> Self:
        """A copy with other fields."""
        return dataclasses.replace(self, **changes)  # pyright: ignore[reportArgumentType]
