"""Install, show, pause, resume and remove standing queries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from weft.algebra.schema import TableSchema
from weft.api.acting import acting_user, preferred_digest, require_owner_rights, require_room
from weft.api.arguments import digest_times, own_user, texts
from weft.api.dialects import in_dialect
from weft.api.requirements import require_channel
from weft.catalog.records import FromMode, PlanRecord, QueryDefinition, QueryRecord, TickQuery
from weft.catalog.replaced_texts import ReplacedText
from weft.catalog.seen import query_thing
from weft.catalog.subscriptions import Subscription
from weft.configuration import configuration
from weft.errors import Conflict, QueryFault, Refused, SynopsisError, WeftError
from weft.execution.home import OpenHome
from weft.faults import query_faults
from weft.instants import parse_interval
from weft.planning.stored_synopsis import Language, asks_history, is_synopsis, tables_of
from weft.printable import Brief
from weft.rights.principal import Right

if TYPE_CHECKING:
    from weft.planning.alike_texts import AlikeTexts
    from weft.planning.synopsis_plan import SynopsisPlan
    from weft.planning.synopsis_words import RelationSummary

T = TypeVar("T")

Keep = Literal["history", "synopsis"]
"""The data for the evaluation of a query: the history of its tables, or a synopsis."""
_AT_ONCE: Final = 1_000
"""The maximum number of queries that one transaction installs."""


@dataclass(frozen=True, repr=False)
class Shown(Brief):
    """A query with its plan, its subscriptions and its last ticks.

    ``sharing`` is the number of queries with the same plan.  ``tables`` names the tables and views that the query
    reads, and ``reads`` the queries whose results it reads.  ``read_by`` names the queries that read the results of
    this query.  Objects that the principal may not see are left out, and so are the subscriptions of somebody else's
    query.  ``stored`` contains pairs (relation of the synopsis, number of rows).  ``replaced`` contains the earlier
    texts, the oldest first.
    """

    query: QueryRecord
    plan: PlanRecord
    sharing: int
    subscriptions: tuple[Subscription, ...]
    ticks: tuple[TickQuery, ...]
    tables: tuple[str, ...]
    reads: tuple[str, ...]
    read_by: tuple[str, ...]
    stored: tuple[tuple[RelationSummary, int], ...] = ()
    replaced: tuple[ReplacedText, ...] = ()

    @property
    def asks_history(self) -> bool:
        """Whether the query is a formula that each tick evaluates over the stored history."""
        return is_synopsis(self.plan.body) and asks_history(self.plan.body)

    def _brief(self) -> str:
        where = ", ".join(each.channel for each in self.subscriptions)
        return self.query._brief() + (f"; to {where}" if where else "")


@dataclass(frozen=True)
class NewQuery:
    """A query to install, with the parameters of ``Weft.install``.

    If a field is None, or ``to`` is empty, Weft uses the value in the home's settings.  With ``every`` 0, the query
    runs at each tick.  ``dialect`` is None for Spark's.  ``saved_id`` is the ID of the saved query that was filled in.
    With ``text_since``, it replaces only a text of this instant (``QueryRecord.text_since``).
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
    dialect: str | None = None
    saved_id: int | None = None
    text_since: int | None = None

    @property
    def is_synopsis(self) -> bool:
        """Whether Weft maintains the query as a synopsis.  For a formula, the value is True."""
        return self.keep == "synopsis" or self.language != "sql"


def install(home: OpenHome, query: NewQuery) -> QueryRecord:
    """Implement ``Weft.install``."""
    query = Defaults(home).added_to(query)
    with home.writing(f"install {query.name}") as writer:
        if query.is_synopsis:
            from weft.execution.synopsis.discarding import drop_unneeded

            drop_unneeded(writer)  # tables that a removed synopsis left behind
        definition = accepted(home, query, home.schemas(query.sql))
        require_room(home, [definition.user])
        require_owner_rights(home, [definition])
        return writer.queries.install(definition, home.clock())


