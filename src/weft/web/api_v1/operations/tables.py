"""Tables, their rows, loads and the quarantine."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from weft.api.json.loads import load_json, quarantined_json, retried_json, summary_json, undone_json
from weft.api.json.tables import (
    counted_json,
    created_json,
    description_json,
    history_json,
    results_json,
    table_json,
)
from weft.api.loading import ResultsDescription
from weft.api.weft import Weft
from weft.extraction.typed_rows import CsvRows
from weft.web.api_v1.operation import (
    AfterName,
    Fields,
    Id,
    Instant,
    Interval,
    Limit,
    Name,
    Operation,
    Rows,
    listed,
)

Late = Annotated[
    Literal["stamp", "quarantine"],
    Field(description="What happens to late rows: the present time as ts, or quarantine."),
]


def list_tables(weft: Weft, after: AfterName | None = None, limit: Limit = 100) -> Fields:
    """List the tables in the order of their names."""
    discarded = weft.discarded_tables()
    found = weft.table_page(after=after, limit=limit + 1)
    items = [table_json(each, discarded=each.table_id in discarded) for each in found]
    return listed(items, limit, lambda last: found[last].name)


def create_table(
    weft: Weft,
    name: Name,
    columns: Annotated[str, Field(max_length=100_000, description="Columns and types: `id STRING, score INT`.")],
    keys: Annotated[list[Name], Field(max_length=100, description="The columns of the key.")] = [],  # noqa: B006
) -> Fields:
    """Create a table to append rows to."""
    return created_json(weft.make_table(name, columns, keys=keys))


def show_table(
    weft: Weft,
    table: Name,
    samples: Annotated[int, Field(ge=0, le=100, description="The number of sample rows.")] = 3,
) -> Fields:
    """Show a table, or the answers of a query as the table `results.NAME`: columns, rows, range of ts, samples."""
    description = weft.describe(table, samples)
    if isinstance(description, ResultsDescription):
        return results_json(description)
    return description_json(description, discarded=description.table.table_id in weft.discarded_tables())


def drop_table(weft: Weft, table: Name) -> Fields:
    """Drop a table with all its rows."""
    return counted_json(weft.drop_table(table))


def rename_table(weft: Weft, table: Name, to: Name) -> Fields:
    """Rename a table."""
    return counted_json(weft.rename_table(table, to))


def append_rows(
    weft: Weft,
    table: Name,
    rows: Rows,
    ts_from: Annotated[Name | None, Field(description="The column with the instant of each row.")] = None,
    late: Late = "stamp",
    future: Interval = "1d",
) -> Fields:
    """Append rows to a table.

    The body has the rows as JSON lines or as CSV with a header.  After an error, the table has none of them.
    """
    read: Any = CsvRows(rows.stream) if rows.media_type == "text/csv" else rows.stream
    return summary_json(weft.append(table, read, ts_from=ts_from, late=late, future=future))


def show_history(
    weft: Weft,
    table: Name,
    known: Annotated[Instant | None, Field(description="The history as known at this instant.")] = None,
    at: Annotated[Instant | None, Field(description="Only the rows that held at this instant.")] = None,
    limit: Limit = 100,
) -> Fields:
    """Show the periods of a tracked table or of a view, by key."""
    return history_json(weft.history(table, known=known, held_at=at, limit=limit))


def list_loads(
    weft: Weft,
    table: Name | None = None,
    after: Annotated[Id | None, Field(description="Only loads older than this one, from `next`.")] = None,
    limit: Limit = 20,
) -> Fields:
    """List the loads, the newest first."""
    found = weft.loads(table, limit + 1, before=after)
    return listed([load_json(each) for each in found], limit, lambda last: found[last].load.load_id)


def undo_load(weft: Weft, load: Id) -> Fields:
    """Remove the rows and quarantined records of a load, if nothing has been answered from them."""
    return undone_json(weft.undo_load(load))


def list_quarantine(weft: Weft, table: Name | None = None, after: Id = 0, limit: Limit = 100) -> Fields:
    """List the records that could not be read, the oldest first."""
    names = {each.table_id: each.name for each in weft.tables()}
    found = weft.quarantine_page(table, after=after, limit=limit + 1)
    return listed([quarantined_json(each, names) for each in found], limit, lambda last: found[last].quarantine_id)


def retry_quarantine(
    weft: Weft,
    ids: Annotated[list[Id] | None, Field(max_length=100_000, description="The records (default: all).")] = None,
    late: Late | None = None,
    future: Interval | None = None,
) -> Fields:
    """Read quarantined records again."""
    return retried_json(weft.retry_quarantine(ids, late=late, future=future))


_ONE: Final = "/tables/{table}"

OPERATIONS: Final = (
    Operation("GET", "/tables", list_tables, "tables"),
    Operation("POST", "/tables", create_table, "tables", "admin", 201),
    Operation("GET", _ONE, show_table, "tables"),
    Operation("DELETE", _ONE, drop_table, "tables", "admin"),
    Operation("POST", f"{_ONE}/rename", rename_table, "tables", "admin"),
    Operation("POST", f"{_ONE}/rows", append_rows, "tables", "load", 201),
    Operation("GET", f"{_ONE}/history", show_history, "tables", slow=True),
    Operation("GET", "/loads", list_loads, "loads"),
    Operation("DELETE", "/loads/{load}", undo_load, "loads", "load"),
    Operation("GET", "/quarantine", list_quarantine, "loads", "load"),
    Operation("POST", "/quarantine/retry", retry_quarantine, "loads", "load"),
)
