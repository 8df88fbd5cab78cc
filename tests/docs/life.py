"""Print each stage in the life of one query with the functions of Weft: docs/life-of-a-query.md.

``python -m pytest tests/docs --bless`` (``make bless``) writes the page. ``test_life_of_a_query.py`` checks the page.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from outline import driver, outline
from weft.algebra.access import Access, DeltaScan, Lookup
from weft.algebra.event import Event
from weft.algebra.relation import FALSE, condition, conjunction, sources
from weft.api.explaining import mail_schema
from weft.catalog.records import QueryRecord
from weft.derivation.canonical import canonical
from weft.derivation.incremental import answer, window
from weft.derivation.lift import lift
from weft.derivation.merge import merged
from weft.derivation.normalize import normalize
from weft.derivation.replay import ends, starts
from weft.derivation.simplify import simplify, starts_of
from weft.execution.answers import ledger_select
from weft.execution.groups import Group, Member
from weft.execution.windows import slices_of
from weft.instants import format_instant, format_interval, parse_instant
from weft.planning.event_words import why
from weft.planning.explain import explain
from weft.planning.form import signature, stored_form
from weft.planning.plan import Plan, columns_of, parameter_table, plan
from weft.sql.lower.query import bind
from weft.sql.rendering import render
from weft.sql.rendering.render import branch_sql, query_sql

TEXT: Final = """SELECT m.msgid
FROM msgs m
WHERE m.ts < NOW() - INTERVAL 4 WEEKS
  AND NOT EXISTS (SELECT * FROM msgs m1 WHERE m1.inreplyto = m.msgid)"""
LIKE_IT: Final = TEXT.replace("m1", "r").replace("4 WEEKS", "14 DAYS")
TABLES: Final = {"msgs": mail_schema()}
TAU: Final = parse_instant("1993-05-03")
T: Final = parse_instant("1993-05-10")


def page() -> str:
    """Return the whole page."""
    found = plan(TEXT, TABLES)
    parts = [HEAD, *_compiling(found), *_deriving(found), *_running(found), TAIL]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _compiling(found: Plan) -> Iterator[str]:
    bound = bind(TEXT, TABLES)
    yield "## 1. The text"
    yield _block("sql", TEXT)
    yield ABOUT_BINDING
    yield _block("text", outline(bound))
    yield ABOUT_NORMALIZING if normalize(bound) == bound else "Normalization changes it."
    yield _block("sql", query_sql(normalize(bound)))
    lifted = lift(canonical(normalize(bound)))
    other = plan(LIKE_IT, TABLES)
    assert signature(other) == signature(found)
    yield ABOUT_LIFTING
    yield _block("text", outline(lifted.query))
    rows = [
        ["parameter", "type", "this query", "`INTERVAL 14 DAYS`, alias `r`"],
        *(
            [p.name, str(p.type), render.scalar(mine), render.scalar(theirs)]
            for p, mine, theirs in zip(found.parameters, found.values, other.values, strict=True)
        ),
        ["signature", "", signature(found), signature(other)],
    ]
    yield _table(rows)


def _deriving(found: Plan) -> Iterator[str]:
    lifted = found.lifted
    yield ABOUT_EDGES
    yield "**starts**, before any branch is dropped:"
    began = [branch for event in starts(answer(lifted)) for branch in merged(event)]
    for number, event in enumerate(began, 1):
        yield f"{number}. When {driver(event.driver)} ({_fate(event)}):\n\n{_item(event)}"
    yield "**ends**:"
    ended = [branch for event in ends(answer(lifted)) for branch in merged(event)]
    for number, event in enumerate(ended, 1):
        yield f"{number}. When {driver(event.driver)}:\n\n{_item(event)}"
    yield ABOUT_INCREMENTAL
    for event in found.branches:
        yield f"Driver: {driver(event.driver)}. In words: *{why(event)}*."
        yield _block("sql", _shown(event))
    yield ABOUT_MONOTONE.format(closed="Here it is" if found.verdict.closed else "Here it is not")
    yield f"> {found.verdict.reason}"
    for event in found.first:
        yield _block("sql", _shown(event))
    yield ABOUT_ACCESS
    yield _table([["range variable", "view", "access path"], *_paths(found)])
    yield "During a tick, views contain those rows. `weft explain --full` prints the views:"
    for view in explain(found).views:
        yield _block("sql", f"-- {view.name}\n{view.sql}")


def _running(found: Plan) -> Iterator[str]:
    group = Group(1, found.shape, (_member(found, 1, TAU),), T)
    branches = group.branches()
    yield ABOUT_RUNNING.format(tau=format_instant(TAU), t=format_instant(T))
    for name, slices in slices_of([(group, branches)]).items():
        for each in slices:
            assert each.low is not None
            low, high = format_instant(each.low), format_instant(each.high)
            yield f"- news of `{name}`: rows whose `{each.column}` is in [{low}, {high})"
    yield ABOUT_SQL
    for branch in branches:
        yield _block("sql", branch.sql)
    yield ABOUT_LEDGER
    for branch in branches:
        yield _block("sql", ledger_select(branch, group.members[0].query.query_id))
    other = plan(LIKE_IT, TABLES)
    both = Group(1, found.shape, (_member(found, 1, TAU), _member(other, 2, TAU)), T)
    columns = ", ".join(column.name for column in parameter_table(1, found.shape).columns)
    yield ABOUT_MANY.format(columns=columns)
    for branch in both.branches():
        yield _block("sql", branch.sql)


def _fate(event: Event) -> str:
    """Describe whether the order of time rules out the event."""
    demanded = conjunction(window(event.instant), condition(event.block))
    never = simplify(demanded, starts_of(sources(event.block))) == FALSE
    return "it can never hold, and is dropped" if never else "kept"


def _shown(event: Event) -> str:
    return branch_sql(event, {})


def _paths(found: Plan) -> Iterator[list[str]]:
    group = Group(1, found.shape, (_member(found, 1, TAU),), T)
    for branch in group.branches():
        for alias, path in branch.paths.items():
            yield [f"`{alias}`", f"`{path.view}`", _path_words(path)]


def _path_words(path: Access) -> str:
    match path:
        case DeltaScan():
            shift = f" + {format_interval(path.shift.micros)}" if path.shift.micros else ""
            return f"`DeltaScan`: the rows of `{path.table}` whose `{path.column}`{shift} is in the window"
        case Lookup():
            return (
                f"`Lookup`: the rows of `{path.table}` whose `{path.key.name}` is a `{path.via_key.name}` "
                f"of `{path.via.view}`"
            )
        case _:
            return f"`FullScan`: the table `{path.table}`"


def _member(found: Plan, query_id: int, tau: int) -> Member:
    """Return a query as the catalog passes it to a tick."""
    record = QueryRecord(
        query_id=query_id,
        name=f"q{query_id}",
        user="anna",
        sql=TEXT,
        plan_id=1,
        parameters=stored_form(found).parameters,
        names=found.names,
        columns=columns_of(found.query),
        every_us=None,
        from_mode="start",
        from_instant=None,
        tau=tau,
        next_ordinal=1,
        state="active",
        reason=None,
        installed_at=tau,
        next_due=None,
    )
    return Member(record, tau, T)


def _block(language: str, text: str) -> str:
    return f"```{language}\n{text}\n```"


def _item(event: Event) -> str:
    """Return a branch as an item of a numbered list."""
    return "\n".join("   " + line if line else "" for line in _block("sql", _shown(event)).splitlines())


def _table(rows: Sequence[Sequence[str]]) -> str:
    head, *rest = ("| " + " | ".join(row) + " |" for row in rows)
    return "\n".join([head, "|" + " --- |" * len(rows[0]), *rest])


HEAD: Final = """
# The life of a query

