"""Define the catalog's tables for SQLite and PostgreSQL.

The database never reuses the ID of a deleted row.  Instants are BIGINT microseconds UTC.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    UniqueConstraint,
    and_,
    func,
    literal_column,
    or_,
    text,
)
from sqlalchemy import Text as AnyText

from weft.planning.stored_synopsis import MARK

FIRST_FORMAT: Final = 100
"""The format number of the first release.  Weft refuses the lower formats, which no release wrote."""
FORMAT: Final = 103
"""The format number of these tables.  Weft migrates homes of older formats and refuses those of newer formats."""

metadata: Final = MetaData()

Text: Final = AnyText().with_variant(AnyText(collation="C"), "postgresql")
"""A text that both databases sort by code points, independent of the server's locale."""


def _partial(name: str, *columns: str, where: str, unique: bool = False) -> Index:
    # ``dialects.make_tables`` repeats the condition for PostgreSQL, whose dialect is slow to import.
    return Index(name, *columns, unique=unique, sqlite_where=text(where))


home: Final = Table(
    "home",
    metadata,
    Column("only", Integer, CheckConstraint('"only" = 1'), primary_key=True, autoincrement=False),
    Column("home_id", Text, nullable=False),
    Column("format", Integer, nullable=False),
    Column("clock", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    # The folder of the home, so that two folders do not use one database.  NULL for a SQLite file in the folder.
    Column("place", Text),
    Column("watermark", BigInteger, nullable=False),
    Column("last_ts", BigInteger, nullable=False),
    Column("now", BigInteger),
    Column("t0", BigInteger),
    # ``rights_version`` counts the changes of rights.  The rights of all queries were checked at ``rights_checked``.
    Column("rights_version", BigInteger, nullable=False, server_default="0"),
    Column("rights_checked", BigInteger, nullable=False, server_default="0"),
    # The key that signs links for unsubscribing.
    Column("link_key", Text),
)

leases: Final = Table(
    "leases",
    metadata,
    Column("name", Text, primary_key=True),
    Column("token", BigInteger, nullable=False),
    Column("purpose", Text),
    Column("holder", Text),
    Column("acquired_at", BigInteger),
    Column("expires_at", BigInteger),
)

tables: Final = Table(
    "tables",
    metadata,
    Column("table_id", Integer, primary_key=True),
    Column("name", Text, nullable=False),
    Column("folded", Text, nullable=False, unique=True),
    Column("path", Text, nullable=False),
    Column("keys", Text, nullable=False),
    Column("ts_from", Text),
    Column("rows", BigInteger, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("first_ts", BigInteger),
    Column("last_ts", BigInteger),
    Column("tracked", Integer, nullable=False, server_default="0"),
    sqlite_autoincrement=True,
)

sources: Final = Table(
    "sources",
    metadata,
    Column("table_id", ForeignKey("tables.table_id"), primary_key=True),
    Column("kind", Text, nullable=False),
    Column("location", Text, nullable=False),
    Column("options", Text, nullable=False),
    Column("stamps", Text, nullable=False),
    Column("every_us", BigInteger, nullable=False),
    Column("added_at", BigInteger, nullable=False),
    Column("polled_at", BigInteger),
    Column("changed_at", BigInteger),
    Column("trouble", Text),
    Column("open_rows", BigInteger, nullable=False),
    # ``seen`` is the state at the last poll.  ``next_seen`` replaces ``seen`` after the commit of the reservation.
    Column("seen", Text),
    Column("next_seen", Text),
    Column("reservation_id", ForeignKey("reservations.reservation_id")),
)

views: Final = Table(
    "views",
    metadata,
    Column("table_id", ForeignKey("tables.table_id"), primary_key=True),
    Column("sql", Text, nullable=False),
    Column("form", Text, nullable=False),
    Column("reads", Text, nullable=False),
    Column("mode", Text, nullable=False),
    Column("added_at", BigInteger, nullable=False),
    Column("tau", BigInteger),
    Column("trouble", Text),
    # ``next_tau`` replaces ``tau`` after the commit of the reservation.
    Column("next_tau", BigInteger),
    Column("reservation_id", ForeignKey("reservations.reservation_id")),
    Column("depends_on_now", Integer, nullable=False, server_default="0"),
)

columns: Final = Table(
    "columns",
    metadata,
    Column("table_id", ForeignKey("tables.table_id"), primary_key=True),
    Column("column_id", Integer, primary_key=True),
    Column("name", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("nullable", Integer, nullable=False),
)

loads: Final = Table(
    "loads",
    metadata,
    Column("load_id", Integer, primary_key=True),
    Column("table_id", ForeignKey("tables.table_id"), nullable=False),
    Column("source", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("digest", Text),
    Column("started_at", BigInteger, nullable=False),
    Column("finished_at", BigInteger),
    Column("stored", BigInteger, nullable=False),
    Column("known", BigInteger, nullable=False),
    Column("quarantined", BigInteger, nullable=False),
    Column("late", BigInteger, nullable=False),
    Column("state", Text, nullable=False, server_default="kept"),
    Index("loads_digest", "table_id", "digest"),
    _partial("loads_undoing", "load_id", where="state = 'undoing'"),
    sqlite_autoincrement=True,
)

load_files: Final = Table(
    "load_files",
    metadata,
    Column("load_id", ForeignKey("loads.load_id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("source", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Index("load_files_digest", "digest"),
)

revisions: Final = Table(
    "revisions",
    metadata,
    Column("load_id", ForeignKey("loads.load_id"), primary_key=True),
    Column("table_id", ForeignKey("tables.table_id"), nullable=False),
    Column("begins", BigInteger, nullable=False),
    Index("revisions_by_table", "table_id"),
)

active_loads: Final = Table(
    "active_loads",
    metadata,
    Column("load_id", ForeignKey("loads.load_id"), primary_key=True),
    Column("holder", Text, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Column("floor", BigInteger),
)

quarantine: Final = Table(
    "quarantine",
    metadata,
    Column("quarantine_id", Integer, primary_key=True),
    Column("load_id", ForeignKey("loads.load_id"), nullable=False),
    Column("table_id", ForeignKey("tables.table_id"), nullable=False),
    Column("source", Text, nullable=False),
    Column("position", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("sha256", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("options", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
    UniqueConstraint("table_id", "source", "position", "sha256"),
    Index("quarantine_state", "state"),
    sqlite_autoincrement=True,
)

reservations: Final = Table(
    "reservations",
    metadata,
    Column("reservation_id", Integer, primary_key=True),
    Column("table_id", ForeignKey("tables.table_id"), nullable=False),
    Column("load_id", ForeignKey("loads.load_id"), nullable=False),
    Column("floor", BigInteger, nullable=False),
    Column("token", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
    Column("delta_version", BigInteger),
    Column("rows", BigInteger),
    Column("first_ts", BigInteger),
    Column("last_ts", BigInteger),
    _partial("reservations_open", "state", where="state = 'open'"),
    sqlite_autoincrement=True,
)

stored_versions: Final = Table(
    "stored_versions",
    metadata,
    Column("path", Text, primary_key=True),
    Column("version", BigInteger, nullable=False),
    Column("rows", BigInteger, nullable=False),
)

plans: Final = Table(
    "plans",
    metadata,
    Column("plan_id", Integer, primary_key=True),
    Column("signature", Text, nullable=False, unique=True),
    Column("body", Text, nullable=False),
    # ``sharing`` queries of the plan share its ``tau``.  ``version`` counts the changes of this set.
    Column("tau", BigInteger),
    Column("sharing", BigInteger, nullable=False, server_default="0"),
    Column("version", BigInteger, nullable=False, server_default="0"),
    _partial("plans_shared", "tau", where="tau IS NOT NULL"),
    sqlite_autoincrement=True,
)

SYNOPSIS: Final = func.substr(plans.c.body, literal_column("1"), literal_column(str(len(MARK)))) == literal_column(
    f"'{MARK}'"
)
"""The condition for the plans of synopses."""
Index("plans_of_synopses", plans.c.plan_id, sqlite_where=SYNOPSIS)

READING: Final = "reads <> '[]'"
"""An SQL condition that selects queries over the results of other queries."""
DEFINED: Final = "definitions <> '[]'"
"""An SQL condition that selects queries whose plans contain definitions of views."""

queries: Final = Table(
    "queries",
    metadata,
    Column("query_id", Integer, primary_key=True),
    Column("name", Text, nullable=False),
    Column("folded", Text, nullable=False),
    Column("user", Text, nullable=False),
    Column("sql", Text, nullable=False),
    Column("plan_id", ForeignKey("plans.plan_id"), nullable=False),
    Column("parameters", Text, nullable=False),
    Column("columns", Text, nullable=False),
    Column("names", Text, nullable=False, server_default="[]"),
    Column("every_us", BigInteger),
    Column("from_mode", Text, nullable=False),
    Column("from_instant", BigInteger),
    Column("tau", BigInteger),
    Column("next_ordinal", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
    Column("reason", Text),
    Column("installed_at", BigInteger, nullable=False),
    Column("removed_at", BigInteger),
    Column("next_due", BigInteger),
    Column("next_run", BigInteger),
    Column("reads", Text, nullable=False, server_default="[]"),
    Column("stratum", Integer, nullable=False, server_default="0"),
    Column("last_first_at", BigInteger),
    Column("replaced_at", BigInteger),
    Column("definitions", Text, nullable=False, server_default="[]"),
    Column("needs", Text, nullable=False, server_default="[]"),
    Column("saved_id", Integer),
    # The tick after which the query shares the ``tau`` of its plan.  The column ``tau`` of such a query is NULL.
    Column("shared_since", Integer),
    # A new query can use the name of a removed query.
    _partial("queries_live_name", "folded", where="state <> 'removed'", unique=True),
    Index("queries_by_plan", "plan_id", "state"),
    # Not for polls, whose index has more: their statements do not have its condition.
    _partial("queries_by_state", "state", "user", where="state <> 'removed'"),
    _partial("queries_removed", "state", "query_id", where="state = 'removed'"),
    _partial("queries_by_user", "user", "folded", "state", where="state <> 'removed'"),
    # The sum of the answers does not read the queries without answers, which a tick changes without this index.
    _partial("queries_answered", "next_ordinal", where="next_ordinal > 1 AND state <> 'removed'"),
    _partial("queries_news_by_user", "user", "last_first_at", "query_id", where="last_first_at IS NOT NULL"),
    _partial("queries_news", "last_first_at", "query_id", where="last_first_at IS NOT NULL"),
    _partial("queries_reading", "query_id", where=READING),
    _partial("queries_defined", "query_id", where=DEFINED),
    # The index covers all columns that a runner polls.  A poll therefore does not read the table itself.
    _partial(
        "queries_poll", "state", "plan_id", "next_run", "tau", "from_instant", "next_due", where="shared_since IS NULL"
    ),
    _partial("queries_shared", "plan_id", "query_id", where="shared_since IS NOT NULL"),
    sqlite_autoincrement=True,
)

LIVE: Final = queries.c.state != literal_column("'removed'")
"""The condition for installed queries, as the indexes state it: PostgreSQL compares no parameter with their texts."""

replaced: Final = Table(
    "replaced",
    metadata,
    Column("query_id", ForeignKey("queries.query_id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("sql", Text, nullable=False),
    Column("from_instant", BigInteger),
    Column("since", BigInteger, nullable=False),
    Column("until", BigInteger, nullable=False),
    Column("tau", BigInteger),
    Column("rows", BigInteger, nullable=False),
)
"""The earlier texts of queries, numbered from 1 for each query."""

ticks: Final = Table(
    "ticks",
    metadata,
    Column("tick_id", Integer, primary_key=True),
    Column("t", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
    Column("token", BigInteger, nullable=False),
    Column("planned_at", BigInteger, nullable=False),
    Column("committed_at", BigInteger),
    _partial("ticks_planned", "state", where="state = 'planned'", unique=True),
    sqlite_autoincrement=True,
)

tick_queries: Final = Table(
    "tick_queries",
    metadata,
    Column("tick_id", ForeignKey("ticks.tick_id"), primary_key=True),
    Column("query_id", ForeignKey("queries.query_id"), primary_key=True),
    Column("tau", BigInteger),
    Column("rows", BigInteger),
    Column("reason", Text),
    Column("until", BigInteger),
    Index("tick_queries_by_query", "query_id", "tick_id"),
    _partial("tick_queries_gained", "query_id", "tick_id", where="rows > 0"),
)

GAINED: Final = tick_queries.c.rows > literal_column("0")
"""The condition for the outcomes with new answers."""

tick_plans: Final = Table(
    "tick_plans",
    metadata,
    Column("tick_id", ForeignKey("ticks.tick_id"), primary_key=True),
    Column("plan_id", ForeignKey("plans.plan_id"), primary_key=True),
    Column("tau", BigInteger, nullable=False),
    Column("reason", Text),
    Index("tick_plans_by_plan", "plan_id", "tick_id"),
)
"""The ticks of the queries that share the ``tau`` of their plan.  A query with answers also has a row in
``tick_queries``.
"""

shared_ticks: Final = Table(
    "shared_ticks",
    metadata,
    Column("query_id", ForeignKey("queries.query_id"), primary_key=True),
    Column("after", Integer, primary_key=True, autoincrement=False),
    Column("upto", Integer, nullable=False),
    Column("plan_id", ForeignKey("plans.plan_id"), nullable=False),
)
"""The earlier times in which a query shared the ``tau`` of a plan: the ticks after ``after`` up to ``upto``."""

tick_outputs: Final = Table(
    "tick_outputs",
    metadata,
    Column("tick_id", ForeignKey("ticks.tick_id"), primary_key=True),
    Column("name", Text, primary_key=True),
    Column("path", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("version", BigInteger),
    Column("rows", BigInteger),
)

tick_versions: Final = Table(
    "tick_versions",
    metadata,
    Column("tick_id", ForeignKey("ticks.tick_id"), primary_key=True),
    Column("path", Text, primary_key=True),
    Column("version", BigInteger, nullable=False),
    Column("rows", BigInteger, nullable=False),
)

subscriptions: Final = Table(
    "subscriptions",
    metadata,
    Column("sub_id", Integer, primary_key=True),
    Column("query_id", ForeignKey("queries.query_id"), nullable=False),
    Column("channel", Text, nullable=False),
    Column("delivered", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("next_attempt_at", BigInteger),
    Column("last_error", Text),
    Column("muted", Integer, nullable=False, server_default="0"),
    Column("round", Integer, nullable=False, server_default="0"),
    Column("digest", Text),
    Column("zone", Text),
    Column("digest_at", BigInteger),
    # Whether the subscription has not ended, and its live query has answers after ``delivered``.
    Column("behind", Integer, nullable=False, server_default="0"),
    UniqueConstraint("query_id", "channel"),
    Index("subscriptions_by_channel", "channel"),
    _partial("subscriptions_kept", "query_id", where="state IN ('active', 'parked')"),
    _partial("subscriptions_behind", "behind", "query_id", where="behind = 1"),
    sqlite_autoincrement=True,
)

KEPT: Final = subscriptions.c.state.in_((literal_column("'active'"), literal_column("'parked'")))
"""The condition for subscriptions that have not ended, to count them."""
BEHIND: Final = subscriptions.c.behind == literal_column("1")
"""The condition for subscriptions whose query has answers that were not delivered."""
UNWELL: Final = and_(
    subscriptions.c.state != literal_column("'ended'"),
    or_(
        subscriptions.c.last_error.is_not(None),
        subscriptions.c.attempts > literal_column("0"),
        subscriptions.c.muted == literal_column("1"),
        subscriptions.c.state == literal_column("'parked'"),
    ),
)
"""The condition for subscriptions that failed, are parked, or are muted."""
Index("subscriptions_unwell", subscriptions.c.query_id, sqlite_where=UNWELL)

outbox: Final = Table(
    "outbox",
    metadata,
    Column("entry_id", Integer, primary_key=True),
    Column("sub_id", ForeignKey("subscriptions.sub_id"), nullable=False),
    Column("first_ordinal", BigInteger, nullable=False),
    Column("last_ordinal", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
    Column("position", Text),
    Column("attempts", Integer, nullable=False),
    Column("last_error", Text),
    Column("sent_at", BigInteger),
    Column("round", Integer, nullable=False, server_default="0"),
    Column("reply", Text),
    Column("about", Text),
    _partial("outbox_unsent", "sub_id", where="state NOT IN ('sent', 'withdrawn')", unique=True),
    Index("outbox_by_subscription", "sub_id", "entry_id"),
    sqlite_autoincrement=True,
)

UNSENT: Final = outbox.c.state.not_in((literal_column("'sent'"), literal_column("'withdrawn'")))
"""The condition for messages that are neither sent nor withdrawn."""

users: Final = Table(
    "users",
    metadata,
    Column("user_id", Integer, primary_key=True),
    Column("name", Text, nullable=False),
    Column("folded", Text, nullable=False, unique=True),
    Column("role", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("password", Text),
    Column("most_queries", BigInteger),
    Column("most_rows", BigInteger),
    Column("most_seconds", BigInteger),
    Column("digest", Text),
    Column("zone", Text),
    Column("added_at", BigInteger, nullable=False),
    sqlite_autoincrement=True,
)
"""The users.  The row of a removed user stays, so that her queries have an owner who may do nothing."""

groups: Final = Table(
    "groups",
    metadata,
    Column("group_id", Integer, primary_key=True),
    Column("name", Text, nullable=False),
    Column("folded", Text, nullable=False, unique=True),
    sqlite_autoincrement=True,
)

members: Final = Table(
    "members",
    metadata,
    Column("group_id", ForeignKey("groups.group_id"), primary_key=True),
    Column("user_id", ForeignKey("users.user_id"), primary_key=True),
    Index("members_by_user", "user_id"),
)

grants: Final = Table(
    "grants",
    metadata,
    Column("subject_kind", Text, primary_key=True),
    Column("subject_id", Integer, primary_key=True, autoincrement=False),
    Column("right", Text, primary_key=True),
    Column("thing_kind", Text, primary_key=True),
    Column("thing_key", Text, primary_key=True),
    Column("granted_by", Text, nullable=False),
    Column("granted_at", BigInteger, nullable=False),
    Index("grants_by_thing", "thing_kind", "thing_key"),
)
"""Rights of a ``user``, of a ``group``, or of ``everyone``, whose subject ID is 0."""

secrets: Final = Table(
    "secrets",
    metadata,
    Column("secret_id", Integer, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("digest", Text, nullable=False, unique=True),
    Column("user_id", ForeignKey("users.user_id")),
    Column("query_id", ForeignKey("queries.query_id")),
    Column("label", Text),
    Column("scopes", Text),
    Column("made_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger),
    Index("secrets_by_user", "user_id"),
    Index("secrets_by_query", "query_id"),
    sqlite_autoincrement=True,
)
"""Digests of secrets: a ``session``, a ``token`` of a program, a ``password`` link, or the link of a ``share``."""

audit: Final = Table(
    "audit",
    metadata,
    Column("audit_id", Integer, primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("user", Text, nullable=False),
    Column("door", Text, nullable=False),
    Column("address", Text),
    Column("action", Text, nullable=False),
    Column("about", Text),
    Column("outcome", Text, nullable=False),
    Index("audit_by_user", "user", "audit_id"),
    sqlite_autoincrement=True,
)

marks: Final = Table(
    "marks",
    metadata,
    Column("user_id", ForeignKey("users.user_id"), primary_key=True),
    Column("query_id", ForeignKey("queries.query_id"), primary_key=True),
    Column("read_to", BigInteger, nullable=False),
)
"""The answers that a user has read: all up to the ordinal ``read_to``, except for those in ``mark_exceptions``."""

mark_exceptions: Final = Table(
    "mark_exceptions",
    metadata,
    Column("user_id", ForeignKey("users.user_id"), primary_key=True),
    Column("query_id", ForeignKey("queries.query_id"), primary_key=True),
    Column("ordinal", BigInteger, primary_key=True, autoincrement=False),
)
"""Unread answers up to ``marks.read_to``, and read answers after it."""

saved_queries: Final = Table(
    "saved_queries",
    metadata,
    Column("saved_id", Integer, primary_key=True),
    Column("name", Text, nullable=False),
    Column("folded", Text, nullable=False, unique=True),
    Column("sql", Text, nullable=False),
    Column("parameters", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("saved_at", BigInteger, nullable=False),
    sqlite_autoincrement=True,
)
"""Texts with parameters, which people fill in and install."""
