"""tables, table drop, table rename, describe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.appending import create
from weft.cli.frame import HomeOption, JsonOption, example, opened
from weft.cli.printing import instant, iso, say, say_json, shown, table
from weft.printable import counted

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from weft.algebra.schema import TableSchema
    from weft.api.tabling import Description, ResultsDescription
    from weft.catalog.records import TableRecord


def add_to(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command(epilog=example("weft tables"))(tables)
    table_ = typer.Typer(no_args_is_help=True, help="Make a table, give it another name, or take it away.")
    table_.command("create", epilog=example('weft table create votes "msgid STRING, score INT" --key msgid'))(create)
    table_.command("drop", epilog=example("weft table drop orders"))(drop)
    table_.command("rename", epilog=example("weft table rename orders old_orders"))(rename)
    app.add_typer(table_, name="table", epilog=example("weft table rename orders old_orders"))
    app.command(epilog=example("weft describe msgs", "weft describe results.late"))(describe)


def tables(home: HomeOption = None, json: JsonOption = False) -> None:
    """List the tables."""
    from weft.execution.synopsis.discarding import discarded_tables

    with opened(home) as weft:
        found, discarded = weft.tables(), discarded_tables(weft.catalog)
        standing = weft.catalog.queries.count()
    if json:
        say_json(
            [
                {
                    "name": t.name,
                    "tracked": t.tracked,
                    "discarded": t.table_id in discarded,
                    "rows": t.rows,
                    "first_ts": iso(t.first_ts),
                    "last_ts": iso(t.last_ts),
                    "keys": t.keys,
                }
                for t in found
            ]
        )
    elif not found:
        say("There is no table yet. `weft ingest mail PATH` or `weft ingest file PATH --table NAME` makes one.")
    else:
        rows = [(t.name, f"{t.rows:,}", instant(t.first_ts), instant(t.last_ts), _kind(t, discarded)) for t in found]
        table(("table", "rows", "first ts", "last ts", ""), rows, right=(1,))
        if any(t.tracked for t in found):
            say("Of a tracked table each begin and each end of a row is counted.")
        if discarded:
            say("Rows of a discarded table go once its synopses have taken them in; all that ever came are counted.")
    if standing and not json:
        say("The answers of each query are a table, too, FROM results.NAME: `weft describe results.NAME`.")


def _kind(found: TableRecord, discarded: Collection[int]) -> str:
    return "tracked" if found.tracked else "discarded" if found.table_id in discarded else ""


def drop(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The table.")],
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Take a table away with all its rows; refused while queries, views or a source use it."""
    with opened(home) as weft:
        gone = weft.drop_table(name)
    if json:
        say_json({"name": gone.name, "rows": gone.rows, "dropped": True})
    else:
        say(f"{gone.name} is dropped, with {counted(gone.rows, 'row')}.")


def rename(
    old: Annotated[str, typer.Argument(metavar="OLD", help="The table.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="Its new name.")],
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Give a table another name; refused while queries, views or a source use it."""
    with opened(home) as weft:
        record = weft.rename_table(old, new)
    if json:
        say_json({"name": record.name, "rows": record.rows})
    else:
        say(f"{old} is {record.name} now.")


def describe(
    name: Annotated[str, typer.Argument(metavar="TABLE", help="The table, or results.NAME.")],
    samples: Annotated[int, typer.Option(min=0, max=100, help="How many rows to show.")] = 3,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Show a table, or the answers of a query as one (results.NAME): columns, rows, first and last ts, samples."""
    from weft.api.tabling import ResultsDescription
    from weft.execution.synopsis.discarding import discarded_tables

    with opened(home) as weft:
        found = weft.describe(name, samples)
        if isinstance(found, ResultsDescription):
            _describe_results(found, json)
            return
        discarded = found.table.table_id in discarded_tables(weft.catalog)
    record = found.table
    if json:
        say_json(_as_json(found, discarded))
        return
    say(_extent(record))
    if discarded:
        say("Its rows go once its synopses have taken them in; all that ever came are counted.")
    if record.keys:
        say(f"rows are told apart by {', '.join(record.keys)}")
    _show_columns(record.schema, found.samples)


def _describe_results(found: ResultsDescription, json: bool) -> None:
    """The table of a query's answers; its samples are the latest of them."""
    from weft.delivery.rendering import json_object
    from weft.instants import format_rfc3339

    query = found.query
    schema = query.results
    if json:
        columns = [(c.name, c.type) for c in schema.columns]
        values = ((*row.values, format_rfc3339(row.first_at), row.ordinal) for row in found.samples)
        document = {
            "name": schema.name,
            "query": query.name,
            "columns": [{"name": c.name, "type": c.type.declared} for c in schema.columns],
            "rows": query.rows,
            "first_at": iso(found.first.first_at if found.first else None),
            "last_first_at": iso(query.last_first_at),
            "samples": [json_object(columns, row) for row in values],
        }
        say_json(document)
        return
    span = f", _first_at from {instant(found.first.first_at)} to {instant(query.last_first_at)}" if found.first else ""
    say(f"{schema.name}: {counted(query.rows, 'answer')} of the query {query.name}{span}")
    _show_columns(schema, [(*row.values, instant(row.first_at), row.ordinal) for row in found.samples])
    name = query.name if query.name.isidentifier() else f"`{query.name}`"
    say(f"Queries read it as any table, FROM results.{name}; a column that begins with _ is selected AS another name.")


def _show_columns(schema: TableSchema, samples: Sequence[Sequence[object]]) -> None:
    rows = [
        (c.name, c.type.declared, "" if c.nullable else "not null", *(shown(row[n]) for row in samples))
        for n, c in enumerate(schema.columns)
    ]
    table(("column", "type", "", *(f"sample {n}" for n in range(1, len(samples) + 1))), rows)


def _as_json(found: Description, discarded: bool) -> dict[str, object]:
    from weft.delivery.rendering import json_object

    record = found.table
    columns = [(c.name, c.type) for c in record.schema.columns]
    return {
        "name": record.name,
        "tracked": record.tracked,
        "discarded": discarded,
        "columns": [{"name": c.name, "type": c.type.declared, "nullable": c.nullable} for c in record.schema.columns],
        "rows": record.rows,
        "first_ts": iso(record.first_ts),
        "last_ts": iso(record.last_ts),
        "keys": record.keys,
        "ts_from": record.ts_from,
        "samples": [json_object(columns, row) for row in found.samples],
    }


def _extent(record: TableRecord) -> str:
    """How much a table has, and of which time."""
    span = f"{instant(record.first_ts)} to {instant(record.last_ts)}"
    if record.tracked:
        return f"{record.name}: tracked, {record.rows:,} begins and ends of rows from {span}"
    return f"{record.name}: {counted(record.rows, 'row')}, ts from {span}"
