"""New answers on the driver, against a plain reading of what they are."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from weft.algebra.schema import DataType
from weft.execution import arrow_answers
from weft.storage.ledger import Added, ledger_schema

Found = tuple[int, int, bytes]
"""Query, instant, hash."""
ROWS = st.lists(st.tuples(st.integers(1, 3), st.integers(-5, 5), st.sampled_from([b"", b"a", b"b", b"\xff"])))
_FORM = ("query_id", "first_at", "row_hash")


def table(rows: list[Found]) -> pa.Table:
    """In the general form; a row says what its hash does."""
    columns = [pa.array(list(each), kind) for each, kind in zip(_columns(rows), _KINDS, strict=True)]
    return pa.table([*columns, pa.array([[repr(h), None] for _, _, h in rows], pa.list_(pa.string()))], [*_FORM, "row"])


_KINDS = (pa.int64(), pa.timestamp("us", "UTC"), pa.binary())


def _columns(rows: list[Found]) -> list[list[object]]:
    return [[row[at] for row in rows] for at in range(3)]


def known(keys: set[tuple[int, bytes]]) -> pa.Table:
    ordered = sorted(keys)
    ids, hashes = [key for key, _ in ordered], [found for _, found in ordered]
    return pa.table({"query_id": pa.array(ids, pa.int64()), "row_hash": pa.array(hashes, pa.binary())})


def read(rows: pa.Table) -> list[Found]:
    instants = rows.column("first_at").cast(pa.int64()).to_pylist()
    found = list(zip(rows.column("query_id").to_pylist(), instants, rows.column("row_hash").to_pylist(), strict=True))
    assert [row[0] for row in rows.column("row").to_pylist()] == [repr(h) for _, _, h in found]
    return found


@given(ROWS, st.sets(st.tuples(st.integers(1, 3), st.sampled_from([b"", b"a", b"\xff"]))))
def test_each_new_row_once_without_known_rows(rows: list[Found], there: set[tuple[int, bytes]]) -> None:
    expected: dict[tuple[int, bytes], int] = {}
    for key, at, found in rows:
        if (key, found) not in there:
            expected[key, found] = min(at, expected.get((key, found), at))
    new = arrow_answers.without_known(arrow_answers.each_once(table(rows)), known(there))
    assert sorted(read(new)) == sorted((key, at, found) for (key, found), at in expected.items())
    instants: dict[int, list[int]] = {}
    for (key, _), at in expected.items():
        instants.setdefault(key, []).append(at)
    assert arrow_answers.added(new) == {key: Added(len(each), max(each)) for key, each in instants.items()}
    assert arrow_answers.first_instants(new) == {key: min(each) for key, each in instants.items()}


@given(ROWS, st.integers(0, 9))
def test_they_are_numbered_by_instant_and_row_within_their_query(rows: list[Found], before: int) -> None:
    once = arrow_answers.each_once(table(rows))
    counts = {3: before, 1: 100, 2: 0}
    columns = {key: (DataType("STRING"), DataType("STRING")) for key in counts}
    numbered = arrow_answers.numbered(once, counts, columns, 7)
    assert numbered.schema == ledger_schema()
    assert set(numbered.column("tick").to_pylist()) <= {7}
    for key in (1, 2, 3):
        own = sorted(((at, found) for query, at, found in read(once) if query == key), key=lambda r: (r[0], repr(r[1])))
        got = numbered.filter(pa.compute.equal(numbered.column("query_id"), key)).sort_by("ordinal")
        assert [(at, found) for _, at, found in read(got)] == own
        assert got.column("ordinal").to_pylist() == list(range(counts[key] + 1, counts[key] + 1 + len(own)))
