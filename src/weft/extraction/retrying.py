"""Reading once more what is in quarantine: with a Weft, a clock or a table that can read it now."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.catalog import Catalog
from weft.catalog.records import QuarantineRecord, TableRecord
from weft.errors import NotFound
from weft.extraction.files.casting import connect
from weft.extraction.files.rows import Caster, Layout
from weft.extraction.files.text_records import Dialect, csv_records, json_records
from weft.extraction.mail.message import MailOptions, read_message
from weft.extraction.quarantine import quarantined_bytes
from weft.extraction.records import Batch, RawRecord, Rejected, Row, arrow_schema, batches_of
from weft.extraction.storing import Destination, begin, store_batches


@dataclass(frozen=True)
class Retried:
    """What became of the records tried: ``read`` are out of quarantine, giving ``stored`` new rows; ``kept`` stay."""

    read: int
    kept: int
    stored: int
    known: int


def retry(
    home: Path,
    catalog: Catalog,
    spark: Callable[[], Any],
    at: int,
    ids: Collection[int] | None = None,
    *,
    clock: Callable[[], int] | None = None,
) -> Retried:
    """Reads the open records of the quarantine (all, or those named) again with their loads' options.

    A record that is read now becomes rows, late ones where they have an own time; one that is not gets its reason of
    today. Run again after a crash, it stores nothing twice.  ``at`` is µs UTC.  Raises NotFound for an id that is not
    open there, StorageError for bytes that are gone.
    """
    to = Destination(home, catalog, spark, clock or (lambda: at))
    open_records = {record.quarantine_id: record for record in catalog.quarantine.all()}
    missing = sorted(set(ids or ()) - set(open_records))
    if missing:
        raise NotFound(f"there is no open record {missing[0]} in quarantine", hint="`weft quarantine list` names them.")
    begin(to)
    total = Retried(0, 0, 0, 0)
    for number, record in open_records.items():
        if ids is None or number in ids:
            total = _retry_one(to, record, at, total)
    return total


def _retry_one(to: Destination, record: QuarantineRecord, at: int, total: Retried) -> Retried:
    table = to.catalog.tables.by_id(record.table_id)
    batch = _read(quarantined_bytes(to.home, record), record, table, at)
    if batch.rejected or not batch.rows.num_rows:
        reason = batch.rejected[0].reason if batch.rejected else record.reason
        if reason != record.reason:
            to.catalog.quarantine.settle(record.quarantine_id, "open", reason=reason)
        return Retried(total.read, total.kept + 1, total.stored, total.known)
    # Its own digest makes a retry that died go on where it was, as a file's load does.
    digest = f"quarantine-{record.quarantine_id}"
    before = to.catalog.loads.of_source(table.table_id, digest)
    load_id = (
        before[0].load_id if before else to.catalog.loads.begin(table.table_id, record.source, "retry", digest, at)
    )
    skip = None if table.keys else to.catalog.loads.stored_by(load_id)
    done = store_batches(to, table, load_id, [batch], {}, skip=skip)
    to.catalog.quarantine.settle(record.quarantine_id, "retried")
    return Retried(total.read + 1, total.kept, total.stored + done.stored, total.known + done.known)


def _read(raw: bytes, record: QuarantineRecord, table: TableRecord, at: int) -> Batch:
    options = json.loads(record.options)
    columns = [(column.name, column.type) for column in table.schema.columns if column.name != table.schema.start]
    if options["kind"] == "mail":
        read = read_message(RawRecord(record.position, raw), options["stem"], MailOptions(options["newsgroup"], at))
        items: list[Row | Rejected] = (
            [Rejected(record.source, record.position, read, raw)]
            if isinstance(read, str)
            else [Row(values, _own_time(values, options["ts_from"])) for values in read]
        )
        return next(batches_of(items, columns))
    names = tuple(options["names"])
    # A record of a Parquet file is kept as its JSON.
    is_csv = options["format"] == "csv"
    layout = Layout("csv" if is_csv else "json", names, ("VARCHAR",) * len(names), Dialect(*options["dialect"]))
    stream: Any = io.BufferedReader(io.BytesIO(raw))
    records = csv_records(stream, layout.dialect, len(names)) if is_csv else json_records(stream)
    with connect() as connection:
        batches = Caster(layout, options["own_time"], columns, record.source).text_batches(records, connection)
        return next(batches, Batch(arrow_schema(columns).empty_table(), (), 0))


def _own_time(values: dict[str, object], ts_from: str | None) -> int | None:
    own = None if ts_from is None else values[ts_from]
    return own if isinstance(own, int) else None
