"""Find the tables whose rows are discarded (``--discard-history``), and refuse queries that need the discarded rows.

The plan of a live synopsis says whether Weft discards rows.  Rows of a table were discarded if the table now has fewer
rows than were ever stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from weft.algebra.schema import TableSchema
from weft.catalog.catalog import CatalogParts
from weft.errors import Conflict, Refused
from weft.planning.stored_synopsis import asks_history, discards, is_synopsis, tables_of

if TYPE_CHECKING:
    from weft.planning.synopsis_plan import SynopsisPlan


def discarded_tables(catalog: CatalogParts) -> dict[int, str]:
    """Return a mapping from table IDs to names of queries that discard rows of the table.

    The name is empty if rows were discarded, but no live query discards rows of the table.
    """
    names = dict.fromkeys(catalog.tables.with_discarded_rows(), "")
    for query, plan in catalog.queries.of_synopses():
        if discards(plan.body):
            names |= dict.fromkeys(tables_of(plan.body), query.name)
    return names


def refuse_discarded(discarded: Mapping[int, str], read: Iterable[TableSchema]) -> None:
    """Raise Refused if rows of a table in ``read`` were discarded, or if a live query discards them.

    ``discarded`` is the result of ``discarded_tables``.
    """
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
    """Raise Conflict or Refused if Weft cannot discard the rows of a table that the plan reads."""
    if plan.history:
        raise Refused(
            "each tick evaluates the formula over the stored history, so no row can be discarded",
            hint="Omit --discard-history.",
        )
    tables = {table.table_id: table for table in catalog.tables.all()}
    for table in plan.tables:
        if tables[table.id].attached:
            raise Refused(
                f"{table.name} is an attached table: another program owns its rows, and Weft deletes none of them",
                hint="Omit --discard-history.",
            )
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
    """Raise Refused if a new query with this plan would need rows that Weft has discarded or will discard."""
    if plan.history:
        refuse_discarded(discarded_tables(catalog), plan.tables)
    gone = catalog.tables.with_discarded_rows()
    for table in plan.tables:
        if table.id in gone:
            raise Refused(
                f"rows of {table.name} were discarded (--discard-history), so a new synopsis would lack them",
                hint="Load the rows into another table.",
            )
