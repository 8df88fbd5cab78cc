"""Explain a query over the tables of the home, or over the table that a first load of mail creates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from weft.algebra.schema import STRING, TIMESTAMP, Column, DataType, TableSchema
from weft.catalog import layout
from weft.catalog.address import CatalogAddress
from weft.errors import Refused, SynopsisError
from weft.planning.explain import AskedOnce, Explanation, asked_once, explain
from weft.planning.how_many import TableExtent, how_many
from weft.planning.note import Note
from weft.planning.plan import plan, standing_plan
from weft.planning.stored_synopsis import Language
from weft.planning.synopsis_plan import SynopsisPlan, sql_synopsis
from weft.sql.lower.ordering import order_of

if TYPE_CHECKING:
    from weft.catalog import CatalogParts
    from weft.planning.synopsis_words import SynopsisExplanation

_MAIL = ("msgid", "sender", "subject", "date", "newsgroup", "inreplyto", "body", "ts")
"""The columns of ``extraction.mail``, repeated to avoid an import of that module.
A test compares the two lists.
"""


@dataclass(frozen=True)
class Known:
    """The tables over which a query is explained, with their known sizes (``extents``).

    If the tables are assumed, ``assumed`` is the reason, otherwise None.
    """

    schemas: Mapping[str, TableSchema]
    assumed: str | None
    extents: Mapping[str, TableExtent] = field(default_factory=dict)


NOT_INSTALLED: Final = "Next due: the next tick after `weft install`."


def mail_schema() -> TableSchema:
    """Return the schema of the table that ``weft ingest mail`` creates."""

    def kind(name: str) -> DataType:
        return TIMESTAMP if name in ("date", "ts") else STRING

    columns = (Column(n, name, kind(name), name != "ts") for n, name in enumerate(_MAIL, 1))
    return TableSchema(1, "msgs", tuple(columns))


def known_tables(home: Path, at: int, sql: str) -> Known:
    """Return the tables that the query ``sql`` may read.

    If the home does not exist or has no table, return the table that a first load of mail would create.  Raises
    CatalogError if the catalog is damaged.  Also raises CatalogError if the home has data but no catalog.
    """
    address = CatalogAddress.of(home)
    if address.is_noted or layout.has_data(address.data):
        from weft.catalog import definitions, open_catalog

        with open_catalog(home, at=at) as catalog:
            schemas = definitions.schemas(catalog, sql)
            if schemas:
                return Known(schemas, None, extents(catalog, schemas))
        missing = "has no tables yet"
    else:
        missing = "is not a Weft home yet"
    assumed = f"{home} {missing}: the explanation assumes the table msgs that `weft ingest mail` creates"
    return Known({"msgs": mail_schema()}, assumed)


def extents(catalog: CatalogParts, schemas: Mapping[str, TableSchema]) -> dict[str, TableExtent]:
    """Return the sizes of the tables and results that a query reads."""
    tables = catalog.tables.all()
    views = {view.table_id for view in catalog.views.all()}
    sizes = {
        table.name: TableExtent(table.rows, table.first_ts, table.last_ts, table.table_id in views) for table in tables
    }
    results = [schema for schema in schemas.values() if schema.source == "results"]
    for query in catalog.queries.by_ids([schema.id for schema in results]):
        sizes[query.results.name] = TableExtent(query.rows, None, query.last_first_at)
    return {name: sizes[name] for name in schemas if name in sizes}


def rows_of(extents: Mapping[str, TableExtent]) -> dict[str, int]:
    """Return the numbers of rows of tables, without views, which are refreshed before they are read."""
    return {name: each.rows for name, each in extents.items() if not each.view}


def sql_asked_once(sql: str, known: Known) -> AskedOnce:
    """Return the SQL that ``weft try`` runs at the instant ``:t``.  Raise SqlError."""
    return asked_once(plan(sql, known.schemas), rows_of(known.extents))


def synopsis_explanation(
    sql: str, known: Known, language: Language = "sql", *, duplicates: bool = False, keep: bool = False
) -> SynopsisExplanation:
    """Explain a query that Weft maintains as a synopsis.  Raise SqlError, FormulaError, SynopsisError or Refused."""
    from weft.planning.synopsis_words import explain_synopsis

    compiled = synopsis_plan(sql, known.schemas, language, duplicates=duplicates, keep=keep)
    return replace(explain_synopsis(compiled), next_due=NOT_INSTALLED)


def synopsis_plan(
    text: str, tables: Mapping[str, TableSchema], language: Language, *, duplicates: bool, keep: bool
) -> SynopsisPlan:
    """Compile a query that Weft maintains as a synopsis.  Raise the same errors as ``synopsis_explanation``.

    With ``duplicates``, the answers of a 2fol formula have counts.  With ``keep``, a formula without a synopsis raises
    SynopsisError.
    """
    if duplicates and language != "2fol":
        raise Refused(
            f"--duplicates applies to 2fol formulas, but the language is {language}",
            hint="Omit --duplicates: mutl always counts duplicates, and sql and monpoly never count duplicates.",
        )
    if language == "sql":
        return sql_synopsis(text, tables)
    from weft.planning.formula_plan import formula_synopsis

    compiled = formula_synopsis(text, language, tables, duplicates=duplicates)
    if keep and compiled.history:
        from weft.planning.synopsis_words import explain_synopsis

        explanation = explain_synopsis(compiled)
        raise SynopsisError(
            f"{explanation.history}; the verdict on the formula is: {explanation.verdict}", hint="Omit --keep synopsis."
        )
    return compiled


def explain_query(sql: str, known: Known, *, from_now: bool = False) -> Explanation:
    """Return an explanation of a query.  Raise SqlError if Weft does not support the query."""
    explanation = explain(standing_plan(sql, known.schemas, from_now=from_now)).sized(rows_of(known.extents))
    notes = (*explanation.notes, *_synopsis_note(sql, known, from_now=from_now))
    estimate = how_many(explanation.summary, known.extents, from_now=from_now)
    return with_order(replace(explanation, notes=notes, how_many=estimate, next_due=NOT_INSTALLED), sql)


def with_order(explanation: Explanation, sql: str) -> Explanation:
    """If the query has an ORDER BY, add a note about ORDER BY to the explanation."""
    if not order_of(sql, [name for name, _ in explanation.columns]):
        return explanation
    text = (
        "ORDER BY sorts the output of `weft try` and `weft results`; Weft delivers and numbers answers as they appear"
    )
    warnings = [note for note in explanation.notes if note.level == "warning"]
    others = [note for note in explanation.notes if note.level != "warning"]
    return replace(explanation, notes=(*warnings, Note("note", text, text), *others))


def _synopsis_note(sql: str, known: Known, *, from_now: bool) -> list[Note]:
    try:
        stored = () if from_now else sql_synopsis(sql, known.schemas).synopsis.stored
    except Refused:
        return []
    if not stored:
        return []
    relations = "one relation" if len(stored) == 1 else f"{len(stored)} relations"
    text = (
        "with --keep synopsis, the ticks of this query would need neither Spark nor the history, but would store "
        f"{relations}"
    )
    line = "with --keep synopsis, ticks need no Spark and no history: see explain --keep synopsis"
    return [Note("note", f"{text}: see explain --keep synopsis", line)]
