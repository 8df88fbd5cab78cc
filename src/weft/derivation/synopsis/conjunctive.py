"""Translate SQL over past and present rows to formulas, as nests of ◇ (Toman 2007, section 4.2).

    ∃t1 … tk, ȳ. S(t1, x̄1) ∧ … ∧ S(tk, x̄k) ∧ φ ∧ ψ  =  ⋁ over the weak orders of ψ:  G1 ∧ ▽◇(G2 ∧ ▽◇(G3 ∧ …))

Here S(t, x̄) is a row x̄ that a table has at the instant t.  φ is the condition on values, and ψ is the condition on
instants.  A weak order divides the rows into groups of equal instants.  G1, G2 … are the conjunctions of the groups,
beginning with the latest group.  The paper's nest has ◇ without ▽, so it allows G1 and G2 at the same instant.  This
translation omits the outermost ◇, because Weft delivers an answer at the instant of its latest row.

If two neighbours in the order must lie within an interval, the ◇ between them has that interval.  This ◇ needs no ▽,
because its interval excludes the present.  A state is an instant at which rows arrived.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, reduce
from itertools import chain, count
from typing import Final

from weft.algebra import formula as past
from weft.algebra import relation as rows
from weft.algebra.formula import (
    ALWAYS,
    Atom,
    Comparison,
    Formula,
    Interval,
    Once,
    Or,
    Previous,
    Variable,
)
from weft.algebra.relation import (
    Distinct,
    NotExists,
    NowBefore,
    NowFrom,
    Output,
    Plain,
    Predicate,
    Project,
    Query,
    Relation,
    Scan,
    Union,
    attributes,
    block,
    condition,
    conjunction,
    conjuncts,
    sources,
)
from weft.algebra.scalar import Call, ColumnRef, Literal, Scalar, columns, plus, shifted
from weft.algebra.scalar import conjuncts as scalar_conjuncts
from weft.algebra.schema import INTERVAL
from weft.algebra.traverse import substitute
from weft.derivation.synopsis.distances import LATER, Distance, Distances, Order, allowed_orders, nested
from weft.errors import SynopsisError

MOST_TABLES: Final = 5
"""One SELECT has at most this number of tables.  Five tables have 541 weak orders, and six tables have 4,683."""
ANSWER: Final = "answer"
_WITHOUT_NOW: Final = (
    "Omit --keep synopsis, or compare the ts of two tables instead: for example a.ts < b.ts - INTERVAL 1 DAY."
)
"""The range variable for the outputs of a ``Nest``."""


@dataclass(frozen=True)
class Nest:
    """A SELECT as a formula.

    ``inputs`` has one relation for each predicate of the formula.  Each relation returns the rows that one table adds
    in a state.  ``outputs`` are the columns of the answer, as scalars over ``ColumnRef(ANSWER, variable)``.  ``orders``
    are the weak orders of the SELECT's tables.
    """

    inputs: tuple[Project, ...]
    formula: Formula
    outputs: tuple[Output, ...]
    orders: tuple[Order, ...]


def nests(query: Query) -> tuple[Nest, ...]:
    """Return one nest for each SELECT of a query.

    The query's answer is the set of distinct rows of all nests.  Raise SynopsisError if the query is not a union of
    conjunctive queries.  Raise SynopsisError also if the query limits the distance of two instants, and rows of another
    table may lie between them.
    """
    return tuple(_nest(*select) for select in _selects(query.input, query.outputs))


def _selects(relation: Relation, outputs: tuple[Output, ...]) -> Iterator[tuple[Relation, tuple[Output, ...]]]:
    match relation:
        case Distinct(input=inner):
            yield from _selects(inner, outputs)
        case Union(inputs=inputs):
            for part in inputs:
                yield from _selects(
                    part, _renamed(outputs, dict(zip(attributes(relation), attributes(part), strict=True)))
                )
        case Project(input=inner):
            yield from _selects(inner, _renamed(outputs, _values(relation)))
        case _:
            yield _flattened(relation, outputs)


def _flattened(relation: Relation, outputs: tuple[Output, ...]) -> tuple[Relation, tuple[Output, ...]]:
    while derived := [source for source in sources(relation) if isinstance(source, Project)]:
        values = {ref: value for each in derived for ref, value in _values(each).items()}
        flat = [
            part for source in sources(relation) for part in (sources(source.input) if source in derived else (source,))
        ]
        inner = (condition(each.input) for each in derived)
        relation = block(tuple(flat), conjunction(substitute(condition(relation), values), *inner))
        outputs = _renamed(outputs, values)
    return relation, outputs


def _values(derived: Project) -> dict[ColumnRef, Scalar]:
    return dict(zip(attributes(derived), (output.value for output in derived.outputs), strict=True))


def _renamed(outputs: tuple[Output, ...], values: Mapping[ColumnRef, Scalar]) -> tuple[Output, ...]:
    return tuple(Output(output.name, substitute(output.value, values)) for output in outputs)


def _nest(relation: Relation, outputs: tuple[Output, ...]) -> Nest:
    scans: list[Scan] = []
    for source in sources(relation):
        if not isinstance(source, Scan) or source.whole:
            raise _refused("the query reads relations other than tables")
        scans.append(source)
    if not scans:
        raise _refused("the query reads no table")
    if len(scans) > MOST_TABLES:
        raise _refused(
            f"the query joins {len(scans)} tables, but at most {MOST_TABLES} are allowed: the rows of more tables have "
            "too many possible orders"
        )
    conditions = _Conditions({scan.alias: scan for scan in scans})
    for scalar in _scalars(condition(relation)):
        conditions.add(scalar)
    for output in outputs:
        if any(conditions.is_start(ref) for ref in columns(output.value)):
            raise _refused(
                f"the column {output.name} shows when a row arrived, so the query has as many answers as instants",
                "Omit ts in SELECT: Weft delivers the first instant of each answer anyway.",
            )
    allowed = allowed_orders(list(conditions.scans), conditions.distances)
    if not allowed:
        raise _refused("no order of its rows satisfies its conditions on ts, so the query never has an answer")
    return _Writing(conditions, outputs, allowed).nest()


def _scalars(predicate: Predicate) -> Iterator[Scalar]:
    for each in conjuncts(predicate):
        match each:
            case Plain(condition=scalar):
                yield from scalar_conjuncts(scalar)
            case NowFrom() | NowBefore() | rows.Turns():
                raise _refused("the query uses NOW()", _WITHOUT_NOW)
            case rows.Exists() | NotExists():
                raise _refused("the query has a subquery", "Join the table instead of EXISTS.")
            case rows.And() | rows.Or():
                raise _refused("the query has an OR over several tables", "Write UNION of two SELECTs.")


def _refused(
    why: str, hint: str = "Omit --keep synopsis; Weft then evaluates the query over the history of its tables."
) -> SynopsisError:
    return SynopsisError(f"this query cannot have a synopsis: {why}", hint=hint)


_MIRRORED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>"}


@dataclass
class _Conditions:
    scans: dict[str, Scan]
    own: dict[str, list[Scalar]] = field(default_factory=dict)
    distances: Distances = field(default_factory=Distances)
    equal: dict[ColumnRef, ColumnRef] = field(default_factory=dict)
    """Maps a column to an earlier column that must have the same value."""
    compared: list[Call] = field(default_factory=list)

    def is_start(self, ref: ColumnRef) -> bool:
        return self.scans[ref.scan].start == ref

    def add(self, scalar: Scalar) -> None:
        named = {ref.scan for ref in columns(scalar)}
        if len(named) <= 1:
            # The first table gets the conditions without columns.
            self.own.setdefault(next(iter(named), next(iter(self.scans))), []).append(scalar)
        elif not isinstance(scalar, Call) or scalar.name not in _MIRRORED:
            raise _refused("the query has a condition over several tables that is not a comparison")
        elif any(self.is_start(ref) for ref in columns(scalar)):
            self._of_instants(scalar)
        else:
            self._of_values(scalar)

    def _of_values(self, scalar: Call) -> None:
        left, right = scalar.args
        if not isinstance(left, ColumnRef) or not isinstance(right, ColumnRef):
            raise _refused("the query compares computed values of several tables", "Compare plain columns.")
        if left.type != right.type:
            raise _refused(f"the query compares {left.column}, a {left.type}, with {right.column}, a {right.type}")
        if scalar.name == "=":
            first, second = self.known_as(left), self.known_as(right)
            if first != second:
                self.equal[second] = first
        else:
            self.compared.append(scalar)

    def _of_instants(self, scalar: Call) -> None:
        """Examples of ``scalar`` are ``s.ts <= r.ts + INTERVAL …`` and ``s.ts - r.ts < INTERVAL …``."""
        left, right = scalar.args
        name = scalar.name
        if left.type == INTERVAL and isinstance(left, Literal):
            left, right, name = right, left, _MIRRORED[name]
        match left:
            case Call(name="-", args=(instant, before), type=kind) if kind == INTERVAL and isinstance(right, Literal):
                left, right = instant, plus(before, right)
        one, other = shifted(left), shifted(right)
        bases = one.base, other.base
        starts = [base for base in bases if isinstance(base, ColumnRef) and self.is_start(base)]
        if len(starts) != 2 or one.intervals or other.intervals:
            raise _refused(
                "the query compares the ts of a table with a value other than the ts of another table plus an interval"
            )
        # left + a ≤ right + b means that left − right is at most b − a.
        most = other.micros - one.micros
        later, earlier = starts[0].scan, starts[1].scan
        match name:
            case "<" | "<=":
                self.distances.demand(later, earlier, Distance(None, most - (name == "<")))
            case ">" | ">=":
                self.distances.demand(later, earlier, Distance(most + (name == ">"), None))
            case "=":
                self.distances.demand(later, earlier, Distance(most, most))
            case _ if most == 0:
                self.distances.apart.add(frozenset((later, earlier)))
            case _:
                raise _refused("the query excludes a distance between two rows", "Write two comparisons and UNION.")

    def known_as(self, ref: ColumnRef) -> ColumnRef:
        while ref in self.equal:
            ref = self.equal[ref]
        return ref


@dataclass(frozen=True)
class _Writing:
    conditions: _Conditions
    outputs: tuple[Output, ...]
    allowed: tuple[Order, ...]

    def nest(self) -> Nest:
        written = [self._of_order(order) for order in self.allowed]
        variables = {ref: self._variable(ref) for output in self.outputs for ref in columns(output.value)}
        answers = {ref: ColumnRef(ANSWER, variable.name, ref.type) for ref, variable in variables.items()}
        inputs = tuple(self._input(scan) for scan in self.conditions.scans.values())
        return Nest(inputs, reduce(Or, written), _renamed(self.outputs, answers), self.allowed)

    @cached_property
    def _variables(self) -> dict[ColumnRef, Variable]:
        """Columns that must be equal have the same variable."""
        by_column: dict[ColumnRef, Variable] = {}
        for scan in self.conditions.scans.values():
            for ref in self._columns(scan):
                known = self.conditions.known_as(ref)
                if known not in by_column:
                    taken = {variable.name for variable in by_column.values()}
                    names = chain((known.column,), (f"{known.column}_{number}" for number in count(2)))
                    by_column[known] = Variable(next(name for name in names if name not in taken), known.type)
                by_column[ref] = by_column[known]
        return by_column

    def _variable(self, ref: ColumnRef) -> Variable:
        return self._variables[ref]

    def _needed(self) -> frozenset[ColumnRef]:
        pairs = frozenset(ref for pair in self.conditions.equal.items() for ref in pair)
        compared = frozenset(ref for scalar in self.conditions.compared for ref in columns(scalar))
        return pairs | compared | {ref for output in self.outputs for ref in columns(output.value)}

    def _columns(self, scan: Scan) -> tuple[ColumnRef, ...]:
        needed = self._needed()
        return tuple(ref for ref in attributes(scan) if ref in needed)

    def _input(self, scan: Scan) -> Project:
        demanded = conjunction(*(Plain(each) for each in self.conditions.own.get(scan.alias, ())))
        outputs = tuple(Output(ref.column, ref) for ref in self._columns(scan))
        return Project(block((scan,), demanded), scan.alias, outputs)

    def _atom(self, alias: str) -> Formula:
        terms = tuple(self._variable(ref) for ref in self._columns(self.conditions.scans[alias]))
        return Atom(alias, terms)

    def _of_order(self, order: Order) -> Formula:
        wanted = {self._variable(ref) for output in self.outputs for ref in columns(output.value)}
        tests = [self._comparison(each) for each in self.conditions.compared]

        def before(number: int, below: Formula) -> Formula:
            return self._before(order, number, below)

        return nested(order, lambda names: reduce(past.And, map(self._atom, names)), tests, wanted, before)

    def _before(self, order: Order, number: int, below: Formula) -> Formula:
        """Raise SynopsisError if the order limits the distance of groups that are not neighbours."""
        for place in range(number + 2, len(order)):
            if not self.conditions.distances.implied(order, number, place):
                raise _refused(
                    f"the query limits the interval between {', '.join(order[number])} and "
                    f"{', '.join(order[place])}, but rows of another table may lie between the two",
                    "Limit the interval between consecutive rows, or omit --keep synopsis.",
                )
        bound = self.conditions.distances.of_groups(order[number], order[number + 1])
        assert bound.low is not None
        if bound == LATER:
            return Previous(ALWAYS, Once(ALWAYS, below, "first"))
        return Once(Interval(bound.low, bound.high), below, "first")

    def _comparison(self, scalar: Call) -> Formula:
        left, right = (self._variable(ref) for ref in scalar.args if isinstance(ref, ColumnRef))
        match scalar.name:
            case "<" | "<=":
                return Comparison("<" if scalar.name == "<" else "<=", left, right)
            case ">" | ">=":
                return Comparison("<" if scalar.name == ">" else "<=", right, left)
            case _:
                return Comparison("<>", left, right)