def install_all(home: OpenHome, queries: Iterable[NewQuery]) -> tuple[QueryRecord, ...]:
    """Implement ``Weft.install_all``."""
    remaining, installed = iter(queries), list[QueryRecord]()
    while given := list(islice(remaining, _AT_ONCE)):
        defaults = Defaults(home)
        batch = [_named_errors(each, partial(defaults.added_to, each)) for each in given]
        with home.writing("install queries") as writer:
            compiling = Compiling(home, home.schemas(*(each.sql for each in batch)))
            definitions = [_named_errors(each, partial(compiling.accepted, each)) for each in batch]
            require_room(home, (each.user for each in definitions))
            require_owner_rights(home, definitions)
            installed += writer.queries.install_all(definitions, home.clock())
    return tuple(installed)


def _named_errors(query: NewQuery, make: Callable[[], T]) -> T:
    try:
        return make()
    except WeftError as error:
        error.where = f"the query {query.name}" + (f", {error.where}" if error.where else "")
        raise


class Defaults:
    """The settings of a home for new queries, read once."""

    def __init__(self, home: OpenHome) -> None:
        self._home = home
        self._chosen = configuration(home.folder)
        self._seen = home.seen()

    def added_to(self, query: NewQuery) -> NewQuery:
        """Add defaults from the settings.  Convert the timeliness to microseconds, and the channels to canonical names.

        Only an administrator has the channels of the settings by default, and may discard history.
        """
        home, chosen = self._home, self._chosen
        for channel in texts(query.to):
            require_channel(self._seen, channel)
        if query.discard_history:
            self._seen.require(Right.ADMIN)
        every = chosen.install_every if query.every is None else query.every
        every = parse_interval(every) if isinstance(every, str) else every
        start = query.start or ("start" if query.is_synopsis else chosen.install_from)
        channels = self._named(query) or self._channels
        to = tuple(dict.fromkeys(channel for channel in channels if channel != "cursor"))
        digest, zone = digest_times(preferred_digest(home, query.digest) if to else query.digest, query.zone)
        if digest is not None and not to:
            raise Refused("a digest needs a channel", hint="Name a channel with --to, or omit --digest.")
        user = acting_user(home, query.user) or chosen.install_user
        return replace(query, user=user, every=every, start=start, to=to, digest=digest, zone=zone)

    def _named(self, query: NewQuery) -> tuple[str, ...]:
        from weft.delivery.registry import canonical

        return tuple(canonical(channel, self._home.folder) for channel in texts(query.to))

    @cached_property
    def _channels(self) -> tuple[str, ...]:
        from weft.delivery.registry import default_channels

        return default_channels(self._home.folder) if self._seen.rights.may(Right.ADMIN) else ()


def accepted(home: OpenHome, query: NewQuery, schemas: Mapping[str, TableSchema]) -> QueryDefinition:
    """Return the canonical definition of a query whose channels can accept its answers.  Raise Refused."""
    return Compiling(home, schemas).accepted(query)


def defined(home: OpenHome, query: NewQuery, schemas: Mapping[str, TableSchema]) -> QueryDefinition:
    """Return the canonical definition of a query.  Raise SqlError or SynopsisError for an unsupported query."""
    return Compiling(home, schemas).defined(query)


