"""What a synopsis stores, for a person to read before installing it: its formulas, its relations and their bounds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from weft.algebra.formula import Atom, Formula, rewritten
from weft.algebra.schema import DataType
from weft.derivation.synopsis.construct import COUNT, INSTANT, LAST
from weft.derivation.synopsis.triple import Change, triple
from weft.derivation.synopsis.verdict import RelationSize, size_verdict
from weft.errors import SynopsisError
from weft.formula.written import written
from weft.instants import format_interval
from weft.planning.summary import cut, first
from weft.planning.synopsis_events import Events
from weft.planning.synopsis_plan import FormulaOver, SynopsisPlan
from weft.planning.two_sorted_plan import NO_BOUND, NOT_CONSTRUCTED, verdict_on_history
from weft.printable import InLines


@dataclass(frozen=True)
class Predicate:
    """The rows of a table that a predicate of the formulas stands for: SQL of its columns and conditions (over e)."""

    name: str
    table: str
    columns: tuple[str, ...]
    conditions: tuple[str, ...]


@dataclass(frozen=True)
class Relation:
    """A stored relation: its name in the home, the subformula that it is of, its columns, its key, and its bound."""

    name: str
    formula: str
    columns: tuple[tuple[str, DataType], ...]
    key: tuple[str, ...]
    bound: str


@dataclass(frozen=True)
class Unbounded:
    """A subformula that has no bound, the reason, and the nearest one that has one (None: there is none)."""

    formula: str
    reason: str
    bounded: str | None


@dataclass(frozen=True, repr=False)
class SynopsisExplanation(InLines):
    """All that ``explain`` shows of a synopsis; ``states`` says in words what its states are."""

    signature: str
    columns: tuple[tuple[str, DataType], ...]
    states: str
    formulas: tuple[str, ...]
    predicates: tuple[Predicate, ...]
    relations: tuple[Relation, ...]
    gamma: tuple[str, ...]
    """What is answered at a state, of the state and the relations R1, R2 … in their order."""
    delta: tuple[str, ...]
    """What each relation is after a state (``R1_now``), of the state and the relations before it."""
    verdict: str
    faults: tuple[Unbounded, ...]
    history: str | None = None
    """Why it is asked of the kept history, where it is; then nothing is stored of it."""
    how_many: str | None = None
    next_due: str | None = None
    name: str | None = None
    """Of an installed query its name, and what a home knows of its answers and its next tick, in words."""

    @property
    def brief(self) -> tuple[str, ...]:
        """What a person needs before leaving it standing, in about ten lines."""
        formulas = first(self.formulas, 3, "one of {} other formulas holds")
        stored = len(self.relations)
        if self.history:
            keeps = f"Each tick with new rows reads its tables from the beginning, since {self.history}."
        else:
            keeps = f"Stored between ticks: {stored or 'no'} relation{'s' * (stored != 1)}; verdict: {self.verdict}."
        faults = [f"WARNING: no bound is known of {each.formula}" for each in self.faults]
        home = [each for each in (self.how_many, self.next_due) if each]
        return (
            "An answer appears at a state at which there holds",
            *(cut(f"  {each}{', or' if n < len(formulas) else ''}") for n, each in enumerate(formulas, 1)),
            f"where {self.states}.",
            "Time alone makes no answer appear: rows have to arrive.",
            cut(keeps),
            *(cut(each) for each in first(faults, 3, "WARNING: {} more with --full")),
            *home,
            f"weft explain {self.name or '…'} --full shows what is stored, and how it is kept.",
        )


def explain_synopsis(plan: SynopsisPlan) -> SynopsisExplanation:
    """The explanation of a synopsis."""
    events = tuple(dict.fromkeys(each for part in plan.parts for each in part.events))
    names = _names(events)
    if plan.history:
        return _of_history(plan, names, events)
    predicates = (Predicate(names[each.predicate], each.table.name, each.columns, each.conditions) for each in events)
    found = size_verdict(plan.synopsis)
    relations = (_relation(plan, each, names) for each in found.parts)
    made = triple(plan.synopsis, {each.stored: f"R{number}" for number, each in enumerate(found.parts, 1)})
    return SynopsisExplanation(
        plan.signature,
        plan.columns,
        _states(plan),
        tuple(_text(each, names) for each in plan.synopsis.formulas),
        tuple(predicates),
        tuple(relations),
        tuple(_text(each, names) for each in made.gamma),
        tuple(_rule(each, names) for each in made.delta),
        found.kind,
        tuple(
            Unbounded(
                _text(each.formula, names), each.reason, None if each.bounded is None else _text(each.bounded, names)
            )
            for each in found.faults
        ),
    )


def _of_history(plan: SynopsisPlan, names: Mapping[str, str], events: tuple[Events, ...]) -> SynopsisExplanation:
    """The explanation of what is asked of the kept history."""
    of = plan.source
    assert isinstance(of, FormulaOver)
    formulas = (of.asked,) if of.asked else tuple(_text(each, names) for each in plan.synopsis.formulas)
    return SynopsisExplanation(
        plan.signature,
        plan.columns,
        _states(plan),
        formulas,
        tuple(Predicate(names[each.predicate], each.table.name, each.columns, each.conditions) for each in events),
        *((), (), ()),
        verdict=verdict_on_history(plan.semantics),
        faults=(),
        history=of.why or "there is no synopsis of it",
    )


def require_bounded(plan: SynopsisPlan) -> None:
    """Raises SynopsisError where what is stored has no bound, with the subformula, the reason and what has one."""
    told = explain_synopsis(plan)
    if told.verdict == NO_BOUND:
        raise SynopsisError(
            f"for what {told.formulas[0]} needs of the past there is {NO_BOUND}",
            hint=f"Without --duplicates it is {NOT_CONSTRUCTED}. --allow-unbounded asks the kept history as it is.",
        )
    for fault in told.faults:
        minmax = "--language mutl-minmax bounds it by smallest and greatest counts."
        nearest = f"Bounded is {fault.bounded}. {minmax} " if fault.bounded else ""
        raise SynopsisError(
            f"what is stored of {fault.formula} has no bound: {fault.reason}",
            hint=f"{nearest}--allow-unbounded keeps it as it is.",
        )


def _states(plan: SynopsisPlan) -> str:
    if plan.points is not None:
        return f"a state is a row of {plan.points.name}: its number is tp, its time is at"
    names = " or ".join(table.name for table in plan.tables)
    return f"a state is an instant at which rows arrived in {names}"


def _names(events: tuple[Events, ...]) -> dict[str, str]:
    """Names that a person knows for predicates: those of their tables, numbered where several are of one."""
    seen: Counter[str] = Counter()
    found = {}
    for each in events:
        seen[each.table.name] += 1
        number = seen[each.table.name]
        found[each.predicate] = each.table.name if number == 1 else f"{each.table.name}_{number}"
    return found


def _text(formula: Formula, names: Mapping[str, str]) -> str:
    def named(part: Formula) -> Formula:
        return replace(part, predicate=names.get(part.predicate, part.predicate)) if isinstance(part, Atom) else part

    return written(rewritten(formula, named))


def _rule(change: Change, names: Mapping[str, str]) -> str:
    """A rule of Δ, with which instants of it are seen."""
    interval = change.interval
    seen = f" from {format_interval(interval.low)}" if interval.low else ""
    seen += "" if interval.high is None else f" up to {format_interval(interval.high)}"
    within = f", seen{seen} later" if seen else ""
    return f"{written(change.relation)} is {_text(change.formula, names)}{within}"


def _relation(plan: SynopsisPlan, part: RelationSize, names: Mapping[str, str]) -> Relation:
    stored = part.stored
    others = {COUNT, LAST} if stored.several else {COUNT, LAST, INSTANT}
    key = tuple(name for name, _ in stored.columns if name not in others)
    bound = f"at most {part.tuples} rows" + (f", counts of {part.counters}" if part.counters else "")
    return Relation(plan.relation(stored), _text(stored.formula, names), stored.columns, key, bound)
