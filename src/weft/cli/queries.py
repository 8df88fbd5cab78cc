"""install, queries, show, pause, resume, remove."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli import terminal
from weft.cli.frame import FileOption, HomeOption, JsonOption, SqlArgument, example, opened, query_text
from weft.cli.install_replace import DryRunOption, ReplaceOption, foretell, replaced_json, say_replaced
from weft.cli.printing import counted, instant, iso, lines, moment, plain, say, say_json, table, typed
from weft.configuration import configuration
from weft.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from weft.api.standing import Shown
    from weft.api.weft import Weft
    from weft.catalog.records import QueryRecord
    from weft.catalog.subscriptions import Subscription

CHANNELS = "file:PATH (.jsonl, .csv), delta:PATH, email:ADDRESS, webhook:URL, exec:COMMAND"
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The query.")]


class StartName(str, Enum):
    """Which answers a query delivers."""

    start = "start"
    now = "now"


class KeepName(str, Enum):
    """What answers are found from."""

    history = "history"
    synopsis = "synopsis"


class LanguageName(str, Enum):
    """In which language a query is written."""

    sql = "sql"
    monpoly = "monpoly"
    mutl = "mutl"
    mutl_minmax = "mutl-minmax"
    two_sorted = "2fol"


KeepOption = Annotated[
    KeepName,
    typer.Option("--keep", help="history: answers from all rows; synopsis: from the least of the past, kept by ticks."),
]
LanguageOption = Annotated[
    LanguageName, typer.Option("--language", help="sql; monpoly, mutl, mutl-minmax or 2fol: a formula over tables.")
]

StartOption = Annotated[
    StartName | None,
    typer.Option("--from", help="start: the history's answers first (the default); now: only what enters from now."),
]
ChannelOption = Annotated[
    list[str] | None,
    typer.Option(
        "--to",
        metavar="CHANNEL",
        help=f"Where answers go besides `weft results`: {CHANNELS}.",
    ),
]


class FormName(str, Enum):
    """What a webhook's messages look like, where they are no signed JSON."""

    slack = "slack"
    teams = "teams"


FormOption = Annotated[
    FormName | None, typer.Option("--as", help="What webhooks get: a text as Slack or Teams shows it (default: JSON).")
]
UserOption = Annotated[str | None, typer.Option("--user", metavar="U", help="Whose query it is (default: you).")]
EveryOption = Annotated[
    str | None, typer.Option("--every", metavar="10m", help="Run it at least this often (default: with each tick).")
]
DigestOption = Annotated[
    str | None,
    typer.Option("--digest", metavar="WHEN", help="Send together: hourly, daily@08:00, weekly@mon-08:00."),
]
ZoneOption = Annotated[
    str | None,
    typer.Option("--zone", metavar="ZONE", help="The digest's time zone (default: the person's in the settings)."),
]
DiscardOption = Annotated[
    bool, typer.Option("--discard-history", help="Let rows of its tables go once their synopses have taken them in.")
]
DuplicatesOption = Annotated[
    bool, typer.Option("--duplicates", help="With --language 2fol: count how often each answer is one.")
]
UnboundedOption = Annotated[
    bool, typer.Option("--allow-unbounded", help="Keep a synopsis of which the size has no bound, too.")
]


