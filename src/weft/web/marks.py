"""What a person has read.

A user's marks are in the catalog.  The owner of a home has no account: a cookie of her browser has the last tick whose
answers she has read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from starlette.responses import Response

from weft.catalog.records import QueryRecord
from weft.storage.ledger import ResultRow
from weft.web import security
from weft.web.visits import Visit

_SEEN: Final = "weft_seen"


@dataclass(frozen=True)
class Marks:
    """The marks of the person who visits."""

    visit: Visit

    @property
    def _seen(self) -> int:
        text = self.visit.request.cookies.get(security.cookie_name(_SEEN, self.visit.site), "")
        return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0

    def unread(self, queries: Collection[QueryRecord]) -> Mapping[int, int]:
        """Return the numbers of unread answers by the IDs of the queries."""
        ids = [query.query_id for query in queries]
        found = self.visit.weft.accounts.unread(ids)
        return self.visit.weft.news_since(self._seen, ids) if found is None else found

    def unread_of(self, rows: Mapping[int, Collection[ResultRow]]) -> Mapping[int, frozenset[int]]:
        """Return the ordinals of those answers that are unread.  Both maps have the IDs of the queries as keys."""
        given = {key: [each.ordinal for each in some] for key, some in rows.items() if some}
        if self.visit.user is None:
            new = {key: [each.ordinal for each in some if each.tick > self._seen] for key, some in rows.items()}
            return {key: frozenset(some) for key, some in new.items()}
        spans = {key: (min(ordinals), max(ordinals)) for key, ordinals in given.items()}
        read = self.visit.weft.accounts.read_ordinals(spans)
        return {key: frozenset(ordinals) - read.get(key, frozenset()) for key, ordinals in given.items()}

    def read(self, query: QueryRecord, ordinal: int) -> None:
        """Mark an answer as read, if the person has an account."""
        if self.visit.user is not None:
            self.visit.weft.accounts.mark_read(query.query_id, [ordinal])

    def read_all(self, response: Response, queries: Iterable[QueryRecord]) -> None:
        """Mark all answers of these queries as read.  For the owner, mark those of all queries."""
        if self.visit.user is not None:
            for query in queries:
                self.visit.weft.accounts.mark_read(query.query_id)
        elif latest := self.visit.weft.latest_ticks(1):
            name = security.cookie_name(_SEEN, self.visit.site)
            security.set_cookie(response, name, str(latest[0].tick_id), security.YEAR_SECONDS, self.visit.site)
