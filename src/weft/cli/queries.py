"""The commands for standing queries: install, queries, show, pause, resume, remove."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.api.json.queries import listed_json, query_json, shown_json
from weft.cli import terminal
from weft.cli.frame import FileOption, HomeOption, JsonOption, SqlArgument, example, opened, query_text
from weft.cli.install_replace import DryRunOption, ReplaceOption, preview_replacement, print_replaced
from weft.cli.printing import counted, echo, instant, lines, moment, plain, print_json, print_result, table, typed
from weft.configuration import configuration
from weft.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from weft.api.weft import Weft
    from weft.catalog.records import QueryRecord
    from weft.catalog.subscriptions import Subscription

CHANNELS = "file:PATH (.jsonl, .csv), delta:PATH, feed:NAME, email:ADDRESS, imaps://…, webhook:URL, exec:COMMAND"
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The query.")]


class StartName(str, Enum):
    """The first answers that a query delivers."""

    start = "start"
    now = "now"


class KeepName(str, Enum):
    """The data that Weft keeps for a query."""

    history = "history"
    synopsis = "synopsis"


class DialectName(str, Enum):
    """A dialect of SQL that Weft translates."""

    postgres = "postgres"
    duckdb = "duckdb"
    snowflake = "snowflake"
    bigquery = "bigquery"
    tsql = "tsql"


class LanguageName(str, Enum):
    """The language of a query."""

    sql = "sql"
    monpoly = "monpoly"
    mutl = "mutl"
    mutl_minmax = "mutl-minmax"
    two_sorted = "2fol"


KeepOption = Annotated[
    KeepName,
    typer.Option("--keep", help="history: answer from all stored rows; synopsis: from a synopsis that ticks maintain."),
]
LanguageOption = Annotated[
    LanguageName,
    typer.Option("--language", help="The query's language: sql, or a formula (monpoly, mutl, mutl-minmax, 2fol)."),
]
DialectOption = Annotated[
    DialectName | None,
    typer.Option(
        "--dialect", help="The dialect of the query's text; refused where it means something else (default: Spark's)."
    ),
]

StartOption = Annotated[
    StartName | None,
    typer.Option(
        "--from", help="start: deliver the answers of the history first (the default); now: only new answers."
    ),
]
ChannelOption = Annotated[
    list[str] | None,
    typer.Option(
        "--to",
        metavar="CHANNEL",
        help=f"Send the answers to a channel: {CHANNELS}.",
    ),
]


class FormName(str, Enum):
    """The format of a webhook's text messages."""

    slack = "slack"
    teams = "teams"


FormOption = Annotated[
    FormName | None, typer.Option("--as", help="Send webhooks a text for Slack or Teams (default: JSON).")
]
UserOption = Annotated[
    str | None, typer.Option("--user", metavar="U", help="The owner of the query (default: your user name).")
]
EveryOption = Annotated[
    str | None,
    typer.Option("--every", metavar="10m", help="Run the query at least this often (default: at each tick)."),
]
DigestOption = Annotated[
    str | None,
    typer.Option("--digest", metavar="WHEN", help="Collect answers until: hourly, daily@08:00, weekly@mon-08:00."),
]
ZoneOption = Annotated[
    str | None,
    typer.Option(
        "--zone", metavar="ZONE", help="The time zone of the digest (default: the recipient's in the settings)."
    ),
]
DiscardOption = Annotated[
    bool,
    typer.Option("--discard-history", help="Delete rows of the query's tables after all synopses have processed them."),
]
DuplicatesOption = Annotated[bool, typer.Option("--duplicates", help="With --language 2fol: count duplicate answers.")]
UnboundedOption = Annotated[bool, typer.Option("--allow-unbounded", help="Allow a synopsis whose size has no bound.")]


def add_to(app: typer.Typer) -> None:
    """Register the commands with ``app``."""
    app.command(
        epilog=example(
            "weft install unanswered -f unanswered.sql --every 1h --to file:unanswered.jsonl",
            'weft install back "SELECT b.id FROM sent s, back b WHERE s.id = b.id AND s.ts < b.ts" --keep synopsis',
            "weft install unanswered -f stricter.sql --replace --dry-run",
            "weft install databases \"SELECT msgid FROM msgs WHERE newsgroup = 'comp.databases'\" --from now",
        )
    )(install)
    app.command(epilog=example("weft queries"))(queries)
    app.command(epilog=example("weft show unanswered"))(show)
    app.command(epilog=example("weft pause unanswered"))(pause)
    app.command(epilog=example("weft resume unanswered", "weft resume unanswered --skip"))(resume)
    app.command(epilog=example("weft remove unanswered --purge --now"))(remove)


