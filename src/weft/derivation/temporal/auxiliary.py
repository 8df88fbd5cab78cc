"""Derive auxiliary views, for the maintenance of a view without queries to the sources (section 6).

An auxiliary view of R is π_B(σ_f(R)).  The auxiliary view contains the part of R that the view needs.  The filter f has
those conditions on R alone that every used row must satisfy.  B has the columns that the view uses, and the key of R.
Rows that agree in the columns B become one row.  In two cases, B has all columns, because the loss of columns would
change the view:

- R is below a difference, a union or an aggregate, without a projection in between.  These operators compare or count
  full rows.
- A predicate mentions the period set of R.  Rows with fewer columns have longer periods.

Because B contains the key, at each instant each row of the auxiliary view comes from exactly one row of R.  The
maintenance of the auxiliary view therefore needs only the changes of R: ∇A = π_B(σ_f(∇R)) and ΔA = π_B(σ_f(ΔR))
(``AuxiliaryMaintenance``).

A view has at most one auxiliary view per table.  If the view reads the table twice, the auxiliary view has all columns
that either use needs, but only the conditions that both uses require.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

from weft.algebra import temporal
from weft.algebra.relation import Grouped, Join, Output, Project, Scan, Select, Union
from weft.algebra.scalar import ColumnRef, Scalar, columns, conjuncts
from weft.algebra.schema import TableSchema
from weft.algebra.traverse import rename, substitute
from weft.derivation.temporal.delta import Delta
from weft.derivation.temporal.delta_propagation import BOTH, Kind
from weft.derivation.temporal.judging import conjunction
from weft.derivation.temporal.maintenance_plan import Derived, Maintenance, maintenance

Keys: TypeAlias = "Mapping[int, tuple[str, ...]]"
"""The key columns of each tracked table, by table ID.  For any other table, the key is the full row."""


@dataclass(frozen=True)
class Auxiliary:
    """The auxiliary view π_B(σ_f(R)) of a table R.  The range variable in ``conditions`` is the name of R."""

    table: TableSchema
    columns: tuple[str, ...]
    conditions: frozenset[Scalar]

    @property
    def definition(self) -> temporal.Temporal:
        """The auxiliary view as an expression over the table."""
        return self.of(Scan(self.table, self.table.name))

    def of(self, relation: temporal.Temporal) -> temporal.Temporal:
        """Return π_B(σ_f(relation)) for a relation with the columns of R, for example for ∇R or ΔR."""
        rows = relation if not self.conditions else Select(relation, conjunction(*sorted(self.conditions, key=repr)))
        refs = [ref for ref in temporal.attributes(relation) if ref.column in self.columns]
        return Project(rows, self.table.name, tuple(Output(ref.column, ref) for ref in refs))

    def contains(self, other: Auxiliary) -> bool:
        """Return whether ``other`` can be computed from this auxiliary view.

        The comparison of tables uses IDs, because the table may have gained columns after one view was derived.
        """
        same = (self.table.source, self.table.id) == (other.table.source, other.table.id)
        return same and set(self.columns) >= set(other.columns) and self.conditions <= other.conditions

    def with_needs_of(self, other: Auxiliary) -> Auxiliary:
        """Return the smallest auxiliary view that contains the rows and columns of both views."""
        names = {*self.columns, *other.columns}
        columns = tuple(
            ref.column for ref in temporal.attributes(Scan(self.table, self.table.name)) if ref.column in names
        )
        return Auxiliary(self.table, columns, self.conditions & other.conditions)

    def part_of(self, stored: TableSchema) -> TableSchema:
        """Return the schema ``stored`` of a larger auxiliary view, with only the columns that this auxiliary view
        needs.
        """
        names = {*self.columns, stored.start, stored.end}
        return replace(stored, columns=tuple(column for column in stored.columns if column.name in names))


def auxiliary_views(expression: temporal.Temporal, keys: Keys) -> tuple[Auxiliary, ...]:
    """Return auxiliary views that suffice to maintain a view without its sources, at most one per table."""
    plan = maintenance(expression)
    derived = [plan.refresh, plan.change(plan.tables), *(plan.change((table,)) for table in plan.tables)]
    read = {base.table for each in derived for base in each.reads}
    return tuple(view for view in needed_auxiliaries(plan.view, keys).values() if view.table in read)


@dataclass(frozen=True, kw_only=True)
class AuxiliaryMaintenance(Maintenance):
    """The maintenance of an auxiliary view.  The view changes only when its table changes.

    Law: the general equations give the same result, because each row of the view comes from one row of the table at any
    instant.
    """

    auxiliary: Auxiliary

    def change(self, tables: Iterable[TableSchema], kinds: Collection[Kind] = BOTH) -> Derived:
        """Return ∇A and ΔA for a change of the table, or an empty delta if ``tables`` does not contain the table."""
        auxiliary, deleted, inserted = self.auxiliary, None, None
        base = Scan(auxiliary.table, auxiliary.table.name)
        if auxiliary.table in tuple(tables):
            deleted = auxiliary.of(temporal.Deleted(base)) if "deletions" in kinds else None
            inserted = auxiliary.of(temporal.Inserted(base)) if "insertions" in kinds else None
        return Derived(deleted, inserted, Delta(deleted, inserted), (), ())

    @cached_property
    def refresh(self) -> Derived:
        """The empty delta, because the conditions of an auxiliary view do not depend on time."""
        return self.change(())


def auxiliary_maintenance(auxiliary: Auxiliary) -> AuxiliaryMaintenance:
    """Return the maintenance of an auxiliary view."""
    return AuxiliaryMaintenance(auxiliary.definition, auxiliary=auxiliary)


def needed_auxiliaries(expression: temporal.Temporal, keys: Keys) -> dict[TableSchema, Auxiliary]:
    """Return the needed auxiliary view for each table of a view."""
    auxiliaries: dict[TableSchema, Auxiliary] = {}
    for base, need in _needs(expression).items():
        wanted, met = _auxiliary(base, need, keys), auxiliaries.get(base.table)
        auxiliaries[base.table] = wanted if met is None else met.with_needs_of(wanted)
    return auxiliaries


@dataclass(frozen=True)
class _Need:
    """``wanted`` has the required columns, or is None for all columns."""

    wanted: frozenset[ColumnRef] | None
    filters: tuple[Scalar, ...] = ()

    def also(self, refs: Iterable[ColumnRef]) -> frozenset[ColumnRef] | None:
        return None if self.wanted is None else self.wanted | frozenset(refs)


def _auxiliary(base: Scan, need: _Need, keys: Keys) -> Auxiliary:
    names = tuple(ref.column for ref in temporal.attributes(base))
    key = keys.get(base.table.id, names)
    used = set(names) if need.wanted is None else {*key, *(ref.column for ref in need.wanted)}
    used |= {ref.column for each in need.filters for ref in columns(each)}
    conditions = frozenset(rename(each, {base.alias: base.table.name}) for each in need.filters)
    return Auxiliary(base.table, tuple(name for name in names if name in used), conditions)


def _needs(relation: temporal.Temporal) -> dict[Scan, _Need]:
    needs: dict[Scan, _Need] = {}
    waiting = [(relation, _Need(None))]
    while waiting:
        part, need = waiting.pop()
        if isinstance(part, Scan):
            met = needs.get(part)
            needs[part] = need if met is None else _either(met, need)
        waiting.extend(zip(temporal.inputs(part), _below(part, need), strict=True))
    return needs


def _either(one: _Need, other: _Need) -> _Need:
    wanted = None if one.wanted is None else other.also(one.wanted)
    return _Need(wanted, tuple(each for each in one.filters if each in other.filters))


def _below(relation: temporal.Temporal, need: _Need) -> tuple[_Need, ...]:
    match relation:
        case Select(input=Join()):
            return tuple(_of_part(relation, part, need) for part in temporal.inputs(relation))
        case Select(predicate=predicate):
            wanted = None if temporal.mentions_time(predicate) else need.also(columns(predicate))
            return (_Need(wanted, (*need.filters, *_timeless(predicate))),)
        case Project(input=inner, alias=alias, outputs=outputs):
            wanted = frozenset(ref for output in outputs for ref in columns(output.value))
            return (_Need(wanted, _through(need.filters, alias, outputs, inner)),)
        case Grouped(input=inner, alias=alias, groups=groups):
            return (_Need(None, _through(need.filters, alias, groups, inner)),)
        case Union() | temporal.Difference():
            names = [temporal.attributes(part) for part in temporal.inputs(relation)]
            across = [dict(zip(names[0], own, strict=True)) for own in names]
            return tuple(_Need(None, tuple(substitute(f, each) for f in need.filters)) for each in across)
        case temporal.Extension() | temporal.Fragment():
            return (need,)
        case _:
            return tuple(_Need(None) for _ in temporal.inputs(relation))


def _of_part(join: temporal.Selection, part: temporal.Temporal, need: _Need) -> _Need:
    ours = frozenset(temporal.attributes(part))
    filters = (*need.filters, *_timeless(join.predicate))
    mine = tuple(each for each in dict.fromkeys(filters) if columns(each) and columns(each) <= ours)
    wanted = need.also(columns(join.predicate))
    judged = not temporal.periods_asked(join.predicate).isdisjoint(ref.scan for ref in ours)
    return _Need(None if wanted is None or judged else wanted & ours, mine)


def _timeless(predicate: Scalar) -> tuple[Scalar, ...]:
    return tuple(part for part in conjuncts(predicate) if not temporal.mentions_time(part))


def _through(
    filters: tuple[Scalar, ...], alias: str, outputs: tuple[Output, ...], inner: temporal.Temporal
) -> tuple[Scalar, ...]:
    plain = {
        ColumnRef(alias, output.name, output.value.type): output.value
        for output in outputs
        if isinstance(output.value, ColumnRef)
    }
    return tuple(substitute(each, plain) for each in filters if columns(each) <= plain.keys())
