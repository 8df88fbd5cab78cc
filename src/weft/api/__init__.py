"""The Python API of Weft.  The methods of ``Weft`` offer every operation of the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.api.weft import Weft

__all__ = ["Weft"]


def __getattr__(name: str) -> Any:
    if name == "Weft":  # imported on first use: explaining a query does not need it
        from weft.api.weft import Weft

        return Weft
    raise AttributeError(name)
