"""The rules of the program agree with the definitions that the proofs are about.

Each case is a random relation over a random history. ``coqc`` computes ``at``, ``starts`` and ``ends`` of the term at
each instant. The other side is what ``derivation/replay`` derives, evaluated by nested loops.
"""

from __future__ import annotations

import ast
import os
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from proofs.conftest import Checked
from proofs.drawn_relations import LAST, Chance, Stored, number
from proofs.literal_meaning import T0, Tables, occurrences, rows
from weft.algebra.event import Event, Instant
from weft.algebra.relation import Project
from weft.algebra.scalar import Literal
from weft.algebra.schema import TIMESTAMP
from weft.derivation.merge import merged
from weft.derivation.replay import at, ends, starts

pytestmark = pytest.mark.timeout(1800)
INSTANTS = range(T0, LAST + 1)
Row = tuple[int, int | None]
Answer = tuple[list[Row], list[Row], tuple[list[Row], list[Row]]]
"""At an instant: the rows, the rows just before, and the rows of the events of ``starts`` and ``ends``."""
OPENING = """From Coq Require Import ZArith List. Import ListNotations. Open Scope Z_scope.
From Weft Require Import Multisets Relation Tables Predicates Operators Laws.
Set Printing Width 1000000. Set Printing Depth 1000000.
Notation row := (Z * option Z)%type.
Definition history (E : relation row) :=
  map (fun s => (at_instant E s, at_instant E (s - 1), (starts E s, ends E s))) (window 0 10).
"""


def _lives(stored: Stored, *, ending: bool) -> str:
    """Return the rows of a table as a term."""
    rows = [
        f"Life ({row['k']}, {number(row['c'])}) {row['ts']} {number(row['te'])}"
        if ending
        else f"(({row['k']}, {number(row['c'])}), {row['ts']})"
        for row in stored
    ]
    return f"[{'; '.join(rows)}]"


def _question(history: dict[str, Stored], term: str) -> str:
    kept, staff = _lives(history["kept"], ending=False), _lives(history["staff"], ending=True)
    return (
        f"Eval vm_compute in (let kept : list (row * Z) := {kept} in let staff : list (life row) := {staff} in "
        f"history {term})."
    )


def _computed(folder: Path, questions: Sequence[str]) -> list[list[Answer]]:
    """Return what ``coqc`` computes for each question, for each instant."""
    (folder / "Cases.v").write_text(OPENING + "\n".join(questions) + "\n")
    done = subprocess.run(
        ["coqc", "-q", "-Q", ".", "Weft", "Cases.v"], cwd=folder, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    answers = [line.strip() for line in done.stdout.splitlines() if line.strip().startswith("= ")]
    return [ast.literal_eval(line[2:].replace("Some ", "").replace(";", ",")) for line in answers]


def _now(relation: Project, tables: Tables, s: int, *, before: bool) -> Counter[Row]:
    """Return the rows at an instant, or just before it, with their multiplicities."""
    replayed = at(relation, Instant(Literal(s, TIMESTAMP), before))
    return Counter(tuple(bound[relation.alias].values()) for bound in rows(replayed, tables, {}))


def _events(events: Sequence[Event], tables: Tables) -> set[tuple[Row, int]]:
    """Return the rows and instants of events, from the beginning of time on."""
    found = {pair for event in events for branch in merged(event) for pair in occurrences(branch, tables)}
    return {(row, s) for row, s in found if s in INSTANTS}


@pytest.mark.parametrize("count", [120, pytest.param(6_000, marks=pytest.mark.slow)])
def test_the_rules_are_those_that_are_proved(checked: Checked, count: int) -> None:
    chance = Chance(int(os.environ.get("WEFT_SEED", "1")) + count)
    cases = [(chance.history(), *chance.answer(chance.random.randint(1, 4))) for _ in range(count)]
    computed = _computed(checked.folder, [_question(history, term) for history, _, term in cases])
    assert len(computed) == len(cases)
    eventful = 0
    for (history, relation, term), answer in zip(cases, computed, strict=True):
        begun, ended = _events(starts(relation), history), _events(ends(relation), history)
        for s, (now, before, (starting, ending)) in zip(INSTANTS, answer, strict=True):
            where = f"at {s} of {term} over {history}"
            assert Counter(now) == _now(relation, history, s, before=False), where
            assert Counter(before) == _now(relation, history, s, before=True), where
            assert set(starting) == {row for row, instant in begun if instant == s}, where
            assert set(ending) == {row for row, instant in ended if instant == s}, where
        eventful += bool(begun and ended)
    assert eventful > len(cases) / 4, "too few of the cases change"
