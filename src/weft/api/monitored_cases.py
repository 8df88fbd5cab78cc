"""Check many formulas and logs against their expected verdicts.

A file of cases has one JSON object per line.  Paths in it are relative to the parent of the file's folder.  A MonPoly
case has ``id``, ``formula`` (its text), ``sig``, ``log``, ``flags`` (MonPoly's), ``monitorable`` and ``verdicts``
(``{"ts", "tp", "result"}``).  A DejaVu case has ``id``, ``spec``, ``log`` and ``violations`` (the numbers of events).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from weft.api.monitoring import Options, lines, violations
from weft.errors import Refused, WeftError
from weft.execution.synopsis.conjoining import DivisionByZero
from weft.extraction.log_files import text_of
from weft.formula.parse_formula import reading
from weft.formula.signature import signature
from weft.formula.written import verdict

_SECOND = 1_000_000
_DIVIDED: Final = "Fatal error: exception Division_by_zero"
"""What MonPoly prints, after earlier verdicts, when it stops at a division by 0."""
Outcome = Literal["same", "refused", "other"]


@dataclass(frozen=True)
class CaseOutcome:
    """The outcome of a case: the ``same`` verdicts, ``refused`` as expected, or ``other`` with the difference."""

    id: str
    outcome: Outcome
    difference: str = ""


def judge_cases(file: Path) -> Iterator[CaseOutcome]:
    """Run the cases of a file one by one; raise Refused for a line that is not a case."""
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
            f"the case {name} has no {missing}", hint="The reference on temporal logic lists the fields of a case."
        ) from None
    except WeftError as error:
        if _expects_refusal(case):
            return CaseOutcome(name, "refused")
        return CaseOutcome(name, "other", error.message)
    if _expects_refusal(case):
        return CaseOutcome(name, "other", "a refusal was expected, and the formula was answered")
    if actual == expected:
        return CaseOutcome(name, "same")
    return CaseOutcome(name, "other", _difference(actual, expected))


def _expects_refusal(case: Mapping[str, Any]) -> bool:
    """Return whether the case expects a refusal: its authors refuse the formula, or the formula looks ahead."""
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
    """Describe the first difference between two lists."""
    for one, other in zip(actual, expected, strict=False):
        if one != other:
            return f"{one} instead of {other}"
    if len(actual) > len(expected):
        return f"{actual[len(expected)]}, and nothing more was expected"
    return f"nothing more, and {expected[len(actual)]} was expected"
