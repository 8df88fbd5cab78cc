"""Explaining a query: its tables from the home at one glance, or the one that a first load of mail would make."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from weft.algebra.schema import STRING, TIMESTAMP, Column, DataType, TableSchema
from weft.catalog import layout
from weft.catalog.glance import table_schemas, table_sizes
from weft.catalog.naming import queries_mentioned, words
from weft.errors import Refused, SynopsisError
from weft.planning.explain import Explanation, asked_once, explain
from weft.planning.how_many import Extent, how_many
from weft.planning.plan import plan, standing_plan
from weft.planning.synopsis_plan import Language, SynopsisPlan, sql_synopsis
from weft.planning.synopsis_words import SynopsisExplanation, explain_synopsis
from weft.planning.warnings import Note
from weft.sql.ordering import order_of

if TYPE_CHECKING:
    from collections.abc import Mapping

_MAIL = ("msgid", "sender", "subject", "date", "newsgroup", "inreplyto", "body", "ts")
"""The columns of ``extraction.mail`` (a test holds the two together): explaining a query loads nothing of it."""


@dataclass(frozen=True)
class Known:
    """The tables that a query is explained over; ``assumed`` says why they are not a home's own (None: they are).

    ``extents`` says how much is in those of which that is known.
    """

    schemas: Mapping[str, TableSchema]
    assumed: str | None
    extents: Mapping[str, Extent] = field(default_factory=dict)


NOT_INSTALLED: Final = "Next due: with the next tick after `weft install`."


def mail_schema() -> TableSchema:
    """The table that ``weft ingest mail`` makes."""

    def kind(name: str) -> DataType:
        return TIMESTAMP if name in ("date", "ts") else STRING

    columns = (Column(n, name, kind(name), name != "ts") for n, name in enumerate(_MAIL, 1))
    return TableSchema(1, "msgs", tuple(columns))


def known_tables(home: Path, at: int, sql: str) -> Known:
    """What the query ``sql`` may name; where there is no home or no table yet, the table of mail.

    Raises CatalogError for a home whose catalog is damaged, or gone while its data is there.
    """
    names = queries_mentioned(sql)
    found = table_schemas(home, names, words(sql))
    if found is None and (layout.catalog_file(home).exists() or layout.has_data(home)):
        from weft.catalog import open_catalog
        from weft.catalog.definitions import schemas

        with open_catalog(home, at=at) as catalog:
            found = schemas(catalog, sql)
    if found:
        sizes = table_sizes(home, names)
        return Known(found, None, {name: Extent(*sizes[name]) for name in found if name in sizes})
    missing = "has no tables yet" if found is not None else "is not a home yet"
    assumed = f"{home} {missing}: explained over the table msgs that `weft ingest mail` makes"
    return Known({"msgs": mail_schema()}, assumed)


def asked(sql: str, known: Known) -> tuple[str, tuple[str, ...]]:
    """A query, normalized, and what ``weft try`` runs of it at one instant (``:t``); raises SqlError."""
    found = plan(sql, known.schemas)
    return found.text, asked_once(found)


def synopsis_of(
    sql: str, known: Known, language: Language = "sql", *, duplicates: bool = False, keep: bool = False
) -> SynopsisExplanation:
    """Explains a query that is kept as a synopsis; raises SqlError, FormulaError, SynopsisError, Refused."""
    found = explain_synopsis(synopsis_plan(sql, known.schemas, language, duplicates=duplicates, keep=keep))
    return replace(found, next_due=NOT_INSTALLED)


def synopsis_plan(
    text: str, tables: Mapping[str, TableSchema], language: Language, *, duplicates: bool, keep: bool
) -> SynopsisPlan:
    """The plan of a query that is kept as a synopsis; raises as ``synopsis_of``.

    ``duplicates``: those of 2fol count; ``keep``: a formula that has no synopsis is refused.
    """
    if duplicates and language != "2fol":
        raise Refused(
            f"--duplicates is for formulas of 2fol, and this is {language}",
            hint="Leave it out: mutl always counts duplicates, sql and monpoly never do.",
        )
    if language == "sql":
        return sql_synopsis(text, tables)
    from weft.planning.formula_plan import formula_synopsis

    found = formula_synopsis(text, language, tables, duplicates=duplicates)
    if keep and found.history:
        told = explain_synopsis(found)
        raise SynopsisError(f"{told.history}; its verdict: {told.verdict}", hint="Leave --keep synopsis out.")
    return found


def explained(sql: str, known: Known, *, from_now: bool = False) -> Explanation:
    """Explains a query; raises SqlError, with what was assumed, where it cannot stand."""
    found = explain(standing_plan(sql, known.schemas, from_now=from_now))
    told = (*found.notes, *_offers(sql, known, from_now=from_now))
    counted = how_many(found.summary, known.extents, from_now=from_now)
    return with_order(replace(found, notes=told, how_many=counted, next_due=NOT_INSTALLED), sql)


def with_order(found: Explanation, sql: str) -> Explanation:
    """The explanation with a note on what the ORDER BY of the query's text does."""
    if not order_of(sql, [name for name, _ in found.columns]):
        return found
    told = "ORDER BY sorts what `weft try` and `weft results` show; answers are delivered and numbered as they appear"
    warnings = [note for note in found.notes if note.level == "warning"]
    others = [note for note in found.notes if note.level != "warning"]
    return replace(found, notes=(*warnings, Note("note", told, told), *others))


def _offers(sql: str, known: Known, *, from_now: bool) -> list[Note]:
    """That it may be kept as a synopsis, where it joins what came before with what comes."""
    try:
        stored = () if from_now else sql_synopsis(sql, known.schemas).synopsis.stored
    except Refused:
        return []
    if not stored:
        return []
    relations = "one relation" if len(stored) == 1 else f"{len(stored)} relations"
    told = f"with --keep synopsis its ticks would need neither Spark nor the history, but {relations} that they store"
    line = "with --keep synopsis its ticks need no Spark and no history: see explain --keep synopsis"
    return [Note("note", f"{told}: see explain --keep synopsis", line)]
