"""Discard the rows of a table once all its queries have processed them (``--discard-history``).

The plan of a live synopsis says whether rows are discarded. If the catalog counts fewer present rows than rows ever
stored, rows were discarded.

The module also deletes the stored relations of synopses that no live query needs.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from weft.algebra.schema import TableSchema
from weft.catalog import CatalogParts, Writer, layout
from weft.catalog.records import TS, QueryRecord
from weft.errors import Conflict, QueryFault, Refused
from weft.execution.groups import synopsis_of
from weft.execution.synopsis.standing import STATES_NAME, last_state
from weft.failpoint import failpoint
from weft.faults import query_faults
from weft.planning.synopsis_plan import TP, SynopsisPlan, asks_history, discards, is_synopsis, relations_of, tables_of
from weft.storage.columns import INSTANT
from weft.storage.delta_log import forget_log
from weft.storage.discarding import discard
from weft.storage.removing import Remover


def discarded_tables(catalog: CatalogParts) -> dict[int, str]:
    """Return the ids of the tables whose rows are or were discarded, each with the name of a query that discards them.

    The name is "" if no live query discards rows of the table.
    """
    names = dict.fromkeys(_partial(catalog), "")
    for query, plan in catalog.queries.with_plans_like(SynopsisPlan.MARK):
        if discards(plan.body):
            names |= dict.fromkeys(tables_of(plan.body), query.name)
    return names


def refuse_discarded(catalog: CatalogParts, read: Iterable[TableSchema]) -> None:
    """Raise Refused if rows of one of the tables ``read`` are or will be discarded."""
    discarded = discarded_tables(catalog)
    for table in read:
        if table.source == "table" and table.id in discarded:
            raise Refused(
                f"{table.name} stores no history: its rows are discarded after its synopses have processed "
                "them (--discard-history), so another query cannot read the table",
                hint=(
                    "Install the query with --keep synopsis before rows are discarded, or load the history into "
                    "another table."
                ),
            )


def require_discardable(catalog: CatalogParts, plan: SynopsisPlan) -> None:
    """Raise Conflict or Refused if rows of a table that the plan reads cannot be discarded."""
    if plan.history:
        raise Refused(
            "each tick evaluates the formula over the stored history, so no row can be discarded",
            hint="Omit --discard-history.",
        )
    tables = {table.table_id: table for table in catalog.tables.all()}
    for table in plan.tables:
        if tables[table.id].keys:
            raise Refused(
                f"{table.name} recognises rows by their keys, but could not recognise a row that was discarded",
                hint="Omit --discard-history, or load the rows into a table without keys.",
            )
        readers = catalog.queries.reading(table.id)
        others = [query.name for query, body in readers if not is_synopsis(body) or asks_history(body)]
        if others:
            raise Conflict(
                f"{', '.join(others)} {'reads' if len(others) == 1 else 'read'} the history of {table.name}",
                hint="Omit --discard-history, or first remove the queries and views that read the history.",
            )


def require_whole_history(catalog: CatalogParts, plan: SynopsisPlan) -> None:
    """Raise Refused if a new query with this plan would need rows that were or will be discarded."""
    if plan.history:
        refuse_discarded(catalog, plan.tables)
    gone = _partial(catalog)
    for table in plan.tables:
        if table.id in gone:
            raise Refused(
                f"rows of {table.name} were discarded (--discard-history), so a new synopsis would lack them",
                hint="Load the rows into another table.",
            )


def _partial(catalog: CatalogParts) -> set[int]:
    """Return the ids of the tables that have fewer rows than were ever stored."""
    there = {each.path: each.rows for each in catalog.tables.versions()}
    return {t.table_id for t in catalog.tables.all() if not t.tracked and there.get(t.path, t.rows) < t.rows}


def discard_taken_in(writer: Writer, tick_id: int, at: int) -> None:
    """After a tick, discard the rows that all queries of their table have processed. Raise StorageError."""
    queries = writer.queries.with_plans_like(SynopsisPlan.MARK)
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
    remover = Remover(writer.lease.token, writer.check)
    for table in (each for each in tables if each.table_id in going):
        readers = [each for each in plans if any(read.id == table.table_id for read in each[1].tables)]
        gone = _taken_in(writer, readers)
        version = None if gone is None else discard(writer.data / table.path, gone, tick_id, remover, at)
        failpoint("synopsis.discarded")
        if version is not None:
            writer.tables.record_versions([(table.path, *version)])


def _taken_in(writer: Writer, readers: list[tuple[QueryRecord, SynopsisPlan]]) -> pc.Expression | None:
    """Return a condition for the rows that all queries of a table have processed, or None if no row qualifies."""
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
    # In a table with numbered states, a row belongs to the state with its number, whenever the row arrived.
    return pc.field(TP) <= min(reached)


def drop_unneeded(writer: Writer) -> None:
    """Delete the stored relations that no live query needs, and finish interrupted deletions.

    No tick may be planned. The catalog forgets the relations first, so files that remain after an interruption do not
    count as damage.
    """
    folder = writer.data / layout.SYNOPSES
    there = set(folder.names())
    bodies = [plan.body for _, plan in writer.queries.with_plans_like(SynopsisPlan.MARK)]
    needed = {name for body in bodies for name in relations_of(body)} | ({STATES_NAME} if bodies else set())
    going = sorted(there - needed)
    if going:
        writer.tables.forget_versions([f"{layout.SYNOPSES}/{name}" for name in going])
    for name in going:
        writer.check()
        (folder / name).clear()
        forget_log(folder / name)
