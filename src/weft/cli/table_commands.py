"""The commands ``tables``, ``table`` (create, drop, rename) and ``describe``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.api.json.sources import attached_json
from weft.api.json.tables import counted_json, description_json, results_json, table_json
from weft.cli import terminal
from weft.cli.appending import create
from weft.cli.frame import HomeOption, JsonOption, example, opened
from weft.cli.loads import FutureOption, LateOption
from weft.cli.printing import echo, instant, plain, print_json, print_result, shown, table
from weft.printable import counted

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from weft.algebra.schema import TableSchema
    from weft.api.loading import ResultsDescription
    from weft.catalog.records import TableRecord


def add_to(app: typer.Typer) -> None:
    """Register the commands with ``app``."""
    app.command(epilog=example("weft tables"))(tables)
    table_ = typer.Typer(no_args_is_help=True, help="Create, attach, rename or drop a table.")
    table_.command("create", epilog=example('weft table create votes "msgid STRING, score INT" --key msgid'))(create)
    table_.command("drop", epilog=example("weft table drop orders"))(drop)
    table_.command("rename", epilog=example("weft table rename orders old_orders"))(rename)
    table_.command("attach", epilog=example("weft table attach orders s3://shop/orders --ts-from at"))(attach)
    app.add_typer(table_, name="table", epilog=example("weft table rename orders old_orders"))
    app.command(epilog=example("weft describe msgs", "weft describe results.late"))(describe)


def tables(home: HomeOption = None, json: JsonOption = False) -> None:
    """List the tables."""
    with opened(home) as weft:
        listed, discarded = weft.tables(), weft.discarded_tables()
        queries = weft.queries(limit=1)
    if json:
        print_json([table_json(t, discarded=t.table_id in discarded) for t in listed])
    elif not listed:
        echo("No tables yet. Create a table: weft ingest file PATH --table NAME, or weft ingest mail PATH")
    else:
        rows = [(t.name, f"{t.rows:,}", instant(t.first_ts), instant(t.last_ts), _kind(t, discarded)) for t in listed]
        table(("table", "rows", "first ts", "last ts", ""), rows, right=(1,))
        if any(t.tracked for t in listed):
            echo("The rows of a tracked table are the begins and ends of its periods.")
        if discarded:
            echo(
                "Rows of a discarded table are deleted after its synopses have processed them; the count includes them."
            )
    if queries and not json:
        echo("The answers of a query are the table results.NAME: see `weft describe results.NAME`.")


def _kind(record: TableRecord, discarded: Collection[int]) -> str:
    if record.attached:
        return "attached"
    return "tracked" if record.tracked else "discarded" if record.table_id in discarded else ""


def attach(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The table to create.")],
    place: Annotated[str, typer.Argument(metavar="PLACE", help="The Delta table: a folder or s3://BUCKET/PREFIX.")],
    ts_from: Annotated[
        str | None, typer.Option("--ts-from", metavar="COL", help="The column with the instant of each row.")
    ] = None,
    late: LateOption = "stamp",
    future: FutureOption = "1d",
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Read an append-only Delta table that another program writes as a table, without a copy."""
    with opened(home, create=True) as weft:
        where = place if "://" in place else terminal.path(Path(place))
        record = weft.attach_table(name, where, ts_from=ts_from, late=late, future=future)
        source, _ = weft.source(name)
    if json:
        print_json(attached_json(source, record))
    else:
        version = f"version {source.seen['version']} of {plain(source.location)}"
        echo(f"Attached {record.name}: {counted(record.rows, 'row')} at {version}")
        echo("  Each tick reads the versions since then. Weft never changes the files of the table.")


def drop(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The table.")],
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Drop a table with all its rows; refused while queries, views or a source use it."""
    with opened(home) as weft:
        dropped = weft.drop_table(name)
    print_result(
        json, {**counted_json(dropped), "dropped": True}, f"Dropped {dropped.name} with {counted(dropped.rows, 'row')}."
    )


def rename(
    old: Annotated[str, typer.Argument(metavar="OLD", help="The table.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The new name.")],
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Rename a table; refused while queries, views or a source use it."""
    with opened(home) as weft:
        record = weft.rename_table(old, new)
    print_result(json, counted_json(record), f"Renamed {old} to {record.name}.")


def describe(
    name: Annotated[str, typer.Argument(metavar="TABLE", help="The table, or results.NAME.")],
    samples: Annotated[int, typer.Option(min=0, max=100, help="The number of sample rows.")] = 3,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Show a table, or the answers of a query (results.NAME): columns, rows, range of ts, samples."""
    from weft.api.loading import ResultsDescription

    with opened(home) as weft:
        description = weft.describe(name, samples)
        if isinstance(description, ResultsDescription):
            _print_results(description, json)
            return
        discarded = description.table.table_id in weft.discarded_tables()
    record = description.table
    if json:
        print_json(description_json(description, discarded=discarded))
        return
    echo(_extent(record))
    if discarded:
        echo("The rows of this table are deleted after its synopses have processed them; the count includes them.")
    if record.keys:
        echo(f"key {', '.join(record.keys)}")
    _print_columns(record.schema, description.samples)


def _print_results(description: ResultsDescription, json: bool) -> None:
    query = description.query
    schema = query.results
    if json:
        print_json(results_json(description))
        return
    span = (
        f", _first_at from {instant(description.first.first_at)} to {instant(query.last_first_at)}"
        if description.first
        else ""
    )
    echo(f"{schema.name}: {counted(query.rows, 'answer')} of the query {query.name}{span}")
    _print_columns(schema, [(*row.values, instant(row.first_at), row.ordinal) for row in description.samples])
    name = query.name if query.name.isidentifier() else f"`{query.name}`"
    renamed = "Rename a column that begins with _ when you select it: _first_at AS since."
    echo(f"Queries read it FROM results.{name}. {renamed}")


def _print_columns(schema: TableSchema, samples: Sequence[Sequence[object]]) -> None:
    rows = [
        (c.name, c.type.declared, "" if c.nullable else "not null", *(shown(row[n]) for row in samples))
        for n, c in enumerate(schema.columns)
    ]
    table(("column", "type", "", *(f"sample {n}" for n in range(1, len(samples) + 1))), rows)


def _extent(record: TableRecord) -> str:
    span = f"{instant(record.first_ts)} to {instant(record.last_ts)}"
    if record.tracked:
        return f"{record.name}: tracked, {record.rows:,} begins and ends of rows from {span}"
    attached = "attached, " if record.attached else ""
    return f"{record.name}: {attached}{counted(record.rows, 'row')}, ts from {span}"
