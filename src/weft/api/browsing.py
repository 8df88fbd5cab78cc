"""List the objects of a home page by page, as a reader looks through them."""

from __future__ import annotations

from collections.abc import Mapping

from weft.api.weft_methods import WeftMethods
from weft.catalog.query_list import ListedQuery, QueryFilter
from weft.catalog.records import QueryRecord, TableRecord
from weft.errors import NotFound


class Browsing(WeftMethods):
    """The methods of ``Weft`` that list objects by pages, and find objects by ID."""

    def query_page(
        self, wanted: QueryFilter | None = None, *, after: str | None = None, limit: int = 50
    ) -> tuple[ListedQuery, ...]:
        """Return at most ``limit`` installed queries in the order of their names, which come after ``after``."""
        return self.opened.catalog.query_list.page(wanted or QueryFilter(), after, limit)

    def query_counts(self) -> Mapping[str, int]:
        """Return the number of installed queries in each state, and as ``troubled`` the number with a trouble."""
        catalog = self.opened.catalog
        states = {str(state): count for state, count in catalog.queries.counts().items()}
        return states | {"troubled": catalog.query_list.troubled()}

    def query(self, query_id: int) -> QueryRecord:
        """Return the installed query with this ID, whatever its name is now.  Raise NotFound."""
        record = self.opened.catalog.queries.by_id(query_id)
        if record.state == "removed":
            raise NotFound(f"there is no query #{query_id}")
        return record

    def table(self, name: str) -> TableRecord:
        """Return the table with this name, without regard to case.  Raise NotFound."""
        return self.opened.catalog.tables.named(name)
