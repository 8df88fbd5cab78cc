"""Following feeds of changes: what one feed tells of several tables is recorded as one.

A transaction may touch several tables, and has one instant in all of them.  So the sources of a feed are polled
together, and what was read of it counts as read once all of them are recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.catalog import Writer
from weft.catalog.records import TableRecord
from weft.catalog.sources import SourceRecord, chosen_columns
from weft.execution.home import Home
from weft.extraction.batches import Progress
from weft.extraction.quarantine import FEED, quarantine
from weft.extraction.sources.apply_changes import Incoming, record_feeds
from weft.extraction.sources.delta import read_delta
from weft.extraction.sources.fed import Changes, Fed, FedTable
from weft.extraction.sources.feed import extent_of_feed, read_feed
from weft.extraction.sources.replication import read_slot
from weft.extraction.sources.snapshot import file_path
from weft.extraction.sources.source_lease import Accepting, Polled, finished, polling_together, source_schema
from weft.extraction.sources.topic import TopicPoll
from weft.failpoint import failpoint
from weft.location import Location
from weft.storage.changes import without_own_times


def same_feed(one: SourceRecord, other: SourceRecord) -> bool:
    """Whether two sources follow one feed."""
    feeds = [(each.kind, each.location, each.options.get("slot")) for each in (one, other)]
    return one.kind == "changes" and feeds[0] == feeds[1]


def follow(
    home: Home, sources: Sequence[SourceRecord], clock: int, accepting: Accepting, progress: Progress | None
) -> list[Polled]:
    """Records what a feed tells since the last poll of the sources that follow it; ``clock`` is µs UTC.

    Raises ExtractionError and Refused for what cannot be read, or not be taken: nothing of any of them is recorded.
    """
    fed = _read(home, sources, accepting, progress)
    if home.catalog.home().clock == "wall":
        clock = max(clock, home.clock())  # it may have gone on while the feed was read
    with polling_together(home, sources, [each.added for each in fed.tables]) as (writer, tables):
        incoming = [
            Incoming(table, source.location, _dated(source, told), told.seen, once=told.once)
            for source, table, told in zip(sources, tables, fed.tables, strict=True)
        ]
        kept = [_quarantined(writer, home, *each) for each in zip(sources, fed.tables, strict=True)]
        done = record_feeds(writer, home, incoming, clock)
        polled = [
            finished(writer, home, source, found, before + found.began - found.ended, told.seen, late)
            for source, told, (found, late, before) in zip(sources, fed.tables, done, strict=True)
        ]
    failpoint("source.recorded")
    fed.recorded()
    return [replace(each, quarantined=count) for each, count in zip(polled, kept, strict=True)]


def _quarantined(writer: Writer, home: Home, source: SourceRecord, told: FedTable) -> int:
    """Keeps the lines that are no changes, before the feed counts as read; how many there are."""
    if told.rejected:
        at = home.clock()
        load_id = writer.loads.begin(source.table_id, source.location, "changes", None, at)
        new = quarantine(home.catalog, load_id, source.table_id, told.rejected, lambda _: {"kind": FEED}, at)
        writer.loads.finish(load_id, 0, len(told.rejected) - new, new, 0, at)
    return len(told.rejected)


def _dated(source: SourceRecord, told: FedTable) -> Changes:
    """The changes, without their own times where these do not count."""
    return told.changes if source.stamps == "source" else lambda there: without_own_times(told.changes(there))


def _read(home: Home, sources: Sequence[SourceRecord], accepting: Accepting, progress: Progress | None) -> Fed:
    tables = [home.catalog.tables.by_id(source.table_id) for source in sources]
    if "slot" in sources[0].options:
        return read_slot(sources, tables, accepting, progress)
    if "topic" in sources[0].options:
        return _read_topic(home, sources, tables, accepting, progress)
    path = file_path(sources[0].location)
    if "delta" in sources[0].options:
        return Fed([_read_delta(Location(str(path)), *each, accepting) for each in zip(sources, tables, strict=True)])
    extent = extent_of_feed(path, [source.seen for source in sources])
    found = []
    for source, table in zip(sources, tables, strict=True):
        options = source.options
        found.append(
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
    return Fed(found)


def _read_topic(
    home: Home,
    sources: Sequence[SourceRecord],
    tables: Sequence[TableRecord],
    accepting: Accepting,
    progress: Progress | None,
) -> Fed:
    poll = TopicPoll.begun(home, sources[0].location, [source.seen for source in sources])
    found = []
    for source, table in zip(sources, tables, strict=True):
        options, schema = source.options, source_schema(table)
        of, chosen = options.get("table"), chosen_columns(options)
        found.append(poll.read(of, schema, chosen, source.seen, table.keys, accepting, progress))
    return Fed(found)


def _read_delta(path: Location, source: SourceRecord, table: TableRecord, accepting: Accepting) -> FedTable:
    schema, chosen = source_schema(table), chosen_columns(source.options)
    return read_delta(path, schema, table.keys, chosen, source.seen, accepting)
