"""Return notes about the states of a query: what an answer is, and what a tick reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from weft.algebra.relation import Grouped, Query, Scan, StateSchema, Windowed, attributes, condition, sources
from weft.algebra.scalar import Call, ColumnRef, Literal, Scalar
from weft.algebra.schema import TIMESTAMP
from weft.algebra.traverse import mentioned, scans, substitute, thresholds
from weft.derivation.merge import blocks
from weft.derivation.stateful import written
from weft.planning.note import Note
from weft.planning.plan import Plan
from weft.planning.state_causes import all_states
from weft.planning.state_text import StateText
from weft.planning.words import condition_words, meanings, scalar_words, several

_LONGEST: Final = 140


def state_notes(plan: Plan, texts: Iterable[StateText]) -> Iterator[Note]:
    """Yield the notes about the states of a plan.  ``texts`` say how a tick computes the states."""
    texts = tuple(texts)
    yield from _whole(texts)
    for rows in dict.fromkeys(each.rows for each in texts if each.recursion == "continued"):
        text = f"a tick continues the stored rows of {rows}: it derives only rows that can change"
        yield Note("note", text, "a tick derives only rows of the recursion that can change")
    if values := _shown_values(plan):
        yield _values(plan, values)
    if any(map(_numbers, all_states(plan.evaluated))):
        text = (
            "ROW_NUMBER, LIMIT and frames of ROWS need a total order: rows that are equal in ORDER BY are ordered by "
            "their other columns. RANK and DENSE_RANK give such rows the same rank"
        )
        yield Note("note", text, "rows that are equal in ORDER BY are ordered by their other columns")


def _whole(texts: Iterable[StateText]) -> Iterator[Note]:
    noted: dict[tuple[str, ...], None] = {}
    for each in texts:
        if not each.reads_whole or each.reads_whole in noted:
            continue
        noted[each.reads_whole] = None
        tables = " and ".join(each.reads_whole)
        text = (
            f"each tick in which rows can change the {each.rows.removeprefix('the ')} reads all of {tables}, because "
            "neither a key nor a range of instants selects the rows that it needs. With GROUP BY or PARTITION BY a "
            "column, and with thresholds such as NOW() - INTERVAL 30 DAYS, a tick reads only what changes"
        )
        line = f"each tick that evaluates the query reads all of {tables}"
        why = "no key of its groups and no range of instants selects rows"
        if each.recursion is not None:
            why = "it derives all rows of the recursion again"
            if each.recursion == "continued":
                why = "no equality leads from rows of the recursion to them"
            text = f"each tick reads all of {tables}, because {why.replace('the recursion', each.rows)}"
        yield Note("warning", text, f"{line}: {why}")


def _shown_values(plan: Plan) -> list[str]:
    """Return the texts of the aggregates and window functions in the select list."""
    parts = blocks(plan.evaluated)
    shown = {ref for part in parts for output in part.outputs for ref in mentioned(output.value)}
    found: dict[str, None] = {}
    for scan in scans(plan.evaluated):
        if isinstance(scan.table, StateSchema) and (measured := _measured(scan, scan.table)):
            known = meanings(Query(scan, ()))
            found |= {scalar_words(known[ref]): None for ref in measured if ref in shown}
    return list(found)


def _measured(scan: Scan, state: StateSchema) -> tuple[ColumnRef, ...]:
    """Return the columns of aggregates or window functions."""
    match state.operator:
        case Grouped(groups=before) | Windowed(outputs=before):
            return attributes(scan)[len(before) : -2]
        case _:
            return ()


def _values(plan: Plan, values: Sequence[str]) -> Note:
    named = several(values, "and")
    text = (
        f"an answer is a row for each value that {named} had at some instant. Rows with one ts arrive together, so the "
        "values between them are no answers. Weft delivers a value once, also if it changes and returns"
    )
    line = f"each new value of {named} is an answer, once"
    line = line if len(line) <= _LONGEST else "each new value of an aggregate is an answer, once"
    once = _once(plan, values)
    shorter = []
    if once is not None:
        text += f". To receive a row only when a value is reached for the first time, leave the value out: {once}"
        shorter.append(f"{line}. For the first time only: {once}")
    final = _final(plan)
    if final is not None:
        text += f". For the final values of each window, add {final}"
        shorter.insert(0, f"{line}. For final values: {final}")
    line = next((short for short in shorter if len(short) <= _LONGEST), line)
    return Note("note", text, line)


def _once(plan: Plan, values: Sequence[str]) -> str | None:
    """Return the query without the aggregates in the select list, or None if the query has several SELECTs."""
    state, part = _only_state(plan)
    if state is None or part is None or not isinstance(state.operator, Grouped) or any(thresholds(part.input)):
        return None
    known = meanings(plan.evaluated)
    others = [output.value for output in part.outputs if not _is_measured(output.value, state, part)]
    kept = [scalar_words(substitute(value, known)) for value in others]
    having = condition_words(substitute(condition(part.input), known))
    if not having and values[0].startswith("COUNT("):
        having = f"{values[0]} > 5"
    if not kept or not having:
        return None
    return f"SELECT {', '.join(kept)} … HAVING {having}"


def _is_measured(value: Scalar, state: StateSchema, part: Query) -> bool:
    (scan,) = sources(part.input)
    assert isinstance(scan, Scan)
    return bool(mentioned(value) & set(_measured(scan, state)))


def _only_state(plan: Plan) -> tuple[StateSchema | None, Query | None]:
    parts = blocks(plan.evaluated)
    if len(parts) != 1:
        return None, None
    read = sources(parts[0].input)
    if len(read) != 1 or not isinstance(read[0], Scan) or not isinstance(read[0].table, StateSchema):
        return None, None
    return read[0].table, parts[0]


def _final(plan: Plan) -> str | None:
    """Return the condition for the end of a window of time, if a group is an instant that is computed from a column."""
    state, part = _only_state(plan)
    operator = None if state is None else written(state)
    if not isinstance(operator, Grouped) or part is None or any(thresholds(part.input)):
        return None
    for output in operator.groups:
        if output.value.type == TIMESTAMP and not isinstance(output.value, ColumnRef):
            begun = substitute(output.value, meanings(operator.input))
            if scalar_words(begun).startswith("WINDOW("):
                return "HAVING window.end <= NOW()"
            unit = _unit(output.value)
            return f"HAVING NOW() >= {scalar_words(begun)} + INTERVAL 1 {unit}" if unit else None
    return None


def _unit(value: Scalar) -> str | None:
    """Return the unit of a DATE_TRUNC, or None for another function."""
    if isinstance(value, Call) and value.name == "date_trunc" and isinstance(value.args[0], Literal):
        return str(value.args[0].value).upper()
    return None


def _numbers(state: StateSchema) -> bool:
    """Return whether a function of the state needs a total order of different rows."""
    operator = state.operator
    return isinstance(operator, Windowed) and any(
        any(key.value not in operator.partition for key in each.order)
        and (each.function in ("row_number", "lag", "lead") or (each.frame is not None and each.frame.unit == "rows"))
        for each in operator.functions
    )
