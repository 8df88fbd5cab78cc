"""Weft accepts the SQL on the page about temporal views, and refuses the queries that the page calls refused."""

from __future__ import annotations

import re

import pytest

from docs.pages import ROOT, blocks
from temporal_values import Histories, tracked
from weft.algebra.temporal import attributes
from weft.derivation.temporal.sequenced import sequenced
from weft.errors import SqlError
from weft.sql.dialects import duckdb_dialect
from weft.sql.functions import FUNCTIONS, MEASURES
from weft.sql.lower.calls import PERIOD_FUNCTIONS
from weft.sql.lower.query import bind, bind_view

PAGE = (ROOT / "docs" / "reference" / "views.md").read_text()
EMPLOYEES = {"id": "INT", "dept": "STRING", "name": "STRING", "office": "STRING", "salary": "DECIMAL(10,2)"}
EMPLOYEES["hired"] = "DATE"
ASSIGNMENTS = {"id": "INT", "project": "STRING", "supervisor": "STRING"}
TABLES = {
    "employees": tracked(1, "employees", **EMPLOYEES),
    "assignments": tracked(2, "assignments", **ASSIGNMENTS),
}
TEXTS = [each.strip() for block in blocks(PAGE) if block.language == "sql" for each in block.text.split(";")]
REFUSED = re.findall(r"^\| `(SELECT .+?)` \|", PAGE[PAGE.index("## What is refused") :], flags=re.MULTILINE)


@pytest.mark.parametrize("text", TEXTS)
def test_views_are_taken_and_have_a_value(text: str) -> None:
    query = bind_view(text, TABLES)
    relation = sequenced(query)
    assert [ref.type for ref in attributes(relation)] == list(query.types)
    assert [ref.column for ref in attributes(relation)] == [output.name for output in query.outputs]
    assert isinstance(Histories(TABLES.values()).value(relation, 0), dict)


@pytest.mark.parametrize("text", REFUSED)
def test_refused_texts(text: str) -> None:
    with pytest.raises(SqlError) as refused:
        sequenced(bind_view(text, TABLES))
    assert refused.value.where or refused.value.hint


@pytest.mark.parametrize("text", [each for each in TEXTS if re.search(r"PERIOD_|MOVING_WINDOW", each)])
def test_what_views_alone_have_is_no_part_of_a_query(text: str) -> None:
    with pytest.raises(SqlError):
        bind(text, TABLES)


def test_one_page_has_a_table_of_how_a_view_is_read_and_the_other_links_to_it() -> None:
    other = (ROOT / "docs" / "reference" / "sql.md").read_text()
    assert [page.count("\n| the view has ") for page in (PAGE, other)] == [1, 0]
    assert "(views.md#a-view-in-a-standing-query)" in other


def test_what_a_view_may_call_is_listed() -> None:
    section = PAGE[PAGE.index("## What a view may call") : PAGE.index("## What is refused")]
    listed = {
        name.lower() for row in re.findall(r"^\|.+", section, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)
    }
    assert listed & FUNCTIONS.keys() == (duckdb_dialect.ALIKE | duckdb_dialect.IN_PART) & FUNCTIONS.keys()
    assert FUNCTIONS.keys() >= duckdb_dialect.IN_PART


def test_every_function_is_there() -> None:
    assert len(TEXTS) > 10 and len(REFUSED) > 10
    missing = {name for name in (*PERIOD_FUNCTIONS, *MEASURES) if f"`{name.upper()}(" not in PAGE}
    assert not missing