After this page you know what Weft does with a standing query, stage by stage, and which module does it. The program
writes this page: `make bless` calls the functions named here.

The example query finds messages more than four weeks old to which no one has replied (Terry, Goldberg, Nichols, Oki:
*Continuous Queries over Append-Only Databases*, SIGMOD 1992, section 6.2). `weft ingest mail` creates the table
`msgs`; the column `ts` is the instant at which a row begins. The [glossary](glossary.md) defines the terms.
"""
ABOUT_BINDING: Final = """
## 2. Bound: the algebra

`sql.lower.bind` parses the text, checks it against the list of allowed SQL, and resolves each name to a column. It
solves conditions for `NOW()`: `m.ts < NOW() - 4 weeks` becomes `NOW >= m.ts + 28 days + 1 µs`. Weft counts time in
whole microseconds, so "later than" means "at least one microsecond later". Three-valued logic ends here: from now on
each condition is true or not true.
"""
ABOUT_NORMALIZING: Final = """
`derivation.normalize` simplifies conditions; for example, `LIKE 'comp.sys.%'` becomes `STARTSWITH`.
`derivation.canonical` orders them. Neither changes this query. `weft explain --full` begins with the result as SQL:
"""
ABOUT_LIFTING: Final = """
## 3. Lifted: the plan and its parameters

