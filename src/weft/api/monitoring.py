"""Formulas answered along logs in files: MonPoly's triples of signature, formula and log, and DejaVu's pairs.

No home is needed, nothing is stored, and Spark is not asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from weft.execution.monitoring import monitored
from weft.extraction.log_files import in_file, opened_text, text_of
from weft.formula.dejavu import properties
from weft.formula.dejavu_log import events
from weft.formula.empty_points import relevant
from weft.formula.monpoly_log import time_points
from weft.formula.reading import Reading, reading
from weft.formula.signature import Signature, signature
from weft.formula.verdicts import answers, verdict


@dataclass(frozen=True)
class Options:
    """What is asked of a run beside its files.

    ``negate`` the formula's NOT; ``every_point``: time points without answers are printed; ``empty_points``: so are
    those that have no event the formula speaks of, which MonPoly leaves out where that changes no answer.
    """

    negate: bool = False
    every_point: bool = False
    empty_points: bool = False


def verdicts(known: Path, formula: Path, log: Path, options: Options) -> Iterator[str]:
    """The lines that MonPoly prints for a formula and a log; raises FormulaError for what cannot be taken."""
    with in_file(known):
        columns = signature(text_of(known))
    with in_file(formula):
        read = reading(text_of(formula), columns, negate=options.negate)
    yield from lines(read, columns, log, options)


def lines(read: Reading, known: Signature, log: Path, options: Options) -> Iterator[str]:
    """The lines that MonPoly prints for a formula that has been read."""
    kept = relevant(read.formula) if options.every_point and not options.empty_points else None
    with opened_text(log) as stream:
        for answered in monitored(read.formula, read.columns, time_points(stream, known, str(log))):
            if kept is not None and not kept(answered.point):
                continue
            shown = answers(answered.rows, closed=not read.columns, every_point=options.every_point)
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
            states = events(stream, found.events, timed=".timed." in log.name, name=str(log))
            for answered in monitored(each.violated, (), states):
                if answered.rows:
                    yield each.name, answered.point.number + 1
