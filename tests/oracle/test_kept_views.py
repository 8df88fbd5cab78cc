"""Law 3, end to end: views in a real home, over sources that are polled, against the paper's definitions.

Each home has several random views, each eager and batched, and views over views. The sources change and are polled,
several at one instant; views are refreshed at random instants; and time passes. After each step, the periods of every
maintained view equal those of its definition, evaluated literally (``view_terms``). Some views are removed during the
run, and each auxiliary view with its last reader.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from oracle.view_grammar import DRAWN, LAST, TABLES, view
from oracle.view_terms import (
    Column,
    Compared,
    Constant,
    From,
    Item,
    Joined,
    Now,
    OfPeriods,
    Query,
    Relation,
    Select,
    State,
    periods,
)
from temporal_values import Value, moment
from weft.algebra.schema import DataType
from weft.api import Weft
from weft.errors import SqlError
from weft.execution import current_rows_cache, driver_reader
from weft.execution.driver_reader import ReadBounds
from weft.execution.history_log import log_of
from weft.execution.temporal import logs
from weft.storage.periods import periods as result

HOMES = 2
VIEWS = 2
STEPS = 5
LONGEST = 220
"""Only ``make test-long`` runs longer texts, because some take a thousand steps."""
LONG = 60
SEED = int(os.environ.get("WEFT_SEED") or random.SystemRandom().randrange(2**32))


@dataclass(frozen=True)
class Kept(Item):
    """A kept view in FROM: by its name in the text, by its query for the oracle."""

    name: str = ""

    def text(self) -> str:
        return f"{self.name} AS {self.alias}"


@dataclass
class Course:
    """One home, its sources as they are now, and all that they ever had."""

    weft: Weft
    folder: Path
    chance: random.Random
    counts: Counter[str]
    rows: dict[str, set[tuple[Any, ...]]] = field(default_factory=dict)
    held: dict[str, dict[tuple[Any, ...], set[int]]] = field(default_factory=dict)
    views: dict[str, Query] = field(default_factory=dict)
    clock: int = 0
    longest: int = LONGEST

    def begin(self) -> None:
        for name, columns in TABLES.items():
            self.rows[name], self.held[name] = {self.row(name)}, {}
            self.write(name)
            chosen = [(column, DataType.parse(type)) for column, type in columns.items()]
            self.weft.add_source(name, "jsonl", str(self.folder / f"{name}.jsonl"), list(columns), columns=chosen)
        self.poll(list(TABLES))
        while len(self.views) < 2 * VIEWS:
            drawn = view(self.chance)
            if len(drawn.text()) <= self.longest:
                self.add(f"v{len(self.views)}", drawn)
        self.add("part", some(self.chance, *self.chance.sample(list(TABLES), 2)))
        below = self.chance.choice(sorted(self.views))
        item = Kept("b", self.views[below], self.views[below].names, name=below)
        condition = Compared(self.chance.choice(["<", ">="]), OfPeriods("end", "b"), Now(1))
        heads = tuple((Column("b", name), name) for name in item.columns[:1])
        self.add("over", Select(heads, From((item,), condition)))

    def add(self, name: str, query: Query) -> None:
        try:
            self.weft.add_view(f"{name}", query.text())
        except SqlError as refused:
            assert "Split the query" in str(refused)
            return
        self.views[name] = query
        self.counts["over auxiliary views"] += bool(self.weft.show_view(name).auxiliaries)
        if name != "over":
            self.weft.add_view(f"{name}_batched", query.text(), batched=True)
            self.views[f"{name}_batched"] = query

    def row(self, table: str) -> tuple[Any, ...]:
        return tuple(self.chance.choice(DRAWN[type]) for type in TABLES[table].values())

    def write(self, table: str) -> None:
        with (self.folder / f"{table}.jsonl").open("w") as file:
            for row in self.rows[table]:
                named = zip(TABLES[table].items(), row, strict=True)
                shown = {column: _shown(value, type) for (column, type), value in named}
                file.write(json.dumps(shown) + "\n")

    def poll(self, tables: list[str]) -> None:
        for table in tables:
            done = self.weft.poll_source(table, now=self.clock, allow_empty=True)
            assert done.at in (None, self.clock)
        for each in self.weft.keep_views(now=self.clock):
            assert each.trouble is None, each.trouble
            self.counts["eager"] += 1

    def step(self) -> None:
        self.pass_time(self.clock + self.chance.choice([1, 1, 2, 3]))
        changed = [name for name in TABLES if self.chance.random() < 0.5]
        for name in changed:
            kept = {row for row in self.rows[name] if self.chance.random() < 0.7}
            gone = [row for row in self.held[name] if row not in kept and self.chance.random() < 0.3]
            self.rows[name] = kept | set(gone) | {self.row(name) for _ in range(self.chance.randint(0, 2))}
            self.rows[name] |= set() if self.rows[name] else {self.row(name)}  # a file without a line has no columns
            self.write(name)
        self.hold()
        self.correct(TABLES.keys() - {*changed})
        self.poll(changed)
        wanted = [name for name in self.views if self.chance.random() < 0.4]
        if wanted:
            for each in self.weft.refresh_views(wanted, now=self.clock):
                assert each.trouble is None, each.trouble
                self.counts["refreshed"] += 1
        self.check()

    def correct(self, tables: Collection[str]) -> None:
        """A row is said to have held, or not to have, in a stretch of the past; views are kept at the poll."""
        for name, columns in TABLES.items():
            if name not in tables or self.clock < 2:  # what is polled, too, would come an instant later
                continue
            rows = sorted(self.held[name], key=repr)
            row = self.chance.choice(rows) if rows and self.chance.random() < 0.7 else self.row(name)
            begin = self.chance.randrange(self.clock - 1)
            end = self.chance.randint(begin + 1, self.clock - 1)
            there = self.chance.random() < 0.5
            key = dict(zip(columns, row, strict=True))
            done = self.weft.correct_source(name, key, begin, end, {} if there else None, now=self.clock)
            held = self.held[name].setdefault(row, set())
            before = set(held)
            held -= {*range(begin, end)}
            held |= {at for at in range(begin, end) if there}
            assert (done.at is not None) == (held != before)
            self.counts["corrections"] += done.at is not None

    def pass_time(self, until: int) -> None:
        while self.clock < until:
            self.hold()
            self.clock += 1

    def hold(self) -> None:
        for name, rows in self.rows.items():
            for row in rows:
                self.held[name].setdefault(row, set()).add(self.clock)

    def check(self) -> None:
        tables: dict[str, Relation] = {
            name: {row: frozenset(at) for row, at in rows.items()} for name, rows in self.held.items()
        }
        state = State(self.clock, tables, {name: tuple(columns) for name, columns in TABLES.items()})
        maintained = {each.name: each.tau for each in self.weft.views()}
        for name, query in self.views.items():
            if maintained[name] != self.clock:
                self.counts["left"] += 1
                continue
            expected = {row: periods(at, self.clock) for row, at in state.temporal(query).items()}
            assert self.kept(name) == expected, (name, query.text(), self.clock, self.held)
            self.counts["checked"] += 1
            self.counts["with rows"] += bool(expected)

    def kept(self, name: str) -> Value:
        table = self.weft.catalog.tables.named(name)
        found = result(log_of(self.weft.catalog, table))
        whole = [field.with_type(pa.int64()) if pa.types.is_timestamp(field.type) else field for field in found.schema]
        value: Value = {}
        for given in found.cast(pa.schema(whole)).to_pylist():
            start, end = given.pop("valid_from"), given.pop("valid_to")
            value.setdefault(tuple(given.values()), []).append((start, end))
        return {row: sorted(each, key=lambda period: period[0]) for row, each in value.items()}

    def remove_some(self) -> None:
        """Takes away views that no other reads; auxiliary views are there as long as a view reads them."""
        self.counts["stored"] += len(self.parts())
        chosen = [name for name in self.views if name.startswith("part") or self.chance.random() < 0.3]
        for name in reversed(chosen):
            if not self.weft.show_view(name).readers:
                read = {each.name: bool(each.shared) for each in self.weft.show_view(name).auxiliaries}
                self.weft.remove_view(name)
                del self.views[name]
                assert self.parts() & read.keys() == {part for part, shared in read.items() if shared}
                self.counts["shared"] += sum(read.values())
                self.counts["removed"] += len(read) - sum(read.values())

    def parts(self) -> set[str]:
        return {view.name for view in self.weft.catalog.views.all() if view.auxiliary}


def _shown(value: Any, type: str) -> Any:
    at = moment(value) if type == "TIMESTAMP" else None
    return value if at is None else f"{at.isoformat()}Z"


def some(chance: random.Random, left: str, right: str) -> Query:
    """A view that needs some of the rows of two tables."""
    items = [Item(alias, table, tuple(TABLES[table])) for alias, table in (("p", left), ("q", right))]
    first, second = (Compared(chance.choice(["=", ">="]), Column(alias, "k"), Constant(1)) for alias in "pq")
    joined = Compared("=", Column("p", "x"), Column("q", "x"))
    outputs = ((Column("p", "k"), "c0"), (Column("q", "x"), "c1"))
    return Select(outputs, From(tuple(items), Joined("AND", (first, joined, second))))


LOOKED_UP = ReadBounds(loaded=-1)
"""However small a log is, what some keys ask of it is looked up in an arrangement."""
MOST = ((-1, 3), (1, 20), (logs.MOST_SINCE, logs.MOST_POOLED))
"""``MOST_SINCE`` and ``MOST_POOLED``. With the small values, the rows that hold since an instant come from the open
rows and the later log rows, and the periods of many look-ups are not stored for further ones.
"""
READS = ("_small", "_pooled", "_recent_periods", "_both")
"""The ways to read a log: whole, by a look-up, from the open rows on, and by a look-up beside a full pool (seldom)."""


def course(folder: Path, seed: int, counts: Counter[str], longest: int = LONGEST) -> None:
    folder.mkdir()
    driver_reader.BOUNDS = ReadBounds() if seed % 2 else LOOKED_UP
    logs.MOST_SINCE, logs.MOST_POOLED = MOST[seed // 2 % len(MOST)]
    with Weft.open(folder / "home", clock="replay", create=True) as weft:
        tried = Course(weft, folder, random.Random(seed), counts, longest=longest)
        tried.begin()
        for number in range(STEPS):
            if number == STEPS - 2:
                tried.remove_some()
            if tried.clock < LAST:
                tried.step()


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    monkeypatch.setattr(driver_reader, "BOUNDS", ReadBounds())
    monkeypatch.setattr(logs, "MOST_SINCE", logs.MOST_SINCE)
    monkeypatch.setattr(logs, "MOST_POOLED", logs.MOST_POOLED)
    monkeypatch.setattr(logs, "GRAIN", 1)
    monkeypatch.setattr(current_rows_cache, "FEWEST", 0)
    counts = Counter[str]()
    for name in READS:
        monkeypatch.setattr(logs.Logs, name, _counted(getattr(logs.Logs, name), counts, name))
    return counts


def _counted(read: Callable[..., Any], counts: Counter[str], name: str) -> Callable[..., Any]:
    def counted(*given: Any) -> Any:
        counts[name] += 1
        return read(*given)

    return counted


def test_kept_views_equal_their_definitions(tmp_path: Path, counts: Counter[str]) -> None:
    for seed in range(HOMES):
        course(tmp_path / str(seed), seed, counts)
    assert counts["checked"] > 25 and counts["with rows"] > 10 < counts["left"], counts
    assert min(counts["stored"], counts["shared"], counts["removed"], counts["over auxiliary views"]) > 0, counts
    assert counts["corrections"] > 5, counts
    assert min(counts[name] for name in READS[:-1]) > 0, counts


@pytest.mark.slow
def test_many_kept_views_equal_their_definitions(tmp_path: Path, counts: Counter[str]) -> None:
    print(f"WEFT_SEED={SEED}")
    for number in range(LONG):
        course(tmp_path / str(number), SEED + number, counts, 10_000)
    assert counts["checked"] > 1_000 and counts["corrections"] > 200, counts
    assert min(counts[name] for name in READS[:-1]) > 50 and counts[READS[-1]] > 0, counts
