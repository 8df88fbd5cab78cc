"""Formulas answered along logs in files: MonPoly's triples of signature, formula and log, and DejaVu's pairs.

No home is needed, nothing is stored, and Spark is not asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from weft.derivation.synopsis.prepared import Semantics
from weft.errors import Refused
from weft.execution.monitoring import monitor
from weft.extraction.log_files import in_file, lines_of, opened_text, text_of
from weft.formula.dejavu.log import events
from weft.formula.dejavu.violations import properties
from weft.formula.empty_points import relevant
from weft.formula.monpoly_log import time_points
from weft.formula.parse_formula import Reading, counted_reading, reading
from weft.formula.signature import Signature, signature
from weft.formula.twofol.resolve import two_sorted
from weft.formula.verdicts import answers, verdict
from weft.planning.two_sorted_plan import planned, verdict_on_history

FormulaLanguage: TypeAlias = Literal["monpoly", "mutl", "mutl-minmax", "2fol"]


@dataclass(frozen=True)
class Options:
    """What is asked of a run beside its files.

    ``language`` of the formula; ``duplicates``: answers are counted, as µTL's always are; ``negate``: the formula's NOT
    is answered; ``every_point``: time points without answers are printed; ``empty_points``: so are
    those that have no event the formula speaks of, which MonPoly leaves out where that changes no answer.
    """

    negate: bool = False
    every_point: bool = False
    empty_points: bool = False
    language: FormulaLanguage = "monpoly"
    duplicates: bool = False


def verdicts(
    known: Path, formula: Path, log: Path, options: Options, note: Callable[[str], None] = lambda told: None
) -> Iterator[str]:
    """The lines that MonPoly prints for a formula and a log; raises FormulaError for what cannot be taken.

    ``note`` is given what a person should know of the formula before.
    """
    with in_file(known):
        columns = signature(text_of(known))
    with in_file(formula):
        read, semantics = formula_read(text_of(formula), columns, options, note)
    yield from lines(read, columns, log, options, semantics)


def formula_read(
    text: str, known: Signature, options: Options, note: Callable[[str], None]
) -> tuple[Reading, Semantics]:
    """A formula in the language of the options, and whether its answers are counted; raises FormulaError, Refused."""
    if options.language != "monpoly" and options.negate:
        raise Refused(f"--negate is for MonPoly's formulas, and this one is {options.language}", hint="Write NOT.")
    match options.language:
        case "monpoly" if options.duplicates:
            raise Refused("MonPoly's formulas do not count duplicates", hint="Write it in mutl, or leave it out.")
        case "monpoly":
            return reading(text, known, negate=options.negate), "set"
        case "mutl":
            return counted_reading(text, known), "bag"
        case "mutl-minmax":
            return counted_reading(text, known), "minmax"
        case "2fol":
            semantics: Semantics = "bag" if options.duplicates else "set"
            plan = planned(two_sorted(text, known), semantics)
            if plan.history is not None:
                note(f"{plan.history}; the log is kept ({verdict_on_history(semantics)})")
            return plan.reading, semantics


def lines(read: Reading, known: Signature, log: Path, options: Options, semantics: Semantics = "set") -> Iterator[str]:
    """The lines that MonPoly prints for a formula that has been read; with duplicates each answer with its count."""
    filtered = options.every_point and not options.empty_points and options.language == "monpoly"
    kept = relevant(read.formula) if filtered else None
    with opened_text(log) as stream:
        points = time_points(stream, known, str(log))
        for answered in monitor(read.formula, read.columns, points, semantics=semantics):
            if kept is not None and not kept(answered.point):
                continue
            shown = answers(answered.rows, answered.counts, closed=not read.columns, every_point=options.every_point)
            if shown is not None:
                yield verdict(answered.point.at, answered.point.number, shown)


def violations(specification: Path, log: Path) -> Iterator[tuple[str, int]]:
    """The properties of a DejaVu specification that events of a log violate, with the events' numbers from 1.

    A log with ``.timed.`` in its name has the time as the last value of each event, as for DejaVu.
    """
    with in_file(specification):
        found = properties(text_of(specification))
    for each in found.properties:
        with opened_text(log) as stream:
            states = events(lines_of(stream, str(log)), found.events, timed=".timed." in log.name, name=str(log))
            for answered in monitor(each.violated, (), states):
                if answered.rows:
                    yield each.name, answered.point.number + 1
