"""Reading sources of mail in the order of arrival, one after another or merged by their own time."""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import islice
from typing import Final

from weft.errors import Refused
from weft.extraction.mail.entries import Source
from weft.extraction.mail.message import MailOptions, read_message
from weft.extraction.mail.sources import find_sources
from weft.extraction.records import RawRecord, Rejected, Row

_BEFORE_ALL: Final = -(2**62)


def read_mail(
    paths: Sequence[str | os.PathLike[str]], *, newsgroup: str | None, ts_from: str | None, at: int
) -> Iterator[Row | Rejected]:
    """Every message of the paths as rows (one a newsgroup) or as rejected.

    With ``ts_from="date"`` each row's ``own_time`` is the running maximum of Date in its source, and sources are merged
    by it, ties in the order of the sources (design section 1); without, sources follow one another, own_time None.
    ``at`` is the instant of reading, µs UTC.  Raises ExtractionError for a path that cannot be read at all, Refused
    for another ``ts_from``.
    """
    if ts_from not in (None, "date"):
        raise Refused(f"mail has no column {ts_from!r} to take ts from", hint="Use --ts-from date.")
    sources = find_sources(paths)
    options = MailOptions(newsgroup, at)
    if ts_from is None:
        return (item for source in sources for _, item in _items(source, source.records(), options, timed=False))
    merged = heapq.merge(*(_reopened(source, options) for source in sources), key=lambda pair: pair[0])
    return (item for _, item in merged)


def _items(
    source: Source, records: Iterator[RawRecord], options: MailOptions, *, timed: bool, since: int = _BEFORE_ALL
) -> Iterator[tuple[int, Row | Rejected]]:
    """The records' rows, each with the running maximum (µs UTC), which starts at ``since``.

    What is rejected has no time of its own and keeps its place among its neighbours.
    """
    latest = since
    for record in records:
        read = read_message(record, source.stem, options)
        if isinstance(read, str):
            yield latest, Rejected(source.path, record.position, read, record.raw, source.stem)
            continue
        for values in read:
            date = values["date"]
            assert isinstance(date, int)
            latest = max(latest, date)
            yield latest, Row(values, latest if timed else None)


def _reopened(source: Source, options: MailOptions) -> Iterator[tuple[int, Row | Rejected]]:
    """A source's items for a merge: closed after its first message and opened again when that is wanted.

    A merge looks at the first item of every source before it gives out any.  Hundreds of monthly archives, of which few
    overlap, need not all be open for that.
    """
    with closing(source.records()) as records:
        first = list(_items(source, islice(records, 1), options, timed=True))
    yield from first
    latest = first[-1][0] if first else _BEFORE_ALL
    with closing(source.records()) as records:
        yield from _items(source, islice(records, 1, None), options, timed=True, since=latest)
