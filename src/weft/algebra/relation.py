"""Relations and predicates: what a query is.

A ``Predicate`` is two-valued: it says whether something *is true*, SQL's unknown counting as not true.  Three-valued
logic is settled when SQL is lowered (``NOT (a = b)`` becomes the scalar, ``NOT IN`` becomes NotExists over "is not
false"), so that the rules never meet it.  A relation inside Exists or NotExists may mention columns of the scans
around it (its free range variables); range variables are unique in a whole query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from weft.algebra.scalar import ColumnRef, Scalar, columns, with_children
from weft.algebra.scalar import children as scalar_children
from weft.algebra.schema import DataType, TableSchema


@dataclass(frozen=True)
class Scan:
    """The rows of a table under the range variable ``alias``."""

    table: TableSchema
    alias: str

    def ref(self, column: str) -> ColumnRef:
        """A column of this scan."""
        found = self.table.column(column)
        assert found is not None, f"{self.table.name} has no column {column}"
        return ColumnRef(self.alias, found.name, found.type)


@dataclass(frozen=True)
class Product:
    """Every combination of rows of the inputs (A ⋈ B, its condition being a Filter above)."""

    inputs: tuple[Relation, ...]


@dataclass(frozen=True)
class Filter:
    """The rows of ``input`` for which ``predicate`` is true."""

    input: Relation
    predicate: Predicate


@dataclass(frozen=True)
class Domain:
    """The distinct values that ``columns`` take over ``of``, as a source named ``alias`` with columns c1, c2 ….

    Made by ``derivation.localize`` only, for engines whose subqueries see no further than one SELECT out.
    """

    alias: str
    columns: tuple[ColumnRef, ...]
    of: Relation

    def ref(self, column: ColumnRef) -> ColumnRef:
        """This source's copy of ``column``."""
        return ColumnRef(self.alias, f"c{self.columns.index(column) + 1}", column.type)


Relation: TypeAlias = "Scan | Product | Filter | Domain"
Source: TypeAlias = "Scan | Domain"


@dataclass(frozen=True)
class Plain:
    """A scalar condition that does not change with time."""

    condition: Scalar


@dataclass(frozen=True)
class And:
    """All of ``items``; of none: true."""

    items: tuple[Predicate, ...]


@dataclass(frozen=True)
class Or:
    """At least one of ``items``; of none: false."""

    items: tuple[Predicate, ...]


@dataclass(frozen=True)
class NowFrom:
    """NOW >= threshold.  Never, where the threshold is NULL."""

    threshold: Scalar


@dataclass(frozen=True)
class NowBefore:
    """NOW < threshold.  Never, where the threshold is NULL."""

    threshold: Scalar


@dataclass(frozen=True)
class Exists:
    """``body`` has a row (A ⋉ B)."""

    body: Relation


@dataclass(frozen=True)
class NotExists:
    """``body`` has no row (A ▷ B)."""

    body: Relation


Predicate: TypeAlias = "Plain | And | Or | NowFrom | NowBefore | Exists | NotExists"

TRUE = And(())
FALSE = Or(())


@dataclass(frozen=True)
class Output:
    """A column of the answer."""

    name: str
    value: Scalar


@dataclass(frozen=True)
class Query:
    """The distinct rows of ``outputs`` over ``input``."""

    input: Relation
    outputs: tuple[Output, ...]

    @property
    def types(self) -> tuple[DataType, ...]:
        """The types of the answer's columns."""
        return tuple(output.value.type for output in self.outputs)


def conjunction(*predicates: Predicate) -> Predicate:
    """AND with nested ANDs opened and doubles left out.

    >>> conjunction(TRUE, Or(()), Or(())) == Or(())
    True
    """
    items: dict[Predicate, None] = {}
    for predicate in predicates:
        if predicate == FALSE:
            return FALSE
        items.update(dict.fromkeys(predicate.items if isinstance(predicate, And) else (predicate,)))
    return next(iter(items)) if len(items) == 1 else And(tuple(items))


