"""The types of variables, found from where they stand.

While a formula is read a type that is not known yet is an unknown, ``DataType("?7")``; unknowns that must be the same
are joined, and the ones of arithmetic may only become numbers.
"""

from __future__ import annotations

from weft.algebra.schema import BIGINT, DOUBLE, STRING, DataType

_WORDS = {
    "BIGINT": "an integer",
    "DOUBLE": "a float",
    "STRING": "a text",
    "TIME POINT": "a time point",
    "INTERVAL": "a length of time",
}


class Clash(Exception):
    """Two types that cannot be the same."""


class Unknowns:
    """The unknown types of a formula, and what is known of them by now."""

    def __init__(self) -> None:
        self._same: dict[str, DataType] = {}
        self._numbers: set[str] = set()
        self._count = 0

    def new(self, *, number: bool = False) -> DataType:
        """A type that nothing is known of, or only that it is one of numbers."""
        self._count += 1
        name = f"?{self._count}"
        if number:
            self._numbers.add(name)
        return DataType(name)

    def known(self, data_type: DataType) -> DataType:
        """What a type is by now: a type that is stored, or an unknown that stands for all it is joined with."""
        while data_type.name in self._same:
            data_type = self._same[data_type.name]
        return data_type

    def join(self, one: DataType, other: DataType) -> None:
        """Makes two types the same; raises Clash where they cannot be."""
        one, other = self.known(one), self.known(other)
        if one == other:
            return
        if not _unknown(one):
            one, other = other, one
        if not _unknown(one):
            raise Clash
        if one.name in self._numbers:
            if _unknown(other):
                self._numbers.add(other.name)
            elif other not in (BIGINT, DOUBLE):
                raise Clash
        self._same[one.name] = other

    def settled(self, data_type: DataType) -> DataType:
        """What a type is in the end: one that nothing is known of is a text, an unknown number an integer."""
        known = self.known(data_type)
        if not _unknown(known):
            return known
        return BIGINT if known.name in self._numbers else STRING

    def words(self, data_type: DataType) -> str:
        """A type in words."""
        known = self.known(data_type)
        if _unknown(known):
            return "a number" if known.name in self._numbers else "a value"
        return _WORDS.get(known.name, f"of type {known}")


def _unknown(data_type: DataType) -> bool:
    return data_type.name.startswith("?")
