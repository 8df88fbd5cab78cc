"""Return warnings and notes about a query before it is installed.

One note says whether a standing query reads a view's definition or its stored periods.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from weft.algebra.event import Event
from weft.algebra.join_graph import selected, unconnected
from weft.algebra.relation import (
    Grouped,
    NotExists,
    Plain,
    Predicate,
    Project,
    Query,
    Relation,
    Scan,
    Source,
    StateSchema,
    Union,
    ViewSchema,
    condition,
    conjuncts,
    sources,
)
from weft.algebra.scalar import call
from weft.algebra.traverse import range_variables, scans, walk
from weft.derivation.access_paths import keyless
from weft.derivation.incremental import BEFORE, incremental
from weft.derivation.merge import blocks, mergeable_blocks, merged_predicate
from weft.derivation.order import exclude_each_other
from weft.derivation.stateful import key_columns
from weft.planning.note import Note
from weft.planning.plan import Branch, Plan, with_constants
from weft.planning.state_causes import all_states, possible
from weft.planning.state_notes import state_notes
from weft.planning.state_sql import inputs
from weft.planning.state_text import StateText
from weft.planning.words import is_padded, named, state_words
from weft.sql.lower.scope import as_written


def notes(plan: Plan, later: Sequence[Branch], texts: Sequence[StateText], *, lasting: bool) -> tuple[Note, ...]:
    """Return the warnings about a plan, followed by the notes.  ``texts`` say how a tick computes the states."""
    if not _events(plan):
        text = "no row can ever become an answer: the conditions contradict each other"
        return (Note("warning", text, text),)
    listed = [*_unconnected(plan), *_imprecise(plan), *_dear(plan, later), *state_notes(plan, texts)]
    if not lasting:
        changing = any(each.recursion is None for each in texts)
        reason = "an aggregate or a window function changes, because " if changing else ""
        listed.append(
            Note(
                "note",
                f"a row may later stop being an answer (because {reason}of NOT EXISTS, or because a condition becomes "
                "false as time passes): Weft does not "
                "retract delivered rows, and does not deliver a row again when it returns",
                "a row may later stop being an answer: Weft does not retract it",
            )
        )
    return tuple(sorted(listed, key=lambda note: note.level != "warning"))


def _unconnected(plan: Plan) -> list[Note]:
    """Warn of tables below aggregates that no equality connects.

    An equality with a constant may select the rows of one of them.  Then there is no warning.
    """
    listed = []
    for state in all_states(plan.evaluated):
        inner, *_ = inputs(state.operator)
        for block in mergeable_blocks(inner, ()):
            plain = [each.condition for each in conjuncts(block.condition) if isinstance(each, Plain)]
            chosen = {scan for each in plain if (scan := selected(each)) is not None}
            parts = [p for p in unconnected(block.sources, plain) if not any(_is_few(scan, chosen) for scan in p)]
            if len(parts) > 1:
                listed.append(_combined(*(" and ".join(map(_table_words, part)) for part in parts[:2])))
    return list(dict.fromkeys(listed))


def _table_words(scan: Scan) -> str:
    """Return the name of a table without its range variable, which the query's text may not have."""
    return named(scan) if isinstance(scan.table, StateSchema) else scan.table.name


def _is_few(scan: Scan, chosen: Collection[str]) -> bool:
    """Return whether an equality with a constant selects the rows, or the rows are one aggregate without GROUP BY."""
    table = scan.table
    if isinstance(table, StateSchema) and isinstance(table.operator, Grouped) and not key_columns(table):
        return True
    return scan.alias in chosen


def _combined(one: str, other: str) -> Note:
    line = f"no equality connects {one} to {other}: the query may combine each row of one with each row of the other"
    text = (
        f"{line}. Add an equality between their columns to WHERE or ON, such as a.order_id = b.id, unless all "
        "combinations are wanted"
    )
    return Note("warning", text, line)


def _events(plan: Plan) -> list[Event]:
    return possible(with_constants(event, plan.values) for event in incremental(plan.standing))


def _imprecise(plan: Plan) -> list[Note]:
    """A NOT EXISTS is imprecise if the query requires no minimum age of the row (paper section 2)."""
    events = _events(plan)
    if any(event.driver.kind == "now_from" and not event.driver.inside for event in events):
        return []
    listed: list[Note] = []
    partners = _partners(plan.query)
    demanded = [
        (sources(part.input), _absent(merged_predicate(condition(part.input)))) for part in blocks(plan.evaluated)
    ]
    for event in events:
        driver = event.driver
        if driver.kind != "arrival" or driver.inside or driver.scan is None:
            continue
        # A branch does not mention a NOT EXISTS that only later rows make false.
        bodies = {name: body for parts, each in demanded if driver.scan in parts for name, body in each.items()}
        for optional in (True,) if _is_state(driver.scan) else (False, True):
            blockers = [
                f"the {state_words(scan.table, keys=False)}" if isinstance(scan.table, StateSchema) else scan.table.name
                for name, body in {**_absent(condition(event.block)), **bodies}.items()
                if (name in partners) == optional
                for scan in scans(body)
                if _may_come_later(scan, bodies.get(name), driver.scan, sources(event.block))
            ]
            if blockers:
                listed.append(_too_early(driver.scan, list(dict.fromkeys(blockers)), optional=optional))
    return list(dict.fromkeys(listed))


def _absent(predicate: Predicate) -> dict[frozenset[str], Relation]:
    return {_named(item.body): item.body for item in conjuncts(predicate) if isinstance(item, NotExists)}


def _is_state(scan: Scan) -> bool:
    return isinstance(scan.table, StateSchema)


