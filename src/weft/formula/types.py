"""Infer the types of variables from their uses.

While a formula is lowered, an unknown type is a type variable, ``DataType("?7")``.  Type variables that must be equal
are unified, and those of arithmetic can only become numbers.
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
    """Two types that cannot be unified."""


class Unknowns:
    """The type variables of a formula, and what is known of them so far."""

    def __init__(self) -> None:
        self._same: dict[str, DataType] = {}
        self._numbers: set[str] = set()
        self._count = 0

    def new(self, *, number: bool = False) -> DataType:
        """Return a new type variable; with ``number``, it can only become a number."""
        self._count += 1
        name = f"?{self._count}"
        if number:
            self._numbers.add(name)
        return DataType(name)

    def known(self, data_type: DataType) -> DataType:
        """Return the stored type that a type variable stands for, or the representative of its unified variables."""
        while data_type.name in self._same:
            data_type = self._same[data_type.name]
        return data_type

    def join(self, one: DataType, other: DataType) -> None:
        """Unify two types; raise Clash if they differ."""
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
        """Return the final type: an unconstrained variable becomes a text, an unknown number an integer."""
        known = self.known(data_type)
        if not _unknown(known):
            return known
        return BIGINT if known.name in self._numbers else STRING

    def words(self, data_type: DataType) -> str:
        """Describe a type in English."""
        known = self.known(data_type)
        if _unknown(known):
            return "a number" if known.name in self._numbers else "a value"
        return _WORDS.get(known.name, f"of type {known}")


def _unknown(data_type: DataType) -> bool:
    return data_type.name.startswith("?")