class Compiling:
    """A compiler of new queries over the tables ``schemas``.  It reads and compiles shared parts once."""

    def __init__(self, home: OpenHome, schemas: Mapping[str, TableSchema]) -> None:
        self._home, self._schemas = home, schemas

    @cached_property
    def _texts(self) -> AlikeTexts:
        from weft.planning.alike_texts import AlikeTexts

        return AlikeTexts(self._schemas)

    @cached_property
    def _discarded(self) -> Mapping[int, str]:
        from weft.catalog.discarded import discarded_tables

        return discarded_tables(self._home.catalog)

    def accepted(self, query: NewQuery) -> QueryDefinition:
        """Return the canonical definition of a query whose channels can accept its answers.  Raise Refused."""
        definition = self.defined(query)
        if definition.channels:
            from weft.delivery.registry import require_accepted
            from weft.storage.ledger import Answers

            home_id = self._home.catalog.home().home_id
            answers = Answers(home_id, None, definition.name, definition.columns)
            require_accepted(definition.channels, self._home.folder, answers)
        return definition

    def defined(self, query: NewQuery) -> QueryDefinition:
        """Return the canonical definition of a query.  Raise SqlError or SynopsisError for an unsupported query."""
        if query.dialect is None:
            return self._defined(query)
        schemas = self._schemas
        with in_dialect(query.sql, query.dialect, lambda _: schemas, stored=True, language=query.language) as text:
            # The names of results are read from a text in Spark's dialect.
            return Compiling(self._home, self._home.schemas(text))._defined(replace(query, sql=text))

    def _defined(self, query: NewQuery) -> QueryDefinition:
        definition = partial(
            QueryDefinition,
            name=query.name,
            user=query.user or own_user(),
            sql=query.sql.strip(),
            every_us=int(query.every or 0) or None,
            channels=texts(query.to),
            digest=query.digest,
            zone=query.zone,
            saved_id=query.saved_id,
        )
        if query.is_synopsis:
            plan = _synopsis(self._home, query, self._schemas)
            needs = tuple(sorted(table.id for table in plan.tables))
            return definition(
                signature=plan.signature, plan_body=plan.body, parameters=(), columns=plan.columns, needs=needs
            )
        _refuse_options_of_synopses(query)
        from weft.catalog.discarded import refuse_discarded

        # Compile the original text because the positions in errors refer to it.
        compiled = self._texts.compiled(query.sql, from_now=query.start == "now")
        refuse_discarded(self._discarded, compiled.tables)
        form = compiled.form
        return definition(
            signature=form.signature,
            plan_body=form.body,
            parameters=form.parameters,
            names=form.names,
            columns=compiled.columns,
            from_instant=self._home.open_instant() if query.start == "now" else None,
            reads=compiled.reads,
            needs=compiled.needs,
            definitions=compiled.definitions,
        )


def _refuse_options_of_synopses(query: NewQuery) -> None:
    if query.duplicates:
        raise Refused("--duplicates applies to 2fol formulas", hint="Omit --duplicates: the answers of SQL are a set.")
    if query.discard_history:
        raise Refused("--discard-history applies to synopses", hint="Add --keep synopsis.")


def _synopsis(home: OpenHome, query: NewQuery, schemas: Mapping[str, TableSchema]) -> SynopsisPlan:
    from weft.api.explaining import synopsis_plan
    from weft.catalog.discarded import require_discardable, require_whole_history
    from weft.planning.synopsis_words import require_bounded

    if query.start == "now":
        raise SynopsisError(
            "a synopsis starts with the whole history: --from now cannot omit earlier answers",
            hint="Omit --from now. For SQL, you can instead keep --from now and omit --keep synopsis.",
        )
    keep = query.keep == "synopsis"
    plan = synopsis_plan(query.sql, schemas, query.language, duplicates=query.duplicates, keep=keep)
    if not query.allow_unbounded:
        require_bounded(plan)
    require_whole_history(home.catalog, plan)
    if query.discard_history:
        plan = replace(plan, discard=True)
        require_discardable(home.catalog, plan)
    return plan


def show(home: OpenHome, name: str, ticks: int) -> Shown:
    """Implement ``Weft.show``."""
    catalog, seen = home.catalog, home.seen()
    query = seen.query(name)
    owns = seen.may(Right.OWN, query_thing(query))
    plan = catalog.queries.plan(query.plan_id)
    tables = catalog.tables.names([key for key in tables_of(plan.body) if seen.has_table(key)])
    return Shown(
        query,
        plan,
        catalog.queries.count(query.plan_id) if seen.rights.reaches_all(Right.READ) else 1,
        catalog.subscriptions.all(query.query_id) if owns else (),
        catalog.ticks.of_query(query.query_id, ticks),
        tables,
        tuple(lower.name for lower in seen.among(catalog.queries.by_ids(query.reads))),
        tuple(reader.name for reader in seen.among(catalog.queries.readers(query.query_id))),
        _stored(home, query),
        catalog.replacements.of_query(query.query_id),
    )


