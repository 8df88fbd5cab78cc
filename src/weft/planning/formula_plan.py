"""Formulas of temporal logic as standing queries: their predicates are a home's tables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from weft.algebra.formula import Atom, Formula, subformulas
from weft.algebra.schema import BIGINT, STRING, TIMESTAMP, TableSchema
from weft.algebra.two_sorted import POINTS, undated
from weft.derivation.synopsis.divisions import unguarded
from weft.derivation.synopsis.prepared import Semantics, prepared
from weft.errors import Reasons, SynopsisError
from weft.formula.parse_formula import counted_reading, reading
from weft.formula.signature import Predicate
from weft.formula.twofol.resolve import two_sorted
from weft.formula.twofol.written import two_sorted_text
from weft.formula.written import bare_text
from weft.planning.synopsis_events import terms_of
from weft.planning.synopsis_plan import AT, TIME_POINTS, TP, FormulaOver, Language, SynopsisPlan, complete
from weft.planning.two_sorted_plan import planned

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SEMANTICS: Final[Mapping[Language, Semantics]] = {"mutl": "bag", "mutl-minmax": "minmax"}


def formula_synopsis(
    text: str, language: Language, tables: Mapping[str, TableSchema], *, duplicates: bool = False
) -> SynopsisPlan:
    """The synopsis of a formula's text, whose predicates are named as the tables.

    ``duplicates``: those of a formula of two sorts count, as those of µTL always do.

    Raises FormulaError for what is no formula or has no finite answers, SynopsisError for tables that cannot be read
    and for a division that may be by 0, at which a tick would fail for ever.
    """
    points = _points(tables)
    logs = {name for name, table in tables.items() if points is not None and _numbered(table)} - {TIME_POINTS}
    named = set(_NAME.findall(text))
    signature = {}
    reasons = Reasons()
    for name, table in tables.items():
        terms = terms_of(table, log=name in logs)
        if name in named:
            with reasons.part():
                _require_only_added(table)
        if table.source == "table" and name != TIME_POINTS:
            unnamed = {place: str(column.type) for place, (column, type_) in enumerate(terms) if type_ is None}
            types = tuple(type_ or STRING for _, type_ in terms)
            signature[name] = Predicate(name, types, tuple(column.name for column, _ in terms), unnamed)
    reasons.check()
    semantics: Semantics = _SEMANTICS.get(language, "bag" if duplicates else "set")
    asked = why = None
    if language == "2fol":
        given = two_sorted(text, signature)
        plan = planned(given, semantics)
        found, asked, why = plan.reading, two_sorted_text(given.formula), plan.history
    else:
        found = reading(text, signature) if language == "monpoly" else counted_reading(text, signature)
    _require_divisors(found.formula, semantics)
    atoms = {part.predicate for part in subformulas(found.formula) if isinstance(part, Atom)} - {POINTS}
    read = sorted({undated(name) or name for name in atoms})
    over = {name: tables[name] for name in read}
    _require_one_kind(over, logs)
    of_log = points if logs & over.keys() else None
    over_tables = FormulaOver(language, found.formula, found.columns, semantics, over, of_log, asked, why)
    return complete(SynopsisPlan(over_tables))


def _points(tables: Mapping[str, TableSchema]) -> TableSchema | None:
    """The table of all states of a log, where there is one."""
    found = tables.get(TIME_POINTS)
    at = None if found is None else found.column(AT)
    return found if found is not None and _numbered(found) and at is not None and at.type == TIMESTAMP else None


def _numbered(table: TableSchema) -> bool:
    column = table.column(TP)
    return column is not None and column.type == BIGINT


def _require_only_added(table: TableSchema) -> None:
    if table.source == "results" or not table.append_only:
        raise SynopsisError(
            f"a formula cannot speak of {table.name}: its rows are answers of another query, or end",
            hint="A predicate is a table that rows are only added to.",
        )


def _require_divisors(formula: Formula, semantics: Semantics) -> None:
    """Raises SynopsisError for a division of integers whose divisor nothing beside it keeps from being 0."""
    found = unguarded(prepared(formula, semantics), semantics)
    if found is not None:
        division, divisor = (bare_text(term) for term in (found, found.arguments[1]))
        condition = f"NOT ({divisor} = 0)" if semantics == "set" else f"{divisor} <> 0"
        raise SynopsisError(
            f"nothing keeps {divisor} from being 0 in {division}, and a division by 0 would stop the query for ever",
            hint=f"Say beside it which rows are meant: AND {condition}",
        )


def _require_one_kind(over: Mapping[str, TableSchema], logs: set[str]) -> None:
    """All tables are of the log, or none: else their states are not the same."""
    if not over:
        raise SynopsisError("the formula speaks of no table", hint="Name its predicates as the tables.")
    others = over.keys() - logs
    if others and logs & over.keys():
        raise SynopsisError(
            f"{min(logs & over.keys())} is of a log whose states are those of {TIME_POINTS}, and {min(others)} is not",
            hint="Speak of tables of the one kind.",
        )
