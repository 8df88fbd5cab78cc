"""Definitions, plans, subscriptions, the tick log and the writer's lease, in one database a home.

The database's library is loaded when the catalog is first asked for: records, layout and ``glance`` need none of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.catalog.catalog import Catalog, CatalogParts, Writer, open_catalog

__all__ = ["Catalog", "CatalogParts", "Writer", "open_catalog"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from weft.catalog import catalog

        return getattr(catalog, name)
    raise AttributeError(name)