def disjunction(*predicates: Predicate) -> Predicate:
    """OR with nested ORs opened and doubles left out."""
    items: dict[Predicate, None] = {}
    for predicate in predicates:
        if predicate == TRUE:
            return TRUE
        items.update(dict.fromkeys(predicate.items if isinstance(predicate, Or) else (predicate,)))
    return next(iter(items)) if len(items) == 1 else Or(tuple(items))


def conjuncts(predicate: Predicate) -> tuple[Predicate, ...]:
    """What must all be true."""
    return predicate.items if isinstance(predicate, And) else (predicate,)


def sources(relation: Relation) -> tuple[Source, ...]:
    """What a relation combines: its own scans and domains, those of subqueries left out."""
    match relation:
        case Scan() | Domain():
            return (relation,)
        case Product(inputs=inputs):
            return tuple(source for part in inputs for source in sources(part))
        case Filter(input=inner):
            return sources(inner)


def condition(relation: Relation) -> Predicate:
    """What a relation demands of the combinations of its sources."""
    match relation:
        case Scan() | Domain():
            return TRUE
        case Product(inputs=inputs):
            return conjunction(*(condition(part) for part in inputs))
        case Filter(input=inner, predicate=predicate):
            return conjunction(condition(inner), predicate)


def block(parts: tuple[Source, ...], demanded: Predicate) -> Relation:
    """The relation with these sources and this condition."""
    base: Relation = parts[0] if len(parts) == 1 else Product(parts)
    return base if demanded == TRUE else Filter(base, demanded)


def all_scans(node: Relation | Predicate) -> Iterator[Scan]:
    """Every scan, those of subqueries included, in the order of the text."""
    match node:
        case Scan():
            yield node
        case Domain(of=of):
            yield from all_scans(of)
        case Product(inputs=parts) | And(items=parts) | Or(items=parts):
            for part in parts:
                yield from all_scans(part)
        case Filter(input=inner, predicate=predicate):
            yield from all_scans(inner)
            yield from all_scans(predicate)
        case Exists(body=body) | NotExists(body=body):
            yield from all_scans(body)
        case Plain() | NowFrom() | NowBefore():
            return


def scalars(node: Relation | Predicate) -> Iterator[Scalar]:
    """Every scalar condition and threshold, those of subqueries included."""
    match node:
        case Scan():
            return
        case Domain(of=of):
            yield from scalars(of)
        case Product(inputs=parts) | And(items=parts) | Or(items=parts):
            for part in parts:
                yield from scalars(part)
        case Filter(input=inner, predicate=predicate):
            yield from scalars(inner)
            yield from scalars(predicate)
        case Exists(body=body) | NotExists(body=body):
            yield from scalars(body)
        case Plain(condition=scalar) | NowFrom(threshold=scalar) | NowBefore(threshold=scalar):
            yield scalar


def thresholds(node: Relation | Predicate) -> Iterator[NowFrom | NowBefore]:
    """Every threshold of time, those of subqueries included."""
    match node:
        case NowFrom() | NowBefore():
            yield node
        case Scan() | Plain():
            return
        case Domain(of=of):
            yield from thresholds(of)
        case Product(inputs=parts) | And(items=parts) | Or(items=parts):
            for part in parts:
                yield from thresholds(part)
        case Filter(input=inner, predicate=predicate):
            yield from thresholds(inner)
            yield from thresholds(predicate)
        case Exists(body=body) | NotExists(body=body):
            yield from thresholds(body)


def mentioned(node: Relation | Predicate) -> frozenset[ColumnRef]:
    """Every column mentioned in conditions, those of subqueries included."""
    return frozenset().union(*(columns(scalar) for scalar in scalars(node)))


def domain_columns(node: Relation | Predicate) -> frozenset[ColumnRef]:
    """The columns that domains take from the sources around them."""
    match node:
        case Domain(columns=refs, of=of):
            return frozenset(refs) | domain_columns(of)
        case Product(inputs=parts) | And(items=parts) | Or(items=parts):
            return frozenset().union(*(domain_columns(part) for part in parts))
        case Filter(input=inner, predicate=predicate):
            return domain_columns(inner) | domain_columns(predicate)
        case Exists(body=body) | NotExists(body=body):
            return domain_columns(body)
        case Scan() | Plain() | NowFrom() | NowBefore():
            return frozenset()