def _too_early(judged: Scan, blockers: list[str], *, optional: bool) -> Note:
    """``optional`` is True for the partners of an outer join."""
    later, rows = " or ".join(blockers), named(judged)
    age = f"{as_written(judged.alias)}.{judged.table.start} < NOW() - INTERVAL 2 WEEKS"
    if optional:
        text = (
            f"Weft delivers a row of {rows} with NULLs as soon as it arrives without a partner. If a partner from "
            f"{later} arrives later, Weft delivers the pair, too, and does not retract the row with NULLs"
        )
        line = f"a row of {rows} comes with NULLs before a later partner from {later}"
        if _is_state(judged):  # no single row of a table has an age
            return Note("warning", text, line)
        wait = "To wait for partners,"
        return Note("warning", f"{text}. {wait} require a minimum age, such as {age}", f"{line}. {wait} add {age}")
    text = (
        f"Weft evaluates NOT EXISTS when a row of {rows} arrives. If a later row of {later} excludes the row, "
        "Weft has already delivered it, and does not retract it. If such rows usually arrive later, as replies "
        f"do, Weft delivers nearly every row. Require a minimum age, such as {age}"
    )
    line = f"a later row of {later} does not retract an answer of {rows}. To wait for such a row, add {age}"
    return Note("warning" if judged.table.name in blockers else "note", text, line)


def _partners(query: Query) -> set[frozenset[str]]:
    """Return the bodies of NOT EXISTS that select the rows without a partner in an outer join."""
    parts = (part for union in walk(query) if isinstance(union, Union) for part in union.inputs)
    padded = (part for part in parts if isinstance(part, Project) and is_padded(part))
    return {name for part in padded for name in _absent(condition(part.input))}


def _named(body: Relation) -> frozenset[str]:
    """Return a key that identifies the body of a NOT EXISTS both in the query and in its branches."""
    return frozenset(range_variables(body))


def _may_come_later(scan: Scan, body: Relation | None, judged: Scan, others: Iterable[Source]) -> bool:
    """``body`` is the body of the NOT EXISTS in the query, or None if unknown.

    The result is False if the conditions of ``body`` allow only earlier rows.  The rows of ``others`` arrive no later
    than the row of ``judged``.
    """
    if body is None:
        return True
    there = (Plain(call("<=", other.start, judged.start)) for other in others if isinstance(other, Scan))
    later = Plain(call("<", judged.start, scan.start))
    return not exclude_each_other((*conjuncts(condition(body)), *there, later))


def _dear(plan: Plan, later: Sequence[Branch]) -> list[Note]:
    reached: dict[str, set[str]] = {}
    before: dict[str, None] = {}
    timed: dict[str, None] = {}
    known = set(range_variables(plan.query)).union(*(range_variables(event.relation) for event in plan.branches))
    for branch in later:
        if branch.event.driver.kind == "beginning":
            continue  # runs only once
        own = {scan.alias: scan.table.name for scan in scans(branch.event.block) if not _is_state(scan)}
        for alias in keyless(branch.paths):
            if alias in own and plan.from_now and _of_before(alias, known):
                before[own[alias]] = None
            elif alias in own and len(own) == 1 and branch.event.driver.scan is None:
                timed[own[alias]] = None
            elif alias in own:
                reached.setdefault(own[alias], set()).add(_written(alias, known))
    return [
        *_from_now(list(before)),
        *(_awaited(table) for table in timed),
        *(_whole(table, sorted(aliases)) for table, aliases in reached.items()),
    ]


def _of_before(alias: str, known: Collection[str]) -> bool:
    return alias.removesuffix(BEFORE) != alias and alias.removesuffix(BEFORE) in known


def _written(alias: str, known: Collection[str]) -> str:
    """An alias may end with underscores that prevent a clash with a column."""
    while alias not in known and alias.endswith("_"):
        alias = alias[:-1]
    return as_written(alias)


def _from_now(tables: Sequence[str]) -> list[Note]:
    if not tables:
        return []
    whole = f"reads all of {' and '.join(tables)}"
    text = (
        "with --from now, Weft delivers a row only if the query's result did not contain it before. To check this, "
        f"each tick that evaluates the query {whole}. Without --from now, the check is not needed"
    )
    return [Note("warning", text, f"each tick that evaluates the query {whole}, because of --from now")]


def _whole(table: str, aliases: Sequence[str]) -> Note:
    whole = f"each tick that evaluates the query reads all of {table}"
    named = table if [table] == aliases else f"{table} (as {', '.join(aliases)})"
    text = (
        f"no equality connects new rows to {named}, so {whole}. With an equality between columns, such as "
        "a.inreplyto = b.msgid, a tick reads only matching rows"
    )
    return Note("warning", text, f"{whole}: no equality connects new rows to {', '.join(aliases)}")


def _awaited(table: str) -> Note:
    whole = f"each tick that evaluates the query reads all of {table}"
    reason = f"the instant at which a row of {table} becomes due is not a TIMESTAMP or DATE column plus a constant"
    line = f"{whole}: the instant at which a row becomes due is not a TIMESTAMP or DATE column plus a constant"
    return Note("warning", f"{reason}. No range of a column therefore selects the due rows, and {whole}", line)


def view_notes(plan: Plan) -> Iterator[Note]:
    """Yield notes that say whether the query reads the definition or the stored periods of each view."""
    for view in plan.definitions:
        yield Note(
            "note",
            f"the view {view.name} depends on NOW(), so the query evaluates its definition at every instant. `weft "
            "try` evaluates the view at one instant, with its whole past",
            f"the view {view.name} is evaluated at every instant; `weft try` evaluates the view at one instant",
        )
    for table in plan.tables:
        if isinstance(table, ViewSchema):
            yield Note(
                "note",
                f"the view {table.name} does not depend on NOW(), so the query reads its stored periods",
            )
