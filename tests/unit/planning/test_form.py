"""What is kept of a plan is what was bound, and is checked when it is read again."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from netnews import TABLES
from weft.algebra.scalar import Literal
from weft.algebra.schema import (
    BIGINT,
    BOOLEAN,
    INT,
    INTERVAL,
    STRING,
    TIMESTAMP,
    Column,
    DataType,
)  # fmt: skip
from weft.algebra.traverse import Node, is_scalar, walk
from weft.errors import PlanMismatch
from weft.planning.form import (
    restored_parameter,
    restored_plan,
    signature,
    stored_form,
    stored_parameter,
)  # fmt: skip
from weft.planning.plan import plan

TEXT = "SELECT m.msgid FROM msgs m WHERE m.sender = 'a' AND NOW() > m.ts + INTERVAL 4 WEEKS"


@pytest.mark.parametrize(
    "value",
    [
        Literal("a", STRING),
        Literal(7, INT),
        Literal(True, BOOLEAN),
        Literal(None, STRING),
        Literal(86_400_000_000, INTERVAL),
        Literal(946_684_800_000_000, TIMESTAMP),
        Literal(Decimal("1.50"), DataType("DECIMAL", 38, 18)),
        Literal(None, DataType("DECIMAL", 38, 18)),
        Literal(0.1, DataType("DOUBLE")),
        Literal(0.5, DataType("FLOAT")),
        Literal(b"\x00\xff", DataType("BINARY")),
        Literal((1, 2), DataType("ARRAY", element=BIGINT)),
        Literal(("a", "b"), DataType("ARRAY", element=STRING)),
    ],
)
def test_a_constant_reads_back_as_it_was(value: Literal) -> None:
    kind, raw = stored_parameter(value)
    found = restored_parameter(kind, json.loads(json.dumps(raw)))
    assert found == value
    assert type(found.value) is type(value.value)


@pytest.mark.parametrize("from_now", [False, True])
def test_a_plan_reads_back_as_it_was(from_now: bool) -> None:
    found = plan(TEXT, TABLES, from_now=from_now)
    form = stored_form(found)
    again = restored_plan(form.body, form.signature, TABLES.values())
    assert (again.lifted, again.values, again.from_now) == (found.shape.lifted, (), from_now)
    assert form.names == ("m",)
    assert [kind for kind, _ in form.parameters] == ["STRING", "INTERVAL"]
    assert form.signature == signature(found) and len(form.signature) == 16


def test_with_from_now_it_is_another_plan() -> None:
    assert signature(plan(TEXT, TABLES)) != signature(plan(TEXT, TABLES, from_now=True))


def test_a_new_column_changes_nothing() -> None:
    form = stored_form(plan(TEXT, TABLES))
    msgs = TABLES["msgs"]
    wider = replace(msgs, columns=(Column(99, "sender_name", STRING), *msgs.columns))
    again = restored_plan(form.body, form.signature, [wider])
    assert again.names == ("t1",)


def test_another_format_is_not_read() -> None:
    form = stored_form(plan(TEXT, TABLES))
    body = json.dumps({**json.loads(form.body), "format": 99})
    with pytest.raises(PlanMismatch, match="the plan has format 99, but this version of Weft reads 1"):
        restored_plan(body, form.signature, TABLES.values())


@pytest.mark.parametrize("body", ["", "[]", "{}", '{"format": 1}', '{"format": 1, "query": 3, "from_now": false}'])
def test_an_invalid_plan_is_not_read(body: str) -> None:
    with pytest.raises(PlanMismatch, match="the stored plan abc cannot be read"):
        restored_plan(body, "abc", TABLES.values())


def test_a_plan_over_a_table_that_is_gone_is_not_read() -> None:
    form = stored_form(plan(TEXT, TABLES))
    with pytest.raises(PlanMismatch, match="reads a table with id"):
        restored_plan(form.body, form.signature, [TABLES["users"]])


def test_a_plan_that_is_not_the_one_expected_is_not_run() -> None:
    form = stored_form(plan(TEXT, TABLES))
    with pytest.raises(
        PlanMismatch, match=f"the stored plan abc reads back as the plan {form.signature} of another query"
    ):
        restored_plan(form.body, "abc", TABLES.values())


SHAPED = (
    "SELECT d.wait FROM (SELECT r.ts - m.ts AS wait FROM msgs m JOIN msgs r ON r.inreplyto = m.msgid) AS d",
    "SELECT sender, MAX(ts - date) AS most FROM msgs GROUP BY sender",
    "SELECT d.wait * 2 AS twice FROM (SELECT ts - date AS wait FROM msgs UNION ALL SELECT date - ts FROM msgs) AS d",
)


def shapes(node: Node) -> list[str]:
    return [part.type.declared for part in walk(node) if is_scalar(part)]


@pytest.mark.parametrize("text", SHAPED)
def test_a_stored_plan_has_the_declared_types_of_columns(text: str) -> None:
    given = plan(text, TABLES)
    form = stored_form(given)
    kept = restored_plan(form.body, form.signature, TABLES.values())
    assert shapes(kept.lifted) == shapes(given.shape.lifted)
    assert "INTERVAL DAY TO SECOND" in shapes(kept.lifted)


def without_declared(form: Any) -> Any:
    """The form of a query as format 1 has it."""
    if not isinstance(form, list):
        return form
    length = {"Type": 2, "Derived": 4}.get(form[0]) if form else None
    return [without_declared(each) for each in form[:length]]


@pytest.mark.parametrize("text", SHAPED)
def test_a_plan_of_the_format_before_is_read(text: str) -> None:
    given = plan(text, TABLES)
    body = json.loads(stored_form(given).body)
    assert body["query"]["format"] == 2
    body["query"] |= {"format": 1, "query": without_declared(body["query"]["query"])}
    old = json.dumps(body, separators=(",", ":"))
    kept = restored_plan(old, hashlib.sha256(old.encode()).hexdigest()[:16], TABLES.values())
    assert kept == given.shape  # the comparison of types ignores the declared types
    assert [branch.outputs for branch in kept.branches] == [branch.outputs for branch in given.shape.branches]


def test_a_plan_without_declared_types_has_the_format_before() -> None:
    assert json.loads(stored_form(plan(TEXT, TABLES)).body)["query"]["format"] == 1
