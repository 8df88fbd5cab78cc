"""Evaluate formulas over log files, in the formats of MonPoly and DejaVu.

For MonPoly, the input files are a signature, a formula and a log.  For DejaVu, the input files are a specification and
a log.  The evaluation needs no home and no Spark, and stores nothing.

``judge_cases`` compares the results of many formulas and logs with expected verdicts.  A file of cases has one JSON
object per line.  Paths in a file of cases are relative to the parent of the file's folder.  A MonPoly case has ``id``,
``formula`` (its text), ``sig``, ``log``, ``flags`` (MonPoly's), ``monitorable`` and ``verdicts`` (``{"ts", "tp",
"result"}``).  A DejaVu case has ``id``, ``spec``, ``log`` and ``violations`` (the numbers of events).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from weft.derivation.synopsis.prepared import Semantics
from weft.errors import Refused, WeftError
from weft.execution.monitoring import monitor
from weft.execution.synopsis.conjoining import DivisionByZero
from weft.extraction.logs import in_file, lines_of, opened_text, text_of
from weft.formula.dejavu.log import events
from weft.formula.dejavu.violations import properties
from weft.formula.empty_points import relevant
from weft.formula.monpoly_log import time_points
from weft.formula.parse_formula import ParsedFormula, counted_reading, reading
from weft.formula.signature import Signature, signature
from weft.formula.twofol.resolve import two_sorted
from weft.formula.written import answers, verdict
from weft.planning.formula_plan import planned, verdict_on_history

FormulaLanguage: TypeAlias = Literal["monpoly", "mutl", "mutl-minmax", "2fol"]


@dataclass(frozen=True)
class Options:
    """The options of a monitoring run.

    ``language`` is the language of the formula.  Answers have counts if ``duplicates`` is true or the language is µTL.
    With ``negate``, Weft evaluates the negation of the formula.  With ``every_point``, the output includes time points
    without answers.  A time point is irrelevant if its events do not occur in the formula and no answer depends on the
    time point.  With ``empty_points``, the output includes irrelevant time points.
    """

    negate: bool = False
    every_point: bool = False
    empty_points: bool = False
    language: FormulaLanguage = "monpoly"
    duplicates: bool = False


def verdicts(
    known: Path, formula: Path, log: Path, options: Options, note: Callable[[str], None] = lambda _: None
) -> Iterator[str]:
    """Yield the lines of output for a formula and a log, in the format of MonPoly.  Raise FormulaError.

    ``note`` receives remarks on the formula.
    """
    with in_file(known):
        columns = signature(text_of(known))
    with in_file(formula):
        read, semantics = parse_formula(text_of(formula), columns, options, note)
    yield from lines(read, columns, log, options, semantics)


def parse_formula(
    text: str, known: Signature, options: Options, note: Callable[[str], None]
) -> tuple[ParsedFormula, Semantics]:
    """Parse a formula, and return it with its semantics.  Raise FormulaError or Refused."""
    if options.language != "monpoly" and options.negate:
        raise Refused(
            f"--negate applies to MonPoly formulas, but this formula is in the language {options.language}",
            hint="Write NOT in the formula.",
        )
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
                note(f"{plan.history}. Weft stores the log instead: {verdict_on_history(semantics)}")
            return plan.reading, semantics


def lines(
    read: ParsedFormula, known: Signature, log: Path, options: Options, semantics: Semantics = "set"
) -> Iterator[str]:
    """Yield the lines of output for a parsed formula, in the format of MonPoly.  With duplicates, each answer has its
    count.
    """
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
    """Yield a pair (property, event number) for each violation of a DejaVu specification.

    The first event has the number 1.  If the file name of the log contains ``.timed.``, the last value of each event is
    the time of the event.
    """
    with in_file(specification):
        specified = properties(text_of(specification))
    for each in specified.properties:
        with opened_text(log) as stream:
            states = events(lines_of(stream, str(log)), specified.events, timed=".timed." in log.name, name=str(log))
            for answered in monitor(each.violated, (), states):
                if answered.rows:
                    yield each.name, answered.point.number + 1


_SECOND = 1_000_000
_DIVIDED: Final = "Fatal error: exception Division_by_zero"
Outcome = Literal["same", "refused", "other"]


@dataclass(frozen=True)
class CaseOutcome:
    """The outcome of a test case.

    ``same`` means that the verdicts are the expected ones.  ``refused`` means that Weft refused the formula as
    expected.  ``other`` means that the outcome differs as described in ``difference``.
    """

    id: str
    outcome: Outcome
    difference: str = ""


def judge_cases(file: Path) -> Iterator[CaseOutcome]:
    """Run the cases in a file and yield their outcomes.  Raise Refused for a line that is not a case."""
    folder = file.resolve().parent.parent
    for number, line in enumerate(text_of(file).splitlines(), 1):
        if not line.strip():
            continue
        try:
            case = json.loads(line)
            name = str(case["id"])
        except (ValueError, KeyError, TypeError):
            raise Refused(
                "the line is not a case: a case is a JSON object with an id", where=f"{file}:{number}"
            ) from None
        yield _judge_case(name, case, folder)


def _judge_case(name: str, case: Mapping[str, Any], folder: Path) -> CaseOutcome:
    try:
        actual, expected = _dejavu_verdicts(case, folder) if "spec" in case else _monpoly_verdicts(case, folder)
    except KeyError as missing:
        raise Refused(
            f"the case {name} has no {missing}",
            hint="Add the field. The reference on temporal logic lists the fields of a case.",
        ) from None
    except WeftError as error:
        if _expects_refusal(case):
            return CaseOutcome(name, "refused")
        return CaseOutcome(name, "other", error.message)
    if _expects_refusal(case):
        return CaseOutcome(name, "other", "a refusal was expected, but the formula was answered")
    if actual == expected:
        return CaseOutcome(name, "same")
    return CaseOutcome(name, "other", _difference(actual, expected))


def _expects_refusal(case: Mapping[str, Any]) -> bool:
    """Return True if MonPoly refuses the formula, or if the formula refers to the future."""
    if "spec" in case:
        return False
    printed = case.get("output") or [""]
    fatal = str(printed[0]).startswith("Fatal error")
    return not case.get("monitorable", True) or not case.get("past_only", True) or fatal


def _monpoly_verdicts(case: Mapping[str, Any], folder: Path) -> tuple[list[str], list[str]]:
    flags = case.get("flags", [])
    options = Options("-negate" in flags, "-verbose" in flags, "-nofilteremptytp" in flags)
    known = signature(text_of(folder / case["sig"]))
    read = reading(case["formula"], known, negate=options.negate)
    expected = [verdict(int(each["ts"]) * _SECOND, each["tp"], each["result"]) for each in case["verdicts"]]
    actual: list[str] = []
    try:
        actual.extend(lines(read, known, folder / case["log"], options))
    except DivisionByZero:
        if _DIVIDED not in case.get("output", ()):
            raise
    return actual, expected


def _dejavu_verdicts(case: Mapping[str, Any], folder: Path) -> tuple[list[str], list[str]]:
    actual = sorted(number for _, number in violations(folder / case["spec"], folder / case["log"]))
    return list(map(str, actual)), list(map(str, case["violations"]))


def _difference(actual: list[str], expected: list[str]) -> str:
    for one, other in zip(actual, expected, strict=False):
        if one != other:
            return f"{one} where {other} was expected"
    if len(actual) > len(expected):
        return f"{actual[len(expected)]} where nothing more was expected"
    return f"nothing more where {expected[len(actual)]} was expected"
