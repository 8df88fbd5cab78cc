"""Loading, and what is loaded."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.api.opened import Opened
from weft.catalog.records import QuarantineRecord, TableRecord

if TYPE_CHECKING:
    from weft.extraction.records import Progress
    from weft.extraction.retrying import Retried
    from weft.extraction.storing import Summary

Path = str | os.PathLike[str]


@dataclass(frozen=True)
class Description:
    """A table and a few rows of its newest file, the values in the order of its columns."""

    table: TableRecord
    samples: tuple[tuple[object, ...], ...]


class Loading(Opened):
    """Tables, loads, quarantine."""

    def ingest_mail(
        self,
        paths: Path | Sequence[Path],
        *,
        table: str = "msgs",
        ts_from: str | None = None,
        newsgroup: str | None = None,
        progress: Progress | None = None,
    ) -> Summary:
        """Loads mailboxes, directories of articles and archives of them; see ``extraction.ingest.ingest_mail``."""
        from weft.extraction.ingest import ingest_mail

        return ingest_mail(
            self.home,
            self.catalog,
            self.session,
            [paths] if isinstance(paths, str | os.PathLike) else paths,
            table,
            ts_from,
            newsgroup,
            self.clock(),
            progress,
            clock=self.clock,
        )

    def ingest_file(
        self,
        path: Path,
        table: str,
        *,
        ts_from: str | None = None,
        keys: Sequence[str] | None = None,
        evolve: bool = False,
        progress: Progress | None = None,
    ) -> Summary:
        """Loads a CSV, JSON lines or Parquet file; see ``extraction.ingest.ingest_file``."""
        from weft.extraction.ingest import ingest_file

        return ingest_file(
            self.home,
            self.catalog,
            self.session,
            path,
            table,
            ts_from,
            keys,
            evolve,
            self.clock(),
            progress,
            clock=self.clock,
        )

    def tables(self) -> tuple[TableRecord, ...]:
        """Every table, in the order in which they were made."""
        return self.catalog.tables.all()

    def describe(self, table: str, samples: int = 3) -> Description:
        """A table with at most ``samples`` rows of its newest file; raises NotFound, StorageError.  Starts no Spark."""
        from weft.storage.samples import sample_rows

        record = self.catalog.tables.named(table)
        return Description(record, tuple(sample_rows(self.home, record, samples)))

    def quarantined(self) -> tuple[QuarantineRecord, ...]:
        """The records that could not be read, the oldest first."""
        return self.catalog.quarantine.all()

    def retry_quarantine(self, ids: Collection[int] | None = None) -> Retried:
        """Reads quarantined records again, all or those named; raises NotFound, StorageError, LeaseBusy."""
        from weft.extraction.retrying import retry

        return retry(self.home, self.catalog, self.session, self.clock(), ids, clock=self.clock)
