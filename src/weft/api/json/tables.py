"""Tables and samples of their rows as values for JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.api.json.values import Fields, columns_json, iso

if TYPE_CHECKING:
    from weft.api.loading import Description, ResultsDescription
    from weft.catalog.records import TableRecord
    from weft.execution.histories import History


def table_json(record: TableRecord, *, discarded: bool) -> Fields:
    """Return a table.  ``discarded`` is true if Weft deletes its rows after its synopses have processed them."""
    return {
        "name": record.name,
        "tracked": record.tracked,
        "attached": record.attached,
        "discarded": discarded,
        "rows": record.rows,
        "first_ts": iso(record.first_ts),
        "last_ts": iso(record.last_ts),
        "keys": record.keys,
    }


def counted_json(record: TableRecord) -> Fields:
    """Return the name of a table and the number of its rows."""
    return {"name": record.name, "rows": record.rows}


def created_json(record: TableRecord) -> Fields:
    """Return the name, the columns and the key of a table."""
    columns = columns_json((each.name, each.type) for each in record.schema.columns)
    return {"name": record.name, "columns": columns, "keys": record.keys}


def description_json(description: Description, *, discarded: bool) -> Fields:
    """Return a table with its columns and samples."""
    from weft.delivery.rendering import json_object

    record = description.table
    columns = [(c.name, c.type) for c in record.schema.columns]
    return {
        **table_json(record, discarded=discarded),
        "columns": [{"name": c.name, "type": c.type.declared, "nullable": c.nullable} for c in record.schema.columns],
        "ts_from": record.ts_from,
        "samples": [json_object(columns, row) for row in description.samples],
    }


def results_json(description: ResultsDescription) -> Fields:
    """Return the table ``results.NAME`` of a query with samples."""
    from weft.delivery.rendering import json_object

    query = description.query
    schema = query.results
    columns = [(c.name, c.type) for c in schema.columns]
    values = ((*row.values, iso(row.first_at), row.ordinal) for row in description.samples)
    return {
        "name": schema.name,
        "query": query.name,
        "columns": columns_json(columns),
        "rows": query.rows,
        "first_at": iso(description.first.first_at if description.first else None),
        "last_first_at": iso(query.last_first_at),
        "samples": [json_object(columns, row) for row in values],
    }


def history_json(history: History) -> Fields:
    """Return the periods of a tracked table or a view."""
    from weft.delivery.rendering import json_object

    periods = [
        {**json_object(history.columns, each.values), "valid_from": iso(each.begin), "valid_to": iso(each.end)}
        for each in history.stretches
    ]
    return {"table": history.name, "now": iso(history.at), "count": history.count, "periods": periods}
