"""The latest answers in memory are those that the ledger has."""

from __future__ import annotations

from collections.abc import Collection
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from weft.catalog.records import QueryRecord
from weft.storage import recent_answers
from weft.storage.ledger import ResultRow
from weft.storage.recent_answers import RecentAnswers


def queries(*rows: int, plan: int = 1) -> list[QueryRecord]:
    """Return queries with these numbers of answers."""
    made = [SimpleNamespace(query_id=key, plan_id=plan, rows=each) for key, each in enumerate(rows, 1)]
    return cast("list[QueryRecord]", made)


class Ledger:
    """A ledger whose answers have their query and their ordinal as values, and a count of what is read."""

    def __init__(self, text: str = "") -> None:
        self.text = text
        self.read: list[int] = []

    def latest(self, some: Collection[QueryRecord], count: int = 3) -> dict[int, tuple[ResultRow, ...]]:
        self.read += [each.query_id for each in some]
        return {
            each.query_id: tuple(
                ResultRow(n, 0, 0, (each.query_id, each.plan_id, n, self.text))
                for n in range(max(each.rows - count, 0) + 1, each.rows + 1)
            )
            for each in some
            if each.rows
        }


def test_they_are_those_of_the_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    """New answers, another plan and another count are read, and few queries stay in memory."""
    monkeypatch.setattr(recent_answers, "_QUERIES", 4)
    recent, random = RecentAnswers(), Random(1)
    for _ in range(300):
        asked = random.sample(queries(*(random.randrange(4) for _ in range(8)), plan=random.randrange(2)), 3)
        count = random.randrange(1, 3)
        ledger = Ledger()
        assert recent.of(asked, count, lambda some, c=count, known=ledger: known.latest(some, c)) == Ledger().latest(
            asked, count
        )
        assert len(recent._rows) <= 4


def test_answers_are_read_once() -> None:
    recent, ledger = RecentAnswers(), Ledger()
    for _ in range(2):
        recent.of(queries(2, 0, 5), 3, ledger.latest)
    assert ledger.read == [1, 3]
    recent.of(queries(2, 1, 6), 3, ledger.latest)
    assert ledger.read == [1, 3, 2, 3]


def test_long_answers_do_not_stay_in_memory() -> None:
    recent, ledger = RecentAnswers(), Ledger("x" * 2_000)
    for _ in range(2):
        recent.of(queries(3, 1), 3, ledger.latest)
    assert ledger.read == [1, 2, 1]


def test_an_error_leaves_no_answers() -> None:
    def fails(_: Any) -> Any:
        raise OSError("gone")

    recent, ledger = RecentAnswers(), Ledger()
    with pytest.raises(OSError, match="gone"):
        recent.of(queries(1), 3, fails)
    assert recent.of(queries(1), 3, ledger.latest) == Ledger().latest(queries(1))
