"""Plan formulas of temporal logic as standing queries over a home's tables, where each predicate is a table.

A two-sorted formula becomes a nest of ◇1 with a synopsis if it is a union of conjunctive queries (Toman 2007, section
4.2).  A two-sorted formula that is no union of conjunctive queries reads the stored history.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from weft.algebra.formula import POINTS, Atom, Formula, subformulas, undated
from weft.algebra.schema import BIGINT, STRING, TIMESTAMP, TableSchema
from weft.derivation.synopsis.divisions import unguarded
from weft.derivation.synopsis.prepared import Semantics, prepared
from weft.derivation.synopsis.two_sorted import nest
from weft.errors import FormulaError, Reasons, SynopsisError
from weft.formula.monitorable import answerable, monitorable
from weft.formula.parse_formula import ParsedFormula, counted_reading, reading
from weft.formula.signature import Predicate
from weft.formula.twofol.over_history import over_history
from weft.formula.twofol.resolve import TwoSorted, two_sorted
from weft.formula.twofol.written import two_sorted_text
from weft.formula.written import bare_text
from weft.planning.stored_synopsis import Language
from weft.planning.synopsis_events import terms_of
from weft.planning.synopsis_plan import AT, TIME_POINTS, TP, FormulaOver, SynopsisPlan, complete

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SEMANTICS: Final[Mapping[Language, Semantics]] = {"mutl": "bag", "mutl-minmax": "minmax"}


def formula_synopsis(
    text: str, language: Language, tables: Mapping[str, TableSchema], *, duplicates: bool = False
) -> SynopsisPlan:
    """Return the synopsis plan of the formula ``text``.  ``tables`` maps the name of each predicate to its table.

    If ``duplicates`` is true, the answers of a formula of 2-FOL have counts.  The answers of µTL always have counts.

    Raise FormulaError for an invalid formula or for infinitely many answers.  Raise SynopsisError for a table that a
    formula cannot read.  Raise SynopsisError also for a divisor that may be 0, because a division by 0 would make every
    later tick fail.
    """
    points = _points(tables)
    logs = {name for name, table in tables.items() if points is not None and _numbered(table)} - {TIME_POINTS}
    names = set(_NAME.findall(text))
    signature = {}
    reasons = Reasons()
    for name, table in tables.items():
        terms = terms_of(table, log=name in logs)
        if name in names:
            with reasons.part():
                _require_only_added(table)
        if table.source == "table" and name != TIME_POINTS:
            unnamed = {place: str(column.type) for place, (column, type_) in enumerate(terms) if type_ is None}
            types = tuple(type_ or STRING for _, type_ in terms)
            signature[name] = Predicate(name, types, tuple(column.name for column, _ in terms), unnamed)
    reasons.check()
    semantics: Semantics = _SEMANTICS.get(language, "bag" if duplicates else "set")
    original = history = None
    if language == "2fol":
        formula = two_sorted(text, signature)
        plan = planned(formula, semantics)
        read_formula, original, history = plan.reading, two_sorted_text(formula.formula), plan.history
    else:
        read_formula = reading(text, signature) if language == "monpoly" else counted_reading(text, signature)
    _require_divisors(read_formula.formula, semantics)
    atoms = {part.predicate for part in subformulas(read_formula.formula) if isinstance(part, Atom)} - {POINTS}
    read = sorted({undated(name) or name for name in atoms})
    over = {name: tables[name] for name in read}
    _require_one_kind(over, logs)
    of_log = points if logs & over.keys() else None
    over_tables = FormulaOver(
        language, read_formula.formula, read_formula.columns, semantics, over, of_log, original, history
    )
    return complete(SynopsisPlan(over_tables))


def _points(tables: Mapping[str, TableSchema]) -> TableSchema | None:
    """Return None if the home has no table of time points."""
    table = tables.get(TIME_POINTS)
    at = None if table is None else table.column(AT)
    return table if table is not None and _numbered(table) and at is not None and at.type == TIMESTAMP else None


def _numbered(table: TableSchema) -> bool:
    column = table.column(TP)
    return column is not None and column.type == BIGINT


def _require_only_added(table: TableSchema) -> None:
    if table.source == "results" or not table.append_only:
        raise SynopsisError(
            f"a formula cannot read {table.name}: the table is not an append-only table of the home",
            hint="Use an append-only table as the predicate.",
        )


def _require_divisors(formula: Formula, semantics: Semantics) -> None:
    quotient = unguarded(prepared(formula, semantics), semantics)
    if quotient is not None:
        division, divisor = (bare_text(term) for term in (quotient, quotient.arguments[1]))
        condition = f"NOT ({divisor} = 0)" if semantics == "set" else f"{divisor} <> 0"
        raise SynopsisError(
            f"{divisor} may be 0 in {division}, and a division by 0 would stop the query permanently",
            hint=f"Exclude the rows in which {divisor} is 0: AND {condition}",
        )


def _require_one_kind(over: Mapping[str, TableSchema], logs: set[str]) -> None:
    """A log and other tables have different states, so a formula must not read both."""
    if not over:
        raise SynopsisError("the formula names no table", hint="Name its predicates after tables.")
    others = over.keys() - logs
    if others and logs & over.keys():
        raise SynopsisError(
            f"{min(logs & over.keys())} belongs to the log of {TIME_POINTS}, but {min(others)} does not",
            hint="Use only tables of the log, or none of them.",
        )


NOT_CONSTRUCTED: Final = "bounded by Proposition 2.4, not constructed here"
NO_BOUND: Final = "no bound guaranteed (Theorem 3.2)"
"""The verdict on answers with duplicates, if the formula is not a union of conjunctive queries.

``NOT_CONSTRUCTED`` is the verdict for sets.
"""


def verdict_on_history(semantics: Semantics) -> str:
    """Return the verdict on the size of the state for a formula that reads the stored history."""
    return NOT_CONSTRUCTED if semantics == "set" else NO_BOUND


@dataclass(frozen=True)
class TwoSortedPlan:
    """The formula that Weft evaluates in place of a formula of 2-FOL.

    ``history`` is the reason why the formula reads the stored history, or None for a synopsis.
    """

    reading: ParsedFormula
    history: str | None


def planned(formula: TwoSorted, semantics: Semantics) -> TwoSortedPlan:
    """Return the plan of ``formula``.  Raise FormulaError if the formula has infinitely many answers."""
    counts = semantics != "set"
    historic = over_history(formula.formula, counts=counts)
    try:
        nests = answerable(monitorable(nest(formula.formula, counts=counts), counts=counts))
    except SynopsisError as error:
        return TwoSortedPlan(ParsedFormula(historic, formula.columns), error.message)
    except FormulaError:
        return TwoSortedPlan(
            ParsedFormula(historic, formula.columns), "its comparisons bind variables that its predicates do not"
        )
    return TwoSortedPlan(ParsedFormula(nests, formula.columns), None)
