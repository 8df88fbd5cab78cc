"""subscribe, unsubscribe, mute, unmute, deliveries, redeliver, channel test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from weft.cli import terminal
from weft.cli.frame import HomeOption, JsonOption, example, opened
from weft.cli.printing import instant, iso, plain, say, say_json, table, working
from weft.cli.queries import (
    CHANNELS,
    DigestOption,
    FormOption,
    NameArgument,
    ZoneOption,
    digest_words,
    formed,
    subscription_json,
)
from weft.printable import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from weft.api.delivering import Deliveries
    from weft.catalog.outbox import OutboxEntry
    from weft.catalog.subscriptions import Subscription

_ONE: Final = "The channel, as `weft deliveries` shows it"
ToOption = Annotated[str, typer.Option("--to", metavar="CHANNEL", help=f"Where they go: {CHANNELS}.")]
OneOption = Annotated[str | None, typer.Option("--to", metavar="CHANNEL", help=f"{_ONE} (default: all of the query).")]


def add_to(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command(epilog=example("weft subscribe unanswered --to email:bo@example.com"))(subscribe)
    app.command(epilog=example("weft unsubscribe unanswered --to email:bo@example.com"))(unsubscribe)
    app.command(epilog=example("weft mute unanswered --to email:bo@example.com"))(mute)
    app.command(epilog=example("weft unmute unanswered", "weft unmute unanswered --skip"))(unmute)
    app.command(epilog=example("weft deliveries", "weft deliveries unanswered --json"))(deliveries)
    app.command(epilog=example("weft redeliver unanswered --to file:unanswered.jsonl --from 100"))(redeliver)
    channel = typer.Typer(
        no_args_is_help=True, help="Try a channel.", epilog=example("weft channel test email:ann@example.com")
    )
    channel.command(epilog=example("weft channel test email:ann@example.com"))(test)
    app.add_typer(channel, name="channel")


def subscribe(
    name: NameArgument,
    to: ToOption,
    from_start: Annotated[
        bool, typer.Option("--from-start", help="Send the answers that it has had so far, too (default: from now).")
    ] = False,
    digest: DigestOption = None,
    zone: ZoneOption = None,
    form: FormOption = None,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Have a query's answers go to one more person, program or file."""
    with opened(home) as weft:
        found = weft.subscribe(name, formed([to], form)[0], from_start=from_start, digest=digest, zone=zone)
    begin = "from the first one on" if from_start else f"from those after the {found.delivered:,} that it has had"
    _tell_changed(name, [found], f"go there {begin}{digest_words(found)}", json)


