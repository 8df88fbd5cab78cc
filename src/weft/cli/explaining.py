"""The command ``explain``."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.api.dialects import in_dialect
from weft.api.json.explanations import asked_once_json, explanation_json, forecast_json
from weft.cli import terminal
from weft.cli.frame import FileOption, HomeOption, JsonOption, example, home_folder, opened, query_text
from weft.cli.printing import echo, instant, print_json, table
from weft.cli.printing import lines as safe_lines
from weft.cli.queries import (
    DialectName,
    DialectOption,
    DuplicatesOption,
    KeepName,
    KeepOption,
    LanguageName,
    LanguageOption,
    StartName,
)
from weft.cli.synopses import print_synopsis
from weft.cli.view_commands import print_view
from weft.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from weft.api.explaining import Known
    from weft.planning.explain import AskedOnce, BranchText, Explanation
    from weft.planning.state_text import StateText


QueryArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="SQL|NAME", help="A query, or the name of an installed query or view (else --file, else stdin)."
    ),
]
FullOption = Annotated[bool, typer.Option("--full", help="Show everything, with the SQL that runs and what it reads.")]
_NAME = re.compile(r"[\w.\-]+")
_WAYS = {
    "nothing": "Nothing is read, and Spark is not used",
    "duckdb": "DuckDB computes the answers in this process, without Spark.",
    "rows": "Spark runs one job, over rows in the driver's memory.",
    "files": "Spark reads files: several jobs.",
}


def add_to(app: typer.Typer) -> None:
    """Register the command with ``app``."""
    app.command(
        epilog=example(
            'weft explain "SELECT msgid FROM msgs WHERE ts < NOW() - INTERVAL 4 WEEKS"',
            "weft explain unanswered --full",
            "weft explain --tick unanswered",
        )
    )(explain)


def explain(
    sql: QueryArgument = None,
    file: FileOption = None,
    full: FullOption = False,
    start: Annotated[
        StartName, typer.Option("--from", help="Explain the query as if it is installed from the start or from now.")
    ] = (StartName.start),
    tick: Annotated[
        str | None, typer.Option(metavar="NAME", help="Show what the next tick of an installed query would read.")
    ] = None,
    keep: KeepOption = KeepName.history,
    language: LanguageOption = LanguageName.sql,
    dialect: DialectOption = None,
    duplicates: DuplicatesOption = False,
    once: Annotated[bool, typer.Option("--once", help="Explain what `weft try` runs, at an instant (:t).")] = False,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Show what makes a query's answers appear, and estimate their number; starts no Spark."""
    from weft.api.explaining import explain_query, sql_asked_once, synopsis_explanation

    required, other = keep is KeepName.synopsis, once or start is StartName.now
    synopsis = required or language is not LanguageName.sql or duplicates
    _require_one_way(tick is not None, sql is not None or file is not None, synopsis, other, full=full, once=once)
    if tick is not None:
        _explain_tick(tick, home, json)
        return
    text = query_text(sql, file)
    if language is LanguageName.sql and (name := _NAME.fullmatch(text.strip())):
        _explain_installed(name[0], home, other=synopsis or other, full=full, json=json)
        return
    with _known(home, text, json) as known, _translated(text, dialect, language, known) as sql:
        if once:
            _print_asked_once(sql_asked_once(sql, known), json)
        elif synopsis:
            explanation = synopsis_explanation(sql, known, language.value, duplicates=duplicates, keep=required)
            print_synopsis(explanation, known.assumed, full=full, json=json)
        else:
            explained = explain_query(sql, known, from_now=start is StartName.now)
            print_explanation(explained, known.assumed, full=full, json=json)


def _translated(
    text: str, dialect: DialectName | None, language: LanguageName, known: Known
) -> AbstractContextManager[str]:
    named = None if dialect is None else dialect.value
    return in_dialect(text, named, lambda _: known.schemas, language=language.value)


@contextmanager
def _known(home: Path | None, text: str, json: bool) -> Iterator[Known]:
    """If the query is refused, print the assumption about the tables."""
    from weft.api.explaining import known_tables
    from weft.schedule.clock import now_us

    client = terminal.remote()
    if client is not None and client.elsewhere:
        home_folder(home)
        yield client.weft.known(text)
        return
    known = known_tables(home_folder(home), now_us(), text)
    try:
        yield known
    except Exception:
        if known.assumed and not json:
            echo(f"({known.assumed})", err=True)
        raise


def _require_one_way(tick: bool, query: bool, synopsis: bool, other: bool, *, full: bool, once: bool) -> None:
    if tick and query:
        raise Refused("--tick names an installed query, but the command also has a query", hint="Omit one of them.")
    if synopsis and (tick or other):
        raise Refused(
            "--tick, --once and --from now do not apply to synopses, which start with the whole history",
            hint="Omit these options.",
        )
    if full and (tick or once):
        raise Refused("--full does not apply to --tick and --once, which show everything", hint="Omit --full.")


