"""Discard the rows of a table once all its queries have processed them (``--discard-history``).

The module also deletes the stored relations of synopses that no live query needs.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from weft.catalog import Writer, layout
from weft.catalog.records import TS, QueryRecord
from weft.errors import QueryFault
from weft.execution.groups import synopsis_of
from weft.execution.synopsis.standing import STATES_NAME, last_state
from weft.failpoint import failpoint
from weft.faults import query_faults
from weft.planning.stored_synopsis import discards, relations_of, tables_of
from weft.planning.synopsis_plan import TP, SynopsisPlan
from weft.storage.cleaning import clear
from weft.storage.columns import INSTANT
from weft.storage.table import Table
from weft.writing.removals import discard


def discard_taken_in(writer: Writer, tick_id: int, at: int) -> None:
    """Discard the rows that all queries have processed by the end of a tick. Raise StorageError if a deletion fails."""
    queries = writer.queries.of_synopses()
    going = {key for _, plan in queries if discards(plan.body) for key in tables_of(plan.body)}
    if not going:
        return
    tables = writer.tables.all()
    schemas = {table.name: table.schema for table in tables}
    try:
        with query_faults():
            plans = [(query, synopsis_of(record, schemas)) for query, record in queries]
    except QueryFault:
        return  # the next tick sets the query aside; until then its needs are unknown
    for table in (each for each in tables if each.table_id in going):
        readers = [each for each in plans if any(read.id == table.table_id for read in each[1].tables)]
        gone = _taken_in(writer, readers)
        version = None if gone is None else discard(writer, table, gone, tick_id, at)
        failpoint("synopsis.discarded")
        if version is not None:
            writer.tables.record_versions([(table.path, *version)])


def _taken_in(writer: Writer, readers: list[tuple[QueryRecord, SynopsisPlan]]) -> pc.Expression | None:
    """Return a condition for the rows that all queries have processed. If no row qualifies, return None."""
    taus = [query.tau for query, _ in readers]
    least = min((tau for tau in taus if tau is not None), default=None)
    if least is None or None in taus:
        return None
    before = pc.field(TS) < pa.scalar(least, INSTANT)
    logs = [(query, plan) for query, plan in readers if plan.points is not None]
    if not logs:
        return before
    states = [last_state(writer.data, plan, query.tau) for query, plan in logs]
    reached = [state[0] for state in states if state is not None]
    if len(reached) < len(logs):
        return None
    # A row with a state number belongs to that state, even if the row arrived earlier or later.
    return pc.field(TP) <= min(reached)


def drop_unneeded(writer: Writer) -> None:
    """Delete the stored relations that no query needs, and finish interrupted deletions.

    The caller must ensure that no tick is planned. The catalog forgets a relation before its files are deleted. Files
    that remain after an interruption therefore do not count as damage.
    """
    folder = writer.data / layout.SYNOPSES
    there = set(folder.names())
    bodies = [plan.body for _, plan in writer.queries.of_synopses()]
    needed = {name for body in bodies for name in relations_of(body)} | ({STATES_NAME} if bodies else set())
    going = sorted(there - needed)
    if going:
        writer.tables.forget_versions([f"{layout.SYNOPSES}/{name}" for name in going])
    for name in going:
        writer.check()
        clear(Table(folder / name))
