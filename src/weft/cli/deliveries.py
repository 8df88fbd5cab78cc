"""The commands for subscriptions and deliveries: subscribe, mute, redeliver, channel test and others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from weft.api.json.deliveries import deliveries_json, redelivery_json, subscription_json
from weft.cli import terminal
from weft.cli.frame import HomeOption, JsonOption, example, opened
from weft.cli.printing import echo, moment, plain, print_json, print_result, table, working
from weft.cli.queries import (
    CHANNELS,
    DigestOption,
    FormOption,
    NameArgument,
    ZoneOption,
    digest_words,
    with_form,
)
from weft.printable import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from weft.api.delivering import Deliveries
    from weft.catalog.outbox import OutboxEntry
    from weft.catalog.subscriptions import Subscription

_ONE: Final = "The channel, as shown by `weft deliveries`"
ToOption = Annotated[str, typer.Option("--to", metavar="CHANNEL", help=f"The channel: {CHANNELS}.")]
OneOption = Annotated[
    str | None, typer.Option("--to", metavar="CHANNEL", help=f"{_ONE} (default: all channels of the query).")
]


def add_to(app: typer.Typer) -> None:
    """Register the commands with ``app``."""
    app.command(epilog=example("weft subscribe unanswered --to email:bo@example.com"))(subscribe)
    app.command(epilog=example("weft unsubscribe unanswered --to email:bo@example.com"))(unsubscribe)
    app.command(epilog=example("weft mute unanswered --to email:bo@example.com"))(mute)
    app.command(epilog=example("weft unmute unanswered", "weft unmute unanswered --skip"))(unmute)
    app.command(epilog=example("weft deliveries", "weft deliveries unanswered --json"))(deliveries)
    app.command(epilog=example("weft redeliver unanswered --to file:unanswered.jsonl --from 100"))(redeliver)
    channel = typer.Typer(
        no_args_is_help=True, help="Test channels.", epilog=example("weft channel test email:ann@example.com")
    )
    channel.command(epilog=example("weft channel test email:ann@example.com"))(test)
    app.add_typer(channel, name="channel")


def subscribe(
    name: NameArgument,
    to: ToOption,
    from_start: Annotated[
        bool, typer.Option("--from-start", help="Also send the answers so far (default: only later answers).")
    ] = False,
    digest: DigestOption = None,
    zone: ZoneOption = None,
    form: FormOption = None,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Send a query's answers to one more person, program, file or table."""
    with opened(home) as weft:
        added = weft.subscribe(name, with_form([to], form)[0], from_start=from_start, digest=digest, zone=zone)
    begin = "from the first one on" if from_start else f"after the first {added.delivered:,}"
    _print_subscriptions([added], f"answers of {name} {begin} will be sent there{digest_words(added)}", json)


