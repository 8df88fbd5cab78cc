"""Homes that store the first groups of each partition: random histories against DuckDB's window functions.

After each tick the answers are those of the query at all instants before, and the stored groups are the first ones of
the stored totals. In some ticks too few stored groups remain, and in others they suffice. Some ticks find the stored
groups lost, outdated, damaged, or without their totals.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa
import pytest

from replayed import START, answers, load, replay_home
from weft.algebra.schema import INT, STRING, TIMESTAMP
from weft.api import Weft
from weft.arrangement import state_store
from weft.arrangement.state_store import StateStore, StoredTotals
from weft.execution.first_groups import FirstGroups
from weft.planning import first_rows
from weft.planning.first_rows import MORE
from weft.planning.state_plan import timeless

COLUMNS: Final = (("g", STRING), ("k", STRING), ("x", INT), ("at", TIMESTAMP))
AGE: Final = 20
"""The microseconds after which a row leaves the moving counts."""
TICKS, STEP = 9, 6
KEYS: Final = "abcdefghijklmnop"
GROUPS: Final = "(SELECT g, k, COUNT(*) AS n, MAX(x) AS top FROM t GROUP BY g, k) AS c"
MOVING: Final = (
    f"(SELECT g, k, COUNT(*) AS n, SUM(x) AS s FROM t WHERE ts > NOW() - INTERVAL {AGE} MICROSECONDS "
    "GROUP BY g, k) AS c"
)


def ranked(columns: str, function: str, over: str, most: int, groups: str) -> str:
    """The query for the first ranks of groups."""
    place = f"SELECT *, {function}() OVER ({over}) AS place FROM {groups}"
    return f"SELECT {columns} FROM ({place}) AS r WHERE place <= {most}"


DOWN: Final = "ORDER BY n DESC NULLS LAST, k ASC NULLS FIRST"
TEXTS: Final = {
    "number": ranked("g, k, n", "ROW_NUMBER", f"PARTITION BY g {DOWN}", 3, GROUPS),
    "rank": ranked("g, k, n, top", "RANK", "PARTITION BY g ORDER BY n DESC NULLS LAST", 2, GROUPS),
    "dense": ranked("g, k, n", "DENSE_RANK", "PARTITION BY g ORDER BY top DESC NULLS FIRST", 2, GROUPS),
    "up": ranked("g, k, n", "RANK", "PARTITION BY g ORDER BY n ASC NULLS FIRST, top DESC NULLS LAST", 3, GROUPS),
    "fewest": ranked("g, k, n", "ROW_NUMBER", "PARTITION BY g ORDER BY n ASC NULLS LAST, k ASC NULLS LAST", 3, GROUPS),
    "all": ranked("g, k, n", "DENSE_RANK", "ORDER BY n DESC NULLS LAST, top ASC NULLS LAST", 2, GROUPS),
    "sizes": ranked("g, k, n", "RANK", "PARTITION BY n ORDER BY top DESC NULLS LAST, k ASC NULLS LAST", 1, GROUPS),
    "limit": f"SELECT g, k, n FROM {GROUPS} ORDER BY n DESC NULLS LAST, g ASC NULLS FIRST, k ASC NULLS LAST LIMIT 3",
    "offset": f"SELECT g, n FROM {GROUPS} ORDER BY n DESC NULLS LAST, g ASC NULLS FIRST LIMIT 2 OFFSET 2",
    "moving": ranked("g, k, n", "ROW_NUMBER", f"PARTITION BY g {DOWN}", 2, MOVING),
    "moving_dense": ranked("g, k, n, s", "DENSE_RANK", "PARTITION BY g ORDER BY s ASC NULLS LAST", 2, MOVING),
    "moving_limit": f"SELECT g, k, s FROM {MOVING} ORDER BY s DESC NULLS FIRST, g ASC NULLS LAST, k ASC NULLS LAST "
    "LIMIT 2",
}  # fmt: skip
Row = tuple[str | None, str | None, int | None, int]


def history(chance: random.Random) -> list[list[Row]]:
    """The new rows of each tick. Few groups change in a tick. Some rise fast, and all leave moving counts."""
    found: list[list[Row]] = []
    for number in range(TICKS):
        favourite, rows = chance.choice(KEYS), []
        for _ in range(chance.choice((0, 3, 8)) if number else 70):
            k = favourite if chance.random() < 0.4 else chance.choice([*KEYS, None])
            at = START + number * STEP + chance.randrange(STEP)
            rows.append((chance.choice(["a", "a", "b", None]), k, chance.choice([None, 1, 2, 3, 4]), at))
        found.append(rows)
    return found


def expected(rows: list[Row], until: int) -> dict[str, dict[tuple[Any, ...], int]]:
    """The answers of each query before an instant, with their first instants, by DuckDB at each instant."""
    found: dict[str, dict[tuple[Any, ...], int]] = {name: {} for name in TEXTS}
    connection = duckdb.connect()
    kinds = (pa.string(), pa.string(), pa.int32(), pa.int64())
    columns = list(zip(*rows, strict=True))
    given = [pa.array(each, kind) for each, kind in zip(columns, kinds, strict=True)]
    connection.register("every", pa.table(given, ["g", "k", "x", "ts"]))
    for instant in range(START, until):
        connection.execute(f"CREATE OR REPLACE TEMP TABLE t AS SELECT * FROM every WHERE ts <= {instant}")
        for name, text in TEXTS.items():
            spelled = text.replace(f"NOW() - INTERVAL {AGE} MICROSECONDS", f"{instant - AGE}")
            for row in connection.sql(spelled).fetchall():
                found[name].setdefault(row, instant)
    return found


def lost(folder: Path, _: random.Random) -> None:
    shutil.rmtree(folder)


def outdated(folder: Path, _: random.Random) -> None:
    """Only the instant before the last one remains, as after a kill between two writes."""
    for manifest in sorted(folder.glob("*.json"))[1:]:
        manifest.unlink()


def damaged(folder: Path, chance: random.Random) -> None:
    for file in folder.glob("*.arrow"):
        data = file.read_bytes()
        file.write_bytes(data[: len(data) // 2] if chance.random() < 0.5 else data[:-30] + bytes(30))


ACCIDENTS: Final[tuple[Callable[[Path, random.Random], None], ...]] = (lost, outdated, damaged)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Counter[str], list[FirstGroups]]]:
    """Counts of how the first groups were found, and those of the last tick."""
    counts, last = Counter[str](), list[FirstGroups]()
    continue_, of_totals = FirstGroups.continue_, FirstGroups._of_totals

    def continued(self: FirstGroups) -> None:
        before = counts["read again"]
        continue_(self)
        last.append(self)
        again = counts["read again"] > before
        counts["rebuilt" if self.base is None else "too few" if again else "sufficient"] += 1

    def found(self: FirstGroups, partitions: pa.Table | None) -> pa.Table:
        counts["read again"] += 1
        return of_totals(self, partitions)

    monkeypatch.setattr(FirstGroups, "continue_", continued)
    monkeypatch.setattr(FirstGroups, "_of_totals", found)
    yield counts, last


def require_first_groups(made: FirstGroups, store: StateStore, at: int) -> int:
    """The stored groups are a prefix of the groups of each partition in the order of the stored totals.

    Return the number of groups that are not stored.
    """
    kept = _stored(store, timeless(made.state).name, at)
    totals = _stored(store, timeless(made.totals.state).name, at)
    few, every = made.added_up(kept.rows), made.totals.added_up(totals.rows)
    shown = made.rows._alive("rows_")  # the partition (p) and the order (o) of each group
    with duckdb.connect() as connection:
        connection.register("rows_", every)
        groups = connection.sql(shown.replace("TRY_CAST", "CAST")).to_arrow_table().to_pylist()
    more = {tuple(row[name] for name in made.totals.names): row[MORE] for row in few.to_pylist()}
    totals_of = {tuple(row[name] for name in made.totals.names): row for row in every.to_pylist()}
    for row in few.to_pylist():
        assert {name: row[name] for name in every.column_names} == totals_of[tuple(row[n] for n in made.totals.names)]
    partitions: dict[Any, list[Mapping[str, Any]]] = defaultdict(list)
    for row in groups:
        partitions[tuple(row[name] for name in made.rows.places)].append(row)
    for rows in partitions.values():
        ordered = _in_order(rows, made)
        flags = [more.get(tuple(row[name] for name in made.totals.names)) for row in ordered]
        size = next((number for number, flag in enumerate(flags) if flag is None), len(flags))
        assert size and size <= made.rows.kept and set(flags[size:]) <= {None}
        assert len(set(flags[:size])) == 1 and (flags[0] == 1 or size == len(flags))
    return len(groups) - len(more)


def _stored(store: StateStore, name: str, at: int) -> StoredTotals:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state_store, "_is_valid", lambda *_: True)
        found = store.totals(name, at, {})
    assert found is not None and found.at == at
    return found


def _in_order(rows: list[Mapping[str, Any]], made: FirstGroups) -> list[Mapping[str, Any]]:
    """The rows in the order of ``spelled``, and then of their keys, in plain Python."""
    items = [item.split() for item in made.rows.spelled.split(", ")]
    for key in reversed(made.totals.names):
        rows = sorted(rows, key=lambda row: (row[key] is None, row[key] or ""))
    for name, *words in reversed(items):
        nulls, some = [r for r in rows if r[name] is None], [r for r in rows if r[name] is not None]
        some.sort(key=lambda row: row[name], reverse="DESC" in words)
        rows = nulls + some if words[-1] == "FIRST" else some + nulls
    return rows


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 60))])
def test_first_ranks_of_random_histories(
    seed: int, tmp_path: Path, seen: tuple[Counter[str], list[FirstGroups]], monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, (counts, last) = random.Random(seed), seen
    monkeypatch.setattr(first_rows, "_SPARE", 0)
    home, batches, left_out = replay_home(tmp_path / "home"), history(chance), 0
    store = StateStore(tmp_path / "home" / "states")
    for number, rows in enumerate(batches):
        load(home, None, "t", rows, COLUMNS)  # type: ignore[arg-type]
        if not number:
            for name, text in TEXTS.items():
                home.install(name, text)
        now = START + (number + 1) * STEP
        last.clear()
        home.tick(now=now)
        left_out += sum(require_first_groups(made, store, now) for made in last)
        if chance.random() < 0.4 and number:
            accident = chance.choice(ACCIDENTS)
            names = sorted({timeless(made.state).name for made in last})
            for name in chance.sample(names, min(3, len(names))):
                accident(store.folder / name, chance)
    require_answers(home, [row for rows in batches for row in rows], START + TICKS * STEP)
    assert min(counts["rebuilt"], counts["too few"], counts["sufficient"]) > 5, counts
    assert left_out > 100


def require_answers(home: Weft, rows: list[Row], until: int) -> None:
    wanted = expected(rows, until)
    for name in TEXTS:
        found = {values: first_at for _, first_at, values in answers(home, name)}
        assert found == wanted[name], name
