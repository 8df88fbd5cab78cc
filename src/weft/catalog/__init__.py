"""The catalog of a home: a database with the home's definitions, plans, subscriptions, ticks and leases.

Weft imports the database library only when a home's catalog is used.  The modules ``address``, ``layout`` and
``records`` do not need the database library.
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
