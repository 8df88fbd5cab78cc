"""Random values and conditions: the part of the grammar for select lists, ON and WHERE."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias, TypeVar

LAST = 9
"""The last instant that the laws are checked at."""
LIKES: Final = ("'a%'", "'%b'", "'%a%'", "'_'", "'a'", "'%'", "'a_'", "''")
Kind: TypeAlias = Literal["integer", "string", "instant", "flag"]
Columns: TypeAlias = Mapping[Kind, Sequence[str]]
"""The columns of a range variable by their kind."""
T = TypeVar("T")


class Expressions:
    """Writes values and conditions over the range variables of ``scopes``, the innermost SELECT last."""

    def __init__(self, chance: random.Random) -> None:
        self.random = chance
        self.scopes: list[dict[str, Columns]] = []

    def pick(self, options: Sequence[T]) -> T:
        return options[self.random.randrange(len(options))]

    def chance(self, percent: int) -> bool:
        return self.random.randrange(100) < percent

    def subquery(self) -> str:
        """EXISTS or IN; where there is no room for one, a comparison."""
        return self.comparison()

    # --- names

    def visible(self) -> dict[str, Columns]:
        """Range variables that can be named here: an inner one hides an outer one of the same name."""
        found: dict[str, Columns] = {}
        for scope in reversed(self.scopes):
            found = {**found, **{alias: columns for alias, columns in scope.items() if alias not in found}}
        return found

    def column(self, kind: Kind) -> str | None:
        """A column of the innermost SELECT mostly, else of any around it; None where none is of that kind."""
        for around in (self.scopes[-1] if self.chance(65) else self.visible(), self.visible()):
            having = [alias for alias, columns in around.items() if columns.get(kind)]
            if having:
                alias = self.pick(having)
                return f"{alias}.{self.pick(around[alias][kind])}"
        return None

    # --- values

    def value(self, kind: Kind, depth: int = 0) -> str:
        """A value of a kind."""
        match kind:
            case "integer":
                return self.integer(depth)
            case "string":
                return self.string(depth)
            case _:
                return self.instant()

    def constant(self, kind: Kind) -> str:
        match kind:
            case "integer":
                return str(self.random.randrange(3))
            case "string":
                return self.pick(["'a'", "'b'", "'ab'", "''", "'a'"])
            case _:
                return f"TIMESTAMP '2000-01-01 00:00:00.{self.random.randrange(LAST + 1):06d}'"

    def integer(self, depth: int = 0) -> str:
        choice = self.random.randrange(12)
        if choice < 7 or depth > 1:
            return self.column("integer") or self.constant("integer")
        if choice < 9:
            return self.constant("integer")
        a, b = self.integer(depth + 1), self.integer(depth + 1)
        return self.pick(
            [
                f"({a} + {b})",
                f"({a} - {b})",
                f"({a} * 2)",
                f"ABS({a})",
                f"COALESCE({a}, {b})",
                f"LENGTH({self.string(depth + 1)})",
                f"(- -{a})",
                f"CASE WHEN {a} = 1 THEN {b} ELSE 0 END",
                f"NULLIF({a}, 1)",
            ]
        )

    def string(self, depth: int = 0) -> str:
        choice = self.random.randrange(10)
        if choice < 7 or depth > 1:
            return self.column("string") or self.constant("string")
        if choice < 9:
            return self.constant("string")
        a = self.string(depth + 1)
        return self.pick([f"UPPER({a})", f"COALESCE({a}, 'a')", f"SUBSTRING({a}, 1, 1)", f"REPLACE({a}, 'a', 'b')"])

    def interval(self) -> str:
        number = self.random.randrange(5)
        plain = self.pick([f"INTERVAL {number} MICROSECONDS", f"INTERVAL '{number}' MICROSECOND"])
        own = self.column("integer") if self.chance(12) else None
        return f"INTERVAL 1 MICROSECOND * {own}" if own else plain

    def instant(self) -> str:
        choice = self.random.randrange(20)
        base = self.column("instant")
        if choice == 0 or base is None:
            return self.constant("instant")
        if choice == 1:
            base = f"COALESCE({base}, {self.column('instant')})"
        return base if choice < 9 else f"{base} {self.pick(['+', '+', '-'])} {self.interval()}"

    # --- conditions

    def comparison(self) -> str:
        kinds: tuple[Kind, ...] = ("integer", "integer", "string", "instant")
        kind = self.pick(kinds)
        a, b = self.value(kind), self.value(kind)
        choice = self.random.randrange(14)
        if kind == "integer" and choice == 13:
            return f"{a} {self.pick(['=', '<', '>='])} {self.pick(['1.0', '0.5', '1.50', '2.25'])}"
        if choice < 5:
            return f"{a} = {b}"
        if choice < 7:
            return f"{a} {self.pick(['<', '<=', '>', '>=', '<>'])} {b}"
        if choice == 7:
            return f"{a} IS {self.pick(['', 'NOT '])}NULL"
        if choice == 8:
            return f"{a} {self.pick(['', 'NOT '])}IN ({self.listed(kind)})"
        if choice == 9:
            return f"{a} {self.pick(['', 'NOT '])}BETWEEN {b} AND {self.value(kind)}"
        if choice == 10:
            return f"{self.string()} {self.pick(['', 'NOT '])}LIKE {self.pick(LIKES)}"
        if choice == 11:
            return f"{a} <=> {b}"
        flag = self.column("flag")
        return self.pick([*([flag, f"{flag} = TRUE"] if flag else []), f"({a} < {b}) IS NOT NULL", "TRUE", "NULL"])

    def listed(self, kind: Kind) -> str:
        """The list of IN: constants only, or all expressions."""
        if self.chance(50):
            return ", ".join(self.constant(kind) for _ in range(self.pick([1, 2, 3])))
        return f"{self.value(kind)}, {self.value(kind)}{self.pick(['', ', NULL'])}"

    def now(self) -> str:
        name = self.pick(["NOW()", "NOW()", "CURRENT_TIMESTAMP", "CURRENT_TIMESTAMP()"])
        moved = f"{name} {self.pick(['+', '-'])} {self.interval()}" if self.chance(40) else name
        operator = self.pick(["<", "<=", ">", ">=", ">=", "=", "<>"])
        a, b, i = self.instant(), self.instant(), self.interval()
        return self.pick(
            [
                f"{moved} {operator} {a}",
                f"{moved} {operator} {a}",
                f"{a} {operator} {moved}",
                f"{name} - ({a}) {operator} {i}",
                f"({a}) - {name} {operator} {i}",
                f"{moved} {self.pick(['', 'NOT '])}BETWEEN {a} AND {b}",
                f"{a} {self.pick(['', 'NOT '])}BETWEEN {moved} AND {name} + {i}",
                f"{name} {self.pick(['', 'NOT '])}IN ({a}, {b})",
                f"{a} {self.pick(['', 'NOT '])}IN ({moved}, {b})",
                f"{moved} <=> {a}",
            ]
        )

    def condition(self, size: int) -> str:
        choice = self.random.randrange(100)
        if size <= 1 or choice < 20:
            return self.leaf()
        if choice < 42:
            return f"{self.nested(size // 2)} AND {self.nested(size - size // 2)}"
        if choice < 84:
            return f"{self.nested(size // 2)} OR {self.nested(size - size // 2)}"
        return f"NOT {self.nested(size - 1)}"

    def nested(self, size: int) -> str:
        return f"({self.condition(size)})"

    def leaf(self) -> str:
        choice = self.random.randrange(100)
        if choice < (45 if len(self.scopes) > 1 else 30):
            return self.subquery()
        return self.now() if choice < 70 else self.comparison()