def unsubscribe(
    name: NameArgument,
    to: Annotated[str, typer.Option("--to", metavar="CHANNEL", help=f"{_ONE}.")],
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Send a query's answers there no more; the query stands, and goes on for the others."""
    with opened(home) as weft:
        found = weft.unsubscribe(name, to)
    _tell_changed(name, [found], "go there no more", json)


def mute(name: NameArgument, to: OneOption = None, home: HomeOption = None, json: JsonOption = False) -> None:
    """Send nothing for a while; the query goes on, and what comes meanwhile waits for `weft unmute`."""
    with opened(home) as weft:
        found = weft.mute(name, to)
    _tell_changed(name, found, "wait there until `weft unmute`", json)


def unmute(
    name: NameArgument,
    to: OneOption = None,
    skip: Annotated[bool, typer.Option("--skip", help="Leave out the answers that came meanwhile.")] = False,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Send again, what came meanwhile first."""
    with opened(home) as weft:
        found = weft.unmute(name, to, skip=skip)
    words = "go there again, those that came meanwhile left out" if skip else "go there again, what waited first"
    _tell_changed(name, found, words, json)


def _tell_changed(name: str, found: Sequence[Subscription], words: str, json: bool) -> None:
    if json:
        say_json([subscription_json(each) for each in found])
        return
    for each in found:
        say(f"{each.channel}: answers of {name} {words}.")


def deliveries(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The query (default: all).")] = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="The latest N messages, besides (next).")] = 20,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Show what went where: each message with its answers, what became of it, and what the place said to it."""
    with opened(home) as weft:
        found = weft.deliveries(name, limit=limit)
    if json:
        say_json([_as_json(each) for each in found])
    elif not found:
        say("No query goes to a channel. `weft subscribe NAME --to CHANNEL` sends its answers.")
    else:
        rows = [row for each in found for row in (*_waiting(each), *(_message(each, m) for m in each.messages))]
        if rows:
            columns = ("query", "channel", "message", "rows", "state", "attempts", "when", "said")
            table(columns, rows, right=(3, 5))
            _tell_ids(found)
        for each in found:
            if not each.waiting and not each.messages:
                what = (
                    f"none of the latest {counted(limit, 'message')} is its own; --limit shows more, and nothing waits."
                    if each.has_messages
                    else "nothing was sent yet, and nothing waits."
                )
                say(f"{each.subscription.channel} of {each.query.name}: {what}")


def _tell_ids(found: Sequence[Deliveries]) -> None:
    """What the ids of messages mean, by the first one that is shown; nothing where none is."""
    shown = next(((each, m) for each in found for m in each.messages), None)
    if shown is not None:
        each, m = shown
        say(
            f"An id is channel-first-last: {m.idempotency_key} has the answers from {m.first_ordinal:,} to "
            f"{m.last_ordinal:,} of `weft results {each.query.name}`."
        )
        again = f"weft redeliver {each.query.name} --from {m.first_ordinal} --to CHANNEL"
        say(f"`{again}` sends these and all later ones again.")


def _as_json(each: Deliveries) -> dict[str, Any]:
    return {
        "query": each.query.name,
        **subscription_json(each.subscription),
        "waiting": each.waiting,
        "messages": [
            {
                "id": m.idempotency_key,
                "first": m.first_ordinal,
                "last": m.last_ordinal,
                "rows": m.rows,
                "state": m.state,
                "attempts": m.attempts,
                "sent_at": iso(m.sent_at),
                "reply": m.reply,
                "error": m.last_error,
            }
            for m in each.messages
        ],
    }


def _waiting(each: Deliveries) -> Iterator[tuple[str, ...]]:
    """A line for the answers that have not gone yet, with what they wait for."""
    found = each.subscription
    if not each.waiting:
        return
    state = "parked" if found.state == "parked" else "muted" if found.muted else "waiting"
    dues = [due for due in (found.next_attempt_at, found.digest_at) if due is not None and found.is_served]
    when = f"next {instant(max(dues))}" if dues else "-"
    failures = str(found.attempts or "-")
    said = plain(found.last_error or "")
    yield each.query.name, found.channel, "(next)", f"{each.waiting:,}", state, failures, when, said


def _message(each: Deliveries, m: OutboxEntry) -> tuple[str, ...]:
    said = plain(m.last_error or m.reply or "")
    begun = (each.query.name, each.subscription.channel, m.idempotency_key, f"{m.rows:,}", m.state, str(m.attempts))
    return *begun, instant(m.sent_at), said


def redeliver(
    name: NameArgument,
    to: OneOption = None,
    start: Annotated[
        int, typer.Option("--from", min=1, metavar="ORDINAL", help="From this answer on (default: from the first).")
    ] = 1,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Send answers again that went before, or that were to; the messages are new ones, with new ids."""
    with opened(home) as weft:
        found = weft.redeliver(name, to, from_ordinal=start)
    if json:
        say_json([{"query": each.query.name, **subscription_json(each.subscription)} for each in found])
        return
    for each in found:
        some = counted(each.waiting, "answer")
        say(f"{each.subscription.channel}: {some} of {name}, from {start:,} on, will be sent again.")
    say("They go with the next `weft tick`, or under `weft run`; to a channel with a digest when that is due.")


def test(
    to: Annotated[str, typer.Argument(metavar="CHANNEL", help=f"{CHANNELS}.")],
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Send a test message to a channel: whether it can be reached, and what it says."""
    with opened(home) as weft, working(f"sending a test message to {to}"):
        channel, told = weft.test_channel(to, terminal.user() or "weft")
    if json:
        say_json({"channel": channel, "said": told})
    else:
        say(f"{channel}: {plain(told)}")
