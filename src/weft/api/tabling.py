"""Manage a home's tables, and describe them and the results of its queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.api.weft_methods import WeftMethods
from weft.catalog.records import RESULTS, QueryRecord, TableRecord
from weft.printable import Brief

if TYPE_CHECKING:
    from weft.storage.ledger import ResultRow


@dataclass(frozen=True, repr=False)
class Description(Brief):
    """A table and a few rows of its newest file, with values in the order of its columns."""

    table: TableRecord
    samples: tuple[tuple[object, ...], ...]

    def _brief(self) -> str:
        return self.table._brief()


@dataclass(frozen=True, repr=False)
class ResultsDescription(Brief):
    """A query, whose answers are the table ``query.results``, and its latest answers.

    ``first`` is the answer with ordinal 1, or None.
    """

    query: QueryRecord
    first: ResultRow | None
    samples: tuple[ResultRow, ...]

    def _brief(self) -> str:
        return f"results of {self.query._brief()}"


class Tabling(WeftMethods):
    """The methods of ``Weft`` that manage tables."""

    def tables(self) -> tuple[TableRecord, ...]:
        """Return every table, in the order in which they were made."""
        return self.opened.catalog.tables.known()

    def drop_table(self, name: str) -> TableRecord:
        """Drop a table with all its rows, its loads and its quarantined records; return its record.

        Raises NotFound, LeaseBusy, and Conflict with their names if standing queries, views or a source use it.
        """
        from weft.execution.undoing import drop_table

        return drop_table(self.opened, name)

    def rename_table(self, old: str, new: str) -> TableRecord:
        """Rename a table; raise as ``drop_table``, and Refused for an invalid name."""
        from weft.execution.undoing import rename_table

        return rename_table(self.opened, old, new)

    def describe(self, table: str, samples: int = 3) -> Description | ResultsDescription:
        """Return a table with at most ``samples`` rows of its newest file; for ``results.NAME``, the latest answers.

        Starts no Spark.  Raises NotFound and StorageError.
        """
        catalog = self.opened.catalog
        scheme, dot, name = table.partition(".")
        if dot and scheme.lower() == RESULTS:
            return self._describe_results(catalog.queries.named(name), samples)
        from weft.storage.samples import sample_rows

        record = catalog.tables.named(table)
        return Description(record, tuple(sample_rows(catalog.data, record, samples)))

    def _describe_results(self, query: QueryRecord, samples: int) -> ResultsDescription:
        from weft.storage.ledger import read_rows

        catalog = self.opened.catalog
        with catalog.queries.purge_reported(query.query_id):
            first = next(read_rows(catalog.data, query, 0, 1), None)
            latest = read_rows(catalog.data, query, query.rows - samples, samples)
            return ResultsDescription(query, first, tuple(latest))
