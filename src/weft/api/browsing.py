"""List the objects of a home page by page, as a reader looks through them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from weft.api.requirements import requires
from weft.api.weft_methods import WeftMethods
from weft.catalog.outbox import OutboxEntry
from weft.catalog.query_list import ListedQuery, QueryFilter
from weft.catalog.records import QueryRecord, TableRecord
from weft.errors import NotFound
from weft.printable import Brief
from weft.rights.principal import Right

if TYPE_CHECKING:
    from weft.storage.ledger import ResultRow


_COUNTED: Final = 10_000
"""The most troubled queries that are counted for somebody who does not see all queries."""


@dataclass(frozen=True, repr=False)
class ShownAnswer(Brief):
    """An answer of a query with the messages that contain it.  A message has a channel."""

    query: QueryRecord
    row: ResultRow
    messages: tuple[tuple[OutboxEntry, str], ...]

    def _brief(self) -> str:
        return f"answer {self.row.ordinal:,} of {self.query.name}: {self.row.values}"


class Browsing(WeftMethods):
    """The methods of ``Weft`` that list objects by pages, and find objects by ID."""

    @requires(Right.READ)
    def query_page(
        self, wanted: QueryFilter | None = None, *, after: str | None = None, limit: int = 50
    ) -> tuple[ListedQuery, ...]:
        """Return at most ``limit`` installed queries in the order of their names, which come after ``after``."""
        seen = self.opened.seen()
        found = self.opened.catalog.query_list.page(
            replace(wanted or QueryFilter(), seen_by=seen.seen_by), after, limit
        )
        return found if seen.seen_by is None else tuple(replace(each, query=seen.told(each.query)) for each in found)

    @requires(Right.READ)
    def query_counts(self) -> Mapping[str, int]:
        """Return the number of installed queries in each state, and as ``troubled`` the number with a trouble."""
        catalog, seen = self.opened.catalog, self.opened.seen()
        if not seen.rights.reaches_all(Right.READ):
            troubled = len(self.query_page(QueryFilter(troubled=True), limit=_COUNTED))
            return {**Counter(str(each.state) for each in seen.queries()), "troubled": troubled}
        states = {str(state): count for state, count in catalog.queries.counts().items()}
        return states | {"troubled": catalog.query_list.troubled()}

    @requires(Right.READ)
    def query(self, query_id: int) -> QueryRecord:
        """Return the installed query with this ID, whatever its name is now.  Raise NotFound."""
        return self.opened.seen().query_by_id(query_id)

    @requires(Right.READ)
    def answer(self, query_id: int, ordinal: int) -> ShownAnswer:
        """Return an answer of the query with this ID.  Raise NotFound or StorageError."""
        from weft.storage.ledger import read_rows

        catalog, query = self.opened.catalog, self.opened.seen().query(self.query(query_id).name)
        with catalog.queries.purge_reported(query_id):
            found = next(read_rows(catalog.data, query, ordinal - 1, 1), None) if ordinal > 0 else None
        if found is None:
            raise NotFound(f"{query.name} has no answer {ordinal:,}", hint=f"Its last answer is {query.rows:,}.")
        return ShownAnswer(query, found, catalog.outbox.with_answer(query_id, ordinal))

    @requires(Right.READ, table="name")
    def table(self, name: str) -> TableRecord:
        """Return the table with this name, without regard to case.  Raise NotFound."""
        return self.opened.catalog.tables.named(name)
