"""Translate a bound query to its sequenced meaning, as temporal algebra.

At each instant t, the view has the answer of the query over the rows that hold at t.  A condition on NOW or on periods
is evaluated at t_now, over the original rows of the items in FROM.  In the table, ``A`` stands for the items of FROM,
and ``p`` and ``q`` stand for conditions:

    FROM and WHERE      ⋈_p(A1 … An)            with conditions on one item below the join, as σ
    EXISTS (B)          π_A(A ⋈_c B)            where c is B's WHERE, which names A
    NOT EXISTS (B)      A − π_A(A ⋈_c B)
    p OR q              σ_p(A) ∪ σ_q(A)
    SELECT              π
    UNION               ∪
    EXCEPT, INTERSECT   −, and EXISTS with every column null-safe equal
    GROUP BY            Π_{A',0}, over EX_w for a moving window

The body of an EXISTS becomes a join of its own items with the outer items.  The body can therefore refer to all columns
and periods of the outer items.

After an EXISTS, rows have fewer instants.  A later condition on the periods of an item therefore applies to the
original items.  Its result is intersected with the rows after the EXISTS (∩ is ⋈ with every column null-safe equal).
The translation of OR works in the same way.  For NOT EXISTS, the original items give the rows to remove.  No part
occurs more than twice in the translation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

from weft.algebra.relation import (
    And,
    Distinct,
    Exists,
    Grouped,
    Join,
    Materialized,
    NotExists,
    NowBefore,
    NowFrom,
    Or,
    Output,
    Plain,
    Predicate,
    Project,
    Query,
    Recurrence,
    Recursive,
    Relation,
    Scan,
    Select,
    Source,
    Turns,
    Union,
    Unnest,
    Values,
    Windowed,
    condition,
    conjunction,
    conjuncts,
    disjunction,
    sources,
)
from weft.algebra.relation import attributes as columns_of
from weft.algebra.scalar import TRUE, ColumnRef, Literal, Now, PeriodOf, Scalar, call, columns
from weft.algebra.schema import BOOLEAN
from weft.algebra.temporal import (
    Difference,
    Extension,
    Temporal,
    attributes,
    periods_asked,
    union,
)
from weft.algebra.traverse import free_columns, range_variables, substitute, walk
from weft.derivation.temporal.column_pruning import prune_columns
from weft.errors import SqlError


def sequenced(query: Query) -> Temporal:
    """Return the temporal relation of a view, with the names and types of the query's outputs.

    Raise SqlError if a subquery with GROUP BY names columns of an outer query.
    """
    query = prune_columns(query)
    reading = _Reading(set(range_variables(query)))
    held = reading.held(query.input)
    outputs = tuple(Output(each.name, held.named(each.value)) for each in query.outputs)
    refs = attributes(held.relation)
    if tuple(each.value for each in outputs) == refs and all(
        each.name == ref.column for each, ref in zip(outputs, refs, strict=True)
    ):
        return held.relation
    return _projection(held.relation, reading.fresh("answer"), outputs)


@dataclass(frozen=True)
class _Held:
    """``relation`` has the attributes of all ``items``, by position."""

    items: tuple[Temporal, ...]
    conditions: tuple[Scalar, ...]
    relation: Temporal

    @property
    def untouched(self) -> bool:
        """Whether every row still has all the instants that its items have in common."""
        return self.relation == _joined(self.items, self.conditions)

    @property
    def names(self) -> dict[ColumnRef, ColumnRef]:
        own = (ref for item in self.items for ref in attributes(item))
        return dict(zip(own, attributes(self.relation), strict=True))

    def named(self, scalar: Scalar) -> Scalar:
        return substitute(scalar, self.names)


@dataclass
class _Reading:
    taken: set[str]

    def fresh(self, wanted: str) -> str:
        name, count = wanted, 1
        while name in self.taken:
            count += 1
            name = f"{wanted}_{count}"
        self.taken.add(name)
        return name

    def held(self, relation: Relation) -> _Held:
        items = tuple(self.source(each) for each in sources(relation))
        return self.combined(items, (), condition(relation))

    def source(self, node: Source, alias: str | None = None) -> Temporal:
        match node:
            case Scan(table=table):
                return Scan(table, alias or node.alias)
            case Values(columns=heads, rows=rows):
                return Values(alias or node.alias, heads, rows)
            case Distinct(input=inner):
                return self.source(_one_source(inner), alias)
            case Project(input=inner, outputs=outputs):
                held = self.held(inner)
                named = tuple(Output(each.name, held.named(each.value)) for each in outputs)
                return _projection(held.relation, alias or node.alias, named)
            case Union(inputs=inputs):
                first = self.source(_one_source(inputs[0]), alias or node.alias)
                return union(first, *(self.source(_one_source(part)) for part in inputs[1:]))
            case Windowed() | Unnest() | Materialized() | Recurrence() | Recursive():
                raise SqlError("a temporal view has no window functions, no EXPLODE and no recursion")
            case Grouped():
                return self.grouped(node, alias or node.alias)

    def grouped(self, node: Grouped, alias: str) -> Grouped[Temporal]:
        held = self.held(node.input)
        groups = tuple(Output(each.name, held.named(each.value)) for each in node.groups)
        measures = tuple(
            replace(
                each,
                argument=None if each.argument is None else held.named(each.argument),
                by=None if each.by is None else held.named(each.by),
                output=replace(each.output, scan=alias),
            )
            for each in node.measures
        )
        over = held.relation
        if node.window is not None and not (isinstance(node.window, Literal) and node.window.value == 0):
            over = Extension(over, node.window)
        return Grouped(over, alias, groups, measures)

    def combined(self, items: tuple[Temporal, ...], given: tuple[Scalar, ...], demanded: Predicate) -> _Held:
        parts = conjuncts(demanded)
        conditions = given + tuple(plain for part in parts if (plain := _scalar(part)) is not None)
        held = _Held(items, conditions, _joined(items, conditions))
        others = [part for part in parts if _scalar(part) is None]
        for part in sorted(others, key=lambda each: not _asks(each, items)):  # conditions on periods first
            held = self.restricted(held, part)
        return held

    def restricted(self, held: _Held, demanded: Predicate) -> _Held:
        scalar = _scalar(demanded)
        if held.untouched and (scalar is not None or isinstance(demanded, And)):
            return replace(held, relation=self.combined(held.items, held.conditions, demanded).relation)
        if not held.untouched and (isinstance(demanded, Or) or _asks(demanded, held.items)):
            fresh = self.combined(held.items, held.conditions, demanded).relation
            return replace(held, relation=self.both(held.relation, fresh))
        if scalar is not None:
            return replace(held, relation=Select(held.relation, held.named(scalar)))
        match demanded:
            case And(items=parts):
                return reduce(self.restricted, parts, held)
            case Or(items=parts):
                return replace(held, relation=union(*(self.restricted(held, part).relation for part in parts)))
            case Exists(body=body):
                return self.with_partner(held, body, negated=False)
            case NotExists(body=body):
                return self.with_partner(held, body, negated=True)
            case _:
                raise AssertionError(f"a condition of time is a scalar: {demanded}")

    def with_partner(self, held: _Held, body: Relation, *, negated: bool) -> _Held:
        """If ``negated`` is true, the rows must have no partner in ``body`` at the same instant."""
        instead = _opened(body)
        if instead is not None:
            each: tuple[Predicate, ...] = tuple(NotExists(one) if negated else Exists(one) for one in instead)
            return self.restricted(held, conjunction(*each) if negated else disjunction(*each))
        if negated and (right := self.same_rows(held, body)) is not None:
            return replace(held, relation=Difference(held.relation, right))
        if held.untouched or negated:
            items, conditions = held.items, held.conditions
        else:
            items, conditions, body = (held.relation,), (), substitute(body, held.names)
        partners = tuple(self.source(each) for each in sources(body))
        joined = self.combined((*items, *partners), conditions, condition(body)).relation
        partnered = self.renamed(joined, attributes(held.relation))
        return replace(held, relation=Difference(held.relation, partnered) if negated else partnered)

    def same_rows(self, held: _Held, body: Relation) -> Temporal | None:
        """Return None unless the only condition of ``body`` is that all columns are null-safe equal, as for EXCEPT."""
        own = [ref for item in held.items for ref in attributes(item)]
        parts = sources(body)
        if len(parts) != 1 or len(columns_of(parts[0])) != len(own):
            return None
        pairs = zip(columns_of(parts[0]), own, strict=True)
        if set(conjuncts(condition(body))) != {Plain(call("<=>", *pair)) for pair in pairs}:
            return None
        return self.source(parts[0])

    def renamed(self, relation: Temporal, own: tuple[ColumnRef, ...]) -> Project[Temporal]:
        outputs = tuple(
            Output(name, ref) for name, ref in zip(_distinct_names(own), attributes(relation), strict=False)
        )
        return _projection(relation, self.fresh("held"), outputs)

    def both(self, one: Temporal, other: Temporal) -> Temporal:
        """The result is a join in which every column is equal on both sides."""
        right = self.renamed(other, attributes(other))
        same = [call("<=>", *pair) for pair in zip(attributes(one), attributes(right), strict=True)]
        return self.renamed(Select(Join((one, right)), _all(same)), attributes(one))


def _one_source(relation: Relation) -> Source:
    (source,) = sources(relation)
    return source


def _opened(body: Relation) -> tuple[Relation, ...] | None:
    """Inline the first derived table that names outer columns, or return None if no table names outer columns.

    A derived table that names outer columns comes from ``x IN (SELECT …)``.  Inlining is correct because EXISTS only
    tests whether a row exists.
    """
    parts, demanded = sources(body), condition(body)
    for place, part in enumerate(parts):
        if not _looks_out(part):
            continue
        inner: Relation = part
        while isinstance(inner, Distinct):
            inner = inner.input
        arms = inner.inputs if isinstance(inner, Union) else (inner,)
        bodies = []
        for arm in arms:
            values = [each.value for each in arm.outputs] if isinstance(arm, Project) else columns_of(arm)
            instead = arm.input if isinstance(arm, Project) else arm
            if isinstance(instead, Grouped) or (not isinstance(arm, Project) and arm == part):
                raise SqlError(
                    "a subquery with GROUP BY cannot name a column of the query around the subquery",
                    hint="Join with a derived table (SELECT … GROUP BY …) instead.",
                )
            meaning = dict(zip(columns_of(inner), values, strict=True))
            others = (*parts[:place], instead, *parts[place + 1 :])
            bodies.append(Select(Join(others), substitute(demanded, meaning)))
        return tuple(bodies)
    return None


def _looks_out(part: Source) -> bool:
    bound = range_variables(part)
    periods = (each.scan for each in walk(part) if isinstance(each, PeriodOf))
    return bool(free_columns(part)) or any(scan not in bound for scan in periods)


def _distinct_names(refs: Sequence[ColumnRef]) -> list[str]:
    """Names are in lower case.  A repeated name gets a number."""
    names: dict[str, None] = {}
    for ref in refs:
        name, count = ref.column, 1
        while name.lower() in names:
            count += 1
            name = f"{ref.column}_{count}"
        names[name.lower()] = None
    return [*names]


def _asks(demanded: Predicate, items: tuple[Temporal, ...]) -> bool:
    own = _aliases(items)
    return any(isinstance(part, PeriodOf) and part.scan in own for part in walk(demanded))


def _aliases(items: Sequence[Temporal]) -> frozenset[str]:
    return frozenset(ref.scan for item in items for ref in attributes(item))


def _scalar(demanded: Predicate) -> Scalar | None:
    """Return a condition as one scalar, or None if it contains EXISTS."""
    match demanded:
        case Plain(condition=scalar):
            return scalar
        case NowFrom(threshold=threshold):
            return call(">=", Now(), threshold)
        case NowBefore(threshold=threshold):
            return call("<", Now(), threshold)
        case And(items=parts) | Or(items=parts) | Turns(items=parts):
            scalars = [converted for part in parts if (converted := _scalar(part)) is not None]
            if len(scalars) < len(parts):
                return None
            if not scalars:
                return Literal(isinstance(demanded, And), BOOLEAN, fixed=True)
            return call("and" if isinstance(demanded, And) else "or", *scalars)
        case Exists() | NotExists():
            return None


def _joined(items: tuple[Temporal, ...], conditions: tuple[Scalar, ...]) -> Temporal:
    own: list[list[Scalar]] = [[] for _ in items]
    shared = []
    for each in conditions:
        named = {ref.scan for ref in columns(each)} | periods_asked(each)
        owners = [place for place, item in enumerate(items) if named & _aliases((item,))]
        if len(owners) <= 1:
            own[owners[0] if owners else 0].append(each)
        else:
            shared.append(each)
    selected = [Select(item, _all(local)) if local else item for item, local in zip(items, own, strict=True)]
    return selected[0] if len(selected) == 1 else Select(Join(tuple(selected)), _all(shared))


def _all(conditions: Sequence[Scalar]) -> Scalar:
    if not conditions:
        return TRUE
    return conditions[0] if len(conditions) == 1 else call("and", *conditions)


def _projection(relation: Temporal, alias: str, outputs: tuple[Output, ...]) -> Project[Temporal]:
    """If the input projects plain columns, merge the two projections: π_A(π_B(R)) = π_A(R)."""
    if isinstance(relation, Project) and all(isinstance(each.value, ColumnRef) for each in relation.outputs):
        meaning = dict(zip(attributes(relation), (each.value for each in relation.outputs), strict=True))
        within = tuple(Output(each.name, substitute(each.value, meaning)) for each in outputs)
        return Project(relation.input, alias, within)
    return Project(relation, alias, outputs)
