"""Describe tables, states, instants and conditions in words, with the names from the query's text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from typing import Literal as OneOf

from weft.algebra.calendar import DAY, multiple_of, near
from weft.algebra.event import Event
from weft.algebra.relation import (
    And,
    Distinct,
    Exists,
    Grouped,
    Measure,
    NotExists,
    NowBefore,
    NowFrom,
    Or,
    Plain,
    Predicate,
    Project,
    Recursive,
    Relation,
    Scan,
    Source,
    StateSchema,
    Turns,
    Union,
    Windowed,
    WindowFunction,
    attributes,
    condition,
    conjuncts,
    sources,
)
from weft.algebra.scalar import (
    MICROSECONDS,
    OF_MICROSECONDS,
    Call,
    Case,
    Cast,
    ColumnRef,
    Element,
    Literal,
    Scalar,
    columns,
    shifted,
)
from weft.algebra.schema import DATE, NULL, remembered
from weft.algebra.traverse import Node, rename, scans, substitute, transform, walk
from weft.derivation.stateful import SHARED, compared_columns, written
from weft.sql.lower.now_in_aggregates import cases_of
from weft.sql.lower.outer import missing
from weft.sql.lower.scope import as_written, is_unnamed
from weft.sql.rendering import render

_UNITS: Final = (
    (604_800_000_000, "week"),
    (86_400_000_000, "day"),
    (3_600_000_000, "hour"),
    (60_000_000, "minute"),
    (1_000_000, "second"),
    (1_000, "millisecond"),
    (1, "microsecond"),
)
_SPELLED: Final = re.compile(
    r"CAST\('(-?[\d.]+)' AS (?:DECIMAL\(\d+, ?\d+\)|DOUBLE)\)"
    r"|TIMESTAMP '([-\d]+ [\d:]+(?:\.\d+)?)\+00:00'"
    r"|INTERVAL '(-?\d+)' MONTH"
    r"|'(?:[^'\\]|\\.)*'"
    r"|``\.(?:(\w+)|`((?:[^`]|``)*)`)"
    r"|`(\w+)`",
    re.DOTALL,
)
"""The parts of rendered SQL that texts for users spell differently: numbers, instants, months, columns, names.

The pattern also matches strings, which remain unchanged.
"""

_MOST_VALUES: Final = 3
SAID: Final = ""
"""A column with this range variable stands for an expression.  Its name is the text of the expression."""
JUST_AFTER: Final = "just after "
"""With this prefix, the text of an instant denotes the next microsecond."""
LONGEST_INSTANT: Final = 60
"""The maximal length of the text of an instant of the calendar.  Words replace a longer text."""
_COMPARED: Final = frozenset(("+", "-", "=", "<>", "<", "<=", ">", ">=", "<=>", "and", "or", "not", "is null"))
"""The operators in a CASE that chooses an instant, unless it is one of the calendar."""


def length(micros: int, *, weeks: bool = True) -> str:
    """Return a length of time in words, in the largest unit that divides the length.

    >>> length(28 * 86_400_000_000), length(28 * 86_400_000_000, weeks=False), length(5_400_000_000)
    ('4 weeks', '28 days', '90 minutes')
    """
    for size, unit in _UNITS if weeks else _UNITS[1:]:
        if micros % size == 0:
            count = micros // size
            return f"{count:,} {unit}" + ("" if abs(count) == 1 else "s")
    return f"{micros} microseconds"


def spoken(event: Event, known: Mapping[ColumnRef, Scalar]) -> Event:
    """Return the event with its instant and its conditions in the names of the query's text (``meanings``)."""
    spoken_driver = replace(event.driver, instant=substitute(event.driver.instant, known))
    return replace(event.with_block(substitute(event.block, known)), driver=spoken_driver)


def named(scan: Scan) -> str:
    """Return the name of a table, followed by its alias if the alias differs.  A state has the text of its operator."""
    if isinstance(scan.table, StateSchema):
        return state_words(scan.table)
    table, alias = scan.table.name, as_written(scan.alias)
    return table if alias.lower() == table.lower() else f"{table} (as {alias})"


