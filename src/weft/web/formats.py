"""Answers as CSV, JSON lines and Atom, due instants as iCalendar, and figures for Prometheus.

``feeds`` has their addresses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from weft.delivery.atom import FeedHead, entry_of, feed
from weft.delivery.rendering import csv_header, csv_line, field_names, json_line
from weft.execution.windows import NEVER
from weft.instants import to_datetime
from weft.printable import one_line, visible
from weft.storage.ledger import Answers

if TYPE_CHECKING:
    from weft.api.results import Results
    from weft.catalog.figures import Figures
    from weft.catalog.records import QueryRecord

_OCTETS: Final = 75
"""The maximum length of a line of iCalendar, in bytes."""


def csv_text(answers: Results) -> Iterator[str]:
    """Yield the lines of CSV with a header."""
    yield csv_header(field_names([name for name, _ in answers.columns]))
    yield from map(csv_line, answers)


def json_lines(answers: Results) -> Iterator[str]:
    """Yield a JSON object on a line for each answer."""
    names = field_names([name for name, _ in answers.columns])
    return (json_line(names, row, answers.columns) for row in answers)


def atom(answers: Results, home_id: str, base: str) -> bytes:
    """Return a feed of the answers, the newest first.  ``base`` is the address of the server, without a slash."""
    query = answers.query
    last = query.installed_at if query.last_first_at is None else query.last_first_at
    of_query = Answers(home_id, query.query_id, query.name, answers.columns)
    address = f"{base}/queries/{query.query_id}/answers.atom"
    head = FeedHead(of_query, query.sql, query.user, last, base, address)
    return feed(head, (entry_of(head, row) for row in reversed(list(answers))))


def calendar(queries: Iterable[QueryRecord], home_id: str, at: int, base: str) -> str:
    """Return an event for each query that is due at a known instant.  ``at`` is the present (microseconds UTC)."""
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//Weft//Weft//EN", "X-WR-CALNAME:Weft: next due"]
    for query in queries:
        due = next_due(query)
        if due is None:
            continue
        lines += [
            "BEGIN:VEVENT",
            f"UID:{home_id}-{query.query_id}@weft",
            f"DTSTAMP:{_stamp(at)}",
            f"DTSTART:{_stamp(due)}",
            f"SUMMARY:{_escaped(query.name)}",
            f"DESCRIPTION:{_escaped(one_line(query.sql, 1_000))}",
            f"URL:{base}/queries/{query.query_id}",
            "END:VEVENT",
        ]
    return "".join(f"{_folded(line)}\r\n" for line in [*lines, "END:VCALENDAR"])


def next_due(query: QueryRecord) -> int | None:
    """Return the next instant (microseconds UTC) at which time alone adds an answer to an active query, if known."""
    known = query.state == "active" and query.next_due is not None and query.next_due < NEVER
    return query.next_due if known else None


def _stamp(at: int) -> str:
    return to_datetime(at).strftime("%Y%m%dT%H%M%SZ")


def _escaped(text: str) -> str:
    plain = visible(text).replace("\\", "\\\\").replace("\n", "\\n")
    return plain.replace(";", "\\;").replace(",", "\\,")


def _folded(line: str) -> str:
    """Continue a long line on the next one, between two characters.

    >>> [len(part.encode()) for part in _folded("é" * 60).split("\\r\\n")]
    [74, 47]
    """
    parts, size = [""], 0
    for character in line:
        length = len(character.encode())
        if size + length > _OCTETS:
            parts.append(" ")
            size = 1
        parts[-1] += character
        size += length
    return "\r\n".join(parts)


def prometheus(figures: Figures, at: int, running_jobs: int) -> str:
    """Return the figures in the text format of Prometheus.  ``at`` is the present (microseconds UTC)."""
    lines: list[str] = []
    for name, kind, words, values in _series(figures, at, running_jobs):
        lines += [f"# HELP weft_{name} {words}", f"# TYPE weft_{name} {kind}"]
        lines += [f"weft_{name}{labels} {value:.15g}" for labels, value in values.items() if value is not None]
    return "\n".join(lines) + "\n"


_Series: TypeAlias = tuple[str, Literal["gauge", "counter"], str, Mapping[str, float | None]]
"""The name, the kind, the explanation, and the values by labels."""


def _series(figures: Figures, at: int, running_jobs: int) -> Iterator[_Series]:
    states = by("state", figures.queries, ("active", "failed", "paused"))
    yield "queries", "gauge", "Installed queries by state.", states
    yield "queries_due", "gauge", "Queries to which time alone adds an answer by now.", {"": figures.due}
    yield "answers", "gauge", "Answers of the installed queries.", {"": figures.answers}
    yield "ticks_total", "counter", "Committed ticks.", {"": figures.ticks}
    yield "tick_duration_seconds", "gauge", "Length of the last tick.", {"": _seconds(figures.tick_us)}
    yield "tick_timestamp_seconds", "gauge", "When the last tick was committed.", {"": _seconds(figures.tick_at)}
    states = by("state", figures.channels, ("active", "failing", "muted", "parked"))
    yield "channels", "gauge", "Channels of the installed queries by state.", states
    yield "messages_total", "counter", "Messages to channels.", {"": figures.messages}
    yield "messages_unsent", "gauge", "Messages that are not sent yet.", {"": figures.unsent}
    yield "quarantined_records", "gauge", "Records that could not be read.", {"": figures.quarantined}
    yield "sources_failing", "gauge", "Sources whose last poll failed.", {"": figures.failing_sources}
    held = {name: max(at - since, 0) / 1_000_000 for name, since in figures.leases.items()}
    yield "lease_held_seconds", "gauge", "How long the lease is held; 0: it is free.", by("lease", held, LEASES)
    yield "jobs_running", "gauge", "Jobs that run on this server.", {"": running_jobs}


LEASES: Final = ("deliver", "write")


def by(label: str, values: Mapping[str, float], keys: Iterable[str]) -> dict[str, float | None]:
    """Return the values of all ``keys`` by their labels.  A missing value is 0.

    >>> by("state", {"paused": 2}, ["active", "paused"])
    {'{state="active"}': 0, '{state="paused"}': 2}
    """
    return {f'{{{label}="{key}"}}': values.get(key, 0) for key in keys}


def _seconds(micros: int | None) -> float | None:
    return None if micros is None else micros / 1_000_000
