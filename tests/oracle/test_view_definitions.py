"""Laws 1 and 2 of standing queries over views that depend on NOW, against the definitions written into the text.

Views are random queries over tracked tables and over earlier views. A query names them. In the reference, each view is
``(SELECT DISTINCT * FROM (its text))``, with NOW = s at every instant s. The views are stored as bound, restored and
inserted into the query, as in a home (``catalog.definitions``).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pytest

from oracle.derived import Standing
from oracle.engines import Row, Sqlite
from oracle.expressions import LAST, Columns, Kind
from oracle.grammar import TABLES, Writer, by_kind
from oracle.histories import COLUMNS, Case, History, history, informative_case
from oracle.laws import Law, Trial, any_partition, from_now, later_tick, many_queries, stored_as_it_is, union_of_starts
from oracle.shards import shards
from oracle.spelling import Text, differs, folded, spelled
from weft.algebra.relation import ViewSchema
from weft.algebra.scalar import mentions_now
from weft.algebra.schema import TIMESTAMP, VALID_FROM, VALID_TO, Column, DataType, TableSchema
from weft.algebra.traverse import scalars
from weft.catalog.definitions import Definitions
from weft.catalog.records import TableRecord
from weft.catalog.views import ViewRecord
from weft.derivation.size import size
from weft.errors import SqlError
from weft.planning.form import restored_plan, stored_form
from weft.planning.plan import bind_standing, standing_plan
from weft.planning.view_plan import bound_view, stored_view

TEXTS = 120
SHARDS = 2
LARGE = 50
"""Tables that the branches of a text may name: most of the time would go to the few texts that name more."""
IN_TURN: tuple[Law, ...] = (later_tick, from_now, many_queries, stored_as_it_is)
KINDS: tuple[Kind, ...] = ("integer", "integer", "string", "instant")


class Periods(Sqlite):
    """SQLite over tables whose rows hold from ``valid_from`` until ``valid_to``."""

    def load(self, tables: Mapping[str, Any]) -> None:
        for name in tables:
            self.connection.execute(
                f"CREATE TABLE IF NOT EXISTS {name} (k INT, n INT, x TEXT, d INT, f INT, ts INT, te INT, "
                "valid_from INT AS (ts), valid_to INT AS (te))"
            )
        super().load(tables)


@dataclass
class Drawn:
    """A view: the columns that it gives, its text marked with both spellings."""

    columns: Columns
    marked: str


class Naming(Writer):
    """Writes a query that names views."""

    def __init__(self, chance: random.Random, budget: int, views: Mapping[str, Drawn]) -> None:
        super().__init__(chance, budget)
        self.views = views
        self.named: Counter[str] = Counter()

    def source(self, scope: dict[str, Columns]) -> str:
        if not self.views or not self.chance(55):
            return super().source(scope)
        name = self.pick(list(self.views))
        self.named[name] += 1
        alias = self.fresh(name, scope)
        scope[alias] = self.views[name].columns
        return f"{differs(name, f'(SELECT DISTINCT * FROM ({self.views[name].marked}) AS defined)')} AS {alias}"

    def view(self) -> Drawn:
        kinds = [self.pick(KINDS) for _ in range(self.pick([1, 2, 2, 3]))]
        names = self.names(len(kinds))
        return Drawn(by_kind(kinds, names), self.rows(kinds, names, sets=25))


@dataclass(frozen=True)
class Viewed:
    """A query over views: the views' texts by name, in the order of their making."""

    views: dict[str, Text]
    query: Text
    named: frozenset[str]


def drawn(chance: random.Random) -> Viewed:
    views: dict[str, Drawn] = {}
    for number in range(1, chance.choice([1, 2, 2, 3]) + 1):
        views[f"view{number}"] = Naming(chance, chance.randrange(2), dict(views)).view()
    writer = Naming(chance, chance.randrange(3), views)
    text = spelled(writer.top())
    texts = {name: spelled(view.marked) for name, view in views.items()}
    return Viewed(texts, text, frozenset(writer.named))


def tables() -> dict[str, TableSchema]:
    found = {}
    for number, name in enumerate(TABLES, 1):
        kinds = {**COLUMNS, VALID_FROM: "TIMESTAMP", VALID_TO: "TIMESTAMP"}
        columns = tuple(Column(n, label, DataType.parse(kind)) for n, (label, kind) in enumerate(kinds.items(), 1))
        found[name] = TableSchema(number, name, columns, VALID_FROM, VALID_TO)
    return found


def record(schema: TableSchema) -> TableRecord:
    return TableRecord(schema, "", (), None, 0, -1, None, None)


@dataclass(frozen=True)
class Added:
    """The tables and views of a home as its queries see them; ``depending`` are the views that depend on NOW."""

    schemas: dict[str, TableSchema]
    depending: frozenset[str]


def added(viewed: Viewed) -> Added:
    """Return the tables of a home after the views were added.

    Raise SqlError. Views without NOW are also read by their definitions, because they have no stored periods here. By
    law 5, both are the same.
    """
    known, views, depending = tables(), [], set[str]()
    for number, (name, text) in enumerate(viewed.views.items(), len(TABLES) + 1):
        bound = bound_view(text.spark, known)
        if any(mentions_now(each) for each in scalars(bound.query)) or depending & {each.name for each in bound.tables}:
            depending.add(name)
        named = [*bound.columns, *((each, TIMESTAMP) for each in (VALID_FROM, VALID_TO))]
        columns = tuple(Column(n, label, kind) for n, (label, kind) in enumerate(named, 1))
        reads = {table.id: tuple(column.id for column in table.columns) for table in bound.tables}
        views.append(ViewRecord(number, name, text.spark, stored_view(bound), reads, "eager", 0, None, None))
        known[name] = ViewSchema(number, name, columns, VALID_FROM, VALID_TO, depends_on_now=True)
    definitions = Definitions([record(schema) for schema in known.values()], views)
    return Added({name: definitions.schema(schema.id) for name, schema in known.items()}, frozenset(depending))


