"""Keep the latest answers of queries in memory.

The inbox shows them again and again, and reads a file of the ledger for each tick that found some of them.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from typing import Final

from weft.catalog.records import QueryRecord
from weft.storage.ledger import ResultRow

Rows = tuple[ResultRow, ...]
_QUERIES: Final = 2_000
_MOST: Final = 20
"""The most answers of a query that stay in memory."""
_LONGEST: Final = 5_000
"""The most characters of the texts of a query's answers that stay in memory.  All answers take at most some 10 MB."""


class RecentAnswers:
    """The latest answers of the queries of one open home.

    An answer never changes, and the key contains the number of answers.  New answers and a new plan therefore have
    another key.
    """

    def __init__(self) -> None:
        self._rows: OrderedDict[tuple[object, ...], Rows] = OrderedDict()
        self._lock = threading.Lock()

    def of(
        self,
        queries: Collection[QueryRecord],
        count: int,
        read: Callable[[Collection[QueryRecord]], dict[int, Rows]],
    ) -> dict[int, Rows]:
        """Return the last ``count`` answers of each query by its ID.  ``read`` returns those of some queries.

        Queries without answers are left out.  Raise the errors of ``read``.
        """
        keys = {each.query_id: (each.query_id, each.plan_id, each.rows, count) for each in queries}
        known = self._known(keys.items())
        unknown = [each for each in queries if each.rows and each.query_id not in known]
        found = read(unknown) if unknown else {}
        with self._lock:
            for query_id, rows in found.items():
                if (
                    count <= _MOST
                    and sum(len(each) for row in rows for each in row.values if isinstance(each, str | bytes))
                    <= _LONGEST
                ):
                    self._rows[keys[query_id]] = rows
            while len(self._rows) > _QUERIES:
                self._rows.popitem(last=False)
        return known | found

    def _known(self, keys: Iterable[tuple[int, tuple[object, ...]]]) -> dict[int, Rows]:
        known = {}
        with self._lock:
            for query_id, key in keys:
                if key in self._rows:
                    self._rows.move_to_end(key)
                    known[query_id] = self._rows[key]
        return known
