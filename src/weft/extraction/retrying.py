"""Retry quarantined records.

A rejected record may become readable in a newer version, at a later time, or after a change of the table.
"""

from __future__ import annotations

import io
import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any

from weft.catalog.records import QuarantineRecord, TableRecord
from weft.errors import NotFound, Refused
from weft.execution.home import OpenHome
from weft.extraction.batches import Batch, Late, RawRecord, RejectedRecord, Row, Timing, arrow_schema, batches_of
from weft.extraction.files.rows import Caster, Layout, OwnTimes
from weft.extraction.files.text_records import CsvRecords, Dialect, TextRecord, json_records
from weft.extraction.mail.message import MailOptions, read_message
from weft.extraction.quarantine import FEED, quarantined_bytes
from weft.extraction.storing import check_row_times, loading_lease, register_load, store_batches
from weft.printable import Brief
from weft.storage.local_sql import connect


@dataclass(frozen=True, repr=False)
class Retried(Brief):
    """The result of a retry.

    ``read`` is the number of records that left the quarantine. ``kept`` is the number of records that remain in the
    quarantine. ``stored`` is the number of new rows.
    """

    read: int = 0
    kept: int = 0
    stored: int = 0
    known: int = 0
    late: int = 0

    def _brief(self) -> str:
        return f"{self.read:,} read, {self.kept:,} still in quarantine, {self.stored:,} stored, {self.known:,} known"


def retry(
    to: OpenHome, ids: Collection[int] | None = None, *, late: Late | None = None, future_us: int | None = None
) -> Retried:
    """Retry the open records of the quarantine with the options of their loads. ``ids`` selects some of the records.

    ``late`` and ``future_us`` override the options of the loads (see :class:`~weft.extraction.batches.Timing`). A late
    record stays in quarantine unless ``late`` is ``stamp``. If a record can now be read, its rows are stored. If a
    record still cannot be read, its reason is updated. An interrupted retry can be repeated and stores nothing twice.
    Raises NotFound for an id without an open record. Raises StorageError for missing bytes.
    """
    open_records = {record.quarantine_id: record for record in to.catalog.quarantine.all()}
    missing = sorted(set(ids or ()) - set(open_records))
    if missing:
        raise NotFound(
            f"the quarantine has no open record {missing[0]}", hint="List the open records with `weft quarantine list`."
        )
    total = Retried()
    for number, record in open_records.items():
        if ids is None or number in ids:
            timing = Timing.of_options(json.loads(record.options))
            timing = replace(
                timing, late=late or timing.late, future_us=timing.future_us if future_us is None else future_us
            )
            total = _retry_one(to, record, timing, total)
    return total


def _retry_one(to: OpenHome, record: QuarantineRecord, timing: Timing, total: Retried) -> Retried:
    if json.loads(record.options)["kind"] == FEED:
        # Do not insert the change, because later changes of the same key may be recorded already. The record stays in
        # quarantine.
        return _stays(to, record, record.reason, total)
    table = to.catalog.tables.by_id(record.table_id)
    batch = _read(to, quarantined_bytes(to.catalog.data, record), record, table, timing)
    if batch.rejected or not batch.rows.num_rows:
        return _stays(to, record, batch.rejected[0].reason if batch.rejected else record.reason, total)
    # The digest identifies the retry. If a retry died, the next one continues where it stopped.
    digest = f"quarantine-{record.quarantine_id}"
    # Refuse a late record instead of quarantining it, because it is already in quarantine.
    strict = replace(timing, late="stamp" if timing.late == "stamp" else "refuse")
    try:
        check_row_times(to, table.name, table.keys, lambda: [batch], strict)
    except Refused:
        return _stays(to, record, record.reason if record.reason.startswith("late") else "late", total)
    with loading_lease(to, table.name) as writer:
        load = register_load(writer, to, table, record.source, "retry", digest, {}, strict)
    try:
        done = store_batches(load, [batch])
    except Refused:
        return _stays(to, record, record.reason if record.reason.startswith("late") else "late", total)
    to.catalog.quarantine.settle(record.quarantine_id, "retried")
    return Retried(
        total.read + 1, total.kept, total.stored + done.stored, total.known + done.known, total.late + done.late
    )


def _stays(to: OpenHome, record: QuarantineRecord, reason: str, total: Retried) -> Retried:
    if reason != record.reason:
        to.catalog.quarantine.settle(record.quarantine_id, "open", reason=reason)
    return replace(total, kept=total.kept + 1)


def _read(to: OpenHome, raw: bytes, record: QuarantineRecord, table: TableRecord, timing: Timing) -> Batch:
    options = json.loads(record.options)
    columns = [(column.name, column.type) for column in table.schema.columns if column.name != table.schema.start]
    if options["kind"] == "mail":
        reading = MailOptions(options["newsgroup"], to.clock(), timing.future_us)
        read = read_message(RawRecord(record.position, raw), options["stem"], reading)
        items: list[Row | RejectedRecord] = (
            [RejectedRecord(record.source, record.position, read, raw)]
            if isinstance(read, str)
            else [Row(values, _own_time(values, timing.ts_from)) for values in read]
        )
        return next(batches_of(items, columns))
    names = tuple(options["names"])
    # The quarantine stores a record of a Parquet file as JSON.
    is_csv = options["format"] == "csv"
    form, written = options["form"], tuple(options.get("written", ()))
    layout = Layout(
        "csv" if is_csv else "json", names, ("VARCHAR",) * len(names), Dialect(*options["dialect"]), written
    )
    latest = to.clock() + timing.future_us if to.catalog.home().clock == "wall" else None
    own_times = OwnTimes(options["own_time"], timing.order == "arrival", latest, timing.too_far, form)
    stream: Any = io.BufferedReader(io.BytesIO(raw))
    records: Iterable[TextRecord] = CsvRecords(stream, layout.dialect, len(names)) if is_csv else json_records(stream)
    with connect() as connection:
        batches = Caster(layout, own_times, columns, record.source).text_batches(records, connection)
        return next(batches, Batch(arrow_schema(columns).empty_table(), (), 0))


def _own_time(values: dict[str, object], ts_from: str | None) -> int | None:
    own = None if ts_from is None else values[ts_from]
    return own if isinstance(own, int) else None
