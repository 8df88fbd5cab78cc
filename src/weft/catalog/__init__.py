"""The catalog of a home: definitions, plans, subscriptions, the tick log and the leases, in one database.

The database library is loaded only when the catalog is used; records, layout and ``table_sizes`` do without it.
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
