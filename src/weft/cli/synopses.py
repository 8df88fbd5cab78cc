"""Print the explanation of a synopsis: its formulas, the rows that it reads, and the rows that it stores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from weft.api.json.explanations import synopsis_json
from weft.cli import terminal
from weft.cli.printing import lines, print_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.planning.synopsis_words import SynopsisExplanation


def print_synopsis(explanation: SynopsisExplanation, assumed: str | None, *, full: bool, json: bool) -> None:
    """Print the explanation of a synopsis.  ``assumed`` is the note on assumed tables, if any."""
    if json:
        print_json(synopsis_json(explanation, assumed))
        return
    if assumed:
        typer.echo(f"({assumed})\n", terminal.out())
    typer.echo(lines("\n".join(as_text(explanation) if full else explanation.brief)), terminal.out())


def _triple(explanation: SynopsisExplanation) -> Iterator[str]:
    if not explanation.relations:
        return
    yield "∅: every relation starts empty"
    yield "Δ: after a state"
    yield from (f"  {rule}" for rule in explanation.delta)
    yield "Γ: the answers at a state"
    yield from (f"  {formula}" for formula in explanation.gamma)
    yield ""


def as_text(explanation: SynopsisExplanation) -> Iterator[str]:
    """Yield the explanation as lines of text."""
    if explanation.history:
        yield (
            "Evaluated over the stored history: each tick with new rows reads the tables of the query in full, "
            "without Spark."
        )
        yield f"The reason: {explanation.history}."
    else:
        yield "Maintained as a synopsis: each tick reads the new rows and no earlier rows, without Spark."
    yield f"In the synopsis, {explanation.states}."
    yield ""
    yield (
        "The answers are those of" if len(explanation.formulas) == 1 else "The answers are those of all these formulas"
    )
    yield from (f"  {formula}" for formula in explanation.formulas)
    yield ""
    yield "where"
    for predicate in explanation.predicates:
        conditions = f" WHERE {' AND '.join(predicate.conditions)}" if predicate.conditions else ""
        columns = ", ".join(predicate.columns) or "1"
        yield f"  {predicate.name} is SELECT {columns} FROM {predicate.table} AS e{conditions}"
    yield ""
    yield "Stored between ticks" if explanation.relations else "Nothing is stored between ticks."
    for number, relation in enumerate(explanation.relations, 1):
        yield f"  R{number}: {relation.formula}"
        columns = ", ".join(f"{name} {type_}" for name, type_ in relation.columns)
        yield f"     {relation.name}: {columns}; key {', '.join(relation.key) or '(one row)'}"
        yield f"     {relation.bound}"
    if explanation.relations:
        yield "  with |D| values so far, |T| states, dupl(S) duplicates of a row in a state, w states in an interval"
    yield ""
    yield from _triple(explanation)
    yield f"Verdict: {explanation.verdict}"
    for fault in explanation.faults:
        yield f"  {fault.formula}: {fault.reason}"
        if fault.bounded:
            yield f"  A similar formula that is bounded: {fault.bounded}"
            yield "  The same formula is bounded with smallest and greatest counts: --language mutl-minmax"
    yield ""
    yield f"Plan {explanation.signature}"
