"""explain."""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli import terminal
from weft.cli.frame import FileOption, HomeOption, JsonOption, example, home_folder, opened, query_text
from weft.cli.printing import instant, iso, say, say_json, table
from weft.cli.printing import lines as safe_lines
from weft.cli.queries import DuplicatesOption, KeepName, KeepOption, LanguageName, LanguageOption, StartName
from weft.cli.synopses import tell_synopsis
from weft.cli.view_commands import tell_view
from weft.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from weft.api.explaining import Known
    from weft.planning.explain import BranchText, Explanation


QueryArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="SQL|NAME", help="A query, or the name of an installed one or of a view (else --file, else stdin)."
    ),
]
FullOption = Annotated[bool, typer.Option("--full", help="Show all of it: the SQL that runs, and what is read.")]
_NAME = re.compile(r"[\w.\-]+")
_WAYS = {
    "nothing": "Nothing is read, and Spark is not asked",
    "rows": "Spark runs one job, over rows in the driver's memory.",
    "files": "Spark reads files: several jobs.",
}


def add_to(app: typer.Typer) -> None:
    """Adds the commands."""
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
    start: Annotated[StartName, typer.Option("--from", help="Explain it as installed from the start or from now.")] = (
        StartName.start
    ),
    tick: Annotated[
        str | None, typer.Option(metavar="NAME", help="Show what the next tick of an installed query would read.")
    ] = None,
    keep: KeepOption = KeepName.history,
    language: LanguageOption = LanguageName.sql,
    duplicates: DuplicatesOption = False,
    once: Annotated[
        bool, typer.Option("--once", help="Explain it as `weft try` asks it, at one instant (:t).")
    ] = False,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Show what makes a query's answers appear, and how many they may be; starts no Spark."""
    from weft.api.explaining import explain_query, sql_asked_once, synopsis_explanation

    synopsis = keep is KeepName.synopsis or language is not LanguageName.sql or duplicates
    other = once or start is StartName.now
    _require_one_way(tick is not None, sql is not None or file is not None, synopsis, other)
    _require_not_full(full and (tick is not None or once))
    if tick is not None:
        _explain_tick(tick, home, json)
        return
    text = query_text(sql, file)
    if language is LanguageName.sql and (name := _NAME.fullmatch(text.strip())):
        _explain_installed(name[0], home, other=synopsis or other, full=full, json=json)
        return
    with _known(home, text, json) as known:
        if once:
            _tell_asked(*sql_asked_once(text, known), json)
        elif synopsis:
            found = synopsis_explanation(
                text, known, language.value, duplicates=duplicates, keep=keep is KeepName.synopsis
            )
            tell_synopsis(found, known.assumed, full=full, json=json)
        else:
            tell(explain_query(text, known, from_now=start is StartName.now), known.assumed, full=full, json=json)


@contextmanager
def _known(home: Path | None, text: str, json: bool) -> Iterator[Known]:
    """The tables that a text may be over; what was assumed of them is told where it is refused."""
    from weft.api.explaining import known_tables
    from weft.schedule.clock import now_us

    known = known_tables(home_folder(home), now_us(), text)
    try:
        yield known
    except Exception:
        if known.assumed and not json:
            say(f"({known.assumed})", err=True)
        raise


def _require_one_way(tick: bool, given: bool, synopsis: bool, other: bool) -> None:
    """Raises Refused where a command asks for two explanations."""
    if tick and given:
        raise Refused("--tick names an installed query, and another is given", hint="Leave one of them out.")
    if synopsis and (tick or other):
        raise Refused(
            "a synopsis begins with the history that is there, and is explained as it stands",
            hint="Leave --tick, --once and --from now out.",
        )


def _require_not_full(full: bool) -> None:
    """Raises Refused where more is asked for than there is."""
    if full:
        raise Refused("--full goes with neither --tick nor --once, which show all there is", hint="Leave it out.")


def _explain_installed(name: str, home: Path | None, *, other: bool, full: bool, json: bool) -> None:
    if other:
        raise Refused(
            f"{name} is explained as it was installed",
            hint="Leave --from now, --once, --keep and --duplicates out, or give the query's text.",
        )
    from weft.planning.explain import Explanation
    from weft.planning.synopsis_words import SynopsisExplanation

    with opened(home) as weft:
        found = weft.explain_installed(name)
    if isinstance(found, Explanation):
        tell(found, None, full=full, json=json)
    elif isinstance(found, SynopsisExplanation):
        tell_synopsis(found, None, full=full, json=json)
    else:
        tell_view(found, full=full, json=json)


def tell(found: Explanation, assumed: str | None, *, full: bool, json: bool) -> None:
    """Prints the explanation of a query that Spark runs; ``assumed`` says over which tables, where there are none."""
    if json:
        say_json({**as_json(found), "assumed": assumed})
        return
    if assumed:
        typer.echo(f"({assumed})\n", terminal.out())
    typer.echo(safe_lines("\n".join(as_text(found) if full else found.brief)), terminal.out())


