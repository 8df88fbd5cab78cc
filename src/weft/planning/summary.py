"""Summarize a query before it is installed, in at most a dozen lines with the names from the query's text.

The drivers of the branches are the causes of answers.  The conditions of the query hold at the instant of an answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from weft.algebra.event import Event
from weft.algebra.relation import (
    TRUE,
    And,
    NowFrom,
    Plain,
    Predicate,
    Query,
    Scan,
    condition,
    conjuncts,
    sources,
)
from weft.algebra.scalar import call
from weft.derivation.merge import blocks, merged_predicate
from weft.planning.plan import Plan, with_constants
from weft.planning.time_order import exclude_each_other
from weft.planning.words import appears, condition_words, instant_words, named, turned

WIDTH: Final = 110
"""A line has at most this number of characters.  ``cut`` shortens longer lines."""
_CLAUSES: Final = 3


@dataclass(frozen=True)
class CauseSummary:
    """The causes of a query's answers.

    - ``when``: the causes of answers, as clauses that the text joins by "or".
    - ``holding``: the conditions that hold at the instant of an answer, as clauses.
    - ``time``: the instants at which time alone makes answers appear.  If ``time`` is empty, time alone makes answers
      appear only when rows of ``results`` appear.
    - ``arriving``: true if an arriving row can cause an answer.
    - ``beginning``: true if a row that begins in a tracked table can cause an answer.
    - ``ending``: true if a row that ends can cause an answer.
    - ``bounded_by``: the table of each SELECT, or None if a SELECT reads several tables.  Each row of the table causes
      at most one answer of the SELECT.
    - ``tables``: all tables that the query reads.
    - ``tracked``: the tables with recorded history.
    - ``results``: the tables of other queries' answers.
    """

    when: tuple[str, ...]
    holding: tuple[str, ...]
    time: tuple[str, ...]
    arriving: bool
    beginning: bool
    ending: bool
    bounded_by: tuple[str, ...] | None
    tables: tuple[str, ...]
    tracked: tuple[str, ...]
    results: tuple[str, ...]

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines with the causes of answers.  The last line says whether time alone is a cause."""
        return (*_when(self.when), *_holding(self.holding), *([self._time] if self.when else []))

    @property
    def _time(self) -> str:
        happening = self.arriving or self.beginning or self.ending
        if self.time and not happening:
            return "Time alone makes answers appear: nothing has to arrive at that instant."
        if self.time:
            return cut(f"Time alone makes answers appear, too: {' or '.join(self.time)}")
        if happening:
            verbs = {"arrive": self.arriving, "begin": self.beginning, "end": self.ending}
            needed = " or ".join(verb for verb, may in verbs.items() if may)
            unless = f", unless it makes rows of {' or '.join(self.results)} appear" if self.results else ""
            return cut(f"Time alone makes no answer appear{unless}: rows must {needed}.")
        return "Time alone makes no answer appear later."


def summary(plan: Plan) -> CauseSummary:
    """Return the summary of a plan with its constants."""
    branches = (with_constants(event, plan.values) for event in plan.branches)
    events = [event for event in branches if not exclude_each_other(conjuncts(condition(event.block)))]
    kinds = {event.driver.kind for event in events}
    new = {appears(event.driver.scan) for event in events if event.driver.kind == "arrival" and event.driver.scan}
    timely = [event for event in events if _by_time(event)]
    alone = [event for event in timely if not _as_rows_arrive(event)]
    parts = blocks(plan.query)
    return CauseSummary(
        when=_clauses(events),
        holding=(
            *_demanded(parts, events),
            *(("it was no answer just before",) if plan.from_now and events else ()),
        ),
        time=tuple(dict.fromkeys(map(_turning, alone))),
        arriving="arrives" in new or len(alone) < len(timely),
        beginning="begins" in new,
        ending="departure" in kinds,
        bounded_by=_bound(parts),
        tables=tuple(table.name for table in plan.tables),
        tracked=tuple(table.name for table in plan.tables if not table.append_only),
        results=tuple(table.name for table in plan.tables if table.source == "results"),
    )


def cut(line: str) -> str:
    """Normalize the white space of a line, and shorten the line to ``WIDTH`` characters."""
    indent = line[: len(line) - len(line.lstrip())]
    line = indent + " ".join(line.split())
    return line if len(line) <= WIDTH else line[: WIDTH - 2].rstrip() + " …"


