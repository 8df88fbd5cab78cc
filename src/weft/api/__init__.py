"""Weft as a library: everything that the command line does, as methods of ``Weft``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.api.weft import Weft

__all__ = ["Weft"]


def __getattr__(name: str) -> Any:
    if name == "Weft":  # explaining a query needs none of what stands behind it
        from weft.api.weft import Weft

        return Weft
    raise AttributeError(name)
