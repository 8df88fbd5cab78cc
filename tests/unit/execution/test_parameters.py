"""Which queries of a plan a tick asks: those whose constants are among the values of its rows."""

from __future__ import annotations

from itertools import product

import pyarrow as pa
import pytest

from netnews import TABLES
from weft.catalog.records import QueryRecord, TableRecord
from weft.execution import parameters as module
from weft.execution.driver_reader import LocalRows
from weft.execution.groups import Group, Member
from weft.execution.parameters import parameters, relevant_parameters
from weft.planning.form import restored_plan, stored_form
from weft.planning.plan import parameter_table, plan

T = 946_684_800_000_000
ONE = "SELECT msgid FROM msgs WHERE newsgroup = '{}' AND msgid = '{}'"
REPLIES = "SELECT r.msgid FROM msgs m, msgs r WHERE r.inreplyto = m.msgid AND m.newsgroup = '{}' AND r.newsgroup = '{}'"
OTHER = "SELECT msgid FROM msgs WHERE newsgroup <> '{}' AND msgid = '{}'"
APART = "SELECT msgid FROM msgs WHERE newsgroup > '{}' AND msgid > '{}'"


def group_of(text: str, *constants: tuple[str, str]) -> Group:
    members = []
    for number, given in enumerate(constants, 1):
        form = stored_form(plan(text.format(*given), TABLES))
        members.append(
            Member(
                QueryRecord(
                    number, "q", "", "", 1, form.parameters, (), None, "start", None, T, 1, "active", None, 0, None
                ),
                T,
                T + 10,
            )
        )
    return Group(1, restored_plan(form.body, form.signature, TABLES.values()), tuple(members), T + 10, T)


def rows_of(*rows: tuple[str, str, str | None]) -> LocalRows:
    record = TableRecord(TABLES["msgs"], "tables/1", (), None, len(rows), 1, T, T)
    names = ("msgid", "newsgroup", "inreplyto")
    return LocalRows(record, pa.table({n: pa.array([r[i] for r in rows], pa.string()) for i, n in enumerate(names)}))


def found(group: Group, local: dict[str, LocalRows]) -> list[tuple[str, ...]]:
    """The constants of those that are asked, as the texts have them (a plan's parameters are in another order)."""
    table = parameters(group, parameter_table(1, group.shape))
    left = relevant_parameters(table, group.branches(), local).column("query_id").to_pylist()
    return [tuple(str(raw) for _, raw in group.members[key - 1].query.parameters) for key in left]


@pytest.fixture(autouse=True)
def none_is_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FEW", 0)


def test_both_constants_have_to_be_of_one_row() -> None:
    group = group_of(ONE, *product("abc", "xyz"))
    news = rows_of(("x", "a", None), ("z", "b", None), (None, "c", None))
    assert {frozenset(each) for each in found(group, {"msgs__news": news})} == {frozenset("ax"), frozenset("bz")}


@pytest.mark.parametrize("text", [OTHER, APART])
def test_only_equality_leaves_queries_out(text: str) -> None:
    group = group_of(text, ("a", "x"), ("a", "y"), ("b", "x"))
    asked_for = found(group, {"msgs__news": rows_of(("x", "a", None))})
    assert len(asked_for) == (2 if text == OTHER else 3)
    assert len(found(group, {})) == 3  # Spark reads the news: nothing is known of them


def test_few_queries_are_given_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FEW", 2)
    group = group_of(ONE, ("a", "x"), ("b", "y"))
    assert len(found(group, {"msgs__news": rows_of()})) == 2


@pytest.mark.parametrize("most", [1_000_000, 0])
def test_joined_constants_are_matched_together(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """x in a is answered in b by y; v in c by w in d.  Where the join is too large, each constant is met for itself."""
    monkeypatch.setattr(module, "_JOINED", most)
    group = group_of(REPLIES, *product("abcd", repeat=2))
    old = rows_of(("x", "a", None), ("v", "c", None))
    news = rows_of(("y", "b", "x"), ("w", "d", "v"), ("u", "a", "gone"))
    local = {"msgs__news": news, "msgs__by_msgid": old, "msgs__by_inreplyto": rows_of()}
    got = sorted(tuple(each) for each in found(group, local))
    # A plan's parameters are sorted by their columns: here m's group comes first or second in all of them alike.
    exact = {("a", "b"), ("c", "d")}
    crossed = set(product("ac", "abd"))
    turned = {(second, first) for first, second in (exact if most else crossed)}
    assert set(got) in ((exact if most else crossed), turned)


@pytest.mark.parametrize("more", ["r.msgid = m.msgid", "r.inreplyto = m.inreplyto AND r.msgid = m.inreplyto"])
def test_columns_that_equal_one_column_of_the_other_relation_are_joined(more: str) -> None:
    text = f"{REPLIES} AND {more}"
    group = group_of(text, *product("abc", repeat=2))
    rows = rows_of(("x", "a", "x"), ("y", "b", "z"))
    local = dict.fromkeys(("msgs__news", "msgs__by_msgid", "msgs__by_inreplyto"), rows)
    assert ("a", "a") in found(group, local)
    assert ("a", "c") not in found(group, local)


def test_a_constant_that_is_a_list_is_no_hindrance() -> None:
    group = group_of(
        "SELECT msgid FROM msgs WHERE newsgroup = '{}' AND inreplyto IN ('{}', 'z')", ("a", "x"), ("b", "y")
    )
    rows = parameters(group, parameter_table(1, group.shape))
    left = relevant_parameters(rows, group.branches(), {"msgs__news": rows_of(("x", "a", "x"))})
    assert left.column("query_id").to_pylist() == [1]
    assert left.schema == rows.schema
