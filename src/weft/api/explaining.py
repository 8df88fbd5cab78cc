"""Explain queries that are not installed, and queries that are installed.

A query that is not installed is explained over the home's tables, or over the table that a first load of mail would
create.  For an installed query, the module explains the plan that runs, with the query's own names and with the home's
statistics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from weft.algebra.relation import Output, Query
from weft.algebra.schema import STRING, TIMESTAMP, Column, DataType, TableSchema
from weft.algebra.traverse import rename
from weft.catalog import layout
from weft.catalog.glance import table_schemas, table_sizes
from weft.catalog.naming import queries_mentioned, words
from weft.catalog.records import QueryRecord, TickQuery
from weft.errors import Refused, SynopsisError
from weft.execution import due
from weft.execution.groups import Member, Shape, shape_of, window_start
from weft.execution.home import OpenHome
from weft.execution.relations import Relation, relations
from weft.instants import format_instant, format_interval
from weft.planning.explain import Explanation, asked_once, explain
from weft.planning.how_many import Extent, how_many
from weft.planning.plan import Plan, plan, standing_plan
from weft.planning.synopsis_plan import Language, SynopsisPlan, sql_synopsis
from weft.planning.synopsis_words import SynopsisExplanation, explain_synopsis
from weft.planning.warnings import Note
from weft.sql.ordering import order_of

if TYPE_CHECKING:
    from collections.abc import Mapping

_MAIL = ("msgid", "sender", "subject", "date", "newsgroup", "inreplyto", "body", "ts")
"""The columns of ``extraction.mail``, repeated here so that explaining a query does not import that module.