def first(lines: Sequence[str], most: int, others: str) -> list[str]:
    """Return at most ``most`` lines.

    If lines are omitted, the last line is ``others`` with the number of omitted lines.

    >>> first("abcd", 3, "and {} more"), first("abc", 3, "and {} more")
    (['a', 'b', 'and 2 more'], ['a', 'b', 'c'])
    """
    return list(lines) if len(lines) <= most else [*lines[: most - 1], others.format(len(lines) - most + 1)]


def _by_time(event: Event) -> bool:
    return event.driver.kind in ("now_from", "now_before")


def _as_rows_arrive(event: Event) -> bool:
    """Return whether the event can occur only at the arrival of a row."""
    before = (Plain(call("<", scan.start, event.instant)) for scan in sources(event.block) if isinstance(scan, Scan))
    return exclude_each_other((*conjuncts(condition(event.block)), *before))


def _turning(event: Event) -> str:
    clause, exact = turned(event.driver.instant)
    return clause or exact


def _clauses(events: Sequence[Event]) -> tuple[str, ...]:
    """One clause names all tables whose new rows cause answers."""
    clauses = []
    for verb in ("arrives", "begins"):
        scans = (event.driver.scan for event in events if _just_arrives(event))
        tables = dict.fromkeys(named(scan) for scan in scans if scan is not None and appears(scan) == verb)
        clauses += [f"a row of {' or '.join(tables)} {verb}"] if tables else []
    for event in events:
        if not _just_arrives(event):
            clauses.append(_clause(event))
    return tuple(dict.fromkeys(clauses))


def _just_arrives(event: Event) -> bool:
    return event.driver.kind == "arrival" and "NOT EXISTS" not in event.driver.inside


def _clause(event: Event) -> str:
    driver = event.driver
    if driver.kind == "beginning":
        return "time begins, with the first tick: constant rows hold from then on"
    freed = ", and no row blocks it any more" if "NOT EXISTS" in driver.inside else ""
    if driver.scan is None:
        return f"{_turning(event)}{freed}"
    return f"a row of {named(driver.scan)} {'ends' if driver.kind == 'departure' else appears(driver.scan)}{freed}"


def _demanded(parts: Sequence[Query], events: Sequence[Event]) -> tuple[str, ...]:
    """The first clause combines the conditions that do not depend on time."""
    if not events:
        return ()
    if len(parts) != 1:
        demanding = any(condition(part.input) != TRUE for part in parts)
        return ("the conditions of one of its SELECTs hold",) if demanding else ()
    items = conjuncts(merged_predicate(condition(parts[0].input)))
    if len(events) == 1 and events[0].driver.kind == "now_from" and not events[0].driver.inside:
        items = tuple(each for each in items if not _is_driver(each, events[0]))
    plain = tuple(each for each in items if isinstance(each, Plain))
    others = [each for each in items if not isinstance(each, Plain) and each != TRUE]
    predicates: list[Predicate] = [And(plain)] if plain else []
    return tuple(condition_words(each) for each in (*predicates, *others))


def _is_driver(item: Predicate, event: Event) -> bool:
    return isinstance(item, NowFrom) and instant_words(item.threshold) == instant_words(event.driver.instant)


def _bound(parts: Sequence[Query]) -> tuple[str, ...] | None:
    tables = []
    for part in parts:
        read = sources(part.input)
        if len(read) != 1 or not isinstance(read[0], Scan):
            return None
        tables.append(read[0].table.name)
    return tuple(tables)


def _when(clauses: Sequence[str]) -> list[str]:
    if not clauses:
        return ["No answer can ever appear."]
    if len(clauses) == 1:
        return [cut(f"An answer appears when {clauses[0]}")]
    shown = _joined(first(clauses, _CLAUSES, "one of {} other things happens"), ", or")
    return ["An answer appears when", *(cut(f"  {each}") for each in shown)]


def _holding(clauses: Sequence[str]) -> list[str]:
    if not clauses:
        return []
    head, *rest = _joined(first(clauses, _CLAUSES, "{} other conditions hold"), ", and")
    return [cut(f"if at that instant {head}"), *(cut(f"  {each}") for each in rest)]


def _joined(clauses: Iterable[str], word: str) -> list[str]:
    *before, last = clauses
    return [*(f"{each}{word}" for each in before), last]