def unsubscribe(
    name: NameArgument,
    to: Annotated[str, typer.Option("--to", metavar="CHANNEL", help=f"{_ONE}.")],
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Stop sending a query's answers to a channel; the query and its other channels continue."""
    with opened(home) as weft:
        ended = weft.unsubscribe(name, to)
    _print_subscriptions([ended], f"answers of {name} are no longer sent there", json)


def mute(name: NameArgument, to: OneOption = None, home: HomeOption = None, json: JsonOption = False) -> None:
    """Pause the channels of a query; the query continues, and its answers wait for `weft unmute`."""
    with opened(home) as weft:
        muted = weft.mute(name, to)
    _print_subscriptions(muted, f"answers of {name} wait until `weft unmute`", json)


def unmute(
    name: NameArgument,
    to: OneOption = None,
    skip: Annotated[bool, typer.Option("--skip", help="Do not send the answers that waited.")] = False,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Resume muted channels of a query, and send the answers that waited."""
    with opened(home) as weft:
        unmuted = weft.unmute(name, to, skip=skip)
    rest = "without those that waited" if skip else "first those that waited"
    _print_subscriptions(unmuted, f"answers of {name} are sent there again, {rest}", json)


def _print_subscriptions(subscriptions: Sequence[Subscription], words: str, json: bool) -> None:
    if json:
        print_json([subscription_json(each) for each in subscriptions])
        return
    for each in subscriptions:
        echo(f"{each.channel}: {words}.")


def deliveries(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The query (default: all).")] = None,
    limit: Annotated[
        int, typer.Option(min=1, metavar="N", help="Show the latest N messages and the waiting answers (next).")
    ] = 20,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Show the messages of each channel: their answers, their state, and the receiver's reply."""
    with opened(home) as weft:
        subscribed = weft.deliveries(name, limit=limit)
    if json:
        print_json([deliveries_json(each) for each in subscribed])
    elif not subscribed:
        echo("No query has a channel. Add a channel: weft subscribe NAME --to CHANNEL")
    else:
        rows = [row for each in subscribed for row in (*_waiting(each), *(_message(each, m) for m in each.messages))]
        if rows:
            columns = ("query", "channel", "message", "rows", "state", "attempts", "when", "reply or error")
            table(columns, rows, right=(3, 5))
            _print_ids(subscribed)
        for each in subscribed:
            if not each.waiting and not each.messages:
                status = (
                    (
                        f"no answers wait, and none of the latest {counted(limit, 'message')} went to this "
                        "channel (see --limit)."
                    )
                    if each.has_messages
                    else "no answers were sent, and none wait."
                )
                echo(f"{each.subscription.channel} of {each.query.name}: {status}")


def _print_ids(subscribed: Sequence[Deliveries]) -> None:
    shown = next(((each, m) for each in subscribed for m in each.messages), None)
    if shown is not None:
        each, m = shown
        echo(
            f"The message id is channel-first-last: {m.idempotency_key} has the answers {m.first_ordinal:,} to "
            f"{m.last_ordinal:,} of `weft results {each.query.name}`."
        )
        again = f"weft redeliver {each.query.name} --from {m.first_ordinal} --to CHANNEL"
        echo(f"To send these and all later answers again: {again}")


def _waiting(each: Deliveries) -> Iterator[tuple[str, ...]]:
    subscription = each.subscription
    if not each.waiting:
        return
    state = "parked" if subscription.state == "parked" else "muted" if subscription.muted else "waiting"
    dues = [
        due
        for due in (subscription.next_attempt_at, subscription.digest_at)
        if due is not None and subscription.is_served
    ]
    when = f"next {moment(max(dues))}" if dues else "-"
    failures = str(subscription.attempts or "-")
    error = plain(subscription.last_error or "")
    yield each.query.name, subscription.channel, "(next)", f"{each.waiting:,}", state, failures, when, error


def _message(each: Deliveries, m: OutboxEntry) -> tuple[str, ...]:
    reply = plain(m.last_error or m.reply or "")
    message = (each.query.name, each.subscription.channel, m.idempotency_key, f"{m.rows:,}", m.state, str(m.attempts))
    return *message, moment(m.sent_at), reply


def redeliver(
    name: NameArgument,
    to: OneOption = None,
    start: Annotated[
        int, typer.Option("--from", min=1, metavar="ORDINAL", help="The first answer to send (default: 1).")
    ] = 1,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Send answers again, in new messages with new ids."""
    with opened(home) as weft:
        restarted = weft.redeliver(name, to, from_ordinal=start)
    if json:
        print_json([redelivery_json(each) for each in restarted])
        return
    for each in restarted:
        some = counted(each.waiting, "answer")
        echo(f"{each.subscription.channel}: {some} of {name}, from {start:,} on, will be sent again.")
    echo("The next `weft tick` or `weft run` sends them; a digest sends them when it is due.")


def test(
    to: Annotated[str, typer.Argument(metavar="CHANNEL", help=f"{CHANNELS}.")],
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Send a test message to a channel, and show the reply."""
    with opened(home) as weft, working(f"sending a test message to {to}"):
        channel, outcome = weft.test_channel(to, terminal.user() or "weft")
    print_result(json, {"channel": channel, "said": outcome}, f"{channel}: {plain(outcome)}")