def _explain_installed(name: str, home: Path | None, *, other: bool, full: bool, json: bool) -> None:
    if other:
        raise Refused(
            f"{name} is an installed query and is explained as it was installed",
            hint="Omit --from now, --once, --keep and --duplicates, or write the query's text instead of its name.",
        )
    from weft.planning.explain import Explanation
    from weft.planning.synopsis_words import SynopsisExplanation

    with opened(home) as weft:
        explanation = weft.explain_installed(name)
    if isinstance(explanation, Explanation):
        print_explanation(explanation, None, full=full, json=json)
    elif isinstance(explanation, SynopsisExplanation):
        print_synopsis(explanation, None, full=full, json=json)
    else:
        print_view(explanation, full=full, json=json)


def print_explanation(explanation: Explanation, assumed: str | None, *, full: bool, json: bool) -> None:
    """Print an explanation.  ``assumed`` is the note on assumed tables, if any."""
    if json:
        print_json(explanation_json(explanation, assumed))
        return
    if assumed:
        typer.echo(f"({assumed})\n", terminal.out())
    typer.echo(safe_lines("\n".join(as_text(explanation) if full else explanation.brief)), terminal.out())


def _print_asked_once(found: AskedOnce, json: bool) -> None:
    if json:
        print_json(asked_once_json(found))
        return
    lines = ["The query, normalized", *_indented(found.query), "", "The SQL at the instant :t", *_states(found.states)]
    lines += _indented("\nUNION\n".join(found.selects) or "(no row can exist)")
    typer.echo(safe_lines("\n".join(lines)), terminal.out())


def _explain_tick(name: str, home: Path | None, json: bool) -> None:
    with opened(home) as weft:
        forecast = weft.explain_tick(name)
    read = [*forecast.relations, forecast.known]
    if json:
        print_json(forecast_json(forecast))
        return
    since = f"from {instant(forecast.tau)} on" if forecast.tau is not None else "over the whole history"
    echo(f"The next tick of {forecast.query.name}: {since}, before {instant(forecast.t)}")
    if forecast.lower:
        echo(
            f"It reads the results of {', '.join(forecast.lower)}, which would run first; shown are their answers "
            "so far."
        )
    table(("name", "what", "read by", "how"), [(each.view, each.what, each.by, each.how) for each in read])
    if forecast.quiet is not None:
        echo(f"{_WAYS[forecast.way]}: {forecast.quiet}.")
    else:
        echo(_WAYS[forecast.way] if forecast.engine is None else forecast.engine.sentence("The next tick"))


def as_text(explanation: Explanation) -> list[str]:
    """Return the explanation as lines of text: first the essentials, then the SQL."""
    lines = ["The query, normalized", *_indented(explanation.query), "", "An answer appears when"]
    lines += [f"  {number}. {each.why}" for number, each in enumerate(explanation.later, 1)] or ["  (never)"]
    arrives = "arrives or ends" if explanation.summary.ending else "arrives"
    time = "yes: time alone can make answers appear" if explanation.summary.time else f"no: only when a row {arrives}"
    lines += [f"Answers without new rows: {time}.", ""]
    lines += [line for note in explanation.notes for line in _note(note.level, note.text)]
    lines += ["", f"Plan {explanation.signature}: shared by all queries that differ only in these constants"]
    lines += [f"  {name} {type_} = {value}" for name, type_, value in explanation.parameters] or ["  (none)"]
    if explanation.from_now:
        lines += ["", "From now: rows that were in the answer just before are omitted."]
    else:
        form = "Q^M has the closed form" if explanation.closed else "Q^M runs the branches with an open window"
        lines += [
            "",
            f"Q^M, the first delivery, run once over the present rows ({form}:",
            f"{explanation.closed_reason})",
        ]
        lines += [*_states(explanation.first_states), *_branches(explanation.first)]
    lines += ["", "Q^I, each tick: answers that begin in the window [:tau, :t)"]
    lines += [*_states(explanation.states), *_branches(explanation.later)]
    lines += ["", "The names in a tick (each read once, shared by all branches)"]
    for view in explanation.views:
        lines += [f"  {view.name}:", *("  " + line for line in _indented(view.sql))]
    columns = ", ".join(f"c{number} is {name} {type_}" for number, (name, type_) in enumerate(explanation.columns, 1))
    lines += [f"  The other names are the tables themselves; {columns}.", ""]
    lines.append("A tick returns the distinct rows of all branches, without those delivered before.")
    return lines


def _branches(branches: Sequence[BranchText]) -> list[str]:
    lines = []
    for number, each in enumerate(branches, 1):
        lines += [f"  {number}. {each.why}", *("   " + line for line in _indented(each.sql))]
    return lines


def _states(states: Sequence[StateText]) -> list[str]:
    """The states come before the branches that read them."""
    lines = []
    for each in states:
        lines += [f"  {' and '.join(each.views)}: {each.rows}", f"    ({each.how})"]
        for step in each.steps:
            by = f", by {step.engine}" if step.engine else ""
            lines += [f"    {step.name}{by}:", *("    " + line for line in _indented(step.sql))]
            if step.in_spark is not None:
                lines += [f"    {step.name}, by Spark if the driver's memory cannot hold an input:"]
                lines += ["    " + line for line in _indented(step.in_spark)]
    return lines


def _indented(text: str) -> list[str]:
    return ["  " + line for line in text.splitlines()]


def _note(level: str, text: str) -> list[str]:
    import textwrap

    return textwrap.wrap(text, 100, initial_indent=f"{level.upper()}: ", subsequent_indent="  ")
