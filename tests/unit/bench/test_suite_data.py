"""The batches of a suite's data have each row once, and arrive in the order of time."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from weft.bench.nexmark_texts import Events
from weft.bench.suite_data import Nexmark, SuiteData, Tpch, write
from weft.bench.suites import Rounds, compare
from weft.errors import Refused

SHARES = (0.0, 0.5, 0.9, 1.0)


def rows(data: SuiteData, shares: tuple[float, ...], folder: Path) -> dict[str, list[str]]:
    """The rows of each table, as text."""
    found: dict[str, list[str]] = {}
    before = 0
    for low, high in pairwise(shares):
        for table, file in write(data, low, high, folder / f"{low}-{high}"):
            part = pq.read_table(file)
            instants = part.column("ts").cast("int64").to_pylist()
            assert before < min(instants) + (table == "side_input") or low == 0.0
            assert max(instants) <= data.instant(high)
            found.setdefault(table, []).extend(map(repr, part.drop_columns("ts").to_pylist()))
        before = data.instant(high)
    return found


@pytest.mark.parametrize("suite", ["tpch", "nexmark"])
def test_batches_have_each_row_once(suite: str, tmp_path: Path) -> None:
    data: SuiteData = Nexmark(Events(2_000, 1_600_000_000_000_000, 1_000))
    if suite == "tpch":
        tpch = Tpch(tmp_path, 0.001)
        tpch.generate()
        data = tpch
    parts, whole = rows(data, SHARES, tmp_path / "parts"), rows(data, (0.0, 1.0), tmp_path / "whole")
    assert parts == whole
    assert all(whole.values())


def test_the_first_part_is_what_the_batches_leave() -> None:
    assert Rounds(1, 2, 1, 0.01).shares == pytest.approx([0.97, 0.98, 0.99, 1.0])


def test_the_smallest_batches_of_tpch_have_instants_of_their_own(tmp_path: Path) -> None:
    instants = [Tpch(tmp_path, 1).instant(share) for share in Rounds(2, 3, 1, 0.0001).shares]
    assert len(set(instants)) == len(instants)


@pytest.mark.parametrize(
    ("names", "rounds", "refusal"),
    [
        (["q4", "q99"], Rounds(1, 1, 0, 0.01), "'q99' is not a query of this benchmark"),
        ([], Rounds(3, 17, 0, 0.05), "20 batches of 0.05 of the rows leave no first delivery"),
    ],
)
def test_what_a_suite_cannot_measure_is_refused(names: list[str], rounds: Rounds, refusal: str) -> None:
    with pytest.raises(Refused, match=refusal):
        compare(Nexmark(Events(2_000, 0, 1_000)), names, rounds, 60, None, None, print)
