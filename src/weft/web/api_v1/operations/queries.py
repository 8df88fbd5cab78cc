"""Standing queries and their answers."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from weft.api.json.answers import answer_json, found_json, news_json, why_json
from weft.api.json.deliveries import deliveries_json, message_json, redelivery_json, subscription_json
from weft.api.json.explanations import forecast_json
from weft.api.json.queries import query_json, replacement_json, shown_json
from weft.api.json.values import iso
from weft.api.weft import Weft
from weft.catalog.query_list import QueryFilter
from weft.errors import NotFound
from weft.web.api_v1.operation import (
    AfterName,
    Dialect,
    Fields,
    Id,
    Interval,
    Limit,
    Name,
    Operation,
    QueryName,
    Sql,
    listed,
)

Channel = Annotated[
    str, Field(min_length=1, max_length=2_000, description="A channel, such as `email:bo@example.com`.")
]
Channels = Annotated[list[Channel], Field(max_length=100, description="Channels.")]
Digest = Annotated[str, Field(max_length=60, description="`hourly`, `daily@08:00` or `weekly@mon-08:00`.")]
Zone = Annotated[str, Field(max_length=60, description="The time zone of the digest.")]
Start = Annotated[
    Literal["start", "now"],
    Field(description="`start`: deliver the answers of the history first; `now`: only new ones."),
]
Keep = Annotated[
    Literal["history", "synopsis"], Field(description="`synopsis`: answer from a synopsis that ticks maintain.")
]
Language = Annotated[
    Literal["sql", "monpoly", "mutl", "mutl-minmax", "2fol"], Field(description="The language of the text.")
]
Ordinal = Annotated[int, Field(ge=1, le=2**62, description="The ordinal of an answer.")]
After = Annotated[int, Field(ge=0, le=2**62, description="Only items after this one, from `next` of the page before.")]


def id_in(name: str) -> int | None:
    """Return the id in a text such as ``id:7``.  Return None for a name: names have no colon."""
    kind, _, number = name.partition(":")
    return int(number) if kind == "id" and number.isascii() and number.isdigit() and len(number) < 19 else None


def named(weft: Weft, query: str) -> str:
    """Return the name of a query that is given by its name or by ``id:`` and its id.  Raise NotFound."""
    query_id = id_in(query)
    return query if query_id is None else weft.query(query_id).name


def list_queries(
    weft: Weft,
    text: Annotated[str | None, Field(max_length=1_000, description="A part of the name, text or owner.")] = None,
    state: Annotated[Literal["active", "paused", "failed"] | None, Field(description="The state.")] = None,
    troubled: Annotated[bool, Field(description="Only queries that failed or have a failing channel.")] = False,
    after: AfterName | None = None,
    limit: Limit = 100,
) -> Fields:
    """List the standing queries in the order of their names."""
    found = weft.query_page(QueryFilter(text, state, None, troubled), after=after, limit=limit + 1)
    items = [{**query_json(each.query), "channels": each.channels, "trouble": each.trouble} for each in found]
    return listed(items, limit, lambda last: found[last].query.name)


def install_query(
    weft: Weft,
    name: Name,
    sql: Sql,
    user: Name | None = None,
    every: Interval | None = None,
    start: Start | None = None,
    to: Channels = [],  # noqa: B006 - a default that nobody changes
    digest: Digest | None = None,
    zone: Zone | None = None,
    keep: Keep = "history",
    language: Language = "sql",
    allow_unbounded: bool = False,
    discard_history: bool = False,
    duplicates: bool = False,
    dialect: Dialect = None,
) -> Fields:
    """Install a standing query.

    Each of its answers is delivered once, when data or time makes it true.
    """
    query = weft.install(
        name,
        sql,
        user=user,
        every=every,
        start=start,
        to=to,
        digest=digest,
        zone=zone,
        keep=keep,
        language=language,
        allow_unbounded=allow_unbounded,
        discard_history=discard_history,
        duplicates=duplicates,
        dialect=dialect,
    )
    return query_json(query)


def show_query(weft: Weft, query: QueryName) -> Fields:
    """Show one query with its plan, its channels and its last ticks."""
    return shown_json(weft.show(named(weft, query)))


def replace_query(
    weft: Weft,
    query: QueryName,
    sql: Sql,
    every: Interval | None = None,
    start: Start | None = None,
    language: Language = "sql",
) -> Fields:
    """Replace the text of a query.

    Its answers and channels stay.  Only answers that were not delivered so far are delivered.
    """
    return query_json(weft.install(named(weft, query), sql, every=every, start=start, language=language, replace=True))


def preview_replacement(weft: Weft, query: QueryName, sql: Sql, start: Start | None = None) -> Fields:
    """Count the answers that a replacement of the text would deliver, and change nothing."""
    return replacement_json(weft.replacement(named(weft, query), sql, start=start))


def pause_query(weft: Weft, query: QueryName) -> Fields:
    """Exclude a query from ticks until it is resumed."""
    return query_json(weft.pause(named(weft, query)))


def resume_query(
    weft: Weft,
    query: QueryName,
    skip: Annotated[bool, Field(description="Omit the answers that appeared in between.")] = False,
) -> Fields:
    """Resume a paused or failed query, and retry its failed channels."""
    return query_json(weft.resume(named(weft, query), skip=skip))


def remove_query(
    weft: Weft,
    query: QueryName,
    purge: Annotated[bool, Field(description="Also delete the answers.")] = False,
    now: Annotated[bool, Field(description="With `purge`: delete their files at once.")] = False,
) -> Fields:
    """Remove a query."""
    return query_json(weft.remove(named(weft, query), purge=purge, now=now))


def forecast_query(weft: Weft, query: QueryName) -> Fields:
    """Show what the next tick of a query would read."""
    return forecast_json(weft.explain_tick(named(weft, query)))


def list_answers(weft: Weft, query: QueryName, after: After = 0, limit: Limit = 100) -> Fields:
    """List the answers of a query in the order of their ordinals."""
    answers = weft.results(named(weft, query), after=after, limit=limit + 1)
    rows = list(answers)
    return listed([answer_json(row, answers.columns) for row in rows], limit, lambda last: rows[last].ordinal)


def show_answer(weft: Weft, query: QueryName, ordinal: Ordinal) -> Fields:
    """Show one answer of a query."""
    answers = weft.results(named(weft, query), after=ordinal - 1, limit=1)
    for row in answers:
        return answer_json(row, answers.columns)
    raise NotFound(f"{answers.query.name} has no answer {ordinal}")


def list_deliveries(
    weft: Weft,
    query: Annotated[QueryName | None, Field(description="The query (default: all).")] = None,
    after: After = 0,
    limit: Limit = 20,
) -> Fields:
    """List the channels of queries, with those of the latest messages that went to them."""
    name = None if query is None else named(weft, query)
    found = weft.deliveries(name, limit=limit, after=after, channels=limit + 1)
    items = [deliveries_json(each) for each in found]
    return listed(items, limit, lambda last: found[last].subscription.sub_id)


def why_answer(weft: Weft, query: QueryName, ordinal: Ordinal) -> Fields:
    """Explain why an answer appeared: what happened at its first instant, and the rows that made it true.

    Each of `causes` is sufficient by itself.  If you may not read a table of the query, `hides` is true: the `row` of
    each witness from this table is null, and so are the rows of aggregates, and `absent` is empty.
    """
    return why_json(weft.why(named(weft, query), ordinal))


def search_answers(
    weft: Weft,
    text: Annotated[str, Field(min_length=1, max_length=1_000, description="Words, each of which must occur.")],
    query: QueryName | None = None,
    after: Annotated[Id | None, Field(description="Only older answers, from `next` of the page before.")] = None,
    limit: Limit = 50,
) -> Fields:
    """Search the answers by words, the newest first."""
    query_id = None if query is None else weft.show(named(weft, query), ticks=0).query.query_id
    found = weft.search(text, query_id=query_id, before=after, limit=limit)
    return {"items": [found_json(each) for each in found.answers], "next": found.more, "complete": found.complete}


def list_news(
    weft: Weft,
    after: Annotated[Id | None, Field(description="Only later queries, from `next` of the page before.")] = None,
    limit: Limit = 10,
) -> Fields:
    """List the queries as in the inbox, those with the newest answers first, each with its last three answers.

    `unread` is the number of answers that the user has not read, or null without an account.
    """
    found = weft.news_page(before=None if after is None else weft.query(after), limit=limit + 1)
    ids = [query.query_id for query in found[:limit]]
    latest = weft.latest_answers(ids)
    unread = weft.accounts.unread(ids)
    items = [
        news_json(query, latest.get(query.query_id, ()), unread if unread is None else unread.get(query.query_id, 0))
        for query in found
    ]
    return listed(items, limit, lambda last: found[last].query_id)


def list_synopses(weft: Weft, after: AfterName | None = None, limit: Limit = 100) -> Fields:
    """List the queries that are maintained as synopses."""
    found = weft.query_page(QueryFilter(synopsis=True), after=after, limit=limit + 1)
    return listed([query_json(each.query) for each in found], limit, lambda last: found[last].query.name)


def show_synopsis(weft: Weft, query: QueryName) -> Fields:
    """Show the number of rows that a synopsis stored at each of its last ticks."""
    sizes = weft.synopsis_sizes(named(weft, query))
    return {name: [{"t": iso(at), "rows": rows} for at, rows in pairs] for name, pairs in sizes.items()}


def list_messages(
    weft: Weft,
    query: QueryName | None = None,
    unsent: Annotated[bool, Field(description="Only messages whose delivery is not settled.")] = False,
    after: Annotated[Id | None, Field(description="Only older messages, from `next` of the page before.")] = None,
    limit: Limit = 50,
) -> Fields:
    """List the messages to channels, the newest first."""
    query_id = None if query is None else weft.show(named(weft, query), ticks=0).query.query_id
    found = weft.message_page(query_id, before=after, unsent=unsent, limit=limit + 1)
    return listed([message_json(each) for each in found], limit, lambda last: found[last].message.entry_id)


def subscribe_channel(
    weft: Weft,
    query: QueryName,
    to: Channel,
    from_start: Annotated[bool, Field(description="Also send the answers so far.")] = False,
    digest: Digest | None = None,
    zone: Zone | None = None,
) -> Fields:
    """Send the answers of a query to one more channel."""
    return subscription_json(weft.subscribe(named(weft, query), to, from_start=from_start, digest=digest, zone=zone))


def unsubscribe_channel(weft: Weft, query: QueryName, to: Channel) -> Fields:
    """Stop sending the answers of a query to a channel."""
    return subscription_json(weft.unsubscribe(named(weft, query), to))


def mute_channel(weft: Weft, query: QueryName, to: Channel | None = None) -> list[Fields]:
    """Pause a channel of a query, by default all."""
    return [subscription_json(each) for each in weft.mute(named(weft, query), to)]


def unmute_channel(
    weft: Weft,
    query: QueryName,
    to: Channel | None = None,
    skip: Annotated[bool, Field(description="Omit the answers that waited.")] = False,
) -> list[Fields]:
    """Resume a muted channel of a query, by default all."""
    return [subscription_json(each) for each in weft.unmute(named(weft, query), to, skip=skip)]


def redeliver_answers(
    weft: Weft, query: QueryName, to: Channel | None = None, from_ordinal: Ordinal = 1
) -> list[Fields]:
    """Send answers again, in new messages with new ids."""
    return [redelivery_json(each) for each in weft.redeliver(named(weft, query), to, from_ordinal=from_ordinal)]


def send_test(weft: Weft, to: Channel) -> Fields:
    """Send a test message to a channel, and return the reply."""
    channel, said = weft.test_channel(to)
    return {"channel": channel, "said": said}


_ONE: Final = "/queries/{query}"

OPERATIONS: Final = (
    Operation("GET", "/queries", list_queries, "queries"),
    Operation("POST", "/queries", install_query, "queries", "install", 201),
    Operation("GET", _ONE, show_query, "queries"),
    Operation("PUT", _ONE, replace_query, "queries", "own"),
    Operation("DELETE", _ONE, remove_query, "queries", "own", brief=True),
    Operation("POST", f"{_ONE}/preview", preview_replacement, "queries", "own"),
    Operation("POST", f"{_ONE}/pause", pause_query, "queries", "own", brief=True),
    Operation("POST", f"{_ONE}/resume", resume_query, "queries", "own", brief=True),
    Operation("GET", f"{_ONE}/forecast", forecast_query, "queries", "own"),
    Operation("GET", f"{_ONE}/answers", list_answers, "answers"),
    Operation("GET", f"{_ONE}/answers/{{ordinal}}", show_answer, "answers"),
    Operation("GET", f"{_ONE}/answers/{{ordinal}}/why", why_answer, "answers", slow=True),
    Operation("GET", "/search", search_answers, "answers"),
    Operation("GET", "/inbox", list_news, "answers"),
    Operation("GET", "/synopses", list_synopses, "synopses"),
    Operation("GET", "/synopses/{query}", show_synopsis, "synopses"),
    Operation("GET", "/messages", list_messages, "deliveries", "own"),
    Operation("GET", "/deliveries", list_deliveries, "deliveries", "own"),
    Operation("POST", f"{_ONE}/channels", subscribe_channel, "deliveries", "own", 201, brief=True),
    Operation("DELETE", f"{_ONE}/channels", unsubscribe_channel, "deliveries", "own", brief=True),
    Operation("POST", f"{_ONE}/mute", mute_channel, "deliveries", "own", brief=True),
    Operation("POST", f"{_ONE}/unmute", unmute_channel, "deliveries", "own", brief=True),
    Operation("POST", f"{_ONE}/redeliver", redeliver_answers, "deliveries", "own", brief=True),
    Operation("POST", "/channels/test", send_test, "deliveries", "channel"),
)
