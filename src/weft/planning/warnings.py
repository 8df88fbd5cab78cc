"""What else a person should know of a query before leaving it standing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from weft.algebra.relation import NotExists, Scan, condition, conjuncts
from weft.algebra.traverse import range_variables, scans
from weft.derivation.access_paths import keyless
from weft.derivation.incremental import BEFORE, incremental
from weft.planning.plan import Branch, Plan


@dataclass(frozen=True)
class Note:
    """``warning``: probably not what is wanted, or dear; ``note``: good to know."""

    level: Literal["warning", "note"]
    text: str


def notes(plan: Plan, later: Sequence[Branch], *, lasting: bool) -> tuple[Note, ...]:
    """The warnings first."""
    found = [*_impossible(later), *_imprecise(plan), *_dear(plan, later)]
    if not lasting:
        found.append(
            Note(
                "note",
                "a row may leave the answer again (NOT EXISTS, or a condition that ends with time): what was delivered "
                "is not taken back, and a row that comes back is not delivered twice",
            )
        )
    return tuple(sorted(found, key=lambda note: note.level != "warning"))


def _impossible(later: Sequence[Branch]) -> list[Note]:
    if later:
        return []
    return [Note("warning", "no row can ever become an answer: the conditions exclude each other")]


def _imprecise(plan: Plan) -> list[Note]:
    """A row judged by NOT EXISTS as it arrives, with no age asked for (paper section 2, the imprecise query)."""
    events = incremental(plan.lifted)
    if any(event.driver.kind == "now_from" and not event.driver.inside for event in events):
        return []
    found = []
    for event in events:
        driver = event.driver
        if driver.kind != "arrival" or driver.inside or driver.scan is None:
            continue
        blockers = [
            scan.table.name
            for item in conjuncts(condition(event.block))
            if isinstance(item, NotExists)
            for scan in scans(item.body)
        ]
        if not blockers:
            continue
        table, alias = driver.scan.table.name, driver.scan.alias
        text = (
            f"NOT EXISTS is asked of a row of {table} (as {alias}) at the moment it arrives, before a later row of "
            f"{' or '.join(dict.fromkeys(blockers))} could block it, and an answer once given stays given: if what "
            f"blocks comes later, as replies do, nearly every row is delivered. Ask for an age, such as "
            f"{alias}.{driver.scan.table.start} < NOW() - INTERVAL 2 WEEKS"
        )
        found.append(Note("warning" if table in blockers else "note", text))
    return list(dict.fromkeys(found))


def _dear(plan: Plan, later: Sequence[Branch]) -> list[Note]:
    """Tables that every tick reads whole."""
    reached: dict[str, set[str]] = {}
    before: dict[str, None] = {}
    named = set(range_variables(plan.query))
    for branch in later:
        if branch.event.driver.kind == "beginning":
            continue  # it runs once
        own = {scan.alias: scan.table.name for scan in _scans(branch)}
        for alias in keyless(branch.paths):
            if alias in own and plan.from_now and alias not in named and alias.removesuffix(BEFORE) in named:
                before[own[alias]] = None
            elif alias in own:
                reached.setdefault(own[alias], set()).add(alias)
    asked = [
        Note(
            "warning",
            f"from now on, a new row gives an answer only if the same one was not there just before: to know that, "
            f"each tick that has work reads {' and '.join(before)} whole. From the start, no tick has to",
        )
    ]
    return (asked if before else []) + [
        Note(
            "warning",
            f"no equality leads from what is new to {table} (as {', '.join(sorted(aliases))}): each tick that has work "
            f"reads {table} whole. An equality between columns, as in a.inreplyto = b.msgid, would let it look rows up",
        )
        for table, aliases in reached.items()
    ]


def _scans(branch: Branch) -> list[Scan]:
    return list(scans(branch.event.block))