_UNWRITTEN: Final = ("answer", "sub")
"""Unnamed relations.  The text names their columns by the tables below them."""
_UNNAMED: Final = ("derived",)
"""Unnamed relations.  The text names their columns without a table."""


@remembered
def state_words(state: StateSchema, *, keys: bool = True) -> str:
    """Return a noun for the rows of a state, such as ``groups of msgs (GROUP BY msgs.newsgroup)``.

    With ``keys=False``, the noun has no GROUP BY or PARTITION BY.
    """
    operator = written(state)
    of = _over(operator) if keys else _tables(operator)
    match operator:
        case Grouped(groups=()):
            return f"aggregates over {of}"
        case Grouped():
            return f"groups of {of}"
        case Windowed():
            return f"{several(calculated(operator), 'and')} over {of}"
        case Distinct():
            return f"distinct rows of {of}"
        case Project() if compared_columns(condition(operator.input)):
            return f"the rows of {of} with their subqueries"
        case Project():
            return f"the join of {of}"
        case Recursive(name=name):
            return f"the recursion {name} over {of}"
        case _:
            return f"the union over {of}"


def _over(operator: Relation) -> str:
    """Return the tables that an operator reads, with its groups or its partition in parentheses."""
    head, keys = "GROUP BY", list[Scalar]()
    if isinstance(operator, Grouped):
        keys = [output.value for output in operator.groups if not output.name.startswith(SHARED)]
        keys = [key for key in keys if not isinstance(key, Literal)]
    elif isinstance(operator, Windowed):
        shared = sum(output.name.startswith(SHARED) for output in operator.outputs)
        head, keys = "PARTITION BY", list(operator.partition[: len(operator.partition) - shared])
    known, of = meanings(operator), _tables(operator)
    inner = operator.input if isinstance(operator, Windowed) else None
    if isinstance(inner, Project) and is_unnamed(inner.alias, _UNWRITTEN):
        values = dict(zip(attributes(inner), _values(inner), strict=True))
        keys = [substitute(key, values) for key in keys]
    texts = ", ".join(scalar_words(substitute(key, known)) for key in keys)
    if not texts:
        return of
    if of.endswith(")") and of.count("(") == 1:
        return f"{of[:-1]}, {head} {texts})"
    return f"{of} ({head} {texts})"


def calculated(operator: Relation) -> tuple[str, ...]:
    """Return the texts of the aggregates or window functions of an operator, each once."""
    known = meanings(operator)
    texts: list[str] = []
    if isinstance(operator, Grouped):
        texts = [_measure(each, known) for each in operator.measures]
    elif isinstance(operator, Windowed):
        texts = [_windowed(each, known) for each in operator.functions]
    return tuple(dict.fromkeys(texts))


def several(values: Sequence[str], word: str) -> str:
    """Join at most three texts by ``word``, and count the others.

    >>> several(["a", "b"], "or"), several(["a", "b", "c", "d"], "and")
    ('a or b', 'a and b and 2 others')
    """
    shown = list(values) if len(values) <= _MOST_VALUES else [*values[:2], f"{len(values) - 2} others"]
    return f" {word} ".join(shown)


def _measure(measure: Measure, known: Mapping[ColumnRef, Scalar]) -> str:
    return render.measure_text(measure, lambda part: scalar_words(substitute(part, known)))


def _windowed(function: WindowFunction, known: Mapping[ColumnRef, Scalar]) -> str:
    return _called(function.function, function.args, known, "*" if function.function == "count" else "")


def _called(function: str, args: Sequence[Scalar], known: Mapping[ColumnRef, Scalar], none: str = "") -> str:
    listed = ", ".join(scalar_words(substitute(arg, known)) for arg in args) or none
    return f"{function.upper()}({listed})"


@remembered
def _tables(operator: Relation) -> str:
    """Return the tables that an operator reads.  Tables inside other states are included."""
    texts: dict[Scan | tuple[StateSchema, tuple[str, ...]], str] = {}
    for scan in scans(operator):
        table = scan.table
        key = (table, table.names) if isinstance(table, StateSchema) else scan
        if key not in texts:
            texts[key] = _tables(written(table)) if isinstance(table, StateSchema) else named(scan)
    return " and ".join(dict.fromkeys(texts.values()))


