"""Definitions, plans, subscriptions, the tick log and the writer's lease, in one SQLite file a home."""

from __future__ import annotations

from weft.catalog.catalog import Catalog, open_catalog

__all__ = ["Catalog", "open_catalog"]
