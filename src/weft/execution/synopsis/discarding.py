"""Discard table rows that all queries have processed (``--discard-history``).

The plan of a synopsis says whether its table rows may be discarded. If the catalog counts fewer rows than a table has
ever received, rows of that table were discarded.

The module also deletes stored relations that no query needs.
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
    """Return the IDs of the tables whose rows were or will be discarded.

    The value for an ID is the name of a query that discards the rows. If no present query discards rows of the table,
    the name is "".
    """
    names = dict.fromkeys(_partial(catalog), "")
    for query, plan in catalog.queries.with_plans_like(SynopsisPlan.MARK):
        if discards(plan.body):
            names |= dict.fromkeys(tables_of(plan.body), query.name)
    return names


def refuse_discarded(catalog: CatalogParts, read: Iterable[TableSchema]) -> None:
    """Raise Refused if rows of one of the tables were or will be discarded."""
    discarded = discarded_tables(catalog)
    for table in read:
        if table.source == "table" and table.id in discarded:
            raise Refused(
                f"{table.name} keeps no history: its rows are discarded once its synopses have processed them "
                "(--discard-history), so that no other query can read it",
                hint="Install with --keep synopsis before rows are discarded, or load the history into another table.",
            )


def require_discardable(catalog: CatalogParts, plan: SynopsisPlan) -> None:
    """Raise Conflict or Refused if the rows that the plan reads cannot be discarded."""
    if plan.history:
        raise Refused(
            "the formula is evaluated over the kept history at each tick, so no row can be discarded",
            hint="Omit --discard-history.",
        )
    tables = {table.table_id: table for table in catalog.tables.all()}
    for table in plan.tables:
        if tables[table.id].keys:
            raise Refused(
                f"{table.name} recognises rows by their keys, and could not recognise a row that was discarded",
                hint="Omit --discard-history, or load into a table without keys.",
            )
        readers = catalog.queries.reading(table.id)
        others = [query.name for query, body in readers if not is_synopsis(body) or asks_history(body)]
        if others:
            raise Conflict(
                f"the history of {table.name} is read by {', '.join(others)}",
                hint="Omit --discard-history, or remove the readers first.",
            )


def require_whole_history(catalog: CatalogParts, plan: SynopsisPlan) -> None:
    """Raise Refused if a new query with this plan needs rows that were or will be discarded."""
    if plan.history:
        refuse_discarded(catalog, plan.tables)
    gone = _partial(catalog)
    for table in plan.tables:
        if table.id in gone:
            raise Refused(
                f"rows of {table.name} were discarded (--discard-history), so a new synopsis would lack them",
                hint="Load them into another table.",
            )


def _partial(catalog: CatalogParts) -> set[int]:
    there = {each.path: each.rows for each in catalog.tables.versions()}
    return {t.table_id for t in catalog.tables.all() if not t.tracked and there.get(t.path, t.rows) < t.rows}


def discard_taken_in(writer: Writer, tick_id: int, at: int) -> None:
    """Discard the rows that all queries have processed by the end of a tick. Raise StorageError if a deletion fails."""
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
    bodies = [plan.body for _, plan in writer.queries.with_plans_like(SynopsisPlan.MARK)]
    needed = {name for body in bodies for name in relations_of(body)} | ({STATES_NAME} if bodies else set())
    going = sorted(there - needed)
    if going:
        writer.tables.forget_versions([f"{layout.SYNOPSES}/{name}" for name in going])
    for name in going:
        writer.check()
        (folder / name).clear()
        forget_log(folder / name)
