"""The catalog of a home: definitions, plans, subscriptions, the tick log and the leases, in one database.

Weft imports the database library only when it uses the catalog.  Records, layout and ``table_sizes`` do not need the
library.
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