@remembered
def meanings(node: Node) -> Mapping[ColumnRef, Scalar]:
    """Return what the columns of the states in a query or relation mean, in the names of the query's text.

    A column that a derived table shows means the column of the derived table.  Other columns mean an aggregate, a
    function, or an expression over the columns of the state's input.  A column of an outer join means the column of
    one side.  A column of rows that are split by NOW means the expression that was split.
    """
    known: dict[ColumnRef, Scalar] = {}
    columns: dict[tuple[StateSchema, tuple[str, ...]], Sequence[str]] = {}
    for part in walk(node):
        if isinstance(part, Union) and (pairs := outer_join_pairs(part)) is not None:
            known |= {ref: output.value for ref, output in zip(attributes(part), pairs.outputs, strict=True)}
        elif isinstance(part, Union) and (parts := cases_of(part)):
            known |= _chosen(part, parts)
    for scan in scans(node):
        if isinstance(scan.table, StateSchema):
            refs, key = attributes(scan), (scan.table, scan.table.names)
            if key not in columns:
                columns[key] = _columns(scan.table)
            texts = (ColumnRef(SAID, text, ref.type) for text, ref in zip(columns[key], refs, strict=False))
            known |= {ref: text for ref, text in zip(refs, texts, strict=False) if text.column}
    known = {ref: substitute(value, known) for ref, value in known.items()}
    for part in walk(node):
        if isinstance(part, Project):
            shown = [(ref, output.value) for ref, output in zip(attributes(part), part.outputs, strict=True)]
            if is_unnamed(part.alias, _UNWRITTEN):
                known |= {ref: substitute(value, known) for ref, value in shown}
                continue
            if is_unnamed(part.alias, _UNNAMED):
                said = [ColumnRef(SAID, ref.column, ref.type) for ref, _ in shown]
                known |= {ref: text for (ref, _), text in zip(shown, said, strict=True)}
                shown = [(text, value) for text, (_, value) in zip(said, shown, strict=True)]
            known |= {value: ref for ref, value in shown if value in known and not _is_copy(ref, value)}
    return known


def _chosen(union: Union, parts: Sequence[Project]) -> Mapping[ColumnRef, Scalar]:
    """Return what the columns of rows mean that are split by NOW."""
    conditions = [dict.fromkeys(map(condition_words, conjuncts(condition(part.input)))) for part in parts]
    known: dict[ColumnRef, Scalar] = {}
    for ref, *values in zip(attributes(union), *(part.outputs for part in parts), strict=True):
        by_text: dict[str, list[dict[str, None]]] = {}
        for output, demanded in zip(values, conditions, strict=True):
            by_text.setdefault(scalar_words(output.value), []).append(demanded)
        if len(by_text) == 1:
            known[ref] = values[0].value
        else:
            whens = [f"WHEN {_shared(cases, conditions)} THEN {text}" for text, cases in by_text.items()]
            shown = [when for when in whens if not when.endswith(f"THEN {scalar_words(missing(ref))}")]
            known[ref] = ColumnRef(SAID, f"CASE {' '.join(shown)} END", ref.type)
    return known


def _shared(cases: Sequence[Mapping[str, None]], others: Sequence[Mapping[str, None]]) -> str:
    """Return the conditions that all ``cases`` have, without those that all ``others`` have, too."""
    texts = [text for text in cases[0] if all(text in each for each in cases)]
    return " and ".join(text for text in texts if not all(text in each for each in others))


def outer_join_pairs(union: Union) -> Project | None:
    """Return the pairs of an outer join, or None if the union is not an outer join.

    The other rows have the same columns of copies of one side, and NULLs for the columns of the other side.
    """
    pairs, *others = union.inputs
    if not isinstance(pairs, Project):
        return None
    for part in others:
        copied = isinstance(part, Project) and (is_padded(part) or all(map(_is_copy, *map(_values, (pairs, part)))))
        if not copied:
            return None
    return pairs


