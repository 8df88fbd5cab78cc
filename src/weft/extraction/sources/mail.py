"""Follow mail and news: a source that appends each new message to a mail table, once.

Other sources fill tracked tables, because their rows change. Messages only arrive, so they are stored as
``weft ingest mail`` stores them, in a table that archives may be loaded into, too. The position of the source is
recorded with the reservation of the rows. A message whose id the table already has is not stored again.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any, Final, Literal, cast

import pyarrow as pa

from weft.catalog import Writer
from weft.catalog.records import TableRecord
from weft.catalog.sources import SourceKind, SourceRecord, Stamps
from weft.errors import Refused
from weft.execution.append_rows import OWN_TIME, Appended, append
from weft.execution.history_log import Recorded
from weft.execution.home import OpenHome
from weft.extraction.batches import Progress, RejectedRecord, Row, Timing, arrow_schema, batches_of
from weft.extraction.ingest import mail_table
from weft.extraction.mail.message import MAIL_COLUMNS, MAIL_KEY, MailOptions, read_message
from weft.extraction.quarantine import quarantine
from weft.extraction.sources.imap import check_imap, read_imap
from weft.extraction.sources.maildir import check_maildir, read_maildir
from weft.extraction.sources.new_messages import NewMessages
from weft.extraction.sources.nntp import check_nntp, read_nntp
from weft.extraction.sources.snapshot import file_path
from weft.extraction.sources.source_lease import Polled, finished, polling
from weft.failpoint import failpoint
from weft.mail_servers.address import mail_place

MAIL_KINDS: Final[tuple[SourceKind, ...]] = ("maildir", "imap", "nntp")


def add_mail_source(
    home: OpenHome, name: str, kind: SourceKind, location: str, *, every_us: int, stamps: Stamps | None
) -> SourceRecord:
    """Add a source that appends new messages to the mail table ``name``. Create the table if it does not exist.

    If ``stamps`` is "source", the ``ts`` of a message is its Date. Otherwise, it is the time of the poll. Raises
    NotFound, ExtractionError, Refused or Conflict.
    """
    if stamps == "file":
        raise Refused("--ts file is for sources in a file", hint="Use --ts clock, or --ts source for the Date.")
    place = mail_source_place(kind, location)
    with home.writing(f"add the source {name}") as writer:
        table = mail_table(writer, name)
        if table is None:
            table = writer.tables.create(name, MAIL_COLUMNS, MAIL_KEY, "date" if stamps == "source" else None)
        writer.sources.add(table.table_id, kind, place, {}, stamps or "clock", every_us, home.clock(), table.rows)
    return home.catalog.sources.named(name)


def mail_source_place(kind: SourceKind, location: str) -> str:
    """Return the canonical location of an existing source."""
    if kind == "maildir":
        path = file_path(location)
        check_maildir(path)
        return str(path)
    place = mail_place(location, cast('Literal["imap", "nntp"]', kind))
    check_imap(place) if kind == "imap" else check_nntp(place)
    return place.text


def record_mail(home: OpenHome, source: SourceRecord, clock: int, progress: Progress | None) -> Polled:
    """Store the messages that have come since the last poll. ``clock`` is the poll time, in microseconds UTC.

    Each part of the messages is committed with its position. If the source fails in the middle, the parts before stay.
    """
    total = Polled(source.name, 0, 0, source.open_rows, appends=True)
    with closing(_read(source)) as reading:
        for part in reading:
            total = _added(total, _stored(home, source, part, clock))
            source = home.catalog.sources.named(source.name)
            if progress is not None:
                progress(total.began)
    return total


def _read(source: SourceRecord) -> Generator[NewMessages, None, None]:
    match source.kind:
        case "maildir":
            return read_maildir(file_path(source.location), source.seen)
        case "imap":
            return read_imap(mail_place(source.location, "imap"), source.seen)
        case _:
            return read_nntp(mail_place(source.location, "nntp"), source.seen)


def _stored(home: OpenHome, source: SourceRecord, part: NewMessages, clock: int) -> Polled:
    timing = Timing("date" if source.stamps == "source" else None)
    rows, rejected = _rows(source, part, timing, home.clock())
    if home.catalog.home().clock == "replay" and timing.ts_from is None:
        rows = rows.set_column(
            rows.schema.get_field_index(OWN_TIME), OWN_TIME, pa.repeat(pa.scalar(clock, pa.int64()), rows.num_rows)
        )
    failpoint("source.read")
    with polling(home, source) as (writer, table):
        done, new = Appended(0, 0), 0
        if rows.num_rows or rejected:
            done, new = _appended(writer, home, source, table, rows, rejected, timing, part.seen)
        count = writer.tables.by_id(table.table_id).rows
        recorded = Recorded(done.stored, 0, done.first_ts, done.last_ts)
        polled = finished(writer, home, source, recorded, count, part.seen, done.late)
    return replace(polled, quarantined=new, appends=True)


def _appended(
    writer: Writer,
    home: OpenHome,
    source: SourceRecord,
    table: TableRecord,
    rows: pa.Table,
    rejected: tuple[RejectedRecord, ...],
    timing: Timing,
    seen: Mapping[str, Any],
) -> tuple[Appended, int]:
    """Store the rows with the position, and the rejected messages in quarantine before them."""
    at = home.clock()
    options = {"kind": "mail", "newsgroup": None, **timing.options()}
    load_id = writer.loads.begin(table.table_id, source.location, "poll", None, at)
    new = quarantine(home.catalog, load_id, table.table_id, rejected, lambda _: options, at)
    done = append(writer, table, load_id, rows, at, MAIL_KEY, seen=seen)
    writer.loads.finish(load_id, done.stored, done.known + len(rejected) - new, new, done.late, at)
    return done, new


def _rows(
    source: SourceRecord, part: NewMessages, timing: Timing, at: int
) -> tuple[pa.Table, tuple[RejectedRecord, ...]]:
    options = MailOptions(None, at, timing.future_us)
    items: list[Row | RejectedRecord] = []
    for record in part.records:
        read = read_message(record, part.stem, options)
        if isinstance(read, str):
            items.append(RejectedRecord(source.location, record.position, read, record.raw, part.stem))
        else:
            items += [Row(values, _own_time(values, timing)) for values in read]
    batches = list(batches_of(items, MAIL_COLUMNS))
    rows = pa.concat_tables([arrow_schema(MAIL_COLUMNS).empty_table(), *(each.rows for each in batches)])
    return rows, tuple(record for each in batches for record in each.rejected)


def _own_time(values: Mapping[str, object], timing: Timing) -> int | None:
    own = values["date"] if timing.ts_from is not None else None
    return own if isinstance(own, int) else None


def _added(total: Polled, done: Polled) -> Polled:
    return replace(
        done,
        began=total.began + done.began,
        at=total.at if done.at is None else done.at,
        late=total.late + done.late,
        quarantined=total.quarantined + done.quarantined,
    )
