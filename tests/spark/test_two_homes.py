"""Two homes in one process with tables of the same name. Neither home sees the rows, views or settings of the other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from replayed import DAY, HOUR, START, answers, load, replay_home
from weft.api import Weft
from weft.execution.temp_views import TempViews

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ANSWERED = (
    "SELECT m.msgid FROM msgs m WHERE m.msgid RLIKE '.' AND EXISTS (SELECT * FROM msgs r WHERE r.inreplyto = m.msgid)"
)
"""Spark computes the query, because it has a pattern."""


def home(folder: Path, spark: SparkSession, prefix: str, count: int) -> Weft:
    made = replay_home(folder)
    rows: list[tuple[Any, ...]] = [(f"{prefix}{n}", "sci.space", f"{prefix}{n - 1}", START + n) for n in range(count)]
    load(made, spark, "msgs", rows)
    made.install("answered", ANSWERED)
    return made


def test_ticks_that_are_interleaved_read_their_own_tables(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first home registers the views of its branches. Then the second home runs its whole tick. Then the first home
    runs its branches.
    """
    homes = [home(tmp_path / name, spark, name, count) for name, count in (("a", 3), ("b", 5))]
    register = TempViews.register

    for later in (HOUR, DAY):
        waiting = [homes[1]]

        def registered(self: TempViews, *arguments: Any) -> None:
            register(self, *arguments)
            while waiting:  # noqa: B023
                waiting.pop().tick(now=START + later)  # noqa: B023

        with monkeypatch.context() as patch:
            patch.setattr(TempViews, "register", registered)
            homes[0].tick(now=START + later)
        assert not waiting
        for weft, prefix, count in zip(homes, ("a", "b"), (3, 5), strict=True):
            expected = [f"{prefix}{n}" for n in range(count - 1)]
            if later == DAY:
                expected.append("more")
            assert sorted(values[0] for _, _, values in answers(weft, "answered")) == sorted(expected)
            if later == HOUR:
                more = [("more", "x", None, START + 2 * HOUR), ("again", "x", "more", START + 2 * HOUR)]
                load(weft, spark, "msgs", more)


def test_views_and_settings_end_with_the_home(tmp_path: Path, spark: SparkSession) -> None:
    first, second = (home(tmp_path / name, spark, name, 2) for name in ("a", "b"))
    first.tick(now=START + HOUR)
    first.session().conf.set("spark.sql.shuffle.partitions", "17")
    assert first.session() is first.session()
    assert first.session().catalog.listTables()
    assert second.session().catalog.listTables() == []
    assert second.session().conf.get("spark.sql.shuffle.partitions") != "17"
    first.close()
    assert Weft.open(tmp_path / "a", create=True).session().catalog.listTables() == []