def is_padded(part: Project) -> bool:
    """Return whether the rows have the NULLs that an outer join has in place of columns."""
    nothing = Literal(None, NULL, fixed=True)
    return any(isinstance(output.value, Cast) and output.value.arg == nothing for output in part.outputs)


def _values(part: Project) -> list[Scalar]:
    return [output.value for output in part.outputs]


def _is_copy(one: Scalar, other: Scalar) -> bool:
    if not isinstance(one, ColumnRef) or not isinstance(other, ColumnRef):
        return False
    return one.column == other.column and as_written(one.scan) == as_written(other.scan)


@remembered
def _columns(state: StateSchema) -> Sequence[str]:
    """Return the texts of the state's columns.  A text is empty if the column has the name of the query's text."""
    operator = written(state)
    known = meanings(operator)
    match operator:
        case Grouped(groups=groups, measures=measures):
            keys = [scalar_words(substitute(output.value, known)) for output in groups]
            return [*keys, *(_measure(each, known) for each in measures)]
        case Windowed(outputs=outputs, functions=functions):
            own = [scalar_words(substitute(output.value, known)) for output in outputs]
            return [*own, *(_windowed(each, known) for each in functions)]
        case Distinct(input=inner):
            return [scalar_words(substitute(ref, known)) for ref in attributes(inner)]
        case Project(outputs=outputs):
            return [scalar_words(substitute(output.value, known)) for output in outputs]
        case _:
            return []


def begins(scan: Scan, row: str = "a row") -> str:
    """Return the clause for a new row of a table or of a state."""
    if not isinstance(scan.table, StateSchema):
        return f"{row} of {named(scan)} {appears(scan)}"
    return _changing(scan.table, ("takes a new value", "gets its first row", "gets a new", "appears"))


def _changing(state: StateSchema, verbs: tuple[str, str, str, str]) -> str:
    """``verbs`` are those of an aggregate, a group without aggregates, a row with a function, and another row."""
    operator = written(state)
    of, values = _over(operator), several(calculated(operator), "or")
    match operator:
        case Grouped(measures=()):
            return f"a group of {of} {verbs[1]}"
        case Grouped(groups=()):
            return f"{values} over {of} {verbs[0]}"
        case Grouped():
            return f"{values} of a group of {of} {verbs[0]}"
        case Windowed():
            return f"a row of {of} {verbs[2]} {values}"
        case _:
            return f"a row of {state_words(state)} {verbs[3]}"


def ceases(scan: Scan) -> str:
    """Return the clause for the end of a row of a table or of a state."""
    if not isinstance(scan.table, StateSchema):
        return f"a row of {named(scan)} ends"
    return _changing(scan.table, ("loses a value", "loses its last row", "loses its", "ends"))


def appears(scan: Scan) -> str:
    """Return the verb for a new row of a table: "arrives" in an append-only table, otherwise "begins"."""
    return "arrives" if scan.table.append_only else "begins"


def turned(instant: Scalar) -> tuple[str | None, str]:
    """Return two clauses that say that NOW reaches an instant.

    The first clause is relative to a column, or None if the instant is not near a column.  The second clause is exact.
    """
    parts = shifted(instant)
    exact = instant_words(instant)
    if isinstance(_column(parts.base), ColumnRef) and not parts.intervals:
        name = instant_words(parts.base)
        if parts.micros == 1:
            return None, f"NOW passes {name}"
        if parts.micros % 1_000 == 1:  # NOW > c is NOW >= c + 1 µs
            distance = parts.micros - 1
            passes = f"NOW passes {name} {_signed(distance)}"
            if distance > 0:
                return f"more than {_many(distance, 'have')} passed since {name}", passes
            return f"less than {_many(-distance, 'are')} left until {name}", passes
        if parts.micros > 0:
            counted, have = _many(parts.micros, "have").rsplit(" ", 1)
            return f"{counted} after {name} {have} passed", f"NOW reaches {exact}"
        if parts.micros < 0:
            return f"it is {length(-parts.micros)} before {name}", f"NOW reaches {exact}"
    return None, f"NOW passes {exact.removeprefix(JUST_AFTER)}" if exact.startswith(
        JUST_AFTER
    ) else f"NOW reaches {exact}"


