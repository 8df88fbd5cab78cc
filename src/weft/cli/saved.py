"""The commands for saved queries: save a text with parameters, fill it in, and install it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from weft.api.json.queries import query_json, saved_json
from weft.cli.frame import FileOption, HomeOption, JsonOption, SqlArgument, example, opened, query_text
from weft.cli.printing import echo, lines, moment, plain, print_json, print_list, print_result
from weft.cli.queries import ChannelOption, DigestOption, EveryOption, StartOption, ZoneOption
from weft.errors import Refused

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The saved query.")]
ValueOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="PARAMETER=VALUE", help="The value of a parameter.")
]


def add_to(app: typer.Typer) -> None:
    """Register the commands with ``app``."""
    saved = typer.Typer(no_args_is_help=True, help="Save queries with parameters, and install them with values.")
    saved.command(
        "add",
        epilog=example(
            'weft saved add large "SELECT id FROM orders WHERE total > {{least}}" --parameter least:decimal=100'
        ),
    )(add)
    saved.command("list", epilog=example("weft saved list"))(list_saved)
    saved.command("show", epilog=example("weft saved show large", "weft saved show large --set least=250"))(show)
    saved.command("install", epilog=example("weft saved install large large-250 --set least=250"))(install)
    saved.command("remove", epilog=example("weft saved remove large"))(remove)
    app.add_typer(saved, name="saved", epilog=example("weft saved list"))


def add(
    name: NameArgument,
    sql: SqlArgument = None,
    file: FileOption = None,
    parameter: Annotated[
        list[str] | None,
        typer.Option(
            "--parameter",
            "-p",
            metavar="NAME:TYPE[=DEFAULT]",
            help="A parameter: string, int, decimal, double, boolean, date, timestamp or interval.",
        ),
    ] = None,
    description: Annotated[str, typer.Option(metavar="TEXT", help="What the query is for.")] = "",
    replace: Annotated[bool, typer.Option("--replace", help="Replace the text of an existing saved query.")] = False,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Save a query with {{parameters}}.  Others fill in the values and install it."""
    text = query_text(sql, file)
    with opened(home) as weft:
        saved = weft.save_query(name, text, parameter or (), description=description, replace=replace)
    words = f"Saved {saved.name}. `weft saved install {saved.name} NEW-NAME` installs it; `weft grant` shares it."
    print_result(json, saved_json(saved), words)


def list_saved(home: HomeOption = None, json: JsonOption = False) -> None:
    """List the saved queries."""
    with opened(home) as weft:
        found = weft.saved_queries()
    rows = ((s.name, s.owner, plain(", ".join(map(str, s.parameters))), plain(s.description)) for s in found)
    none = 'No saved queries yet. Save one: weft saved add NAME "SELECT … {{x}}" --parameter x:int'
    print_list(json, map(saved_json, found), none, ("query", "owner", "parameters", "description"), rows)


def show(name: NameArgument, value: ValueOption = None, home: HomeOption = None, json: JsonOption = False) -> None:
    """Show a saved query.  With --set, show the text with these values."""
    values = _values(value)
    with opened(home) as weft:
        saved = weft.saved_query(name)
        text = weft.fill_query(name, values) if values else saved.sql
    if json:
        print_json({**saved_json(saved), "text": text})
        return
    echo(f"{saved.name}, by {saved.owner}, {moment(saved.saved_at)}")
    if saved.description:
        echo(lines(saved.description))
    echo(f"parameters  {plain(', '.join(map(str, saved.parameters)))}")
    echo("")
    echo(lines(text))


def install(
    name: NameArgument,
    new_name: Annotated[str, typer.Argument(metavar="NEW-NAME", help="The name of the standing query.")],
    value: ValueOption = None,
    every: EveryOption = None,
    start: StartOption = None,
    to: ChannelOption = None,
    digest: DigestOption = None,
    zone: ZoneOption = None,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Fill in a saved query, and install it as a standing query of your own."""
    values = _values(value)
    chosen: Any = None if start is None else start.value
    with opened(home) as weft:
        query = weft.install_saved(
            name, new_name, values, every=every, start=chosen, to=to or (), digest=digest, zone=zone
        )
    if json:
        print_json(query_json(query))
        return
    echo(f"Installed {query.name} for {query.user}:")
    echo(lines(query.sql))


def remove(name: NameArgument, home: HomeOption = None, json: JsonOption = False) -> None:
    """Remove a saved query.  Queries that were installed from it stay, but those of readers are paused."""
    with opened(home) as weft:
        saved = weft.remove_saved(name)
    print_result(json, saved_json(saved), f"{saved.name} is removed. Queries that were installed from it stay.")


def _values(given: list[str] | None) -> dict[str, str]:
    """Raise Refused for an option without an equals sign, and for a parameter that is given twice."""
    values = dict[str, str]()
    for each in given or ():
        name, equals, value = each.partition("=")
        if not equals:
            raise Refused(f"--set {each} has no value", hint="Write --set PARAMETER=VALUE.")
        if name in values:
            raise Refused(f"{name} is set twice", hint="Omit one of the values.")
        values[name] = value
    return values
