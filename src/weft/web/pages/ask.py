"""Ask a new query: explain it, try it, see what it would have delivered, and install or save it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from weft import charts
from weft.algebra.form_parameter import PARAMETER_TYPES
from weft.errors import NotAllowed, Refused, SqlError, WeftError
from weft.web.drafts import Draft, Problem, bare_draft, draft_of, empty_draft, first_answers, problems, refusal
from weft.web.jobs import Go, Job, Outcome, Shown
from weft.web.visits import Visit, page

if TYPE_CHECKING:
    from weft.execution.ad_hoc import Answer
    from weft.execution.backtest import Backtest

_ROWS: Final = 100
_LONGEST_CHECKED: Final = 20_000
"""The maximum length of a text that is checked while somebody types."""
_NAMED: Final = 500
"""The maximum number of queries whose results the editor completes."""
DIALECTS: Final = {
    "postgres": "PostgreSQL",
    "duckdb": "DuckDB",
    "snowflake": "Snowflake",
    "bigquery": "BigQuery",
    "tsql": "T-SQL",
}
"""The dialects of SQL besides Spark's, with the names that people know."""
Step = Callable[[Visit, Draft, Job], Mapping[str, Any]]
"""A step of the form.  It returns values for the page."""


def show(visit: Visit) -> Response:
    """Show the form, with the text of the address."""
    _require_author(visit)
    return visit.show("ask.html", **_values(visit, empty_draft(visit.asked("sql"), visit.asked("dialect"))))


def act(visit: Visit) -> Response:
    """Run the action of a button of the form.  The text stays in the form."""
    _require_author(visit)
    do = visit.given("do")
    if do not in _STEPS:
        raise Refused("this page has no such button")
    try:
        draft = draft_of(visit)
        if not draft.sql:
            raise SqlError("the text of the query is missing", hint="Write a SELECT.")
    except SqlError as error:
        draft = bare_draft(visit)
        return visit.show("ask.html", **_values(visit, draft, **refusal(error, draft.sql, False)))
    if draft.untyped and do != "save":
        return visit.show("ask.html", **_values(visit, draft))
    title, step = _STEPS[do]
    return visit.work(title, lambda job: run(visit, draft, job, step))


def run(visit: Visit, draft: Draft, job: Job, step: Step, template: str = "ask.html") -> Outcome:
    """Run a step.  A text that is refused or fails stays in the form, with the reasons at their places."""
    text = draft.sql
    try:
        if step is not _save:  # parameters of a saved query need no values
            text = draft.text
        found = step(visit, draft, job)
    except WeftError as error:
        return Shown(template, _values(visit, draft, **refusal(error, text, step in (_install, _save))))
    if "installed" in found:
        query = found["installed"]
        return Go(f"/queries/{query.query_id}", f"{query.name} is installed. The next tick runs it.")
    if "saved" in found:
        return Go(f"/saved/{found['saved'].saved_id}", f"{found['saved'].name} is saved.")
    return Shown(template, _values(visit, draft, **found))


def _values(visit: Visit, draft: Draft, **found: Any) -> dict[str, Any]:
    nothing = dict.fromkeys(("explained", "tried", "tested", "chart", "error"))
    shown = {"draft": draft, "types": PARAMETER_TYPES, "dialects": DIALECTS, "first_answers": first_answers(visit)}
    return {**shown, **nothing, "problems": (), "at_install": False, **found}


def _require_author(visit: Visit) -> None:
    if not visit.is_author:
        raise NotAllowed(
            "only authors and administrators write queries", hint="Fill in one of the saved queries instead."
        )


def explain(visit: Visit, draft: Draft, job: Job) -> Mapping[str, Any]:
    """Say what the query means, without Spark."""
    start = "now" if draft["start"] == "now" else "start"
    brief = visit.weft.explain(draft.text, start=start, **draft.dialect).brief[:-1]  # type: ignore[arg-type]
    words = [each.partition("; `weft")[0] for each in brief if not each.startswith("Next due:")]
    return {"explained": "\n".join(words)}