def _stored(home: OpenHome, query: QueryRecord) -> tuple[tuple[RelationSummary, int], ...]:
    """Return an empty tuple if the query no longer fits its tables."""
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
    """Implement ``Weft.pause``."""
    with home.writing(f"pause {name}") as writer:
        query = home.seen().query(name, Right.OWN)
        if query.state != "active":
            raise Conflict(
                f"{query.name} is already {query.state}", hint=f"Resume the query with `weft resume {query.name}`."
            )
        return writer.queries.set_state(name, "paused")


def resume(home: OpenHome, name: str, *, skip: bool) -> QueryRecord:
    """Implement ``Weft.resume``."""
    from weft.execution.groups import from_now_form
    from weft.execution.relations import relations

    with home.writing(f"resume {name}") as writer:
        query = home.seen().query(name, Right.OWN)
        failing = [s for s in writer.subscriptions.all(query.query_id) if s.last_error is not None]
        if query.state == "active" and not failing:
            raise Conflict(f"{query.name} is already active", hint=f"See `weft show {query.name}`.")
        if skip and is_synopsis(writer.queries.plan(query.plan_id).body):
            raise SynopsisError(
                f"{query.name} is maintained as a synopsis: --skip would lose rows that later answers need",
                hint=f"Resume the query where it stopped: weft resume {query.name}",
            )
        if skip and query.state != "active":
            # Use the plan for --from now, because this plan omits rows that are already in the result of the query.
            schemas = {label: table.schema for label, table in relations(writer, query.reads).items()}
            form = from_now_form(writer.queries.plan(query.plan_id), schemas)
            writer.queries.skip_to(name, max(home.open_instant(), query.tau or 0), form.signature, form.body)
        if query.state != "active":
            channels = (each.channel for each in writer.subscriptions.all(query.query_id))
            require_owner_rights(home, [query], channels)
        for subscription in failing:
            writer.subscriptions.resume(subscription.sub_id)
        return writer.queries.set_state(name, "active")


def remove(home: OpenHome, name: str, *, purge: bool, now: bool) -> QueryRecord:
    """Implement ``Weft.remove``."""
    if now and not purge:
        raise Refused(
            "now needs purge: without a purge, the answers stay",
            hint="Pass purge as well (`weft remove --purge --now`).",
        )
    with home.writing(f"remove {name}") as writer:
        _refuse_hidden_readers(home, home.seen().query(name, Right.OWN))
        query = writer.queries.remove(name, home.clock(), purge=purge, now=now)
        if purge:
            from weft.writing.removals import finish_purges

            finish_purges(writer, home.clock())
        if is_synopsis(writer.queries.plan(query.plan_id).body):
            from weft.execution.synopsis.discarding import drop_unneeded

            drop_unneeded(writer)
        return query


def _refuse_hidden_readers(home: OpenHome, query: QueryRecord) -> None:
    readers = home.catalog.queries.readers(query.query_id)
    if len(home.seen().among(readers)) < len(readers):
        raise Conflict(f"{query.name} is read by queries of others", hint="Ask an administrator.")


def time_driven(home: OpenHome, queries: Iterable[QueryRecord]) -> dict[int, bool | None]:
    """Implement ``Weft.time_driven``."""
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
    driven: dict[int, bool | None] = {}
    for query in sorted(known.values(), key=lambda each: each.stratum):  # a query comes after those it reads
        parts = [own[query.plan_id], *(driven[key] for key in query.reads)]
        driven[query.query_id] = None if None in parts else any(parts)
    return driven
