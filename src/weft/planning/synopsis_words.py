"""Explain a synopsis before it is installed: its formulas, its stored relations, and their bounds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from weft.algebra.formula import Atom, Formula, rewritten
from weft.algebra.schema import DataType
from weft.derivation.synopsis.construct import COUNT, INSTANT, LAST
from weft.derivation.synopsis.triple import DeltaRule, triple
from weft.derivation.synopsis.verdict import RelationSize, size_verdict
from weft.errors import SynopsisError
from weft.formula.written import written
from weft.instants import format_interval
from weft.planning.formula_plan import NO_BOUND, NOT_CONSTRUCTED, verdict_on_history
from weft.planning.summary import cut, first
from weft.planning.synopsis_events import Events
from weft.planning.synopsis_plan import FormulaOver, SynopsisPlan
from weft.printable import InLines


@dataclass(frozen=True)
class PredicateRows:
    """The rows of a predicate: a table with the alias ``e``, and SQL for the columns and conditions."""

    name: str
    table: str
    columns: tuple[str, ...]
    conditions: tuple[str, ...]


@dataclass(frozen=True)
class RelationSummary:
    """A stored relation, with its name in the home, its subformula, its columns, its key, and its bound in words."""

    name: str
    formula: str
    columns: tuple[tuple[str, DataType], ...]
    key: tuple[str, ...]
    bound: str


@dataclass(frozen=True)
class MissingBound:
    """A subformula without a bound, and the reason.  ``bounded`` is the nearest subformula with a bound, or None."""

    formula: str
    reason: str
    bounded: str | None


@dataclass(frozen=True, repr=False)
class SynopsisExplanation(InLines):
    """The output of ``explain`` for a synopsis.  ``states`` is a clause that describes a state."""

    signature: str
    columns: tuple[tuple[str, DataType], ...]
    states: str
    formulas: tuple[str, ...]
    predicates: tuple[PredicateRows, ...]
    relations: tuple[RelationSummary, ...]
    gamma: tuple[str, ...]
    """The formulas for the answers at a state, over the rows of the state and the relations R1, R2 …."""
    delta: tuple[str, ...]
    """The rules that compute each relation after a state (``R1_now``) from the state and the previous relations."""
    verdict: str
    faults: tuple[MissingBound, ...]
    history: str | None = None
    """The reason why each tick reads the stored history, or None if the synopsis stores relations."""
    how_many: str | None = None
    next_due: str | None = None
    name: str | None = None
    """The name of an installed query, or None.  Only an installed query has the fields ``how_many`` and
    ``next_due``.
    """

    @property
    def brief(self) -> tuple[str, ...]:
        """About ten lines of text with the most important facts."""
        formulas = first(self.formulas, 3, "one of {} other formulas")
        stored = len(self.relations)
        if self.history:
            keeps = f"Each tick with new rows reads the tables of the query from the beginning, because {self.history}."
        else:
            keeps = f"Stored between ticks: {stored or 'no'} relation{'s' * (stored != 1)}; verdict: {self.verdict}."
        faults = [f"WARNING: no known bound for {each.formula}" for each in self.faults]
        home = [each for each in (self.how_many, self.next_due) if each]
        return (
            "An answer appears at a state that satisfies",
            *(cut(f"  {each}{', or' if n < len(formulas) else ''}") for n, each in enumerate(formulas, 1)),
            f"where {self.states}.",
            "Time alone makes no answer appear: rows must arrive.",
            cut(keeps),
            *(cut(each) for each in first(faults, 3, "WARNING: {} more with --full")),
            *home,
            f"weft explain {self.name or '…'} --full shows what is stored, and how it is maintained.",
        )


def explain_synopsis(plan: SynopsisPlan) -> SynopsisExplanation:
    """Return the explanation of a synopsis."""
    events = tuple(dict.fromkeys(each for part in plan.parts for each in part.events))
    names = _names(events)
    if plan.history:
        return _of_history(plan, names, events)
    predicates = (
        PredicateRows(names[each.predicate], each.table.name, each.columns, each.conditions) for each in events
    )
    size = size_verdict(plan.synopsis)
    relations = (_relation(plan, each, names) for each in size.parts)
    rules = triple(plan.synopsis, {each.stored: f"R{number}" for number, each in enumerate(size.parts, 1)})
    return SynopsisExplanation(
        plan.signature,
        plan.columns,
        _states(plan),
        tuple(_text(each, names) for each in plan.synopsis.formulas),
        tuple(predicates),
        tuple(relations),
        tuple(_text(each, names) for each in rules.gamma),
        tuple(_rule(each, names) for each in rules.delta),
        size.kind,
        tuple(
            MissingBound(
                _text(each.formula, names), each.reason, None if each.bounded is None else _text(each.bounded, names)
            )
            for each in size.faults
        ),
    )


def _of_history(plan: SynopsisPlan, names: Mapping[str, str], events: tuple[Events, ...]) -> SynopsisExplanation:
    source = plan.source
    assert isinstance(source, FormulaOver)
    formulas = (source.asked,) if source.asked else tuple(_text(each, names) for each in plan.synopsis.formulas)
    return SynopsisExplanation(
        plan.signature,
        plan.columns,
        _states(plan),
        formulas,
        tuple(PredicateRows(names[each.predicate], each.table.name, each.columns, each.conditions) for each in events),
        *((), (), ()),
        verdict=verdict_on_history(plan.semantics),
        faults=(),
        history=source.why or "the formula has no synopsis",
    )


def require_bounded(plan: SynopsisPlan) -> None:
    """Raise SynopsisError with the reason and an alternative if a stored relation has no bound."""
    explanation = explain_synopsis(plan)
    if explanation.verdict == NO_BOUND:
        raise SynopsisError(
            f"the state that {explanation.formulas[0]} needs has {NO_BOUND}",
            hint=(
                f"Without --duplicates the state is {NOT_CONSTRUCTED}. With --allow-unbounded Weft reads the "
                "stored history."
            ),
        )
    for fault in explanation.faults:
        minmax = "--language mutl-minmax bounds the relation by the smallest and greatest counts."
        nearest = f"{fault.bounded} has a bound. {minmax} " if fault.bounded else ""
        raise SynopsisError(
            f"the stored relation for {fault.formula} has no bound: {fault.reason}",
            hint=f"{nearest}Add --allow-unbounded to store the relation anyway.",
        )


def _states(plan: SynopsisPlan) -> str:
    if plan.points is not None:
        return (
            f"a state is a row of {plan.points.name}: the column tp has the state's number, and the column at has "
            "its time"
        )
    names = " or ".join(table.name for table in plan.tables)
    return f"a state is an instant at which rows arrived in {names}"


def _names(events: tuple[Events, ...]) -> dict[str, str]:
    """The name of a predicate is the name of its table, with a number if the table has several predicates."""
    seen: Counter[str] = Counter()
    names = {}
    for each in events:
        seen[each.table.name] += 1
        number = seen[each.table.name]
        names[each.predicate] = each.table.name if number == 1 else f"{each.table.name}_{number}"
    return names


def _text(formula: Formula, names: Mapping[str, str]) -> str:
    def named(part: Formula) -> Formula:
        return replace(part, predicate=names.get(part.predicate, part.predicate)) if isinstance(part, Atom) else part

    return written(rewritten(formula, named))


def _rule(change: DeltaRule, names: Mapping[str, str]) -> str:
    interval = change.interval
    seen = f" from {format_interval(interval.low)}" if interval.low else ""
    seen += "" if interval.high is None else f" up to {format_interval(interval.high)}"
    within = f", seen{seen} later" if seen else ""
    return f"{written(change.relation)} is {_text(change.formula, names)}{within}"


def _relation(plan: SynopsisPlan, part: RelationSize, names: Mapping[str, str]) -> RelationSummary:
    stored = part.stored
    others = {COUNT, LAST} if stored.several else {COUNT, LAST, INSTANT}
    key = tuple(name for name, _ in stored.columns if name not in others)
    bound = f"at most {part.tuples} rows" + (f", counts of {part.counters}" if part.counters else "")
    return RelationSummary(plan.relation(stored), _text(stored.formula, names), stored.columns, key, bound)
