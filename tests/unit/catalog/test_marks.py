"""Read marks, compared with a set of ordinals."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from weft.algebra.schema import DataType
from weft.catalog import Catalog
from weft.catalog.queries import change_query
from weft.catalog.records import QueryDefinition
from weft.catalog.users import UserLimits

ANSWERS = 12


@pytest.fixture
def catalog(tmp_path: Path, opened: Callable[..., Catalog]) -> Catalog:
    made = opened(tmp_path / "home", create=True, clock="replay", at=0)
    made.users.add("anna", "reader", UserLimits(), 0)
    made.users.add("bo", "reader", UserLimits(), 0)
    with made.writing("test", lambda: 1) as writer:
        for name in ("a", "b"):
            writer.queries.install(QueryDefinition(name, "x", "", name, "{}", (), (("a", DataType("INT")),)), 0)
    with made._database.changing() as connection:
        for key in (1, 2):
            change_query(connection, key, next_ordinal=ANSWERS + 1)
    return made


def test_marks_are_those_of_a_set(catalog: Catalog) -> None:
    drawn, marks = random.Random(7), catalog.marks
    read: dict[tuple[int, int], set[int]] = {(user, query): set() for user in (1, 2) for query in (1, 2)}
    for _ in range(60):
        user, query = drawn.choice(list(read))
        some = set(drawn.sample(range(1, ANSWERS + 1), drawn.randint(1, 4)))
        match drawn.randrange(5):
            case 0 | 1:
                marks.read(user, query, some)
                read[user, query] |= some
            case 2 | 3:
                marks.unread_again(user, query, some)
                read[user, query] -= some
            case _:
                to = drawn.randint(1, ANSWERS)
                marks.read_all(user, query, to)
                read[user, query] |= set(range(1, to + 1))
        for (who, what), those in read.items():
            assert marks.is_read(who, {what: (1, ANSWERS)}) == {what: those}
            assert marks.is_read(who, {what: (2, 3), 3: (1, 2)}) == {what: those & {2, 3}, 3: frozenset()}
        for who in (1, 2):
            assert marks.unread(who, (1, 2)) == {what: ANSWERS - len(read[who, what]) for what in (1, 2)}


def test_answers_that_are_read_in_order_leave_one_number(catalog: Catalog) -> None:
    for ordinal in (1, 2, 3, 5, 4):
        catalog.marks.read(1, 1, [ordinal])
    with catalog._database.reading() as connection:
        assert connection.exec_driver_sql("SELECT read_to FROM marks").scalar_one() == 5
        assert connection.exec_driver_sql("SELECT COUNT(*) FROM mark_exceptions").scalar_one() == 0
