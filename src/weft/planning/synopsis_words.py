"""What a synopsis stores, for a person to read before installing it: its formulas, its relations and their bounds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from weft.algebra.formula import Atom, Formula, Interval, Once, Since, rewritten
from weft.algebra.schema import DataType
from weft.derivation.synopsis.construct import COUNT, INSTANT, Stored
from weft.formula.written import written
from weft.instants import format_interval
from weft.planning.synopsis_events import Events
from weft.planning.synopsis_plan import SynopsisPlan


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
class SynopsisExplanation:
    """All that ``explain`` shows of a synopsis; ``states`` says in words what its states are."""

    signature: str
    columns: tuple[tuple[str, DataType], ...]
    states: str
    formulas: tuple[str, ...]
    predicates: tuple[Predicate, ...]
    relations: tuple[Relation, ...]


def explain_synopsis(plan: SynopsisPlan) -> SynopsisExplanation:
    """The explanation of a synopsis."""
    events = tuple(dict.fromkeys(each for part in plan.parts for each in part.events))
    names = _names(events)
    predicates = (Predicate(names[each.predicate], each.table.name, each.columns, each.conditions) for each in events)
    relations = (_relation(plan, each, names) for each in plan.synopsis.stored)
    return SynopsisExplanation(
        plan.signature,
        plan.columns,
        _states(plan),
        tuple(_text(each, names) for each in plan.synopsis.formulas),
        tuple(predicates),
        tuple(relations),
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
        return replace(part, predicate=names[part.predicate]) if isinstance(part, Atom) else part

    return written(rewritten(formula, named))


def _relation(plan: SynopsisPlan, stored: Stored, names: Mapping[str, str]) -> Relation:
    key = tuple(name for name, _ in stored.columns if name != COUNT and (name != INSTANT or stored.several))
    return Relation(plan.relation(stored), _text(stored.formula, names), stored.columns, key, _bound(stored))


def _bound(stored: Stored) -> str:
    """How many rows it may have, |D| being the number of values that are there."""
    power = len(stored.variables)
    rows = "1 row" if not power else f"|D|^{power} rows" if power > 1 else "|D| rows"
    match stored.formula:
        case Once(interval=interval) | Since(interval=interval) if stored.several and interval.high is not None:
            return f"at most {rows} for each state of {_length(interval)}"
        case _:
            return f"at most {rows}, however long the history is"


def _length(interval: Interval) -> str:
    assert interval.high is not None
    return f"the last {format_interval(interval.high)}"
