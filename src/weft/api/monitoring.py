"""Evaluate formulas over logs in files: MonPoly's signature, formula and log, or DejaVu's specification and log.

This needs no home and no Spark, and stores nothing.
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
from weft.formula.written import answers, verdict
from weft.planning.formula_plan import planned, verdict_on_history

FormulaLanguage: TypeAlias = Literal["monpoly", "mutl", "mutl-minmax", "2fol"]


@dataclass(frozen=True)
class Options:
    """Options of a monitoring run.

    ``language`` is the formula's language.  ``duplicates`` counts answers; µTL always does.  ``negate`` evaluates the
    negated formula.  ``every_point`` prints time points without answers, except those without an event that the formula
    mentions, if that changes no answer, as MonPoly does; ``empty_points`` prints those too.
    """

    negate: bool = False
    every_point: bool = False
    empty_points: bool = False
    language: FormulaLanguage = "monpoly"
    duplicates: bool = False


def verdicts(
    known: Path, formula: Path, log: Path, options: Options, note: Callable[[str], None] = lambda _: None
) -> Iterator[str]:
    """Yield the lines that MonPoly prints for a formula and a log; raise FormulaError.

    ``note`` is called with remarks on the formula before the first line.
    """
    with in_file(known):
        columns = signature(text_of(known))
    with in_file(formula):
        read, semantics = parse_formula(text_of(formula), columns, options, note)
    yield from lines(read, columns, log, options, semantics)


def parse_formula(
    text: str, known: Signature, options: Options, note: Callable[[str], None]
) -> tuple[Reading, Semantics]:
    """Parse a formula in the language of the options, and return its semantics as well; raise FormulaError or
    Refused.
    """
    if options.language != "monpoly" and options.negate:
        raise Refused(f"--negate applies to MonPoly formulas, and this one is {options.language}", hint="Write NOT.")
    match options.language:
        case "monpoly" if options.duplicates:
            raise Refused(
                "MonPoly formulas do not count duplicates", hint="Write the formula in mutl, or omit --duplicates."
            )
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
                note(f"{plan.history}; the log is stored ({verdict_on_history(semantics)})")
            return plan.reading, semantics


def lines(read: Reading, known: Signature, log: Path, options: Options, semantics: Semantics = "set") -> Iterator[str]:
    """Yield the lines that MonPoly prints for a parsed formula; answers with duplicates have their counts."""
    filtered = options.every_point and not options.empty_points and options.language == "monpoly"
    is_relevant = relevant(read.formula) if filtered else None
    with opened_text(log) as stream:
        points = time_points(stream, known, str(log))
        for answered in monitor(read.formula, read.columns, points, semantics=semantics):
            if is_relevant is not None and not is_relevant(answered.point):
                continue
            shown = answers(answered.rows, answered.counts, closed=not read.columns, every_point=options.every_point)
            if shown is not None:
                yield verdict(answered.point.at, answered.point.number, shown)


def violations(specification: Path, log: Path) -> Iterator[tuple[str, int]]:
    """Yield each property of a DejaVu specification that an event violates, with the event's number, from 1.

    If the log's name contains ``.timed.``, the last value of each event is its time, as in DejaVu.
    """
    with in_file(specification):
        specified = properties(text_of(specification))
    for each in specified.properties:
        with opened_text(log) as stream:
            states = events(lines_of(stream, str(log)), specified.events, timed=".timed." in log.name, name=str(log))
            for answered in monitor(each.violated, (), states):
                if answered.rows:
                    yield each.name, answered.point.number + 1
