"""How a synopsis is shown: its formulas, what they are over, and what is stored."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from weft.cli import terminal
from weft.cli.printing import lines, say_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.planning.synopsis_words import SynopsisExplanation


def tell_synopsis(found: SynopsisExplanation, assumed: str | None, *, full: bool, json: bool) -> None:
    """Prints what is or would be stored of a query; ``assumed`` says over which tables, where there are none."""
    if json:
        say_json(_as_json(found, assumed))
        return
    if assumed:
        typer.echo(f"({assumed})\n", terminal.out())
    typer.echo(lines("\n".join(as_text(found) if full else found.brief)), terminal.out())


def _as_json(found: SynopsisExplanation, assumed: str | None) -> dict[str, object]:
    return {
        "plan": found.signature,
        "columns": [{"name": name, "type": str(type_)} for name, type_ in found.columns],
        "states": found.states,
        "formulas": list(found.formulas),
        "predicates": [asdict(each) for each in found.predicates],
        "relations": [
            {**asdict(each), "columns": [{"name": name, "type": str(type_)} for name, type_ in each.columns]}
            for each in found.relations
        ],
        "gamma": list(found.gamma),
        "delta": list(found.delta),
        "history": found.history,
        "verdict": found.verdict,
        "faults": [asdict(each) for each in found.faults],
        "assumed": assumed,
        "name": found.name,
        "brief": list(found.brief),
    }


def _triple(found: SynopsisExplanation) -> Iterator[str]:
    """∅, Δ and Γ, in terms of the relations above."""
    if not found.relations:
        return
    yield "∅: every relation begins without rows"
    yield "Δ: after a state"
    yield from (f"  {rule}" for rule in found.delta)
    yield "Γ: the answers at a state"
    yield from (f"  {formula}" for formula in found.gamma)
    yield ""


def as_text(found: SynopsisExplanation) -> Iterator[str]:
    """An explanation in lines for a person."""
    if found.history:
        yield "Asked of the kept history: each tick with new rows reads its tables from the beginning, without Spark."
        yield f"That is so because {found.history}."
    else:
        yield "Kept as a synopsis: each tick takes in what arrived and looks at no earlier row, without Spark."
    yield f"In it {found.states}."
    yield ""
    yield "Answers are those of" if len(found.formulas) == 1 else "Answers are those of all of"
    yield from (f"  {formula}" for formula in found.formulas)
    yield ""
    yield "where"
    for predicate in found.predicates:
        conditions = f" WHERE {' AND '.join(predicate.conditions)}" if predicate.conditions else ""
        columns = ", ".join(predicate.columns) or "1"
        yield f"  {predicate.name} is SELECT {columns} FROM {predicate.table} AS e{conditions}"
    yield ""
    yield "Stored between ticks" if found.relations else "Nothing is stored between ticks."
    for number, relation in enumerate(found.relations, 1):
        yield f"  R{number}: {relation.formula}"
        columns = ", ".join(f"{name} {type_}" for name, type_ in relation.columns)
        yield f"     {relation.name}: {columns}; key {', '.join(relation.key) or '(one row)'}"
        yield f"     {relation.bound}"
    if found.relations:
        yield "  where |D| values have been there, |T| states, dupl(S) of a row in one of them, w states in an interval"
    yield ""
    yield from _triple(found)
    yield f"Verdict: {found.verdict}"
    for fault in found.faults:
        yield f"  {fault.formula}: {fault.reason}"
        if fault.bounded:
            yield f"  bounded is {fault.bounded}"
            yield "  and the formula as it is by smallest and greatest counts: --language mutl-minmax"
    yield ""
    yield f"Plan {found.signature}"
