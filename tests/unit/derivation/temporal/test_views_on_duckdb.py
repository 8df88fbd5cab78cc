"""Views as they are written, maintained on an engine: text, expression, deltas, SQL, applied to what is kept.

The kept rows are compared with the view's value by definition after each change and after each passing of time.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from temporal_values import Histories, Value, leaf_name, tracked
from weft.algebra.relation import Scan
from weft.algebra.scalar import CHANGED_FROM, REFRESHED, Literal
from weft.algebra.schema import TIMESTAMP, TableSchema
from weft.algebra.temporal import Difference, Temporal, attributes, union
from weft.derivation.temporal.maintenance_plan import Derived, Maintenance, maintenance
from weft.derivation.temporal.sequenced import sequenced
from weft.sql.lower.query import bind_view
from weft.sql.rendering.render_temporal import Evaluation, value_sql

DAY = 86_400_000_000
E = tracked(1, "e", id="INT", dept="STRING", pay="INT")
S = tracked(2, "s", id="INT", project="STRING")
VIEWS = {
    "figure 3": "SELECT s.id, s.project FROM (SELECT id FROM e WHERE dept = 'a') AS d JOIN s ON s.id = d.id "
    "WHERE PERIOD_START(d) >= NOW() - INTERVAL 1 YEAR AND PERIOD_END(d) < NOW()",
    "join": "SELECT e.dept, s.project FROM e JOIN s ON s.id = e.id WHERE e.pay > 1",
    "not exists": "SELECT e.id FROM e WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.id = e.id)",
    "exists or": "SELECT e.id FROM e WHERE e.pay = 2 OR EXISTS (SELECT 1 FROM s WHERE s.id = e.id)",
    "except": "SELECT id FROM e EXCEPT SELECT id FROM s",
    "union": "SELECT id FROM e WHERE dept = 'b' UNION SELECT id FROM s",
    "counts": "SELECT dept, COUNT(*) AS n, SUM(pay) AS p, AVG(pay) AS q, MAX(pay) AS m FROM e GROUP BY dept",
    "count of all": "SELECT COUNT(*) AS n FROM e",
    "window": "SELECT project, COUNT(*) AS n FROM s GROUP BY project, MOVING_WINDOW(INTERVAL 40 DAYS)",
    "long": "SELECT e.id, e.dept FROM e WHERE PERIOD_LENGTH(e) > INTERVAL 200 DAYS",
    "overlap": "SELECT e.id, s.project FROM e JOIN s ON s.id = e.id WHERE PERIOD_CONTAINS(e, s)",
    "recent": "SELECT e.id FROM e WHERE PERIOD_END(e) >= NOW() - INTERVAL 3 MONTHS",
}


class Kept:
    """One view's rows beside the tables that it is over."""

    def __init__(self, text: str, seed: int) -> None:
        self.chance, self.now = random.Random(seed), 0
        self.home = Histories([E, S])
        self.plan: Maintenance = maintenance(sequenced(bind_view(text, self.home.tables)))
        types = {f"c{n}": str(ref.type) for n, ref in enumerate(attributes(self.plan.view), 1)}
        self.tables = [tracked(10 + n, name, **types) for n, name in enumerate(("kept", "gone", "came"))]
        for table in (*self.tables, *(tracked_as(each, kind) for each in (E, S) for kind in ("deleted", "inserted"))):
            self.create(table)
        self.write("kept", self.value(self.plan.view))

    def create(self, table: TableSchema) -> None:
        self.home.create(table.name, table)
        self.home.tables[table.name] = table

    def value(self, relation: Temporal, **parameters: int) -> Value:
        given = {name: Literal(value * DAY, TIMESTAMP) for name, value in parameters.items()}
        return self.home.read(value_sql(relation, leaf_name, Evaluation(self.now * DAY, 0, given)))

    def write(self, name: str, value: Value) -> None:
        self.home.load({name: [(*row, *period) for row, periods in value.items() for period in periods]})

    def apply(self, derived: Derived, **parameters: int) -> None:
        kept, gone, came = (Scan(table, table.name) for table in self.tables)
        for name, part in (("gone", derived.deleted), ("came", derived.inserted)):
            self.write(name, {} if part is None else self.value(part, **parameters))
        self.write("kept", self.value(union(Difference(kept, gone), came)))
        assert self.value(kept) == self.value(self.plan.view), self.now

    def pass_time(self) -> None:
        then, self.now = self.now, self.now + self.chance.choice((1, 30, 90, 200, 400))
        self.apply(self.plan.refresh, **{REFRESHED.name: then})

    def change(self) -> None:
        tables = self.chance.choice(([E], [S], [E, S]))
        new = {}
        for table in tables:
            base = Scan(table, table.name)
            held = {row for row, periods in self.value(base).items() if periods[-1][1] is None}
            gone = {row for row in held if self.chance.random() < 0.3}
            came = {self.row(table.name) for _ in range(2)} - held
            for kind, rows in (("deleted", gone), ("inserted", came)):
                self.write(f"{kind}_{table.name}", {row: [(self.now * DAY, None)] for row in rows})
            new[table.name] = ({row: [(self.now * DAY, None)] for row in rows} for rows in (gone, came))
        derived = self.plan.change(tables)
        kept = self.tables[0]
        parts = [
            {} if part is None else self.value(part, **{CHANGED_FROM.name: self.now})
            for part in (derived.deleted, derived.inserted)
        ]
        for name, (gone_rows, came_rows) in new.items():
            self.replace(Scan(self.home.tables[name], name), [gone_rows, came_rows])
        self.replace(Scan(kept, "kept"), parts)
        assert self.value(Scan(kept, "kept")) == self.value(self.plan.view), self.now

    def replace(self, base: Scan, parts: list[Value]) -> None:
        """R − ∇R ∪ ΔR."""
        places = [tracked_as(base.table, name) for name in ("less", "more")]
        for table, part in zip(places, parts, strict=True):
            self.create(table)
            self.write(table.name, part)
        less, more = (Scan(table, table.name) for table in places)
        self.write(base.table.name, self.value(union(Difference(base, less), more)))

    def row(self, table: str) -> tuple[Any, ...]:
        number = self.chance.choice((1, 2, None))
        if table == "s":
            return (number, self.chance.choice("xy"))
        return (number, self.chance.choice("ab"), self.chance.choice((1, 2, None)))


def tracked_as(table: TableSchema, prefix: str) -> TableSchema:
    types = {ref.column: str(ref.type) for ref in attributes(Scan(table, "t"))}
    return tracked(100 + table.id, f"{prefix}_{table.name}", **types)


@pytest.mark.parametrize("name", VIEWS)
def test_views_are_kept_as_their_definition_has_them(name: str) -> None:
    for seed in range(2):
        kept = Kept(VIEWS[name], seed)
        for _ in range(3 - seed):
            kept.change()
            kept.pass_time()


def test_an_outer_join_is_kept() -> None:
    kept = Kept("SELECT e.dept, s.project FROM e LEFT JOIN s ON s.id = e.id", 1)
    kept.change()
    kept.change()