def add_to(app: typer.Typer) -> None:
    """Adds the commands."""
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
    app.command(epilog=example("weft remove unanswered --purge"))(remove)


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
    allow_unbounded: UnboundedOption = False,
    discard_history: DiscardOption = False,
    duplicates: DuplicatesOption = False,
    replace: ReplaceOption = False,
    dry_run: DryRunOption = False,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Leave a query standing: each of its answers is delivered once, when data or time makes it true."""
    text = query_text(sql, file)
    with opened(home) as weft:
        given: dict[str, Any] = {"every": every, "to": formed(to or (), form), "digest": digest, "zone": zone}
        given |= {
            "user": user if user or replace else configuration(weft.home).install_user or terminal.user(),
            "start": None if start is None else start.value,
            "keep": keep.value,
            "language": language.value,
            "allow_unbounded": allow_unbounded,
            "discard_history": discard_history,
            "duplicates": duplicates,
        }
        if dry_run:
            foretell(weft, name, text, given, replace=replace, json=json)
            return
        began = weft.clock()
        query = weft.install(name, text, replace=replace, **given)
        _say_installed(weft, query, json, replaced=None if not replace else (query.replaced_at or 0) >= began)


def formed(channels: Sequence[str], form: FormName | None) -> list[str]:
    """The channels, webhooks among them with what they get; raises Refused where there is none to say it of."""
    if form is None:
        return list(channels)
    if not any(each.strip().lower().startswith("webhook:") for each in channels):
        raise Refused("--as is for webhooks", hint=f"Add --to webhook:https://…, or leave --as {form.value} out.")
    return [f"{each}#as={form.value}" if each.strip().lower().startswith("webhook:") else each for each in channels]


def _say_installed(weft: Weft, query: QueryRecord, json: bool, *, replaced: bool | None) -> None:
    """``replaced``: its text took the place of another just now; None: it is a new query."""
    from weft.api.results import answers_order
    from weft.planning.synopsis_plan import is_synopsis

    installed = weft.show(query.name)
    synopsis = is_synopsis(installed.plan.body)
    notes = () if synopsis else weft.explain(query.sql, start=query.from_mode).notes
    if json:
        say_json(_as_json(query))
        return
    say(f"{query.name} stands, for {query.user}{_shared(installed.sharing)}.")
    if installed.asks_history:
        say("It is asked of the kept history: a tick with new rows reads its tables from the beginning, without Spark.")
    elif synopsis:
        say("It is kept as a synopsis: its ticks start no Spark, and look at what is new and what they have stored.")
    for note in notes:
        if note.level == "warning":
            say(f"WARNING: {note.text}", style="yellow")
    if answers_order(query):
        say("Its ORDER BY sorts what `weft try` and `weft results` show; answers are delivered as they appear.")
    if query.from_instant is not None:
        say(f"It delivers what enters its answer from {instant(query.from_instant)} on.")
    if replaced:
        say_replaced(query, installed.replaced[-1])
    elif replaced is not None:
        say(f"Its text is the one it had: it goes on from where it was, every {_every(query)}.")
    say("It runs with the next `weft tick`, or under `weft run`; `weft results " + query.name + "` shows its answers.")


def _shared(sharing: int) -> str:
    others = sharing - 1
    return "" if not others else f", on a plan with {others} other quer{'y' if others == 1 else 'ies'}"


def _as_json(query: QueryRecord) -> dict[str, Any]:
    return {
        "name": query.name,
        "id": query.query_id,
        "user": query.user,
        "sql": query.sql,
        "columns": [{"name": name, "type": type_.declared} for name, type_ in query.columns],
        "plan": query.plan_id,
        "every_us": query.every_us,
        "from": query.from_mode,
        "from_instant": iso(query.from_instant),
        "ticked_to": iso(query.tau),
        "rows": query.rows,
        "state": query.state,
        "reason": query.reason,
        "installed_at": iso(query.installed_at),
        "replaced_at": iso(query.replaced_at),
    }


def queries(
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="At most N queries.")] = 1_000,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """List the standing queries."""
    with opened(home) as weft:
        found = weft.queries(limit=limit)
        count = weft.catalog.queries.count() if len(found) == limit else len(found)
        channels = weft.catalog.subscriptions.counts()
    if json:
        counted = [(query, *channels.get(query.query_id, (0, 0))) for query in found]
        say_json([{**_as_json(query), "channels": every, "parked": parked} for query, every, parked in counted])
    elif not found:
        say('No query stands yet. `weft install NAME "SELECT …"` leaves one standing.')
    else:
        rows = [
            (q.name, q.user, _state(q, channels), f"{q.rows:,}", _every(q), instant(q.tau, "not yet"), plain(q.sql))
            for q in found
        ]
        table(("query", "user", "state", "answers", "every", "ticked to", "sql"), rows, right=(3,))
        if count > len(found):
            say(f"{len(found):,} of {count:,} queries; more with --limit")


def _state(query: QueryRecord, channels: Mapping[int, tuple[int, int]]) -> str:
    """The query's state, since when it has its text if not always, and that some of its channels wait for a person."""
    every, parked = channels.get(query.query_id, (0, 0))
    replaced = "" if query.replaced_at is None else f", replaced {moment(query.replaced_at)}"
    return f"{query.state}{replaced}" + (f", {parked} of {every} channels parked" if parked else "")


def _every(query: QueryRecord) -> str:
    from weft.instants import format_interval

    return "tick" if query.every_us is None else format_interval(query.every_us)


