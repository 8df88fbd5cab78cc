"""The tables that a tick reads to continue a recursion."""

from __future__ import annotations

import pytest

from weft.algebra.access import DeltaScan, FullScan, Key, Lookup
from weft.algebra.schema import STRING, TIMESTAMP, Column, TableSchema
from weft.derivation.recursion import ROUND
from weft.planning.plan import plan
from weft.planning.recursion_plan import ContinuedRecursion, continued_recursion, tables_read
from weft.planning.state_causes import all_states
from weft.planning.state_plan import Keys


def table(number: int, name: str, columns: str) -> TableSchema:
    """A tracked table whose columns, besides the period, are texts."""
    kinds = dict.fromkeys(columns.split(), STRING) | {"valid_from": TIMESTAMP, "valid_to": TIMESTAMP}
    listed = tuple(Column(place, label, kind) for place, (label, kind) in enumerate(kinds.items(), 1))
    return TableSchema(number, name, listed, "valid_from", "valid_to")


TABLES = {each.name: each for each in (table(1, "links", "src dst"), table(2, "known", "node"))}
STEPS = {
    "one table": "SELECT r.a, l.dst FROM r JOIN links AS l ON l.src = r.b",
    "a second one through the recursion": "SELECT r.a, l.dst FROM r JOIN links AS l ON l.src = r.b JOIN known AS k ON "
    "k.node = r.a",
    "NOT EXISTS": "SELECT r.a, l.dst FROM r JOIN links AS l ON l.src = r.b WHERE NOT EXISTS (SELECT 1 FROM known AS k "
    "WHERE k.node = l.dst)",
    "computed": "SELECT r.a, CONCAT(l.dst, 'x') FROM r JOIN links AS l ON l.src = r.b",
}


def continued(step: str, seed: str = "SELECT src, dst FROM links") -> ContinuedRecursion:
    text = f"WITH RECURSIVE r(a, b) AS ({seed} UNION {step}) SELECT a, b FROM r"
    (found,) = filter(None, map(continued_recursion, all_states(plan(text, TABLES).evaluated)))
    return found


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
@pytest.mark.parametrize("nullable", [False, True])
def test_no_table_is_read_whole(step: str, nullable: bool) -> None:
    found = continued(step)
    keys = Keys((0, 1), (STRING, STRING), (False, nullable))
    parts = (*found.touching, *found.first, *found.again(keys), *found.steps)
    read = tables_read(parts)
    assert {path.table for path in read} >= {"links"} and not any(isinstance(path, FullScan) for path in read)


def test_a_second_table_is_looked_up_by_the_stored_rows_that_the_first_one_finds() -> None:
    found = continued(STEPS["a second one through the recursion"])
    ways = [path for path in tables_read(found.first) if isinstance(path, Lookup) and path.table == "known"]
    assert ways
    for path in ways:
        through = path.via
        assert isinstance(through, Lookup) and (through.table, through.key) == (ROUND, Key("c2"))
        assert isinstance(through.via, DeltaScan) and through.via.table == "links"
