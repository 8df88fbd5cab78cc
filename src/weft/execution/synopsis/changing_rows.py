"""Rows with counts that change from one time point to the next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from weft.algebra.formula import Variable

Row: TypeAlias = "tuple[Any, ...]"
Rows: TypeAlias = "dict[Row, int]"
Places: TypeAlias = "tuple[int, ...]"


@dataclass
class ChangingRows:
    """The value of a part of a formula: its rows at the current time point, each with its count.

    ``changed`` has the rows whose count may have changed at this time point, each with its count before.
    """

    variables: tuple[Variable, ...]
    rows: Rows = field(default_factory=dict)
    changed: Rows = field(default_factory=dict)
    _indexes: dict[Places, dict[Row, dict[Row, None]]] = field(default_factory=dict)

    def put(self, row: Row, count: int) -> None:
        """Set the count of a row. A row with the count 0 is removed."""
        before = self.rows.get(row, 0)
        if count == before:
            return
        self.changed.setdefault(row, before)
        if not count:
            del self.rows[row]
            for places, index in self._indexes.items():
                key = picked(row, places)
                index[key].pop(row)
                if not index[key]:
                    del index[key]
            return
        self.rows[row] = count
        if not before:
            for places, index in self._indexes.items():
                index.setdefault(picked(row, places), {})[row] = None

    def replace(self, rows: Mapping[Row, int]) -> None:
        """Set all rows. The cost grows with the number of rows, not only with the number of changes."""
        for gone in [row for row in self.rows if row not in rows]:
            self.put(gone, 0)
        for row, count in rows.items():
            self.put(row, count)

    def having(self, places: Places, key: Row) -> Iterable[Row]:
        """Return the rows with the values ``key`` at these places. Do not change the rows during the iteration."""
        if not places:
            return self.rows
        index = self._indexes.get(places)
        if index is None:
            index = self._indexes[places] = {}
            for row in self.rows:
                index.setdefault(picked(row, places), {})[row] = None
        return index.get(key, ())


def picked(row: Row, places: Places) -> Row:
    """Return the values of a row at some places."""
    return tuple([row[place] for place in places])


def places_of(variables: Sequence[Variable], wanted: Iterable[Variable]) -> Places:
    """Return the place of each wanted variable."""
    return tuple(variables.index(each) for each in wanted)


Combine: TypeAlias = Callable[[int, int], int]
