"""Conjunctive queries as formulas: ``past_logic`` counts the rows of the formula, and DuckDB those of the SQL text.

The test compares both over each prefix, with duplicates (Toman 2007, lemmas 4.10 and 4.11). It also tries the paper's
own nest, without ▽: its counts are wrong in most cases with several orders.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pytest

from oracle.past_logic import Log, Row, evaluated
from oracle.shards import shards
from weft.algebra.formula import ALWAYS, Formula, Once, Previous, free_variables, rewritten, subformulas
from weft.algebra.relation import Query
from weft.algebra.scalar import ColumnRef
from weft.algebra.schema import BIGINT, STRING, TIMESTAMP, Column, TableSchema
from weft.derivation.normalize import normalize
from weft.derivation.synopsis.conjunctive import ANSWER, Nest, nests
from weft.errors import SynopsisError
from weft.sql.lower.query import bind
from weft.sql.rendering.render import query_sql
from weft.storage.local_sql import connect

CASES = 400
SHARDS = 2
SECOND = 1_000_000
NAMES = ("r", "s", "u")
FIELDS = (("ts", TIMESTAMP), ("a", BIGINT), ("b", BIGINT), ("c", STRING))
TABLES = {
    name: TableSchema(number, name, tuple(Column(n, *field) for n, field in enumerate(FIELDS, 1)), "ts")
    for number, name in enumerate(NAMES, 1)
}
Stream = dict[str, list[tuple[int, int, int, str]]]


def query(chance: random.Random) -> str:
    """A random SELECT over up to four range variables, or a UNION ALL of two."""
    width = chance.choice([1, 1, 2])
    kinds = [chance.choice(["a", "a", "c"]) for _ in range(width)]
    return " UNION ALL ".join(select(chance, kinds) for _ in range(chance.choice([1, 1, 1, 2])))


def select(chance: random.Random, kinds: Sequence[str]) -> str:
    aliases = [f"t{number}" for number in range(chance.choice([1, 2, 2, 2, 3, 3, 4]))]
    tables = ", ".join(f"{chance.choice(NAMES)} AS {alias}" for alias in aliases)
    conditions = [own(chance, alias) for alias in aliases if chance.random() < 0.2]
    for number, alias in enumerate(aliases[1:], 1):
        before = aliases[number - 1] if chance.random() < 0.8 else chance.choice(aliases[:number])
        if chance.random() < 0.8:
            conditions.append(values(chance, alias, before))
        if chance.random() < 0.9:
            conditions.append(instants(chance, alias, before))
    chance.shuffle(conditions)
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    columns = (f"{chance.choice(aliases)}.{chance.choice('ab') if kind == 'a' else 'c'}" for kind in kinds)
    outputs = (f"{column} AS o{number}" for number, column in enumerate(columns))
    return f"SELECT {', '.join(outputs)} FROM {tables}{where}"


def own(chance: random.Random, alias: str) -> str:
    return chance.choice([f"{alias}.a = 1", f"{alias}.a < {alias}.b", f"{alias}.c <> 'x'", f"{alias}.a = {alias}.b"])


def values(chance: random.Random, one: str, other: str) -> str:
    if chance.random() < 0.3:
        return f"{one}.c {chance.choice(['=', '=', '<>', '<'])} {other}.c"
    return (
        f"{one}.{chance.choice('ab')} {chance.choice(['=', '=', '=', '<>', '<', '>='])} {other}.{chance.choice('ab')}"
    )


def instants(chance: random.Random, one: str, other: str) -> str:
    length = f"INTERVAL {chance.choice([1, 2, 3])} SECONDS"
    return chance.choice(
        [
            f"{one}.ts > {other}.ts",
            f"{one}.ts > {other}.ts",
            f"{one}.ts < {other}.ts",
            f"{one}.ts >= {other}.ts",
            f"{one}.ts = {other}.ts",
            f"{one}.ts <> {other}.ts",
            f"{one}.ts BETWEEN {other}.ts AND {other}.ts + {length}",
            f"{one}.ts - {other}.ts > {length}",
            f"{other}.ts + {length} <= {one}.ts AND {one}.ts < {other}.ts + INTERVAL 4 SECONDS",
        ]
    )


def stream(chance: random.Random) -> Stream:
    """A few instants with several rows each, some of them twice."""
    last, found = chance.choice([3, 5, 7]), {}
    for name in NAMES:
        rows = []
        for _ in range(chance.choice([2, 4, 6])):
            row = (chance.randrange(last) * SECOND, chance.randrange(3), chance.randrange(3), chance.choice("xy"))
            rows += [row] * chance.choice([1, 1, 1, 2])
        found[name] = sorted(rows)
    return found


class Engine:
    """Counts of SQL's rows."""

    def __init__(self) -> None:
        self.connection = connect()
        for name in NAMES:
            self.connection.execute(f"CREATE TEMP TABLE {name}_all (ts TIMESTAMPTZ, a BIGINT, b BIGINT, c VARCHAR)")
            self.connection.execute(
                f"CREATE TEMP VIEW {name} AS SELECT * FROM {name}_all WHERE ts <= getvariable('until')"
            )

    def load(self, found: Stream) -> None:
        for name, rows in found.items():
            self.connection.execute(f"DELETE FROM {name}_all")
            self.connection.executemany(f"INSERT INTO {name}_all VALUES (make_timestamptz(?), ?, ?, ?)", rows)

    def until(self, instant: int) -> None:
        self.connection.execute(f"SET VARIABLE until = make_timestamptz({instant})")

    def counts(self, text: str) -> Counter[Row]:
        return Counter(self.connection.execute(text).fetchall())


