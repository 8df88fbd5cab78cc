"""Draw a relation twice: in the algebra of the program, and as a term over the definitions of ``proofs/``.

Every row has a number ``k`` and a threshold ``c``, an instant or NULL. In the proofs it is a pair ``Z * option Z``.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from weft.algebra import relation as relational
from weft.algebra.scalar import ColumnRef, Literal, Scalar, call
from weft.algebra.schema import INT, TIMESTAMP, Column, TableSchema

LAST = 9
"""The last instant of a history. The first is 0."""
KEPT = TableSchema(1, "kept", (Column(1, "k", INT), Column(2, "c", TIMESTAMP), Column(3, "ts", TIMESTAMP)))
STAFF = TableSchema(
    2,
    "staff",
    (Column(1, "k", INT), Column(2, "c", TIMESTAMP), Column(3, "ts", TIMESTAMP), Column(4, "te", TIMESTAMP)),
    "ts",
    "te",
)
Stored = list[dict[str, int | None]]


@dataclass(frozen=True)
class Drawn:
    """A relation and its term. ``bare`` if the relation has more columns than ``k`` and ``c``."""

    relation: relational.Relation
    term: str
    bare: bool = False


@dataclass(frozen=True)
class Around:
    """A row that a condition may name: its columns, and its variable in the term."""

    k: ColumnRef
    c: ColumnRef
    variable: str


def number(value: int | None) -> str:
    """Return an optional instant as a term."""
    return "None" if value is None else f"(Some ({value}))"


class Chance:
    """Draws histories and relations from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.names = 0

    def name(self, letter: str) -> str:
        """Return a name that no other part of the case has."""
        self.names += 1
        return f"{letter}{self.names}"

    def threshold(self) -> int | None:
        """Return an instant, now and then before the beginning of time, or NULL."""
        return self.random.choice((None, -2, *range(LAST + 1)))

    def history(self) -> dict[str, Stored]:
        """Return rows of both tables. Some rows are equal; some begin together; some end when others begin."""
        found: dict[str, Stored] = {"kept": [], "staff": []}
        for name, stored in found.items():
            for _ in range(self.random.randint(0, 4)):
                start = self.random.randint(0, LAST - 1)
                row: dict[str, int | None] = {"k": self.random.randint(0, 2), "c": self.threshold(), "ts": start}
                if name == "staff":
                    row["te"] = self.random.choice((None, *range(start + 1, LAST + 1)))
                stored.append(row)
                if self.random.random() < 0.2:
                    stored.append(dict(row))
        return found

    def relation(self, depth: int, around: tuple[Around, ...] = ()) -> Drawn:
        """Return a relation of operators nested up to ``depth``. Its conditions may name the rows ``around``."""
        kinds = (
            ("kept", "staff", "values") if depth == 0 else ("staff", "select", "select", "join", "union", "distinct")
        )
        match self.random.choice(kinds):
            case "kept":
                return Drawn(relational.Scan(KEPT, self.name("s")), "(append_only kept)", bare=True)
            case "staff":
                return Drawn(relational.Scan(STAFF, self.name("s")), "(scan staff)", bare=True)
            case "values":
                return self._values()
            case "select":
                return self._select(depth, around)
            case "join":
                one, other = (self.relation(depth - 1, around) for _ in range(2))
                k, _ = _columns(one.relation)
                _, c = _columns(other.relation)
                joined = relational.Join((one.relation, other.relation))
                term = f"(project (fun x => (fst (fst x), snd (snd x))) (join {one.term} {other.term}))"
                return Drawn(self._projected(joined, k, c), term)
            case "union":
                one, other = (self._narrow(self.relation(depth - 1, around)) for _ in range(2))
                both = relational.Union(self.name("u"), (one.relation, other.relation))
                return Drawn(both, f"(union {one.term} {other.term})")
        inner = self._narrow(self.relation(depth - 1, around))
        return Drawn(relational.Distinct(inner.relation), f"(distinct {inner.term})")

    def _values(self) -> Drawn:
        constants = [(self.random.randint(0, 2), self.threshold()) for _ in range(self.random.randint(1, 2))]
        rows = tuple((Literal(k, INT), Literal(c, TIMESTAMP)) for k, c in constants)
        listed = "; ".join(f"({k}, {number(c)})" for k, c in constants)
        columns = (Column(1, "k", INT), Column(2, "c", TIMESTAMP))
        return Drawn(relational.Values(self.name("v"), columns, rows), f"(values 0 [{listed}])")

    def _select(self, depth: int, around: tuple[Around, ...]) -> Drawn:
        inner = self.relation(depth - 1, around)
        own = Around(*_columns(inner.relation), self.name("r"))
        predicate, term = self.condition(depth, (*around, own))
        judged = f"(select {inner.term} (fun {own.variable} => {term}))"
        return Drawn(relational.Select(inner.relation, predicate), judged, inner.bare)

    def condition(self, depth: int, around: tuple[Around, ...]) -> tuple[relational.Predicate, str]:
        """Return a condition on the rows ``around`` and its term."""
        simple = ("plain", "from", "before")
        match self.random.choice(simple if depth <= 1 else (*simple, "and", "or", "exists", "absent", "absent")):
            case "plain":
                return self._plain(around)
            case "from":
                row = self.random.choice(around)
                return relational.NowFrom(row.c), f"(now_from (snd {row.variable}))"
            case "before":
                row = self.random.choice(around)
                return relational.NowBefore(row.c), f"(now_before (snd {row.variable}))"
            case "and":
                (p, one), (q, other) = (self.condition(depth - 1, around) for _ in range(2))
                return relational.And((p, q)), f"(both {one} {other})"
            case "or":
                (p, one), (q, other) = (self.condition(depth - 1, around) for _ in range(2))
                return relational.Or((p, q)), f"(either {one} {other})"
            case "exists":
                body = self._select(depth - 1, around)
                return relational.Exists(body.relation), f"(exists_ {body.term})"
        body = self._select(depth - 1, around)
        return relational.NotExists(body.relation), f"(not_exists {body.term})"

    def _plain(self, around: tuple[Around, ...]) -> tuple[relational.Predicate, str]:
        row, other = around[-1], self.random.choice((None, *around[:-1]))
        name, compared = self.random.choice((("=", "Z.eqb"), ("<=", "Z.leb")))
        constant = self.random.randint(0, 2)
        right: Scalar = Literal(constant, INT) if other is None else other.k
        term = str(constant) if other is None else f"(fst {other.variable})"
        return relational.Plain(call(name, row.k, right)), f"(plain ({compared} (fst {row.variable}) {term}))"

    def _projected(self, relation: relational.Relation, k: ColumnRef, c: ColumnRef) -> relational.Project:
        outputs = (relational.Output("k", k), relational.Output("c", c))
        return relational.Project(relation, self.name("p"), outputs)

    def _narrow(self, drawn: Drawn) -> Drawn:
        """Return the relation with the columns ``k`` and ``c`` only."""
        if not drawn.bare:
            return drawn
        return Drawn(self._projected(drawn.relation, *_columns(drawn.relation)), drawn.term)

    def answer(self, depth: int) -> tuple[relational.Project, str]:
        """Return a relation that is projected to its rows, as a query is, and its term."""
        drawn = self.relation(depth)
        return self._projected(drawn.relation, *_columns(drawn.relation)), drawn.term


def _columns(relation: relational.Relation) -> tuple[ColumnRef, ColumnRef]:
    named = {ref.column: ref for ref in relational.attributes(relation)}
    return named["k"], named["c"]