`derivation.lift` replaces the constants by parameters. The result is the *plan*. Its signature is a hash that ignores
the names of aliases and output columns. A query with two weeks and other names has the same plan and another
parameter, so Weft runs both as one query. The microsecond belongs to the meaning of `<` and is no parameter.
"""
ABOUT_EDGES: Final = """
## 4. Starts and ends, and the incremental query Q^I

`derivation.replay` finds the instants at which rows *enter* the answer (`starts`) and *leave* it (`ends`). Each cause
becomes a branch, and the cause is its driver. A branch of `starts` checks every other condition at that instant,
`_first_at`. A branch of `ends` checks the other conditions just before it. NOW no longer occurs.
`derivation.merge` then flattens the nested relations into one block.
"""
ABOUT_INCREMENTAL: Final = """
A reply ends an answer and begins none. Weft never withdraws answers; it needs `ends` only inside another NOT EXISTS.

`derivation.incremental` adds the window, `:tau <= _first_at < :t`. It drops a branch that can never hold: a message
cannot be four weeks old when it arrives. The remaining branches are Q^I, the incremental query:
"""
ABOUT_MONOTONE: Final = """
## 5. The first delivery: Q^M

The first tick of a query must find every row that was ever in the answer. The minimum bounding monotone query, Q^M,
returns these rows. The paper gives Q^M a closed form: one SELECT in which NOW becomes the latest of the instants from
which the parts of the query hold. `derivation.monotone` decides whether the closed form is correct. {closed}:
"""
ABOUT_ACCESS: Final = """
If it is not correct, the first tick runs the branches of Q^I with a window that has no beginning.

## 6. How a tick reads its tables

`derivation.access_paths` chooses an access path for each range variable, starting with the driver's rows. This
branch needs the few messages that become four weeks old within the window, and only the replies to these messages:
"""
ABOUT_RUNNING: Final = """
## 7. What a tick runs

The query was ticked up to {tau}; this tick goes up to {t}. `execution.windows` turns the
window into a range of a column. Statistics of the files select the files to read:
"""
ABOUT_SQL: Final = """
Spark runs the branch with the two instants and the constant filled in. It never runs the text of the user:
"""
ABOUT_LEDGER: Final = """
`execution.answers` converts every branch of every query to rows of the ledger. The hash of a row shows whether the
query has delivered the row before. The column `row` holds the values as text:
"""
ABOUT_MANY: Final = """
If a second query has the same plan, the branch joins a table of the parameters (`{columns}`) instead:
"""
TAIL: Final = """
The tick keeps each row once, with its least `_first_at`, and removes rows that are in the ledger already. It sorts the
other rows by `first_at` and then by their columns, and numbers them. One Delta commit appends them to the ledger.

If nothing is new, the tick also evaluates the branches that time drives over the window [t, ∞). The least instant of
the result is the next one at which time alone adds a row. Until then, and until a row arrives, ticks skip the query.

Two more paths: [the life of a temporal view](life-of-a-view.md) and [the life of a formula](life-of-a-formula.md).
"""