class OverViews(Trial):
    """A case whose text names views."""

    known: dict[str, TableSchema]

    def compiled(self, *, installed_now: bool) -> Standing:
        found = standing_plan(self.case.text.spark, self.known, from_now=installed_now)
        form = stored_form(found)
        return Standing(found, form, restored_plan(form.body, form.signature, tables().values()))

    @cached_property
    def standing(self) -> Standing:
        return self.compiled(installed_now=False)

    @cached_property
    def from_now(self) -> Standing | None:
        try:
            return self.compiled(installed_now=True)
        except SqlError as refused:
            assert "Split the query" in str(refused)
            return None


def ending(chance: random.Random) -> History:
    found = history(chance)
    return replace(found, ending=TABLES)


def distinct() -> Iterator[tuple[Viewed, random.Random]]:
    """Queries over views, at least one of which depends on NOW. They differ in more than constants and aliases."""
    seen: set[str] = set()
    for number in range(10 * TEXTS):
        chance = random.Random(number)
        viewed = drawn(chance)
        whole = " ; ".join(text.spark for text in (*viewed.views.values(), viewed.query))
        shape = folded(whole)
        if shape not in seen and len(viewed.query.plain) < 4_000:
            seen.add(shape)
            yield viewed, chance


@pytest.mark.timeout(900)
@pytest.mark.parametrize("shard", shards(SHARDS))
def test_every_instant_counts(shard: int, record_property: Any) -> None:
    counts: Counter[str] = Counter()
    engine = Periods()
    number = 0
    for viewed, chance in distinct():
        try:
            home = added(viewed)
            if not home.depending & viewed.named:
                continue
            written, _ = bind_standing(viewed.query.spark, home.schemas)
            if size(written).sources > LARGE:
                counts["large"] += 1
                continue
            standing_plan(viewed.query.spark, home.schemas)
        except SqlError as refused:
            assert "Split the query" in str(refused), viewed
            counts["beyond the limits"] += 1
            continue
        number += 1
        if number > TEXTS:
            break
        if number % SHARDS == shard:
            tried(engine, viewed, home.schemas, chance, number, counts)
    record_property("definitions", dict(counts))
    print(dict(counts))
    assert counts["texts"] >= 0.8 * TEXTS / SHARDS
    assert counts["with answers"] >= 0.5 * counts["texts"], "the cases have become dull: too few have any answer"
    assert counts["that change"] >= 0.4 * counts["texts"], "the cases have become dull: too few answers change"
    assert min(counts[each] for each in ("chains", "NOT EXISTS", "several views", "UNION", "time drives")) >= 3


def tried(
    engine: Periods,
    viewed: Viewed,
    known: dict[str, TableSchema],
    chance: random.Random,
    number: int,
    counts: Counter[str],
) -> None:
    cuts = tuple(sorted(chance.randint(0, LAST + 1) for _ in range(chance.choice([1, 2, 3]))))
    found, reference = informative_case(engine, Case(viewed.query, ending(chance), cuts, number))
    trial = OverViews(found, engine)
    trial.known = known
    trial.reference = reference
    for law in (union_of_starts, any_partition, IN_TURN[number % len(IN_TURN)]):
        trial.random.seed(number)
        try:
            law(trial)
        except Exception as error:
            error.args = (f"{law.__name__}: {error}\n{viewed}\n{found}",)
            raise
    text = " ".join((viewed.query.spark, *(each.spark for each in viewed.views.values())))
    counts["texts"] += 1
    counts["with answers"] += bool(reference.first())
    counts["that change"] += reference.changes
    counts["time drives"] += trial.standing.compiled.time_driven
    counts["chains"] += any("view" in viewed.views[name].spark for name in viewed.named)
    counts["several views"] += len(viewed.named) > 1
    counts.update(word for word in ("NOT EXISTS", "EXCEPT", "UNION", "NOT IN") if word in text)


ROWS: dict[str, tuple[Row, ...]] = {
    "m": ((1, 1, "a", 3, True, 0, 6), (0, 2, "b", None, False, 2, None)),
    "r": (),
    "u": (),
}


def test_a_view_is_not_read_at_one_instant() -> None:
    """Law 5: a row's first instant is the first at which the definition holds, not that of its period."""
    text = "SELECT k FROM m WHERE d < NOW() AND NOW() < d + INTERVAL 2 MICROSECONDS"
    viewed = Viewed({"view1": Text(text, text)}, Text("SELECT k AS c0 FROM view1", ""), frozenset({"view1"}))
    engine = Periods()
    engine.load(ROWS)
    for cuts in ((), (4,), (4, 5), (1, 2, 3, 4, 5, 6)):
        plain = f"SELECT k AS c0 FROM (SELECT DISTINCT * FROM ({text}) AS w) AS v"
        trial = OverViews(Case(Text(viewed.query.spark, plain), History(ROWS, TABLES), cuts, 1), engine)
        trial.known = added(viewed).schemas
        any_partition(trial)
        assert trial.reference.first() == {(1,): 4}
    assert isinstance(trial.known["view1"], ViewSchema)
