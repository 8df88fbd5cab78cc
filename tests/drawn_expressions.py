"""Random SQL expressions over the table ``odd``, with operators of all levels, with and without parentheses."""

from __future__ import annotations

import random
from typing import Final

COLUMNS: Final = {
    "y": "TINYINT",
    "i": "INT",
    "l": "BIGINT",
    "f": "FLOAT",
    "d": "DOUBLE",
    "e": "DECIMAL(10,2)",
    "g": "DECIMAL(38,10)",
    "s": "STRING",
    "t": "STRING",
    "b": "BOOLEAN",
    "c": "BOOLEAN",
    "a": "DATE",
    "h": "DATE",
    "w": "TIMESTAMP",
    "v": "TIMESTAMP",
    "n": "BINARY",
}
_NUMBERS: Final = ("y", "i", "i", "l", "f", "d", "e", "g", "0", "1", "2", "7", "-1", ".5", "1.50", "3L", "1e2", "100")
_TEXTS: Final = ("s", "t", "s", "'a'", "'a%'", "''", "'12'", "'2000-01-01'", "'x_y'", r"'\\%'")
_TRUTHS: Final = ("b", "c", "b", "TRUE", "FALSE", "c")
_DAYS: Final = ("a", "h", "a", "DATE '2000-01-01'", "DATE '1999-12-31'")
_INSTANTS: Final = ("w", "v", "w", "TIMESTAMP '2000-01-01 12:00:00'")
_SPANS: Final = (
    "INTERVAL 1 DAY",
    "INTERVAL '36' HOUR",
    "INTERVAL 2 WEEKS",
    "INTERVAL '1 12:00:00' DAY TO SECOND",
    "INTERVAL -1 DAY",
    "INTERVAL 1 DAY 2 HOURS",
    "(a - h)",
    "(w - v)",
    "i * INTERVAL 1 DAY",
)
_COMPARISONS: Final = ("=", "<>", "<", "<=", ">", ">=", "<=>", "!=", "==")
_OF_NUMBERS: Final = ("ABS({0})", "ROUND({0})", "ROUND({0}, 1)", "SIGN({0})", "FLOOR({0})", "CEIL({0})")
_OF_TEXTS: Final = ("UPPER({0})", "TRIM({0})", "SUBSTRING({0}, 2)", "REPLACE({0}, 'a', 'b')", "LEFT({0}, 1)")


class Expressions:
    """A generator of random expressions."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def draw(self) -> str:
        """Return an expression of any type."""
        return self._of(self.chance.choice(("truth", "truth", "truth", "number", "text", "day", "instant")), 3)

    def _of(self, kind: str, depth: int) -> str:
        text: str = getattr(self, "_" + kind)(depth)
        return text

    def _operand(self, kind: str, depth: int) -> str:
        """Return an operand. If it contains operators, it is usually in parentheses."""
        text = self._of(kind, depth - 1)
        plain = " " not in text or text.startswith(("DATE ", "TIMESTAMP ", "("))
        return text if plain or self.chance.random() < 0.3 else f"({text})"

    def _comparable(self, depth: int) -> tuple[str, str]:
        kind = self.chance.choice(("number", "number", "text", "truth", "day", "instant"))
        other = kind if kind not in ("day", "instant") else self.chance.choice(("day", "instant", "written"))
        return self._operand(kind, depth), self._operand(other, depth)

    def _written(self, depth: int) -> str:
        return self.chance.choice(("'2000-01-01 12:00:00'", "'2000-01-01'", "'1999-12-31T23:00:00'"))

    def _truth(self, depth: int) -> str:
        if depth <= 0:
            return self.chance.choice(_TRUTHS)
        left, right = self._comparable(depth)
        truth, other = self._operand("truth", depth), self._operand("truth", depth)
        negated = self.chance.choice(("", "", "NOT "))
        options = (
            f"{left} {self.chance.choice(_COMPARISONS)} {right}",
            f"{left} {self.chance.choice(_COMPARISONS)} {right}",
            f"{truth} {self.chance.choice(('AND', 'OR'))} {other}",
            f"NOT {truth}",
            f"{truth} IS {negated}{self.chance.choice(('NULL', 'TRUE', 'FALSE'))}",
            f"{left} IS {negated}NULL",
            f"{left} IS {negated}DISTINCT FROM {right}",
            f"{left} {negated}IN ({right}, {left})",
            f"{left} {negated}BETWEEN {right} AND {left}",
            f"{self._operand('text', depth)} {negated}{self.chance.choice(('LIKE', 'ILIKE'))} "
            f"{self._operand('text', depth)}",
            f"{self._operand('text', depth)} {negated}RLIKE '{self.chance.choice(('a+', '^x', '[0-9]'))}'",
            f"CASE WHEN {truth} THEN {other} END",
        )
        return self.chance.choice(options)

    def _number(self, depth: int) -> str:
        if depth <= 0 or self.chance.random() < 0.2:
            return self.chance.choice(_NUMBERS)
        one, two = self._operand("number", depth), self._operand("number", depth)
        options = (
            f"{one} {self.chance.choice('+-*/%')} {two}",
            f"{one} {self.chance.choice('+-*/%')} {two}",
            f"- {one}",
            self.chance.choice(_OF_NUMBERS).format(one),
            f"CASE WHEN {self._operand('truth', depth)} THEN {one} ELSE {two} END",
            f"COALESCE({one}, {two})",
            f"CAST({one} AS {self.chance.choice(('INT', 'DOUBLE', 'DECIMAL(12,3)', 'BIGINT', 'TINYINT'))})",
            f"LENGTH({self._operand('text', depth)})",
            f"EXTRACT({self.chance.choice(('SECOND', 'YEAR', 'DOW'))} FROM {self._operand('instant', depth)})",
            f"DATEDIFF({self._operand('day', depth)}, {self._operand('instant', depth)})",
        )
        return self.chance.choice(options)

    def _text(self, depth: int) -> str:
        if depth <= 0 or self.chance.random() < 0.3:
            return self.chance.choice(_TEXTS)
        one = self._operand("text", depth)
        options = (
            f"{one} || {self._operand(self.chance.choice(('text', 'number')), depth)}",
            self.chance.choice(_OF_TEXTS).format(one),
            f"CAST({self._operand(self.chance.choice(('number', 'day', 'instant', 'truth')), depth)} AS STRING)",
            f"IF({self._operand('truth', depth)}, {one}, {self._operand('text', depth)})",
        )
        return self.chance.choice(options)

    def _day(self, depth: int) -> str:
        if depth <= 0 or self.chance.random() < 0.3:
            return self.chance.choice(_DAYS)
        options = (
            f"{self._operand('day', depth)} {self.chance.choice('+-')} {self.chance.choice(_SPANS)}",
            f"{self.chance.choice(_SPANS)} + {self._operand('day', depth)}",
            f"CAST({self._operand(self.chance.choice(('instant', 'text')), depth)} AS DATE)",
            f"LAST_DAY({self._operand('day', depth)})",
            f"GREATEST({self._operand('day', depth)}, {self._operand('day', depth)})",
        )
        return self.chance.choice(options)

    def _instant(self, depth: int) -> str:
        if depth <= 0 or self.chance.random() < 0.3:
            return self.chance.choice(_INSTANTS)
        options = (
            f"{self._operand('instant', depth)} {self.chance.choice('+-')} {self.chance.choice(_SPANS)}",
            f"CAST({self._operand(self.chance.choice(('day', 'text', 'number')), depth)} AS TIMESTAMP)",
            f"LEAST({self._operand('instant', depth)}, {self._operand('instant', depth)})",
        )
        return self.chance.choice(options)
