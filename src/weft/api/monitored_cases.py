"""Many formulas and logs with the verdicts that are expected of them, answered in one go.

A file of cases has a JSON object a line; paths are relative to the folder above the file's.  A case of MonPoly has
``id``, ``formula`` (its text), ``sig``, ``log``, ``flags`` (MonPoly's), ``monitorable`` and ``verdicts``
(``{"ts", "tp", "result"}``), a case of DejaVu ``id``, ``spec``, ``log`` and ``violations`` (the numbers of events).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from weft.api.monitoring import Options, lines, violations
from weft.errors import Refused, WeftError
from weft.execution.synopsis.divided import DivisionByZero
from weft.extraction.log_files import text_of
from weft.formula.parse_formula import reading
from weft.formula.signature import signature
from weft.formula.verdicts import verdict

_SECOND = 1_000_000
_DIVIDED: Final = "Fatal error: exception Division_by_zero"
"""What MonPoly prints where it ends with a division by 0, after the verdicts before it."""
Outcome = Literal["same", "refused", "other"]


@dataclass(frozen=True)
class Judged:
    """A case with how it came out: ``same`` verdicts, ``refused`` as expected, or ``other``, with what differs."""

    id: str
    outcome: Outcome
    told: str = ""


def judged(file: Path) -> Iterator[Judged]:
    """The cases of a file, one after the other; raises Refused for a line that is no case."""
    folder = file.resolve().parent.parent
    for number, line in enumerate(text_of(file).splitlines(), 1):
        if not line.strip():
            continue
        try:
            case = json.loads(line)
            name = str(case["id"])
        except (ValueError, KeyError, TypeError):
            raise Refused("the line is no case: a JSON object with an id is wanted", where=f"{file}:{number}") from None
        yield _judged(name, case, folder)


def _judged(name: str, case: Mapping[str, Any], folder: Path) -> Judged:
    try:
        found, expected = _of_dejavu(case, folder) if "spec" in case else _of_monpoly(case, folder)
    except KeyError as missing:
        raise Refused(f"the case {name} has no {missing}", hint="A case has the fields that the page says.") from None
    except WeftError as error:
        if _to_be_refused(case):
            return Judged(name, "refused")
        return Judged(name, "other", error.message)
    if _to_be_refused(case):
        return Judged(name, "other", "it is to be refused, and was answered")
    if found == expected:
        return Judged(name, "same")
    return Judged(name, "other", _difference(found, expected))


def _to_be_refused(case: Mapping[str, Any]) -> bool:
    """Whether the case's authors refuse its formula, or it looks ahead."""
    if "spec" in case:
        return False
    printed = case.get("output") or [""]
    fatal = str(printed[0]).startswith("Fatal error")
    return not case.get("monitorable", True) or not case.get("past_only", True) or fatal


def _of_monpoly(case: Mapping[str, Any], folder: Path) -> tuple[list[str], list[str]]:
    flags = case.get("flags", [])
    options = Options("-negate" in flags, "-verbose" in flags, "-nofilteremptytp" in flags)
    known = signature(text_of(folder / case["sig"]))
    read = reading(case["formula"], known, negate=options.negate)
    expected = [verdict(int(each["ts"]) * _SECOND, each["tp"], each["result"]) for each in case["verdicts"]]
    found: list[str] = []
    try:
        found.extend(lines(read, known, folder / case["log"], options))
    except DivisionByZero:
        if _DIVIDED not in case.get("output", ()):
            raise
    return found, expected


def _of_dejavu(case: Mapping[str, Any], folder: Path) -> tuple[list[str], list[str]]:
    found = sorted(number for _, number in violations(folder / case["spec"], folder / case["log"]))
    return list(map(str, found)), list(map(str, case["violations"]))


def _difference(found: list[str], expected: list[str]) -> str:
    """The first place at which two lists differ."""
    for one, other in zip(found, expected, strict=False):
        if one != other:
            return f"{one} instead of {other}"
    if len(found) > len(expected):
        return f"{found[len(expected)]}, and nothing more was expected"
    return f"nothing more, and {expected[len(found)]} was expected"