def _many(micros: int, verb: OneOf["have", "are"]) -> str:
    """Return a length of time in words, followed by the verb in the singular or plural.

    >>> _many(7 * 86_400_000_000, "have"), _many(2 * 3_600_000_000, "are")
    ('1 week has', '2 hours are')
    """
    counted = length(micros)
    one = {"have": "has", "are": "is"}
    return f"{counted} {one[verb] if counted.startswith('1 ') else verb}"


def instant_words(instant: Scalar) -> str:
    """Return an instant in words, such as ``m.ts + 28 days``."""
    parts = shifted(instant)
    text, micros = scalar_words(_column(parts.base)), parts.micros
    just = ""
    if micros % 1_000 == 1:  # NOW > c is NOW >= c + 1 µs
        just, micros = JUST_AFTER, micros - 1
    if micros:
        text += f" {_signed(micros)}"
    for interval, count in parts.intervals:
        words = scalar_words(interval)
        compound = isinstance(interval, Call) and interval.name in "+-"
        text += f" {'+' if count > 0 else '-'} {f'({words})' if compound else words}" * abs(count)
    return (_of_calendar(instant) if len(text) > LONGEST_INSTANT else None) or just + text


def _of_calendar(instant: Scalar) -> str | None:
    """Return in words where an instant of the calendar is, or None for another instant.

    >>> from weft.algebra.calendar import elapsed
    >>> from weft.algebra.schema import TIMESTAMP
    >>> ts = ColumnRef("m", "ts", TIMESTAMP)
    >>> _of_calendar(Call("+", (ts, elapsed("MONTH", ts)), TIMESTAMP))
    'an instant of the calendar near m.ts'
    """
    parts = shifted(instant)
    if isinstance(parts.base, Case) and parts.base.default is not None:
        moved, slack = near(parts.base.branches[0][1])  # the usual instant
        moved = replace(moved, micros=moved.micros + parts.micros, intervals=(*moved.intervals, *parts.intervals))
    else:
        moved, slack = near(instant)
    if not slack or moved.intervals or not isinstance(moved.base, ColumnRef):
        return None
    days, name = round(moved.micros / DAY), scalar_words(moved.base)
    of_text = all(part.name in _COMPARED for part in walk(instant) if isinstance(part, Call))
    which = "an instant that CASE chooses," if of_text else "an instant of the calendar"
    if not days:
        return f"{which} near {name}"
    distance = f"{length(abs(days) * DAY, weeks=False)} {'after' if days > 0 else 'before'} {name}"
    return f"{which} about {distance}"


def _column(base: Scalar) -> Scalar:
    return base.arg if isinstance(base, Cast) and base.arg.type == DATE else base


def scalar_words(scalar: Scalar) -> str:
    """Return the SQL of an expression with the names from the query's text, without needless quotes and casts.

    >>> from decimal import Decimal
    >>> from weft.algebra.scalar import Literal, call
    >>> from weft.algebra.schema import STRING, DataType
    >>> u = ColumnRef("u_2", "name", STRING)
    >>> scalar_words(call("=", u, Literal("`a`", STRING)))
    "u.name = '`a`'"
    >>> scalar_words(call("<", u, Literal(Decimal("1.50"), DataType("DECIMAL", 38, 18))))
    'u.name < 1.50'
    """
    named_as = {ref.scan: as_written(ref.scan) for ref in columns(scalar)}
    text = render.scalar(rename(transform(scalar, _without_reading), named_as))
    return _SPELLED.sub(_plainly, text)


def _without_reading(part: Any) -> Any:
    match part:
        case Call(name="from_json", args=(ColumnRef() as ref, _)) if ref.type.shape is not None:
            return ref
        case Call(name=name, args=(value,)) if name in (MICROSECONDS, OF_MICROSECONDS, render.ROUNDED):
            return value
        case Element(name=name):
            return replace(part, name=f"x{name.rpartition('_')[2]}")
        case Call(name="timestamp_micros") if (window := window_words(part)) is not None:
            return ColumnRef(SAID, f"{window}.start", part.type)
        case Call(name="-", args=(ColumnRef(scan="", column=text), Call(name="*", args=(Literal(), ColumnRef())))):
            return ColumnRef(SAID, text.replace(", '", ", …, '"), part.type)  # a window with a slide
        case _:
            return part


