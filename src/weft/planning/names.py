"""Rename range variables and columns.

A plan has numbered names.  The branches of a single query have the names of the query.  A range variable must not have
the name of a column, because Spark would confuse the two.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from weft.algebra.event import Event
from weft.algebra.relation import Output, Project, Query, Scan, Values
from weft.algebra.traverse import range_variables, rename, walk

_NUMBERED: Final = re.compile(r"t(\d+)(.*)")


def numbered(query: Query) -> Query:
    """Rename the range variables to t1, t2 … in the order of the text, and the columns to c1, c2 …."""
    names = {alias: f"t{number}" for number, alias in enumerate(range_variables(query), 1)}
    return rename(numbered_columns(query), names)


def numbered_columns(query: Query) -> Query:
    """Rename the columns to c1, c2 …."""
    outputs = tuple(Output(f"c{number}", output.value) for number, output in enumerate(query.outputs, 1))
    return Query(query.input, outputs)


def renumbered(event: Event, names: Sequence[str]) -> Event:
    """Replace the numbered range variables of a branch by ``names``.  For example, the second name replaces t2."""
    names_by_alias = {}
    for alias in range_variables(event.relation):
        match = _NUMBERED.fullmatch(alias)
        if match is not None:
            names_by_alias[alias] = names[int(match[1]) - 1] + match[2]
    return _renamed(event, names_by_alias)


def without_clashes(event: Event, keep: Sequence[str]) -> Event:
    """Rename each range variable that has the name of a column, except the names in ``keep``.

    In a subquery over a table with a column ``sender``, Spark reads ``sender.name`` as a field of the column
    ``sender``.
    """
    columns: set[str] = set()
    for part in walk(event.relation):
        match part:
            case Scan(table=table):
                columns |= {column.name.lower() for column in table.columns}
            case Values(columns=named):
                columns |= {column.name.lower() for column in named}
            case Project(outputs=outputs):
                columns |= {output.name.lower() for output in outputs}
            case _:
                pass
    own = range_variables(event.relation)
    taken, names = columns | {alias.lower() for alias in own}, {}
    for alias in own:
        if alias.lower() in columns and alias not in keep:
            other = alias
            while other.lower() in taken:
                other += "_"
            taken.add(other.lower())
            names[alias] = other
    return _renamed(event, names) if names else event


def _renamed(event: Event, names: dict[str, str]) -> Event:
    if not names:
        return event
    driver, scan = event.driver, event.driver.scan
    driver = replace(driver, instant=rename(driver.instant, names), scan=rename(scan, names) if scan else None)
    return Event(driver, rename(event.relation, names))
