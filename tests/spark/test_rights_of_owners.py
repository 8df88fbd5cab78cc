"""Queries of users run on Spark with the limits and the rights of their owners."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from weft import Weft
from weft.api.json.answers import why_json
from weft.catalog.users import UserLimits
from weft.errors import NotAllowed, SqlError
from weft.rights.principal import Principal

pytestmark = pytest.mark.spark


@pytest.fixture
def home(spark: SparkSession, tmp_path: Path) -> Iterator[Weft]:
    with Weft.open(tmp_path / "home", clock="replay", create=True) as made:
        made.tick(now="2026-03-01")
        for name in ("open", "secret"):
            made.make_table(name, "id INT")
            made.append(name, [{"id": n} for n in range(3)])
        made.tick(now="2026-03-02")
        made.accounts.add_user("anna", "author")
        made.accounts.grant("anna", "read", "open")
        yield made


def acting(home: Weft) -> Weft:
    return home.acting_as(Principal("anna", home.accounts.user("anna").user_id))


def test_an_author_tries_and_installs_over_what_she_may_read(home: Weft) -> None:
    anna = acting(home)
    assert anna.try_query("SELECT id FROM open").count == 3
    assert anna.backtest("SELECT id FROM open").count == 3
    for ask in (anna.try_query, anna.backtest, anna.explain):
        with pytest.raises(SqlError, match="secret"):
            ask("SELECT o.id FROM open o WHERE EXISTS (SELECT * FROM secret s WHERE s.id = o.id)")
    anna.install("mine", "SELECT id FROM open")
    home.tick()
    assert len(list(anna.results("mine"))) == 3
    assert anna.try_query("SELECT id FROM results.mine").count == 3


def test_a_query_that_adds_more_rows_than_its_owner_may_fails_alone(home: Weft) -> None:
    home.accounts.change_user("anna", limits=UserLimits(rows=2))
    acting(home).install("hers", "SELECT id FROM open")
    home.install("others", "SELECT id FROM open", user="owner")
    home.tick()
    found = {each.name: each for each in home.queries()}
    assert (found["hers"].state, found["hers"].rows) == ("failed", 0)
    assert "the limit of its owner is 2" in (found["hers"].reason or "")
    assert (found["others"].state, found["others"].rows) == ("active", 3)
    home.accounts.change_user("anna", limits=UserLimits())
    acting(home).resume("hers")
    home.tick()
    assert home.show("hers").query.rows == 3


def test_why_hides_the_rows_of_tables_that_one_may_not_read(home: Weft) -> None:
    joined = "SELECT o.id FROM open o JOIN secret s ON s.id = o.id"
    text = f"{joined} WHERE NOT EXISTS (SELECT * FROM open p WHERE p.id = o.id + 7)"
    home.install("joined", text, user="owner")
    home.tick()
    whole = home.why("joined", 1).combinations
    assert whole
    for each in whole:  # one for each driver: both rows arrived at once
        assert {one.table for one in each.witnesses if one.values} == {"open", "secret"}
        assert each.absent
    home.accounts.grant("anna", "read", "results.joined")
    assert not home.why("joined", 1).hides
    told = acting(home).why("joined", 1)
    shown = told.combinations
    assert told.hides
    assert {(one["table"], one["row"] is None) for one in why_json(told)["causes"][0]["witnesses"]} == {  # type: ignore[index]
        ("open", False),
        ("secret", True),
    }
    assert len(shown) == len(whole)
    for mine, each in zip(shown, whole, strict=True):
        rows = {one.table: one.values for one in each.witnesses}
        assert {one.table: one.values for one in mine.witnesses} == {"open": rows["open"], "secret": ()}
        assert mine.absent == ()
    home.accounts.grant("anna", "read", "secret")
    assert acting(home).why("joined", 1).combinations == whole


def test_answers_of_the_time_without_the_right_come_after_it(home: Weft) -> None:
    acting(home).install("mine", "SELECT id FROM open")
    home.tick()
    home.accounts.revoke("anna", "read", "open")
    home.append("open", {"id": 10})
    home.tick(now="2026-03-03")
    assert home.show("mine").query.rows == 3
    with pytest.raises(NotAllowed):
        acting(home).results("mine")
    home.accounts.grant("anna", "read", "open")
    acting(home).resume("mine")
    home.tick(now="2026-03-04")
    assert [each.values for each in acting(home).results("mine", after=3)] == [(10,)]
