"""What else a person should know of a query before leaving it standing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from weft.algebra.relation import NotExists, Plain, Relation, Scan, Source, condition, conjuncts, sources
from weft.algebra.scalar import call
from weft.algebra.traverse import range_variables, scans
from weft.derivation.access_paths import keyless
from weft.derivation.incremental import BEFORE, incremental
from weft.derivation.merge import blocks, merged_predicate
from weft.planning.plan import Branch, Plan, with_constants
from weft.planning.time_order import exclude_each_other
from weft.planning.words import named
from weft.sql.scope import as_written


@dataclass(frozen=True)
class Note:
    """``warning``: probably not what is wanted, or dear; ``note``: good to know.  ``line`` says it in a line.

    A note without a line is left out where there is room for little.
    """

    level: Literal["warning", "note"]
    text: str
    line: str | None = None


def notes(plan: Plan, later: Sequence[Branch], *, lasting: bool) -> tuple[Note, ...]:
    """The warnings first."""
    found = [*_impossible(later), *_imprecise(plan), *_dear(plan, later)]
    if not lasting:
        found.append(
            Note(
                "note",
                "a row may leave the answer again (NOT EXISTS, or a condition that ends with time): what was delivered "
                "is not taken back, and a row that comes back is not delivered twice",
                "a row may leave the answer again: what was delivered is not taken back",
            )
        )
    return tuple(sorted(found, key=lambda note: note.level != "warning"))


def _impossible(later: Sequence[Branch]) -> list[Note]:
    if later:
        return []
    told = "no row can ever become an answer: the conditions exclude each other"
    return [Note("warning", told, told)]


def _imprecise(plan: Plan) -> list[Note]:
    """A row judged by NOT EXISTS as it arrives, with no age asked for (paper section 2, the imprecise query)."""
    branches = (with_constants(event, plan.values) for event in incremental(plan.lifted))
    events = [event for event in branches if not exclude_each_other(conjuncts(condition(event.block)))]
    if any(event.driver.kind == "now_from" and not event.driver.inside for event in events):
        return []
    found = []
    bodies = {
        _named(item.body): item.body
        for part in blocks(plan.query)
        for item in conjuncts(merged_predicate(condition(part.input)))
        if isinstance(item, NotExists)
    }
    for event in events:
        driver = event.driver
        if driver.kind != "arrival" or driver.inside or driver.scan is None:
            continue
        blockers = [
            scan.table.name
            for item in conjuncts(condition(event.block))
            if isinstance(item, NotExists)
            for scan in scans(item.body)
            if _may_come_later(scan, bodies.get(_named(item.body)), driver.scan, sources(event.block))
        ]
        if not blockers:
            continue
        table, alias = driver.scan.table.name, as_written(driver.scan.alias)
        blocking = f"a later row of {' or '.join(dict.fromkeys(blockers))}"
        before = f"before {blocking} could block it"
        asked = f"{alias}.{driver.scan.table.start} < NOW() - INTERVAL 2 WEEKS"
        text = (
            f"NOT EXISTS is asked of a row of {named(driver.scan)} at the moment it arrives, {before}, and an answer "
            "once given stays given: if what blocks comes later, as replies do, nearly every row is delivered. Ask for "
            f"an age, such as {asked}"
        )
        line = f"{named(driver.scan)} is judged as it arrives, before {blocking}: ask for an age ({asked})"
        found.append(Note("warning" if table in blockers else "note", text, line))
    return list(dict.fromkeys(found))


def _named(body: Relation) -> frozenset[str]:
    """By what a body is known, in the query and in its branches."""
    return frozenset(range_variables(body))


def _may_come_later(scan: Scan, body: Relation | None, judged: Scan, others: Iterable[Source]) -> bool:
    """Whether a row of ``scan`` that arrives after the judged one may block it: not where ``body`` asks for earlier
    ones.

    ``body`` is as the query has it (None: it is not known); the rows of ``others`` are there when the judged one
    arrives.
    """
    if body is None:
        return True
    there = (Plain(call("<=", other.start, judged.start)) for other in others if isinstance(other, Scan))
    later = Plain(call("<", judged.start, scan.start))
    return not exclude_each_other((*conjuncts(condition(body)), *there, later))


def _dear(plan: Plan, later: Sequence[Branch]) -> list[Note]:
    """Tables that every tick reads whole."""
    reached: dict[str, set[str]] = {}
    before: dict[str, None] = {}
    timed: dict[str, None] = {}
    known = set(range_variables(plan.query)).union(*(range_variables(event.relation) for event in plan.branches))
    for branch in later:
        if branch.event.driver.kind == "beginning":
            continue  # it runs once
        own = {scan.alias: scan.table.name for scan in scans(branch.event.block)}
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
    """Whether a range variable is of the query just before an instant."""
    return alias.removesuffix(BEFORE) != alias and alias.removesuffix(BEFORE) in known


def _written(alias: str, known: Collection[str]) -> str:
    """A range variable as the query's text names it: one that a column is named like runs under a longer name."""
    while alias not in known and alias.endswith("_"):
        alias = alias[:-1]
    return as_written(alias)


def _from_now(tables: Sequence[str]) -> list[Note]:
    if not tables:
        return []
    whole = f"reads {' and '.join(tables)} whole"
    text = (
        "from now on, a new row gives an answer only if the same one was not there just before: to know that, each "
        f"tick that has work {whole}. From the start, no tick has to"
    )
    return [Note("warning", text, f"each tick that has work {whole}, since it is from now on")]


def _whole(table: str, aliases: Sequence[str]) -> Note:
    whole = f"each tick that has work reads {table} whole"
    named = table if [table] == aliases else f"{table} (as {', '.join(aliases)})"
    text = (
        f"no equality leads from what is new to {named}: {whole}. An equality between columns, as in "
        "a.inreplyto = b.msgid, would let it look rows up"
    )
    return Note("warning", text, f"{whole}: no equality leads from what is new to {', '.join(aliases)}")


def _awaited(table: str) -> Note:
    whole = f"each tick that has work reads {table} whole"
    reason = f"when a row of {table} becomes due is not a TIMESTAMP column of it plus a constant"
    return Note("warning", f"{reason}, so no range of one column has the rows that do: {whole}", f"{whole}: {reason}")