def free_columns(body: Relation | Predicate) -> frozenset[ColumnRef]:
    """Columns of range variables that ``body`` mentions but does not bind."""
    bound = {scan.alias for scan in all_scans(body)}
    return frozenset(ref for ref in mentioned(body) if ref.scan not in bound)


def substitute(scalar: Scalar, replacement: Mapping[Scalar, Scalar]) -> Scalar:
    """``scalar`` with some subexpressions replaced."""
    if scalar in replacement:
        return replacement[scalar]
    parts = scalar_children(scalar)
    if not parts:
        return scalar
    return with_children(scalar, tuple(substitute(part, replacement) for part in parts))


def rename_scalar(scalar: Scalar, names: Mapping[str, str]) -> Scalar:
    """``scalar`` with range variables renamed."""
    if isinstance(scalar, ColumnRef):
        return ColumnRef(names.get(scalar.scan, scalar.scan), scalar.column, scalar.type)
    parts = scalar_children(scalar)
    return with_children(scalar, tuple(rename_scalar(part, names) for part in parts)) if parts else scalar


def rename_relation(relation: Relation, names: Mapping[str, str]) -> Relation:
    """``relation`` with range variables renamed, free ones too where ``names`` has them."""
    match relation:
        case Scan(table=table, alias=alias):
            return Scan(table, names.get(alias, alias))
        case Domain(alias=alias, columns=refs, of=of):
            renamed = tuple(ColumnRef(names.get(r.scan, r.scan), r.column, r.type) for r in refs)
            return Domain(names.get(alias, alias), renamed, rename_relation(of, names))
        case Product(inputs=inputs):
            return Product(tuple(rename_relation(part, names) for part in inputs))
        case Filter(input=inner, predicate=predicate):
            return Filter(rename_relation(inner, names), rename_predicate(predicate, names))


def rename_predicate(predicate: Predicate, names: Mapping[str, str]) -> Predicate:
    """``predicate`` with range variables renamed."""
    match predicate:
        case Plain(condition=scalar):
            return Plain(rename_scalar(scalar, names))
        case NowFrom(threshold=scalar):
            return NowFrom(rename_scalar(scalar, names))
        case NowBefore(threshold=scalar):
            return NowBefore(rename_scalar(scalar, names))
        case And(items=items):
            return And(tuple(rename_predicate(item, names) for item in items))
        case Or(items=items):
            return Or(tuple(rename_predicate(item, names) for item in items))
        case Exists(body=body):
            return Exists(rename_relation(body, names))
        case NotExists(body=body):
            return NotExists(rename_relation(body, names))


def map_scalars(node: Predicate, change: Callable[[Scalar], Scalar]) -> Predicate:
    """``node`` with every condition and threshold changed, those of subqueries included."""
    match node:
        case Plain(condition=scalar):
            return Plain(change(scalar))
        case NowFrom(threshold=scalar):
            return NowFrom(change(scalar))
        case NowBefore(threshold=scalar):
            return NowBefore(change(scalar))
        case And(items=items):
            return conjunction(*(map_scalars(item, change) for item in items))
        case Or(items=items):
            return disjunction(*(map_scalars(item, change) for item in items))
        case Exists(body=body):
            return Exists(map_relation(body, change))
        case NotExists(body=body):
            return NotExists(map_relation(body, change))


def map_relation(node: Relation, change: Callable[[Scalar], Scalar]) -> Relation:
    """``node`` with every condition and threshold changed."""
    match node:
        case Scan():
            return node
        case Domain(alias=alias, columns=refs, of=of):
            return Domain(alias, refs, map_relation(of, change))
        case Product(inputs=inputs):
            return Product(tuple(map_relation(part, change) for part in inputs))
        case Filter(input=inner, predicate=predicate):
            return Filter(map_relation(inner, change), map_scalars(predicate, change))
