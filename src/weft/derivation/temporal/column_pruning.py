"""Remove unneeded columns from the tables of a view, before the translation to temporal algebra.

In the following example, the rest of the query names only e.id.

    FROM employees AS e … WHERE e.dept = 'Development'   becomes
    FROM (SELECT id FROM employees WHERE dept = 'Development') AS e

Rows that agree in the remaining columns become one row with the instants of all these rows.  The view stays the same,
because SELECT, EXISTS and a difference of full rows depend only on the set of projected rows at each instant.

A table keeps all its columns if the query asks for its periods.  A table directly under GROUP BY also keeps all
columns, because GROUP BY counts rows.  A condition on NOW moves into the derived table like other conditions, because
it applies to one row at a time.
"""

from __future__ import annotations

from collections.abc import Iterator

from weft.algebra.relation import (
    Grouped,
    Join,
    Output,
    Plain,
    Predicate,
    Project,
    Query,
    Relation,
    Scan,
    Select,
    block,
    condition,
    conjunction,
    conjuncts,
    sources,
)
from weft.algebra.scalar import TRUE, ColumnRef, PeriodOf, columns
from weft.algebra.temporal import attributes, periods_asked
from weft.algebra.traverse import mentioned, range_variables, rename, substitute, transform, walk


def prune_columns(query: Query) -> Query:
    """Return an equivalent query that reads as few columns of its tables as possible."""
    query = transform(query, _flat)
    known = mentioned(transform(query, _without_local))
    whole = _unpruned(query)
    taken = set(range_variables(query))
    needed: dict[Scan, tuple[ColumnRef, ...]] = {}
    for part in walk(query):
        if isinstance(part, Scan) and part.alias not in whole:
            own = attributes(part)
            used = tuple(ref for ref in own if ref in known)
            if used != own:
                needed[part] = used
    inner = {scan: _unused_name(f"{scan.alias}_stored", taken) for scan in needed}

    def change(node: Relation | Predicate | Query) -> Relation | Predicate | Query:
        if isinstance(node, Select):
            return _with_pruned_tables(node, needed, inner)
        return node

    moved = transform(query, change)
    remaining = {scan: _pruned(scan, (), needed[scan], inner[scan]) for scan in needed}
    return substitute(moved, remaining)


def _flat(node: Relation | Predicate | Query) -> Relation | Predicate | Query:
    return block(sources(node), condition(node)) if isinstance(node, (Select, Join)) else node


def _without_local(node: Relation | Predicate | Query) -> Relation | Predicate | Query:
    if not isinstance(node, Select):
        return node
    scans = [source for source in sources(node) if isinstance(source, Scan)]
    local = {part for scan in scans for part in _local(scan, node.predicate)}
    remaining = conjunction(*(part for part in conjuncts(node.predicate) if part not in local))
    return Select(node.input, remaining)


def _local(scan: Scan, predicate: Predicate) -> Iterator[Plain]:
    for part in conjuncts(predicate):
        if not isinstance(part, Plain) or periods_asked(part.condition):
            continue
        if {ref.scan for ref in columns(part.condition)} == {scan.alias}:
            yield part


def _unpruned(query: Query) -> frozenset[str]:
    asked = {part.scan for part in walk(query) if isinstance(part, PeriodOf)}
    grouped = (part.input for part in walk(query) if isinstance(part, Grouped))
    counted = {each.alias for inner in grouped for each in sources(inner) if isinstance(each, Scan)}
    return frozenset(asked | counted)


def _with_pruned_tables(select: Select, needed: dict[Scan, tuple[ColumnRef, ...]], inner: dict[Scan, str]) -> Relation:
    parts: list[Relation] = list(sources(select))
    demanded = condition(select)
    for place, scan in enumerate(parts):
        if isinstance(scan, Scan) and scan in needed:
            local = tuple(_local(scan, demanded))
            parts[place] = _pruned(scan, local, needed[scan], inner[scan])
            demanded = conjunction(*(part for part in conjuncts(demanded) if part not in local))
    joined = parts[0] if len(parts) == 1 else Join(tuple(parts))
    return Select(joined, demanded)


def _pruned(scan: Scan, local: tuple[Plain, ...], used: tuple[ColumnRef, ...], inner: str) -> Project:
    stored = Scan(scan.table, inner)
    outputs = tuple(Output(ref.column, ColumnRef(inner, ref.column, ref.type)) for ref in used)
    there = (Output("held", TRUE),)
    demanded = rename(conjunction(*local), {scan.alias: inner})
    return Project(Select(stored, demanded) if local else stored, scan.alias, outputs or there)


def _unused_name(wanted: str, taken: set[str]) -> str:
    name, count = wanted, 1
    while name in taken:
        count += 1
        name = f"{wanted}_{count}"
    taken.add(name)
    return name