A test compares the two lists.
"""


@dataclass(frozen=True)
class Known:
    """The tables over which a query is explained.

    ``assumed`` is the reason why the tables are not a home's own (None: they are).  ``extents`` are the known sizes.
    """

    schemas: Mapping[str, TableSchema]
    assumed: str | None
    extents: Mapping[str, Extent] = field(default_factory=dict)


NOT_INSTALLED: Final = "Next due: the next tick after `weft install`."


def mail_schema() -> TableSchema:
    """Return the schema of the table that ``weft ingest mail`` creates."""

    def kind(name: str) -> DataType:
        return TIMESTAMP if name in ("date", "ts") else STRING

    columns = (Column(n, name, kind(name), name != "ts") for n, name in enumerate(_MAIL, 1))
    return TableSchema(1, "msgs", tuple(columns))


def known_tables(home: Path, at: int, sql: str) -> Known:
    """Return the tables that the query ``sql`` may name.

    If the home does not exist or has no table, the result is the table that a first load of mail would create.  Raises
    CatalogError if the home's catalog is damaged, or if the home has data but no catalog.
    """
    names = queries_mentioned(sql)
    schemas = table_schemas(home, names, words(sql))
    if schemas is None and (layout.catalog_file(home).exists() or layout.has_data(home)):
        from weft.catalog import definitions, open_catalog

        with open_catalog(home, at=at) as catalog:
            schemas = definitions.schemas(catalog, sql)
    if schemas:
        sizes = table_sizes(home, names)
        return Known(schemas, None, {name: Extent(*sizes[name]) for name in schemas if name in sizes})
    missing = "has no tables yet" if schemas is not None else "is not a Weft home yet"
    assumed = f"{home} {missing}: the explanation assumes the table msgs that `weft ingest mail` makes"
    return Known({"msgs": mail_schema()}, assumed)


def sql_asked_once(sql: str, known: Known) -> tuple[str, tuple[str, ...]]:
    """Return the normalized query, and the SQL that ``weft try`` runs for the instant ``:t``; raise SqlError."""
    compiled = plan(sql, known.schemas)
    return compiled.text, asked_once(compiled)


def synopsis_explanation(
    sql: str, known: Known, language: Language = "sql", *, duplicates: bool = False, keep: bool = False
) -> SynopsisExplanation:
    """Return an explanation of a query that is maintained as a synopsis.

    Raises SqlError, FormulaError, SynopsisError or Refused.
    """
    compiled = synopsis_plan(sql, known.schemas, language, duplicates=duplicates, keep=keep)
    return replace(explain_synopsis(compiled), next_due=NOT_INSTALLED)


def synopsis_plan(
    text: str, tables: Mapping[str, TableSchema], language: Language, *, duplicates: bool, keep: bool
) -> SynopsisPlan:
    """Return the plan of a query that is maintained as a synopsis; raise the errors of ``synopsis_explanation``.

    With ``duplicates``, the answers of a 2fol formula have counts.  With ``keep``, a formula without a synopsis is
    refused.
    """
    if duplicates and language != "2fol":
        raise Refused(
            f"--duplicates applies to 2fol formulas, and this is {language}",
            hint="Omit it: mutl always counts duplicates, sql and monpoly never do.",
        )
    if language == "sql":
        return sql_synopsis(text, tables)
    from weft.planning.formula_plan import formula_synopsis

    compiled = formula_synopsis(text, language, tables, duplicates=duplicates)
    if keep and compiled.history:
        explanation = explain_synopsis(compiled)
        raise SynopsisError(f"{explanation.history}; its verdict: {explanation.verdict}", hint="Omit --keep synopsis.")
    return compiled


def explain_query(sql: str, known: Known, *, from_now: bool = False) -> Explanation:
    """Return an explanation of a query; raise SqlError for a query that Weft does not support.

    The error mentions the assumed tables, if any.
    """
    explanation = explain(standing_plan(sql, known.schemas, from_now=from_now))
    notes = (*explanation.notes, *_synopsis_note(sql, known, from_now=from_now))
    estimate = how_many(explanation.summary, known.extents, from_now=from_now)
    return with_order(replace(explanation, notes=notes, how_many=estimate, next_due=NOT_INSTALLED), sql)


def with_order(explanation: Explanation, sql: str) -> Explanation:
    """Return the explanation with a note on the effect of ORDER BY, if the text of the query has an ORDER BY."""
    if not order_of(sql, [name for name, _ in explanation.columns]):
        return explanation
    text = (
        "ORDER BY sorts the output of `weft try` and `weft results`; answers are delivered and numbered as they appear"
    )
    warnings = [note for note in explanation.notes if note.level == "warning"]
    others = [note for note in explanation.notes if note.level != "warning"]
    return replace(explanation, notes=(*warnings, Note("note", text, text), *others))


def _synopsis_note(sql: str, known: Known, *, from_now: bool) -> list[Note]:
    """Return a note that suggests a synopsis if the query joins earlier rows with later rows, otherwise an empty
    list.
    """
    try:
        stored = () if from_now else sql_synopsis(sql, known.schemas).synopsis.stored
    except Refused:
        return []
    if not stored:
        return []
    relations = "one relation" if len(stored) == 1 else f"{len(stored)} relations"
    text = f"with --keep synopsis its ticks would need neither Spark nor the history, but would store {relations}"
    line = "with --keep synopsis its ticks need no Spark and no history: see explain --keep synopsis"
    return [Note("note", f"{text}: see explain --keep synopsis", line)]


_DAY: Final = 86_400_000_000
_TICKS: Final = 100
"""The number of latest ticks that ``rate`` uses."""


def extents(home: OpenHome, schemas: Mapping[str, TableSchema]) -> dict[str, Extent]:
    """Return the sizes of the tables and results that a query reads."""
    views = {view.table_id for view in home.catalog.views.all()}
    sizes = {
        table.name: Extent(table.rows, table.first_ts, table.last_ts, table.table_id in views)
        for table in home.catalog.tables.all()
    }
    results = [schema for schema in schemas.values() if schema.source == "results"]
    for query in home.catalog.queries.by_ids([schema.id for schema in results]):
        sizes[query.results.name] = Extent(query.rows, None, query.last_first_at)
    return {name: sizes[name] for name in schemas if name in sizes}


def explain_installed(home: OpenHome, name: str) -> Explanation | SynopsisExplanation:
    """Return the explanation of a standing query.

    Raises NotFound, and PlanMismatch if the query no longer fits its tables.
    """
    query = home.catalog.queries.named(name)
    tables = relations(home.catalog, query.reads)
    record = home.catalog.queries.plan(query.plan_id)
    shape = shape_of(record, {key: table.schema for key, table in tables.items()})
    explanation: Explanation | SynopsisExplanation
    if isinstance(shape, Plan):
        by_id = {table.schema.id: table.schema for table in tables.values() if table.schema.source == "table"}
        defined = tuple(by_id[key] for key in query.definitions)
        explanation = with_order(explain(replace(own_plan(query, shape), definitions=defined)), query.sql)
    else:
        explanation = explain_synopsis(shape)
    return replace(
        explanation, name=query.name, how_many=_answers(home, query), next_due=_next_due(home, query, shape, tables)
    )


def own_plan(query: QueryRecord, shape: Plan) -> Plan:
    """Return the plan of a query with the query's constants and with the names of range variables and columns in its
    text.
    """
    names = {f"t{number}": alias for number, alias in enumerate(query.names, 1)}
    renamed = rename(shape.lifted, names)
    outputs = zip(query.columns, renamed.outputs, strict=True)
    lifted = Query(renamed.input, tuple(Output(label, output.value) for (label, _), output in outputs))
    return Plan(lifted, Member(query, None, 0).values, shape.from_now)


def _answers(home: OpenHome, query: QueryRecord) -> str:
    if not query.rows or query.last_first_at is None:
        return "Answers so far: none."
    answers = f"Answers so far: {query.rows:,}, the last at {format_instant(query.last_first_at)}"
    daily = None if query.tau is None else rate(home.catalog.ticks.of_query(query.query_id, _TICKS))
    return f"{answers}; {daily}." if daily else f"{answers}."


def rate(ticks: Sequence[TickQuery]) -> str | None:
    """Return the rate of answers over the windows of the ticks, the newest first; None for less than a day.

    Ticks up to the last full evaluation are left out, because they may belong to an earlier text of the query.

    >>> day = 86_400_000_000
    >>> of = lambda t, tau, rows: TickQuery(1, 1, t * day, None if tau is None else tau * day, "committed", rows, None)
    >>> rate([of(9, 8, 3), of(8, 6, 4), of(6, None, 700), of(6, 5, 90)])
    '7 in 3 days of its last ticks'
    """
    since = takewhile(lambda tick: tick.tau is not None, ticks)
    ticked = [tick for tick in since if tick.rows is not None]
    length = sum(tick.t - tick.tau for tick in ticked if tick.tau is not None)
    if length < _DAY:
        return None
    rows = sum(tick.rows or 0 for tick in ticked)
    days = length / _DAY
    return f"{rows:,} in {days:,.0f} day{'s' * (round(days) != 1)} of its last ticks"


def _next_due(home: OpenHome, query: QueryRecord, shape: Shape, tables: Mapping[str, Relation]) -> str:
    if query.state != "active":
        return f"Next due: never while it is {query.state}; resume it with `weft resume {query.name}`."
    every = "" if query.every_us is None else f" (it runs every {format_interval(query.every_us)})"
    return f"Next due: {_due(home, query, shape, tables)}{every}."


def _due(home: OpenHome, query: QueryRecord, shape: Shape, tables: Mapping[str, Relation]) -> str:
    tau = window_start(query, query.tau)
    if query.tau is None:
        since = "the whole history again" if tau is None else f"the history from {format_instant(tau)} on"
        again = any(tick.rows is not None for tick in home.catalog.ticks.of_query(query.query_id, _TICKS))
        return f"the next tick, which {f'reads {since}' if again else 'is its first'}"
    arriving = " or ".join(schema.name for schema in shape.tables)
    if due.arrived(Member(query, tau, query.tau), shape, tables):
        return f"the next tick, since rows have arrived in {arriving}"
    later = f"when rows arrive in {arriving}"
    if not (query.reads or shape.time_driven):
        return later
    if query.next_due is None:
        return "the next tick, which checks whether time has made answers appear"
    if query.next_due >= due.NEVER:
        return f"{later}; time alone makes no more answers from the present rows"
    makes = "can make" if query.reads else "makes"
    return f"at {format_instant(query.next_due)}, when time alone {makes} an answer appear, or {later}"
