"""Summarize a query before it is installed, in at most a dozen lines with the names from the query's text.

The drivers of the branches are the causes of answers.  The conditions of the query hold at the instant of an answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from weft.algebra.event import DriverKind, Event
from weft.algebra.relation import (
    TRUE,
    And,
    Grouped,
    NowFrom,
    Plain,
    Predicate,
    Query,
    Scan,
    StateSchema,
    Windowed,
    condition,
    conjuncts,
    sources,
)
from weft.algebra.scalar import ColumnRef, Scalar, call, columns
from weft.algebra.traverse import substitute
from weft.derivation.merge import blocks, mergeable_blocks, merged_predicate
from weft.derivation.order import exclude_each_other
from weft.derivation.stateful import written
from weft.planning.event_words import turning_comparisons
from weft.planning.plan import Plan, with_constants
from weft.planning.state_causes import all_states, base_events, causes, input_words, possible
from weft.planning.state_sql import inputs
from weft.planning.words import (
    appears,
    begins,
    calculated,
    ceases,
    condition_words,
    instant_words,
    meanings,
    named,
    several,
    spoken,
    turned,
)

WIDTH: Final = 110
"""A line has at most this number of characters.  ``cut`` shortens longer lines."""
_MOST_ALTERNATIVES: Final = 2
"""The conditions of at most this number of alternatives, such as the SELECTs of a UNION, are shown."""
_CLAUSES: Final = 3


@dataclass(frozen=True)
class CauseSummary:
    """The causes of a query's answers.

    - ``when``: the causes of answers, as clauses that the text joins by "or".
    - ``holding``: the conditions that hold at the instant of an answer, as clauses.
    - ``inside``: what changes the groups or partitions of aggregates and window functions, as sentences.
    - ``time``: the instants at which time alone makes answers appear.  If ``time`` is empty, time alone makes answers
      appear only when rows of ``results`` appear.
    - ``arriving``: true if an arriving row can cause an answer.
    - ``beginning``: true if a row that begins in a tracked table can cause an answer.
    - ``ending``: true if a row that ends can cause an answer.
    - ``bounded_by``: the table of each SELECT, or None if a SELECT reads several tables.  Each row of the table causes
      at most one answer of the SELECT.  A table whose rows change an aggregate several times occurs several times.
    - ``at_first``: the number of answers that are there when time begins, without any row.
    - ``tables``: all tables that the query reads.
    - ``tracked``: the tables with recorded history.
    - ``results``: the tables of other queries' answers.
    """

    when: tuple[str, ...]
    holding: tuple[str, ...]
    inside: tuple[str, ...]
    time: tuple[str, ...]
    arriving: bool
    beginning: bool
    ending: bool
    bounded_by: tuple[str, ...] | None
    tables: tuple[str, ...]
    tracked: tuple[str, ...]
    results: tuple[str, ...]
    at_first: int = 0

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines with the causes of answers.  The last line says whether time alone is a cause."""
        inside = first(self.inside, _CLAUSES, "{} other parts of the query change") if self.when else []
        time = [self._time] if self.when else []
        return (*_when(self.when), *_holding(self.holding), *map(cut, inside), *time)

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
    parts, known = blocks(plan.evaluated), meanings(plan.evaluated)
    events = [spoken(event, known) for event in possible(with_constants(each, plan.values) for each in plan.branches)]
    read = all_states(plan.evaluated)
    basic = list(base_events(events, read))
    kinds = {event.driver.kind for event in basic}
    new = {appears(event.driver.scan) for event in basic if event.driver.kind == "arrival" and event.driver.scan}
    timely = [event for event in basic if _by_time(event)]
    alone = [event for event in timely if not _as_rows_arrive(event)]
    return CauseSummary(
        when=_clauses(events),
        holding=(
            *_demanded(parts, events, known),
            *(("it was no answer just before",) if plan.from_now and events else ()),
        ),
        inside=_inside(read),
        time=tuple(dict.fromkeys(map(_turning, alone))),
        arriving="arrives" in new or len(alone) < len(timely),
        beginning="begins" in new,
        ending="departure" in kinds,
        bounded_by=_bound(parts),
        at_first=sum(map(_at_first, parts)),
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
    comparisons = turning_comparisons(event)
    if comparisons:
        return f"{' or '.join(comparisons)} becomes true or false"
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
    scan = event.driver.scan
    of_state = scan is not None and isinstance(scan.table, StateSchema)
    return event.driver.kind == "arrival" and "NOT EXISTS" not in event.driver.inside and not of_state


def _clause(event: Event) -> str:
    driver = event.driver
    if driver.kind == "beginning":
        return "time begins, with the first tick: constant rows hold from then on"
    freed = ", and no matching row is left" if "NOT EXISTS" in driver.inside else ""
    if driver.scan is None:
        return f"{_turning(event)}{freed}"
    return f"{ceases(driver.scan) if driver.kind == 'departure' else begins(driver.scan)}{freed}"


def _inside(read: Sequence[StateSchema]) -> tuple[str, ...]:
    """Return what each state depends on, as sentences: the condition on its input, and what changes it."""
    sentences = []
    for state in read:
        events = causes(state)
        when = _clauses([replace(each, driver=replace(each.driver, kind=_begun(each), inside=())) for each in events])
        values = calculated(written(state))
        sentences += [sentence for sentence in (input_words(state),) if sentence]
        if when:
            subject = f"{several(values, 'and')} {'change' if len(values) > 1 else 'changes'}"
            others = "groups change" if isinstance(state.operator, Grouped) else "its rows change"
            sentences.append(f"{subject if values else others} when {', or '.join(when)}")
    return tuple(dict.fromkeys(sentences))


def _begun(event: Event) -> DriverKind:
    """Inside a state, the end of another state's row comes with the begin of the next row."""
    scan = event.driver.scan
    return "arrival" if scan is not None and isinstance(scan.table, StateSchema) else event.driver.kind


def _demanded(parts: Sequence[Query], events: Sequence[Event], known: Mapping[ColumnRef, Scalar]) -> tuple[str, ...]:
    """The first clause combines the conditions that do not depend on time.

    The two SELECTs of a LEFT JOIN are the pairs, and the rows without a partner.
    """
    if not events:
        return ()
    if len(parts) != 1:
        demanded = [merged_predicate(condition(part.input)) for part in parts]
        if len(parts) > _MOST_ALTERNATIVES or TRUE in demanded:
            return (f"one of {len(parts)} alternatives holds",) if any(each != TRUE for each in demanded) else ()
        alternatives = dict.fromkeys(condition_words(substitute(each, known)) for each in demanded)
        return (", or ".join(alternatives),)
    items = tuple(substitute(each, known) for each in conjuncts(merged_predicate(condition(parts[0].input))))
    if len(events) == 1 and events[0].driver.kind == "now_from" and not events[0].driver.inside:
        items = tuple(each for each in items if not _is_driver(each, events[0]))
    plain = tuple(each for each in items if isinstance(each, Plain))
    others = [each for each in items if not isinstance(each, Plain) and each != TRUE]
    predicates: list[Predicate] = [And(plain)] if plain else []
    return tuple(condition_words(each) for each in (*predicates, *others))


def _is_driver(item: Predicate, event: Event) -> bool:
    return isinstance(item, NowFrom) and instant_words(item.threshold) == instant_words(event.driver.instant)


def _bound(parts: Sequence[Query]) -> tuple[str, ...] | None:
    tables: list[str] = []
    for part in parts:
        read = sources(part.input)
        if len(read) != 1 or not isinstance(read[0], Scan):
            return None
        schema = read[0].table
        changing = _changing(schema, part) if isinstance(schema, StateSchema) else [schema.name]
        if not changing:
            return None
        tables += changing
    return tuple(tables)


def _changing(state: StateSchema, part: Query) -> list[str]:
    """Return the table of a state once for each answer of ``part`` that a row of the table causes.

    A row can change its group when it arrives, and at each instant at which time changes the group.  An answer without
    the value of a window function is a row of the table.  The list is empty if there is no such bound.
    """
    inner, _, _ = inputs(state.operator)
    read = [source for block in mergeable_blocks(inner, ()) for source in block.sources]
    if len(read) != 1 or not isinstance(read[0], Scan) or isinstance(read[0].table, StateSchema):
        return []
    name = read[0].table.name
    match state.operator:
        case Grouped():
            events = causes(state)
            if any(event.driver.inside for event in events):
                return []
            at_once = any(event.driver.scan is not None for event in events)
            return [name] * (at_once + sum(map(_by_time, events)))
        case Windowed(functions=functions):
            calculated_names = {each.output.column for each in functions}
            shown = {ref.column for output in part.outputs for ref in columns(output.value)}
            return [] if shown & calculated_names else [name]
        case _:
            return []


def _at_first(part: Query) -> int:
    """A global aggregate has a row from the beginning of time on."""
    read = sources(part.input)
    schema = read[0].table if len(read) == 1 and isinstance(read[0], Scan) else None
    return int(isinstance(schema, StateSchema) and isinstance(schema.operator, Grouped) and not schema.operator.groups)


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
