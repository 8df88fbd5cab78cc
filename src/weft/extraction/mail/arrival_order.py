"""Read mail from several sources: one source after another, or all sources merged by time."""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Final

from weft.errors import Refused
from weft.extraction.batches import RawRecord, RejectedRecord, Row, Timing
from weft.extraction.mail.entries import Source
from weft.extraction.mail.message import MailOptions, read_message
from weft.extraction.mail.sources import find_sources

_BEFORE_ALL: Final = -(2**62)


def read_mail(
    paths: Sequence[str | os.PathLike[str]],
    *,
    newsgroup: str | None,
    timing: Timing,
    at: int,
    origins: bool = False,
    names: Mapping[Path, str] | None = None,
) -> Iterator[Row | RejectedRecord]:
    """Yield every message as rows, one for each newsgroup, or as a rejected record.

    If ``timing`` takes ``ts`` from ``date``, the ``own_time`` of a row is its Date. In arrival order, ``own_time`` is
    the running maximum of Date in the source, and the sources are merged by ``own_time``. Rows with the same time
    follow the order of the sources. Without arrival order, the sources are read one after another.

    If ``origins`` is True, each row contains its record. ``at`` is the time of reading, in microseconds UTC. ``names``
    maps paths to their names in messages. Raises ExtractionError for a path that cannot be read. Raises Refused if
    ``timing`` takes ``ts`` from a column other than ``date``.
    """
    if timing.ts_from not in (None, "date"):
        raise Refused(f"mail has no column {timing.ts_from!r} from which ts could be taken", hint="Use --ts-from date.")
    sources = find_sources(paths, names)
    options = MailOptions(newsgroup, at, timing.future_us)
    if timing.order == "arrival":
        merged = heapq.merge(*(_reopened(source, options, origins) for source in sources), key=lambda pair: pair[0])
        return (item for _, item in merged)
    timed = timing.ts_from is not None
    return (item for source in sources for item in _in_order(source, options, timed, origins))


def _in_order(source: Source, options: MailOptions, timed: bool, origins: bool) -> Iterator[Row | RejectedRecord]:
    for record in source.records():
        for item in _items(source, record, options, origins):
            yield Row(item.values, None, item.origin) if isinstance(item, Row) and not timed else item


def _items(source: Source, record: RawRecord, options: MailOptions, origins: bool) -> list[Row | RejectedRecord]:
    read = read_message(record, source.stem, options)
    if isinstance(read, str):
        return [RejectedRecord(source.path, record.position, read, record.raw, source.stem)]
    origin = RejectedRecord(source.path, record.position, "", record.raw, source.stem) if origins else None
    rows: list[Row | RejectedRecord] = []
    for values in read:
        date = values["date"]
        assert isinstance(date, int)
        rows.append(Row(values, date, origin))
    return rows


def _arriving(
    source: Source, records: Iterator[RawRecord], options: MailOptions, origins: bool, since: int = _BEFORE_ALL
) -> Iterator[tuple[int, Row | RejectedRecord]]:
    """Yield each item with the running maximum of Date, in microseconds UTC. ``since`` is the initial maximum.

    A rejected record has no event time and is yielded with the maximum so far.
    """
    latest = since
    for record in records:
        for item in _items(source, record, options, origins):
            if isinstance(item, Row) and item.own_time is not None:
                latest = max(latest, item.own_time)
                yield latest, Row(item.values, latest, item.origin)
            else:
                yield latest, item


def _reopened(source: Source, options: MailOptions, origins: bool) -> Iterator[tuple[int, Row | RejectedRecord]]:
    """Yield the items of a source for a merge. Close the source after the first message and reopen it for the second.

    A merge needs the first item of every source at once. Without reopening, hundreds of monthly archives would be open
    together, although few overlap in time.
    """
    with closing(source.records()) as records:
        first = list(_arriving(source, islice(records, 1), options, origins))
    yield from first
    latest = first[-1][0] if first else _BEFORE_ALL
    with closing(source.records()) as records:
        yield from _arriving(source, islice(records, 1, None), options, origins, latest)
