"""Describe the queries, saved queries, views and sources of a home as values that text files can hold.

A description has what a person decides: texts, channels, owners and intervals.  It has no state, such as answers,
instants of ticks or progress of deliveries, and no secrets.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Final, Literal, TypeAlias, TypeVar

from weft.algebra.form_parameter import FormParameter
from weft.api.portable.access import Access, DescribedGroup, DescribedUser, described_access
from weft.api.standing import Keep
from weft.catalog.records import ATTACHED, FromMode, PlanRecord, QueryRecord
from weft.catalog.saved_queries import SavedQuery
from weft.catalog.sources import SourceKind, SourceRecord, Stamps
from weft.catalog.subscriptions import Subscription
from weft.catalog.views import ViewRecord
from weft.errors import Refused, SynopsisError
from weft.execution.home import OpenHome
from weft.extraction.sources.mail import MAIL_KINDS
from weft.instants import format_interval
from weft.planning.stored_synopsis import Language, is_synopsis

Record = TypeVar("Record", QueryRecord, ViewRecord, SourceRecord, SavedQuery)
D = TypeVar("D", "DescribedQuery", "DescribedSource", "DescribedSaved")

_WEBHOOK: Final = re.compile(r"(webhook:https?://[^/]+/)([^#]+)(#.*)?")
_MASKED: Final = re.compile(r"\$\{(\w+)\}")


@dataclass(frozen=True)
class DescribedChannel:
    """A channel of a query.

    ``to`` is the name of the channel.  In the name of a webhook, a variable replaces the path, because the path often
    is a secret.
    """

    to: str
    digest: str | None = None
    zone: str | None = None
    muted: bool = False


@dataclass(frozen=True)
class DescribedQuery:
    """A standing query.  The fields have the meanings of the parameters of ``Weft.install``.

    ``every_us`` is the interval in microseconds (None: each tick).  ``saved`` is the name of the saved query that was
    filled in.
    """

    name: str
    sql: str
    user: str | None = None
    every_us: int | None = None
    start: FromMode = "start"
    paused: bool = False
    language: Language = "sql"
    keep: Keep = "history"
    allow_unbounded: bool = False
    discard_history: bool = False
    duplicates: bool = False
    saved: str | None = None
    channels: tuple[DescribedChannel, ...] = ()


@dataclass(frozen=True)
class DescribedView:
    """A temporal view."""

    name: str
    sql: str
    mode: Literal["eager", "batched"] = "eager"


@dataclass(frozen=True)
class DescribedSource:
    """The source of a tracked table.  The fields have the meanings of the parameters of ``Weft.add_source``.

    A column without a declared type has the type None.  ``slot`` and ``publication`` are None if Weft made them.
    """

    name: str
    kind: SourceKind
    at: str
    key: tuple[str, ...]
    every_us: int
    ts: Stamps | None = None
    columns: tuple[tuple[str, str | None], ...] | None = None
    rename: tuple[tuple[str, str], ...] = ()
    table: str | None = None
    slot: str | None = None
    publication: str | None = None


@dataclass(frozen=True)
class DescribedSaved:
    """A saved query.  The parameters are in the order of the text.  ``user`` is its owner."""

    name: str
    sql: str
    parameters: tuple[FormParameter, ...]
    user: str | None = None
    description: str = ""


Described: TypeAlias = (
    DescribedQuery | DescribedView | DescribedSource | DescribedSaved | DescribedUser | DescribedGroup
)


@dataclass(frozen=True)
class Definitions:
    """The queries, views, sources, saved queries, users and groups of a home or of a folder, each ordered by name."""

    queries: tuple[DescribedQuery, ...] = ()
    views: tuple[DescribedView, ...] = ()
    sources: tuple[DescribedSource, ...] = ()
    saved: tuple[DescribedSaved, ...] = ()
    access: Access = field(default_factory=Access)


def described(home: OpenHome) -> Definitions:
    """Describe all queries, views, sources, saved queries, users and groups of a home.

    Attached tables are not sources that ``Weft.add_source`` adds, so they are omitted.  Raise PlanMismatch if a
    synopsis no longer fits its tables.
    """
    catalog = home.catalog
    channels: dict[int, list[Subscription]] = {}
    for each in catalog.subscriptions.all():
        channels.setdefault(each.query_id, []).append(each)
    plans = {each.plan_id: each for each in catalog.queries.plans()}
    keys = {table.table_id: table.keys for table in catalog.tables.all()}
    saved = {each.saved_id: each.name for each in catalog.saved.all()}
    return Definitions(
        tuple(
            replace(_query(home, q, plans[q.plan_id], channels.get(q.query_id, [])), saved=saved.get(q.saved_id or 0))
            for q in _sorted(catalog.queries.all())
        ),
        tuple(_view(each) for each in _sorted(catalog.views.known())),
        tuple(_source(s, keys[s.table_id]) for s in _sorted(catalog.sources.all()) if s.kind != ATTACHED),
        tuple(
            DescribedSaved(s.name, s.sql, s.parameters, s.owner, s.description) for s in _sorted(catalog.saved.all())
        ),
        described_access(home),
    )


def _sorted(records: tuple[Record, ...]) -> list[Record]:
    return sorted(records, key=lambda each: each.name)


def _query(home: OpenHome, query: QueryRecord, plan: PlanRecord, subscriptions: list[Subscription]) -> DescribedQuery:
    channels = (DescribedChannel(masked(s.channel), s.digest, s.zone, s.muted) for s in subscriptions)
    language, discards, duplicates, unbounded = _synopsis(home, query, plan)
    return DescribedQuery(
        query.name,
        query.sql,
        query.user,
        query.every_us,
        query.from_mode,
        paused=query.state == "paused",
        language=language,
        keep="synopsis" if language == "sql" and is_synopsis(plan.body) else "history",
        allow_unbounded=unbounded,
        discard_history=discards,
        duplicates=duplicates,
        channels=tuple(sorted(channels, key=lambda each: each.to)),
    )


def _synopsis(home: OpenHome, query: QueryRecord, record: PlanRecord) -> tuple[Language, bool, bool, bool]:
    """Return the language of a query, and whether it discards history, counts duplicates, and has an unbounded
    synopsis.
    """
    if not is_synopsis(record.body):
        return "sql", False, False, False
    from weft.execution.groups import synopsis_of
    from weft.planning.synopsis_words import require_bounded

    plan = synopsis_of(record, home.schemas(query.sql))
    try:
        require_bounded(plan)
        unbounded = False
    except SynopsisError:
        unbounded = True
    return plan.language, plan.discard, plan.language == "2fol" and plan.semantics != "set", unbounded


def _view(view: ViewRecord) -> DescribedView:
    return DescribedView(view.name, view.sql.strip(), "batched" if view.mode == "batched" else "eager")


def _source(source: SourceRecord, keys: tuple[str, ...]) -> DescribedSource:
    options = source.options
    made = options.get("made", ("slot", "publication"))
    columns = options.get("columns")
    return DescribedSource(
        source.name,
        source.kind,
        source.location,
        () if source.kind in MAIL_KINDS else keys,
        source.every_us,
        source.stamps,
        None if columns is None else tuple((name, kind) for name, kind in columns),
        tuple((old, new) for old, new in options.get("rename", ())),
        options.get("table"),
        None if "slot" in made else options.get("slot"),
        None if "publication" in made else options.get("publication"),
    )


def differences(wanted: D, present: D, names: Sequence[str] = ()) -> str:
    """Describe the fields that differ, by default of all fields."""
    differing = []
    for name in names or [each.name for each in fields(present)]:
        old, new = getattr(present, name), getattr(wanted, name)
        if old != new:
            differing.append(f"{name.removesuffix('_us')} {_shown(name, old)} → {_shown(name, new)}")
    return ", ".join(differing)


def _shown(name: str, value: object) -> str:
    if isinstance(value, int) and name == "every_us":
        return format_interval(value)
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "-"
    return "-" if value in (None, "") else str(value)


def masked(channel: str) -> str:
    """Return the name of a channel without secrets.

    >>> masked("file:late.csv"), masked("webhook:https://example.com/T0/xyz#as=slack")
    ('file:late.csv', 'webhook:https://example.com/${WEBHOOK_2F19C385}#as=slack')
    """
    found = _WEBHOOK.fullmatch(channel)
    if found is None or _MASKED.search(channel):
        return channel
    digest = hashlib.sha256(channel.encode()).hexdigest()[:8].upper()
    return f"{found[1]}${{WEBHOOK_{digest}}}{found[3] or ''}"


def revealed(channel: str, known: Mapping[str, str], secrets: Mapping[str, str]) -> str:
    """Return the name of a channel with its secret, from the channels ``known`` by their masked names or from
    ``secrets``.  Raise Refused if neither has it.
    """
    found = _MASKED.search(channel)
    if found is None or not channel.startswith("webhook:"):
        return channel
    if channel in known:
        return known[channel]
    if found[1] not in secrets:
        raise Refused(
            f"the address {channel} has a variable without a value",
            hint=f'Write {found[1]} = "…" into a file outside the folder, and name the file with --secrets.',
        )
    return f"{channel[: found.start()]}{secrets[found[1]]}{channel[found.end() :]}"