def install(
    name: NameArgument,
    sql: SqlArgument = None,
    file: FileOption = None,
    user: UserOption = None,
    every: EveryOption = None,
    start: StartOption = None,
    to: ChannelOption = None,
    digest: DigestOption = None,
    zone: ZoneOption = None,
    form: FormOption = None,
    keep: KeepOption = KeepName.history,
    language: LanguageOption = LanguageName.sql,
    dialect: DialectOption = None,
    allow_unbounded: UnboundedOption = False,
    discard_history: DiscardOption = False,
    duplicates: DuplicatesOption = False,
    replace: ReplaceOption = False,
    dry_run: DryRunOption = False,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Install a standing query: each of its answers is delivered once, when data or time makes it true."""
    text = query_text(sql, file)
    with opened(home) as weft:
        arguments: dict[str, Any] = {"every": every, "to": with_form(to or (), form), "digest": digest, "zone": zone}
        arguments |= {
            "user": user if user or replace else configuration(weft.home).install_user or terminal.user(),
            "start": None if start is None else start.value,
            "keep": keep.value,
            "language": language.value,
            "allow_unbounded": allow_unbounded,
            "discard_history": discard_history,
            "duplicates": duplicates,
            "dialect": None if dialect is None else dialect.value,
        }
        if dry_run:
            preview_replacement(weft, name, text, arguments, replace=replace, json=json)
        else:
            _install(weft, name, text, arguments, replace=replace, json=json)


def _install(weft: Weft, name: str, text: str, arguments: Mapping[str, Any], *, replace: bool, json: bool) -> None:
    began = weft.clock()
    query = weft.install(name, text, replace=replace, **arguments)
    _print_installed(weft, query, json, replaced=None if not replace else (query.replaced_at or 0) >= began)


def with_form(channels: Sequence[str], form: FormName | None) -> list[str]:
    """Append the format to the name of each webhook in ``channels``.  Raise Refused if no channel is a webhook."""
    if form is None:
        return list(channels)
    if not any(each.strip().lower().startswith("webhook:") for each in channels):
        raise Refused("--as applies to webhooks only", hint=f"Add --to webhook:https://…, or omit --as {form.value}.")
    return [f"{each}#as={form.value}" if each.strip().lower().startswith("webhook:") else each for each in channels]


def _print_installed(weft: Weft, query: QueryRecord, json: bool, *, replaced: bool | None) -> None:
    """If the query is new, ``replaced`` is None."""
    from weft.api.results import answers_order
    from weft.planning.stored_synopsis import is_synopsis

    installed = weft.show(query.name)
    synopsis = is_synopsis(installed.plan.body)
    notes = () if synopsis else weft.explain(query.sql, start=query.from_mode).notes
    if json:
        print_json(query_json(query))
        return
    verb = "Installed" if replaced is None else "Updated"
    echo(f"{verb} {query.name} for {query.user}{_shared(installed.sharing)}.")
    if installed.asks_history:
        echo(
            "The query is evaluated over the stored history: a tick with new rows reads the tables of the query "
            "in full, without Spark."
        )
    elif synopsis:
        echo("The query is maintained as a synopsis: its ticks read new rows and the synopsis, without Spark.")
    for note in notes:
        if note.level == "warning":
            echo(f"WARNING: {note.text}", style="yellow")
    if answers_order(query):
        echo("The ORDER BY sorts the output of `weft try` and `weft results`; answers are delivered as they appear.")
    if query.from_instant is not None:
        echo(f"The query delivers rows that enter its answer from {instant(query.from_instant)} on.")
    if replaced:
        print_replaced(installed.replaced[-1])
    elif replaced is not None:
        echo(f"The text is unchanged: the query continues where it was, every {_every(query)}.")
    if query.state == "paused":
        echo(f"The query stays paused. Resume the query with `weft resume {query.name}`.")
    else:
        echo(f"The next `weft tick` or `weft run` runs it; `weft results {query.name}` prints its answers.")


def _shared(sharing: int) -> str:
    others = sharing - 1
    return "" if not others else f"; it shares a plan with {others} other quer{'y' if others == 1 else 'ies'}"


def queries(
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="List at most N queries.")] = 1_000,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """List the standing queries."""
    with opened(home) as weft:
        listed = weft.queries(limit=limit)
        counts = weft.query_counts() if len(listed) == limit else {"active": len(listed)}
        count = sum(number for state, number in counts.items() if state != "troubled")
        channels = weft.channel_counts()
    if json:
        print_json([listed_json(query, channels.get(query.query_id, (0, 0))) for query in listed])
    elif not listed:
        echo('No queries yet. Install a query: weft install NAME "SELECT …"')
    else:
        rows = [
            (q.name, q.user, _state(q, channels), f"{q.rows:,}", _every(q), instant(q.tau, "not yet"), plain(q.sql))
            for q in listed
        ]
        table(("query", "user", "state", "answers", "every", "ticked to", "sql"), rows, right=(3,))
        if count > len(listed):
            echo(f"{len(listed):,} of {count:,} queries; see --limit")


def _state(query: QueryRecord, channels: Mapping[int, tuple[int, int]]) -> str:
    every, parked = channels.get(query.query_id, (0, 0))
    replaced = "" if query.replaced_at is None else f", replaced {moment(query.replaced_at)}"
    return f"{query.state}{replaced}" + (f", {parked} of {every} channels parked" if parked else "")


def _ticked(query: QueryRecord) -> str:
    return "not ticked yet" if query.tau is None else f"ticked to {instant(query.tau)}"


def _every(query: QueryRecord) -> str:
    from weft.instants import format_interval

    return "tick" if query.every_us is None else format_interval(query.every_us)


def show(name: NameArgument, home: HomeOption = None, json: JsonOption = False) -> None:
    """Show one query: its text, plan, channels and last ticks."""
    with opened(home) as weft:
        shown = weft.show(name)
    if json:
        print_json(shown_json(shown))
        return
    query = shown.query
    echo(f"{query.name}, for {query.user}: {query.state}" + (f" ({plain(query.reason)})" if query.reason else ""))
    echo(lines(query.sql))
    echo("")
    echo(f"columns    {typed(query.columns)}")
    echo(f"installed  {moment(query.installed_at)}, plan {shown.plan.signature}{_shared(shown.sharing)}")
    begin = "the start" if query.from_instant is None else instant(query.from_instant)
    echo(f"answers    {query.rows:,}, from {begin}, {_ticked(query)}, every {_every(query)}")
    for text in shown.replaced:
        answers = f"answers up to #{text.rows:,}" if text.rows else "no answers"
        echo(f"old text   {moment(text.since)} to {moment(text.until)}, {answers}: {plain(text.sql)}")
    if shown.reads:
        echo(f"reads      the results of {', '.join(shown.reads)}")
    if shown.read_by:
        echo(f"read by    {', '.join(shown.read_by)}")
    for relation, count in shown.stored:
        echo(f"stored     {relation.formula}: {counted(count, 'row')}, {relation.bound}")
    for one in shown.subscriptions:
        trouble = f"; {plain(one.trouble)}" if one.trouble else ""
        again = f"; next attempt {moment(one.next_attempt_at)}" if one.next_attempt_at and one.is_served else ""
        status = f"{one.delivered:,} of {query.rows:,} delivered{digest_words(one)}{trouble}{again}"
        echo(f"channel    {one.channel}: {status}")
    if shown.ticks:
        rows = [
            (
                str(t.tick_id),
                instant(t.tau, "the start"),
                instant(t.t),
                "-" if t.rows is None else f"{t.rows:,}",
                t.reason or "",
            )
            for t in shown.ticks
        ]
        table(("tick", "from", "to", "new", ""), rows, right=(0, 3))


def digest_words(subscription: Subscription) -> str:
    """Describe the digest of a subscription, and the time of the next digest."""
    if subscription.digest is None:
        return ""
    zone = f" in {subscription.zone}" if subscription.zone else ""
    return f", {subscription.digest}{zone}" + (
        f", next {moment(subscription.digest_at)}" if subscription.digest_at is not None else ""
    )


def pause(name: NameArgument, home: HomeOption = None, json: JsonOption = False) -> None:
    """Exclude a query from ticks until it is resumed."""
    with opened(home) as weft:
        query = weft.pause(name)
    _print_changed(query, "is paused; `weft resume` continues the query where it stopped, without loss", json)


def resume(
    name: NameArgument,
    skip: Annotated[bool, typer.Option("--skip", help="Omit the answers that appeared in between.")] = False,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Resume a paused or failed query, and retry its failed channels at the next tick."""
    with opened(home) as weft:
        query = weft.resume(name, skip=skip)
    _print_changed(query, f"continues from {instant(query.tau, 'the start')}", json)


def remove(
    name: NameArgument,
    purge: Annotated[bool, typer.Option("--purge", help="Also delete the answers.")] = False,
    now: Annotated[
        bool, typer.Option("--now", help="With --purge: also delete the files that contained the answers at once.")
    ] = False,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Remove a query; files that it wrote are left."""
    with opened(home) as weft:
        query = weft.remove(name, purge=purge, now=now)
    _print_changed(query, "is removed" + (", with its answers" if purge else ""), json)


def _print_changed(query: QueryRecord, words: str, json: bool) -> None:
    print_result(json, query_json(query), f"{query.name} {words}.")
