"""Poll change feeds, and record the changes of several tables in one feed together.

A transaction is recorded at the same time in all tables that it changes. The sources of a feed are therefore polled
together. The feed position advances only after the changes of all sources are recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.catalog import Writer
from weft.catalog.records import TableRecord
from weft.catalog.sources import SourceRecord, chosen_columns
from weft.execution.home import OpenHome
from weft.extraction.batches import Progress
from weft.extraction.quarantine import FEED, quarantine
from weft.extraction.sources.apply_changes import Incoming, record_feeds
from weft.extraction.sources.delta import read_delta
from weft.extraction.sources.feed import extent_of_feed, read_feed
from weft.extraction.sources.replication import read_slot
from weft.extraction.sources.snapshot import file_path
from weft.extraction.sources.source_lease import (
    Accepting,
    Changes,
    FeedBatch,
    Polled,
    TableFeed,
    finished,
    polling_together,
    source_schema,
)
from weft.extraction.sources.topic import TopicPoll
from weft.failpoint import failpoint
from weft.storage.changes import without_own_times
from weft.store import LocalStore, Store


def same_feed(one: SourceRecord, other: SourceRecord) -> bool:
    """Return whether two sources follow the same feed."""
    feeds = [(each.kind, each.location, each.options.get("slot")) for each in (one, other)]
    return one.kind == "changes" and feeds[0] == feeds[1]


def record_feed(
    home: OpenHome, sources: Sequence[SourceRecord], clock: int, accepting: Accepting, progress: Progress | None
) -> list[Polled]:
    """Record the changes of a feed since the last poll of its sources. ``clock`` is the poll time, in microseconds UTC.

    If changes cannot be read or accepted, record nothing and raise ExtractionError or Refused.
    """
    fed = _read(home, sources, accepting, progress)
    if home.catalog.home().clock == "wall":
        clock = max(clock, home.clock())  # time may have passed while the feed was read
    with polling_together(home, sources, [each.added for each in fed.tables]) as (writer, tables):
        incoming = [
            Incoming(table, source.location, _dated(source, table_feed), table_feed.seen, once=table_feed.once)
            for source, table, table_feed in zip(sources, tables, fed.tables, strict=True)
        ]
        quarantined = [_quarantined(writer, home, *each) for each in zip(sources, fed.tables, strict=True)]
        done = record_feeds(writer, home, incoming, clock)
        polled = [
            finished(writer, home, source, recorded, before + recorded.began - recorded.ended, table_feed.seen, late)
            for source, table_feed, (recorded, late, before) in zip(sources, fed.tables, done, strict=True)
        ]
    failpoint("source.recorded")
    fed.recorded()
    return [replace(each, quarantined=count) for each, count in zip(polled, quarantined, strict=True)]


def _quarantined(writer: Writer, home: OpenHome, source: SourceRecord, table_feed: TableFeed) -> int:
    """Store the rejected lines in quarantine before the feed position advances. Return the number of lines."""
    if table_feed.rejected:
        at = home.clock()
        load_id = writer.loads.begin(source.table_id, source.location, "changes", None, at)
        new = quarantine(home.catalog, load_id, source.table_id, table_feed.rejected, lambda _: {"kind": FEED}, at)
        writer.loads.finish(load_id, 0, len(table_feed.rejected) - new, new, 0, at)
    return len(table_feed.rejected)


def _dated(source: SourceRecord, table_feed: TableFeed) -> Changes:
    if source.stamps == "source":
        return table_feed.changes
    return lambda there: without_own_times(table_feed.changes(there))


def _read(
    home: OpenHome, sources: Sequence[SourceRecord], accepting: Accepting, progress: Progress | None
) -> FeedBatch:
    tables = [home.catalog.tables.by_id(source.table_id) for source in sources]
    if "slot" in sources[0].options:
        return read_slot(sources, tables, accepting, progress)
    if "topic" in sources[0].options:
        return _read_topic(sources, tables, accepting, progress)
    path = file_path(sources[0].location)
    if "delta" in sources[0].options:
        return FeedBatch(
            [_read_delta(LocalStore(str(path)), *each, accepting) for each in zip(sources, tables, strict=True)]
        )
    extent = extent_of_feed(path, [source.seen for source in sources])
    tables_read = []
    for source, table in zip(sources, tables, strict=True):
        options = source.options
        tables_read.append(
            read_feed(
                path,
                extent,
                options.get("table"),
                source_schema(table),
                chosen_columns(options),
                source.seen,
                keys=table.keys,
                accepting=accepting,
                progress=progress,
            )
        )
    return FeedBatch(tables_read)


def _read_topic(
    sources: Sequence[SourceRecord],
    tables: Sequence[TableRecord],
    accepting: Accepting,
    progress: Progress | None,
) -> FeedBatch:
    poll = TopicPoll.begun(sources[0].location, [source.seen for source in sources])
    tables_read = []
    for source, table in zip(sources, tables, strict=True):
        options, schema = source.options, source_schema(table)
        of, chosen = options.get("table"), chosen_columns(options)
        tables_read.append(poll.read(of, schema, chosen, source.seen, table.keys, accepting, progress))
    return FeedBatch(tables_read)


def _read_delta(path: Store, source: SourceRecord, table: TableRecord, accepting: Accepting) -> TableFeed:
    schema, chosen = source_schema(table), chosen_columns(source.options)
    return read_delta(path, schema, table.keys, chosen, source.seen, accepting)
