"""Queries that differ only in how they were written are one plan."""

from __future__ import annotations

from decimal import Decimal

import pytest

from netnews import TABLES
from weft.algebra.scalar import Call, ColumnRef, Literal
from weft.algebra.schema import BIGINT, BOOLEAN, INT, STRING, DataType
from weft.derivation.canonical import WIDE, one_list, wide_decimals
from weft.planning.form import signature
from weft.planning.plan import plan

AGE = ColumnRef("u", "age", INT)
SHORT = Literal(Decimal("1.5"), DataType("DECIMAL", 2, 1))


def listed(*items: Literal) -> Call:
    return Call("in", (AGE, *items), BOOLEAN)


def test_a_list_is_sorted_without_doubles_and_of_the_widest_type() -> None:
    made = one_list(listed(Literal(7, INT), Literal(2, BIGINT), Literal(7, INT)))
    assert made.args == (AGE, Literal((2, 7), DataType("ARRAY", element=BIGINT)))
    strings = one_list(listed(Literal("b", STRING), Literal("a", STRING)))
    assert strings.args[1] == Literal(("a", "b"), DataType("ARRAY", element=STRING))


@pytest.mark.parametrize(
    "items",
    [
        (Literal(1, INT), Literal("a", STRING)),
        (Literal(1, INT), Literal(None, INT)),
        (Literal(1, INT), AGE),
        (Literal(True, BOOLEAN),),
    ],
)
def test_other_lists_stay_as_they_are(items: tuple[Literal, ...]) -> None:
    assert one_list(listed(*items)) == listed(*items)


@pytest.mark.parametrize("kind", ["DECIMAL(38,18)", "DECIMAL(20,0)", "DECIMAL(18,18)", "INT", "DOUBLE"])
def test_a_decimal_constant_is_wide_beside_a_wide_type(kind: str) -> None:
    call = Call("<", (ColumnRef("o", "amount", DataType.parse(kind)), SHORT), BOOLEAN)
    assert wide_decimals(call).args[1] == Literal(Decimal("1.5"), WIDE)
    turned = Call("<", (call.args[1], call.args[0]), BOOLEAN)
    assert wide_decimals(turned).args[0] == Literal(Decimal("1.5"), WIDE)


@pytest.mark.parametrize("kind", ["DECIMAL(38,0)", "DECIMAL(21,0)", "DECIMAL(38,19)", "DECIMAL(19,19)", "STRING"])
def test_beside_a_wider_column_it_stays(kind: str) -> None:
    call = Call("<", (ColumnRef("o", "amount", DataType.parse(kind)), SHORT), BOOLEAN)
    assert wide_decimals(call) is call


@pytest.mark.parametrize("digits", [(39 - 18, 0), (19, 19)])
def test_a_constant_that_does_not_fit_stays(digits: tuple[int, int]) -> None:
    call = Call("=", (AGE, Literal(Decimal(1), DataType("DECIMAL", *digits))), BOOLEAN)
    assert wide_decimals(call) is call


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("age > 1 AND name = 'a'", "name = 'b' AND age > 7"),
        ("age IN (1, 2)", "age IN (3, 4, 5)"),
        ("age > 1.5", "age > 10.25"),
        (
            "NOW() > ts + INTERVAL 1 DAY AND NOW() > ts - INTERVAL 2 DAYS",
            "NOW() > ts - INTERVAL 3 DAYS AND NOW() > ts + INTERVAL 5 DAYS",
        ),
        (
            "NOW() > ts + INTERVAL 1 DAY AND NOW() > ts + INTERVAL 0 DAYS",
            "NOW() > ts + INTERVAL 0 DAYS AND NOW() > ts + INTERVAL 5 DAYS",
        ),
        (
            "NOW() > ts + INTERVAL 1 DAY AND NOW() > ts + INTERVAL -1 DAYS",
            "NOW() > ts + INTERVAL -3 DAYS AND NOW() > ts + INTERVAL 5 DAYS",
        ),
        (
            "EXISTS (SELECT * FROM msgs WHERE sender = name) AND EXISTS (SELECT * FROM staff WHERE room = users.name)",
            "EXISTS (SELECT * FROM staff WHERE room = users.name) AND EXISTS (SELECT * FROM msgs WHERE sender = name)",
        ),
    ],
)
def test_one_plan(one: str, other: str) -> None:
    first, second = (plan(f"SELECT name FROM users WHERE {text}", TABLES) for text in (one, other))
    assert signature(first) == signature(second)


def test_where_only_names_differ_the_order_of_from_decides() -> None:
    text = "SELECT c.name FROM users a, users b, users c WHERE {} AND {}"
    ties = ("a.age = c.age", "b.age = c.age")
    assert signature(plan(text.format(*ties), TABLES)) == signature(plan(text.format(*reversed(ties)), TABLES))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("age > 1", "age >= 1"),
        ("age > 1", "1 > age"),
        ("NOW() > ts + INTERVAL 1 DAY", "NOW() > ts - INTERVAL 1 DAY"),
        ("age IN (1, 2)", "age NOT IN (1, 2)"),
    ],
)
def test_other_plans(one: str, other: str) -> None:
    first, second = (plan(f"SELECT name FROM users WHERE {text}", TABLES) for text in (one, other))
    assert signature(first) != signature(second)
