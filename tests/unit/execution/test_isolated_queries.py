"""A query that fails is set aside with the reason, whatever it raises and at whichever step of a tick; no Spark.

The others' answers of that tick are there.  Resumed, it has the answers of a home in which nothing failed, each once.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from injected import failing
from unit.execution.test_formula_queries import _text, drawn, load
from weft.api import Weft
from weft.errors import ExecutionError, LeaseLost, StorageError
from weft.execution import arrow_answers
from weft.execution.groups import synopsis_of
from weft.execution.synopsis import standing, taking_in
from weft.execution.temporal import refresh_views, running
from weft.execution.ticks import tick, tick_report
from weft.faults import is_of_the_home

QUERIES: dict[str, dict[str, Any]] = {
    "SQL": {"sql": "SELECT p.a, p.b FROM p, q WHERE p.a = q.a AND p.ts <= q.ts", "keep": "synopsis"},
    "monpoly": {"sql": "q(x) AND ONCE p(x, y)", "language": "monpoly"},
    "mutl": {"sql": "q(x) AND ONCE p(x, y)", "language": "mutl", "allow_unbounded": True},
    "2fol": {"sql": "EXISTS TIME t. p(x, y) AT NOW AND q(x) AT t AND t < NOW", "language": "2fol"},
    "2fol over the history": {
        "sql": "p(x, y) AT NOW AND FORALL TIME t. q(x) AT t IMPLIES EXISTS z. p(x, z) AT t",
        "language": "2fol",
    },
}
GOOD = {"sql": "p(x, y) AND NOT PREVIOUS q(x)", "language": "monpoly"}
ERRORS: tuple[Callable[[], Exception], ...] = (
    lambda: RuntimeError("injected"),
    lambda: KeyError("injected"),
    lambda: ExecutionError("injected"),
    lambda: MemoryError("injected"),
)
STEPS = ("read back", "window", "news", "evaluated", "typed", "stored", "numbered", "counted")


class Home:
    """A home with the queries ``good`` and ``bad``; ``bad`` fails at a chosen place."""

    def __init__(self, folder: Path, bad: dict[str, Any]) -> None:
        self.folder = folder
        folder.mkdir()
        self.weft = Weft.open(folder / "home", clock="replay", create=True)
        self.log = drawn(5, 40)
        self.loaded = 0
        self.load(8)
        for name, given in (("good", GOOD), ("bad", bad)):
            more = {key: value for key, value in given.items() if key != "sql"}
            self.weft.install(name, given["sql"], to=f"file:{name}.jsonl", **more)

    def load(self, until: int) -> None:
        load(self.weft, self.folder, self.log, self.loaded, until)
        self.loaded = until

    def tick(self, later: int) -> dict[str, str | None]:
        """The reasons, by query."""
        done = self.weft.tick(now=_text(self.log.at[self.loaded - 1] + later))
        return {each.query.name: each.reason for each in done.reports[-1].outcomes}

    def answers(self, name: str) -> list[tuple[object, ...]]:
        found = list(self.weft.results(name))
        assert [row.ordinal for row in found] == list(range(1, len(found) + 1))
        return sorted((row.first_at, *row.values) for row in found)

    def delivered(self, name: str) -> int:
        file = self.folder / "home" / "files" / f"{name}.jsonl"
        ordinals = [json.loads(line)["_ordinal"] for line in file.read_text().splitlines()] if file.exists() else []
        assert ordinals == list(range(1, len(ordinals) + 1))
        return len(ordinals)


def inject(step: str, home: Home, error: Exception, patch: pytest.MonkeyPatch) -> None:
    """Has the step raise the error where it is at work for the query ``bad``."""
    bad = home.weft.catalog.queries.named("bad")

    match step:
        case "read back":
            failing(patch, tick, "synopsis_of", lambda record, _: record.plan_id == bad.plan_id, error)
        case "window":
            failing(patch, tick, "member", lambda query, *_: query.name == "bad", error)
        case "news":
            failing(patch, standing.TickSynopses, "_has_news", lambda _, one: one.member.query.name == "bad", error)
        case "evaluated":
            some = standing.TickSynopses
            failing(
                patch, some, "_in_time", lambda _, those: any(each.member.query.name == "bad" for each in those), error
            )
        case "typed":
            failing(patch, taking_in, "ledger_rows", lambda *given: given[-1].name == "bad", error)
        case "stored":
            failing(
                patch,
                standing.TickSynopses,
                "_changed",
                lambda _, relation, rows: relation in stored_by_bad(home),
                error,
            )
        case "numbered":
            failing(patch, arrow_answers, "numbered", lambda rows, before, *_: bad.query_id in before, error)
        case "counted":
            failing(patch, tick_report, "_outcome", lambda run, member, _: member.query.name == "bad", error)


def stored_by_bad(home: Home) -> set[str]:
    """The names of the relations that are stored for ``bad``."""
    catalog = home.weft.catalog
    record = catalog.queries.plan(catalog.queries.named("bad").plan_id)
    plan = synopsis_of(record, home.weft.opened.schemas())
    return {plan.relation(each) for each in plan.stored}


# The steps are the same code for all kinds but the evaluation: `make test` takes one kind through all of them, and the
# others through this one.
CASES = (
    *((kind, STEPS if kind == "monpoly" else ("evaluated",)) for kind in QUERIES),
    pytest.param("SQL", STEPS, marks=pytest.mark.slow),
)


@pytest.mark.parametrize(("kind", "steps"), CASES)
def test_any_error_of_a_step_sets_one_query_aside(
    kind: str, steps: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, sound = Home(tmp_path / "home", QUERIES[kind]), Home(tmp_path / "sound", QUERIES[kind])
    assert home.tick(1) == sound.tick(1)
    for number, step in enumerate(steps):
        for each in (home, sound):
            each.load(each.loaded + 3)
        error = ERRORS[(number + list(QUERIES).index(kind)) % len(ERRORS)]()
        sound.tick(1)
        with monkeypatch.context() as patch:
            inject(step, home, error, patch)
            reasons = home.tick(1)
        if home.weft.catalog.queries.named("bad").state == "active":
            # Only where this step had nothing to do for it.
            assert step in ("typed", "numbered", "stored") and home.answers("bad") == sound.answers("bad"), step
            continue
        result = "more memory" if isinstance(error, MemoryError) else "injected"
        assert result in (home.weft.catalog.queries.named("bad").reason or ""), step
        assert result in (reasons["bad"] or "") and "set aside" in (reasons["bad"] or "")
        assert home.weft.catalog.queries.named("good").state == "active"
        assert home.answers("good") == sound.answers("good") and home.delivered("good") == len(home.answers("good"))
        assert (home.answers("bad") == sound.answers("bad")) or step != "counted"
        home.weft.resume("bad")
        home.tick(2)
        sound.tick(2)
        assert home.answers("bad") == sound.answers("bad"), step
        assert home.delivered("bad") == len(home.answers("bad"))
    assert len(home.answers("bad")) and len(home.answers("good"))
    if steps is STEPS:  # the others may have met no defect
        log = (tmp_path / "home" / "home" / "logs" / "weft.log").read_text()
        assert "query bad" in log and "injected" in log


@pytest.mark.parametrize(
    "error",
    [
        LeaseLost("injected"),
        StorageError("injected"),
        OSError(errno.ENOSPC, "No space left on device"),
        KeyboardInterrupt(),
        SystemExit(3),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_of_the_home_sets_nothing_aside(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert is_of_the_home(error)
    home = Home(tmp_path / "home", QUERIES["monpoly"])
    for step in ("read back", "evaluated", "numbered", "counted"):
        with monkeypatch.context() as patch, pytest.raises(type(error)):
            inject(step, home, error, patch)  # type: ignore[arg-type]
            home.tick(1)
        assert {query.state for query in home.weft.catalog.queries.all()} == {"active"}
    home.tick(1)
    assert home.answers("bad") and home.answers("good")


@pytest.fixture
def views(tmp_path: Path) -> Iterator[Weft]:
    """Two views over one polled source, and a view over the first."""
    with Weft.open(tmp_path / "home", clock="replay", create=True) as weft:
        (tmp_path / "staff.csv").write_text("id,name,dept\n1,Ann,Dev\n2,Ben,Ops\n")
        weft.add_source("staff", "csv", str(tmp_path / "staff.csv"), ["id"])
        weft.poll_source("staff", now=100)
        weft.add_view("devs", "SELECT name FROM staff WHERE dept = 'Dev'")
        weft.add_view("ops", "SELECT name FROM staff WHERE dept = 'Ops'")
        weft.add_view("names", "SELECT name FROM devs")
        yield weft


@pytest.mark.parametrize("error", [RuntimeError("injected"), ExecutionError("injected"), StorageError("injected")])
def test_a_view_that_fails_leaves_the_others(
    error: Exception, views: Weft, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = refresh_views.view_plan_of

    def failing(view: Any, tables: Any) -> Any:
        if view.name == "devs":
            raise error
        return usual(view, tables)

    with monkeypatch.context() as patch:
        patch.setattr(refresh_views, "view_plan_of", failing)
        done = {each.name: each.trouble for each in views.refresh_views(now=200)}
    assert done["ops"] is None and "injected" in str(done["devs"]) and "devs" in str(done["names"])
    assert [each.trouble for each in views.refresh_views(now=300)] == [None, None, None]


@pytest.mark.parametrize("error", [LeaseLost("injected"), OSError(errno.ENOSPC, "full")])
def test_an_error_of_the_home_belongs_to_no_view(
    error: Exception, views: Weft, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any, **__: Any) -> Any:
        raise error

    with monkeypatch.context() as patch, pytest.raises(type(error)):
        patch.setattr(running, "view_change", failing)
        views.refresh_views(now=200)
    assert {view.trouble for view in views.catalog.views.all()} == {None}