def try_once(visit: Visit, draft: Draft, job: Job) -> Mapping[str, Any]:
    """Run the query at one instant."""
    job.say("Running the query once. The first one after the start of the server waits for Spark.")
    tried = visit.weft.try_query(draft.text, now=draft["now"] or None, limit=_ROWS, **draft.dialect)
    return {"tried": tried, "rows": _rows(tried)}


def backtest(visit: Visit, draft: Draft, job: Job) -> Mapping[str, Any]:
    """Show what the query would have delivered, over time."""
    job.say("Computing what the query would have delivered. The first one after the start waits for Spark.")
    since, until = draft["since"] or None, draft["until"] or None
    tested = visit.weft.backtest(draft.text, since=since, until=until, limit=_ROWS, **draft.dialect)
    return {"tested": tested, "rows": _rows(tested), "chart": _timeline(tested)}


def _rows(found: Answer | Backtest) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in found.to_dicts()]


def _timeline(tested: Backtest) -> object:
    step = max((tested.until - tested.begin) // max(len(tested.counts), 1), 1)
    counted = charts.Counted(tested.begin, step, tested.counts)
    return charts.bars(counted, "answers") if tested.count else None


def _install(visit: Visit, draft: Draft, job: Job) -> Mapping[str, Any]:
    if not draft["name"]:
        raise Refused("the query has no name", hint="Write a name, such as late-orders.")
    return {"installed": visit.weft.install(draft["name"], draft.text, **draft.installation())}


def _save(visit: Visit, draft: Draft, job: Job) -> Mapping[str, Any]:
    if not draft["name"]:
        raise Refused("the saved query has no name", hint="Write a name, such as late-orders.")
    draft.require_form()
    defaults = tuple(replace(each, default=(draft.values or {}).get(each.name)) for each in draft.parameters)
    saved = visit.weft.save_query(
        draft["name"], draft.sql, defaults, description=draft["description"], replace=visit.given("replace") == "on"
    )
    return {"saved": saved}


_STEPS: Final[Mapping[str, tuple[str, Step]]] = {
    "explain": ("explain a query", explain),
    "try": ("try a query", try_once),
    "backtest": ("backtest a query", backtest),
    "install": ("install a query", _install),
    "save": ("save a query", _save),
}


def names(visit: Visit) -> Response:
    """Return the tables and their columns, which the editor completes."""
    tables = {each.name: [column.name for column in each.schema.columns] for each in visit.weft.tables()}
    queries = visit.weft.queries(limit=_NAMED)
    results = {each.name: [name for name, _ in each.columns] for each in queries if each.name.isidentifier()}
    return JSONResponse({"tables": tables, "results": results})


def _problems(visit: Visit, text: str) -> tuple[Problem, ...]:
    try:
        draft = draft_of(visit)
        if not (draft.untyped or draft.parameters):
            visit.weft.explain(text, **draft.dialect)
    except Refused as error:
        return problems(error, text)
    return ()


def check(visit: Visit) -> Response:
    """Return the reasons why a text is refused, for the editor."""
    _require_author(visit)
    text = str(visit.form.get("sql", ""))
    found: tuple[Any, ...] = ()
    if text.strip() and len(text) <= _LONGEST_CHECKED:
        found = visit.site.checks.run(visit.person, lambda: _problems(visit, text)) or ()
    listed = [
        {"line": each.line, "column": each.column, "message": each.message, "hint": each.hint or ""} for each in found
    ]
    return JSONResponse({"problems": listed})


ROUTES: Final = (
    Route("/ask", page(show)),
    Route("/ask", page(act), methods=["POST"]),
    Route("/ask/names.json", page(names)),
    Route("/ask/check", page(check), methods=["POST"]),
)
