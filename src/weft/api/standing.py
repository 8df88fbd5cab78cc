"""Queries left standing, and what may happen to them: install, show, pause, resume, remove."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Final, Literal, TypeVar

from weft.algebra.schema import TableSchema
from weft.api.arguments import digest_times, own_user, texts
from weft.api.explaining import synopsis_plan
from weft.catalog.records import FromMode, PlanRecord, QueryDefinition, QueryRecord, TickQuery
from weft.catalog.replaced_texts import ReplacedText
from weft.catalog.subscriptions import Subscription
from weft.configuration import configuration
from weft.errors import Conflict, QueryFault, Refused, SynopsisError, WeftError
from weft.execution.home import OpenHome, finish_purges
from weft.faults import query_faults
from weft.instants import parse_interval
from weft.planning.plan import columns_of, standing_plan
from weft.planning.synopsis_plan import Language, SynopsisPlan, asks_history, is_synopsis
from weft.planning.synopsis_words import Relation, require_bounded
from weft.printable import Brief
from weft.storage.ledger import Answers

Made = TypeVar("Made")

Keep = Literal["history", "synopsis"]
"""What a query's answers are found from: its tables' history, or the least of it that it will ever need."""
_AT_ONCE: Final = 1_000
"""Queries that are installed in one transaction, while nobody else writes."""


@dataclass(frozen=True, repr=False)
class Shown(Brief):
    """A query with its plan (and how many queries share it), where its answers go, what its last ticks did.

    ``reads`` and ``read_by`` are the names of the queries whose results it reads, and of those that read its.
    ``stored`` are the relations that are stored of one that is kept as a synopsis, each with its number of rows;
    ``replaced`` are the texts that it had before, the first one first.
    """

    query: QueryRecord
    plan: PlanRecord
    sharing: int
    subscriptions: tuple[Subscription, ...]
    ticks: tuple[TickQuery, ...]
    reads: tuple[str, ...]
    read_by: tuple[str, ...]
    stored: tuple[tuple[Relation, int], ...] = ()
    replaced: tuple[ReplacedText, ...] = ()

    @property
    def asks_history(self) -> bool:
        """Whether it is a formula that is asked of the kept history at each tick."""
        return is_synopsis(self.plan.body) and asks_history(self.plan.body)

    def _brief(self) -> str:
        where = ", ".join(each.channel for each in self.subscriptions)
        return self.query._brief() + (f"; to {where}" if where else "")


@dataclass(frozen=True)
class NewQuery:
    """A query that is to be installed; what the fields may be is told by ``Weft.install``.

    What is None, and ``to`` where it is empty, is as the home's settings have it for new queries.  ``to`` is one
    channel or several.
    """

    name: str
    sql: str
    user: str | None = None
    every: str | int | None = None
    start: FromMode | None = None
    to: str | tuple[str, ...] = ()
    keep: Keep = "history"
    language: Language = "sql"
    allow_unbounded: bool = False
    discard_history: bool = False
    duplicates: bool = False
    digest: str | None = None
    zone: str | None = None

    @property
    def is_synopsis(self) -> bool:
        """Whether it is kept as one, as a formula always is."""
        return self.keep == "synopsis" or self.language != "sql"


def install(home: OpenHome, query: NewQuery) -> QueryRecord:
    """See ``Weft.install``."""
    query = _canonical(home, query)
    with home.writing(f"install {query.name}") as writer:
        if query.is_synopsis:
            from weft.execution.synopsis.unneeded import drop_unneeded

            drop_unneeded(writer)  # what was left of one that was removed
        return writer.queries.install(_taken(home, query, home.schemas(query.sql)), home.clock())


def install_all(home: OpenHome, queries: Iterable[NewQuery]) -> tuple[QueryRecord, ...]:
    """See ``Weft.install_all``."""
    left, installed = iter(queries), list[QueryRecord]()
    while some := [_named(each, partial(_canonical, home, each)) for each in islice(left, _AT_ONCE)]:
        with home.writing("install queries") as writer:
            schemas = home.schemas(*(each.sql for each in some))
            found = [_named(each, partial(_taken, home, each, schemas)) for each in some]
            installed += writer.queries.install_all(found, home.clock())
    return tuple(installed)


def _named(query: NewQuery, made: Callable[[], Made]) -> Made:
    """What ``made`` gives; its error says which of many queries it is about."""
    try:
        return made()
    except WeftError as error:
        error.where = f"the query {query.name}" + (f", {error.where}" if error.where else "")
        raise


def _canonical(home: OpenHome, query: NewQuery) -> NewQuery:
    """The query with its timeliness in microseconds, and its channels as they are kept, what it leaves open being as
    the settings have it; raises Refused."""
    from weft.delivery.registry import canonical, default_channels

    chosen = configuration(home.folder)
    every = chosen.install_every if query.every is None else query.every
    every = parse_interval(every) if isinstance(every, str) else every
    start = query.start or ("start" if query.is_synopsis else chosen.install_from)
    named = [canonical(channel, home.folder) for channel in texts(query.to)]
    channels = named or default_channels(home.folder)
    to = tuple(dict.fromkeys(channel for channel in channels if channel != "cursor"))
    digest, zone = digest_times(query.digest, query.zone)
    if digest is not None and not to:
        raise Refused("a digest goes to a channel", hint="Name one with --to, or leave --digest out.")
    user = query.user or chosen.install_user
    return replace(query, user=user, every=every, start=start, to=to, digest=digest, zone=zone)


def _taken(home: OpenHome, query: NewQuery, schemas: Mapping[str, TableSchema]) -> QueryDefinition:
    """As ``defined``; raises Refused, too, where one of its channels cannot take its answers."""
    from weft.delivery.registry import require_taken

    found = defined(home, query, schemas)
    require_taken(found.channels, home.folder, Answers(home.catalog.home().home_id, None, found.name, found.columns))
    return found


def defined(home: OpenHome, query: NewQuery, schemas: Mapping[str, TableSchema]) -> QueryDefinition:
    """What the catalog keeps of a query in its canonical form; raises SqlError, SynopsisError."""
    definition = partial(
        QueryDefinition,
        name=query.name,
        user=query.user or own_user(),
        sql=query.sql.strip(),
        every_us=None if query.every is None else int(query.every),
        channels=texts(query.to),
        digest=query.digest,
        zone=query.zone,
    )
    if query.is_synopsis:
        kept = _synopsis(home, query, schemas)
        return definition(signature=kept.signature, plan_body=kept.body, parameters=(), columns=kept.columns)
    if query.duplicates:
        raise Refused("--duplicates is for formulas of 2fol", hint="Leave it out: the answers of SQL are a set.")
    if query.discard_history:
        raise Refused("--discard-history is for queries that are kept as synopses", hint="Add --keep synopsis.")
    from weft.execution.synopsis.discarding import refuse_discarded
    from weft.planning.form import stored_form

    # Refusals name places in the text as it was given.
    compiled = standing_plan(query.sql, schemas, from_now=query.start == "now")
    form = stored_form(compiled)
    refuse_discarded(home.catalog, compiled.tables)
    return definition(
        signature=form.signature,
        plan_body=form.body,
        parameters=form.parameters,
        names=form.names,
        columns=columns_of(compiled.query),
        from_instant=home.open_instant() if query.start == "now" else None,
        reads=compiled.reads,
        definitions=tuple(view.id for view in compiled.definitions),
    )


def _synopsis(home: OpenHome, query: NewQuery, schemas: Mapping[str, TableSchema]) -> SynopsisPlan:
    from weft.execution.synopsis.discarding import require_discardable, require_whole_history

    if query.start == "now":
        raise SynopsisError(
            "a synopsis begins with the history that is there: what was an answer before cannot be left out",
            hint="Leave --from now out; or, for SQL, leave --keep synopsis out, and the tables' history is asked.",
        )
    keep = query.keep == "synopsis"
    found = synopsis_plan(query.sql, schemas, query.language, duplicates=query.duplicates, keep=keep)
    if not query.allow_unbounded:
        require_bounded(found)
    require_whole_history(home.catalog, found)
    if query.discard_history:
        found = replace(found, discard=True)
        require_discardable(home.catalog, found)
    return found


def show(home: OpenHome, name: str, ticks: int) -> Shown:
    """See ``Weft.show``."""
    catalog = home.catalog
    query = catalog.queries.named(name)
    return Shown(
        query,
        catalog.queries.plan(query.plan_id),
        catalog.queries.count(query.plan_id),
        catalog.subscriptions.all(query.query_id),
        catalog.ticks.of_query(query.query_id, ticks),
        tuple(lower.name for lower in catalog.queries.by_ids(query.reads)),
        tuple(reader.name for reader in catalog.queries.readers(query.query_id)),
        _stored(home, query),
        catalog.replacements.of_query(query.query_id),
    )


def _stored(home: OpenHome, query: QueryRecord) -> tuple[tuple[Relation, int], ...]:
    """What is stored of a synopsis; nothing of one that fits its tables no more."""
    record = home.catalog.queries.plan(query.plan_id)
    if not is_synopsis(record.body):
        return ()
    from weft.execution.groups import synopsis_of
    from weft.execution.synopsis.standing import rows_stored
    from weft.planning.synopsis_words import explain_synopsis

    try:
        with query_faults():
            plan = synopsis_of(record, home.schemas())
    except QueryFault:
        return ()
    rows = rows_stored(home.catalog.data, plan, query.tau)
    return tuple((each, rows[each.name]) for each in explain_synopsis(plan).relations)


def pause(home: OpenHome, name: str) -> QueryRecord:
    """See ``Weft.pause``."""
    with home.writing(f"pause {name}") as writer:
        query = writer.queries.named(name)
        if query.state != "active":
            raise Conflict(f"{query.name} is {query.state} already", hint=f"`weft resume {query.name}` lets it go on.")
        return writer.queries.set_state(name, "paused")


def resume(home: OpenHome, name: str, *, skip: bool) -> QueryRecord:
    """See ``Weft.resume``."""
    from weft.execution.groups import from_now_form
    from weft.execution.relations import relations

    with home.writing(f"resume {name}") as writer:
        query = writer.queries.named(name)
        failing = [s for s in writer.subscriptions.all(query.query_id) if s.last_error is not None]
        if query.state == "active" and not failing:
            raise Conflict(f"{query.name} is active already", hint=f"See `weft show {query.name}`.")
        if skip and is_synopsis(writer.queries.plan(query.plan_id).body):
            raise SynopsisError(
                f"{query.name} is kept as a synopsis: what came meanwhile cannot be left out, later answers need it",
                hint=f"Let it go on where it stopped: weft resume {query.name}",
            )
        if skip and query.state != "active":
            # As one installed now with --from now: what is an answer already, or was one meanwhile, is no news.
            schemas = {label: table.schema for label, table in relations(writer, query.reads).items()}
            form = from_now_form(writer.queries.plan(query.plan_id), schemas)
            writer.queries.skip_to(name, max(home.open_instant(), query.tau or 0), form.signature, form.body)
        for subscription in failing:
            writer.subscriptions.resume(subscription.sub_id)
        return writer.queries.set_state(name, "active")


def remove(home: OpenHome, name: str, *, purge: bool) -> QueryRecord:
    """See ``Weft.remove``."""
    with home.writing(f"remove {name}") as writer:
        query = writer.queries.remove(name, home.clock(), purge=purge)
        finish_purges(writer, home.clock())
        if is_synopsis(writer.queries.plan(query.plan_id).body):
            from weft.execution.synopsis.unneeded import drop_unneeded

            drop_unneeded(writer)
        return query


def time_driven(home: OpenHome, queries: Iterable[QueryRecord]) -> dict[int, bool | None]:
    """See ``Weft.time_driven``."""
    from weft.execution.groups import shape_of
    from weft.execution.relations import relations

    known = {query.query_id: query for query in queries}
    while below := {key for query in known.values() for key in query.reads} - known.keys():
        known |= {query.query_id: query for query in home.catalog.queries.by_ids(below)}
    read = {key for query in known.values() for key in query.reads}
    schemas = {name: table.schema for name, table in relations(home.catalog, read).items()}
    own: dict[int, bool | None] = {}
    for record in home.catalog.queries.plans({query.plan_id for query in known.values()}):
        try:
            with query_faults():
                own[record.plan_id] = shape_of(record, schemas).time_driven
        except QueryFault:
            own[record.plan_id] = None
    found: dict[int, bool | None] = {}
    for query in sorted(known.values(), key=lambda each: each.stratum):  # what is read comes before who reads it
        parts = [own[query.plan_id], *(found[key] for key in query.reads)]
        found[query.query_id] = None if None in parts else any(parts)
    return found