def show(name: NameArgument, home: HomeOption = None, json: JsonOption = False) -> None:
    """Show one query: its text, plan, channels and last ticks."""
    with opened(home) as weft:
        found = weft.show(name)
    if json:
        say_json(_shown_json(found))
        return
    query = found.query
    say(f"{query.name}, for {query.user}: {query.state}" + (f" ({plain(query.reason)})" if query.reason else ""))
    say(lines(query.sql))
    say("")
    say(f"columns    {typed(query.columns)}")
    say(f"installed  {moment(query.installed_at)}, plan {found.plan.signature}{_shared(found.sharing)}")
    begin = "the start" if query.from_instant is None else instant(query.from_instant)
    say(f"answers    {query.rows:,}, from {begin}, ticked to {instant(query.tau, 'not yet')}, every {_every(query)}")
    for text in found.replaced:
        told = f"answers to #{text.rows:,}" if text.rows else "no answer"
        say(f"before     {moment(text.since)} to {moment(text.until)}, {told}: {plain(text.sql)}")
    if found.reads:
        say(f"reads      the results of {', '.join(found.reads)}")
    if found.read_by:
        say(f"read by    {', '.join(found.read_by)}")
    for relation, count in found.stored:
        say(f"stored     {relation.formula}: {counted(count, 'row')}, {relation.bound}")
    for one in found.subscriptions:
        trouble = f"; {plain(one.trouble)}" if one.trouble else ""
        again = f"; tried again {moment(one.next_attempt_at)}" if one.next_attempt_at and one.is_served else ""
        told = f"{one.delivered:,} of {query.rows:,} delivered{digest_words(one)}{trouble}{again}"
        say(f"channel    {one.channel}: {told}")
    if found.ticks:
        rows = [
            (
                str(t.tick_id),
                instant(t.tau, "the beginning"),
                instant(t.t),
                "-" if t.rows is None else f"{t.rows:,}",
                t.reason or "",
            )
            for t in found.ticks
        ]
        table(("tick", "from", "to", "new", ""), rows, right=(0, 3))


def digest_words(found: Subscription) -> str:
    """How a subscription's answers go together, and when the next ones do."""
    if found.digest is None:
        return ""
    zone = f" in {found.zone}" if found.zone else ""
    return f", {found.digest}{zone}" + (f", next {moment(found.digest_at)}" if found.digest_at is not None else "")


def _shown_json(found: Shown) -> dict[str, Any]:
    return {
        **_as_json(found.query),
        "plan_signature": found.plan.signature,
        "replaced": [replaced_json(each) for each in found.replaced],
        "queries_of_the_plan": found.sharing,
        "reads": list(found.reads),
        "read_by": list(found.read_by),
        "stored": [
            {"name": each.name, "formula": each.formula, "rows": rows, "bound": each.bound}
            for each, rows in found.stored
        ],
        "channels": [subscription_json(each) for each in found.subscriptions],
        "ticks": [
            {"tick": t.tick_id, "from": iso(t.tau), "to": iso(t.t), "rows": t.rows, "reason": t.reason}
            for t in found.ticks
        ],
    }


def subscription_json(found: Subscription) -> dict[str, Any]:
    """A subscription as JSON has it."""
    return {
        "channel": found.channel,
        "state": found.state,
        "muted": found.muted,
        "digest": found.digest,
        "zone": found.zone,
        "digest_at": iso(found.digest_at),
        "delivered": found.delivered,
        "attempts": found.attempts,
        "next_attempt_at": iso(found.next_attempt_at),
        "error": found.last_error,
    }


def pause(name: NameArgument, home: HomeOption = None, json: JsonOption = False) -> None:
    """Leave a query out of ticks until it is resumed."""
    with opened(home) as weft:
        query = weft.pause(name)
    _changed(query, "is paused; nothing of it is lost: `weft resume` goes on where it stopped", json)


def resume(
    name: NameArgument,
    skip: Annotated[bool, typer.Option("--skip", help="Leave out the answers that appeared in between.")] = False,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Let a paused or failed query go on, and have its channels that failed tried again with the next tick."""
    with opened(home) as weft:
        query = weft.resume(name, skip=skip)
    _changed(query, f"goes on from {instant(query.tau, 'its beginning')}", json)


def remove(
    name: NameArgument,
    purge: Annotated[bool, typer.Option("--purge", help="Delete its answers, too.")] = False,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Remove a query; files that it wrote stay."""
    with opened(home) as weft:
        query = weft.remove(name, purge=purge)
    _changed(query, "is removed" + (", and its answers with it" if purge else ""), json)


def _changed(query: QueryRecord, words: str, json: bool) -> None:
    if json:
        say_json(_as_json(query))
    else:
        say(f"{query.name} {words}.")
