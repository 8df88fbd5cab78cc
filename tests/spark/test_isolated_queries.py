"""If Spark raises any error for a query at any step, the tick isolates the query and delivers the other answers.

After ``resume``, the query has the answers of a home without errors, each once.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from injected import failing
from replayed import DAY, START, answers, load, replay_home
from weft.api import Weft
from weft.errors import ExecutionError, LeaseLost
from weft.execution import arrow_answers, new_answers
from weft.execution.driver_reader import BOUNDS, ReadBounds
from weft.execution.groups import Group, Member
from weft.execution.temporal import running
from weft.execution.ticks import due, stratum, tick, tick_report
from weft.runtime.session import spark_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHARED = "SELECT m.msgid FROM msgs m WHERE m.newsgroup LIKE '{}%'"
QUERIES = {
    "bad": SHARED.format("sci"),
    "good": SHARED.format("s"),  # the plan of the query that fails
    "other": "SELECT m.msgid, m.newsgroup FROM msgs m",
    "over_bad": "SELECT b.msgid FROM results.bad b",
    "over_good": "SELECT g.msgid FROM results.good g",
}
STEPS = ("read back", "window", "quiet", "constants", "computed", "numbered", "counted")
ERRORS: tuple[Callable[[], Exception], ...] = (
    lambda: RuntimeError("injected"),
    lambda: KeyError("injected"),
    lambda: ExecutionError("injected"),
)


def inject(step: str, weft: Weft, error: BaseException, patch: pytest.MonkeyPatch, name: str = "bad") -> None:
    """Make the step raise the error while it works for a query."""
    query = weft.catalog.queries.named(name)

    def has(groups: Any) -> bool:
        return any(member.query.name == name for group in groups for member in group.members)

    match step:
        case "read back":
            failing(patch, tick, "compiled", lambda record, _: record.plan_id == query.plan_id, error)
        case "window":
            failing(patch, tick, "member", lambda one, *_: one.name == name, error)
        case "quiet":
            failing(patch, due, "is_quiet", lambda one, *_: one.query.name == name, error)
        case "constants":
            usual = Member.values.fget  # type: ignore[attr-defined]

            def values(self: Member) -> Any:
                if self.query.name == name:
                    raise error
                return usual(self)

            patch.setattr(Member, "values", property(values))
            failing(patch, Group, "branches", lambda group: has([group]), error)
        case "computed":
            failing(patch, stratum, "new_answers", lambda _, *windows: any(map(has, windows)), error)
        case "numbered":
            failing(patch, arrow_answers, "numbered", lambda rows, before, *_: query.query_id in before, error)
        case "counted":
            failing(patch, tick_report, "_outcome", lambda run, member, _: member.query.name == name, error)


def message(number: int) -> tuple[Any, ...]:
    return (f"m{number}", ("sci.space", "rec.x", "soc.y")[number % 3], None, START + number * DAY)


class Pair:
    """A home in which a query fails, and a home without failures."""

    def __init__(self, folder: Path, spark: SparkSession) -> None:
        self.spark, self.loaded = spark, 0
        self.homes = [replay_home(folder / "home"), replay_home(folder / "sound")]
        self.load(3)
        for weft in self.homes:
            for name, text in QUERIES.items():
                weft.install(name, text)
            weft.tick(now=START + self.loaded * DAY)

    def load(self, number: int) -> None:
        rows = [message(each) for each in range(self.loaded, self.loaded + number)]
        for weft in self.homes:
            load(weft, self.spark, "msgs", rows)
        self.loaded += number

    def tick(self, which: int, later: int = 0) -> dict[str, str]:
        done = self.homes[which].tick(now=START + self.loaded * DAY + later)
        return {each.query.name: each.reason or "" for each in done.reports[-1].outcomes}

    def same(self, *names: str) -> bool:
        return all(answers(self.homes[0], name) == answers(self.homes[1], name) for name in names)


def check(pair: Pair, patched: Callable[[pytest.MonkeyPatch], None], *, counted: bool = False) -> None:
    """Run a tick in which ``bad`` fails, resume ``bad``, and run another tick."""
    pair.load(3)
    pair.tick(1)
    with pytest.MonkeyPatch.context() as patch:
        patched(patch)
        reasons = pair.tick(0)
    home = pair.homes[0]
    states = {query.name: query.state for query in home.catalog.queries.all()}
    assert states == {name: "failed" if name == "bad" else "active" for name in QUERIES}
    assert "injected" in reasons["bad"] and "injected" in (home.catalog.queries.named("bad").reason or "")
    assert pair.same("good", "other", "over_good")
    if counted:
        assert pair.same("bad", "over_bad")
    else:
        assert "waits for bad" in reasons["over_bad"] and "failed" in reasons["over_bad"]
    home.resume("bad")
    for which in (0, 1):
        pair.tick(which, 1)
    assert pair.same(*QUERIES)


def test_any_error_of_a_step_sets_one_query_aside(tmp_path: Path, spark: SparkSession) -> None:
    pair = Pair(tmp_path, spark)
    for number, step in enumerate(step for step in STEPS if step != "read back"):
        error = ERRORS[number % len(ERRORS)]()
        check(pair, lambda patch: inject(step, pair.homes[0], error, patch), counted=step == "counted")  # noqa: B023
    assert len(answers(pair.homes[0], "over_bad")) > 5
    assert "query bad" in (tmp_path / "home" / "logs" / "weft.log").read_text()


def test_a_plan_that_cannot_be_read_back_fails_its_queries_and_no_other(tmp_path: Path, spark: SparkSession) -> None:
    pair = Pair(tmp_path, spark)
    home = pair.homes[0]
    pair.load(3)
    pair.tick(1)
    with pytest.MonkeyPatch.context() as patch:
        inject("read back", home, RuntimeError("injected"), patch)
        pair.tick(0)
    states = {query.name: query.state for query in home.catalog.queries.all()}
    assert {name for name, state in states.items() if state == "failed"} == {"bad", "good"}
    assert pair.same("other")
    home.resume("bad")
    home.resume("good")
    for which in (0, 1):
        pair.tick(which, 1)
    assert pair.same(*QUERIES)


def test_an_error_of_spark_while_answers_are_written_sets_one_query_aside(tmp_path: Path, spark: SparkSession) -> None:
    """With limits of zero, Spark numbers the rows while it writes them."""
    pair = Pair(tmp_path, spark)
    usual, bad = new_answers._numbered, pair.homes[0].catalog.queries.named("bad").query_id

    def numbered(*given: Any) -> Any:
        rows = usual(*given)
        text = f"IF(query_id = {bad}, RAISE_ERROR('injected'), 0)"
        return rows.selectExpr("*", f"{text} AS one").where("one = 0").drop("one")

    def patched(patch: pytest.MonkeyPatch) -> None:
        patch.setattr("weft.execution.driver_reader.BOUNDS", NOTHING)
        patch.setattr(new_answers, "_numbered", numbered)

    check(pair, patched)


NOTHING = ReadBounds(**dict.fromkeys(BOUNDS.__dataclass_fields__, 0))


def test_an_error_of_the_home_sets_nothing_aside(tmp_path: Path, spark: SparkSession) -> None:
    pair = Pair(tmp_path, spark)
    pair.load(3)
    pair.tick(1)
    errors = {"window": LeaseLost("injected"), "computed": OSError(28, "full"), "numbered": KeyboardInterrupt()}
    for step, error in errors.items():
        with pytest.MonkeyPatch.context() as patch, pytest.raises(type(error)):
            inject(step, pair.homes[0], error, patch)
            pair.tick(0)
        assert {query.state for query in pair.homes[0].catalog.queries.all()} == {"active"}
    pair.tick(0)
    assert pair.same(*QUERIES)


def test_queries_over_a_view_that_fails_are_set_aside_and_miss_nothing(tmp_path: Path, spark: SparkSession) -> None:
    file = tmp_path / "staff.csv"
    homes = [replay_home(tmp_path / "home"), replay_home(tmp_path / "sound")]

    def poll(lines: list[str], at: int) -> None:
        file.write_text("\n".join(["id,name,dept", *lines, ""]))
        for weft in homes:
            weft.poll_source("staff", now=at)

    file.write_text("id,name,dept\n1,Ann,Dev\n2,Ben,Ops\n")
    for weft in homes:
        weft.add_source("staff", "csv", str(file), ["id"])
        weft.poll_source("staff", now=100)
        weft.add_view("devs", "SELECT name FROM staff WHERE dept = 'Dev'")
        weft.add_view("ops", "SELECT name FROM staff WHERE dept = 'Ops'")
        weft.install("over_devs", "SELECT name FROM devs")
        weft.install("over_ops", "SELECT name FROM ops")
        weft.tick(now=200)
    poll(["1,Ann,Dev", "2,Ben,Dev", "3,Cy,Ops"], 300)
    with pytest.MonkeyPatch.context() as patch:
        failing(patch, running, "view_change", lambda _, __, view, *___: view.name == "devs", RuntimeError("injected"))
        reasons = {each.query.name: each.reason or "" for each in homes[0].tick(now=400).reports[-1].outcomes}
    homes[1].tick(now=400)
    assert "the query reads the view devs, whose refresh failed" in reasons["over_devs"]
    assert "injected" in reasons["over_devs"]
    assert {query.name: query.state for query in homes[0].catalog.queries.all()} == {
        "over_devs": "failed",
        "over_ops": "active",
    }
    assert answers(homes[0], "over_ops") == answers(homes[1], "over_ops")
    poll(["3,Cy,Dev"], 500)
    homes[0].resume("over_devs")
    for weft in homes:
        weft.tick(now=600)
    names = [[(values, at) for _, at, values in answers(weft, "over_devs")] for weft in homes]
    assert sorted(names[0]) == sorted(names[1]) and len(names[0]) == 3


def test_many_rows_of_values_are_no_chain_of_selects(tmp_path: Path, spark: SparkSession) -> None:
    weft = replay_home(tmp_path / "home")
    load(weft, spark, "msgs", [message(each) for each in range(3)])
    rows = ", ".join(f"('m{number}', {number})" for number in range(2_000))
    weft.install("q", f"SELECT m.msgid, v.n FROM msgs m JOIN (VALUES {rows}) AS v(name, n) ON v.name = m.msgid")
    weft.install("whole", f"SELECT v.n FROM (VALUES {rows}) AS v(name, n) WHERE v.n > 1997")
    weft.tick(now=START + 5 * DAY)
    assert [values for _, _, values in answers(weft, "q")] == [("m0", 0), ("m1", 1), ("m2", 2)]
    assert [values for _, _, values in answers(weft, "whole")] == [(1998,), (1999,)]


def test_an_error_that_quotes_the_guard_is_not_the_guards(spark: SparkSession) -> None:
    from weft.execution.guarded import MANY, gave_too_many, guarded

    def raised(text: str) -> Exception:
        with pytest.raises(spark_errors()) as found:
            spark.sql(text).collect()
        return found.value

    quoting = raised(guarded("SELECT nothing FROM nowhere AT ALL", 5))
    assert MANY in str(quoting) and not gave_too_many(quoting)
    assert not gave_too_many(raised(f"SELECT RAISE_ERROR('before {MANY}')"))
    assert gave_too_many(raised(guarded("SELECT id FROM RANGE(10_000)".replace("_", ""), 1)))


def test_rows_of_queries_that_are_computed_apart_have_one_schema(spark: SparkSession) -> None:
    """Spark knows that the instant of the first query is never NULL, and does not know it of the other."""
    text = "SELECT {}L AS query_id, {} AS first_at, X'00' AS row_hash, ARRAY('a') AS row"
    instants = ("TIMESTAMP '1993-04-05'", "TRY_CAST('1993-04-05' AS TIMESTAMP)")
    frames = [spark.sql(text.format(number, instant)) for number, instant in enumerate(instants)]
    reader: Any = SimpleNamespace(spark=spark)
    found = new_answers._collected(reader, frames, apart=True)
    assert found is not None and found.column("query_id").to_pylist() == [0, 1]