def _tell_asked(query: str, selects: Sequence[str], json: bool) -> None:
    if json:
        say_json({"query": query, "selects": list(selects)})
        return
    lines = ["The query, normalized", *_indented(query), "", "Asked at the instant :t"]
    lines += _indented("\nUNION\n".join(selects) or "(there can be no row)")
    typer.echo(safe_lines("\n".join(lines)), terminal.out())


def _explain_tick(name: str, home: Path | None, json: bool) -> None:
    with opened(home) as weft:
        found = weft.explain_tick(name)
    read = [*found.relations, found.known]
    if json:
        say_json(
            {
                "name": found.query.name,
                "tau": iso(found.tau),
                "t": iso(found.t),
                "reads_first": list(found.lower),
                "relations": [asdict(each) for each in found.relations],
                "known": {"by": found.known.by, "how": found.known.how},
                "way": found.way,
                "quiet": found.quiet,
            }
        )
        return
    since = f"from {instant(found.tau)} on" if found.tau is not None else "over everything"
    say(f"The next tick of {found.query.name}: {since}, before {instant(found.t)}")
    if found.lower:
        say(f"{', '.join(found.lower)}, which it reads, would be run first; shown are their answers so far.")
    table(("name", "what", "read by", "how"), [(each.view, each.what, each.by, each.how) for each in read])
    say(_WAYS[found.way] if found.quiet is None else f"{_WAYS[found.way]}: {found.quiet}.")


def as_json(found: Explanation) -> dict[str, Any]:
    """An explanation as JSON has it."""

    def branch(each: BranchText) -> dict[str, Any]:
        return {"driver": each.driver, "table": each.table, "why": each.why, "sql": each.sql}

    return {
        "query": found.query,
        "columns": [{"name": name, "type": type_.declared} for name, type_ in found.columns],
        "plan": found.signature,
        "parameters": [{"name": name, "type": str(type_), "value": value} for name, type_, value in found.parameters],
        "from_now": found.from_now,
        "q_m": [branch(each) for each in found.first],
        "q_m_closed": found.closed,
        "q_m_reason": found.closed_reason,
        "q_i": [branch(each) for each in found.later],
        "views": [{"name": view.name, "sql": view.sql} for view in found.views],
        "rows_without_new_data": found.time_driven,
        "rows_may_leave": not found.lasting,
        "notes": [{"level": note.level, "text": note.text} for note in found.notes],
        "name": found.name,
        "brief": list(found.brief),
    }


def as_text(found: Explanation) -> list[str]:
    """An explanation in lines for a person: what matters first, the SQL after it."""
    lines = ["The query, normalized", *_indented(found.query), "", "An answer appears when"]
    lines += [f"  {number}. {each.why}" for number, each in enumerate(found.later, 1)] or ["  (never)"]
    arrives = "arrives or ends" if found.summary.ending else "arrives"
    time = "yes: time alone can make answers appear" if found.summary.time else f"no: only when something {arrives}"
    lines += [f"Rows with no new data: {time}.", ""]
    lines += [line for note in found.notes for line in _note(note.level, note.text)]
    lines += ["", f"Plan {found.signature}: shared by all queries that differ in these constants only"]
    lines += [f"  {name} {type_} = {value}" for name, type_, value in found.parameters] or ["  (it has no constants)"]
    if found.from_now:
        lines += ["", "From now: rows that were in the answer just before are left out."]
    else:
        form = "Q^M has the closed form" if found.closed else "Q^M runs the branches with an open window"
        lines += ["", f"Q^M, the first delivery, run once over what is there ({form}:", f"{found.closed_reason})"]
        lines += _branches(found.first)
    lines += ["", "Q^I, each tick: answers that begin in the window [:tau, :t)"]
    lines += _branches(found.later)
    lines += ["", "What the names stand for in a tick (read once, shared by all branches)"]
    for view in found.views:
        lines += [f"  {view.name}:", *("  " + line for line in _indented(view.sql))]
    columns = ", ".join(f"c{number} is {name} {type_}" for number, (name, type_) in enumerate(found.columns, 1))
    lines += [f"  The other names are the tables themselves; {columns}.", ""]
    lines.append("A tick gives the rows of all branches, each once, less what was delivered before.")
    return lines


def _branches(found: Sequence[BranchText]) -> list[str]:
    lines = []
    for number, each in enumerate(found, 1):
        lines += [f"  {number}. {each.why}", *("   " + line for line in _indented(each.sql))]
    return lines


def _indented(text: str) -> list[str]:
    return ["  " + line for line in text.splitlines()]


def _note(level: str, text: str) -> list[str]:
    import textwrap

    return textwrap.wrap(text, 100, initial_indent=f"{level.upper()}: ", subsequent_indent="  ")
