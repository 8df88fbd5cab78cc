"""Names: which range variable and column a name in the text means."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from sqlglot import exp

from weft.algebra.relation import Scan
from weft.algebra.scalar import ColumnRef
from weft.algebra.schema import TableSchema
from weft.errors import SqlError
from weft.sql.parse import place


def suggestion(wrong: str, known: Iterable[str], what: str) -> str:
    """ "Did you mean …", or the names there are."""
    names = sorted(set(known))
    close = difflib.get_close_matches(wrong.lower(), [name.lower() for name in names], n=3, cutoff=0.5)
    meant = [name for name in names if name.lower() in close]
    if meant:
        return f"Did you mean {' or '.join(meant)}?"
    if not names:
        return f"There are no {what} yet."
    return f"The {what} are {', '.join(names[:12])}{' …' if len(names) > 12 else ''}."


RESULTS: Final = "results"
"""``results.NAME`` are the answers of the standing query NAME."""

_MADE_UP: Final = re.compile(r"_(?:was|before|outer|\d+)$", re.IGNORECASE)
"""How range variables end that the rewriting makes out of others (``replay.edges.witness``, ``incremental``,
``localize``). A user's alias that ends so gets one more _: it must never be what another alias is renamed to."""


@dataclass
class Names:
    """Hands out range variables that are unique in a whole query."""

    taken: set[str] = field(default_factory=set)

    def fresh(self, wanted: str) -> str:
        """``wanted``, or ``wanted_2`` … where that is taken."""
        if _MADE_UP.search(wanted):
            wanted += "_"
        name, count = wanted, 1
        while name.lower() in self.taken:
            count += 1
            name = f"{wanted}_{count}"
        self.taken.add(name.lower())
        return name


@dataclass
class Scope:
    """The range variables of one SELECT, and those around it."""

    tables: Mapping[str, TableSchema]
    names: Names
    parent: Scope | None = None
    scans: dict[str, Scan] = field(default_factory=dict)
    merged: set[str] = field(default_factory=set)

    def add(self, table: exp.Table) -> Scan:
        """Takes a table of FROM in; raises SqlError where it is unknown or its alias is used twice."""
        name = f"{RESULTS}.{table.name}" if table.args.get("db") else table.name
        known = {key.lower(): schema for key, schema in self.tables.items()}
        schema = known.get(name.lower())
        if schema is None:
            raise SqlError(
                f"there is no table {name!r}", where=place(table), hint=suggestion(name, self.tables, "tables")
            )
        alias = table.alias or table.name
        if alias.lower() in self.scans:
            raise SqlError(f"{alias!r} names two tables of one FROM", where=place(table), hint="Give each an alias.")
        scan = Scan(schema, self.names.fresh(alias))
        self.scans[alias.lower()] = scan
        return scan

    def resolve(self, column: exp.Column) -> ColumnRef:
        """The column a name means; raises SqlError for one that is unknown or ambiguous."""
        if column.args.get("db") or column.args.get("catalog"):
            raise SqlError(
                f"{column.sql('spark')} has more than two parts", where=place(column), hint="Write alias.column."
            )
        if not isinstance(column.this, exp.Identifier):
            raise SqlError(f"{column.sql('spark')} is not a column", where=place(column))
        found = self._find(column.table, column.name, column)
        if found is not None:
            return found
        shown = f"{column.table}.{column.name}" if column.table else column.name
        raise SqlError(f"there is no column {shown!r}", where=place(column), hint=self._hint(column))

    def starts(self) -> frozenset[ColumnRef]:
        """The columns, of this SELECT and those around it, that hold a row's start: they are never NULL."""
        own = frozenset(scan.ref(scan.table.start) for scan in self.scans.values())
        return own | self.parent.starts() if self.parent else own

    def _find(self, qualifier: str, name: str, column: exp.Column) -> ColumnRef | None:
        if qualifier:
            scan = self.scans.get(qualifier.lower())
            candidates = [scan] if scan else []
        else:
            candidates = [scan for scan in self.scans.values() if scan.table.column(name)]
        if len(candidates) > 1 and name.lower() not in self.merged:
            owners = ", ".join(alias for alias, scan in self.scans.items() if scan in candidates)
            raise SqlError(f"{name!r} is in {owners}", where=place(column), hint="Write which one: alias.column.")
        if candidates:
            return candidates[0].ref(name) if candidates[0].table.column(name) else None
        return self.parent._find(qualifier, name, column) if self.parent else None

    def _hint(self, column: exp.Column) -> str:
        scopes, scope = [], self
        while True:
            scopes.append(scope)
            if scope.parent is None:
                break
            scope = scope.parent
        everything = {alias: scan for scope in reversed(scopes) for alias, scan in scope.scans.items()}
        qualifier = column.table.lower()
        if qualifier and qualifier not in everything:
            return f"{column.table!r} is no table or alias of FROM. " + suggestion(column.table, everything, "aliases")
        wanted = [everything[qualifier]] if qualifier else list(everything.values())
        return suggestion(column.name, {c.name for scan in wanted for c in scan.table.columns}, "columns")