def states(engine: Engine, nest: Nest, found: Stream) -> Log:
    """What each predicate of a nest has at each instant."""
    instants = sorted({row[0] for rows in found.values() for row in rows})
    engine.until(instants[-1])
    at: list[dict[str, list[Row]]] = [{} for _ in instants]
    for each in nest.inputs:
        text = query_sql(Query(each.input, each.outputs)).replace("SELECT DISTINCT", "SELECT")
        rows = engine.connection.execute(text.replace("SELECT", f"SELECT epoch_us({each.alias}.ts),", 1))
        for instant, *row in rows.fetchall():
            at[instants.index(instant)].setdefault(each.alias, []).append(tuple(row))
    return Log(tuple(instants), tuple(at))


def answers(nest: Nest, formula: Formula, log: Log) -> list[Counter[Row]]:
    """How often each row of the SELECT is an answer, at each state."""
    order = [variable.name for variable in free_variables(formula)]
    places = []
    for output in nest.outputs:
        assert isinstance(output.value, ColumnRef)
        assert output.value.scan == ANSWER
        places.append(order.index(output.value.column))
    found = []
    for rows in evaluated(Once(ALWAYS, formula, "first"), log, "bag"):
        counted = Counter[Row]()
        for row, count in rows.items():
            counted[tuple(row[place] for place in places)] += count
        found.append(counted)
    return found


def as_the_paper_has_it(formula: Formula) -> Formula:
    """The nest of lemma 4.11: ◇ without ▽."""
    return rewritten(formula, lambda part: part.formula if isinstance(part, Previous) else part)


@pytest.mark.parametrize("shard", shards(SHARDS))
def test_the_nest_counts_what_the_query_counts(shard: int) -> None:
    chance = random.Random(shard)
    engine, tried = Engine(), Counter[str]()
    seen: set[str] = set()
    while tried["cases"] < CASES // SHARDS:
        text = query(chance)
        if text in seen:
            continue
        try:
            made = nests(normalize(bind(text, TABLES)))
        except SynopsisError:
            tried["refused"] += 1
            continue
        found = stream(chance)
        engine.load(found)
        logs = [states(engine, nest, found) for nest in made]
        given = [answers(nest, nest.formula, log) for nest, log in zip(made, logs, strict=True)]
        paper = [answers(n, as_the_paper_has_it(n.formula), log) for n, log in zip(made, logs, strict=True)]
        expected = []
        for tp, instant in enumerate(logs[0].at):
            engine.until(instant)
            expected.append(engine.counts(text))
            assert sum((each[tp] for each in given), Counter()) == expected[tp], f"{text}\n{found}\nat {instant}"
        seen.add(text)
        tried["cases"] += 1
        tried["with answers"] += any(expected)
        tried["that change"] += len({tuple(sorted(each.items())) for each in expected}) > 2
        tried["of several orders"] += any(len(nest.orders) > 1 for nest in made)
        strict = any(isinstance(part, Previous) for nest in made for part in subformulas(nest.formula))
        tried["with ▽"] += strict
        tried["wrong without ▽"] += strict and any(
            sum((each[tp] for each in paper), Counter()) != rows for tp, rows in enumerate(expected)
        )
    assert tried["with answers"] > 0.5 * tried["cases"], tried
    assert tried["that change"] > 0.25 * tried["cases"], tried
    assert tried["wrong without ▽"] > 0.4 * tried["with ▽"] > 0.1 * tried["cases"], tried