def window_words(start: Scalar) -> str | None:
    """Return the call of WINDOW with this start, or None for another expression."""
    found = multiple_of(start)
    if found is None:
        return None
    return f"WINDOW({scalar_words(found[0])}, '{length(found[1], weeks=False)}')"


def _plainly(match: re.Match[str]) -> str:
    number, instant, months, said, quoted, name = match.groups()
    if months is not None:
        count, unit = (int(months) // 12, "YEAR") if int(months) % 12 == 0 else (int(months), "MONTH")
        return f"INTERVAL {count} {unit}" + ("" if abs(count) == 1 else "S")
    if said or quoted:
        return said or quoted.replace("``", "`")
    if instant is not None:
        return f"{instant.removesuffix('.000000')} UTC"
    return number or name or match[0]


def _signed(micros: int) -> str:
    return f"{'+' if micros > 0 else '-'} {length(abs(micros), weeks=False)}"


def condition_words(predicate: Predicate) -> str:
    """Return the text of a condition as a clause.

    >>> from shown import M, R, TIED
    >>> from weft.algebra.relation import Select, conjunction
    >>> condition_words(conjunction(NowFrom(M.ref("due")), NotExists(Select(R, TIED))))
    'NOW() >= m.due and there is no row of replies (as r) with r.inreplyto = m.msgid'
    """
    match predicate:
        case Plain(condition=Call(name="or") as scalar):
            return f"({scalar_words(scalar)})"
        case Plain(condition=scalar):
            return scalar_words(scalar)
        case NowFrom(threshold=threshold):
            return _compared(threshold, ">", ">=")
        case NowBefore(threshold=threshold):
            return _compared(threshold, "<=", "<")
        case Turns(comparison=scalar):
            return comparison_words(scalar)
        case And(items=items):
            return " and ".join(map(condition_words, items))
        case Or(items=items):
            parts = (f"({condition_words(each)})" if isinstance(each, And) else condition_words(each) for each in items)
            return f"({' or '.join(parts)})"
        case Exists(body=body):
            return _rows(body, "there is a row of", "there are rows of")
        case NotExists(body=body):
            return _rows(body, "there is no row of", "there are no rows of")


def comparison_words(comparison: Scalar) -> str:
    """Return the text of a comparison without parentheses around its sides."""
    if not isinstance(comparison, Call):
        return scalar_words(comparison)
    return f" {comparison.name} ".join(map(scalar_words, comparison.args))


def _compared(threshold: Scalar, after: str, at: str) -> str:
    """Return the text that compares NOW() with a threshold.

    A threshold one microsecond after an instant stands for "later than that instant".  The text then has the operator
    ``after`` and the instant.  Otherwise the text has the operator ``at`` and the threshold itself.
    """
    words = instant_words(threshold)
    if shifted(threshold).micros % 1_000 == 1:
        return f"NOW() {after} {words.removeprefix(JUST_AFTER)}"
    return f"NOW() {at} {words}"


def _rows(body: Relation, one: str, several: str) -> str:
    read, demanded = sources(body), conjuncts(condition(body))
    if len(read) == 1 and isinstance(read[0], Scan) and isinstance(read[0].table, StateSchema):
        one = f"{one.removesuffix(' row of')} row among the"
    clause = f"{one if len(read) == 1 else several} {' and '.join(map(_source, read))}"
    nested = [each for each in demanded if isinstance(each, (Exists, NotExists))]
    own = [condition_words(each) for each in demanded if each not in nested]
    clause += f" with {' and '.join(own)}" if own else ""
    return clause + "".join(f"{' and' if n else ''} for which {condition_words(each)}" for n, each in enumerate(nested))


def _source(source: Source) -> str:
    match source:
        case Scan():
            return named(source)
        case Distinct(input=inner):
            return " and ".join(map(_source, sources(inner)))
        case _:
            return as_written(source.alias)
