"""Define the rules of a table.  Each row has a period [start, end).

starts(T) has each row of T at its start.  ends(T) has each row of T at its end, and is empty if T is append-only.  A
scan of the full history has the same rows at every instant, like constant rows (``values``).  Only a query that runs
once reads the full history.

Proof: proofs/Tables.v: scan_rule, scan_append_only_rule, scan_whole_rule.

>>> from weft.algebra.schema import STRING, TIMESTAMP, Column, TableSchema
>>> from shown import show, show_events
>>> staff = Scan(TableSchema(1, "staff", (Column(1, "name", STRING), Column(2, "ts", TIMESTAMP),
...              Column(3, "gone", TIMESTAMP)), end="gone"), "s")
>>> show(at(staff, Instant(staff.start)))
FROM staff AS s
WHERE s.ts <= s.ts
  AND (s.gone IS NULL OR s.ts < s.gone)
>>> show_events(ends(staff))
when a row of staff AS s ends: s.gone
  FROM staff AS s
  WHERE s.gone IS NOT NULL
>>> show(at(Scan(staff.table, "s", whole=True), Instant(staff.start)))
FROM staff FOR SYSTEM_TIME ALL AS s
"""

from __future__ import annotations

from weft.algebra.event import Driver, Event, Instant
from weft.algebra.relation import TRUE, Plain, Predicate, Scan, Select, conjunction, disjunction
from weft.algebra.scalar import TIME_START, Scalar, call
from weft.derivation.replay.rules import at, ends, starts


def begun(start: Scalar, instant: Instant) -> Predicate:
    """Return the condition ``start <= s``, or ``start < s`` for the instant just before s."""
    return Plain(call("<" if instant.before else "<=", start, instant.s))


def not_ended(end: Scalar, instant: Instant) -> Predicate:
    """Return the condition ``s < end``, or ``s <= end`` for the instant just before s."""
    return Plain(call("<=" if instant.before else "<", instant.s, end))


def at_scan(scan: Scan, instant: Instant) -> Select:
    """Return the rows whose period contains the instant.  A period with the end NULL is open (design section 1)."""
    if scan.whole:
        return Select(scan, TRUE)
    alive = begun(scan.start, instant)
    if scan.table.end is not None:
        end = scan.ref(scan.table.end)
        alive = conjunction(alive, disjunction(Plain(call("is null", end)), not_ended(end, instant)))
    return Select(scan, alive)


def starts_of_scan(scan: Scan) -> tuple[Event, ...]:
    """Return an event for the start of each row."""
    if scan.whole:
        return (Event(Driver("beginning", TIME_START), scan),)
    return (Event(Driver("arrival", scan.start, scan), scan),)


def ends_of_scan(scan: Scan) -> tuple[Event, ...]:
    """Return an event for the end of each row.  A row has no event if its end is NULL."""
    if scan.whole or scan.table.end is None:
        return ()
    end = scan.ref(scan.table.end)
    return (Event(Driver("departure", end, scan), scan).where(Plain(call("is not null", end))),)


at.register(Scan, at_scan)
starts.register(Scan, starts_of_scan)
ends.register(Scan, ends_of_scan)
